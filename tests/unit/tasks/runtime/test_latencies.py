"""How long rows take, told by what share of them took no longer."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdcbus.tasks.runtime.latencies import WINDOW_SECONDS, Latencies, percentiles
from cdcbus.tasks.zookeeper.stat import Percentiles

MEASURED = st.lists(st.tuples(st.floats(0, 1e6), st.integers(1, 1000)), min_size=1, max_size=20)


@given(MEASURED)
def test_percentiles_are_those_of_the_rows_one_by_one(measured: list[tuple[float, int]]) -> None:
    rows = sorted(seconds for seconds, count in measured for _ in range(count))
    found = percentiles(measured)
    for share, seconds in ((50, found.p50), (95, found.p95), (99, found.p99)):
        assert seconds == rows[-(-share * len(rows) // 100) - 1]


def test_what_is_older_than_the_window_no_longer_counts() -> None:
    now = 0.0
    latencies = Latencies(lambda: now)
    latencies.add(100.0, 10)
    now = WINDOW_SECONDS + 1
    assert latencies.percentiles() is None
    latencies.add(1.0, 1)
    assert latencies.percentiles() == Percentiles(1.0, 1.0, 1.0)


def test_a_clock_ahead_is_seen_by_rows_of_the_future_and_taken_out() -> None:
    latencies = Latencies()
    for seconds in (-2.0, -1.5, 3.0):
        latencies.add(seconds, 1)
    assert latencies.skew_seconds == 2.0
    assert latencies.percentiles() == Percentiles(0.5, 5.0, 5.0)


@pytest.mark.parametrize(("skew_seconds", "expected"), [(2.0, 3.0), (-0.25, 0.75), (-9.0, 0.0)])
def test_a_skew_that_was_measured_is_taken_out(skew_seconds: float, expected: float) -> None:
    latencies = Latencies()
    latencies.add(1.0, 1)
    assert latencies.percentiles(skew_seconds) == Percentiles(expected, expected, expected)
