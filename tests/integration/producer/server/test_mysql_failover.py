"""Two MySQL servers, the second a replica of the first by GTID: the task goes on at the second with
nothing lost or repeated, and with what it knew of its tables.

Both are named by CDCBUS_TEST_MYSQL_PAIR, their binlogs are reset; the servers of the stack are
MariaDB's."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest

from cdcbus.ops.stack.addresses import Database
from cdcbus.plugins.positions import BinlogPosition
from cdcbus.plugins.start import Edge
from cdcbus.tasks.local.memory import MemoryPositions
from tests.conftest import named
from tests.integration.producer.reading import connect, fetch_task
from tests.integration.producer.running import Running, canal
from tests.support.servers.line import Line
from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration
PAIR = "CDCBUS_TEST_MYSQL_PAIR"  # two of mysql://user:password@host:port, with a blank between


def run(server: Database, *statements: str) -> tuple[tuple[Any, ...], ...]:
    """The rows of the last statement."""
    with closing(connect(server)) as connection, connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
        rows: tuple[tuple[Any, ...], ...] = cursor.fetchall()
        return rows


@pytest.fixture
def pair(name: str) -> Iterator[tuple[Database, Database]]:
    """The first one has a table, the second one replicates it. Table maps name no columns, so that
    the task needs the history of its tables. The second one's binlog has other places."""
    if PAIR not in os.environ:
        pytest.skip(f"the stack has no two MySQL servers: {PAIR} names them")
    first, second = map(named, os.environ[PAIR].split())
    for server in (first, second):
        run(server, "RESET BINARY LOGS AND GTIDS", "SET GLOBAL binlog_row_metadata=MINIMAL")
    run(
        second,
        "FLUSH BINARY LOGS",
        f"CHANGE REPLICATION SOURCE TO SOURCE_HOST='{first.host}', SOURCE_PORT={first.port}, "
        f"SOURCE_USER='{first.user}', SOURCE_PASSWORD='{first.password}', "
        "SOURCE_AUTO_POSITION=1, GET_SOURCE_PUBLIC_KEY=1",
        "START REPLICA",
    )
    run(first, f"CREATE DATABASE {name}", f"CREATE TABLE {name}.t (id INT PRIMARY KEY)")
    yield first, second
    run(second, "STOP REPLICA", "RESET REPLICA ALL")
    for server in (first, second):
        run(server, f"DROP DATABASE {name}", "SET GLOBAL binlog_row_metadata=FULL")


def replicated(second: Database, sql: str, count: int) -> None:
    wait_until(lambda: len(run(second, sql)) == count, f"{count} rows of {sql}")


@pytest.mark.parametrize("is_from_place", [False, True], ids=["from the end", "from a place"])
def test_the_second_server_is_read_from_where_the_first_one_was(
    pair: tuple[Database, Database],
    kafka: str,
    name: str,
    make_topic: Callable[..., str],
    is_from_place: bool,
) -> None:
    """A start from a place has no GTIDs but those that its binlog tells."""
    first, second = pair
    replicated(second, f"SHOW DATABASES LIKE '{name}'", 1)
    make_topic(name)
    line = Line(f"{first.host}:{first.port}")
    host, port = line.address.split(":")
    [place] = run(first, "SHOW BINARY LOG STATUS")
    task = fetch_task(first, name, servers=kafka)
    task = replace(
        task,
        start=BinlogPosition(place[0], place[1]) if is_from_place else Edge.LATEST,
        source=replace(
            task.source,
            addresses=((host, int(port)), (second.host, second.port)),
            connect_timeout_seconds=2.0,
        ),
    )
    with Running(task, MemoryPositions()) as running:
        running.until(lambda: running.progress.position is not None)
        run(first, f"INSERT INTO {name}.t VALUES (1)", f"INSERT INTO {name}.t VALUES (2)")
        running.until(lambda: running.progress.done == 2)
        # between the last row that was read and the failover
        run(first, f"ALTER TABLE {name}.t ADD note VARCHAR(9)")
        replicated(second, f"SHOW COLUMNS FROM {name}.t", 2)
        line.cut()
        run(
            second,
            "STOP REPLICA",
            f"INSERT INTO {name}.t VALUES (3, 'x')",
            f"ALTER TABLE {name}.t ADD more INT",
            f"INSERT INTO {name}.t VALUES (4, 'y', 7)",
        )
        running.until(lambda: running.progress.done >= 4)
    assert [record["data"][0] for record in canal(kafka, name)] == [
        {"id": "1"},
        {"id": "2"},
        {"id": "3", "note": "x"},
        {"id": "4", "note": "y", "more": "7"},
    ]
