"""Transactions of unusual forms: GTIDs with tags, XA, rolled back although they are in the
binlog."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from pymysql.cursors import Cursor

from cdcbus.ops.stack.addresses import Database
from cdcbus.plugins.errors import UnreadableEvent
from cdcbus.plugins.positions import BinlogPosition
from cdcbus.plugins.rowchange import RowChange
from tests.integration.producer.reading import (
    changes_of,
    connect,
    fetch_task,
    position,
    read,
    read_batches,
)

pytestmark = [pytest.mark.integration, pytest.mark.source]


@pytest.fixture
def table(source_cursor: Cursor) -> None:
    source_cursor.execute("CREATE TABLE t (id INT PRIMARY KEY, v JSON)")


@pytest.fixture
def other(source: Database, name: str, table: None) -> Iterator[Cursor]:
    """Another session."""
    with connect(source) as connection, connection.cursor() as cursor:
        cursor.execute(f"USE {name}")
        yield cursor


@pytest.fixture
def mysql_only(is_mariadb: bool) -> None:
    if is_mariadb:
        pytest.skip("MariaDB does not have it")


def ids(changes: list[RowChange]) -> list[str]:
    return [(change.after or change.before or {})["id"] or "" for change in changes]


def run(cursor: Cursor, *statements: str) -> None:
    for statement in statements:
        cursor.execute(statement)


@pytest.mark.usefixtures("mysql_only", "table")
def test_a_gtid_with_a_tag_is_the_server_s(
    source: Database, source_cursor: Cursor, name: str
) -> None:
    start = position(source_cursor)
    run(
        source_cursor,
        "SET SESSION gtid_next = 'AUTOMATIC:blue_1'",
        "INSERT INTO t VALUES (1, '{}')",
        "SET SESSION gtid_next = 'AUTOMATIC'",
    )
    (change,) = read(fetch_task(source, name), start, position(source_cursor))
    source_cursor.execute(
        "SELECT GTID_SUBSET(%s, @@gtid_executed), @@server_uuid, UNIX_TIMESTAMP(NOW(6)) * 1000000 "
        "- %s",
        (change.origin.gtid, change.origin.commit_us),
    )
    ((is_executed, server_uuid, age_us),) = source_cursor.fetchall()
    assert is_executed
    assert change.origin.gtid.startswith(f"{server_uuid}:blue_1:")
    assert change.origin.server_uuid == server_uuid
    assert 0 <= age_us < 60_000_000


@pytest.mark.usefixtures("table")
def test_the_commit_time_is_as_exact_as_the_server_knows_it(
    source: Database, source_cursor: Cursor, name: str, is_mariadb: bool
) -> None:
    start = position(source_cursor)
    for number in range(5):
        source_cursor.execute("INSERT INTO t VALUES (%s, '{}')", (number,))
    times = [
        change.origin.commit_us
        for change in read(fetch_task(source, name), start, position(source_cursor))
    ]
    assert times == sorted(times)
    assert any(time % 1_000_000 for time in times) is not is_mariadb


def prepare(cursor: Cursor, xid: str, *statements: str) -> None:
    run(cursor, f"XA START {xid}", *statements, f"XA END {xid}", f"XA PREPARE {xid}")


XID = "'it''s \xe4', 'branch', 77"


@pytest.mark.usefixtures("logs_prepared")
def test_the_rows_of_an_xa_transaction_come_where_it_is_committed(
    source: Database, source_cursor: Cursor, name: str, other: Cursor
) -> None:
    start = position(source_cursor)
    prepare(
        other,
        XID,
        "INSERT INTO t VALUES (1, '{}'), (2, '{}')",
        "UPDATE t SET v = '[]' WHERE id = 2",
    )
    source_cursor.execute("INSERT INTO t VALUES (3, '{}')")
    before_commit = position(source_cursor)
    other.execute(f"XA COMMIT {XID}")
    end = position(source_cursor)
    batches = read_batches(fetch_task(source, name), start, end)
    changes = changes_of(batches)
    assert ids(changes) == ["3", "1", "2", "2"]
    assert [(change.row, change.is_last) for change in changes] == [
        (0, True),
        (0, False),
        (1, False),
        (2, True),
    ]
    assert {change.origin.pos >= before_commit.pos for change in changes[1:]} == {True}
    assert len({change.origin.gtid for change in changes[1:]}) == 1
    *between, last = [batch.edge for batch in batches if batch.edge is not None]
    assert (last.pos, last.published) == (end.pos, None)
    assert {edge.pos for edge in between} <= {start.pos}, (
        "reading cannot go on between: it would not meet the rows"
    )
    assert all(edge.published and edge.published.pos <= before_commit.pos for edge in between)


@pytest.mark.usefixtures("logs_prepared")
@pytest.mark.parametrize(
    "is_late", [False, True], ids=["before the other is committed", "behind it"]
)
def test_reading_goes_on_from_before_an_open_xa_transaction_and_repeats_nothing(
    source: Database, source_cursor: Cursor, name: str, other: Cursor, is_late: bool
) -> None:
    """Two of them overlap; the position moves with the first one that ends."""
    task, start = fetch_task(source, name), position(source_cursor)
    with connect(source) as connection, connection.cursor() as third:
        third.execute(f"USE {name}")
        prepare(other, f"'{name}-a'", "INSERT INTO t VALUES (1, '{}')")
        source_cursor.execute("INSERT INTO t VALUES (2, '{}')")
        prepare(third, f"'{name}-b'", "INSERT INTO t VALUES (3, '{}')")
        source_cursor.execute("INSERT INTO t VALUES (4, '{}')")
        other.execute(f"XA COMMIT '{name}-a'") if is_late else None
        source_cursor.execute("INSERT INTO t VALUES (5, '{}')")
        batches = read_batches(task, start, position(source_cursor))
        edge = [batch.edge for batch in batches if batch.edge is not None][-1]
        assert ids(changes_of(batches)) == (["2", "4", "1", "5"] if is_late else ["2", "4", "5"])
        assert batches[-1].open_xa is not None
        assert edge.published is not None
        assert (edge.pos > start.pos) is is_late
        third.execute(f"XA COMMIT '{name}-b'")
        other.execute("SELECT 1" if is_late else f"XA COMMIT '{name}-a'")
        source_cursor.execute("INSERT INTO t VALUES (6, '{}')")
    again = BinlogPosition.from_json(edge.to_json())
    assert ids(read(task, again, position(source_cursor))) == (
        ["3", "6"] if is_late else ["3", "1", "6"]
    )


def test_the_rows_of_an_xa_transaction_that_is_rolled_back_do_not_come(
    source: Database, source_cursor: Cursor, name: str, other: Cursor
) -> None:
    start = position(source_cursor)
    prepare(other, XID, "INSERT INTO t VALUES (1, '{}')")
    run(other, f"XA ROLLBACK {XID}", "INSERT INTO t VALUES (1, '[]')")
    (change,) = read(fetch_task(source, name), start, position(source_cursor))
    assert change.after == {"id": "1", "v": "[]"}


def test_an_xa_transaction_of_one_phase_is_like_any_other(
    source: Database, source_cursor: Cursor, name: str, other: Cursor
) -> None:
    start = position(source_cursor)
    run(
        other,
        "XA START 'x'",
        "INSERT INTO t VALUES (1, '{}'), (2, '{}')",
        "XA END 'x'",
        "XA COMMIT 'x' ONE PHASE",
    )
    other.execute("INSERT INTO t VALUES (3, '{}')")
    changes = read(fetch_task(source, name), start, position(source_cursor))
    assert [(*ids([change]), change.row, change.is_last) for change in changes] == [
        ("1", 0, False),
        ("2", 1, True),
        ("3", 0, True),
    ]


def test_xa_transactions_may_be_prepared_at_the_same_time(
    source: Database, source_cursor: Cursor, name: str, other: Cursor
) -> None:
    start = position(source_cursor)
    with ExitStack() as open_connections:
        for number in range(3):
            cursor = open_connections.enter_context(
                open_connections.enter_context(connect(source)).cursor()
            )
            cursor.execute(f"USE {name}")
            prepare(cursor, f"'{number}'", f"INSERT INTO t VALUES ({number}, '{{}}')")
            open_connections.callback(cursor.execute, f"XA COMMIT '{number}'")  # the last one first
    assert ids(read(fetch_task(source, name), start, position(source_cursor))) == ["2", "1", "0"]


@pytest.mark.usefixtures("logs_prepared")
def test_the_commit_of_an_xa_transaction_that_was_prepared_before_the_start_stops(
    source: Database, source_cursor: Cursor, name: str, other: Cursor
) -> None:
    prepare(other, "'x'", "INSERT INTO t VALUES (1, '{}')")
    start = position(source_cursor)
    other.execute("XA COMMIT 'x'")
    with pytest.raises(
        UnreadableEvent, match="prepared before the position where reading began; set the position"
    ):
        read(fetch_task(source, name), start, position(source_cursor))


@pytest.mark.usefixtures("table")
def test_rows_that_were_rolled_back_do_not_come(
    source: Database, source_cursor: Cursor, name: str, is_mariadb: bool
) -> None:
    """A transaction that has made a temporary table is in the binlog nevertheless."""
    if not is_mariadb:
        pytest.skip("MySQL 9 leaves it out")
    start = position(source_cursor)
    run(
        source_cursor,
        "BEGIN",
        "INSERT INTO t VALUES (1, '{}')",
        "CREATE TEMPORARY TABLE x (a INT)",
        "DROP TEMPORARY TABLE x",
        "ROLLBACK",
    )
    rolled_back = position(source_cursor)
    assert rolled_back != start
    source_cursor.execute("INSERT INTO t VALUES (2, '{}')")
    assert ids(read(fetch_task(source, name), start, position(source_cursor))) == ["2"]


@pytest.mark.usefixtures("table")
def test_a_statement_that_fails_half_way_leaves_the_rows_of_a_table_without_transactions(
    source: Database, source_cursor: Cursor, name: str
) -> None:
    source_cursor.execute("CREATE TABLE plain (id INT PRIMARY KEY) ENGINE=MyISAM")
    start = position(source_cursor)
    with pytest.raises(Exception, match="Duplicate entry"):
        source_cursor.execute("INSERT INTO plain VALUES (1), (2), (1), (3)")
    assert ids(read(fetch_task(source, name), start, position(source_cursor))) == ["1", "2"]


PATCHES = [
    "JSON_SET(v, '$.b', 2)",
    "JSON_SET(v, '$.list[1]', 'x')",
    "JSON_SET(v, '$.list[last]', JSON_OBJECT('k', 1.5, 'j', NULL))",
    "JSON_SET(v, '$.list[99]', 99)",
    "JSON_SET(v, '$.\"odd \\\\\"key\\\\\" ä\"', TRUE, '$.a', 'new')",
    "JSON_SET(v, '$.when', CAST('2024-02-29 12:00:01.5' AS DATETIME(6)), '$.d', CAST('12.50' AS "
    "DECIMAL(10, 2)))",
    "JSON_REPLACE(v, '$.a', JSON_ARRAY(1, 40000, 5000000000, -1, JSON_ARRAY()), '$.list[0]', "
    "JSON_OBJECT())",
    "JSON_REMOVE(v, '$.a')",
    "JSON_REMOVE(v, '$.list[0]', '$.nested.deep[1].x')",
    "JSON_SET(v, '$.long', REPEAT('y', 70000))",
    "JSON_SET(v, '$.nested.deep[1].x', 'changed', '$.nested.deep[0]', JSON_EXTRACT(v, '$.list'))",
]


@pytest.mark.usefixtures("mysql_only")
@pytest.mark.parametrize("more", [0, 70_000])
def test_partial_updates_of_json_give_whole_documents(
    source: Database, source_cursor: Cursor, name: str, more: int
) -> None:
    """With documents of the small and of the large form."""
    source_cursor.execute("CREATE TABLE t (id INT PRIMARY KEY, n JSON, v JSON, w JSON, x INT)")
    source_cursor.execute(
        "INSERT INTO t SELECT %s, NULL, JSON_OBJECT('a', 1, 'b', 'bb', 'list', JSON_ARRAY(1, 2, "
        "'three'), 'nested', "
        "JSON_OBJECT('deep', JSON_ARRAY(1, JSON_OBJECT('x', 'y', 'z', 1.0))), 'long', REPEAT('x', "
        "1000 + %s)), '{\"w\": 1}', 5",
        (1, more),
    )
    source_cursor.execute("INSERT INTO t SELECT id + 1, n, v, w, x FROM t")
    source_cursor.execute("SET SESSION binlog_row_value_options = PARTIAL_JSON")
    start = position(source_cursor)
    expected = []
    for number, patch in enumerate(PATCHES):
        source_cursor.execute(
            f"UPDATE t SET v = {patch}, x = {number}, w = JSON_SET(w, '$.w', {number})"
        )
        source_cursor.execute("SELECT id, n, v, w, x FROM t ORDER BY id")
        for row in source_cursor.fetchall():
            cells = [None if cell is None else str(cell) for cell in row]
            expected.append(dict(zip(("id", "n", "v", "w", "x"), cells, strict=True)))
    end = position(source_cursor)
    source_cursor.execute(f"SHOW BINLOG EVENTS IN '{start.file}' FROM {start.pos}")
    assert sum(row[2] == "Update_rows_partial" for row in source_cursor.fetchall()) >= len(PATCHES)
    assert [change.after for change in read(fetch_task(source, name), start, end)] == expected
