"""Whose small batch is next, where many tasks share a process.

All at once each would be slow, and a row would wait for two slow batches: the one at work when it
comes, and its own. In turns a batch takes hardly longer than alone, and what it reads is decided
when its turn has come.
"""

from __future__ import annotations

import os
from threading import Event, Lock
from time import monotonic

AT_ONCE = max(2, os.cpu_count() or 1)  # a batch often waits: for Kafka, or for the target
UNUSED_SECONDS = 0.05  # of a turn in which there is nothing to read
LONGEST_SECONDS = 1.0  # of a batch: whoever is held up does not hold up the others


class BatchScheduler:
    """First come, first served. Thread-safe.

    A task that found nothing to read when it had its turn begins later without one, as it has
    waited for longer than the others.
    """

    def __init__(self, at_once: int = AT_ONCE) -> None:
        self._at_once, self._lock = at_once, Lock()
        self._waiting: dict[object, Event] = {}
        self._until: dict[object, float] = {}  # of those who have a turn

    def wait(self, who: object, ended: Event) -> None:
        """Gives back the turn that it has, and returns when it has the next one, or `ended` is
        set."""
        come = Event()
        with self._lock:
            self._until.pop(who, None)
            self._waiting[who] = come
            self._call()
        while not (ended.is_set() or come.wait(UNUSED_SECONDS)):
            with self._lock:
                self._call()
        with self._lock:
            self._waiting.pop(who, None)

    def begin(self, who: object) -> None:
        """Its batch is at work from now on."""
        with self._lock:
            self._until[who] = monotonic() + LONGEST_SECONDS

    def give_back(self, who: object) -> None:
        """Others may go on."""
        with self._lock:
            self._until.pop(who, None)
            self._call()

    def _call(self) -> None:
        now = monotonic()
        self._until = {who: until for who, until in self._until.items() if until > now}
        for who in list(self._waiting)[: max(0, self._at_once - len(self._until))]:
            self._until[who] = now + UNUSED_SECONDS
            self._waiting.pop(who).set()


TURNS = BatchScheduler()  # of this process
