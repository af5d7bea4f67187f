"""In which gear a consumer task reads, and from where, without Kafka, Spark and a target."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from threading import Event
from typing import Any

import pytest

from cdcbus.consumer import run as consumer
from cdcbus.consumer.batch import bulk
from cdcbus.consumer.batch.progress import Progress
from cdcbus.consumer.config import TOPICS, LoadTask, TopicConfig
from cdcbus.consumer.offsets.checkpoint import StoredPositions
from cdcbus.consumer.offsets.landmarks import Refilled
from cdcbus.consumer.offsets.start_offsets import Starts
from cdcbus.consumer.records.late import KnownEpochs
from cdcbus.plugins.contracts import AppliedOffset, JdbcTarget, Landmark
from cdcbus.plugins.errors import (
    DataError,
    LogRefilled,
    TargetMisconfigured,
    TargetUnavailable,
)
from cdcbus.plugins.positions import TopicPartition
from cdcbus.plugins.start import Replay
from cdcbus.plugins.task_status import TaskStatus

ONE, OTHER = TopicPartition("orders", 0), TopicPartition("other", 0)
TASK = LoadTask(
    "7", TopicConfig("kafka:9092", ("orders",)), "canalRow", "JdbcBatch", JdbcTarget("")
)
LITTLE, BACKLOG = 10, 10_000_000


class Stop(Event):
    """Pauses of no length."""

    def wait(self, timeout: float | None = None) -> bool:
        return self.is_set()


class World:
    """A log with `left` records behind offset 100, or `low`, the first that it holds; a Spark that is up or not; a target.

    `steps`: what each gear does in turn, from then on it stops; `gears`: those that have read;
    `starts`: from where reading was to begin, as far as the process knew."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.stop = Stop()
        self.left, self.is_ready, self.is_dry_run = LITTLE, False, False
        self.commits_offsets = True
        self.low = 0
        self.steps: list[Callable[[Progress], None]] = []
        self.gears: list[str] = []
        self.starts: list[Mapping[TopicPartition, int]] = []
        self.taken: list[Starts] = []
        self.asked_spark: list[int] = []
        self.asked: list[str] = []
        self.reports = self.closed = 0
        self.wrong: Exception | None = None
        self.wrong_takes: list[Exception] = []
        self.logs = self
        self.found: Refilled | None = None
        self.applied: list[AppliedOffset] = []
        self.seen: Mapping[TopicPartition, AppliedOffset] = {}
        self.progress = Progress()
        self.epochs = KnownEpochs()
        self.topic_ids: dict[str, str] = {}
        monkeypatch.setattr(consumer, "make_applier", lambda *_: self)
        monkeypatch.setattr(consumer, "SparkBeside", lambda *_: self)
        monkeypatch.setattr(consumer, "TopicLogs", lambda *_, **__: self)
        monkeypatch.setattr(consumer, "TopicWatch", lambda *_: self)
        monkeypatch.setattr(consumer, "BatchApplier", self._batches)
        monkeypatch.setattr(consumer, "begun_before", lambda *_, **__: ({}, []))
        monkeypatch.setattr(consumer, "leader_epochs", self._epochs)
        monkeypatch.setattr(consumer, "find_starts", self._find)
        monkeypatch.setattr(consumer, "take_over", self._take_over)
        monkeypatch.setattr(consumer, "follow", self._follow)
        monkeypatch.setattr(bulk, "stream_backlog", lambda *_: self._read("bulk"))

    def run(self, task: LoadTask = TASK) -> None:
        consumer.run(task, {}, self.stop, TaskStatus("7"), self._report)

    def all_partitions(self) -> list[TopicPartition]:
        return [ONE]

    def _epochs(self, _: object, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        self.asked.append("epochs")
        return dict.fromkeys(partitions, 3)

    def _report(self, _: Progress) -> None:
        self.reports += 1

    def _batches(self, *given: Any) -> World:
        self.progress = given[3]
        return self

    def _find(self, *given: Any) -> Starts:
        if self.wrong:
            raise self.wrong
        self.asked.append("starts")
        reached = given[4]
        self.starts.append(dict(reached))
        offset = max(self.low, *reached.values(), 100)
        return Starts({ONE: offset}, topic_ids=self.topic_ids)

    def _take_over(self, _: Any, __: Any, positions: StoredPositions, starts: Starts) -> None:
        if self.taken and self.wrong_takes:
            raise self.wrong_takes.pop()
        self.taken.append(starts)
        positions.has_begun = True

    def _follow(self, *given: Any) -> None:
        self.is_too_much = given[5]
        self._read("tail")

    def _read(self, gear: str) -> None:
        self.gears.append(gear)
        if self.steps:
            self.steps.pop(0)(self.progress)
        else:
            self.stop.set()

    # As the logs, an applier, a batch applier, and a SparkBeside

    def __enter__(self) -> World:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def ahead(self, _: Mapping[TopicPartition, int]) -> tuple[int, int]:
        return self.left, 100

    def applied_offsets(self) -> list[AppliedOffset]:
        return self.applied

    def check_targets(self) -> None:
        pass

    @contextmanager
    def saved_in_the_end(self) -> Iterator[None]:
        yield

    def start(self, partitions: int, offsets: Mapping[TopicPartition, int]) -> None:
        self.asked_spark.append(partitions)

    def close(self) -> None:
        self.closed += 1


def nothing(_: Progress) -> None:
    """A gear that gives way to the other."""


def moved_to(offset: int) -> Callable[[Progress], None]:
    def move(progress: Progress) -> None:
        progress.move([(ONE, offset, Landmark(offset - 1, 1))])

    return move


def raising(error: Exception, before: Callable[[Progress], None] = nothing) -> Any:
    def fail(progress: Progress) -> None:
        before(progress)
        raise error

    return fail


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


def test_a_task_that_is_hardly_behind_begins_with_the_tail_and_asks_for_no_spark(
    world: World,
) -> None:
    world.is_ready = True
    world.run()
    assert (world.gears, world.asked_spark) == (["tail"], [])


def test_a_backlog_is_for_spark_from_the_first_record_on_where_that_is_up(world: World) -> None:
    world.left, world.is_ready = BACKLOG, True
    world.run()
    assert world.gears == ["bulk"]


def test_while_spark_starts_beside_it_the_tail_reads_the_backlog(world: World) -> None:
    world.left = BACKLOG
    world.run()
    assert (world.gears, world.asked_spark) == (["tail"], [1])


def test_the_gears_take_turns(world: World) -> None:
    world.steps = [nothing] * 4
    world.run()
    assert world.gears == ["tail", "bulk", "tail", "bulk", "tail"]


def test_the_tail_gives_way_once_spark_is_up(world: World) -> None:
    world.run()
    before = world.is_too_much()
    world.is_ready = True
    assert (before, world.is_too_much()) == (False, True)


def test_a_dry_run_never_asks_for_spark_and_takes_nothing_over(world: World) -> None:
    world.left, world.is_ready, world.is_dry_run = BACKLOG, True, True
    world.run()
    assert (world.gears, world.is_too_much()) == (["tail"], False)
    assert (world.asked_spark, world.taken) == ([], [])


@pytest.mark.parametrize(
    ("master", "commits_offsets", "gear"),
    [
        ("spark://spark:7077", False, "tail"),
        ("local-cluster[1,1,640]", False, "tail"),
        ("spark://spark:7077", True, "bulk"),
        ("local[4]", False, "bulk"),
    ],
)
def test_a_target_without_offsets_gets_no_rows_from_executors_on_other_machines(
    world: World,
    caplog: pytest.LogCaptureFixture,
    master: str,
    commits_offsets: bool,
    gear: str,
) -> None:
    world.left, world.is_ready, world.commits_offsets = BACKLOG, True, commits_offsets
    world.run(replace(TASK, spark_options={"spark.master": master}))
    assert world.gears == [gear]
    assert bool(world.asked_spark) == (gear == "bulk")
    assert ("is read without executors" in caplog.text) == (gear == "tail")


def test_partitions_are_taken_over_before_any_is_read(world: World) -> None:
    taken = list[int]()
    world.steps = [lambda _: taken.append(len(world.taken))]
    world.run()
    assert taken == [1]
    assert world.taken[0].offsets == {ONE: 100}


@pytest.mark.parametrize("gear", ["tail", "bulk"])
def test_a_bounded_run_ends_behind_its_last_record_in_either_gear(world: World, gear: str) -> None:
    world.steps = [nothing, moved_to(150)] if gear == "bulk" else [moved_to(150)]
    consumer_task = replace(TASK, start=Replay(100, 149))
    world.run(consumer_task)
    assert world.gears[-1] == gear
    assert not world.stop.is_set()


def test_a_run_whose_end_is_reached_already_reads_nothing(world: World) -> None:
    world.run(replace(TASK, start=Replay(0, 99)))
    assert (world.gears, world.reports) == ([], 1)


def test_after_an_error_that_passes_reading_goes_on_from_where_the_target_is(
    world: World,
) -> None:
    world.steps = [raising(TargetUnavailable("away"), moved_to(150))]
    world.run()
    assert world.gears == ["tail", "tail"]
    assert world.starts == [{}, {ONE: 150}]
    assert [starts.offsets for starts in world.taken] == [{ONE: 100}, {ONE: 150}]


def test_what_could_not_be_taken_over_was_not_reached(world: World) -> None:
    def cut(_: Progress) -> None:
        world.low = 200

    world.wrong_takes = [TargetUnavailable("away")]
    world.steps = [raising(TargetUnavailable("away"), cut)]
    world.run()
    # A target at 100 has lost nothing: it was never told of 200 by the second attempt.
    assert world.starts == [{}, {ONE: 100}, {ONE: 100}]
    assert [starts.offsets for starts in world.taken] == [{ONE: 100}, {ONE: 200}]


def test_what_a_start_does_not_read_any_more_is_told_once(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Once the partitions are taken over, also where an attempt that failed has stored a part."""
    attempts = 0

    def fail_twice(_: Any, __: Any, ___: Any, starts: Starts) -> None:
        nonlocal attempts
        attempts += 1
        if attempts <= 2:
            assert "does not read" not in caplog.text
            raise TargetUnavailable("away")
        world.taken.append(starts)

    monkeypatch.setattr(consumer, "take_over", fail_twice)
    monkeypatch.setattr(consumer, "changed", lambda *_: [TOPICS])
    monkeypatch.setattr(StoredPositions, "rules", lambda _: {"t": {"a": str(attempts)}})
    rules: list[Mapping[str, str]] = []
    monkeypatch.setattr(consumer, "warn_of_changes", lambda _, before, *__: rules.append(before))
    world.seen = {OTHER: AppliedOffset(*OTHER, 9, 1)}
    world.run()
    assert attempts == 3
    assert caplog.text.count(f"does not read {OTHER} any more") == 1
    assert rules == [{"a": "0"}]


def test_after_an_error_a_backlog_is_for_spark_at_once(world: World) -> None:
    def behind(_: Progress) -> None:
        world.left, world.is_ready = BACKLOG, True

    world.steps = [raising(TargetUnavailable("away"), behind)]
    world.run()
    assert world.gears == ["tail", "bulk"]


def test_an_error_that_does_not_pass_is_raised_and_all_is_closed(world: World) -> None:
    world.steps = [raising(DataError("no number"))]
    with pytest.raises(DataError, match="no number"):
        world.run()
    assert world.gears == ["tail"]
    assert world.closed == 2  # the applier, and that of its batches


@pytest.mark.parametrize("error", [TargetUnavailable("away"), TargetMisconfigured("no right")])
def test_the_first_look_must_succeed(world: World, error: Exception) -> None:
    world.wrong = error
    with pytest.raises(type(error)):
        world.run()
    assert world.gears == []


@pytest.mark.parametrize(("is_dry_run", "kept"), [(False, 2), (True, 0)])
def test_a_log_that_was_filled_anew_is_noted_so_that_the_next_start_refuses_too(
    world: World, is_dry_run: bool, kept: int
) -> None:
    last = Landmark(120, 5)
    world.is_dry_run, world.found = is_dry_run, Refilled(ONE, last, 121, Landmark(120, 9))
    world.steps = [raising(LogRefilled("filled anew"), moved_to(150))]
    with pytest.raises(LogRefilled):
        world.run()
    assert len(world.taken) == kept
    if kept:
        assert (world.taken[1].offsets, world.taken[1].last) == ({ONE: 150}, {ONE: last})


def test_of_a_log_that_was_filled_anew_no_offset_goes_back(world: World) -> None:
    """A batch that failed in one partition had moved another one."""
    last = Landmark(120, 5)
    world.found = Refilled(ONE, last, 121, Landmark(120, 9))
    world.applied = [AppliedOffset(*ONE, 170, 1), AppliedOffset("other", 0, 9, 1)]
    world.steps = [raising(LogRefilled("filled anew"), moved_to(150))]
    with pytest.raises(LogRefilled):
        world.run()
    assert world.taken[1].offsets == {ONE: 170}


def test_that_a_log_was_filled_anew_and_could_not_be_noted_is_told(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def away() -> list[AppliedOffset]:
        raise TargetUnavailable("away")

    world.found = Refilled(ONE, Landmark(120, 5), 121, Landmark(120, 9))
    monkeypatch.setattr(world, "applied_offsets", away)
    world.steps = [raising(LogRefilled("filled anew"), moved_to(150))]
    with pytest.raises(LogRefilled):
        world.run()
    assert "the next start may not notice it: away" in caplog.text


def test_who_leads_the_logs_is_asked_before_they_are_compared_with_what_was_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else a leader that is new in between counts as the one whose log was compared."""
    world = World(monkeypatch)
    world.run()
    assert world.asked == ["epochs", "starts"]
    assert world.progress.leader_epochs == {ONE: 3}


def test_epochs_of_each_partition_are_known_from_its_start_on_though_none_was_seen(
    world: World,
) -> None:
    """Not those of a former topic of the name."""
    world.epochs.begin({ONE: {"1": {"7": 5}}}, (), {ONE.topic: "former"})
    world.run()
    assert world.epochs.is_followed(ONE)
    assert world.epochs.of(ONE) == {}


def test_a_retry_keeps_the_epochs_that_the_process_has_seen(world: World) -> None:
    """What it finds shortly before its start can be the records of other fetch tasks alone."""

    def learn(_: Progress) -> None:
        world.epochs.add(ONE, {"1": {"7": 120}})
        raise TargetUnavailable("deadlock")

    world.topic_ids = {ONE.topic: "id"}
    world.steps = [learn]
    world.run()
    assert len(world.gears) == 2
    assert world.epochs.of(ONE) == {"1": {"7": 120}}
