"""Which tables statements change that were logged as text; what servers really log is in
`test_statements_as_text`."""

from __future__ import annotations

import struct

import pytest

from cdcbus.producer.ddl.statement_targets import Session, session, targets
from cdcbus.producer.ddl.tokens import ANSI_QUOTES, NO_BACKSLASH_ESCAPES


def told(
    sql: str | bytes, mode: int = 0, schema: str = "s", *, is_utf8: bool = True
) -> set[str] | None:
    text = sql.encode() if isinstance(sql, str) else sql
    found = targets(text, Session(schema, mode), is_utf8=is_utf8).tables
    return None if found is None else set(map(str, found))


@pytest.mark.parametrize(
    ("sql", "tables"),
    [
        ("INSERT INTO t VALUES ('a''b')", {"s.t"}),
        ("insert low_priority ignore `o`.`t``x` SELECT * FROM s.u", {"o.t`x"}),
        (
            "REPLACE INTO percona.checksums (db, tbl) SELECT 's', COUNT(*) FROM s.t /*checksum "
            "chunk*/",
            {"percona.checksums"},
        ),
        ("/* by hand */ -- x\nREPLACE o . t SET a = 1", {"o.t"}),
        ("UPDATE o.t SET a = (SELECT b FROM s.t)", {"o.t"}),
        ("UPDATE o.t AS x, (SELECT 1 FROM s.t) y SET x.a = 1", {"o.t"}),
        (
            "UPDATE o.a x LEFT JOIN (o.b JOIN o.c) ON b.i = LEFT(c.i, 1) OR 1 IN (SELECT i FROM "
            "s.t) SET x.v = 1",
            {"o.a", "o.b", "o.c"},
        ),
        ("DELETE FROM o.t WHERE id IN (SELECT id FROM s.t)", {"o.t"}),
        ("DELETE QUICK FROM o.t AS x PARTITION (p0) WHERE x.i = 1", {"o.t"}),
        ("DELETE x FROM o.t AS x JOIN s.u ON x.i = u.i", {"o.t"}),
        ("DELETE o.t.*, u FROM o.t JOIN u", {"o.t", "s.u"}),
        ("DELETE FROM x, u USING o.t AS x JOIN u JOIN s.v WHERE x.i = u.i", {"o.t", "s.u"}),
        (
            "LOAD DATA LOCAL INFILE '/tmp/INTO TABLE s.t' REPLACE INTO TABLE `o`.`t` FIELDS "
            "TERMINATED BY ','",
            {"o.t"},
        ),
        ("WITH x AS (SELECT ')' FROM s.t) DELETE FROM o.t WHERE i IN (SELECT * FROM x)", {"o.t"}),
        ("SET STATEMENT max_statement_time = 1 FOR INSERT INTO o.t VALUES (1)", {"o.t"}),
        ("ANALYZE FORMAT=JSON UPDATE o.t SET v = 1", {"o.t"}),
        ("CREATE TABLE IF NOT EXISTS o.t (i INT) AS SELECT * FROM s.t", {"o.t"}),
        ("INSERT INTO größe VALUES (1)", {"s.größe"}),
    ],
)
def test_tables_are_read_from_the_beginning(sql: str, tables: set[str]) -> None:
    assert told(sql) == tables


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT put(2)",
        "DO put(2)",
        "/*!50000 INSERT INTO o.t VALUES (2) */",
        "INSERT /*M! IGNORE */ INTO o.t VALUES (2)",
        "INSERT INTO 'o",
        "UPDATE o.t",
        "DELETE z FROM o.t JOIN o.u",
        "DELETE FROM a, b WHERE x = 1",
        "INSERT INTO a.b.c VALUES (1)",
        "WITH x AS (SELECT 1) SELECT put(i) FROM x",
        b"INSERT INTO \xe4 VALUES (1)",
    ],
)
def test_what_is_not_sure_is_not_told(sql: str | bytes) -> None:
    assert told(sql) is None


def test_a_table_without_schema_needs_the_sessions() -> None:
    assert told("DELETE FROM t", schema="") is None
    assert told("DELETE FROM o.t", schema="") == {"o.t"}


def test_quotes_are_read_by_sql_mode() -> None:
    assert told('INSERT INTO "o"."t" VALUES (1)', ANSI_QUOTES) == {"o.t"}
    assert told('INSERT INTO "o"."t" VALUES (1)') is None
    load = r"LOAD DATA INFILE 'a\' INTO TABLE o.t IGNORE 1 LINES -- ' INTO TABLE s.t"
    assert told(load, NO_BACKSLASH_ESCAPES) == {"o.t"}
    assert told(load) == {"s.t"}


def test_names_in_another_character_set_are_not_told() -> None:
    assert told("INSERT INTO größe VALUES (1)", is_utf8=False) is None
    assert told("INSERT INTO o.t VALUES ('größe')", is_utf8=False) == {"o.t"}


def test_the_session_is_read_from_the_event() -> None:
    status = (
        b"\0\0\0\0\0\1"
        + struct.pack("<Q", ANSI_QUOTES)
        + b"\6\3std\3\1\0\1\0\4"
        + struct.pack("<HHH", 45, 8, 8)
        + b"\x0d\0"
    )
    body = bytes(8) + b"\4" + bytes(2) + struct.pack("<H", len(status)) + status + b"shop\0INSERT"
    assert session(body) == Session("shop", ANSI_QUOTES, 45)
    assert session(bytes(8) + b"\4" + bytes(4) + b"shop\0INSERT") == Session("shop", 0, 0)
