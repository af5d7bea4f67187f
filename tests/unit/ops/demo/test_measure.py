"""What the demo measures, from given times and numbers."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from cdcbus.ops.demo.course import kill_times
from cdcbus.ops.demo.lag import Arrivals
from cdcbus.ops.demo.measure import Consumed, Rates, Sample, is_at_least
from cdcbus.ops.demo.screen import Phase, State, plain_line
from cdcbus.plugins.positions import BinlogPosition

NOON = datetime(2024, 2, 29, 12)


def after(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def sample(at: float = 0.0, fetched: int = 900, applied: tuple[int, ...] = (10, 20, 30)) -> Sample:
    end = BinlogPosition("mysql-bin.000009", 1000)
    place = BinlogPosition("mysql-bin.000009", fetched)
    return Sample(at, 70, end, place, (10, 25, 30), {"demo-mysql": Consumed(applied, 0.25)})


def test_lag_is_how_long_the_last_beat_took() -> None:
    arrivals = Arrivals()
    assert arrivals.lag_seconds(NOON, after(1)) is None
    arrivals.seen(NOON, after(0.2))
    arrivals.seen(NOON, after(0.4))
    assert arrivals.lag_seconds(NOON, after(9)) == pytest.approx(0.2)


def test_lag_grows_while_a_beat_is_overdue() -> None:
    arrivals = Arrivals()
    arrivals.seen(NOON, after(0.2))
    assert arrivals.lag_seconds(after(3), after(3.1)) == pytest.approx(2.6)


def test_a_clock_that_goes_back_gives_no_negative_lag() -> None:
    arrivals = Arrivals()
    arrivals.seen(NOON, after(-0.1))
    assert arrivals.lag_seconds(NOON, NOON) == 0


def test_rates_are_averages_of_the_last_seconds() -> None:
    rates = Rates()
    rates.add(0.0, {"source": 0})
    assert rates.per_second("source") == 0
    for second in range(1, 11):
        rates.add(float(second), {"source": second * 100 if second > 5 else 0})
    assert rates.per_second("source") == 100


def test_places_in_a_binlog_are_ordered_by_file_number_then_offset() -> None:
    place = BinlogPosition("mysql-bin.999999", 500)
    assert is_at_least(BinlogPosition("mysql-bin.1000000", 4), place)
    assert is_at_least(place, place)
    assert not is_at_least(BinlogPosition("mysql-bin.999999", 499), place)
    assert not is_at_least(BinlogPosition("mysql-bin.999998", 900), place)


def test_a_task_is_done_when_it_is_at_the_end() -> None:
    behind, done = sample(), sample(fetched=1000, applied=(10, 25, 30))
    assert (
        behind.is_done("demo-fetch"),
        behind.is_done("demo-mysql"),
        behind.lag_records("demo-mysql"),
    ) == (False, False, 5)
    assert (
        done.is_done("demo-fetch"),
        done.is_done("demo-mysql"),
        done.lag_records("demo-mysql"),
    ) == (True, True, 0)


def test_each_task_is_killed_in_its_own_part_of_the_middle() -> None:
    for seed in range(50):
        times = list(
            kill_times(["demo-fetch", "demo-postgresql", "demo-mysql"], 30.0, seed).values()
        )
        assert times == sorted(times)
        assert times[0] >= 30 * 0.25 and times[-1] <= 30 * 0.75


def test_a_line_says_what_the_table_shows() -> None:
    rates = Rates()
    rates.add(0.0, dict.fromkeys(sample().counts, 0))
    rates.add(1.0, sample().counts)
    line = plain_line(
        Phase("changing rows", 1.0, 30.0),
        sample(),
        rates,
        {"demo-fetch": State.WORKING, "demo-mysql": State.WORKING},
    )
    assert line == "changing rows: 70 rows/s changed, 65 out; demo-mysql 60 in, 5 behind, 0.2 s"
