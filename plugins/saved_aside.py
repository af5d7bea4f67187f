"""Saving beside the rows: ZooKeeper may be silent for as long as a session lasts, and rows go on
meanwhile.

What is saved later than it could be is always safe: rows behind it come again after a kill. So one
save is under way at a time, and what has been reached meanwhile is saved by the next one, which
holds all that the one before did. Whoever has to know that something is stored before going on
does not use this, or waits for it by `settle`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextvars import copy_context
from threading import Thread

from cdcbus.plugins.errors import PositionUnavailable

LOG = logging.getLogger(__name__)
LONGEST_SECONDS = 60.0  # what servers keep sessions for, at most


class SavedAside:
    """One save at a time, on a thread of its own. Used by one thread at a time, which must `rest`
    before anybody loads what is saved: a save that comes late would be taken for one of the next
    attempt.

    `what` is stored, for messages. What a save has met is raised by the next call, but
    PositionUnavailable only where nothing could be saved for LONGEST_SECONDS; until then it is a
    line in the log.
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self._thread: Thread | None = None
        self._error: BaseException | None = None
        self._failing_since = 0.0

    def is_free(self) -> bool:
        """Whether nothing is being saved. Raises what the last save has met."""
        if self._thread is not None:
            if self._thread.is_alive():
                return False
            self._thread = None
            self._look()
        return True

    def save(self, write: Callable[[], None]) -> None:
        """Has a thread write; to be called while it is free."""
        begun = time.monotonic()

        def run() -> None:
            try:
                write()
                self._failing_since = 0.0
            except BaseException as error:
                self._failing_since = self._failing_since or begun
                self._error = error

        # the context says to which task's log a line belongs
        self._thread = Thread(
            target=copy_context().run, args=(run,), name="saved-aside", daemon=True
        )
        self._thread.start()

    def settle(self) -> None:
        """Returns once nothing is being saved. Raises what the last save has met."""
        self._join()
        self._look()

    def rest(self) -> None:
        """The same, at an end: what the last save has met no longer matters."""
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
