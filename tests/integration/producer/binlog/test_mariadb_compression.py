"""Binlogs that the server compresses: the same row changes as without."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pymysql.cursors import Cursor

from cdcbus.ops.stack.addresses import Database
from cdcbus.producer.binlog import transaction_payload
from cdcbus.producer.source.row_events import Rows
from tests.integration.producer.decoding.test_golden import CASES
from tests.integration.producer.decoding.test_golden import test_golden as check_golden
from tests.integration.producer.reading import (
    changes_of,
    fetch_task,
    global_variable,
    position,
    read_batches,
)

pytestmark = [pytest.mark.integration, pytest.mark.source]


@pytest.fixture
def compressed(source: Database, is_mariadb: bool) -> Iterator[None]:
    """New sessions write compressed events."""
    if not is_mariadb:
        with global_variable(source, "binlog_transaction_compression", "ON"):
            yield
        return
    with (
        global_variable(source, "log_bin_compress_min_len", 10),
        global_variable(source, "log_bin_compress", "ON"),
    ):
        yield


@pytest.mark.usefixtures("compressed")
@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_a_golden_case_gives_the_same_records(
    path: Path,
    source: Database,
    source_cursor: Cursor,
    name: str,
    is_mariadb: bool,
    request: pytest.FixtureRequest,
) -> None:
    check_golden(path, "full_metadata", source, source_cursor, name, is_mariadb, request)


@pytest.fixture
def mysql_only(is_mariadb: bool) -> None:
    if is_mariadb:
        pytest.skip("MariaDB compresses event by event")


@pytest.mark.usefixtures("compressed")
@pytest.mark.parametrize("update", ["UPDATE t SET n = n + 1", "DELETE FROM t WHERE n < 100"])
def test_what_is_compressed_is_said_by_the_server_to_be_so(
    source: Database, source_cursor: Cursor, name: str, is_mariadb: bool, update: str
) -> None:
    source_cursor.execute("CREATE TABLE t (id INT PRIMARY KEY, n INT, v TEXT)")
    source_cursor.execute(
        "INSERT INTO t VALUES "
        f"{', '.join(f'({i}, {i}, REPEAT(char(65 + {i} MOD 26), 50))' for i in range(200))}"
    )
    start = position(source_cursor)
    if not is_mariadb:
        source_cursor.execute("SET SESSION binlog_transaction_compression = ON")
    source_cursor.execute(update)
    end = position(source_cursor)
    source_cursor.execute(f"SHOW BINLOG EVENTS IN '{start.file}' FROM {start.pos}")
    events = {row[1]: row[2] for row in source_cursor.fetchall()}
    assert any("compressed" in kind or kind == "Transaction_payload" for kind in events.values())
    changes = changes_of(read_batches(fetch_task(source, name), start, end))
    count = 200 if "UPDATE" in update else 100
    assert [(change.before or {})["id"] for change in changes] == list(map(str, range(count)))
    for change in changes:
        event = events[change.origin.pos]
        assert event.startswith(("Update_rows", "Delete_rows", "Transaction_payload"))


@pytest.mark.usefixtures("mysql_only")
def test_a_large_compressed_transaction_comes_in_pieces(
    source: Database, source_cursor: Cursor, name: str
) -> None:
    source_cursor.execute("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(1000))")
    source_cursor.execute(
        "SET SESSION binlog_transaction_compression = ON, cte_max_recursion_depth = 100000"
    )
    start = position(source_cursor)
    numbers = (
        "WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 9999) "
        "SELECT i, REPEAT(i, 200) FROM n"
    )
    source_cursor.execute(f"INSERT INTO t {numbers}")
    end = position(source_cursor)
    batches = read_batches(fetch_task(source, name), start, end)
    changes = changes_of(batches)
    assert [change.after for change in changes] == [
        {"id": str(i), "v": str(i) * 200} for i in range(10_000)
    ]
    assert [change.row for change in changes] == list(range(10_000))
    assert [change.is_last for change in changes] == [False] * 9_999 + [True]
    assert len({change.origin.pos for change in changes}) == 1
    assert [batch.edge.pos for batch in batches if batch.edge is not None] == [end.pos]
    sizes = []
    for batch in batches:
        size = 0
        for part in (*batch.closed, *batch.opened):
            if isinstance(part, Rows):
                size += len(part.body)
        sizes.append(size)
    assert sum(sizes) > 20 * transaction_payload.PIECE_BYTES
    assert max(sizes) < 2 * transaction_payload.PIECE_BYTES
