"""Which new types leave cells as they are, or are refused. What servers do with them is tested on
servers."""

from __future__ import annotations

import pytest

from cdcbus.producer.ddl.rows.kept_cells import are_kept, has_own_labels

TEXT = "text"


@pytest.mark.parametrize(
    ("former", "new"),
    [
        ("int", "bigint(20)"),
        ("bigint unsigned", "tinyint"),  # refused if a number is too large
        ("bit(4)", "int"),
        ("int", "decimal(9,2)"),
        ("decimal(9,2)", "decimal(12,4)"),
        ("decimal(10,0)", "bigint"),
        ("datetime", "datetime(6)"),
        ("timestamp(3)", "timestamp(3)"),
        ("float unsigned", "float"),
        ("year", "year(4)"),
        ("varchar(20)", "varchar(40)"),
        ("char(9)", "char(10)"),
        ("char(9)", "varchar(9)"),
        ("varchar(200)", TEXT),
        ("tinytext", "varchar(255)"),
        (TEXT, "longtext"),
        (TEXT, TEXT),
        ("binary(16)", "binary(16)"),
        ("binary(16)", "varbinary(16)"),
        ("varbinary(300)", "blob"),
        ("enum('a','b''c')", "enum('a','x','b''c')"),
        ("enum('a','b')", "enum('b','a')"),
        ("set('a','b')", "set('a','x','b')"),
        ("enum('a','b')", "varchar(9)"),
        ("json", "json"),
        ("uuid", "uuid"),
        ("geometry", "point"),
        ("vector", "vector(5)"),
    ],
)
def test_values_stay_or_the_type_is_refused(former: str, new: str) -> None:
    assert are_kept(former, new)


@pytest.mark.parametrize(
    ("former", "new"),
    [
        ("", "int"),
        ("int", ""),
        ("decimal(9,2)", "int"),
        ("decimal(9,2)", "decimal(9,1)"),
        ("double", "bigint"),
        ("float", "double"),
        ("float", "float(7,2)"),
        ("int", "double"),
        ("int", "bit(64)"),
        ("int", "year"),
        ("int", "varchar(20)"),
        ("int", "enum('1','2')"),
        ("bit(8)", "varchar(9)"),
        ("float", "varchar(30)"),
        ("datetime(6)", "datetime"),
        ("date", "datetime"),
        ("timestamp", "datetime"),
        ("varchar(20)", "varchar(10)"),
        ("varchar(20)", "char(20)"),
        (TEXT, "varchar(20)"),
        (TEXT, "json"),
        ("json", TEXT),
        ("varchar(9)", "int"),
        ("varchar(9)", "varbinary(99)"),
        ("varbinary(100)", "varchar(100)"),
        ("blob", TEXT),
        ("binary(3)", "binary(16)"),
        ("varbinary(3)", "binary(3)"),
        ("varbinary(300)", "tinyblob"),
        ("enum('a','b')", "enum('a','B')"),
        ("enum('a','b')", "enum('a')"),
        ("set('a','b')", "set('b','a')"),
        ("set('a','b')", "enum('a','b')"),
        ("varchar(9)", "enum('a','b')"),
        ("uuid", "char(36)"),
        ("geometry", "blob"),
    ],
)
def test_values_may_become_others(former: str, new: str) -> None:
    assert not are_kept(former, new)


def test_labels_in_other_letters_are_read_anew_by_another_character_set() -> None:
    types = ("enum('a','é')", "set('é')", "enum('a')", "varchar(9)", "")
    assert list(map(has_own_labels, types)) == [True, True, False, False, False]
