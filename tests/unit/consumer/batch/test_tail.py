"""What the tail gear does with what it reads, without Kafka and a target."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import count
from threading import Event, Lock, Semaphore
from typing import Any

import pyarrow as pa
import pytest

from cdcbus.consumer.batch import tail
from cdcbus.consumer.batch.batch_size import (
    BACKLOG_BATCHES,
    HELD_BATCHES,
    LARGE_RECORDS,
    BatchSize,
)
from cdcbus.consumer.batch.kafka_reader import ReadRecords
from cdcbus.consumer.batch.progress import Progress
from cdcbus.consumer.batch.tail import follow
from cdcbus.consumer.config import LoadTask, TopicConfig
from cdcbus.consumer.records.records import Records
from cdcbus.plugins.contracts import JdbcTarget
from cdcbus.plugins.errors import BusUnavailable, CdcError
from cdcbus.plugins.positions import TopicPartition

ONE, TWO = TopicPartition("orders", 0), TopicPartition("orders", 1)
TASK = LoadTask(
    "7", TopicConfig("kafka:9092", ("orders",)), "canalRow", "JdbcBatch", JdbcTarget("")
)


def records(begin: int, end: int) -> Records:
    values = pa.array([b"x"] * (end - begin), pa.binary())
    return Records(pa.array(range(begin, end), pa.int64()), values)


class World:
    """A Kafka whose partitions have ten records each, a target, and what is wrong with the topics.

    `waits`: so many batches wait before any is applied. `read`: whether each reading was from all
    partitions; `held`: whether each batch was allowed to wait."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *partitions: TopicPartition) -> None:
        self.stop, self.size = Event(), BatchSize("7", 50_000)
        self.progress = Progress(next_offsets=dict.fromkeys(partitions, 0))
        self.next = dict.fromkeys(partitions, 0)
        self.read_from_all: list[bool] = []
        self.held: list[bool] = []
        self.waits = self.behind = 0
        self.error: CdcError | None = None
        self.added: list[TopicPartition] = []
        self.new: list[TopicPartition] = []
        self.scattered: list[TopicPartition] = []
        self.looked_around = 0
        # What happens before a batch is applied, and before records are read.
        self.before_apply: Callable[[], object] = lambda: None
        self.before_read: Callable[[], object] = lambda: None
        monkeypatch.setattr(tail, "KafkaReader", lambda *_: self)
        monkeypatch.setattr(tail, "LOOK_SECONDS", 0.0)

    def follow(self, is_too_much: Callable[[], bool] = lambda: False) -> None:
        batches: Any = self
        watch: Any = self
        follow(TASK, batches, self.size, watch, self.stop, is_too_much)

    # As a KafkaReader

    def __enter__(self) -> World:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def read(
        self, _: float, *, from_all: bool
    ) -> tuple[dict[TopicPartition, Records], dict[TopicPartition, int]]:
        """One partition's records, or those of all."""
        self.before_read()
        left = [partition for partition, offset in self.next.items() if offset < 10]
        if not left:
            self.stop.set()
            return {}, {}
        self.read_from_all.append(from_all)
        found = {
            partition: records(self.next[partition], 10)
            for partition in left[: None if from_all else 1]
        }
        self.next |= dict.fromkeys(found, 10)
        return found, dict.fromkeys(found, 10)

    def go_back(self, offsets: Mapping[TopicPartition, int]) -> None:
        self.next = dict(offsets)

    def add(self, partitions: Mapping[TopicPartition, int]) -> None:
        self.added += partitions

    def ahead(self) -> int:
        return self.behind

    # As a BatchApplier

    def apply_records(
        self,
        partitions: Mapping[TopicPartition, Records],
        ends: Mapping[TopicPartition, int],
        *,
        is_held: bool,
    ) -> bool:
        self.before_apply()
        self.held.append(is_held)
        if self.waits:
            self.waits -= 1
            return False
        for partition, end in ends.items():
            assert len(partitions[partition]) == end - self.progress.next_offsets[partition]
            self.progress.move([(partition, end, None)])
        return True

    def look_around(self) -> None:
        self.looked_around += 1

    def scatter(self, new: Mapping[TopicPartition, int]) -> None:
        self.scattered += new

    # As a TopicWatch

    def look(self) -> CdcError | None:
        return self.error

    def new_partitions(self) -> list[TopicPartition]:
        new, self.new = self.new, []
        return new


def test_what_comes_is_applied_until_the_task_is_to_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, ONE, TWO)
    world.follow()
    assert world.progress.next_offsets == {ONE: 10, TWO: 10}
    assert world.read_from_all == [False, False]
    assert world.held == [True, True]
    assert world.looked_around


def test_after_a_partition_that_waits_all_are_read_again_together_and_may_wait_no_further(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else the same partition would come first again and again, and wait for the others for ever."""
    world = World(monkeypatch, ONE, TWO)
    world.waits = 1
    world.follow()
    assert world.progress.next_offsets == {ONE: 10, TWO: 10}
    assert world.read_from_all == [False, True]
    assert world.held == [True, False]


def test_readings_are_of_single_partitions_again_after_some_batches(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(monkeypatch, ONE, TWO)
    world.waits = 1

    def more(_: Progress, moved: Iterable[tuple[TopicPartition, int, object]]) -> None:
        for partition, _end, _last in moved:
            world.progress.next_offsets = {**world.progress.next_offsets, partition: 0}
            if len(world.held) < HELD_BATCHES + 3:
                world.next[partition] = 0

    monkeypatch.setattr(Progress, "move", more)
    world.follow()
    assert world.read_from_all[: HELD_BATCHES + 2] == [False, *[True] * HELD_BATCHES, False]


def test_readings_are_of_all_where_partitions_have_waited_in_the_other_gear_or_before_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(monkeypatch, ONE, TWO)
    world.size.hold()
    world.follow()
    assert world.read_from_all == [True]
    assert world.held == [False]


def test_a_single_partition_waits_for_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, ONE)
    world.follow()
    assert world.held == [False]


def test_a_backlog_is_left_to_spark_as_soon_as_it_is_up(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, ONE, TWO)
    asked: list[int] = []

    def is_up() -> bool:
        asked.append(len(world.held))
        return len(asked) == 2

    world.behind = BACKLOG_BATCHES * LARGE_RECORDS
    world.follow(is_up)
    assert asked == []
    world = World(monkeypatch, ONE, TWO)
    world.behind = BACKLOG_BATCHES * (LARGE_RECORDS + 1)
    world.follow(is_up)
    assert asked == [1, 2]


def test_what_is_wrong_with_the_topics_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, ONE)
    world.error = BusUnavailable("away")
    with pytest.raises(BusUnavailable, match="away"):
        world.follow()


def test_new_partitions_are_read_once_rows_may_be_in_several(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(monkeypatch, ONE)
    world.new = [TWO]
    world.follow()
    assert (world.scattered, world.added) == ([TWO], [TWO])


def test_what_was_read_ahead_before_a_partition_was_added_is_read_again_with_keys(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(monkeypatch, ONE)
    world.behind = BACKLOG_BATCHES * (LARGE_RECORDS + 1)
    world.new = [TWO]
    applied: list[tuple[int, bool]] = []

    def read(_: float, *, from_all: bool) -> ReadRecords:
        begin = world.next[ONE]
        if begin == 10:
            world.stop.set()
            return {}, {}
        part = records(begin, begin + 5)
        if world.added:
            part = Records(part.offsets, part.values, keys=part.values)
        world.next[ONE] = begin + 5
        return {ONE: part}, {ONE: begin + 5}

    def apply(partitions: dict[TopicPartition, Records], ends: object, *, is_held: bool) -> bool:
        part = partitions[ONE]
        first = part.offsets[0].as_py()
        applied.append((first, part.keys is not None))
        world.progress.move([(ONE, first + len(part), None)])
        return True

    monkeypatch.setattr(world, "read", read)
    monkeypatch.setattr(world, "apply_records", apply)
    world.follow()
    assert applied == [(0, False), (5, True)]


def test_of_a_backlog_the_next_records_are_read_while_these_are_applied(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(monkeypatch, ONE, TWO)
    world.behind = BACKLOG_BATCHES * (LARGE_RECORDS + 1)
    reads, number = Semaphore(0), count()

    def note_read() -> None:
        if next(number):  # not of the first one
            reads.release()

    world.before_read = note_read
    begun: list[bool] = []
    world.before_apply = lambda: begun.append(reads.acquire(timeout=60))
    world.follow()
    assert begun == [True, True]
    assert world.progress.next_offsets == {ONE: 10, TWO: 10}


def test_what_was_read_ahead_of_a_partition_that_waits_is_read_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Once the reader is free: it is for one thread at a time."""
    world = World(monkeypatch, ONE, TWO)
    world.behind = BACKLOG_BATCHES * (LARGE_RECORDS + 1)
    world.waits = 1
    is_reading = Lock()
    go_back = world.go_back

    def going_back(offsets: Mapping[TopicPartition, int]) -> None:
        assert is_reading.acquire(blocking=False)
        go_back(offsets)
        is_reading.release()

    read = world.read

    def reading(
        wait_seconds: float, *, from_all: bool
    ) -> tuple[dict[TopicPartition, Records], dict[TopicPartition, int]]:
        with is_reading:
            return read(wait_seconds, from_all=from_all)

    monkeypatch.setattr(world, "go_back", going_back)
    monkeypatch.setattr(world, "read", reading)
    world.follow()
    assert world.progress.next_offsets == {ONE: 10, TWO: 10}
    assert world.held == [True, False]


def test_an_error_that_is_read_ahead_is_raised_where_a_partition_waits_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The reader has taken records before it: it would go back past none of them."""
    world = World(monkeypatch, ONE, TWO)
    world.behind = BACKLOG_BATCHES * (LARGE_RECORDS + 1)
    world.waits = 1

    def fail() -> None:
        if world.read_from_all:
            world.before_read = lambda: None
            raise BusUnavailable("away")

    world.before_read = fail
    with pytest.raises(BusUnavailable, match="away"):
        world.follow()
    assert world.progress.next_offsets == {ONE: 0, TWO: 0}


def test_an_error_that_is_read_ahead_is_raised_after_what_came_before_it_is_applied(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(monkeypatch, ONE, TWO)
    world.behind = BACKLOG_BATCHES * (LARGE_RECORDS + 1)

    def fail() -> None:
        if world.read_from_all:
            raise BusUnavailable("away")

    world.before_read = fail
    with pytest.raises(BusUnavailable, match="away"):
        world.follow()
    assert world.progress.next_offsets == {ONE: 10, TWO: 0}
