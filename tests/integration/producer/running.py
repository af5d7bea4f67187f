"""A fetch task running in a thread, on real ZooKeeper and real Kafka, and what it leaves there."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from threading import Event, Thread
from typing import Any, Self

from confluent_kafka import Consumer, Message, TopicPartition

from cdcbus.plugins.contracts import PositionStore, SchemaStore
from cdcbus.plugins.positions import BinlogPosition
from cdcbus.plugins.registry import make_converter
from cdcbus.plugins.rowchange import RowChange
from cdcbus.plugins.task_status import TaskStatus
from cdcbus.producer.config import FetchTask
from cdcbus.producer.progress import Progress
from cdcbus.producer.run import run
from cdcbus.producer.schema.table_versions import MemorySchemas
from tests.contract.position_store import eventually

SECONDS = 240.0  # how long anything may take on a busy machine


class Running:
    """A context: leaving it stops the task, waits for its end, and raises what it has raised."""

    def __init__(
        self,
        task: FetchTask,
        positions: PositionStore,
        report: Callable[[Progress], None] = lambda _: None,
    ) -> None:
        self.stop = Event()
        self.progress = Progress()
        self.status = TaskStatus(task.task_id, lambda: self.progress.position)
        self.schemas: SchemaStore = MemorySchemas()
        self._task, self._positions, self._report = task, positions, report
        self._error: BaseException | None = None
        self._thread = Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop.set()
        self._thread.join(SECONDS)
        assert not self._thread.is_alive(), "the task does not stop"
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            run(self._task, self._positions, self.schemas, self.stop, self.status, self._note)
        except BaseException as error:
            self._error = error

    def _note(self, progress: Progress) -> None:
        self.progress = progress
        self._report(progress)

    def until(self, is_so: Callable[[], bool]) -> None:
        """Waits until it is so, or raises what the task has died of."""
        if not eventually(lambda: is_so() or not self._thread.is_alive(), SECONDS) or not is_so():
            raise AssertionError(f"it does not come to that: {self.progress}") from self._error

    def until_stored(self, position: BinlogPosition) -> None:
        """Waits until the task has stored this position or a later one."""

        def is_stored() -> bool:
            stored = self.progress.position
            return stored is not None and (stored.file, stored.pos) >= (position.file, position.pos)

        self.until(is_stored)

    def ends(self) -> None:
        """Waits for the task to end by itself and raises what it has raised."""
        self._thread.join(SECONDS)
        assert not self._thread.is_alive(), "the task goes on"
        if self._error is not None:
            raise self._error


def high_watermark(kafka: str, topic: str, partition: int = 0) -> int:
    """How many records a partition has been given."""
    consumer = Consumer({"bootstrap.servers": kafka, "group.id": "watermark"})
    try:
        return int(consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=30)[1])
    finally:
        consumer.close()


def row_changes(messages: Sequence[Message], converter: str) -> list[RowChange]:
    """What a converter reads of records."""
    reader = make_converter(converter)
    changes: list[RowChange] = []
    for message in messages:
        changes += reader.from_bytes(message.value() or b"")
    return changes


def messages(kafka: str, topic: str) -> list[Message]:
    """All records of a topic, partition by partition."""
    consumer = Consumer(
        {
            "bootstrap.servers": kafka,
            "group.id": "reader",
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 10,
        }
    )
    try:
        partitions = [
            TopicPartition(topic, number, 0)
            for number in consumer.list_topics(topic, timeout=30).topics[topic].partitions
        ]
        count = sum(
            consumer.get_watermark_offsets(partition, timeout=30)[1] for partition in partitions
        )
        consumer.assign(partitions)
        found: list[Message] = []
        while len(found) < count:
            batch = consumer.consume(count - len(found), timeout=30)
            assert batch, f"{topic} does not give its {count} records"
            assert all(message.error() is None for message in batch)
            found += batch
        return sorted(found, key=lambda message: (message.partition(), message.offset()))
    finally:
        consumer.close()


def canal(kafka: str, topic: str) -> list[dict[str, Any]]:
    """All records of a canalRow topic, as JSON."""
    return [json.loads(message.value() or b"") for message in messages(kafka, topic)]


def ids(kafka: str, topic: str) -> list[int]:
    """The value of `id` in each record of a canalRow topic, in order."""
    return [int(record["data"][0]["id"]) for record in canal(kafka, topic)]
