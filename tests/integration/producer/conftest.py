"""Fixtures for tests of the producer."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from kazoo.client import KazooClient

from cdcbus.ops.stack.addresses import Database
from cdcbus.plugins.contracts import PositionStore
from cdcbus.producer.binlog import dump_stream
from cdcbus.producer.schema.ddl_scanner import version_number
from cdcbus.producer.server import failover
from cdcbus.tasks.zookeeper.connection import connect as connect_zookeeper
from cdcbus.tasks.zookeeper.position.store import ZooKeeperPositions
from tests.integration.producer.reading import connect, global_variable


@pytest.fixture(autouse=True)
def quick_heartbeats(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader with nothing to read wakes at each of the server's heartbeats: here ten times a
    second, not once."""
    monkeypatch.setattr(dump_stream, "HEARTBEAT_SECONDS", 0.1)


@pytest.fixture(autouse=True)
def quick_attempts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pauses between attempts to reach a source, at a twentieth of their length."""
    monkeypatch.setattr(failover, "PAUSE_SECONDS", failover.PAUSE_SECONDS / 20)


@pytest.fixture(scope="session")
def is_mariadb(source: Database) -> bool:
    with connect(source) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT VERSION()")
        return "mariadb" in cursor.fetchall()[0][0].lower()


@pytest.fixture
def logs_prepared(source: Database, is_mariadb: bool) -> None:
    """XA transactions are in the binlog when they are prepared; MariaDB before 10.5 logs them
    when they are committed."""
    with connect(source) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT VERSION()")
        if is_mariadb and version_number(cursor.fetchall()[0][0]) < 100_500:
            pytest.skip("XA transactions are logged when they are committed")


@pytest.fixture
def full_metadata(source: Database) -> Iterator[None]:
    """The server sends each table's column names, key and labels with its rows."""
    with global_variable(source, "binlog_row_metadata", "FULL"):
        yield


@pytest.fixture
def least_metadata(source: Database, is_mariadb: bool) -> Iterator[None]:
    """The server sends as little about tables as it can: what it does when nobody has told it
    otherwise, and old ones always."""
    with connect(source) as connection, connection.cursor() as cursor:
        if not cursor.execute("SHOW VARIABLES LIKE 'binlog_row_metadata'"):
            yield
            return
    with global_variable(source, "binlog_row_metadata", "NO_LOG" if is_mariadb else "MINIMAL"):
        yield


@pytest.fixture(scope="module")
def zookeeper_client(zookeeper: str) -> Iterator[KazooClient]:
    client = connect_zookeeper(f"{zookeeper}/cdcbus/producer-test")
    yield client
    client.stop()
    client.close()


@pytest.fixture(scope="module")
def operator(zookeeper: str) -> Iterator[KazooClient]:
    """Somebody else's ZooKeeper session."""
    client = connect_zookeeper(f"{zookeeper}/cdcbus/producer-test")
    yield client
    client.stop()
    client.close()


@pytest.fixture
def positions(zookeeper_client: KazooClient, name: str) -> PositionStore:
    """The stored position of the task `name`, as the task sees it."""
    return ZooKeeperPositions(zookeeper_client, name, name)


@pytest.fixture
def stored(operator: KazooClient, positions: PositionStore) -> Callable[[], str | None]:
    """What is stored now, as an operator sees it."""

    def read() -> str | None:
        return operator.get(positions.path)[0].decode() if operator.exists(positions.path) else None

    return read


@pytest.fixture
def store(operator: KazooClient, positions: PositionStore) -> Callable[[str], None]:
    """Sets the node, as an operator does with zkCli."""

    def write(text: str) -> None:
        operator.ensure_path(positions.path)
        operator.set(positions.path, text.encode())

    return write
