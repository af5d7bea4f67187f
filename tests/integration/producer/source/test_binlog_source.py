"""The binlog source: where each row change says it comes from, and where reading may go on."""

from __future__ import annotations

import pytest
from pymysql.cursors import Cursor

from cdcbus.ops.stack.addresses import Database
from cdcbus.plugins.positions import BinlogPosition
from cdcbus.plugins.rowchange import RowChange
from tests.integration.producer.reading import changes_of, fetch_task, position, read, read_batches

pytestmark = [pytest.mark.integration, pytest.mark.source]


@pytest.fixture
def transactions(
    source_cursor: Cursor, full_metadata: None
) -> tuple[BinlogPosition, BinlogPosition]:
    """Start and end of transactions of one and several statements, with a table left out, DDL
    and a new binlog file between them."""
    source_cursor.execute("CREATE TABLE t (id INT PRIMARY KEY, n INT)")
    source_cursor.execute("CREATE TABLE other (id INT PRIMARY KEY)")
    start = position(source_cursor)
    for number in range(3):
        source_cursor.execute("BEGIN")
        source_cursor.execute(
            "INSERT INTO t (id) VALUES (%s), (%s)", (number * 10, number * 10 + 1)
        )
        source_cursor.execute("INSERT INTO other VALUES (%s)", (number,))
        source_cursor.execute("UPDATE t SET n = COALESCE(n, 0) + 1")
        source_cursor.execute("COMMIT")
        source_cursor.execute("FLUSH BINARY LOGS")
        source_cursor.execute("INSERT INTO t (id) VALUES (%s)", (number * 10 + 2,))
        source_cursor.execute(f"ALTER TABLE t ADD COLUMN c{number} INT")
    return start, position(source_cursor)


def test_reading_may_go_on_at_every_transaction_end(
    source: Database, name: str, transactions: tuple[BinlogPosition, BinlogPosition]
) -> None:
    task = fetch_task(source, name)
    batches = read_batches(task, *transactions)
    edges = {i: batch.edge for i, batch in enumerate(batches) if batch.edge is not None}
    assert len(edges) >= 9
    for i, edge in edges.items():
        assert not batches[i].opened
        assert read(task, edge, transactions[1]) == changes_of(batches[i + 1 :])


def test_what_is_read_does_not_depend_on_how_much_is_read_at_once(
    source: Database, name: str, transactions: tuple[BinlogPosition, BinlogPosition]
) -> None:
    task = fetch_task(source, name)
    expected = read(task, *transactions)
    edges = {batch.edge for batch in read_batches(task, *transactions)}
    for read_bytes in (100, 1000, 1 << 18):
        batches = read_batches(task, *transactions, read_bytes)
        assert changes_of(batches) == expected
        assert {batch.edge for batch in batches} <= {*edges, None}


def test_each_row_change_says_where_its_event_stands(
    source: Database,
    source_cursor: Cursor,
    name: str,
    transactions: tuple[BinlogPosition, BinlogPosition],
) -> None:
    start, end = transactions
    changes = read(fetch_task(source, name), start, end)
    assert len({change.origin.file for change in changes}) > 1
    for file in {change.origin.file for change in changes}:
        source_cursor.execute(f"SHOW BINLOG EVENTS IN '{file}'")
        events = {row[1]: row[2] for row in source_cursor.fetchall()}
        for change in (change for change in changes if change.origin.file == file):
            assert events[change.origin.pos].startswith(
                ("Write_rows", "Update_rows", "Delete_rows")
            )


def test_the_rows_of_a_transaction_share_its_gtid_and_its_time(
    source: Database,
    source_cursor: Cursor,
    name: str,
    is_mariadb: bool,
    transactions: tuple[BinlogPosition, BinlogPosition],
) -> None:
    source_cursor.execute("SELECT @@server_id, UNIX_TIMESTAMP(NOW(6)) * 1000")
    ((server_id, now_ms),) = source_cursor.fetchall()
    by_transaction: list[list[RowChange]] = [[]]
    for change in read(fetch_task(source, name), *transactions):
        by_transaction[-1].append(change)
        if change.is_last:
            by_transaction.append([])
    assert by_transaction.pop() == []
    assert [[change.row for change in changes] for changes in by_transaction] == [
        list(range(len(changes))) for changes in by_transaction
    ]
    gtids = [{change.origin.gtid for change in changes} for changes in by_transaction]
    assert all(len(gtid) == 1 for gtid in gtids)
    assert len(set.union(*gtids)) == len(by_transaction)
    for change in (change for changes in by_transaction for change in changes):
        assert change.origin.server_id == server_id
        assert 0 <= now_ms - change.origin.commit_ms < 120_000
        assert change.origin.gtid.count("-") == (2 if is_mariadb else 4)


def test_a_transaction_s_gtid_is_the_server_s(
    source: Database, source_cursor: Cursor, name: str, is_mariadb: bool
) -> None:
    source_cursor.execute("CREATE TABLE t (id INT PRIMARY KEY)")
    start = position(source_cursor)
    source_cursor.execute("INSERT INTO t VALUES (1)")
    (change,) = read(fetch_task(source, name), start, position(source_cursor))
    if is_mariadb:
        source_cursor.execute("SELECT @@last_gtid")
        assert source_cursor.fetchall() == ((change.origin.gtid,),)
    else:
        source_cursor.execute("SELECT GTID_SUBSET(%s, @@gtid_executed)", (change.origin.gtid,))
        assert source_cursor.fetchall() == ((1,),)


def test_rows_of_more_than_sixteen_megabytes_are_read(
    source: Database, source_cursor: Cursor, name: str
) -> None:
    """The protocol splits them into packets."""
    source_cursor.execute("CREATE TABLE t (id INT PRIMARY KEY, v LONGBLOB)")
    start = position(source_cursor)
    source_cursor.execute(
        "INSERT INTO t VALUES (1, REPEAT('x', 20000000)), (2, REPEAT('y', 16777215 - 60))"
    )
    first, second = read(fetch_task(source, name), start, position(source_cursor))
    assert first.after == {"id": "1", "v": "x" * 20_000_000}
    assert second.after == {"id": "2", "v": "y" * (16_777_215 - 60)}


# Columns, as many values, and the key.
TABLES = {
    "(id INT, n INT NOT NULL UNIQUE)": ("1, 1", ("n",)),
    "(id INT UNIQUE, n INT)": ("1, 1", ()),
    "(n INT UNIQUE, x INT NOT NULL, y INT NOT NULL, UNIQUE (y, x), UNIQUE (x))": (
        "1, 1, 1",
        ("y", "x"),
    ),
    "(n INT NOT NULL UNIQUE, `o``dd` INT NOT NULL PRIMARY KEY)": ("1, 1", ("o`dd",)),
    "(v VARCHAR(20) NOT NULL, n INT, UNIQUE (v(3)))": ("1, 1", ()),
}


@pytest.mark.parametrize("metadata", ["full_metadata", "least_metadata"])
def test_the_key_is_the_same_however_little_the_server_says_of_its_tables(
    source: Database,
    source_cursor: Cursor,
    name: str,
    metadata: str,
    request: pytest.FixtureRequest,
) -> None:
    request.getfixturevalue(metadata)
    found = {}
    for number, (columns, (values, _)) in enumerate(TABLES.items()):
        source_cursor.execute(f"CREATE TABLE t{number} {columns}")
        start = position(source_cursor)
        source_cursor.execute(f"INSERT INTO t{number} VALUES ({values})")
        (change,) = read(fetch_task(source, name), start, position(source_cursor))
        found[columns] = change.table.key
    assert found == {columns: key for columns, (_, key) in TABLES.items()}


@pytest.mark.usefixtures("least_metadata")
def test_a_boolean_is_told_by_its_width_where_the_table_is_known(
    source: Database, source_cursor: Cursor, name: str
) -> None:
    source_cursor.execute(
        f"CREATE TABLE {name}.flags (a BOOL, b TINYINT, c TINYINT(1) UNSIGNED, d TINYINT(1) NOT "
        "NULL)"
    )
    start = position(source_cursor)
    source_cursor.execute(f"INSERT INTO {name}.flags VALUES (1, 100, 2, 0)")
    [change] = read(fetch_task(source, name), start, position(source_cursor))
    source_cursor.execute(f"SHOW COLUMNS FROM {name}.flags LIKE 'c'")
    # MySQL keeps the width of signed ones
    shown = "tinyint(1) unsigned" if "(1)" in source_cursor.fetchall()[0][1] else "tinyint unsigned"
    assert [column.mysql_type for column in change.table.columns] == [
        "tinyint(1)",
        "tinyint",
        shown,
        "tinyint(1)",
    ]
