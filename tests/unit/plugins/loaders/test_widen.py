"""Which columns of a target are too narrow for the source's."""

import pytest

from cdcbus.plugins.contracts import TargetColumn, TargetTable
from cdcbus.plugins.loaders.widen import lacking, too_narrow
from cdcbus.plugins.rowchange import Column, TableId


def wider(dialect: str, target: str, source: str) -> str | None:
    """`target`: a type with its length and scale, as `numeric(9,2)`."""
    name, _, numbers = target.removesuffix(")").partition("(")
    length, scale = [*(int(number) for number in numbers.split(",") if number), None, None][:2]
    table = TargetTable(TableId("shop", "t"), {"Name": TargetColumn("Name", name, length, scale=scale)}, (), dialect=dialect)
    return too_narrow(table, [Column("NAME", source)]).get("Name")


@pytest.mark.parametrize(
    ("target", "source", "expected"),
    [
        ("smallint", "int(11)", "integer"),
        ("smallint", "tinyint(3) unsigned", None),
        ("integer", "int(10) unsigned zerofill", "bigint"),
        ("bigint", "bigint unsigned", "numeric(20)"),
        ("bigint", "int", None),
        ("numeric(5,2)", "decimal(7,3)", "numeric(7,3)"),
        ("numeric(5,2)", "decimal(4,4)", "numeric(7,4)"),
        ("numeric(5,0)", "int", "numeric(10,0)"),
        ("numeric(9,2)", "decimal(5,2)", None),
        ("numeric", "decimal(65,30)", None),
        ("real", "double", "double precision"),
        ("character varying(3)", "varchar(40)", "varchar(40)"),
        ("character varying(300)", "text", "text"),
        ("bpchar(3)", "char(4)", "char(4)"),
        ("character varying(40)", "varchar(3)", None),
        ("character varying", "longtext", None),
        ("text", "longtext", None),
        ("character varying(3)", "enum('long label')", None),
        ("date", "datetime(6)", None),
        ("smallint", "", None),
    ],
)
def test_postgresql(target: str, source: str, expected: str | None) -> None:
    assert wider("postgresql", target, source) == expected


@pytest.mark.parametrize(
    ("target", "source", "expected"),
    [
        ("int", "bigint(20) unsigned", "bigint(20) unsigned"),
        ("int", "int unsigned", None),
        ("bigint", "tinyint", None),
        ("decimal(5,2)", "decimal(7,3)", "decimal(7,3)"),
        ("float", "double", "double"),
        ("varchar(3)", "VARCHAR(40)", "varchar(40)"),
        ("varchar(300)", "text", "text"),
        ("text(65535)", "mediumtext", "mediumtext"),
        ("longtext(4294967295)", "text", None),
        ("varbinary(8)", "blob", "blob"),
        ("varchar(3)", "varbinary(40)", None),
        ("bit(1)", "bit(8)", None),
    ],
)
def test_mysql(target: str, source: str, expected: str | None) -> None:
    assert wider("mysql", target, source) == expected


@pytest.mark.parametrize(
    ("target", "source", "expected"),
    [
        ("NUMBER(5,0)", "bigint unsigned", "NUMBER(20,0)"),
        ("NUMBER(5,2)", "decimal(65,30)", None),
        ("NUMBER", "decimal(65,30)", None),
        ("BINARY_FLOAT", "double", "BINARY_DOUBLE"),
        ("VARCHAR2(3)", "varchar(40)", "VARCHAR2(40 CHAR)"),
        ("VARCHAR2(3)", "varchar(4001)", None),
        ("RAW(3)", "varbinary(9)", "RAW(9)"),
        ("RAW(3)", "blob", None),
    ],
)
def test_oracle(target: str, source: str, expected: str | None) -> None:
    assert wider("oracle", target, source) == expected


def test_a_column_is_lacking_that_is_there_in_no_spelling() -> None:
    table = TargetTable(TableId("shop", "t"), {"Name": TargetColumn("Name", "text")}, ())
    assert lacking(table, [Column("name"), Column("new")]) == [Column("new")]
