"""End-to-end lag in seconds, measured by the heartbeat row: the time that the source wrote into
it, against when it is seen at a target."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from cdcbus.ops.demo.shop.load import BEAT_SECONDS
from cdcbus.ops.demo.shop.schema import SCHEMA
from cdcbus.ops.stack import sql
from cdcbus.ops.stack.addresses import Database

LOOK_SECONDS = 0.05


class Arrivals:
    """What is known about one target's heartbeat row. Times are UTC without zone."""

    def __init__(self) -> None:
        self.beat: datetime | None = None
        self._travelled_seconds = 0.0

    def seen(self, beat: datetime | None, now: datetime) -> None:
        """Records that the row holds this time now."""
        if beat is not None and beat != self.beat:
            self._travelled_seconds = (now - beat).total_seconds()
            self.beat = beat

    def lag_seconds(self, sent: datetime | None, now: datetime) -> float | None:
        """How long the last beat took, or for how long the next one has been on its way, if that
        is longer; None before the first. `sent` is the last beat that the source has."""
        if self.beat is None:
            return None
        overdue = 0.0
        if sent is not None and self.beat < sent:
            # The next beat is sent only after this time.
            overdue = (now - self.beat).total_seconds() - BEAT_SECONDS
        return max(0.0, self._travelled_seconds, overdue)


class HeartbeatWatch:
    """Looks at a target's heartbeat row all the time, on a thread of its own. A context manager."""

    def __init__(
        self, server: str, database: Database, sent: Callable[[], datetime | None]
    ) -> None:
        self._connection = sql.connect(server, database)
        self._sent = sent
        self._arrivals = Arrivals()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def lag_seconds(self) -> float | None:
        return self._arrivals.lag_seconds(self._sent(), _now())

    def __enter__(self) -> HeartbeatWatch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._connection.close()

    def _run(self) -> None:
        with suppress(*sql.unreachable()):  # the lag then grows, which shows it
            while not self._stop.wait(LOOK_SECONDS):
                self._arrivals.seen(_beat(self._connection), _now())


def _beat(connection: Any) -> datetime | None:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT beat FROM {SCHEMA}.heartbeat")
        row = cursor.fetchone()
    beat: datetime | None = None
    if row:
        [beat] = row
    return beat


def _now() -> datetime:
    # Without a zone, as the drivers return times.
    return datetime.now(UTC).replace(tzinfo=None)
