"""Rows and lag of a task over time, as charts. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from cdcbus.ops.web.series.series import Mark, Series, Values, within
from cdcbus.tasks.runtime.throughput_history import (
    HOUR_SECONDS,
    KEPT_SECONDS,
    MINUTE_SECONDS,
    Minute,
    hour_of,
    minute_of,
    whole_hour,
)

RANGES: Final = {
    "1h": 3600,
    "6h": 6 * 3600,
    "1d": 86_400,
    "7d": 7 * 86_400,
    "30d": 30 * 86_400,
}
WINDOWS_MINUTES: Final = (30, 60, 180, 360)
KEPT_MINUTES: Final = WINDOWS_MINUTES[-1]


@dataclass(frozen=True, slots=True)
class _Steps:
    """The equal steps of time that a chart covers, and what is known of each by its beginning."""

    start: int
    seconds: int
    count: int
    known: Mapping[int, Minute]

    @property
    def end(self) -> int:
        return self.start + self.count * self.seconds

    def values(self, field: str) -> Values:
        """A field of each step; None where the step is unknown."""
        values: list[float | None] = []
        for number in range(self.count):
            minute = self.known.get(self.start + number * self.seconds)
            if minute is None:
                values.append(None)
            else:
                values.append(getattr(minute, field))
        return values


def throughput_charts(
    minutes: Sequence[Minute],
    now: float,
    hours: Sequence[Minute] = (),
    span: str = "",
    marks: Sequence[Mark] = (),
) -> list[Series]:
    """Rows and lag over one of RANGES: by minute, and from a day on by hour. Without a range they
    cover the smallest window that holds all minutes. A lag that was never known has no chart.
    `marks`: what happened meanwhile."""
    # Minutes are not kept for longer than this.
    if span in RANGES and RANGES[span] > KEPT_SECONDS:
        steps = _by_hour(RANGES[span], minutes, hours, now)
    elif span in RANGES:
        steps = _by_minute(RANGES[span] // MINUTE_SECONDS, minutes, now)
    elif minutes:
        steps = _by_minute(_smallest_window(minutes, now), minutes, now)
    else:
        return []
    inside = within(marks, steps.start, steps.end)
    a_step, of_lag = "a minute", ""
    if steps.seconds == HOUR_SECONDS:
        a_step, of_lag = "an hour", ", the most in each hour"
    rows = steps.values("rows")
    charts = [Series("Rows", a_step, steps.start, steps.seconds, rows, inside)]
    for unit in ("seconds", "records"):
        lag = steps.values(f"lag_{unit}")
        if any(value is not None for value in lag):
            charts.append(Series("Lag", unit + of_lag, steps.start, steps.seconds, lag, inside))
    return charts


def _by_hour(length: int, minutes: Sequence[Minute], hours: Sequence[Minute], now: float) -> _Steps:
    known = {hour.at: hour for hour in hours}
    # The current hour is not stored before its end: its minutes so far stand for it.
    current = hour_of(int(now))
    so_far = [minute for minute in minutes if minute.at >= current]
    if so_far:
        known[current] = whole_hour(current, so_far)
    return _Steps(current + HOUR_SECONDS - length, HOUR_SECONDS, length // HOUR_SECONDS, known)


def _by_minute(count: int, minutes: Sequence[Minute], now: float) -> _Steps:
    known = {minute.at: minute for minute in minutes}
    return _Steps(minute_of(now) - count * MINUTE_SECONDS, MINUTE_SECONDS, count, known)


def _smallest_window(minutes: Sequence[Minute], now: float) -> int:
    """The smallest window that holds all minutes, in minutes."""
    oldest = (minute_of(now) - minutes[0].at) // MINUTE_SECONDS
    for window in WINDOWS_MINUTES:
        if window >= oldest:
            return window
    return KEPT_MINUTES
