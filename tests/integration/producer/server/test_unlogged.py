"""Servers that do not log what the task reads. They are the tests' own, as this takes a restart."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace

import pytest

from cdcbus.plugins.errors import SourceRefused, SourceUnavailable
from cdcbus.plugins.start import Edge
from cdcbus.producer.config import Elsewhere, FetchTask, FilterConfig
from cdcbus.producer.server import connection as servers
from cdcbus.producer.server.unlogged import find_gaps
from cdcbus.producer.source.binlog_source import BinlogSource
from cdcbus.producer.table_filter import TableFilter
from cdcbus.tasks.local.memory import MemoryPositions
from tests.integration.producer.reading import fetch_task
from tests.integration.producer.running import Running, ids
from tests.support.servers.mariadb_pair import (
    REPLICA,
    REPLICA_PASSWORD,
    access_for_replicas,
    replicating,
)
from tests.support.servers.private_mariadb import PrivateMariadb, private_mariadb
from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration


@pytest.fixture
def server(name: str) -> Iterator[PrivateMariadb]:
    """A server with a table `t` in a schema, and a user that replicas bring along."""
    with private_mariadb() as server:
        server.execute(
            f"CREATE DATABASE {name}",
            f"CREATE TABLE {name}.t (id INT PRIMARY KEY)",
            *access_for_replicas(),
        )
        yield server


def task_at(name: str, kafka: str, *places: PrivateMariadb) -> FetchTask:
    """As the user that all know."""
    task = fetch_task(places[0].database, name, servers=kafka)
    addresses = tuple((place.database.host, place.database.port) for place in places)
    source = replace(task.source, addresses=addresses, user=REPLICA, password=REPLICA_PASSWORD)
    return replace(task, source=source, start=Edge.LATEST)


def refused(task: FetchTask) -> str:
    with pytest.raises(SourceRefused) as error, Running(task, MemoryPositions()) as running:
        running.ends()
    return str(error.value)


def has_replicated(task: FetchTask) -> bool:
    """Whether the user that replicas bring along is there."""
    try:
        servers.connect(task.source).close()
    except SourceRefused:
        return False
    return True


def test_a_schema_that_is_not_logged(
    server: PrivateMariadb,
    kafka: str,
    name: str,
    make_topic: Callable[..., str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Another address that logs it is read instead; where the filter is open, the log says so."""
    make_topic(name)
    with private_mariadb(f"--binlog-ignore-db={name}") as deaf:
        deaf.execute(f"CREATE DATABASE {name}", *access_for_replicas())
        sentence = refused(task_at(name, kafka, deaf))
        assert f"binlog-ignore-db leaves out schema {name}, which the task's filter" in sentence
        with Running(task_at(name, kafka, deaf, server), MemoryPositions()) as running:
            running.until(lambda: running.progress.position is not None)
            running.until_stored(server.execute(f"INSERT INTO {name}.t VALUES (1)"))
        assert ids(kafka, name) == [1]
        caplog.clear()
        anything = replace(task_at(name, kafka, deaf), tables=FilterConfig((r".*\..*",)))
        with Running(anything, MemoryPositions()) as running:
            running.until(lambda: running.progress.position is not None)
        assert caplog.text.count("binlog-ignore-db is set") == 1


def test_a_replica_that_does_not_log_what_it_replicates(
    server: PrivateMariadb, kafka: str, name: str
) -> None:
    """Also as a user who may not ask whether it is one; not one that never was a replica."""
    with private_mariadb("--server-id=2") as replica:
        lone = task_at(name, kafka, replica)
        replica.execute(
            "CREATE USER few IDENTIFIED BY 'few-pass'",
            "GRANT REPLICATION SLAVE, BINLOG MONITOR, SELECT ON *.* TO few",
        )
        few = replace(lone, source=replace(lone.source, user="few", password="few-pass"))
        with BinlogSource(few) as source:
            assert source.doubts == []
        replica.execute(*replicating(server))
        wait_until(lambda: has_replicated(lone), "the replica to have everything")
        what = "log_slave_updates is OFF, and the server is a replica"
        for task in (few, lone):  # it may be the one in use of two that replicate each other
            with BinlogSource(task) as source:
                assert what in source.doubts[0]
        replica.execute("SET GLOBAL read_only = ON")
        for task in (few, lone):
            with pytest.raises(SourceUnavailable, match=what), BinlogSource(task):
                pass
        with BinlogSource(replace(lone, elsewhere=Elsewhere(frozenset({1})))) as source:
            assert what in source.doubts[0]
        server.execute(f"INSERT INTO {name}.t VALUES (1)")
        replica.execute("STOP SLAVE")
        with pytest.raises(SourceUnavailable, match=what), BinlogSource(lone):
            pass
        with closing(servers.connect(few.source)) as connection:
            gaps = find_gaps(connection, TableFilter(few.tables), few.elsewhere)
        assert [gap.is_sure for gap in gaps] == [False]
