"""The broker killed, and stopped, for half a minute under load: nothing is lost, nothing is
repeated, nothing changes places."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from dataclasses import replace
from threading import Event, Thread

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from cdcbus.ops.stack.addresses import Database
from cdcbus.tasks.zookeeper.positions import MemoryPositions
from tests.integration.producer.reading import connect, fetch_task, position
from tests.integration.producer.running import Running
from tests.support.committed import committed_canal
from tests.support.private_broker import PrivateBroker, private_broker

pytestmark = [pytest.mark.integration, pytest.mark.chaos]

AWAY_SECONDS = 30.0


@pytest.fixture
def broker() -> Iterator[PrivateBroker]:
    with private_broker() as broker:
        yield broker


@pytest.mark.usefixtures("source_cursor")
@pytest.mark.parametrize(
    "transactional_id", ["", "cdcbus-outages"], ids=["idempotent", "transactional"]
)
def test_a_broker_that_is_stopped_and_one_that_is_killed_for_half_a_minute(
    source: Database, name: str, broker: PrivateBroker, transactional_id: str
) -> None:
    admin = AdminClient({"bootstrap.servers": broker.address})
    admin.create_topics([NewTopic(name, 1, 1)])[name].result(timeout=30)
    task = fetch_task(source, name, servers=broker.address)
    task = replace(task, publish=replace(task.publish, transactional_id=transactional_id))
    positions = MemoryPositions()
    with connect(source) as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE TABLE {name}.t (id INT)")
        positions.save(position(cursor).to_json())
    inserted, stop = Counted(), Event()
    load = Thread(target=insert, args=(source, name, inserted, stop), daemon=True)
    with Running(task, positions) as running:
        load.start()
        running.until(lambda: running.progress.stored > 2)
        broker.signal(signal.SIGSTOP)
        time.sleep(AWAY_SECONDS)
        broker.signal(signal.SIGCONT)
        gets_on(running)
        broker.kill()
        time.sleep(AWAY_SECONDS)
        broker.start()
        gets_on(running)
        stop.set()
        load.join(30)
        assert not load.is_alive()
        with connect(source) as connection, connection.cursor() as cursor:
            end = position(cursor)
        running.until_stored(end)
    ids = [int(record["data"][0]["id"]) for record in committed_canal(broker.address, name)]
    assert inserted.number > 1000
    assert ids == list(range(inserted.number))


class Counted:
    number = 0


def insert(source: Database, name: str, inserted: Counted, stop: Event) -> None:
    """Ten rows each few milliseconds."""
    with connect(source) as connection, connection.cursor() as cursor:
        while not stop.wait(0.005):
            first = inserted.number
            cursor.execute(
                f"INSERT INTO {name}.t VALUES "
                f"{', '.join(f'({number})' for number in range(first, first + 10))}"
            )
            inserted.number += 10


def gets_on(running: Running) -> None:
    before = running.progress.stored
    running.until(lambda: running.progress.stored > before + 2)
