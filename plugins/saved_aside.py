"""Saves on a thread beside the rows: ZooKeeper can be silent for as long as a session lasts, and
rows continue meanwhile.

Saving late is always safe, as the rows after a stored position come again after a kill. So one save
is in progress at a time, and progress made meanwhile is saved by the next one, which includes the
former. Code that must not continue before something is stored does not use this, or waits with
`settle`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextvars import copy_context
from threading import Thread

from cdcbus.plugins.errors import PositionUnavailable

LOG = logging.getLogger(__name__)
# The longest time for which servers keep sessions.
LONGEST_SECONDS = 60.0


class SavedAside:
    """Runs one save at a time, on a thread of its own. Used by one thread at a time, which must
    `rest` before the saved data is loaded again: a late save would be mistaken for one of the next
    attempt.

    `what` names the data, for messages. An error of a save is raised by the next call;
    PositionUnavailable, also of a process that may have no more threads, only where nothing could
    be saved for LONGEST_SECONDS, and until then it is logged.
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self._thread: Thread | None = None
        self._error: BaseException | None = None
        self._failing_since = 0.0

    def is_free(self) -> bool:
        """Whether nothing is being saved. Raises the last save's error."""
        if self._thread is not None:
            if self._thread.is_alive():
                return False
            self._thread = None
        self._look()
        return True

    def save(self, write: Callable[[], None]) -> None:
        """Starts a thread that calls `write`. Must only be called while `is_free`."""
        begun = time.monotonic()

        def run() -> None:
            try:
                write()
                self._failing_since = 0.0
            except BaseException as error:
                self._failing_since = self._failing_since or begun
                self._error = error

        # The context decides to which task's log a line belongs.
        thread = Thread(target=copy_context().run, args=(run,), name="saved-aside", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            self._failing_since = self._failing_since or begun
            self._error = PositionUnavailable(f"{self._what} is not stored: {error}")
        else:
            self._thread = thread

    def settle(self) -> None:
        """Returns once nothing is being saved. Raises the last save's error."""
        self._join()
        self._look()

    def rest(self) -> None:
        """Returns once nothing is being saved, and drops the last save's error, which no longer
        matters at the end."""
        self._join()
        self._error = None

    def _join(self) -> None:
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _look(self) -> None:
        error, self._error = self._error, None
        if error is None:
            return
        is_silent = isinstance(error, PositionUnavailable)
        if not is_silent or time.monotonic() - self._failing_since > LONGEST_SECONDS:
            raise error
        LOG.warning("%s is stored later: %s", self._what, error)
