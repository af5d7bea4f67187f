"""The broker killed, and stopped, for half a minute under load: nothing is lost, nothing is
repeated, nothing changes places, and the tasks' states tell of it."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from threading import Event, Thread

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from cdcbus.ops.stack.addresses import Database
from cdcbus.plugins.task_status import State
from cdcbus.producer.config import FetchTask
from cdcbus.tasks.local.memory import MemoryPositions
from tests.integration.producer.reading import connect, fetch_task, position
from tests.integration.producer.running import Running
from tests.support.servers.private_broker import PrivateBroker, private_broker
from tests.support.topics.committed import committed_canal
from tests.support.topics.new_topics import create_topics

pytestmark = [pytest.mark.integration, pytest.mark.chaos]

AWAY_SECONDS = 30.0


@pytest.fixture
def broker() -> Iterator[PrivateBroker]:
    with private_broker() as broker:
        yield broker


@pytest.mark.usefixtures("source_cursor")
def test_a_broker_that_is_stopped_and_one_that_is_killed_for_half_a_minute(
    source: Database, name: str, broker: PrivateBroker
) -> None:
    """Two tasks, one of them in transactions, meet the same outages. More than 20 s: a task in
    transactions behaves differently from STUCK_SECONDS on."""
    positions = {f"{name}-{way}": MemoryPositions() for way in ("idempotent", "transactional")}
    admin = AdminClient({"bootstrap.servers": broker.address})
    create_topics(admin, *(NewTopic(topic, 1, 1) for topic in positions))
    with connect(source) as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE TABLE {name}.t (id INT)")
        for stored in positions.values():
            stored.save(position(cursor).to_json())
    inserted, stop = Counted(), Event()
    load = Thread(target=insert, args=(source, name, inserted, stop), daemon=True)
    with ExitStack() as tasks:
        running = [
            tasks.enter_context(Running(task_of(topic, source, name, broker), stored))
            for topic, stored in positions.items()
        ]
        load.start()
        get_on(running)
        broker.signal(signal.SIGSTOP)
        time.sleep(AWAY_SECONDS)
        name_it_away(running, broker)
        broker.signal(signal.SIGCONT)
        get_on(running)
        broker.kill()
        time.sleep(AWAY_SECONDS)
        name_it_away(running, broker)
        broker.start()
        get_on(running)
        for each in running:
            each.status.observe(is_behind=True)
            assert each.status.now == (State.WORKING, "")
        stop.set()
        load.join(30)
        assert not load.is_alive()
        with connect(source) as connection, connection.cursor() as cursor:
            end = position(cursor)
        for each in running:
            each.until_stored(end)
    assert inserted.number > 1000
    for topic in positions:
        ids = [int(record["data"][0]["id"]) for record in committed_canal(broker.address, topic)]
        assert ids == list(range(inserted.number)), topic


def task_of(topic: str, source: Database, name: str, broker: PrivateBroker) -> FetchTask:
    """Of the schema `name` into a topic of its own; in transactions where it is called so."""
    task = fetch_task(source, name, servers=broker.address)
    transactional_id = f"cdcbus-{topic}" if topic.endswith("-transactional") else ""
    publish = replace(task.publish, topic=topic, transactional_id=transactional_id)
    return replace(task, task_id=topic, publish=publish)


class Counted:
    number = 0


def insert(source: Database, name: str, inserted: Counted, stop: Event) -> None:
    """Ten rows at a time, fifty times a second at most."""
    with connect(source) as connection, connection.cursor() as cursor:
        while not stop.wait(0.02):
            first = inserted.number
            cursor.execute(
                f"INSERT INTO {name}.t VALUES "
                f"{', '.join(f'({number})' for number in range(first, first + 10))}"
            )
            inserted.number += 10


def name_it_away(running: list[Running], broker: PrivateBroker) -> None:
    """Each task says that it waits for Kafka, in the words by which alarms are grouped."""
    for each in running:
        state, reason = each.status.now
        assert state is State.RETRYING
        assert f"Kafka at {broker.address}" in reason


def get_on(running: list[Running]) -> None:
    """Each task stores some positions more."""
    for each, before in [(each, each.progress.stored) for each in running]:
        each.until(lambda: each.progress.stored > before + 2)
