"""How long rows take from one stage to the next, over the last minutes."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable

from cdcbus.tasks.zookeeper.stat import Percentiles

WINDOW_SECONDS = 300.0
MEASUREMENTS = 20_000


class Delays:
    """Measurements of the last WINDOW_SECONDS, each for so many rows. May be added to on one thread
    and asked on another.

    Start and end may be told by two clocks. What seems to have taken less than nothing shows that
    they differ, by that much at least: it is taken out of all measurements.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        # when, seconds, rows
        self._seen: deque[tuple[float, float, float]] = deque(maxlen=MEASUREMENTS)

    def add(self, seconds: float, rows: float) -> None:
        """So many rows took so long."""
        now = self._clock()
        self._seen.append((now, seconds, rows))
        while self._seen[0][0] < now - WINDOW_SECONDS:
            self._seen.popleft()

    def percentiles(self, skew_seconds: float | None = None) -> Percentiles | None:
        """None where nothing was measured. `skew_seconds`: by how much the first clock is ahead,
        where that is known."""
        seen = self._recent()
        skew = self.skew_seconds if skew_seconds is None else skew_seconds
        return (
            percentiles((max(0.0, seconds + skew), rows) for _, seconds, rows in seen)
            if seen
            else None
        )

    @property
    def skew_seconds(self) -> float:
        """By how much the first clock is ahead of the second, as far as can be seen; 0 where it
        cannot."""
        return max((-seconds for _, seconds, _ in self._recent() if seconds < 0), default=0.0)

    def _recent(self) -> list[tuple[float, float, float]]:
        oldest = self._clock() - WINDOW_SECONDS
        return [each for each in self._seen.copy() if each[0] >= oldest]


def percentiles(measured: Iterable[tuple[float, float]]) -> Percentiles:
    """Of (seconds, rows), at least one: the least of the measured times that such a share of the
    rows did not exceed."""
    ordered = sorted(measured)
    total = sum(rows for _, rows in ordered)
    return Percentiles(*(_at(ordered, percent * total) for percent in (50, 95, 99)))


def _at(ordered: list[tuple[float, float]], hundredths: float) -> float:
    passed = 0.0
    for seconds, count in ordered:
        passed += count
        if passed * 100 >= hundredths:
            return seconds
    return ordered[-1][0]
