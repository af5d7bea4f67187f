"""What a task is told of its topics while it reads: that one is gone, made anew or has more
partitions, and that a reader gets nothing of what Kafka has."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Event

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions

from cdcbus.consumer.batch import topic_watch
from cdcbus.consumer.batch.progress import Progress
from cdcbus.consumer.batch.topic_watch import TopicWatch
from cdcbus.consumer.config import LoadTask, TopicConfig
from cdcbus.consumer.offsets import topic_identity
from cdcbus.consumer.offsets.topic_identity import topic_ids
from cdcbus.plugins.contracts import JdbcTarget
from cdcbus.plugins.errors import BusUnavailable, CdcError, TopicRemade
from cdcbus.plugins.positions import TopicPartition
from cdcbus.plugins.start import Replay
from cdcbus.plugins.task_status import TaskStatus
from tests.support.topics.kafka_producer import kafka_producer
from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_identity, "LOOK_SECONDS", 0.1)
    monkeypatch.setattr(topic_watch, "STALL_SECONDS", 0.5)


class Reading:
    """A task that is at this offset of a topic with one partition."""

    def __init__(self, topic: str, servers: str, offset: int, start: Replay | None = None) -> None:
        source = TopicConfig(servers, (topic,))
        self.task = LoadTask("7", source, "canalRow", "JdbcBatch", JdbcTarget(""), start=start)
        self.progress = Progress(next_offsets={TopicPartition(topic, 0): offset})
        self.watch = TopicWatch(
            self.task, topic_ids(source), self.progress, TaskStatus("7"), Event()
        )
        self.found: list[CdcError] = []

    def finds(self) -> bool:
        error = self.watch.look()
        if error:
            self.found.append(error)
        return bool(error)


def put(servers: str, topic: str, count: int) -> None:
    producer = kafka_producer(servers)
    for _ in range(count):
        producer.produce(topic, b"x", partition=0)
    assert producer.flush(60) == 0


def test_a_reader_that_gets_nothing_of_what_kafka_has_is_told(
    name: str, kafka: str, make_topic: Callable[..., str]
) -> None:
    put(kafka, make_topic(name), 3)
    reading = Reading(name, kafka, 2)
    wait_until(reading.finds, "the stall")
    assert type(reading.found[0]) is BusUnavailable
    assert f"gives no records of {name}[0] at offset 2" in str(reading.found[0])


def test_neither_a_task_that_has_all_nor_one_at_work_nor_one_that_gets_on_is_stalled(
    name: str, kafka: str, make_topic: Callable[..., str]
) -> None:
    put(kafka, make_topic(name), 300)
    has_all = Reading(name, kafka, 300)
    at_work = Reading(name, kafka, 2)
    at_work.progress.batch_since = time.monotonic()
    gets_on = Reading(name, kafka, 2)
    replayed = Reading(name, kafka, 7, start=Replay(0, 6))
    stalled = Reading(name, kafka, 2)

    def is_stalled() -> bool:
        first = TopicPartition(name, 0)
        gets_on.progress.move([(first, gets_on.progress.next_offsets[first] + 1, None)])
        for each in (has_all, at_work, gets_on, replayed):
            assert not each.finds(), each.found
        return stalled.finds()

    for _ in range(2):  # as long as it takes twice
        wait_until(is_stalled, "the stall of the one")


def test_a_topic_that_is_deleted_is_told_and_one_that_is_made_anew(
    name: str, kafka: str, make_topic: Callable[..., str]
) -> None:
    put(kafka, make_topic(name), 3)
    reading = Reading(name, kafka, 3)
    admin = AdminClient({"bootstrap.servers": kafka})
    admin.delete_topics([name])[name].result(60)
    wait_until(reading.finds, "that it is gone")
    assert type(reading.found[0]) is BusUnavailable
    wait_until(lambda: name not in admin.list_topics(timeout=30).topics, "it to be gone")
    make_topic(name)
    wait_until(lambda: reading.finds() and type(reading.found[-1]) is TopicRemade, "it")


def test_a_partition_that_is_added_is_told(
    name: str, kafka: str, make_topic: Callable[..., str]
) -> None:
    reading = Reading(make_topic(name), kafka, 0)
    assert not reading.finds()
    admin = AdminClient({"bootstrap.servers": kafka})
    admin.create_partitions([NewPartitions(name, 2)])[name].result(60)

    def is_told() -> bool:
        assert not reading.finds()
        return reading.watch.new_partitions() == [(name, 1)]

    wait_until(is_told, "the new one")
    chosen = TopicConfig(kafka, (name,), partitions=(0,))
    task = LoadTask("7", chosen, "canalRow", "JdbcBatch", JdbcTarget(""))
    watch = TopicWatch(task, {}, reading.progress, TaskStatus("7"), Event())
    assert watch.look() is None and watch.new_partitions() == []
