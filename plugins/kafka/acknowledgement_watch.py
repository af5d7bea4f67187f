"""Notices that Kafka acknowledges no more records, and reports it."""

from __future__ import annotations

import time
from typing import Final

from cdcbus.plugins.task_status import TaskStatus

# How long one wait for Kafka lasts: a task looks that often while it waits.
SLICE_SECONDS: Final = 0.5


class AcknowledgementWatch:
    """What Kafka acknowledges of one client's records, observed only while it is waited for. Not
    thread-safe."""

    def __init__(self, servers: str, status: TaskStatus | None, patience_seconds: float) -> None:
        """`status` is told while Kafka is silent: acknowledges nothing for longer than
        `patience_seconds`."""
        self._servers = servers
        self._status = status
        self._patience_seconds = patience_seconds
        # How many records the client has taken so far.
        self.taken = 0
        # How many of them were acknowledged at most, since when, and when that was looked at.
        self._acknowledged = 0
        self._moved_at = 0.0
        self._looked_at = 0.0
        # Whether `status` was told that Kafka is waited for.
        self._has_reported = False

    def are_missing(self, queued: int) -> bool:
        """Whether Kafka is silent while `queued` records wait in the client. Must be called once a
        slice of waiting; time in which nothing was waited for does not count."""
        now = time.monotonic()
        # Not by how many wait: as many may have come as were acknowledged. Fewer than before are
        # none of its doing: the client counts what it has to say, too.
        acknowledged = self.taken - queued
        has_moved = acknowledged > self._acknowledged
        if has_moved:
            self._acknowledged = acknowledged
            self.came()
        if has_moved or now - self._looked_at > 2 * SLICE_SECONDS:
            self._moved_at = now
        self._looked_at = now
        return now - self._moved_at > self._patience_seconds

    def wait(self, queued: int, remedy: str) -> None:
        """Tells `status` once that Kafka is waited for. `remedy`: what ends that."""
        if self._status is not None and not self._has_reported:
            self._has_reported = True
            self._status.waiting(
                f"for Kafka at {self._servers}, which has acknowledged nothing for "
                f"{self._patience_seconds:g} s: {queued} records wait; {remedy}"
            )

    def came(self) -> None:
        """Tells `status` that Kafka is not waited for any more, if it was told that it was."""
        if self._status is not None and self._has_reported:
            self._has_reported = False
            self._status.resumed(f"Kafka at {self._servers} acknowledges records again")
