"""A first start that is cut short: what it needs is stored in an order that the next start can
go on from, whatever DDL comes between."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from kazoo.client import KazooClient
from pymysql.cursors import Cursor

from cdcbus.ops.stack.addresses import Database
from cdcbus.plugins.contracts import PositionStore
from cdcbus.plugins.start import Edge
from cdcbus.producer.config import FetchTask
from cdcbus.producer.schema.schema_reader import SchemaReader
from cdcbus.tasks.zookeeper.position.store import ZooKeeperPositions
from cdcbus.tasks.zookeeper.schema_history import ZooKeeperSchemas
from tests.integration.producer.reading import fetch_task, position
from tests.integration.producer.running import Running, canal

pytestmark = [pytest.mark.integration, pytest.mark.source]


class KilledError(Exception):
    """Stands for the end of the process at this place."""


@pytest.fixture
def start(zookeeper_client: KazooClient, name: str) -> Callable[[FetchTask], Running]:
    """Starts the task `name` as a process of its own would, with what is stored of it."""

    def started(task: FetchTask) -> Running:
        running = Running(task, ZooKeeperPositions(zookeeper_client, name, name))
        running.schemas = ZooKeeperSchemas(zookeeper_client, name, name)
        return running

    return started


def kill(monkeypatch: pytest.MonkeyPatch, owner: object, name: str, running: Running) -> None:
    """Runs the task, which ends where it calls that for the first time."""

    def end(*_: Any, **__: Any) -> None:
        raise KilledError

    with monkeypatch.context() as patched:
        patched.setattr(owner, name, end)
        with pytest.raises(KilledError), running:
            running.ends()


@pytest.fixture
def task(
    source: Database,
    source_cursor: Cursor,
    kafka: str,
    name: str,
    make_topic: Callable[..., str],
    least_metadata: None,
) -> FetchTask:
    make_topic(name)
    source_cursor.execute("CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT)")
    return fetch_task(source, name, servers=kafka)


def test_a_kill_before_the_tables_are_known_and_ddl_after_it(
    task: FetchTask,
    source_cursor: Cursor,
    kafka: str,
    name: str,
    positions: PositionStore,
    start: Callable[[FetchTask], Running],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    task = replace(task, start=Edge.LATEST)
    kill(monkeypatch, SchemaReader, "read_all", start(task))
    assert positions.load() is None
    source_cursor.execute("INSERT INTO t VALUES (1, 1, 1)")
    source_cursor.execute("ALTER TABLE t DROP a, ADD c INT FIRST")
    with start(task) as again:
        again.until(lambda: again.progress.position is not None)
        source_cursor.execute("INSERT INTO t VALUES (7, 2, 8)")
        again.until_stored(position(source_cursor))
    assert [record["data"][0] for record in canal(kafka, name)] == [{"c": "7", "id": "2", "b": "8"}]


def test_a_kill_behind_the_tables_and_ddl_after_it(
    task: FetchTask,
    source_cursor: Cursor,
    kafka: str,
    name: str,
    positions: PositionStore,
    start: Callable[[FetchTask], Running],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    task = replace(task, start=position(source_cursor))
    kill(monkeypatch, ZooKeeperPositions, "save", start(task))
    assert positions.load() is None
    source_cursor.execute("INSERT INTO t VALUES (1, 2, 3)")
    source_cursor.execute("ALTER TABLE t DROP a, ADD c INT FIRST")
    source_cursor.execute("INSERT INTO t VALUES (7, 2, 8)")
    with start(task) as again:
        again.until_stored(position(source_cursor))
    rows = [record["data"][0] for record in canal(kafka, name)]
    assert rows == [{"id": "1", "a": "2", "b": "3"}, {"c": "7", "id": "2", "b": "8"}]
