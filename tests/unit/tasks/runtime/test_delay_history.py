"""Delays by five minutes and by the hour."""

from __future__ import annotations

import pytest

from cdcbus.tasks.runtime import delay_history
from cdcbus.tasks.runtime.delay_history import (
    STEP_SECONDS,
    DelayHistory,
    DelayStep,
    DelayWriter,
    delays_path,
    with_step,
)
from cdcbus.tasks.runtime.throughput_history import HOUR_SECONDS, KEPT_SECONDS
from cdcbus.tasks.zookeeper.stat import Percentiles
from tests.support.stand_ins.memory_zookeeper import MemoryZooKeeper

BEGIN = 1_795_280_400  # a whole hour
STAGE = "source_to_read"


class Clock:
    now = float(BEGIN)

    def time(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(delay_history, "time", clock)
    return clock


def test_steps_and_hours_are_written_as_they_end_also_by_a_second_process(clock: Clock) -> None:
    history = DelayHistory(MemoryZooKeeper())
    for start in (0, 13):
        writer = DelayWriter("7", history)
        for number in range(start, start + 13):
            clock.now = BEGIN + STEP_SECONDS * (number + 1) - 1
            assert not writer.is_due()
            clock.now += 1
            assert writer.is_due()
            writer.write({STAGE: Percentiles(0.1, 0.2, number + 1.0)})
    assert [step.at for step in history.read("7")] == [
        BEGIN + STEP_SECONDS * number for number in range(26)
    ]
    assert history.read_hours("7") == [
        DelayStep(BEGIN, {STAGE: Percentiles(0.1, 0.2, 12.0)}),
        DelayStep(BEGIN + HOUR_SECONDS, {STAGE: Percentiles(0.1, 0.2, 24.0)}),
    ]


def test_a_step_without_rows_is_a_gap(clock: Clock) -> None:
    history = DelayHistory(MemoryZooKeeper())
    writer = DelayWriter("7", history)
    clock.now += STEP_SECONDS
    writer.write({})
    assert (history.read("7"), writer.is_due()) == ([], False)


def test_a_clock_that_is_put_back_ends_no_step_late(clock: Clock) -> None:
    history = DelayHistory(MemoryZooKeeper())
    writer = DelayWriter("7", history)
    clock.now -= HOUR_SECONDS
    for _ in range(2):
        assert writer.is_due()
        writer.write({STAGE: Percentiles(0.1, 0.2, 1.0)})
        clock.now += STEP_SECONDS
    assert [step.at for step in history.read("7")] == [BEGIN - HOUR_SECONDS]


def test_what_is_too_old_goes_and_what_is_damaged_is_left_out() -> None:
    old, new = DelayStep(BEGIN, {}), DelayStep(BEGIN + KEPT_SECONDS, {})
    assert with_step([old], new) == [new]
    zookeeper = MemoryZooKeeper()
    zookeeper.put(
        delays_path("7"),
        '{"delays":[[1,{"a":[1,2,3]}],[2,{"a":[1,2]}],[3,{"a":["x",2,3]}],["x",{}],7,[4,[]]]}',
    )
    history = DelayHistory(zookeeper)
    assert history.read("7") == [DelayStep(1, {"a": Percentiles(1.0, 2.0, 3.0)})]
