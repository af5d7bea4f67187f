"""Where a consumer task starts when Kafka no longer has, or does not have yet, what its position
says."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions  # type: ignore[attr-defined]

from cdcbus.consumer.config import LoadTask, TopicConfig
from cdcbus.consumer.offsets.start_offsets import starting_offsets
from cdcbus.consumer.offsets.topic_logs import TopicLogs
from cdcbus.plugins.contracts import JdbcTarget
from cdcbus.plugins.errors import PositionLost, PositionUnusable
from cdcbus.plugins.positions import KafkaPosition, TopicPartition, kafka_positions_to_json
from cdcbus.tasks.local.memory import MemoryNode, MemoryPositions
from tests.support.topics.kafka_producer import kafka_producer
from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration


@pytest.fixture
def task(cut_topic: str, kafka: str) -> LoadTask:
    return LoadTask(
        cut_topic, TopicConfig(kafka, (cut_topic,)), "canalRow", "JdbcBatch", JdbcTarget("")
    )


def start(task: LoadTask, last_offset: int) -> int:
    store = MemoryPositions()
    store.save(kafka_positions_to_json([KafkaPosition(task.task_id, 0, last_offset)]))
    with TopicLogs(task) as logs:
        [(_, offset)] = starting_offsets(task, logs, {task.task_id: store}, []).offsets.items()
    return offset


@pytest.mark.parametrize("last_offset", [4, 9])
def test_the_first_and_the_end_offset_are_held(task: LoadTask, last_offset: int) -> None:
    assert start(task, last_offset) == last_offset + 1


def test_a_position_of_a_partition_that_the_topic_lacks_is_refused(task: LoadTask) -> None:
    node = MemoryNode()
    node.set(kafka_positions_to_json([KafkaPosition(task.task_id, 7, 4)]).encode())
    store = MemoryPositions(node)
    with (
        TopicLogs(task) as logs,
        pytest.raises(PositionUnusable, match=r"names .*\[7\], and the topic has only .* 0 to 0"),
    ):
        starting_offsets(task, logs, {task.task_id: store}, [])


def test_the_size_of_records_ahead_is_known_where_they_are_many(
    name: str, kafka: str, make_topic: Callable[..., str]
) -> None:
    make_topic(name, 2)
    producer = kafka_producer(kafka)
    for number in range(300):
        producer.produce(name, b"x" * (10 if number < 150 else 1000), partition=1)
    producer.produce(name, b"x", partition=0)
    assert producer.flush(30) == 0
    with TopicLogs(
        LoadTask(name, TopicConfig(kafka, (name,)), "canalRow", "JdbcBatch", JdbcTarget(""))
    ) as logs:
        assert logs.ahead({TopicPartition(name, 0): 0, TopicPartition(name, 1): 20}) == (281, 10)
        assert logs.ahead({TopicPartition(name, 0): 0, TopicPartition(name, 1): 150}) == (151, 1000)
        assert logs.ahead({TopicPartition(name, 0): 0, TopicPartition(name, 1): 250}) == (51, 0)


@pytest.mark.parametrize("last_offset", [3, 10])
def test_an_offset_that_is_not_held_stops_with_the_numbers_or_is_reset_with_a_warning(
    task: LoadTask, last_offset: int, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(
        PositionLost,
        match=rf"wants offset {last_offset + 1} of {task.task_id}\[0\], Kafka holds 5 to 10; ",
    ):
        start(task, last_offset)
    with caplog.at_level(logging.WARNING):
        assert start(replace(task, allow_offset_reset=True), last_offset) == 5
    assert (
        f"offset {last_offset + 1} of {task.task_id}[0] is not held (5 to 10); reset to 5"
        in caplog.text
    )


def test_a_new_partition_whose_first_records_are_gone_is_warned_of(
    task: LoadTask, caplog: pytest.LogCaptureFixture
) -> None:
    admin = AdminClient({"bootstrap.servers": task.source.servers})
    admin.create_partitions([NewPartitions(task.task_id, 3)])[task.task_id].result(30)
    wait_until(lambda: partitions_of(task) == [0, 1, 2], "the new partitions")
    store = MemoryPositions()
    store.save(kafka_positions_to_json([KafkaPosition(task.task_id, 1, -1)]))
    with TopicLogs(task) as logs, caplog.at_level(logging.WARNING):
        found = starting_offsets(task, logs, {task.task_id: store}, []).offsets
    assert [*found.values()] == [5, 0, 0]
    gone, new = caplog.messages
    assert "partition 0 of" in gone
    assert gone.endswith(
        "beginning, offset 5: what came before that is not held any more, and was never read"
    )
    assert "partition 2 of" in new
    assert new.endswith("it is read from its beginning")


def partitions_of(task: LoadTask) -> list[int]:
    with TopicLogs(task) as logs:
        return logs.partitions(task.task_id)
