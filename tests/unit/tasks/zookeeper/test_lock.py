"""What becomes of the locks of a task's swimlanes where ZooKeeper does not answer."""

from __future__ import annotations

from threading import Event, Thread
from typing import Any

import pytest
from kazoo.exceptions import SessionMovedError, SystemZookeeperError

from cdcbus.tasks.zookeeper.lock import Guard, LockTimes, lock_path
from tests.support.stand_ins.memory_zookeeper import SESSION, MemoryZooKeeper
from tests.support.waiting import wait_until

SWIMLANES = [f"topic{number}" for number in range(30)]


def test_a_silent_zookeeper_is_waited_for_once_and_each_lock_released_when_it_speaks() -> None:
    zookeeper = MemoryZooKeeper()
    client: Any = zookeeper
    client.cdcbus_kept_seconds = 6.0
    over = Event()
    guard = Guard(client, lambda: None, over)
    with guard.locks("7", SWIMLANES, "n1") as locks:
        assert locks.take(Event(), None)
        zookeeper.is_silent = True
        # Only the block's own requests: threads that release later ask at once, too.
        zookeeper.asked.clear()
        guard._start_letting_go = (  # type: ignore[method-assign]
            lambda path: left.append(path)
        )
        left: list[str] = []
    assert len(zookeeper.asked) == 1
    assert left == [lock_path("7", swimlane) for swimlane in sorted(SWIMLANES)]
    zookeeper.is_silent = False
    for path in left:
        Guard._start_letting_go(guard, path)
    wait_until(lambda: not zookeeper.names(lock_path("7")), "the locks to be released", 10)
    over.set()


def test_a_connection_that_ends_after_an_answer_says_nothing_about_the_locks() -> None:
    zookeeper = MemoryZooKeeper()
    client: Any = zookeeper
    client.cdcbus_kept_seconds = 60.0
    over, lost = Event(), Event()
    guard = Guard(client, lost.set, over, LockTimes(60.0, 50.0))
    with guard.locks("7", SWIMLANES[:1], "n1") as locks:
        assert locks.take(Event(), None)
        watch = Thread(target=guard.watch)
        watch.start()
        # As kazoo has it from the end of a connection on.
        client.client_id = None
        zookeeper.asked.clear()
        wait_until(lambda: len(zookeeper.asked) > 1, "the locks to be looked at", 10)
        assert not lost.is_set()
        client.client_id = (SESSION + 1, b"")
        assert lost.wait(10), "the lock is another session's"
        watch.join()
    over.set()


def test_a_lock_is_released_when_the_connection_is_back() -> None:
    zookeeper = MemoryZooKeeper()
    client: Any = zookeeper
    client.cdcbus_kept_seconds = 6.0
    over = Event()
    guard = Guard(client, lambda: None, over)
    with guard.locks("7", SWIMLANES[:2], "n1") as locks:
        assert locks.take(Event(), None)
        client.client_id = None
    assert len(zookeeper.names(lock_path("7"))) == 2
    client.client_id = (SESSION, b"")
    wait_until(lambda: not zookeeper.names(lock_path("7")), "the locks to be released", 10)
    over.set()


@pytest.mark.parametrize(
    ("refusal", "is_logged"),
    [
        (SessionMovedError(), False),
        (SystemZookeeperError(), True),
        (RuntimeError("no more threads"), True),
    ],
)
def test_answers_that_prove_nothing_end_work_when_the_lease_is_over(
    refusal: Exception, is_logged: bool, caplog: pytest.LogCaptureFixture
) -> None:
    zookeeper = MemoryZooKeeper()
    client: Any = zookeeper
    client.cdcbus_kept_seconds = 2.0
    over = Event()
    lost = Event()
    guard = Guard(client, lost.set, over, LockTimes(2.0, 0.6))
    with guard.locks("7", SWIMLANES[:1], "n1") as locks:
        assert locks.take(Event(), None)
        zookeeper.refusal = refusal
        watch = Thread(target=guard.watch)
        watch.start()
        assert lost.wait(30), "the watch has ended, and nobody ends the work"
        watch.join()
        zookeeper.refusal = None
    over.set()
    assert (type(refusal).__name__ in caplog.text) == is_logged
