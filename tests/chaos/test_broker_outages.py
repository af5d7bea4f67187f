"""The broker killed, and stopped, for half a minute under load: nothing is lost, nothing is repeated, nothing changes places."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from dataclasses import replace
from threading import Event, Thread

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from cdcbus.ops.stack import processes
from cdcbus.ops.stack.addresses import Database, Plan
from cdcbus.ops.stack.java_servers import KAFKA
from cdcbus.ops.stack.server import NotAnswering, Place
from cdcbus.tasks.positions import MemoryPositions
from tests.integration.producer.reading import connect, fetch_task, position
from tests.integration.producer.running import Running
from tests.support.committed import committed_canal
from tests.support.secure_servers import open_folder, place_of

pytestmark = [pytest.mark.integration, pytest.mark.chaos]

AWAY_SECONDS = 30.0


class Broker:
    """A Kafka of the test's own."""

    def __init__(self, place: Place) -> None:
        self._place = place
        place.folder.mkdir()

    @property
    def address(self) -> str:
        return self._place.plan.address("kafka")

    def start(self) -> None:
        with processes.umask(0o022):
            command = KAFKA.prepare(self._place)
        processes.start(self._place.folder, command, self._place.account)
        deadline = time.monotonic() + 120
        while not self._answers():
            assert time.monotonic() < deadline, processes.log_file(self._place.folder).read_text(errors="replace")[-3000:]
            time.sleep(0.1)

    def _answers(self) -> bool:
        try:
            KAFKA.check(self._place)
        except NotAnswering:
            return False
        return True

    def kill(self) -> None:
        processes.kill(self._place.folder)

    def signal(self, number: signal.Signals) -> None:
        pid = processes.pid(self._place.folder)
        assert pid is not None
        os.kill(pid, number)


@pytest.fixture
def broker() -> Iterator[Broker]:
    with open_folder() as folder:
        broker = Broker(place_of(KAFKA, folder, Plan.new()))
        try:
            broker.start()
            yield broker
        finally:
            broker.kill()


@pytest.mark.usefixtures("source_cursor")
@pytest.mark.parametrize("transactional_id", ["", "cdcbus-outages"], ids=["idempotent", "transactional"])
def test_a_broker_that_is_stopped_and_one_that_is_killed_for_half_a_minute(
    source: Database, name: str, broker: Broker, transactional_id: str
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
            cursor.execute(f"INSERT INTO {name}.t VALUES {', '.join(f'({number})' for number in range(first, first + 10))}")
            inserted.number += 10


def gets_on(running: Running) -> None:
    before = running.progress.stored
    running.until(lambda: running.progress.stored > before + 2)
