"""A task's history by the minute."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdcbus.tasks.runtime.throughput_history import (
    HOUR_SECONDS,
    HOURS_KEPT_SECONDS,
    KEPT_SECONDS,
    Minute,
    ThroughputHistory,
    ThroughputWriter,
    last_hour,
    with_hours,
    with_minute,
)
from tests.support.stand_ins.memory_zookeeper import MemoryZooKeeper

BEGIN = 1_800_000_000 // 60 * 60


def minute(number: int, rows: int = 1) -> Minute:
    return Minute(BEGIN + 60 * number, rows, 0, 0.5, "WORKING")


def test_rows_of_a_minute_in_which_a_task_was_started_anew_are_added_up() -> None:
    assert with_minute([minute(0), minute(1, 5)], minute(1, 3)) == [minute(0), minute(1, 8)]


@given(st.lists(st.tuples(st.integers(0, 500), st.integers(0, 9)), max_size=30))
def test_the_history_is_in_order_bounded_and_loses_no_recent_row(
    told: list[tuple[int, int]],
) -> None:
    history: list[Minute] = []
    told.sort()
    for number, rows in told:
        history = with_minute(history, minute(number, rows))
    newest = max((number for number, _ in told), default=0)
    assert [each.at for each in history] == sorted({each.at for each in history})
    assert all(BEGIN + newest * 60 - each.at < KEPT_SECONDS for each in history)
    assert sum(each.rows for each in history) == sum(
        rows for number, rows in told if newest - number < KEPT_SECONDS / 60
    )


def test_a_clock_that_is_put_back_ends_no_minute_late(monkeypatch: pytest.MonkeyPatch) -> None:
    history = ThroughputHistory(MemoryZooKeeper())
    monkeypatch.setattr(time, "time", lambda: float(BEGIN))
    writer = ThroughputWriter("7", history)
    for seconds in (-HOUR_SECONDS, 60 - HOUR_SECONDS):
        monkeypatch.setattr(time, "time", lambda at=BEGIN + seconds: float(at))
        assert writer.is_due()
        writer.write(7, 0, 0.5, "WORKING")
    assert [each.at for each in history.read("7")] == [BEGIN - HOUR_SECONDS]


def test_the_last_hour_has_sixty_whole_minutes_with_nothing_where_nobody_told() -> None:
    hour = last_hour([minute(0, 7), minute(58, 3), minute(60, 9)], BEGIN + 60 * 60 + 30)
    assert (len(hour), hour[0], hour[58], sum(hour)) == (60, 7, 3, 10)


def test_hours_are_made_of_their_minutes_once_they_are_over_and_then_stay() -> None:
    start = 1_795_280_400  # a whole hour
    minutes = [
        Minute(start + 60 * number, 10, number, None if number else 0.5, "WORKING")
        for number in range(90)
    ]
    hours = with_hours([], minutes)
    assert hours == [Minute(start, 600, 59, 0.5, "WORKING")]
    # Most of its minutes are forgotten by now: it is as it was told first.
    assert with_hours(hours, minutes[50:]) == hours
    assert with_hours(hours, []) == hours
    old = Minute(start - HOURS_KEPT_SECONDS, 1, None, None, "WORKING")
    recent = Minute(start - HOURS_KEPT_SECONDS + 2 * HOUR_SECONDS, 2, None, None, "WORKING")
    assert with_hours([old, recent], minutes) == [recent, *hours]
    assert with_hours([], minutes[:60]) == []  # the hour is not over yet
