"""Schema histories of binlogs that are reset or break off. The servers are the tests' own."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from cdcbus.plugins.start import Edge
from cdcbus.producer.schema.table_versions import MemorySchemas
from cdcbus.producer.source.binlog_source import BinlogSource
from tests.integration.producer.reading import fetch_task, read
from tests.support.servers.private_mariadb import PrivateMariadb, private_mariadb
from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration
SWAP = "ALTER TABLE shop.t RENAME COLUMN a TO b, RENAME COLUMN b TO a"


@pytest.fixture
def server() -> Iterator[PrivateMariadb]:
    """A server whose rows do not say what their columns are."""
    with private_mariadb("--binlog-row-metadata=NO_LOG") as server:
        server.execute("CREATE DATABASE shop", "CREATE TABLE shop.t (id INT, a INT, b INT)")
        yield server


def test_rows_of_a_reset_binlog_have_the_columns_of_their_time(server: PrivateMariadb) -> None:
    """The columns change their places before the reset and after it, when the task is stopped."""
    task = fetch_task(server.database, "shop")
    schemas = MemorySchemas()
    start = server.execute("DO 1")
    end = server.execute(
        "INSERT INTO shop.t VALUES (1, 10, 20)",
        "FLUSH BINARY LOGS",
        "FLUSH BINARY LOGS",
        SWAP,
        "INSERT INTO shop.t VALUES (2, 20, 10)",
    )
    alike = {"a": "10", "b": "20"}
    rows = [change.after for change in read(task, start, end, schemas)]
    assert rows == [{"id": "1", **alike}, {"id": "2", **alike}]
    # A restart stores how far DDL was followed.
    later = server.execute("INSERT INTO shop.t VALUES (3, 20, 10)")
    assert [change.after for change in read(task, end, later, schemas)] == [{"id": "3", **alike}]

    def created_ms() -> int:
        with BinlogSource(task) as source:
            return source.locate(Edge.EARLIEST).file_created_ms

    before_ms = created_ms()
    wait_until(
        lambda: server.execute("RESET MASTER") is not None and created_ms() > before_ms,
        "a file of another second",
    )
    start = server.execute("DROP TABLE shop.t")
    end = server.execute(
        "CREATE TABLE shop.t (id INT, b INT, a INT)",
        "INSERT INTO shop.t VALUES (4, 20, 10)",
        "FLUSH BINARY LOGS",
        SWAP,
        "INSERT INTO shop.t VALUES (5, 10, 20)",
        "FLUSH BINARY LOGS",
        "FLUSH BINARY LOGS",
        "FLUSH BINARY LOGS",
        "INSERT INTO shop.t VALUES (6, 10, 20)",
    )
    rows = [change.after for change in read(task, start, end, schemas)]
    assert rows == [{"id": str(number), **alike} for number in (4, 5, 6)]


def test_ddl_behind_a_file_that_breaks_off_is_found(server: PrivateMariadb) -> None:
    """As after a power loss; by a task that has yet to read the files before it."""
    start = server.execute("INSERT INTO shop.t VALUES (1, 10, 20)", "DO 1")
    server.execute("ALTER TABLE shop.t ADD c INT", "INSERT INTO shop.t VALUES (2, 10, 20, 30)")
    broken = server.execute("FLUSH BINARY LOGS", "INSERT INTO shop.t VALUES (100, 1, 1, 1)")
    server.kill()
    os.truncate(server.binlog(broken.file), broken.pos - 10)
    server.start()
    end = server.execute("ALTER TABLE shop.t DROP c", SWAP, "INSERT INTO shop.t VALUES (3, 20, 10)")
    rows = [change.after for change in read(fetch_task(server.database, "shop"), start, end)]
    alike = {"a": "10", "b": "20"}
    assert rows[0] == {"id": "2", **alike, "c": "30"}
    assert rows[-1] == {"id": "3", **alike}
