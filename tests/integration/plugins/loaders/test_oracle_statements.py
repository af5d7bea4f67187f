"""Statements for Oracle that need no rows: held to two grammars of its SQL, and run on H2 in its
Oracle mode."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cdcbus.plugins.contracts import Swaps, TableBatch, TargetColumn, TargetTable, Writes, ZeroDate
from cdcbus.plugins.loaders.add_column import add_columns
from cdcbus.plugins.loaders.dialect import QUOTING
from cdcbus.plugins.loaders.dialects.oracle.dialect import Oracle
from cdcbus.plugins.loaders.dialects.oracle.sql import locked_sql, spelled_sql, widen_sql
from cdcbus.plugins.loaders.row_versions import create_sqls, retype_sql
from cdcbus.plugins.loaders.schema_evolution import too_narrow
from cdcbus.plugins.rowchange import Column, TableId
from cdcbus.tasks.schema.create_table import create_table
from cdcbus.tasks.schema.definition import Target, define
from cdcbus.tasks.schema.source_details import (
    ColumnDetails,
    Default,
    DefaultKind,
    Index,
    IndexPart,
    TableDetails,
)
from tests.support.stand_ins.h2_oracle import Database, Server
from tests.support.type_table import TYPES
from tests.unit.tasks.schema.test_definition import column, mapped

pytestmark = pytest.mark.integration
SOURCES = [source for group in TYPES for source in group]
NAMES = ["id", "order", "Größe", "a b", "per%cent", "col:on", "$x", "it's", "名前", "😀", "?", "--"]
DEFAULTS = {
    "int": Default(DefaultKind.TEXT, "-1"),
    "decimal(10,2)": Default(DefaultKind.TEXT, "1.50"),
    "double": Default(DefaultKind.TEXT, "1.5e300"),
    "bit(8)": Default(DefaultKind.BITS, "101"),
    "date": Default(DefaultKind.TEXT, "2024-02-29"),
    "datetime(6)": Default(DefaultKind.TEXT, "2024-02-29 23:59:59.999999"),
    "timestamp": Default(DefaultKind.NOW, ""),
    "varchar(100)": Default(DefaultKind.TEXT, "it's \\ :1 ?"),
    "enum('a','b')": Default(DefaultKind.TEXT, "a"),
    "binary(16)": Default(DefaultKind.BYTES, "00ff"),
}


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.close()


@pytest.fixture
def database(server: Server, name: str) -> Database:
    return Database(server, name.upper())


def check(database: Database, sql: str) -> None:
    """Both grammars take it, and H2 runs it."""
    database.server.grammars.check(sql)
    database.execute(sql)


@pytest.mark.parametrize(
    "sql",
    [
        "DELETE FROM t WHERE a = 1 LIMIT 1",
        "INSERT INTO t (a) VALUES (1), (2)",
        "INSERT INTO t (a) VALUES (1) ON CONFLICT DO NOTHING",
        "MERGE INTO t USING dual ON a = 1 WHEN MATCHED THEN UPDATE SET b = 1",
        "ALTER TABLE t ADD COLUMN a NUMBER",
        "ALTER TABLE t MODIFY (a NUMBER",
        "ALTER TABLE t ALTER COLUMN a TYPE NUMBER(3)",
        "CREATE TABLE IF NOT EXISTS t (a NUMBER)",
        "SELECT `a` FROM t",
        "SELECT a::number FROM t",
        "UPDATE t SET WHERE a = 1",
        "RELEASE SAVEPOINT x",
        "SELECT a FROM t LIMIT 1",
    ],
)
def test_what_oracle_has_not_is_refused(server: Server, sql: str) -> None:
    assert server.grammars.refusals(sql)


def test_a_table_with_a_column_of_each_type_is_made_and_grows(database: Database) -> None:
    columns = [column(f"{source} it's", source) for source in SOURCES]
    details = {
        each.name: ColumnDetails(comment="it's :1", default=DEFAULTS.get(source))
        for each, source in zip(columns, SOURCES, strict=True)
    }
    indexes = (
        Index("by text", False, "BTREE", (IndexPart("varchar(100) it's", 4),)),
        Index("by day", True, "BTREE", (IndexPart("date it's"), IndexPart("id", 0, True))),
    )
    table = define(
        mapped([column("id", "bigint"), *columns]),
        TableDetails(details, indexes=indexes, comment="all 'types'"),
        Target("oracle", zero_date=ZeroDate.EPOCH),
    )
    assert not table.problems
    assert sum(each.default is not None for each in table.columns) == len(DEFAULTS)
    database.execute(f'CREATE SCHEMA "{table.id.schema}"')
    statements = create_table(table, "oracle", with_indexes=True)
    assert len(statements) == 1 + 1 + len(SOURCES) + 2
    for sql in statements:
        if "substr(" in sql:  # H2 has no index of expressions
            database.server.grammars.check(sql)
        else:
            check(database, sql)
    found = TargetTable(table.id, {}, ("id",), dialect="oracle")
    added = [Column(f"{source} added", source) for source in SOURCES]
    for some in (added[:1], added[1:]):
        check(database, add_columns(found, some))


def test_every_type_that_is_made_wider_is_altered(database: Database) -> None:
    """Narrow is what the next narrower source type has become."""
    pairs = {
        ("int", "NUMBER", 3, 0): "NUMBER(10,0)",
        ("bigint unsigned", "NUMBER", 10, 0): "NUMBER(20,0)",
        ("decimal(12,4)", "NUMBER", 10, 2): "NUMBER(12,4)",
        ("varchar(40)", "VARCHAR2", 3, None): "VARCHAR2(40 CHAR)",
        ("char(10)", "CHAR", 3, None): "CHAR(10 CHAR)",
        ("varbinary(100)", "RAW", 3, None): "RAW(100)",
        ("double", "BINARY_FLOAT", None, None): "BINARY_DOUBLE",
        ("datetime(6)", "DATE", None, None): "TIMESTAMP(6)",
        ("datetime(6)", "TIMESTAMP(3)", None, None): "TIMESTAMP(6)",
    }
    id_ = TableId(database.schema, "narrow")
    columns = {
        f"c {place}": TargetColumn(f"c {place}", type_, length, scale=scale)
        for place, (_, type_, length, scale) in enumerate(pairs)
    }
    table = TargetTable(id_, columns, (), dialect="oracle")
    wider = too_narrow(
        table,
        [Column(name, source) for name, (source, *_) in zip(columns, pairs, strict=True)],
    )
    assert list(wider.values()) == list(pairs.values())
    made = ", ".join(f'"{name}" {_spelled(its)}' for name, its in columns.items())
    check(database, f"CREATE TABLE {QUOTING['oracle'].table(id_)} ({made})")
    for name, type_ in wider.items():
        check(database, widen_sql(table, name, type_))


def _spelled(column: TargetColumn) -> str:
    sizes = [str(size) for size in (column.length, column.scale) if size is not None]
    return f"{column.type}({', '.join(sizes)})" if sizes else column.type


def test_names_of_any_kind_are_written_to(server: Server) -> None:
    """Of tables with and without a key, and with LOBs, whose comparison H2 has not."""
    types = ["NUMBER", "CHAR", "CLOB", "BLOB", "NCLOB", "RAW", "DATE", "TIMESTAMP(6)"]
    columns = {
        name: TargetColumn(name, types[place % len(types)], is_folding=place == 1)
        for place, name in enumerate(NAMES)
    }
    all_names = tuple(NAMES)
    row = tuple("1" for _ in NAMES)
    nulls = tuple(None if place % 2 else "1" for place in range(len(NAMES)))
    keyless = TargetTable(TableId("Größe", "a b"), columns, (), dialect="oracle")
    swaps = Swaps(all_names, [(None, row), (row, None), (nulls, row), (row, nulls)])
    statements = _previewed(TableBatch(keyless, truncate=True, swaps=[swaps]))
    for id_, key in (
        (TableId("", "select"), ("id", "per%cent")),
        (TableId("S%", "?"), all_names[4:8]),
    ):
        table = TargetTable(id_, columns, key, dialect="oracle")
        writes = [Writes(all_names, [row]), Writes(all_names, [row], may_insert=False)]
        statements += _previewed(TableBatch(table, deletes=[row[: len(key)]], writes=writes))
        statements += [locked_sql(table, ["a b"]), spelled_sql(table)]
        versions = TableId("S", "cdcbus_row_x")
        statements += create_sqls("oracle", versions, table)
        key_types = dict.fromkeys(key, "VARCHAR2(9 CHAR)") | {key[0]: "NUMBER(38,0)"}
        statements.append(retype_sql("oracle", versions, table, key_types))
    statements.append('ALTER TABLE "S"."cdcbus_row_x" RENAME TO "cdcbus_row_y"')
    assert len(statements) == 5 + 2 * (3 + 2 + 4 + 1) + 1
    for sql in statements:
        server.grammars.check(sql)


def _previewed(batch: TableBatch) -> list[str]:
    return [each.sql for each in Oracle().preview(batch)]


def test_what_the_loader_says_besides(server: Server) -> None:
    server.grammars.check("SET CONSTRAINTS ALL IMMEDIATE")
    server.grammars.check('SELECT 1 FROM "Größe"."a b" FETCH FIRST 1 ROWS ONLY')
