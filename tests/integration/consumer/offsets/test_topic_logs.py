"""What Kafka is asked about a log whose beginning it has deleted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from cdcbus.consumer.apply.watermark import read_before_ms
from cdcbus.consumer.config import LoadTask, TopicConfig
from cdcbus.consumer.offsets import moves, topic_logs
from cdcbus.consumer.offsets.moves import read_first
from cdcbus.consumer.offsets.topic_logs import TopicLogs
from cdcbus.consumer.records.arrival_clock import ArrivalClock
from cdcbus.plugins.contracts import JdbcTarget
from cdcbus.plugins.errors import BusUnavailable
from cdcbus.plugins.positions import TopicPartition
from tests.support.topics.kafka_producer import kafka_producer

pytestmark = pytest.mark.integration
HELD_FROM, END = 5, 10


@pytest.fixture
def task(name: str, kafka: str, make_topic: Callable[..., str]) -> LoadTask:
    """Reads a topic of two partitions with END records each; Kafka has deleted those of the second
    before HELD_FROM."""
    topic = make_topic(name, 2)
    producer = kafka_producer(kafka)
    for number in range(2 * END):
        producer.produce(topic, b"%d" % (number // 2), partition=number % 2)
    assert producer.flush(60) == 0
    admin = AdminClient({"bootstrap.servers": kafka})
    cut = confluent_kafka.TopicPartition(topic, 1, HELD_FROM)
    for deleted in admin.delete_records([cut]).values():
        deleted.result(60)
    return LoadTask("7", TopicConfig(kafka, (topic,)), "canalRow", "JdbcBatch", JdbcTarget(""))


@pytest.fixture
def logs(task: LoadTask) -> Iterator[TopicLogs]:
    with TopicLogs(task) as logs:
        yield logs


def test_records_that_kafka_has_deleted_are_not_the_end_of_a_log(
    task: LoadTask, logs: TopicLogs
) -> None:
    cut = TopicPartition(task.source.topics[0], 1)
    held = [offset for offset, _, _ in logs.records(cut, HELD_FROM)]
    assert held == [*range(HELD_FROM, END)]
    assert list(logs.records(cut, END)) == []
    with pytest.raises(BusUnavailable, match=r"holds no record of .*\[1\] at offset 4"):
        list(logs.records(cut, HELD_FROM - 1))


def test_versions_of_rows_are_kept_while_a_partition_has_lost_what_comes_next(
    task: LoadTask,
) -> None:
    [topic] = task.source.topics
    read = {TopicPartition(topic, 0): END, TopicPartition(topic, 1): HELD_FROM - 1}
    with pytest.raises(BusUnavailable):
        read_before_ms(task, read, ArrivalClock())


def test_a_landmark_that_kafka_has_deleted_tells_nothing(task: LoadTask, logs: TopicLogs) -> None:
    kept, cut = (TopicPartition(task.source.topics[0], number) for number in range(2))
    found = logs.landmarks({kept: 1, cut: 1}, {kept: 2, cut: 2})
    assert [(partition, mark.offset) for partition, mark in found] == [(kept, 1)]


def test_the_first_records_of_a_start_come_with_their_keys(
    task: LoadTask, kafka: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(moves, "MOST_RECORDS", 3)
    [topic] = task.source.topics
    kept, cut = (TopicPartition(topic, number) for number in range(2))
    producer = kafka_producer(kafka)
    producer.produce(topic, b"new", b"key", partition=0)
    assert producer.flush(60) == 0
    found = read_first(task, {kept: END - 2, cut: HELD_FROM})
    assert [(each.partition, each.offset, each.key) for each in found.records] == [
        (kept, END - 2, None),
        (kept, END - 1, None),
        (kept, END, b"key"),
        (cut, HELD_FROM, None),
        (cut, HELD_FROM + 1, None),
        (cut, HELD_FROM + 2, None),
    ]
    assert found.counts == {topic: 2}


def test_what_is_open_in_many_partitions_is_read_by_one_client(
    kafka: str, name: str, make_topic: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = make_topic(name, 2)
    task = LoadTask("7", TopicConfig(kafka, (topic,)), "canalRow", "JdbcBatch", JdbcTarget(""))
    partitions = [TopicPartition(topic, number) for number in range(2)]
    producer = kafka_producer(kafka, {"transactional.id": name})
    producer.init_transactions(30)
    producer.begin_transaction()
    for partition in partitions:
        producer.produce(topic, b"open", partition=partition.partition)
    assert producer.flush(30) == 0
    isolations: list[str] = []
    clients: list[confluent_kafka.Consumer] = []

    def make(options: dict[str, Any]) -> confluent_kafka.Consumer:
        isolations.append(options["isolation.level"])
        clients.append(confluent_kafka.Consumer(options))
        return clients[-1]

    monkeypatch.setattr(topic_logs, "Consumer", make)
    with TopicLogs(task) as logs:
        for _ in range(2):
            found = [logs.next_record(partition, 0) for partition in partitions]
            assert [each and (each[0], each[2]) for each in found] == [(0, None), (0, None)]
    assert isolations == ["read_committed", "read_uncommitted"]
    for client in clients:
        with pytest.raises(RuntimeError, match="closed"):
            client.poll(0)
    producer.abort_transaction(30)


class Coordinator:
    """Answers of a group's coordinator, in turn; the last one again and again."""

    def __init__(self, *answers: Any) -> None:
        self._answers = list(answers)

    def committed(self, _: object, timeout: float) -> list[Any]:
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, int):
            raise KafkaException(KafkaError(answer))
        return [answer]

    def close(self) -> None:
        pass

    def poll(self, _: float) -> None:
        pass


@pytest.mark.parametrize("code", topic_logs.MOVING)
def test_a_coordinator_that_starts_is_asked_again(
    task: LoadTask, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    partition = TopicPartition(task.source.topics[0], 0)
    there = confluent_kafka.TopicPartition(*partition, 41)
    monkeypatch.setattr(topic_logs, "Consumer", lambda _: Coordinator(code, there))
    assert TopicLogs(task).committed(partition) == 41


def test_a_group_whose_coordinator_does_not_start_may_have_an_offset(
    task: LoadTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    partition = TopicPartition(task.source.topics[0], 0)
    away = KafkaError.COORDINATOR_NOT_AVAILABLE
    monkeypatch.setattr(topic_logs, "Consumer", lambda _: Coordinator(away))
    with pytest.raises(BusUnavailable):
        TopicLogs(task, ask_seconds=0.3).committed(partition)
