"""Watches a direct load from a thread of its own: ends what waits for a source once the load is to
stop, and says which tables wait for a lock there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from time import monotonic

from cdcbus.producer.config import SourceConfig
from cdcbus.tasks.control.lock_waits import LOOK_SECONDS, LockWaits

PAUSE_SECONDS = 0.2


class Watch:
    """A context manager. `stop`: set once the load is to end."""

    def __init__(self, stop: Event) -> None:
        self._stop, self._over = stop, Event()
        self._interrupts = list[Callable[[], None]]()
        self._waits = list[LockWaits]()
        self._thread = Thread(target=self._run, name="watch", daemon=True)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        # Not waited for: it may be asking a source that does not answer.
        self._over.set()

    def add(self, source: SourceConfig) -> None:
        """Looks at this source, too, for queries that wait: of its user, as executors have sessions
        of their own."""
        self._waits.append(LockWaits(source, lambda _, user: user == source.user))

    @contextmanager
    def ending(self, interrupt: Callable[[], None]) -> Iterator[None]:
        """Calls `interrupt` once the load is to stop, again and again until the block has ended:
        each query of it must fail."""
        self._interrupts.append(interrupt)
        try:
            yield
        finally:
            self._interrupts.remove(interrupt)

    def _run(self) -> None:
        look_at = monotonic() + LOOK_SECONDS
        while not self._over.wait(PAUSE_SECONDS):
            if self._stop.is_set():
                for interrupt in tuple(self._interrupts):
                    interrupt()
            elif monotonic() >= look_at:
                for each in tuple(self._waits):
                    each.look()
                look_at = monotonic() + LOOK_SECONDS
