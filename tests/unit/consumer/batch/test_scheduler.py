"""Turns: first come, first served, so many at once, and nobody is held up for long. Time is told
by the test."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Event

import pytest

from cdcbus.consumer.batch import scheduler
from cdcbus.consumer.batch.scheduler import LONGEST_SECONDS, UNUSED_SECONDS, BatchScheduler
from tests.support.waiting import wait_until


class Waiters:
    """Threads that wait for their turns, on a clock that only the test moves."""

    def __init__(self, pool: ThreadPoolExecutor, at_once: int) -> None:
        self.seconds, self.turns, self._pool = 0.0, BatchScheduler(at_once), pool
        self._ended: dict[str, Event] = {}

    def comes(self, who: str) -> Future[None]:
        """Has begun to wait when this returns, or has its turn already."""
        self._ended[who] = Event()
        future = self._pool.submit(self.turns.wait, who, self._ended[who])
        wait_until(lambda: future.done() or who in self.turns._waiting, who)
        return future

    def ends(self, who: str) -> None:
        self._ended[who].set()

    def end(self) -> None:
        for ended in self._ended.values():
            ended.set()


@pytest.fixture(params=[1, 2])
def waiters(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Waiters]:
    with ThreadPoolExecutor() as pool:
        made = Waiters(pool, request.param)
        monkeypatch.setattr(scheduler, "monotonic", lambda: made.seconds)
        try:
            if request.param == 2:
                made.turns.begin("one that is at work")
            yield made
        finally:
            made.end()


def test_the_first_to_come_is_the_next(waiters: Waiters) -> None:
    first, second, third = (waiters.comes(who) for who in ("first", "second", "third"))
    first.result(10)
    assert not second.done()
    waiters.turns.begin("first")
    waiters.turns.give_back("first")
    second.result(10)
    assert not third.done()
    waiters.turns.give_back("second")
    third.result(10)


def test_who_comes_again_waits_behind_the_others(waiters: Waiters) -> None:
    waiters.comes("first").result(10)
    second = waiters.comes("second")
    again = waiters.comes("first")
    second.result(10)
    assert not again.done()


def test_a_turn_that_is_not_used_passes_on(waiters: Waiters) -> None:
    waiters.comes("first").result(10)
    second = waiters.comes("second")
    waiters.seconds += UNUSED_SECONDS
    second.result(10)


def test_a_batch_keeps_its_turn_but_not_for_ever(waiters: Waiters) -> None:
    waiters.comes("first").result(10)
    waiters.turns.begin("first")
    waiters.turns.begin("one that is at work")
    second = waiters.comes("second")
    waiters.seconds += 2 * UNUSED_SECONDS
    waiters.comes("third")  # who comes has others looked for, too
    assert not second.done()
    waiters.seconds += LONGEST_SECONDS
    second.result(10)


def test_who_has_ended_waits_no_longer_and_is_in_nobodys_way(waiters: Waiters) -> None:
    waiters.comes("first").result(10)
    waiters.turns.begin("first")
    second, third = waiters.comes("second"), waiters.comes("third")
    waiters.ends("second")
    second.result(10)
    assert not third.done()
    waiters.turns.give_back("first")
    third.result(10)
