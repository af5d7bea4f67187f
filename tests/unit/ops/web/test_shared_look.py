"""How often a look at all tasks is taken, by one clock and threads that wait for each other."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import count
from threading import Event, Lock, Semaphore
from types import SimpleNamespace

import pytest

from cdcbus.ops.web.overview import shared_look
from cdcbus.ops.web.overview.shared_look import LEAST_SECONDS, MOST_SECONDS, REST, SharedLook
from cdcbus.plugins.errors import PositionUnavailable


class Clock:
    """Each look takes this many seconds."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        self.took = 0.0
        self._numbers = count(1)
        monkeypatch.setattr(shared_look, "time", SimpleNamespace(monotonic=lambda: self.now))

    def read(self) -> int:
        self.now += self.took
        return next(self._numbers)


@pytest.mark.parametrize(
    ("took", "rest"), [(0.0, LEAST_SECONDS), (2.0, REST * 2.0), (20.0, MOST_SECONDS)]
)
def test_what_is_found_is_kept_for_a_while_that_has_a_limit(
    monkeypatch: pytest.MonkeyPatch, took: float, rest: float
) -> None:
    clock = Clock(monkeypatch)
    look = SharedLook(clock.read)
    clock.took = took
    assert look.get() == 1
    clock.now += rest
    assert look.get() == 1
    clock.now += 0.1
    assert look.get() == 2
    look.changed()
    assert look.get() == 3


def test_those_that_wait_for_a_look_that_fails_share_its_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One attempt each, of seconds, one after the other, would keep the last ones for minutes."""
    attempts: list[int] = []
    may_end = Event()

    def read() -> int:
        attempts.append(1)
        may_end.wait()
        raise PositionUnavailable("silent")

    look = SharedLook(read)
    lock = Counted()
    monkeypatch.setattr(look, "_lock", lock)
    with ThreadPoolExecutor(4) as threads:
        asked = [threads.submit(look.get) for _ in range(4)]
        for _ in asked:
            assert lock.wanted.acquire(timeout=30)
        may_end.set()
        errors = [each.exception() for each in asked]
    assert [str(each) for each in errors] == ["silent"] * 4
    assert len(attempts) == 1
    # Who asks later may find another server.
    with pytest.raises(PositionUnavailable):
        look.get()
    assert len(attempts) == 2


class Counted:
    """A lock that counts those that want it."""

    def __init__(self) -> None:
        self.wanted = Semaphore(0)
        self._lock = Lock()

    def __enter__(self) -> None:
        self.wanted.release()
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()
