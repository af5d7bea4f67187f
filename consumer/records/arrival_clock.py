"""The clock that stamps records as they arrive in Kafka, as far as the records show it."""

from __future__ import annotations

import time
from typing import Final

IN_FLIGHT_SECONDS: Final = 120.0
"""How much later than those of other partitions a record can arrive in Kafka, because its
partition's broker, or the fetch task, was unavailable."""
AHEAD_KEPT: Final = 1000
"""The number of stamps ahead of this machine's clock that are remembered."""


class ArrivalClock:
    """Tells what can no longer arrive. The stamps are of the fetch task's machine, or of brokers,
    whose clocks can be minutes apart from this machine's, in either direction: so the time is the
    newest stamp that was seen and what has passed since. It may be behind the clock that stamps,
    but is never ahead of it. Thread-safe."""

    def __init__(self) -> None:
        # The newest stamp, and when it was seen.
        self._newest = 0, time.monotonic()
        # Stamps ahead of this machine's clock, and when each was first asked for.
        self._ahead: dict[int, float] = {}

    def saw(self, came_ms: int) -> None:
        """Takes note of a record's stamp, in epoch milliseconds."""
        if came_ms > self._stamped_ms():
            self._newest = came_ms, time.monotonic()

    def now_ms(self) -> int:
        """The time in epoch milliseconds, no later than this machine's; far in the past before
        anything was seen."""
        # A stamp of somebody's choice, years from now, must not count.
        return min(self._stamped_ms(), int(time.time() * 1000))

    def has_all_before(self, came_ms: int) -> bool:
        """Whether all changes made before a record that arrived at this time have arrived as
        well."""
        now_ms = self.now_ms()
        if came_ms < now_ms - IN_FLIGHT_SECONDS * 1000:
            return True
        if came_ms > now_ms:
            self._note_ahead(came_ms)
        asked = self._ahead.get(came_ms)
        return asked is not None and time.monotonic() - asked > IN_FLIGHT_SECONDS

    def _note_ahead(self, came_ms: int) -> None:
        """Notes when a stamp was first asked for that is ahead of this machine's clock. Waiting for
        that clock could take hours."""
        if came_ms in self._ahead:
            return
        # Without its note, a stamp is waited for longer.
        if len(self._ahead) >= AHEAD_KEPT:
            self._ahead.pop(next(iter(self._ahead)), None)
        self._ahead[came_ms] = time.monotonic()

    def _stamped_ms(self) -> int:
        came_ms, seen = self._newest
        return came_ms + int((time.monotonic() - seen) * 1000)
