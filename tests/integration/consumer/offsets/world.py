"""A task whose position target, ZooKeeper and Kafka know, each on its own, without Spark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from kazoo.client import KazooClient

from cdcbus.consumer.apply.applier import PartitionApplier
from cdcbus.consumer.config import LoadTask
from cdcbus.consumer.offsets.checkpoint import StoredPositions
from cdcbus.consumer.offsets.known import NOWHERE
from cdcbus.consumer.offsets.start_offsets import Starts
from cdcbus.consumer.offsets.topic_logs import TopicLogs
from cdcbus.consumer.take_over import find_starts, take_over
from cdcbus.plugins.converters.canal_row import CanalRow
from cdcbus.plugins.loaders import make_loader
from cdcbus.plugins.positions import (
    KafkaPosition,
    TopicPartition,
    kafka_positions_from_json,
    kafka_positions_to_json,
)
from cdcbus.plugins.rowchange import Column, Op, RowChange, Table, TableId
from cdcbus.tasks.zookeeper.position.store import ZooKeeperPositions
from cdcbus.tasks.zookeeper.position.znodes import position_path, written_path
from tests.contract.target_server import TargetServer
from tests.support.topics.kafka_producer import kafka_producer
from tests.support.topics.new_topics import create_topics
from tests.support.topics.records import records_of
from tests.support.waiting import wait_until

CANAL = CanalRow()
RECORDS = 60
SEEN = Table(TableId("shop", "seen"), (Column("p", "int"), Column("o", "int")), ())


def record(partition: TopicPartition, offset: int) -> bytes:
    return CANAL.to_bytes(
        RowChange(SEEN, Op.INSERT, None, {"p": str(partition.partition), "o": str(offset)})
    )


@dataclass
class Process:
    """One that has taken the task over, as `cdcbus.consumer.run` does, and applies what it is
    told to."""

    world: World
    offsets: dict[TopicPartition, int] = field(default_factory=dict)
    lost: dict[TopicPartition, tuple[int, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        world = self.world
        self.loader = make_loader(
            world.task.loader, world.server.target(task_id=world.task.task_id)
        )
        self.applier = PartitionApplier(world.task, CANAL, self.loader)
        self.stores = {
            topic: ZooKeeperPositions(world.client, world.task.task_id, topic)
            for topic in world.task.source.topics
        }
        self.positions = StoredPositions(self.stores)

    def take_over(self) -> Process:
        starts = self.find_starts(self.offsets if self.positions.has_begun else NOWHERE)
        take_over(self.world.task, self.applier, self.positions, starts)
        self.offsets, self.lost = dict(starts.offsets), starts.lost
        return self

    def find_starts(self, reached: Mapping[TopicPartition, int] = NOWHERE) -> Starts:
        with TopicLogs(self.world.task) as logs:
            return find_starts(self.world.task, logs, self.applier, self.stores, reached)

    def apply(self, *ends: int, saves: bool = True) -> Process:
        """Of each partition what comes before its end."""
        for number, end in enumerate(ends):
            partition = TopicPartition(self.world.task.task_id, number)
            offsets = range(self.offsets[partition], end)
            records = records_of([(offset, record(partition, offset)) for offset in offsets])
            self.applier.apply(partition, records, end, self.positions.position_version(partition))
            self.offsets[partition] = end
        if saves:
            self.positions.save(self.offsets)
        return self

    def end(self) -> None:
        for store in self.stores.values():
            store.close()
        self.loader.close()


@dataclass
class World:
    """A topic of three partitions with RECORDS in each, a table that shows which of them have
    come, how often, and a ZooKeeper."""

    task: LoadTask
    server: TargetServer
    client: KazooClient
    kafka: str
    processes: list[Process] = field(default_factory=list)

    @property
    def path(self) -> str:
        return position_path(self.task.task_id, self.task.task_id)

    @property
    def written(self) -> str:
        return written_path(self.task.task_id, self.task.task_id)

    def start(self, **keys: Any) -> Process:
        self.task = replace(self.task, **keys)
        self.processes.append(process := Process(self))
        return process.take_over()

    def offsets(self, **keys: Any) -> list[int]:
        """Where a start goes on."""
        return [*self.start(**keys).offsets.values()]

    def stored(self) -> dict[int, int]:
        return {
            p.partition: p.next_offset
            for p in kafka_positions_from_json(self.client.get(self.path)[0])
        }

    def text(self, **next_offsets: int) -> bytes:
        topic = self.task.task_id
        return kafka_positions_to_json(
            KafkaPosition(topic, int(name[1:]), end - 1) for name, end in next_offsets.items()
        ).encode()

    def rows(self) -> Counter[tuple[Any, ...]]:
        return Counter(self.server.rows("SELECT p, o FROM {schema}.seen"))

    def sql(self, statement: str) -> None:
        self.server.execute(statement)

    def produce(self, partitions: int = 3, records: int = RECORDS) -> None:
        producer = kafka_producer(self.kafka)
        for partition in range(partitions):
            for _ in range(records):
                producer.produce(self.task.task_id, b"not read here", partition=partition)
        assert producer.flush(30) == 0

    def remake_topic(self, partitions: int = 3) -> None:
        admin, topic = AdminClient({"bootstrap.servers": self.kafka}), self.task.task_id
        admin.delete_topics([topic])[topic].result(30)
        wait_until(lambda: topic not in admin.list_topics(timeout=10).topics, "the topic to go")
        create_topics(admin, NewTopic(topic, partitions, 1))
        if partitions == 3:
            self.produce()


def once(*ends: int) -> Counter[tuple[Any, ...]]:
    return Counter(
        (partition, offset) for partition, end in enumerate(ends) for offset in range(end)
    )
