"""Numbers that are no label of an ENUM or SET do not become one."""

from __future__ import annotations

import pytest

from cdcbus.plugins.contracts import TargetColumn, TargetTable
from cdcbus.plugins.rowchange import Column, Op, RowChange, Table, TableId
from cdcbus.plugins.transform.mapper import Mapper
from cdcbus.plugins.transform.plan import Plan

T = TableId("s", "t")


def plan(source_type: str, declared: str, dialect: str = "mysql") -> Plan:
    source = Table(T, (Column("id", "int"), Column("e", source_type)), ("id",))
    type_ = declared.partition("(")[0]
    columns = {"id": TargetColumn("id", "int"), "e": TargetColumn("e", type_, declared=declared)}
    [route] = Mapper([]).routes(T)
    return route.plan(source, TargetTable(T, columns, ("id",), dialect=dialect))


def written(by: Plan, cell: str | None) -> str | None:
    row = {"id": "1", "e": cell}
    after = by.map(RowChange(by.source, Op.INSERT, None, row)).after
    assert after is not None
    return after["e"]


@pytest.mark.parametrize(
    ("source_type", "declared", "refused", "kept"),
    [
        ("enum('1','5','10')", "enum('5','10')", ["1"], ["5", "10", "", None]),
        ("set('1','2','4')", "set('1','2')", ["4"], ["1", "2", "1,2", "1,4", "", None]),
        ("varchar(9)", "enum('a','2')", ["0", "1", " 1", "+1", "-1", "02"], ["2", "2 ", "a", "1a"]),
        ("longtext", "set('a','b')", ["3"], ["a,b", "c", None]),
    ],
)
def test_a_text_that_is_a_number_and_no_label_is_marked(
    source_type: str, declared: str, refused: list[str], kept: list[str | None]
) -> None:
    by = plan(source_type, declared)
    assert [written(by, cell) for cell in refused] == ["\0" + cell for cell in refused]
    assert [written(by, cell) for cell in kept] == kept
    # So it can be compared, and searched for, as it is.
    assert by.changed == set()


@pytest.mark.parametrize(
    ("source_type", "declared", "dialect"),
    [
        ("enum('1','5','10')", "enum('10','5','1')", "mysql"),
        ("enum('a','b')", "enum('a')", "mysql"),
        ("enum('1')", "varchar(2)", "mysql"),
        ("enum('1')", "enum('2')", "postgresql"),
        # ENUM and SET are numbers in formats without types, and integers are numbers of labels
        ("", "enum('5','10')", "mysql"),
        ("int", "enum('5','10')", "mysql"),
    ],
)
def test_rows_stay_as_they_are_elsewhere(source_type: str, declared: str, dialect: str) -> None:
    by = plan(source_type, declared, dialect)
    assert by.is_same
    assert written(by, "1") == "1"
