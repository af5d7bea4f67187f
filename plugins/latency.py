"""A histogram of latencies over the last minutes. Its steps grow with the time, so that neither
memory nor the cost of a query grows with the number of measurements."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

SLOT_SECONDS = 60.0
# The last five minutes, and the current one so far.
SLOTS = 6
LEAST_SECONDS = 1e-5
STEPS_PER_DOUBLING = 16
# The last step: 20 days and more.
MOST_STEPS = 640


@dataclass(slots=True)
class _Step:
    count: float = 0.0
    # The longest time recorded.
    most: float = 0.0


@dataclass(frozen=True, slots=True)
class _Slot:
    number: int
    steps: dict[int, _Step] = field(default_factory=dict)


class Latency:
    """Latencies of the last minutes. `record` is called on one thread; `quantiles` on any.

    A quantile is a recorded time: never less than the true one, and at most one step more (4.5 %,
    or LEAST_SECONDS). A negative time, as from clocks that differ, counts as zero.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._slots: deque[_Slot] = deque(maxlen=SLOTS)

    def record(self, seconds: float, count: float = 1.0) -> None:
        """Records that `count` things took this long."""
        number = int(self._clock() // SLOT_SECONDS)
        if not self._slots or self._slots[-1].number != number:
            self._slots.append(_Slot(number))
        step = self._slots[-1].steps.setdefault(_step(seconds), _Step())
        step.count += count
        step.most = max(step.most, seconds)

    def quantiles(self, *shares: float) -> tuple[float, ...] | None:
        """For each share (0.5: the median), the time in seconds that this share of measurements did
        not exceed; None where nothing was recorded."""
        oldest = int(self._clock() // SLOT_SECONDS) - SLOTS + 1
        steps: dict[int, _Step] = {}
        # Copies, as `record` may add to both on its own thread meanwhile.
        for slot in self._slots.copy():
            if slot.number < oldest:
                continue
            for number, step in slot.steps.copy().items():
                merged = steps.setdefault(number, _Step())
                merged.count += step.count
                merged.most = max(merged.most, step.most)
        ordered = [steps[number] for number in sorted(steps)]
        total = sum(step.count for step in ordered)
        if not total:
            return None
        return tuple(_at(ordered, share * total) for share in shares)


def _step(seconds: float) -> int:
    if seconds <= LEAST_SECONDS:
        return 0
    return min(MOST_STEPS, math.ceil(math.log2(seconds / LEAST_SECONDS) * STEPS_PER_DOUBLING))


def _at(ordered: list[_Step], wanted: float) -> float:
    """The longest time of the step in which the count reaches `wanted`."""
    passed = 0.0
    for step in ordered:
        passed += step.count
        # Sums of fractions can fall short of the total by a rounding error.
        if passed >= wanted * (1 - 1e-12):
            return step.most
    return ordered[-1].most
