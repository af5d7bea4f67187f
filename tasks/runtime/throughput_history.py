"""What a task did, minute by minute, over the last hours: one small znode for each task, written
once a minute.

/datas/task/<id>/minutes   {"minutes":[[1795281300,1200,0,0.2,"WORKING"],...]}: oldest first; the
                           elements are the fields of `Minute`
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import astuple, dataclass, replace
from typing import Any

from kazoo.client import KazooClient

from cdcbus.tasks.zookeeper.positions import ROOT
from cdcbus.tasks.zookeeper.znode import get_node, put_node

MINUTE_SECONDS = 60
KEPT_SECONDS = 6 * 60 * MINUTE_SECONDS


@dataclass(frozen=True, slots=True)
class Minute:
    """`at`: when it began, epoch seconds. `rows`: done within it. Lag and state: as last reported;
    None: not known."""

    at: int
    rows: int
    lag_records: int | None
    lag_seconds: float | None
    state: str


class ThroughputHistory:
    """Lives as long as its client. Calls raise PositionUnavailable and PositionError."""

    def __init__(self, client: KazooClient) -> None:
        self._client = client

    def read(self, task_id: str) -> list[Minute]:
        """The minutes, oldest first, without those in which nobody reported the task. Damaged ones
        are left out."""
        node = get_node(self._client, minutes_path(task_id))
        stored = node.fields.get("minutes") if node is not None else None
        if not isinstance(stored, list):
            return []
        minutes = map(_minute, stored)
        return [minute for minute in minutes if minute is not None]

    def put(self, task_id: str, minutes: Iterable[Minute]) -> None:
        """Replaces all minutes."""
        put_node(
            self._client,
            minutes_path(task_id),
            {"minutes": [astuple(minute) for minute in minutes]},
        )


class ThroughputWriter:
    """Writes a task's history while it runs, continuing that of an earlier process. Used on one
    thread."""

    def __init__(self, task_id: str, minutes: ThroughputHistory) -> None:
        self._task_id, self._minutes = task_id, minutes
        self._known: list[Minute] | None = None
        self._at, self._rows = minute_of(time.time()), 0

    def is_due(self) -> bool:
        """Whether a minute has ended that is not written yet."""
        return minute_of(time.time()) > self._at

    def write(
        self, rows: int, lag_records: int | None, lag_seconds: float | None, state: str
    ) -> None:
        """Ends the current minute with the task as it is now, and begins the next one. `rows`:
        since the task's start. A minute that cannot be written is written with the next one.
        Raises PositionUnavailable and PositionError."""
        if self._known is None:
            self._known = self._minutes.read(self._task_id)
        minute = Minute(self._at, rows - self._rows, lag_records, lag_seconds, state)
        self._known = with_minute(self._known, minute)
        self._at = minute_of(time.time())
        self._rows = rows
        self._minutes.put(self._task_id, self._known)


def minute_of(epoch_seconds: float) -> int:
    """When the minute of a time began."""
    return int(epoch_seconds) // MINUTE_SECONDS * MINUTE_SECONDS


def with_minute(minutes: list[Minute], minute: Minute) -> list[Minute]:
    """The history with one more minute, without those older than KEPT_SECONDS."""
    # The task was restarted within this minute: its rows are added up.
    if minutes and minutes[-1].at == minute.at:
        minute = replace(minute, rows=minutes[-1].rows + minute.rows)
    kept = [known for known in minutes if minute.at - KEPT_SECONDS < known.at < minute.at]
    return [*kept, minute]


def last_hour(minutes: list[Minute], now: float) -> list[int]:
    """Rows in each of the last 60 whole minutes, oldest first."""
    rows = {minute.at: minute.rows for minute in minutes}
    end = minute_of(now)
    return [rows.get(end - back * MINUTE_SECONDS, 0) for back in range(60, 0, -1)]


def minutes_path(task_id: str) -> str:
    return f"{ROOT}/task/{task_id}/minutes"


def _minute(fields: Any) -> Minute | None:
    kinds = (int, int, int | None, int | float | None, str)
    if not isinstance(fields, list) or len(fields) != len(kinds):
        return None
    for value, kind in zip(fields, kinds, strict=True):
        if not isinstance(value, kind):
            return None
    return Minute(*fields)
