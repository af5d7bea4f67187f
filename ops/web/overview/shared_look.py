"""A look at all tasks that all requests share."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Lock
from typing import Generic, TypeVar

from cdcbus.plugins.errors import CdcError

# All requests within this time share one look.
LEAST_SECONDS = 1.0
# The pause after a look, as a multiple of its duration: looks take a fifth of the time at most.
REST = 4.0
# Also after a slow look: alerts and pages must not go by what is minutes old.
MOST_SECONDS = 30.0

_Found = TypeVar("_Found")


class SharedLook(Generic[_Found]):
    """What a look finds, read again at the earliest after LEAST_SECONDS, and with many tasks after
    a longer pause: pages must not keep ZooKeeper busy all the time. Thread-safe."""

    def __init__(self, read: Callable[[], _Found]) -> None:
        self._read = read
        self._known: tuple[_Found, float] | None = None
        self._failure: CdcError | None = None
        self._failed_at = 0.0
        self._lock = Lock()

    def get(self) -> _Found:
        """What was found, by this look or one shortly before. Raises what reading raises: those
        that have waited for a look that fails get its error, instead of one more attempt each."""
        asked_at = time.monotonic()
        # Held while it reads: others wait for this look instead of beginning their own.
        with self._lock:
            if self._known is not None and time.monotonic() <= self._known[1]:
                return self._known[0]
            if self._failure is not None and asked_at <= self._failed_at:
                raise self._failure.with_traceback(None)
            began = time.monotonic()
            try:
                found = self._read()
            except CdcError as error:
                self._failure, self._failed_at = error, time.monotonic()
                raise
            took = time.monotonic() - began
            rest = min(MOST_SECONDS, max(LEAST_SECONDS, REST * took))
            self._known = found, time.monotonic() + rest
            return found

    def changed(self) -> None:
        """Makes the next look read again, after a change."""
        with self._lock:
            self._known = None
