"""What the bulk gear does with the micro-batches that Spark gives it, and when it gives way."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import count
from threading import Event, Semaphore, Thread
from types import SimpleNamespace
from typing import Any

import pytest

from cdcbus.consumer.batch import bulk
from cdcbus.consumer.batch.batch_size import HELD_BATCHES, LARGE_RECORDS, TURN_SECONDS, BatchSize
from cdcbus.consumer.batch.bulk import (
    FINISH_SECONDS,
    FIRST_SECONDS,
    POOL,
    QUIET_SECONDS,
    _MicroBatches,
)
from cdcbus.consumer.batch.executor_batch import Span
from cdcbus.consumer.batch.outcome import Outcome
from cdcbus.consumer.batch.progress import Progress
from cdcbus.consumer.config import LoadTask, TopicConfig
from cdcbus.consumer.records.arrival_clock import ArrivalClock
from cdcbus.consumer.records.late import KnownEpochs
from cdcbus.plugins.contracts import JdbcTarget
from cdcbus.plugins.errors import TargetUnavailable
from cdcbus.plugins.positions import TopicPartition
from cdcbus.plugins.rowchange import TableId

PARENTS = TableId("shop", "parents")
ONE, TWO, THREE = (TopicPartition("orders", number) for number in range(3))
TASK = LoadTask(
    "7", TopicConfig("kafka:9092", ("orders",)), "canalRow", "JdbcBatch", JdbcTarget("")
)
Apply = Callable[[Mapping[TopicPartition, Span]], list[Outcome]]


class Batches:
    """A BatchApplier without a target."""

    def __init__(self, next_offsets: dict[TopicPartition, int]) -> None:
        self.progress = Progress(next_offsets=next_offsets)
        self.scattered: list[TopicPartition] = []
        self.epochs = KnownEpochs()

    def arrivals(self) -> ArrivalClock:
        return ArrivalClock()

    def position_version(self, _: TopicPartition) -> int:
        return 1

    def scattered_tables(self) -> frozenset[TableId | None]:
        return frozenset([PARENTS])

    def scatter(self, new: list[TopicPartition]) -> None:
        self.scattered += new
        self.progress.next_offsets = {**dict.fromkeys(new, 0), **self.progress.next_offsets}

    def apply(self, apply: Callable[..., list[Outcome]], ends: Any, *, is_held: bool) -> bool:
        assert is_held
        outcomes = apply(ends)
        for outcome in outcomes:
            self.progress.move([(outcome.partition, outcome.end, None)])
        return not any(outcome.waits for outcome in outcomes)


class Bulk:
    """A query, whose micro-batches end at these offsets, one after the other."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, apply: Apply, next_offsets: dict[TopicPartition, int]
    ) -> None:
        self.pools: list[dict[str, str]] = []
        self.batches, self.size, self.stop = Batches(next_offsets), BatchSize("7", 50_000), Event()
        self.is_stopped = False
        self.on_stop: Callable[[], None] = lambda: None
        self.executors = SimpleNamespace(apply=lambda _, spans: apply(spans), are_fenced=True)
        self.micro: Any = _MicroBatches(
            TASK,
            self.executors,  # type: ignore[arg-type]
            self.batches,  # type: ignore[arg-type]
            self.size,
            self.stop,
        )
        self.ends: dict[TopicPartition, int] = {}
        monkeypatch.setattr(bulk, "end_offsets", lambda _: self.ends)

        def stop() -> None:
            self.is_stopped = True
            self.on_stop()

        writer: Any = SimpleNamespace(start=lambda: SimpleNamespace(stop=stop))
        self.micro.start(writer)

    def batch(self, ends: dict[TopicPartition, int]) -> None:
        self.ends = ends
        properties: dict[str, str] = {}
        context = SimpleNamespace(setLocalProperty=properties.__setitem__)
        frame = SimpleNamespace(sparkSession=SimpleNamespace(sparkContext=context))
        frame.drop = lambda *_: frame
        self.micro(frame, 0)
        self.pools.append(properties)


def done(spans: Mapping[TopicPartition, Span]) -> list[Outcome]:
    return [Outcome(partition, span.end) for partition, span in spans.items()]


def test_a_large_batch_is_for_executors_in_a_pool_of_its_task_and_the_rest_for_the_tail(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    query = Bulk(monkeypatch, done, {ONE: 5})
    query.batch({ONE: 5 + LARGE_RECORDS + 1})
    assert query.batches.progress.next_offsets == {ONE: 5 + LARGE_RECORDS + 1}
    assert query.pools == [{POOL: "7"}]
    assert not query.micro.ended.is_set()
    query.batch({ONE: 5 + 2 * LARGE_RECORDS})
    assert query.batches.progress.next_offsets == {ONE: 5 + LARGE_RECORDS + 1}
    assert query.micro.ended.is_set() and query.micro.error is None


def test_a_batch_that_was_cut_for_its_time_makes_the_next_ones_of_half_a_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def cut(spans: Mapping[TopicPartition, Span]) -> list[Outcome]:
        return [
            Outcome(partition, span.start + 10, seconds=TURN_SECONDS)
            for partition, span in spans.items()
        ]

    query = Bulk(monkeypatch, cut, {ONE: 0, TWO: 0})
    query.batch({ONE: 50_000, TWO: 50_000})
    assert query.micro.ended.is_set()
    assert query.size.records == 10


def test_epochs_go_to_executors_and_what_they_see_of_them_comes_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def see(spans: Mapping[TopicPartition, Span]) -> list[Outcome]:
        assert spans[ONE].begun == {"1": {"7": 3}}
        return [Outcome(ONE, spans[ONE].end, begun={"1": {"8": 9}})]

    query = Bulk(monkeypatch, see, {ONE: 5})
    query.batches.epochs.add(ONE, {"1": {"7": 3}})
    query.batch({ONE: 5 + LARGE_RECORDS + 1})
    assert query.micro.error is None
    assert query.batches.epochs.of(ONE) == {"1": {"7": 3, "8": 9}}
    assert query.batches.epochs.is_followed(ONE)


def test_partitions_that_wait_for_each_other_are_for_the_tail(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def wait(spans: Mapping[TopicPartition, Span]) -> list[Outcome]:
        assert all(span.is_hasty for span in spans.values())
        return [
            Outcome(partition, span.start + 1, waits="another") for partition, span in spans.items()
        ]

    query = Bulk(monkeypatch, wait, {ONE: 0, TWO: 0})
    query.batch({ONE: 50_000, TWO: 50_000})
    assert query.micro.ended.is_set() and query.micro.error is None
    assert query.batches.progress.next_offsets == {ONE: 1, TWO: 1}
    assert not query.size.is_backlog(10**9)
    for _ in range(HELD_BATCHES):
        query.size.saw(1, 1)
    assert query.size.is_backlog(10**9)


def test_of_the_batch_in_which_spark_finds_a_second_partition_nothing_is_applied_without_keys(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    query = Bulk(monkeypatch, done, {ONE: 0})
    query.batch({ONE: 50_000, TWO: 3})
    assert query.batches.scattered == [TWO]
    assert query.batches.progress.next_offsets == {ONE: 0, TWO: 0}
    assert query.micro.ended.is_set() and query.micro.error is None


def test_a_third_partition_that_spark_finds_is_read_from_its_beginning_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    query = Bulk(monkeypatch, done, {ONE: 0, TWO: 0})
    query.batch({ONE: 50_000, TWO: 50_000, THREE: 3})
    assert query.batches.scattered == [THREE]
    assert query.batches.progress.next_offsets == {ONE: 50_000, TWO: 50_000, THREE: 3}
    assert not query.micro.ended.is_set()


def test_the_first_error_ends_the_query_and_no_batch_is_taken_behind_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = []

    def fail(spans: Mapping[TopicPartition, Span]) -> list[Outcome]:
        asked.append(spans)
        raise TargetUnavailable("away")

    query = Bulk(monkeypatch, fail, {ONE: 0})
    query.batch({ONE: 50_000})
    query.batch({ONE: 50_000})
    query.micro.fail(TargetUnavailable("later"))
    assert (len(asked), str(query.micro.error)) == (1, "away")
    assert query.batches.progress.next_offsets == {ONE: 0}


def test_a_task_that_is_to_stop_breaks_its_batch_off_and_has_no_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    query = Bulk(monkeypatch, done, {ONE: 0})
    query.micro.look_around()
    assert not query.is_stopped
    query.stop.set()
    query.micro.look_around()
    assert query.is_stopped
    query.micro.fail(TargetUnavailable("told so too"))
    query.batch({ONE: 50_000})
    query.micro.end()
    assert (query.micro.error, query.batches.progress.next_offsets) == (None, {ONE: 0})


@pytest.mark.parametrize("must_stop", [True, False])
def test_a_batch_that_waits_beside_an_error_is_cancelled_by_a_stop_and_after_a_while(
    monkeypatch: pytest.MonkeyPatch, *, must_stop: bool
) -> None:
    """It can wait for executors for ever: no signal ended the task, and its error was not shown."""
    now = count(1000.0, 0.0 if must_stop else FINISH_SECONDS + 1)
    monkeypatch.setattr(bulk, "monotonic", lambda: next(now))
    query = Bulk(monkeypatch, done, {ONE: 0})
    query.micro._working.acquire()  # a batch is at work
    query.on_stop = query.micro._working.release
    query.micro.fail(TargetUnavailable("away"))
    if must_stop:
        query.stop.set()
    ending = Thread(target=query.micro.end, daemon=True)
    ending.start()
    ending.join(timeout=20)
    assert (query.is_stopped, ending.is_alive()) == (True, False)
    assert str(query.micro.error) == "away"


def test_a_batch_that_nothing_fences_is_not_cancelled_because_of_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A Python worker would go on beside the next attempt, and replace newer rows by older ones."""
    now, looks = 1000.0, Semaphore(0)

    def tick() -> float:
        nonlocal now
        now += FINISH_SECONDS + 1
        looks.release()
        return now

    monkeypatch.setattr(bulk, "monotonic", tick)
    query = Bulk(monkeypatch, done, {ONE: 0})
    query.executors.are_fenced = False
    query.micro._working.acquire()  # a batch is at work
    query.on_stop = query.micro._working.release
    query.micro.fail(TargetUnavailable("away"))
    ending = Thread(target=query.micro.end, daemon=True)
    ending.start()
    for _ in range(4):  # it has looked more than once
        assert looks.acquire(timeout=20)
    assert (query.is_stopped, ending.is_alive()) == (False, True)
    query.stop.set()
    ending.join(timeout=20)
    assert (query.is_stopped, ending.is_alive()) == (True, False)


def test_executors_are_given_the_tables_that_the_driver_knows_to_be_scattered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given: list[Span] = []

    def apply(spans: Mapping[TopicPartition, Span]) -> list[Outcome]:
        given.extend(spans.values())
        return done(spans)

    Bulk(monkeypatch, apply, {ONE: 0}).batch({ONE: LARGE_RECORDS + 1})
    assert [span.scattered for span in given] == [frozenset([PARENTS])]


def test_a_batch_beside_an_error_may_finish(monkeypatch: pytest.MonkeyPatch) -> None:
    query = Bulk(monkeypatch, done, {ONE: 0})
    query.micro._working.acquire()  # a batch is at work
    looked = Event()

    def now() -> float:
        looked.set()
        return 1000.0

    monkeypatch.setattr(bulk, "monotonic", now)
    ending = Thread(target=query.micro.end, daemon=True)
    ending.start()
    assert looked.wait(timeout=20)
    query.micro._working.release()
    ending.join(timeout=20)
    assert (query.is_stopped, ending.is_alive()) == (False, False)


def test_a_query_ends_when_its_last_batch_had_all_that_was_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else its position and its log would wait for the next record."""
    now = [1000.0]
    monkeypatch.setattr(bulk, "monotonic", lambda: now[0])
    query = Bulk(monkeypatch, done, {ONE: 0})
    now[0] += FIRST_SECONDS - 1
    query.micro.look_around()
    assert not query.micro.ended.is_set()
    query.batch({ONE: 50_000})
    now[0] += QUIET_SECONDS - 0.1
    query.micro.look_around()
    assert not query.micro.ended.is_set()
    now[0] += 0.2
    with query.micro._working:  # a batch is at work
        query.micro.look_around()
    assert not query.micro.ended.is_set()
    query.micro.look_around()
    assert query.micro.ended.is_set() and not query.is_stopped
