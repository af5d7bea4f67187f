"""The clock that stamps records as they arrive in Kafka, as far as the records show it."""

from __future__ import annotations

import time
from typing import Final

IN_FLIGHT_SECONDS: Final = 120.0
"""How much later than those of other partitions a record can arrive in Kafka, because its
partition's broker, or the fetch task, was unavailable."""


class ArrivalClock:
    """Tells what can no longer arrive. The stamps are of the fetch task's machine, or of brokers,
    whose clocks can be minutes apart from this machine's: so the time is the newest stamp that was
    seen and what has passed since. It may be behind that clock, but is never ahead of it.
    Thread-safe."""

    def __init__(self) -> None:
        # The newest stamp, and when it was seen.
        self._newest = 0, time.monotonic()

    def saw(self, came_ms: int) -> None:
        """Takes note of a record's stamp, in epoch milliseconds."""
        if came_ms > self._stamped_ms():
            self._newest = came_ms, time.monotonic()

    def now_ms(self) -> int:
        """The time in epoch milliseconds; far in the past before anything was seen."""
        # A stamp of somebody's choice, years from now, must not count.
        return min(self._stamped_ms(), int(time.time() * 1000))

    def has_all_before(self, came_ms: int) -> bool:
        """Whether all changes made before a record that arrived at this time have arrived as
        well."""
        return came_ms < self.now_ms() - IN_FLIGHT_SECONDS * 1000

    def _stamped_ms(self) -> int:
        came_ms, seen = self._newest
        return came_ms + int((time.monotonic() - seen) * 1000)
