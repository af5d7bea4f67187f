"""Quantiles of what took how long, against those of the exact list."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from cdcbus.plugins.latency import (
    LEAST_SECONDS,
    MOST_STEPS,
    SLOT_SECONDS,
    SLOTS,
    STEPS_PER_DOUBLING,
    Latency,
)

STEP = 2 ** (1 / STEPS_PER_DOUBLING) * (1 + 1e-9)
SECONDS = st.one_of(st.floats(-10, 1e-4), st.floats(1e-4, 1.0), st.floats(1.0, 1e7))
SHARES = st.floats(0.01, 1.0)


def exact(measured: list[tuple[float, int]], share: float) -> float:
    """The least of the times that such a share did not exceed."""
    each = sorted(seconds for seconds, count in measured for _ in range(count))
    return each[max(0, math.ceil(share * len(each) * (1 - 1e-12)) - 1)]


@given(st.lists(st.tuples(SECONDS, st.integers(1, 20)), min_size=1, max_size=60), SHARES)
def test_a_quantile_is_never_told_less_and_at_most_a_step_more_than_it_is(
    measured: list[tuple[float, int]], share: float
) -> None:
    latency = Latency()
    for seconds, count in measured:
        latency.record(seconds, count)
    told = latency.quantiles(share)
    assert told is not None
    (found,), wanted = told, exact(measured, share)
    assert found in [0.0, *(seconds for seconds, _ in measured)]
    assert max(wanted, 0.0) <= found <= max(wanted * STEP, LEAST_SECONDS)


def test_one_measurement_is_told_as_it_was() -> None:
    latency = Latency()
    latency.record(0.0123, 1000)
    assert latency.quantiles(0.5, 0.95, 0.99) == (0.0123, 0.0123, 0.0123)


def test_what_took_longer_than_can_be_counted_is_told_by_the_longest() -> None:
    latency = Latency()
    latency.record(1.0)
    latency.record(1e12)
    assert latency.quantiles(0.5, 1.0) == (1.0, 1e12)


def test_nothing_recorded_is_nothing_and_what_is_older_than_the_last_minutes_is_forgotten() -> None:
    now = 1000 * SLOT_SECONDS
    latency = Latency(lambda: now)
    assert latency.quantiles(0.5) is None
    latency.record(9.0)
    now += (SLOTS - 1) * SLOT_SECONDS
    latency.record(1.0)
    assert latency.quantiles(1.0) == (9.0,)
    now += SLOT_SECONDS
    assert latency.quantiles(1.0) == (1.0,)
    now += SLOTS * SLOT_SECONDS
    assert latency.quantiles(1.0) is None


def test_memory_does_not_grow_with_what_is_measured() -> None:
    now = 0.0
    latency = Latency(lambda: now)
    for number in range(20_000):
        now += SLOT_SECONDS / 1000
        latency.record(1e-6 * 1.01**number if number < 3000 else number * 7.3)
    assert len(latency._slots) == SLOTS
    assert all(len(slot.steps) <= MOST_STEPS + 1 for slot in latency._slots)
