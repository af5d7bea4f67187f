"""When added partitions are read, without Kafka."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

import pytest

from cdcbus.consumer.batch import added_partitions
from cdcbus.consumer.batch.added_partitions import AddedPartitions
from cdcbus.consumer.batch.progress import Progress
from cdcbus.consumer.config import LoadTask, TopicConfig
from cdcbus.plugins.contracts import JdbcTarget
from cdcbus.plugins.errors import BusUnavailable
from cdcbus.plugins.kafka.config import PublishConfig
from cdcbus.plugins.positions import TopicPartition

DATABASE = LoadTask(
    "7", TopicConfig("kafka:9092", ("orders",)), "canalRow", "JdbcBatch", JdbcTarget("")
)
FORWARDING = replace(
    DATABASE, loader="KAFKA_SYNC", target=PublishConfig("kafka:9092", "out", "canalRow")
)
ONE, TWO, THREE = (TopicPartition("orders", number) for number in range(3))


class World:
    """A task that has read partition ONE up to 10; TWO and THREE are new."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, task: LoadTask) -> None:
        self.bounds = {ONE: (0, 20), TWO: (0, 0), THREE: (5, 7)}
        self.progress = Progress(next_offsets={ONE: 10})
        watch: Any = self
        self.added = AddedPartitions(task, watch, self.progress)
        monkeypatch.setattr(added_partitions, "bounds_of", self.bounds_of)

    def new_partitions(self) -> list[TopicPartition]:
        return sorted(self.bounds.keys() - self.progress.next_offsets.keys())

    def bounds_of(
        self, _: TopicConfig, partitions: Collection[TopicPartition], __: float
    ) -> dict[TopicPartition, tuple[int, int]]:
        if not self.bounds.keys() >= set(partitions):
            raise BusUnavailable("no leader")
        return {each: self.bounds[each] for each in partitions}


def test_a_database_reads_them_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    assert World(monkeypatch, DATABASE).added.due() == {TWO: 0, THREE: 0}


def test_a_task_that_sends_records_on_reads_them_after_what_the_others_held(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(monkeypatch, FORWARDING)
    assert world.added.due() == {}
    world.bounds[ONE] = (0, 30)
    for offset, due in ((19, {}), (20, {THREE: 5})):
        world.progress.next_offsets = {ONE: offset}
        assert world.added.due() == due
    world.progress.next_offsets = {ONE: 20, THREE: 5}
    # Nothing is in the other one yet.
    assert world.added.due() == {}
    world.bounds[TWO] = (0, 1)
    assert world.added.due() == {}
    world.progress.next_offsets = {ONE: 30, THREE: 7}
    assert world.added.due() == {TWO: 0}


def test_of_a_topic_that_has_grown_twice_one_is_read_after_the_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A row may have come from the first to the second."""
    world = World(monkeypatch, FORWARDING)
    world.bounds[TWO] = (0, 1)
    world.progress.next_offsets = {ONE: 20}
    assert world.added.due() == {}
    assert world.added.due() == {TWO: 0}
    world.progress.next_offsets = {ONE: 20, TWO: 0}
    assert world.added.due() == {}
    assert world.added.due() == {}
    world.progress.next_offsets = {ONE: 20, TWO: 1}
    assert world.added.due() == {THREE: 5}


def test_one_whose_records_have_all_expired_is_known_and_told(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    world = World(monkeypatch, FORWARDING)
    world.bounds = {ONE: (0, 10), TWO: (100, 100)}
    assert world.added.due() == {}
    assert "what came before that was never read" in caplog.text
    assert world.added.due() == {TWO: 100}


def test_the_others_are_read_on_while_kafka_does_not_answer_for_one(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    world = World(monkeypatch, FORWARDING)
    seconds = 100.0
    monkeypatch.setattr(added_partitions, "monotonic", lambda: seconds)
    del world.bounds[ONE]  # known, and without a leader
    world.progress.next_offsets = {ONE: 10}
    assert world.added.due() == {}
    assert "not read yet: no leader" in caplog.text
    world.bounds[ONE] = (0, 10)
    assert world.added.due() == {}
    seconds += added_partitions.PAUSE_SECONDS
    assert world.added.due() == {}
    assert world.added.due() == {THREE: 5}
