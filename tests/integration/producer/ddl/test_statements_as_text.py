"""Statements that change rows and were logged as text, on real servers: of other tables they are
nothing to the task, of its own they stop it, or are skipped, counted and told."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pymysql.cursors import Cursor

from cdcbus.ops.stack.addresses import Database
from cdcbus.plugins.contracts import PositionStore
from cdcbus.plugins.errors import UnreadableEvent
from cdcbus.producer.config import FetchTask
from tests.integration.producer.reading import connect, fetch_task, global_variable, position
from tests.integration.producer.running import Running, ids

pytestmark = [pytest.mark.integration, pytest.mark.source]

Statements = tuple[str, ...]


@pytest.fixture
def other(source_cursor: Cursor, name: str) -> Iterator[str]:
    """A schema that the task does not read."""
    schema = f"other_{name}"
    source_cursor.execute(f"CREATE DATABASE {schema}")
    source_cursor.execute(f"CREATE TABLE {schema}.t (id INT PRIMARY KEY, v INT)")
    source_cursor.execute(f"CREATE TABLE {schema}.u (id INT PRIMARY KEY, v INT)")
    yield schema
    source_cursor.execute(f"DROP DATABASE {schema}")


@pytest.fixture
def begun(
    source: Database,
    kafka: str,
    name: str,
    source_cursor: Cursor,
    make_topic: Callable[..., str],
    store: Callable[[str], None],
) -> FetchTask:
    """A task of a table with row 1 in front of it."""
    make_topic(name)
    source_cursor.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
    store(position(source_cursor).to_json())
    source_cursor.execute("INSERT INTO t VALUES (1, 1)")
    return fetch_task(source, name, servers=kafka)


def as_text(source: Database, schema: str, *statements: str) -> None:
    with connect(source, local_infile=True) as connection, connection.cursor() as cursor:
        cursor.execute(f"USE {schema}")
        cursor.execute("SET SESSION binlog_format = STATEMENT")
        for statement in statements:
            cursor.execute(statement)


def test_statements_of_other_tables_stop_nothing(
    begun: FetchTask,
    source: Database,
    source_cursor: Cursor,
    name: str,
    other: str,
    kafka: str,
    positions: PositionStore,
    tmp_path: Path,
) -> None:
    file = tmp_path / "rows.txt"
    file.write_text("7\t7\n")
    with global_variable(source, "local_infile", 1):
        as_text(
            source,
            other,
            "INSERT INTO t VALUES (1, 1)",
            f"REPLACE INTO t SELECT id, v FROM {name}.t",
            f"UPDATE t JOIN u ON t.id = u.id SET t.v = (SELECT MAX(v) FROM {name}.t)",
            f"DELETE x FROM t AS x JOIN {name}.t AS y ON x.id = y.id WHERE y.v > 0",
            f"LOAD DATA LOCAL INFILE '{file}' INTO TABLE t",
            f"CREATE TABLE w SELECT * FROM {name}.t",
            "DELETE FROM t",
        )
    as_text(source, name, f"REPLACE INTO {other}.t VALUES (3, 3)", f"DELETE FROM {other}.t")
    source_cursor.execute("INSERT INTO t VALUES (2, 2)")
    end = position(source_cursor)
    with Running(begun, positions) as running:
        running.until_stored(end)
    assert ids(kafka, name) == [1, 2]
    assert running.progress.skipped == 0


def test_a_statement_of_another_table_beside_rows_of_the_task(
    begun: FetchTask,
    source: Database,
    name: str,
    other: str,
    kafka: str,
    positions: PositionStore,
    source_cursor: Cursor,
) -> None:
    """The transaction goes on behind it."""
    with connect(source) as connection, connection.cursor() as cursor:
        cursor.execute(f"USE {name}")
        cursor.execute("BEGIN")
        cursor.execute("INSERT INTO t VALUES (2, 2)")
        cursor.execute("COMMIT")
        cursor.execute("SET SESSION binlog_format = STATEMENT")
        cursor.execute("BEGIN")
        cursor.execute(f"INSERT INTO {other}.t VALUES (2, 2)")
        cursor.execute(f"INSERT INTO {other}.u VALUES (UUID_SHORT() % 1000, 2)")
        cursor.execute("COMMIT")
    source_cursor.execute("INSERT INTO t VALUES (3, 3)")
    end = position(source_cursor)
    with Running(begun, positions) as running:
        running.until_stored(end)
    assert ids(kafka, name) == [1, 2, 3]


INSIDE: tuple[Statements, ...] = (
    ("INSERT INTO t VALUES (50, 1)",),
    ("UPDATE {other}.t, {name}.t SET {name}.t.v = 5",),
    ("DELETE y FROM {other}.t AS x RIGHT JOIN t AS y ON x.id = y.id WHERE y.id > 1",),
    ("SET SESSION sql_mode = 'ANSI_QUOTES'", 'INSERT INTO "t" VALUES (50, 1)'),
)


@pytest.mark.parametrize("statements", INSIDE)
def test_a_statement_of_the_tasks_own_table_stops_it(
    begun: FetchTask,
    source: Database,
    name: str,
    other: str,
    statements: Statements,
    kafka: str,
    positions: PositionStore,
) -> None:
    as_text(source, name, *(one.format(name=name, other=other) for one in statements))
    with (
        pytest.raises(UnreadableEvent, match=r"consumer\.onStatement=skip") as raised,
        Running(begun, positions) as running,
    ):
        running.ends()
    assert f"{name}.t" in str(raised.value)
    assert ids(kafka, name) == [1]


@pytest.mark.parametrize("statements", INSIDE)
def test_a_statement_of_the_tasks_own_table_is_skipped_and_counted(
    begun: FetchTask,
    source: Database,
    source_cursor: Cursor,
    name: str,
    other: str,
    statements: Statements,
    kafka: str,
    positions: PositionStore,
    caplog: pytest.LogCaptureFixture,
) -> None:
    as_text(source, name, *(one.format(name=name, other=other) for one in statements))
    source_cursor.execute("INSERT INTO t VALUES (2, 2)")
    end = position(source_cursor)
    with Running(replace(begun, skips_statements=True), positions) as running:
        running.until_stored(end)
    assert ids(kafka, name) == [1, 2]
    assert running.progress.skipped == 1
    assert f"{name}.t was logged as text and is skipped" in caplog.text.replace(f"{other}.t, ", "")
    assert "50" not in [
        word for line in caplog.messages if "skipped" in line for word in line.split()
    ]


def test_a_comment_that_ends_in_a_backslash_makes_no_select(
    begun: FetchTask,
    source: Database,
    source_cursor: Cursor,
    name: str,
    kafka: str,
    positions: PositionStore,
) -> None:
    with connect(source) as connection, connection.cursor() as cursor:
        cursor.execute(f"USE {name}")
        cursor.execute("SET SESSION sql_mode = 'NO_BACKSLASH_ESCAPES'")
        cursor.execute("CREATE TABLE w (a INT COMMENT 'x\\', b INT COMMENT ' SELECT ')")
    source_cursor.execute("INSERT INTO t VALUES (2, 2)")
    end = position(source_cursor)
    with Running(begun, positions) as running:
        running.until_stored(end)
    assert ids(kafka, name) == [1, 2]
