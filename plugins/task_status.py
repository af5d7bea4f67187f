"""A task's state, as the loops that run it say it: each call sets the state and writes the log
line that goes with it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable
from enum import StrEnum
from threading import Event, Lock

LOG = logging.getLogger(__name__)


class State(StrEnum):
    """NEW: never started. STARTING: wanted, not at work yet. RETRYING: something is away, or it
    has failed and is started again. DONE: a bounded replay has reached its end. ERROR: it waits
    for a person."""

    NEW = "NEW"
    STARTING = "STARTING"
    WORKING = "WORKING"
    RETRYING = "RETRYING"
    STOPPED = "STOPPED"
    DONE = "DONE"
    ERROR = "ERROR"


class TaskStatus:
    """The state of one running task, and why it is not WORKING.

    A task that failed and reads again is not yet at work: it must first get on from the position at
    which it failed, or have nothing left to do. `position` gives the position now. `changed` is set
    with each change of the state, for one who waits for that. All methods may be called from any
    thread.
    """

    def __init__(self, task_id: str, position: Callable[[], Hashable] = lambda: None) -> None:
        self._task_id, self._position = task_id, position
        self._lock = Lock()
        self.changed = Event()
        self._state, self._reason = State.STARTING, ""
        self._failed_at: Hashable = None
        self._reads_again = False

    @property
    def now(self) -> tuple[State, str]:
        """The state and its reason, which belong together."""
        with self._lock:
            return self._state, self._reason

    def reading(self, what: str) -> None:
        """The task reads `what`, such as "the binlog from mysql-bin.000064:4"."""
        self._resume(f"task {self._task_id} reads {what}")

    def resumed(self, why: str) -> None:
        """What the task waited for is over; `why` is a sentence."""
        self._resume(f"task {self._task_id}: {why}")

    def retrying(self, reason: str) -> None:
        """The task failed and tries again; `reason` is a sentence."""
        self._pause(f"task {self._task_id}: {reason}")

    def waiting(self, reason: str) -> None:
        """The task waits for something outside; `reason` goes on after "waits", such as "for
        executors: ..."."""
        self._pause(f"task {self._task_id} waits {reason}")

    def observe(self, *, is_behind: bool) -> None:
        """To be called now and then: sees whether a task that reads again gets on. `is_behind`:
        it has something left to do."""
        with self._lock:
            if self._reads_again and (self._position() != self._failed_at or not is_behind):
                self._state, self._reason, self._reads_again = State.WORKING, "", False
                self.changed.set()

    def ended(self, state: State, reason: str = "") -> None:
        """The task has ended. Writes no log line: the code that ends it does."""
        with self._lock:
            self._state, self._reason = state, reason
            self.changed.set()

    def _resume(self, message: str) -> None:
        LOG.info("%s", message)
        with self._lock:
            if self._state is State.RETRYING:
                self._reads_again = True
            else:
                self._state, self._reason = State.WORKING, ""
            self.changed.set()

    def _pause(self, message: str) -> None:
        LOG.warning("%s", message)
        with self._lock:
            self._state, self._reason = State.RETRYING, message
            self._failed_at, self._reads_again = self._position(), False
            self.changed.set()
