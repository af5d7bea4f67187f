"""XA transactions that are prepared but not finished: the stored position stays before them."""

from __future__ import annotations

import time

from cdcbus.plugins.task_status import TaskStatus

OPEN_XA_SECONDS = 60.0


class OpenXa:
    """Reports in the task's status an XA transaction that has been prepared for so long that an
    operator must finish it."""

    def __init__(self, status: TaskStatus) -> None:
        self._status = status
        self._reported: tuple[str, int] | None = None

    def look(self, oldest: tuple[str, int] | None) -> None:
        """Updates the status. `oldest`: the xid of the transaction prepared first, and when, in
        epoch seconds; None if none is open."""
        if self._reported is not None and oldest != self._reported:
            self._status.resumed(f"XA transaction {self._reported[0]} is finished")
            self._reported = None
        if oldest is None or oldest == self._reported:
            return
        xid, prepared_at = oldest
        seconds = time.time() - prepared_at
        if seconds <= OPEN_XA_SECONDS:
            return
        self._reported = oldest
        self._status.waiting(
            f"for XA transaction {xid}, prepared {seconds:.0f} s ago: the stored "
            "position stays before it until it is finished. "
            "Finish it at the source (XA RECOVER lists it; XA COMMIT or XA ROLLBACK)"
        )
