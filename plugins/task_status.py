"""A task's state, as reported by the loops that run it: each call sets the state and writes the
matching log line."""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable
from enum import StrEnum
from threading import Event, Lock

LOG = logging.getLogger(__name__)


class State(StrEnum):
    """The state of a task."""

    # Never started.
    NEW = "NEW"
    # Should run, but does not yet.
    STARTING = "STARTING"
    WORKING = "WORKING"
    # A server is unreachable, or the task has failed and starts again.
    RETRYING = "RETRYING"
    STOPPED = "STOPPED"
    # A bounded run has reached its end.
    DONE = "DONE"
    # Waits for a person.
    ERROR = "ERROR"


class TaskStatus:
    """The state of one running task, and why it is not WORKING.

    A task that failed and reads again is not WORKING yet: it must first get beyond the position at
    which it failed, or have nothing left to do. All methods can be called from any thread.
    """

    def __init__(self, task_id: str, position: Callable[[], Hashable] = lambda: None) -> None:
        """`position` returns the task's present position."""
        self._task_id = task_id
        self._position = position
        self._lock = Lock()
        # Set with each change of the state; the thread that waits for changes clears it.
        self.changed = Event()
        self._state = State.STARTING
        self._reason = ""
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
        """The task no longer waits; `why` is a sentence."""
        self._resume(f"task {self._task_id}: {why}")

    def retrying(self, reason: str) -> None:
        """The task failed and tries again; `reason` is a sentence."""
        self._pause(f"task {self._task_id}: {reason}")

    def waiting(self, reason: str) -> None:
        """The task waits for something outside; `reason` continues "waits", such as "for
        executors: ..."."""
        self._pause(f"task {self._task_id} waits {reason}")

    def observe(self, *, is_behind: bool) -> None:
        """Notices that a task that reads again makes progress. Must be called repeatedly.
        `is_behind`: the task has something left to do."""
        with self._lock:
            if not self._reads_again:
                return
            if self._position() != self._failed_at or not is_behind:
                self._set(State.WORKING)
                self._reads_again = False

    def ended(self, state: State, reason: str = "") -> None:
        """The task has ended. Writes no log line, as the code that ends it does."""
        with self._lock:
            self._set(state, reason)

    def _set(self, state: State, reason: str = "") -> None:
        """Sets the state. The caller holds the lock."""
        self._state = state
        self._reason = reason
        self.changed.set()

    def _resume(self, message: str) -> None:
        LOG.info("%s", message)
        with self._lock:
            if self._state is State.RETRYING:
                self._reads_again = True
                self.changed.set()
            else:
                self._set(State.WORKING)

    def _pause(self, message: str) -> None:
        LOG.warning("%s", message)
        with self._lock:
            self._failed_at = self._position()
            self._reads_again = False
            self._set(State.RETRYING, message)
