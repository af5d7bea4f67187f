"""A backlog in one topic, and a task that forwards it to another: what tests of such tasks need."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, TopicPartition
from kazoo.client import KazooClient

from cdcbus.ops.demo.tasks import TaskProcess
from cdcbus.plugins.converters.canal_row import CanalRow
from cdcbus.plugins.positions import kafka_positions_from_json
from cdcbus.plugins.rowchange import Column, Op, Origin, RowChange, Table, TableId
from cdcbus.tasks.zookeeper.connection import connect
from cdcbus.tasks.zookeeper.position.znodes import position_path
from tests.support.properties import dotted, properties
from tests.support.topics.committed import committed
from tests.support.topics.kafka_producer import kafka_producer

COLUMNS = (Column("id", "int(11)", 4), Column("customer", "varchar(20)"), Column("note", "text"))


@dataclass(slots=True)
class Forward:
    """`name` is the topic that is read; `NAME-out` is written. Task ids are `name`."""

    name: str
    kafka: str
    zookeeper: KazooClient
    address: str
    folder: Path
    processes: list[TaskProcess]

    def put(self, numbers: range, table: str = "orders", partitions: int = 1) -> None:
        """Sends an insert of each number to the partition of its customer, one of ten, committed at
        that millisecond. Odd numbers are also in a header."""
        producer = kafka_producer(self.kafka)
        of = Table(TableId("shop", table), COLUMNS, ("id",))
        for number in numbers:
            row = {"id": str(number), "customer": f"c{number % 10}", "note": "é"}
            change = RowChange(
                of,
                Op.INSERT,
                None,
                row,
                Origin("mysql-bin.000001", number, commit_us=number * 1000),
            )
            headers: dict[str, str | bytes | None] | None = (
                {"number": str(number)} if number % 2 else None
            )
            producer.produce(
                self.name,
                CanalRow().to_bytes(change),
                partition=number % 10 % partitions,
                headers=headers,
            )
        assert producer.flush(30) == 0

    def task(self, **keys: str) -> TaskProcess:
        """A task that is not started yet, and killed when the test ends. `__` in a key is `.`."""
        lines = {
            "taskId": self.name,
            "consumer.consumerName": "KafkaFetch",
            "consumer.converter": "canalRow",
            "consumer.source.servers": self.kafka,
            "consumer.source.topics": self.name,
            "consumer.source.firstConsumeFrom": "earliest",
            "loader.loaderName": "KAFKA_SYNC",
            "loader.source.servers": self.kafka,
            "loader.source.topic": f"{self.name}-out",
            **dotted(keys),
        }
        file = self.folder / f"{self.name}.properties"
        file.write_text(properties(lines))
        process = TaskProcess(
            self.name, file, self.folder / f"{self.name}.log", self.address, self.folder
        )
        self.processes.append(process)
        return process

    @property
    def path(self) -> str:
        return position_path(self.name, self.name)

    def is_at_end(self, task: TaskProcess) -> bool:
        """Whether the task's stored position is the end of the topic."""
        task.check()
        if not self.zookeeper.exists(self.path):
            return False
        data, _ = self.zookeeper.get(self.path)
        consumer = Consumer({"bootstrap.servers": self.kafka, "group.id": "look"})
        try:
            for position in kafka_positions_from_json(data):
                partition = TopicPartition(self.name, position.partition)
                _, end = consumer.get_watermark_offsets(partition)
                if end != position.next_offset:
                    return False
            return True
        finally:
            consumer.close()

    def headers(self) -> list[int]:
        """The numbers in all headers of the committed records."""
        messages = committed(self.kafka, f"{self.name}-out")
        found = []
        for message in messages:
            for header in message.headers() or ():
                found.append(int(header[1] or ""))
        return found

    def sent(self) -> list[tuple[int, bytes, dict[str, Any]]]:
        """Partition, key and value of the committed records, partition by partition."""
        messages = committed(self.kafka, f"{self.name}-out")
        found = []
        for message in messages:
            key = bytes(message.key() or b"")
            found.append((message.partition() or 0, key, json.loads(message.value() or b"")))
        return found


@contextmanager
def open_forward(name: str, kafka: str, zookeeper: str, folder: Path) -> Iterator[Forward]:
    """Its processes are dead at the end."""
    client = connect(zookeeper)
    forward = Forward(name, kafka, client, zookeeper, folder, [])
    try:
        yield forward
    finally:
        for process in forward.processes:
            process.kill()
        client.stop()
        client.close()
