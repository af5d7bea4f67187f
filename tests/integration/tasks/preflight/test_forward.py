"""`cdcbus task check` of a task from Kafka to Kafka: topics on both sides, where it would start,
and nothing is changed."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from threading import Event

import pytest
from confluent_kafka.admin import AdminClient

from cdcbus.consumer.config import LoadTask
from cdcbus.consumer.forward.forwarder import Forwarder
from cdcbus.plugins.converters.canal_row import CanalRow
from cdcbus.plugins.kafka.config import PublishConfig
from cdcbus.plugins.positions import KafkaPosition, TopicPartition, kafka_positions_to_json
from cdcbus.plugins.rowchange import Column, Op, RowChange, Table, TableId
from cdcbus.tasks.config.read_task import read_task
from cdcbus.tasks.preflight.check import check_task
from cdcbus.tasks.preflight.result import CheckResult, Outcome
from cdcbus.tasks.zookeeper.connection import connect
from cdcbus.tasks.zookeeper.position.store import ZooKeeperPositions
from tests.support.topics.records import records_of

pytestmark = pytest.mark.integration

TEXT = """taskId={name}
consumer.consumerName=KafkaFetch
consumer.converter=canalRow
consumer.source.servers={kafka}
consumer.source.topics={name}
consumer.source.allowOffsetReset=true
loader.loaderName=KAFKA_SYNC
loader.source.servers={kafka}
loader.source.topic={to}
loader.source.transaction=true
"""


def observed(text: str, zookeeper: str, tmp_path: Path) -> tuple[LoadTask, list[CheckResult]]:
    file = tmp_path / "task.properties"
    file.write_text(text)
    task = read_task(file, {}).task
    assert isinstance(task, LoadTask)
    return task, check_task(task, zookeeper)


def lines(seen: list[CheckResult]) -> list[str]:
    return [f"{one.outcome} {one.subject}: {one.found}" for one in seen]


def test_the_committed_offset_is_told_and_not_taken_over(
    name: str, kafka: str, zookeeper: str, make_topic: Callable[..., str], tmp_path: Path
) -> None:
    make_topic(name, 1)
    text = TEXT.format(name=name, kafka=kafka, to=make_topic(f"{name}-out", 3))
    client = connect(zookeeper)
    with closing(client):
        store = ZooKeeperPositions(client, name, name)
        store.load()
        store.save(kafka_positions_to_json([KafkaPosition(name, 0, -1)]))
        task, _ = observed(text, zookeeper, tmp_path)
        assert isinstance(task.target, PublishConfig)
        row = RowChange(
            Table(TableId("s", "t"), (Column("id"),), ("id",)), Op.INSERT, None, {"id": "1"}
        )
        with closing(Forwarder(task, task.target, CanalRow(), None, None, Event())) as forwarder:
            assert forwarder.applied_offsets() == []
            forwarder.apply(
                TopicPartition(name, 0),
                records_of([(0, CanalRow().to_bytes(row))]),
                0,
                store.position_version,
            )
            _, seen = observed(text, zookeeper, tmp_path)
            forwarder.apply(
                TopicPartition(name, 0),
                records_of([(0, CanalRow().to_bytes(row))]),
                0,
                store.position_version,
            )
        client.stop()
    told = lines(seen)
    assert f"ok Kafka topic {name}: 1 partition, all are read" in told
    assert f"ok Kafka topic {name}-out: 3 partitions, replication factor 1" in told
    assert f"ok transactions: cdcbus-{name}-TOPIC-PARTITION; committed offsets: 1" in told
    assert [
        line
        for line in told
        if line.startswith(f"ok start {name}[0]: at offset 0 by the stored position")
    ]
    assert {one.outcome for one in seen} == {Outcome.OK}


def test_a_topic_that_is_missing_or_read_itself_is_an_error_and_one_to_be_made_is_not_made(
    name: str, kafka: str, zookeeper: str, make_topic: Callable[..., str], tmp_path: Path
) -> None:
    make_topic(name, 1)
    first = "consumer.source.firstConsumeFrom=earliest\n"
    _, lost = observed(
        TEXT.format(name=name, kafka=kafka, to=f"{name}-lost") + first, zookeeper, tmp_path
    )
    [error] = [one for one in lost if one.outcome is Outcome.ERROR]
    assert (error.subject, f"kafka-topics --create --topic {name}-lost" in error.found) == (
        f"Kafka topic {name}-lost",
        True,
    )
    _, made = observed(
        TEXT.format(name=name, kafka=kafka, to=f"{name}-made")
        + first
        + "loader.source.createTopic=6:1\n",
        zookeeper,
        tmp_path,
    )
    assert (
        f"ok Kafka topic {name}-made: does not exist; a start creates it, with 6 partitions and "
        "replication factor 1" in lines(made)
    )
    assert (
        f"{name}-made"
        not in AdminClient({"bootstrap.servers": kafka}).list_topics(timeout=30).topics
    )
    _, circle = observed(TEXT.format(name=name, kafka=kafka, to=name) + first, zookeeper, tmp_path)
    assert [
        line
        for line in lines(circle)
        if line.startswith("error") and f"topic {name} is both read and written" in line
    ]
