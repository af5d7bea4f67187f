"""Of which batches it is said that they wait for Kafka, and until when."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from cdcbus.consumer.batch import silent_kafka
from cdcbus.consumer.batch.progress import Progress
from cdcbus.consumer.batch.silent_kafka import PATIENCE_SECONDS, SilentKafka
from cdcbus.consumer.config import LoadTask, TopicConfig
from cdcbus.plugins.contracts import JdbcTarget
from cdcbus.plugins.positions import TopicPartition
from cdcbus.plugins.task_status import State, TaskStatus

ONE, TWO = TopicPartition("orders", 0), TopicPartition("orders", 1)


class World:
    """A task whose executors read a batch, a clock, and the partitions without a leader."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        self.silent: set[TopicPartition] = set()
        monkeypatch.setattr(silent_kafka, "monotonic", lambda: self.now)
        monkeypatch.setattr(silent_kafka, "ends_of", self._ends_of)
        source = TopicConfig("kafka:9092", ("orders",))
        task = LoadTask("7", source, "canalRow", "JdbcBatch", JdbcTarget(""))
        self.progress = Progress(next_offsets={ONE: 0, TWO: 0})
        self.status = TaskStatus("7")
        self.status.reading("orders")
        self._silent_kafka = SilentKafka(task, self.progress, self.status)

    def _ends_of(
        self, _: TopicConfig, partitions: Collection[TopicPartition], _seconds: float
    ) -> dict[TopicPartition, int]:
        return {partition: 0 for partition in partitions if partition not in self.silent}

    def begin_batch(self, *partitions: TopicPartition) -> None:
        self.progress.batch_since = self.now
        self.progress.goals = dict.fromkeys(partitions, 9)

    def is_retrying(self, later: float) -> bool:
        self.now += later
        self._silent_kafka.look()
        self.status.observe(is_behind=False)
        return self.status.now[0] is State.RETRYING


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


def test_a_wait_for_kafka_is_over_once_another_batch_has_begun(world: World) -> None:
    world.silent = {ONE}
    world.begin_batch(ONE, TWO)
    assert world.is_retrying(PATIENCE_SECONDS)
    assert world.is_retrying(1)
    # No look has met the moment between the two.
    world.begin_batch(ONE, TWO)
    assert not world.is_retrying(1)
    assert world.is_retrying(PATIENCE_SECONDS)


def test_a_partition_that_the_batch_does_not_read_keeps_no_executor_waiting(world: World) -> None:
    world.silent = {ONE}
    world.begin_batch(TWO)
    assert not world.is_retrying(PATIENCE_SECONDS)
    world.silent = {TWO}
    assert world.is_retrying(PATIENCE_SECONDS)
    assert "orders[1]" in world.status.now[1]
