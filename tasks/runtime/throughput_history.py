"""What a task did, minute by minute, over the last hours: kept in ZooKeeper, one small node for
each task, written once a minute.

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
    """`at`: when it began, epoch seconds. `rows`: those done in it. Lag and state: as they were
    when last told of; None: not known."""

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
        """Oldest first; a minute in which nobody told of the task is not there. What is damaged
        counts as nothing."""
        node = get_node(self._client, _path(task_id))
        told = node.fields.get("minutes") if node is not None else None
        return [
            minute
            for fields in (told if isinstance(told, list) else ())
            if (minute := _minute(fields))
        ]

    def put(self, task_id: str, minutes: Iterable[Minute]) -> None:
        """Writes them all."""
        put_node(self._client, _path(task_id), {"minutes": [astuple(minute) for minute in minutes]})


class ThroughputWriter:
    """Writes a task's history while it runs, on from where another process has left it. Used on
    one thread."""

    def __init__(self, task_id: str, minutes: ThroughputHistory) -> None:
        self._task_id, self._minutes = task_id, minutes
        self._known: list[Minute] | None = None
        self._at, self._rows = minute_of(time.time()), 0

    def is_due(self) -> bool:
        """Whether a minute is over that is not written yet."""
        return minute_of(time.time()) > self._at

    def write(
        self, rows: int, lag_records: int | None, lag_seconds: float | None, state: str
    ) -> None:
        """The minute at hand, with how it is now, `rows` since the task's start; the next
        begins. What cannot be written is with the next one. Raises PositionUnavailable and
        PositionError."""
        if self._known is None:
            self._known = self._minutes.read(self._task_id)
        self._known = with_minute(
            self._known, Minute(self._at, rows - self._rows, lag_records, lag_seconds, state)
        )
        self._at, self._rows = minute_of(time.time()), rows
        self._minutes.put(self._task_id, self._known)


def minute_of(epoch_seconds: float) -> int:
    """When the minute of a time began."""
    return int(epoch_seconds) // MINUTE_SECONDS * MINUTE_SECONDS


def with_minute(minutes: list[Minute], minute: Minute) -> list[Minute]:
    """The history with one more minute, without what is older than KEPT_SECONDS; rows of a
    minute that is there already, as the task was started anew in it, are added up."""
    if minutes and minutes[-1].at == minute.at:
        minute = replace(minute, rows=minutes[-1].rows + minute.rows)
    kept = [known for known in minutes if minute.at - KEPT_SECONDS < known.at < minute.at]
    return [*kept, minute]


def last_hour(minutes: list[Minute], now: float) -> list[int]:
    """Rows in each of the last 60 whole minutes, oldest first."""
    rows = {minute.at: minute.rows for minute in minutes}
    end = minute_of(now)
    return [rows.get(end - back * MINUTE_SECONDS, 0) for back in range(60, 0, -1)]


def _path(task_id: str) -> str:
    return f"{ROOT}/task/{task_id}/minutes"


def _minute(fields: Any) -> Minute | None:
    kinds = (int, int, int | None, int | float | None, str)
    if not isinstance(fields, list) or len(fields) != len(kinds):
        return None
    return (
        Minute(*fields)
        if all(isinstance(value, kind) for value, kind in zip(fields, kinds, strict=True))
        else None
    )
