"""XA transactions that are prepared but not finished: the stored position stays before them."""

from __future__ import annotations

import time

from cdcbus.plugins.task_status import TaskStatus

OPEN_XA_SECONDS = 60.0


class OpenXa:
    """Reports in the task's status an XA transaction that has been prepared for so long that an
    operator must finish it: since it was read, as the source's clock can differ, and a task that is
    behind reads its end next."""

    def __init__(self, status: TaskStatus) -> None:
        self._status = status
        self._reported: tuple[str, int] | None = None
        # The oldest one at the last look, and when it was seen first.
        self._oldest: tuple[str, int] | None = None
        self._since = 0.0

    def look(self, oldest: tuple[str, int] | None) -> None:
        """Updates the status. `oldest`: the xid of the transaction prepared first, and when, in
        epoch seconds; None if none is open."""
        if self._reported is not None and oldest != self._reported:
            self._status.resumed(f"XA transaction {self._reported[0]} is finished")
            self._reported = None
        if oldest != self._oldest:
            self._oldest, self._since = oldest, time.monotonic()
        if oldest is None or oldest == self._reported:
            return
        seconds = time.monotonic() - self._since
        if seconds <= OPEN_XA_SECONDS:
            return
        self._reported = oldest
        xid, _ = oldest
        self._status.waiting(
            f"for XA transaction {xid}, prepared {seconds:.0f} s ago or more: the stored "
            "position stays before it until it is finished. "
            "Finish it at the source (XA RECOVER lists it; XA COMMIT or XA ROLLBACK)"
        )
