"""Binlog events that change rows in a way this release cannot decode: the task stops before
them, by name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pymysql.cursors import Cursor

from cdcbus.ops.stack.addresses import Database
from cdcbus.plugins.contracts import PositionStore
from cdcbus.plugins.errors import UnreadableEvent
from cdcbus.plugins.positions import BinlogPosition
from cdcbus.producer.source import xa
from tests.integration.producer.reading import connect, fetch_task, global_variable, position
from tests.integration.producer.running import Running, ids

pytestmark = [pytest.mark.integration, pytest.mark.source]

Stops = Callable[..., str]


@pytest.fixture
def stops(
    source: Database,
    kafka: str,
    name: str,
    source_cursor: Cursor,
    make_topic: Callable[..., str],
    positions: PositionStore,
    stored: Callable[[], str | None],
    store: Callable[[str], None],
) -> Stops:
    """Runs statements in a session of their own between two rows, and the task until it stops:
    its sentence. The row before has been sent, the one after has not, and the stored position is
    between."""

    def run(*statements: str, row_before: str = "INSERT INTO t VALUES (1, '{}')") -> str:
        make_topic(name)
        source_cursor.execute("CREATE TABLE t (id INT PRIMARY KEY, v JSON)")
        store(position(source_cursor).to_json())
        source_cursor.execute(row_before)
        before = position(source_cursor)
        with connect(source, local_infile=True) as connection, connection.cursor() as cursor:
            cursor.execute(f"USE {name}")
            for statement in statements:
                cursor.execute(statement)
        source_cursor.execute("INSERT INTO t VALUES (99, '{}')")
        with (
            pytest.raises(UnreadableEvent) as raised,
            Running(fetch_task(source, name, servers=kafka), positions) as running,
        ):
            running.ends()
        assert ids(kafka, name) == [1], raised.value
        left = BinlogPosition.from_json(stored() or "")
        assert (left.file, left.pos) >= (before.file, before.pos)
        return str(raised.value)

    return run


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO t VALUES (2, '{}')",
        "/* by hand */ insert into t values (2, '{}')",
        "-- by hand\nINSERT INTO t VALUES (2, '{}')",
        "# by hand\nINSERT INTO t VALUES (2, '{}')",
        "REPLACE INTO t VALUES (1, '[]')",
        "UPDATE t SET v = '[]'",
        "DELETE FROM t",
        "/*!50000 INSERT INTO t VALUES (2, '{}') */",
        "INSERT INTO t VALUES (2, '{}') -- START TRANSACTION",
        "CREATE TABLE x SELECT * FROM t",
        "CREATE TABLE IF NOT EXISTS x (n INT DEFAULT 1) COMMENT 'it''s' /* by hand */ AS (SELECT "
        "id FROM t)",
    ],
)
def test_rows_changed_in_statement_format(stops: Stops, statement: str) -> None:
    sentence = stops("SET SESSION binlog_format = STATEMENT", statement)
    assert "a statement that changes rows was logged as text" in sentence
    assert "Set binlog_format=ROW for every session" in sentence


def test_rows_changed_in_statement_format_by_a_common_table_expression(
    stops: Stops, is_mariadb: bool
) -> None:
    if is_mariadb:
        pytest.skip("MariaDB 11.4 has none that change rows")
    assert "logged as text" in stops(
        "SET SESSION binlog_format = STATEMENT",
        "WITH x AS (SELECT 1 AS id) DELETE FROM t WHERE id IN (SELECT id FROM x)",
    )


@pytest.mark.parametrize("call", ["SELECT put(2)", "DO put(2)"])
def test_rows_changed_in_statement_format_by_a_function(
    stops: Stops, source: Database, call: str
) -> None:
    body = "BEGIN INSERT INTO t VALUES (number, '{}'); RETURN number; END"
    with global_variable(source, "log_bin_trust_function_creators", "ON"):
        sentence = stops(
            "SET SESSION binlog_format = STATEMENT",
            f"CREATE FUNCTION put(number INT) RETURNS INT MODIFIES SQL DATA {body}",
            call,
        )
    assert "logged as text" in sentence


@pytest.mark.parametrize(
    "statement",
    ["--\n-- more\n--\nINSERT INTO t VALUES (2, '{}')", "CREATE/* u */TABLE u AS SELECT * FROM t"],
)
def test_rows_changed_in_statement_format_behind_comments(stops: Stops, statement: str) -> None:
    assert "logged as text" in stops("SET SESSION binlog_format = STATEMENT", statement)


@pytest.mark.parametrize(("blank", "end"), [(" ", " FOR "), ("/* a */", "\nFOR/* b */")])
def test_rows_changed_for_one_statement_in_statement_format(
    stops: Stops, is_mariadb: bool, blank: str, end: str
) -> None:
    if not is_mariadb:
        pytest.skip("MariaDB's syntax")
    assert "logged as text" in stops(
        f"SET{blank}STATEMENT binlog_format = STATEMENT{end}INSERT INTO t VALUES (2, '{{}}')"
    )


@pytest.mark.parametrize("analyze", ["ANALYZE FORMAT=JSON ", "ANALYZE/**/format = 'json'/**/"])
def test_rows_changed_by_analyze_in_statement_format(
    stops: Stops, is_mariadb: bool, analyze: str
) -> None:
    if not is_mariadb:
        pytest.skip("MariaDB's syntax")
    assert "logged as text" in stops(
        "SET SESSION binlog_format = STATEMENT", f"{analyze}UPDATE t SET v = '[]'"
    )


def test_a_file_loaded_in_statement_format(stops: Stops, source: Database, tmp_path: Path) -> None:
    file = tmp_path / "rows.txt"
    file.write_text("2\t{}\n")
    with global_variable(source, "local_infile", 1):
        sentence = stops(
            "SET SESSION binlog_format = STATEMENT", f"LOAD DATA LOCAL INFILE '{file}' INTO TABLE t"
        )
    assert "logged as text" in sentence
    assert "LOAD of" in sentence


@pytest.mark.usefixtures("logs_prepared")
def test_an_xa_transaction_that_keeps_more_rows_than_there_is_room_for(
    stops: Stops, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(xa, "MAX_BYTES", 1 << 20)
    insert = "INSERT INTO t SELECT 2, JSON_OBJECT('long', REPEAT('x', 2000000))"
    sentence = stops("XA START 'x'", insert, "XA END 'x'", "XA PREPARE 'x'", "XA COMMIT 'x'")
    assert "hold more than 1 MB of rows" in sentence
    assert "finish them on the server (XA RECOVER lists them)" in sentence


def test_rows_rolled_back_to_a_savepoint(stops: Stops, is_mariadb: bool) -> None:
    """Only after a temporary table was made are they in the binlog."""
    if not is_mariadb:
        pytest.skip("MySQL 9 leaves them out")
    sentence = stops(
        "BEGIN",
        "INSERT INTO t VALUES (2, '{}')",
        "SAVEPOINT s",
        "INSERT INTO t VALUES (3, '{}')",
        "CREATE TEMPORARY TABLE x (a INT)",
        "ROLLBACK TO s",
        "COMMIT",
    )
    assert "ROLLBACK TO SAVEPOINT" in sentence
