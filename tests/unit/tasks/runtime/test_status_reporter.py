"""When a running task tells of itself, and what; ZooKeeper is a stand-in that keeps what it is
given."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from threading import Event
from typing import Any

import pytest

from cdcbus.consumer.batch.progress import Progress
from cdcbus.consumer.config import LoadTask, TopicConfig
from cdcbus.plugins.contracts import JdbcTarget
from cdcbus.plugins.errors import PositionUnavailable, TargetRejected
from cdcbus.plugins.positions import TopicPartition
from cdcbus.plugins.task_status import State
from cdcbus.tasks.runtime import status_reporter
from cdcbus.tasks.runtime.lag import Lag
from cdcbus.tasks.runtime.occurrences import Occurrence
from cdcbus.tasks.runtime.status_reporter import StatusReporter
from cdcbus.tasks.zookeeper.stat import Stat
from tests.support.waiting import wait_until

TASK = LoadTask(
    "7", TopicConfig("kafka:9092", ("orders",)), "canalRow", "JdbcBatch", JdbcTarget("")
)


class World:
    """A ZooKeeper, the topics' lag, and the history of minutes."""

    def __init__(self) -> None:
        self.client: Any = self
        self.stats: list[Stat] = []
        self.failures: list[tuple[str, str]] = []
        self.minutes: list[tuple[int, str]] = []
        self.occurred: list[Occurrence] = []
        self.before: Stat | None = None
        self.lag = Lag()
        self.is_away = False

    # As TaskNodes

    def stat(self, _: str) -> Stat | None:
        return self.before

    def put_stat(self, task_id: str, stat: Stat) -> None:
        assert task_id == "7"
        if self.is_away:
            raise PositionUnavailable("ZooKeeper does not answer")
        self.stats.append(stat)

    def add_failure(self, _: str, place: str, sentence: str) -> None:
        self.failures.append((place, sentence))

    # As Occurrences

    def add(self, _: str, new: list[Occurrence]) -> None:
        self.occurred += new

    # As a ThroughputWriter, and as a DelayWriter

    def is_due(self) -> bool:
        return False

    def write(self, rows: int, _records: int | None, _seconds: float | None, state: str) -> None:
        self.minutes.append((rows, state))

    @property
    def states(self) -> list[State]:
        found: list[State] = []
        for stat in self.stats:
            if found[-1:] != [stat.state]:
                found.append(stat.state)
        return found


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    world = World()
    monkeypatch.setattr(status_reporter, "LOOK_SECONDS", 0.001)
    monkeypatch.setattr(status_reporter, "lag_meter", lambda _: lambda _: world.lag)
    monkeypatch.setattr(status_reporter, "ThroughputWriter", lambda *_: world)
    monkeypatch.setattr(status_reporter, "ThroughputHistory", lambda _: world)
    monkeypatch.setattr(status_reporter, "DelayWriter", lambda *_: world)
    monkeypatch.setattr(status_reporter, "Occurrences", lambda _: world)
    return world


@contextmanager
def reporting(world: World, stop: Event | None = None) -> Iterator[StatusReporter]:
    nodes: Any = world
    reporter = StatusReporter(TASK, nodes, "n1")
    with reporter.reporting(stop or Event()):
        wait_until(lambda: bool(world.stats), "the first report", 10)
        yield reporter


def test_a_change_of_state_is_told_at_once_though_the_next_report_is_far_away(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(status_reporter, "REPORT_SECONDS", 3600.0)
    with reporting(world) as reporter:
        reporter.status.reading("orders[0] from 5")
        wait_until(lambda: world.states[-1] is State.WORKING, "WORKING", 10)
        reporter.status.retrying("the target is away")
        wait_until(lambda: world.states[-1] is State.RETRYING, "RETRYING", 10)
        assert world.stats[-1].reason == "task 7: the target is away"
    assert world.states == [State.STARTING, State.WORKING, State.RETRYING, State.DONE]
    assert world.failures == [("node n1", "task 7: the target is away")]
    assert [(each.kind, each.sentence) for each in world.occurred] == [
        ("retrying", "task 7: the target is away")
    ]


def test_a_task_that_rests_reports_now_and_then(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(status_reporter, "REPORT_SECONDS", 0.05)
    monkeypatch.setattr(status_reporter, "IDLE_SECONDS", 0.05)
    with reporting(world) as reporter:
        reporter.status.reading("orders[0] from 5")
        begun, count = time.monotonic(), len(world.stats)
        wait_until(lambda: len(world.stats) >= count + 5, "five reports", 10)
        assert time.monotonic() - begun > 0.15


def test_an_idle_task_reports_less_often_and_soon_once_rows_come(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(status_reporter, "REPORT_SECONDS", 0.01)
    monkeypatch.setattr(status_reporter, "IDLE_SECONDS", 3600.0)
    with reporting(world) as reporter:
        progress = Progress(next_offsets={TopicPartition("orders", 0): 5})
        reporter(progress)
        reporter.status.reading("orders[0] from 5")
        wait_until(lambda: reporter._is_idle, "the task to be idle", 10)
        count = len(world.stats)
        progress.total = replace(progress.total, records=3)
        reporter(progress)
        wait_until(lambda: world.stats[-1].rows == 3, "a report of the rows", 10)
        assert count < len(world.stats)


def test_a_task_that_is_behind_is_not_idle(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status_reporter, "REPORT_SECONDS", 0.01)
    monkeypatch.setattr(status_reporter, "IDLE_SECONDS", 3600.0)
    world.lag = Lag(records=7)
    with reporting(world) as reporter:
        reporter(Progress(next_offsets={TopicPartition("orders", 0): 5}))
        reporter.status.reading("orders[0] from 5")
        count = len(world.stats)
        wait_until(lambda: len(world.stats) >= count + 5, "five reports", 10)


def test_a_clock_that_is_put_forward_is_no_standstill(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(status_reporter, "REPORT_SECONDS", 0.01)
    world.lag = Lag(records=7)
    with reporting(world) as reporter:
        reporter(Progress(next_offsets={TopicPartition("orders", 0): 5}))
        reporter.status.reading("orders[0] from 5")
        before = time.time()
        monkeypatch.setattr(time, "time", lambda: before + 36_000)
        count = len(world.stats)
        wait_until(lambda: len(world.stats) >= count + 5, "five reports", 10)
    last = world.stats[-2]
    assert last.idle_seconds is not None
    assert max(last.idle_seconds, last.still_seconds) < 3600


def test_a_task_that_reads_again_works_once_it_gets_on(world: World) -> None:
    world.lag = Lag(records=7)
    with reporting(world) as reporter:
        progress = Progress(next_offsets={TopicPartition("orders", 0): 5})
        reporter(progress)
        reporter.status.retrying("the target is away")
        wait_until(lambda: world.states[-1] is State.RETRYING, "RETRYING", 10)
        reporter.status.reading("orders[0] from 5")
        progress.next_offsets = {TopicPartition("orders", 0): 6}
        wait_until(lambda: world.states[-1] is State.WORKING, "WORKING", 10)


def test_an_end_by_an_error_is_told_with_its_sentence_and_a_stop_is_none(world: World) -> None:
    with pytest.raises(TargetRejected), reporting(world):
        raise TargetRejected("column n takes no x")
    assert (world.stats[-1].state, world.stats[-1].reason) == (State.ERROR, "column n takes no x")
    assert world.failures[-1] == ("node n1", "column n takes no x")
    stop = Event()
    with reporting(world, stop):
        stop.set()
    assert world.stats[-1].state is State.STOPPED
    assert world.minutes[-1] == (0, State.STOPPED)


def test_an_error_in_a_report_does_not_end_the_reports(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(status_reporter, "REPORT_SECONDS", 0.01)
    measured: list[object] = []

    def measure(progress: object) -> Lag:
        measured.append(progress)
        if len(measured) == 1:
            raise ValueError("a cell")
        return Lag(records=7)

    monkeypatch.setattr(status_reporter, "lag_meter", lambda _: measure)
    with reporting(world) as reporter:
        reporter(Progress())
        wait_until(lambda: world.stats[-1].lag_records == 7, "a report after the error", 10)
    assert (
        "task 7: its state is not reported: unexpected ValueError, please report it; tried "
        "again every 0.01 s"
    ) in caplog.messages


def test_a_time_that_no_date_has_does_not_end_the_reports(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(status_reporter, "REPORT_SECONDS", 0.01)
    world.lag = Lag(last_row_ms=1_700_000_000_123_456)
    with reporting(world) as reporter:
        reporter(Progress())
        wait_until(
            lambda: world.stats[-1].last_row == "(no date: 1700000000123456 ms)", "the time", 10
        )
        reporter.status.reading("orders[0] from 5")
        wait_until(lambda: world.states[-1] is State.WORKING, "WORKING", 10)


def test_nothing_is_told_where_another_process_may_run_the_task(world: World) -> None:
    nodes: Any = world
    reporter = StatusReporter(TASK, nodes, "n1")
    with reporter.reporting(Event(), is_lost=lambda: True):
        wait_until(lambda: bool(world.stats), "the first report", 10)
    assert State.DONE not in world.states
    assert world.minutes == []


def test_a_zookeeper_that_is_away_does_not_hold_the_task_up(world: World) -> None:
    with reporting(world) as reporter:
        world.is_away = True
        reporter.status.retrying("the target is away")
        wait_until(lambda: bool(world.failures), "the failure", 10)
        world.is_away = False
    assert world.stats[-1].state is State.DONE


def test_a_silent_zookeeper_is_waited_for_once_at_the_end(world: World) -> None:
    with pytest.raises(TargetRejected), reporting(world):
        world.is_away = True
        raise TargetRejected("no such row")
    assert (world.failures, world.minutes) == ([], [])


@pytest.mark.parametrize(("seconds", "is_told"), [(3000.0, True), (4000.0, False)])
def test_what_an_earlier_process_found_lost_is_told_for_an_hour(
    world: World, seconds: float, is_told: bool
) -> None:
    """A process whose ZooKeeper session ends is started anew, and the alarm would end with it."""
    at = time.time() - seconds
    former = "the target has lost commits"
    world.before = Stat(State.WORKING, target_lost=former, target_lost_at=at)
    with reporting(world) as reporter:
        progress = Progress()
        progress.lose_table("7", "target table s.t is another one than before")
        reporter(progress)
    first, last = world.stats[0], world.stats[-1]
    assert (first.target_lost, first.target_lost_at) == (former if is_told else "", at)
    assert ("target table s.t" in last.target_lost, former in last.target_lost) == (True, is_told)
    assert last.target_lost_at > at


def test_the_time_without_rows_goes_on_over_a_restart(world: World) -> None:
    first = StatusReporter(TASK, world, "n1")  # type: ignore[arg-type]
    first._report(0.0, Lag())
    world.before = world.stats.pop()
    world.before = Stat(
        **{
            **{name: getattr(world.before, name) for name in Stat.__dataclass_fields__},
            "idle_seconds": 600.0,
        }
    )
    with reporting(world):
        pass
    idle = world.stats[-1].idle_seconds
    assert idle is not None
    assert idle >= 600.0
