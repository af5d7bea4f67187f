"""How long rows take from one stage to the next, over the last minutes."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable

from cdcbus.tasks.zookeeper.stat import Percentiles

# Delays are shown of the last five minutes.
WINDOW_SECONDS = 300.0
# Limits memory: a task of many small batches measures each of them.
MEASUREMENTS = 20_000


class Latencies:
    """Measurements of the last WINDOW_SECONDS, each for a number of rows. One thread may add while
    another reads.

    Start and end may come from two clocks. A negative duration shows that the clocks differ by at
    least that much, and all measurements are corrected by it.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        # (when, seconds, rows)
        self._measured: deque[tuple[float, float, float]] = deque(maxlen=MEASUREMENTS)

    def add(self, seconds: float, rows: float) -> None:
        """Adds a measurement: `rows` rows took `seconds`."""
        now = self._clock()
        self._measured.append((now, seconds, rows))
        while self._measured[0][0] < now - WINDOW_SECONDS:
            self._measured.popleft()

    def percentiles(self, skew_seconds: float | None = None) -> Percentiles | None:
        """The percentiles; None where nothing was measured. `skew_seconds`: how far the first clock
        is ahead of the second; None: as the measurements show."""
        recent = self._recent()
        if not recent:
            return None
        if skew_seconds is None:
            skew_seconds = self.skew_seconds
        corrected = []
        for _, seconds, rows in recent:
            corrected.append((max(0.0, seconds + skew_seconds), rows))
        return percentiles(corrected)

    @property
    def skew_seconds(self) -> float:
        """How far the first clock is ahead of the second, as far as measurements show it; else
        0."""
        shortest = min((seconds for _, seconds, _ in self._recent()), default=0.0)
        return max(0.0, -shortest)

    def _recent(self) -> list[tuple[float, float, float]]:
        oldest = self._clock() - WINDOW_SECONDS
        # A copy, because the other thread adds while this one reads.
        return [each for each in self._measured.copy() if each[0] >= oldest]


def percentiles(measured: Iterable[tuple[float, float]]) -> Percentiles:
    """The percentiles of at least one (seconds, rows): each is the smallest measured time that this
    share of the rows did not exceed."""
    ordered = sorted(measured)
    # Weighted by rows, as a large batch says more than a small one.
    total = sum(rows for _, rows in ordered)
    return Percentiles(_at(ordered, 50 * total), _at(ordered, 95 * total), _at(ordered, 99 * total))


def _at(ordered: list[tuple[float, float]], hundredths: float) -> float:
    passed = 0.0
    for seconds, count in ordered:
        passed += count
        # Multiplied instead of divided, so that the comparison has no rounding.
        if passed * 100 >= hundredths:
            return seconds
    return ordered[-1][0]
