"""What a record's stamp tells of those that are still to come, whatever this machine's clock says."""

from __future__ import annotations

import time
from types import SimpleNamespace

import pytest

from cdcbus.consumer.records import arrival_clock
from cdcbus.consumer.records.arrival_clock import AHEAD_KEPT, IN_FLIGHT_SECONDS, ArrivalClock

HOUR_MS = 3_600_000


class Watch:
    """The time of this machine, which a test passes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seconds = 0.0
        self.epoch_ms = int(time.time() * 1000)
        clocks = SimpleNamespace(
            monotonic=lambda: self.seconds, time=lambda: self.epoch_ms / 1000 + self.seconds
        )
        monkeypatch.setattr(arrival_clock, "time", clocks)


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Watch:
    return Watch(monkeypatch)


@pytest.mark.parametrize("behind_ms", [0, HOUR_MS, -60_000, -600_000, -HOUR_MS, -48 * HOUR_MS])
def test_what_came_before_a_stamp_is_there_two_minutes_after_it_was_seen(
    watch: Watch, behind_ms: int
) -> None:
    stamp = watch.epoch_ms - behind_ms
    arrivals = ArrivalClock()
    arrivals.saw(stamp)
    for seconds in (0, IN_FLIGHT_SECONDS):
        watch.seconds = seconds
        assert not arrivals.has_all_before(stamp)
    for _ in range(3600):
        watch.seconds += 1.5
        assert arrivals.has_all_before(stamp)


def test_a_stamp_of_another_clock_that_is_ahead_shows_nothing(watch: Watch) -> None:
    arrivals = ArrivalClock()
    arrivals.saw(watch.epoch_ms + 8 * HOUR_MS)
    for ahead_ms in (-10, 50, 600_000):
        assert not arrivals.has_all_before(watch.epoch_ms + ahead_ms)


def test_few_stamps_that_are_ahead_are_remembered(watch: Watch) -> None:
    arrivals = ArrivalClock()
    for number in range(2 * AHEAD_KEPT):
        assert not arrivals.has_all_before(watch.epoch_ms + HOUR_MS + number)
    watch.seconds = IN_FLIGHT_SECONDS + 1
    assert not arrivals.has_all_before(watch.epoch_ms + HOUR_MS)
    assert arrivals.has_all_before(watch.epoch_ms + HOUR_MS + 2 * AHEAD_KEPT - 1)


def test_a_newer_stamp_shows_it_at_once(watch: Watch) -> None:
    arrivals = ArrivalClock()
    arrivals.saw(watch.epoch_ms - HOUR_MS)
    arrivals.saw(watch.epoch_ms)
    assert arrivals.has_all_before(watch.epoch_ms - HOUR_MS)


def test_an_older_stamp_does_not_put_it_back(watch: Watch) -> None:
    arrivals = ArrivalClock()
    arrivals.saw(watch.epoch_ms - HOUR_MS)
    watch.seconds = 5
    arrivals.saw(watch.epoch_ms - HOUR_MS + 3000)
    assert arrivals.now_ms() == watch.epoch_ms - HOUR_MS + 5000


def test_a_stamp_years_from_now_counts_no_further_than_this_clock(watch: Watch) -> None:
    arrivals = ArrivalClock()
    arrivals.saw(watch.epoch_ms * 2)
    assert arrivals.now_ms() == watch.epoch_ms
    assert not arrivals.has_all_before(watch.epoch_ms + 10_000)
    assert not arrivals.has_all_before(watch.epoch_ms - 10_000)


def test_nothing_is_there_before_anything_was_seen(watch: Watch) -> None:
    assert not ArrivalClock().has_all_before(1)
