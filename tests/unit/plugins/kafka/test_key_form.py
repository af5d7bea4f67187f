"""Which changes of a key's columns give the same row another record key."""

from __future__ import annotations

import pytest

from cdcbus.plugins.kafka.key_form import key_form, rekeyed, shown
from cdcbus.plugins.rowchange import Column, Table, TableId


@pytest.mark.parametrize(
    ("before", "after", "is_rekeyed"),
    [
        ("int(11)", "bigint unsigned", False),
        ("decimal(10,0)", "int", False),
        ("decimal(10,2)", "decimal(12,2)", False),
        ("decimal(10,2)", "decimal(10,4)", True),
        ("decimal(10,2)", "int", True),
        ("datetime", "datetime(0)", False),
        ("datetime", "datetime(6)", True),
        ("date", "datetime", True),
        ("timestamp", "datetime", True),
        ("varchar(20)", "varchar(40)", False),
        ("varchar(20)", "char(20)", False),
        ("varbinary(8)", "varbinary(9)", False),
        ("binary(8)", "binary(9)", True),
        ("float", "double", True),
        ("enum('a','b')", "enum('a','b','c')", False),
        ("enum('a','b')", "enum('x','b')", True),
        ("enum('a','b')", "enum('a','bc')", True),
        ("uuid", "char(36)", True),
        ("", "datetime(6)", False),
    ],
)
def test_types_whose_cells_have_another_text(before: str, after: str, *, is_rekeyed: bool) -> None:
    one, other = (("id", before), ("k", "int")), (("id", after), ("k", "int"))
    assert rekeyed(one, other) == rekeyed(other, one) == ({"id"} if is_rekeyed else set())


@pytest.mark.parametrize(
    ("before", "after", "columns"),
    [
        ("id", "ID", set()),
        ("id", "number", set()),  # the text of one column is the same under another name
        ("a b", "a c", {"a", "b", "c"}),  # the names decide the order
        ("a", "a b", {"a", "b"}),
        ("a", "", {"a"}),
        ("", "a", {"a"}),
        ("", "", set()),
    ],
)
def test_other_columns(before: str, after: str, columns: set[str]) -> None:
    one, other = (tuple((name, "int") for name in each.split()) for each in (before, after))
    assert rekeyed(one, other) == columns


def test_types_are_found_whatever_the_spelling_of_the_names() -> None:
    table = Table(TableId("s", "t"), (Column("id", "int"), Column("day", "date")), ("DAY", "ID"))
    assert key_form(table, (*table.key, "other")) == (("DAY", "date"), ("ID", "int"), ("other", ""))
    assert shown(key_form(table, table.key)) == "(DAY date, ID int)"
