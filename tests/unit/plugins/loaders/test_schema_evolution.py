"""Which columns of a target are too narrow for the source's."""

import re

import pytest

from cdcbus.plugins.contracts import TargetColumn, TargetTable
from cdcbus.plugins.converters.debezium_values import column_type
from cdcbus.plugins.loaders.schema_evolution import lacking, too_narrow
from cdcbus.plugins.rowchange import Column, TableId


def wider(dialect: str, target: str, source: str | Column) -> str | None:
    """`target`: a type with its length and scale, as `numeric(9,2)`; in MySQL as it is declared."""
    if isinstance(source, str):
        source = Column("NAME", source)
    match = re.fullmatch(r"([^(]+)(?:\(([0-9]+)(?:,([0-9]+))?\))?(.*)", target)
    assert match
    name = match[1]
    length, scale = (int(number) if number else None for number in match.groups()[1:3])
    declared = target if dialect == "mysql" or name == "enum" else ""
    if dialect == "mysql":
        name = name.split()[0]
        length = length or (0 if name in ("time", "datetime", "timestamp") else None)
    if name.startswith(("TIMESTAMP", "INTERVAL")):
        name = target
    column = TargetColumn("Name", name, length, scale=scale, declared=declared)
    table = TargetTable(TableId("shop", "t"), {"Name": column}, (), dialect=dialect)
    return too_narrow(table, [source]).get("Name")


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
        ("date", "datetime(6)", "timestamp(6)"),
        ("date", "timestamp", "timestamp(0)"),
        ("date", "date", None),
        ("timestamp without time zone(0)", "datetime(6)", "timestamp(6) without time zone"),
        ("timestamp without time zone", "datetime(6)", None),
        ("timestamp with time zone(3)", "timestamp(6)", "timestamp(6) with time zone"),
        ("timestamp with time zone(3)", "timestamp(2)", None),
        ("timestamp with time zone(3)", "time(6)", None),
        ("time without time zone(0)", "time(3)", "time(3) without time zone"),
        ("interval", "time(3)", None),
        ('"bit"(3)', "bit(8)", "bit(8)"),
        ('"bit"(8)', "bit", None),
        ("bit varying(3)", "bit(8)", "varbit(8)"),
        ("boolean", "bit(8)", None),
        ("numeric(3,0)", "bit(64)", "numeric(20,0)"),
        ("enum('a','it''s')", "ENUM('new','it''s','A','a')", "enum('a','it''s','new','A')"),
        ("enum('a','b')", "enum('b')", None),
        ("enum('a','b')", "set('a','c')", None),
        ("enum('a')", f"enum('{'x' * 64}')", None),
        ("smallint", "", None),
    ],
)
def test_postgresql(target: str, source: str, expected: str | None) -> None:
    assert wider("postgresql", target, source) == expected


@pytest.mark.parametrize(
    ("target", "source", "expected"),
    [
        ("int", "bigint(20)", "bigint(20)"),
        ("int(10) unsigned", "bigint(20) unsigned", "bigint(20) unsigned"),
        ("int", "int unsigned", "bigint"),
        ("tinyint(4)", "tinyint(3) unsigned", "smallint"),
        ("int(11)", "smallint unsigned", None),
        ("int(11)", "mediumint unsigned zerofill", None),
        ("int unsigned", "int", "bigint"),
        ("smallint unsigned", "int(11)", "int(11)"),
        ("tinyint(1) unsigned", "tinyint(1)", "smallint"),
        ("int", "bigint(20) unsigned", "decimal(20)"),
        ("bigint unsigned", "tinyint", "decimal(20)"),
        ("bigint auto_increment", "bigint unsigned", None),
        ("int(11) auto_increment", "int unsigned", "bigint"),
        ("bigint", "tinyint", None),
        ("year(4)", "tinyint", "smallint"),
        ("year(4)", "int unsigned", "int unsigned"),
        ("decimal(5,2) unsigned", "decimal(5,2)", "decimal(5,2)"),
        ("decimal(5,2)", "decimal(5,2) unsigned", None),
        ("decimal(5,2) unsigned", "decimal(8,2) unsigned", "decimal(8,2) unsigned"),
        ("decimal(60,0)", "decimal(30,10)", None),
        ("decimal(2,0)", "year", "decimal(4,0)"),
        ("float unsigned", "double", "double"),
        ("float unsigned", "double unsigned", "double unsigned"),
        ("float unsigned", "float", "float"),
        ("double", "float unsigned", None),
        ("date", "datetime", "datetime"),
        ("date", "timestamp(3)", "datetime(3)"),
        ("datetime", "datetime(6)", "datetime(6)"),
        ("datetime(3)", "timestamp(6)", "datetime(6)"),
        ("timestamp(6)", "timestamp", None),
        ("timestamp", "datetime", None),
        ("time", "time(3)", "time(3)"),
        ("time", "datetime(3)", None),
        ("enum('a','it''s','(,)')", "enum('it''s','new')", "enum('a','it''s','(,)','new')"),
        ("enum('a')", "enum('a','A')", None),
        ("enum('a?')", "enum('new')", None),
        ("enum('a')", r"enum('a','b\\c')", None),
        ("set('a','b')", "set('c','a')", "set('a','b','c')"),
        ("set('a')", "set(" + ",".join(f"'{number}'" for number in range(64)) + ")", None),
        ("enum('a')", "set('b')", None),
        ("enum('a')", "varchar(9)", None),
        ("decimal(5,2)", "decimal(7,3)", "decimal(7,3)"),
        ("float", "double", "double"),
        ("varchar(3)", "VARCHAR(40)", "varchar(40)"),
        ("varchar(300)", "text", "text"),
        ("text(65535)", "mediumtext", "mediumtext"),
        ("longtext(4294967295)", "text", None),
        ("varbinary(8)", "blob", "blob"),
        ("varchar(3)", "varbinary(40)", None),
        ("bit(1)", "bit(8)", "bit(8)"),
        ("bit(8)", "bit(1)", None),
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
        ("NUMBER(3,0)", "bit(64)", "NUMBER(20,0)"),
        ("DATE", "datetime", None),
        ("DATE", "datetime(6)", "TIMESTAMP(6)"),
        ("TIMESTAMP(0)", "timestamp(6)", "TIMESTAMP(6)"),
        ("TIMESTAMP(3) WITH LOCAL TIME ZONE", "timestamp(6)", "TIMESTAMP(6) WITH LOCAL TIME ZONE"),
        ("TIMESTAMP(6)", "datetime(3)", None),
        ("INTERVAL DAY(2) TO SECOND(0)", "time(3)", "INTERVAL DAY(2) TO SECOND(3)"),
        ("VARCHAR2(3)", "enum('long label')", None),
    ],
)
def test_oracle(target: str, source: str, expected: str | None) -> None:
    assert wider("oracle", target, source) == expected


@pytest.mark.parametrize(
    ("dialect", "target", "type_", "name", "expected"),
    [
        ("mysql", "char(36)", "string", "", None),
        ("mysql", "varbinary(9)", "bytes", "", None),
        ("mysql", "tinyint", "int16", "", None),
        ("mysql", "tinyint unsigned", "int16", "", None),
        ("mysql", "smallint unsigned", "int32", "", None),
        ("mysql", "mediumint", "int32", "", None),
        ("mysql", "smallint", "int32", "", "int"),
        ("mysql", "int unsigned", "int64", "", None),
        ("mysql", "int", "int64", "", "bigint"),
        ("mysql", "decimal(9,2)", "double", "", None),
        ("mysql", "float", "double", "", None),
        ("mysql", "tinyint unsigned", "boolean", "", None),
        ("mysql", "datetime", "int64", "io.debezium.time.Timestamp", None),
        ("mysql", "datetime(3)", "int64", "io.debezium.time.MicroTimestamp", "datetime(6)"),
        ("mysql", "timestamp", "string", "io.debezium.time.ZonedTimestamp", None),
        ("mysql", "time", "int64", "io.debezium.time.MicroTime", None),
        ("mysql", "date", "int64", "io.debezium.time.Timestamp", "datetime(3)"),
        ("postgresql", "bpchar(36)", "string", "", None),
        ("postgresql", "integer", "int64", "", "bigint"),
        ("postgresql", "smallint", "int16", "", None),
        (
            "postgresql",
            "timestamp without time zone(0)",
            "int64",
            "io.debezium.time.Timestamp",
            None,
        ),
        ("postgresql", "date", "string", "io.debezium.time.IsoTimestamp", "timestamp(6)"),
        ("oracle", "VARCHAR2(36)", "string", "", None),
        ("oracle", "NUMBER(5,0)", "int64", "", "NUMBER(19,0)"),
        ("oracle", "NUMBER(10,0)", "int64", "", None),
        ("oracle", "DATE", "int64", "io.debezium.time.Timestamp", None),
    ],
)
def test_of_a_type_that_a_schema_has_for_several_only_what_is_sure_is_widened(
    dialect: str, target: str, type_: str, name: str, expected: str | None
) -> None:
    mysql_type, _, is_bound, least, _ = column_type({"type": type_, "name": name})
    source = Column("NAME", mysql_type, is_bound=is_bound, least=least)
    assert wider(dialect, target, source) == expected


def test_a_column_is_lacking_that_is_there_in_no_spelling() -> None:
    table = TargetTable(TableId("shop", "t"), {"Name": TargetColumn("Name", "text")}, ())
    assert lacking(table, [Column("name"), Column("new")]) == [Column("new")]
