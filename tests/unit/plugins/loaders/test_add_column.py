"""The statement that adds a missing column, in the target's types."""

import pytest

from cdcbus.plugins.contracts import TargetTable
from cdcbus.plugins.loaders.add_column import add_column, add_columns
from cdcbus.plugins.rowchange import Column, TableId


def statement(dialect: str, mysql_type: str) -> str:
    return add_column(
        TargetTable(TableId("shop", "Order"), {}, (), dialect=dialect), Column("new", mysql_type)
    )


@pytest.mark.parametrize(
    ("mysql_type", "postgresql", "oracle"),
    [
        ("tinyint(1)", "smallint", "NUMBER(3)"),
        ("int(10) unsigned", "bigint", "NUMBER(10)"),
        ("int unsigned zerofill", "bigint", "NUMBER(10)"),
        ("bigint(20) unsigned", "numeric(20)", "NUMBER(20)"),
        ("decimal(12,2) unsigned", "numeric(12,2)", "NUMBER(12,2)"),
        ("double", "double precision", "BINARY_DOUBLE"),
        ("varchar(40)", "varchar(40)", "VARCHAR2(40 CHAR)"),
        ("VARCHAR(40)", "varchar(40)", "VARCHAR2(40 CHAR)"),
        ("varchar(0)", "varchar(1)", "VARCHAR2(1 CHAR)"),
        ("char(0)", "char(1)", "CHAR(1 CHAR)"),
        ("binary(0)", "bytea", "RAW(1)"),
        ("varchar(4001)", "varchar(4001)", "CLOB"),
        ("char(3)", "char(3)", "CHAR(3 CHAR)"),
        ("varbinary(2001)", "bytea", "BLOB"),
        ("decimal(39, 2)", "numeric(39, 2)", "NUMBER"),
        ("text", "text", "CLOB"),
        ("enum('a(b','c')", "text", "VARCHAR2(255 CHAR)"),
        ("datetime", "timestamp(0)", "TIMESTAMP(0)"),
        ("timestamp(6)", "timestamptz(6)", "TIMESTAMP(6)"),
        ("time", "interval", "VARCHAR2(17)"),
        ("time(6)", "interval", "VARCHAR2(17)"),
        ("json", "jsonb", "CLOB"),
        ("varbinary(16)", "bytea", "RAW(16)"),
        ("bit(5)", "bit(5)", "NUMBER(20)"),
        ("uuid", "text", "VARCHAR2(36)"),
        ("", "text", "CLOB"),
    ],
)
def test_types(mysql_type: str, postgresql: str, oracle: str) -> None:
    assert (
        statement("postgresql", mysql_type)
        == f'ALTER TABLE "shop"."Order" ADD COLUMN "new" {postgresql}'
    )
    assert statement("oracle", mysql_type) == f'ALTER TABLE "shop"."Order" ADD "new" {oracle}'


@pytest.mark.parametrize(
    ("dialect", "expected"),
    [
        (
            "postgresql",
            'ALTER TABLE "shop"."Order" ADD COLUMN "new" integer, ADD COLUMN "more" text',
        ),
        ("mysql", "ALTER TABLE `shop`.`Order` ADD COLUMN `new` int, ADD COLUMN `more` longtext"),
        ("oracle", 'ALTER TABLE "shop"."Order" ADD ("new" NUMBER(10), "more" CLOB)'),
    ],
)
def test_several_columns_take_one_statement(dialect: str, expected: str) -> None:
    table = TargetTable(TableId("shop", "Order"), {}, (), dialect=dialect)
    assert add_columns(table, [Column("new", "int"), Column("more")]) == expected


@pytest.mark.parametrize(
    ("mysql_type", "same"),
    [
        ("enum('A','b')", "enum('A','b')"),
        ("", "longtext"),
        ("datetime(3)", "datetime(3)"),
        ("timestamp(3)", "timestamp(3) NULL"),
    ],
)
def test_mysql_keeps_the_source_s_type(mysql_type: str, same: str) -> None:
    assert statement("mysql", mysql_type) == f"ALTER TABLE `shop`.`Order` ADD COLUMN `new` {same}"
