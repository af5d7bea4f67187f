"""How long something takes, over the last minutes: counted in steps of time that grow with it, so
that neither memory nor the cost of an answer grow with what was measured."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

SLOT_SECONDS = 60.0
SLOTS = 6  # the last five minutes, and what has passed of this one
LEAST_SECONDS = 1e-5
STEPS_PER_DOUBLING = 16
MOST_STEPS = 640  # 20 days and more


@dataclass(slots=True)
class _Step:
    count: float = 0.0
    most: float = 0.0  # the longest of its times


@dataclass(frozen=True, slots=True)
class _Slot:
    number: int
    steps: dict[int, _Step] = field(default_factory=dict)


class Latency:
    """Quantiles of the last minutes. `record` is called on one thread; `quantiles` on any.

    A quantile is told as a time that was recorded: never less than it was, and at most one step
    more: 4.5 %, or LEAST_SECONDS. What took less than nothing, as clocks differ, counts as nothing.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._slots: deque[_Slot] = deque(maxlen=SLOTS)

    def record(self, seconds: float, count: float = 1.0) -> None:
        """So many took so long."""
        number = int(self._clock() // SLOT_SECONDS)
        if not self._slots or self._slots[-1].number != number:
            self._slots.append(_Slot(number))
        step = self._slots[-1].steps.setdefault(_step(seconds), _Step())
        step.count += count
        step.most = max(step.most, seconds)

    def quantiles(self, *shares: float) -> tuple[float, ...] | None:
        """For each share (0.5: half) the time that such a share did not exceed, in seconds; None
        where nothing was recorded."""
        oldest = int(self._clock() // SLOT_SECONDS) - SLOTS + 1
        steps: dict[int, _Step] = {}
        for slot in self._slots.copy():
            for number, step in slot.steps.copy().items() if slot.number >= oldest else ():
                merged = steps.setdefault(number, _Step())
                merged.count += step.count
                merged.most = max(merged.most, step.most)
        ordered = [steps[number] for number in sorted(steps)]
        total = sum(step.count for step in ordered)
        return tuple(_at(ordered, share * total) for share in shares) if total else None


def _step(seconds: float) -> int:
    if seconds <= LEAST_SECONDS:
        return 0
    return min(MOST_STEPS, math.ceil(math.log2(seconds / LEAST_SECONDS) * STEPS_PER_DOUBLING))


def _at(ordered: list[_Step], wanted: float) -> float:
    """The longest time of the first step by which so many have passed."""
    passed = 0.0
    for step in ordered:
        passed += step.count
        if passed >= wanted * (1 - 1e-12):
            return step.most
    return ordered[-1].most
