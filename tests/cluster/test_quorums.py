"""A ZooKeeper of three servers and a Kafka of three brokers lose their leaders, and ZooKeeper its
quorum, under load: source and target are equal at the end, and no row goes back.

A minute and more each, as leaders are missed by the servers' own clocks: `make test-cluster`, and
`make chaos`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from pymysql.cursors import Cursor

from cdcbus.ops.stack.addresses import Addresses, Database
from cdcbus.plugins.errors import PositionError
from cdcbus.plugins.task_status import State
from tests.support.changes.changing import changing
from tests.support.processes.bus import (
    Bus,
    Run,
    fetch_text,
    load_text,
    open_bus,
    postgresql_schema,
    published,
)
from tests.support.servers.three_servers import three_brokers, three_zookeepers
from tests.support.topics.new_topics import create_topics
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.integration, pytest.mark.chaos]

PATIENCE_SECONDS = 300.0
# Longer than a lease and a session: all that depends on them has ended by then.
WITHOUT_QUORUM_SECONDS = 20.0


@contextmanager
def bus_of(
    stack: Addresses, source: Database, name: str, folder: Path, **keys: str
) -> Iterator[tuple[Bus, Run]]:
    """Two nodes with a fetch task, which has these keys, and a consumer task at work on table t."""
    password = stack.postgresql.password
    with (
        postgresql_schema(stack, name) as run,
        open_bus(
            stack.zookeeper, name, folder, SOURCE_PASSWORD=source.password, TARGET_PASSWORD=password
        ) as bus,
    ):
        run(f"CREATE TABLE {name}.t (id INT PRIMARY KEY, n INT)")
        bus.load(fetch_text("fetch", source, stack.kafka, name, **keys))
        bus.load(load_text("load", stack, name))
        for node_id in ("n1", "n2"):
            bus.node(node_id)
        bus("task", "start", "fetch", "load", "--timeout", PATIENCE_SECONDS)
        yield bus, run


def has_more_rows(bus: Bus) -> None:
    """Waits until rows have arrived that were not there at the call."""
    known: list[int] = []

    def has_more() -> bool:
        if (rows := rows_of(bus)) is not None:
            known.append(rows)
        return bool(known) and known[-1] > known[0]

    wait_until(has_more, "rows to arrive", PATIENCE_SECONDS)


def rows_of(bus: Bus) -> int | None:
    # The client may still be looking for the new leader.
    with suppress(PositionError):
        stat = bus.tasks.stat("load")
        return None if stat is None else stat.rows
    return None


def assert_equal(bus: Bus, run: Run, cursor: Cursor, name: str) -> None:
    cursor.execute("SELECT id, n FROM t ORDER BY id")
    wanted = [*cursor.fetchall()]
    assert wanted
    wait_until(
        lambda: run(f"SELECT id, n FROM {name}.t ORDER BY id").fetchall() == wanted,
        "the target to be equal",
        PATIENCE_SECONDS,
    )
    wait_until(
        lambda: all(bus.status(task).state is State.WORKING for task in ("fetch", "load")),
        "both tasks to work",
        PATIENCE_SECONDS,
    )


def rows_at(cursor: Cursor) -> dict[str, str]:
    """What table t of the source has: n by id."""
    cursor.execute("SELECT id, n FROM t")
    return {str(key): str(n) for key, n in cursor.fetchall()}


def folded(records: list[dict[str, Any]]) -> dict[str, str]:
    """The same, as a reader of the whole topic has it."""
    found: dict[str, str] = {}
    for record in records:
        for row in record["data"]:
            if record["type"] == "DELETE":
                found.pop(row["id"], None)
            else:
                found[row["id"]] = row["n"]
    return found


@pytest.fixture
def secrets(stack: Addresses, source: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_PASSWORD", source.password)
    monkeypatch.setenv("TARGET_PASSWORD", stack.postgresql.password)


@pytest.mark.usefixtures("secrets")
def test_a_zookeeper_of_three_loses_its_leader_and_then_its_quorum(
    stack: Addresses,
    source: Database,
    source_cursor: Cursor,
    name: str,
    make_topic: Callable[..., str],
    tmp_path: Path,
) -> None:
    make_topic(name)
    source_cursor.execute("CREATE TABLE t (id INT PRIMARY KEY, n INT)")
    with (
        three_zookeepers() as three,
        bus_of(replace(stack, zookeeper=three.address), source, name, tmp_path) as (bus, run),
    ):
        with changing(source, name):
            has_more_rows(bus)
            first = three.leader()
            three.kill(first)
            second = three.leader()
            has_more_rows(bus)
            # One of three is left: nobody can hold a lock, or store a position.
            three.kill(second)
            time.sleep(WITHOUT_QUORUM_SECONDS)
            three.start(first)
            three.start(second)
            three.leader()
            has_more_rows(bus)
        assert_equal(bus, run, source_cursor, name)
    assert folded(published(stack.kafka, name)) == rows_at(source_cursor)


@pytest.mark.usefixtures("secrets")
@pytest.mark.parametrize("semantics", ["idempotent", "transactions"])
def test_a_kafka_of_three_brokers_loses_the_leader_of_a_partition(
    stack: Addresses,
    source: Database,
    source_cursor: Cursor,
    name: str,
    tmp_path: Path,
    semantics: str,
) -> None:
    keys = {"loader.source.transaction": "true"} if semantics == "transactions" else {}
    source_cursor.execute("CREATE TABLE t (id INT PRIMARY KEY, n INT)")
    with three_brokers(name) as three:
        admin = AdminClient({"bootstrap.servers": three.address})
        create_topics(admin, NewTopic(name, 1, 3))
        servers = replace(stack, kafka=three.address)
        with bus_of(servers, source, name, tmp_path, **keys) as (bus, run):
            with changing(source, name):
                has_more_rows(bus)
                lost = three.leader()
                three.kill(lost)
                has_more_rows(bus)
                three.start(lost)
                # The other two: the one that has just come back can lead by now.
                lost = three.leader()
                has_more_rows(bus)
                three.kill(lost)
                has_more_rows(bus)
                three.start(lost)
            assert_equal(bus, run, source_cursor, name)
            assert folded(published(three.address, name)) == rows_at(source_cursor)
