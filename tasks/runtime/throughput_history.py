"""A task's throughput, minute by minute over the last hours, and hour by hour over the last month:
two small znodes per task, written once a minute and once an hour.

/datas/task/<id>/minutes   {"minutes":[[1795281300,1200,0,0.2,"WORKING"],...]}: oldest first; the
                           elements are the fields of `Minute`
/datas/task/<id>/hours     {"hours":[...]}: the same for whole hours; lag is the highest in each
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass, replace
from typing import Any, TypeVar

from kazoo.client import KazooClient

from cdcbus.tasks.zookeeper.connection import ROOT
from cdcbus.tasks.zookeeper.znode import get_node, put_node

_Number = TypeVar("_Number", int, float)
MINUTE_SECONDS = 60
KEPT_SECONDS = 6 * 60 * MINUTE_SECONDS
HOUR_SECONDS = 60 * MINUTE_SECONDS
HOURS_KEPT_SECONDS = 30 * 24 * HOUR_SECONDS


@dataclass(frozen=True, slots=True)
class Minute:
    """One minute, or one whole hour. `at`: when it began, in epoch seconds. `rows`: processed
    within it. Lag and state: as last reported; None: unknown."""

    at: int
    rows: int
    lag_records: int | None
    lag_seconds: float | None
    state: str


class ThroughputHistory:
    """The stored throughput of tasks. Usable while its client is. Calls raise PositionUnavailable
    and PositionError."""

    def __init__(self, client: KazooClient) -> None:
        self._client = client

    def read(self, task_id: str) -> list[Minute]:
        """The minutes, oldest first, without those in which the task was not reported, and without
        damaged ones."""
        return self._read(minutes_path(task_id), "minutes")

    def read_hours(self, task_id: str) -> list[Minute]:
        """The same for whole hours."""
        return self._read(hours_path(task_id), "hours")

    def put_hours(self, task_id: str, hours: Iterable[Minute]) -> None:
        """Replaces all hours."""
        put_node(self._client, hours_path(task_id), {"hours": list(map(astuple, hours))})

    def _read(self, path: str, name: str) -> list[Minute]:
        node = get_node(self._client, path)
        if node is None:
            return []
        stored = node.fields.get(name)
        if not isinstance(stored, list):
            return []
        return list(filter(None, map(_minute, stored)))

    def put(self, task_id: str, minutes: Iterable[Minute]) -> None:
        """Replaces all minutes."""
        put_node(self._client, minutes_path(task_id), {"minutes": list(map(astuple, minutes))})


class ThroughputWriter:
    """Writes a task's history while it runs, continuing that of an earlier process. Used on one
    thread."""

    def __init__(self, task_id: str, minutes: ThroughputHistory) -> None:
        self._task_id, self._minutes = task_id, minutes
        self._known: list[Minute] | None = None
        self._hours: list[Minute] | None = None
        self._at = minute_of(time.time())
        self._rows = 0

    def is_due(self) -> bool:
        """Whether an ended minute is not written yet."""
        # Not only a later one: the clock can be put back.
        return minute_of(time.time()) != self._at

    def write(
        self, rows: int, lag_records: int | None, lag_seconds: float | None, state: str
    ) -> None:
        """Ends the current minute with the task's current state, and begins the next one. `rows`:
        since the task's start. Raises PositionUnavailable and PositionError; the minute is then
        written with the next one."""
        # Read late: ZooKeeper may be unavailable at the start, and a failed read is repeated.
        if self._known is None:
            self._known = self._minutes.read(self._task_id)
        minute = Minute(self._at, rows - self._rows, lag_records, lag_seconds, state)
        self._known = with_minute(self._known, minute)
        self._at = minute_of(time.time())
        self._rows = rows
        self._minutes.put(self._task_id, self._known)
        if self._hours is None:
            self._hours = self._minutes.read_hours(self._task_id)
        hours = with_hours(self._hours, self._known)
        # So the znode of hours, up to 720 rows, is written once an hour.
        if hours != self._hours:
            self._minutes.put_hours(self._task_id, hours)
            self._hours = hours


def minute_of(epoch_seconds: float) -> int:
    """When the minute that contains a time began, in epoch seconds."""
    return int(epoch_seconds) // MINUTE_SECONDS * MINUTE_SECONDS


def with_minute(minutes: list[Minute], minute: Minute) -> list[Minute]:
    """The history with one more minute, without those older than KEPT_SECONDS."""
    # The task was restarted within this minute, so the rows of both processes count.
    if minutes and minutes[-1].at == minute.at:
        minute = replace(minute, rows=minutes[-1].rows + minute.rows)
    kept = [known for known in minutes if minute.at - KEPT_SECONDS < known.at < minute.at]
    return [*kept, minute]


def with_hours(hours: list[Minute], minutes: list[Minute]) -> list[Minute]:
    """The hours with those that the minutes have since completed, and without expired ones. A known
    hour stays as it is, because its first minutes may have expired."""
    if not minutes:
        return hours
    known = {hour.at: hour for hour in hours}
    current = hour_of(minutes[-1].at)
    parts: dict[int, list[Minute]] = {}
    for minute in minutes:
        at = hour_of(minute.at)
        if at < current and at not in known:
            parts.setdefault(at, []).append(minute)
    for at, part in parts.items():
        known[at] = whole_hour(at, part)
    oldest = current - HOURS_KEPT_SECONDS
    return [known[at] for at in sorted(known) if at > oldest]


def whole_hour(at: int, minutes: Sequence[Minute]) -> Minute:
    """The minutes of an hour, at least one, combined."""
    rows = 0
    records = seconds = None
    for each in minutes:
        rows += each.rows
        records = _larger(records, each.lag_records)
        seconds = _larger(seconds, each.lag_seconds)
    return Minute(at, rows, records, seconds, minutes[-1].state)


def _larger(one: _Number | None, other: _Number | None) -> _Number | None:
    """The larger of two numbers of which any may be unknown."""
    if one is None or other is None:
        return one if other is None else other
    return max(one, other)


def hour_of(epoch_seconds: int) -> int:
    """When the hour that contains a time began, in epoch seconds."""
    return epoch_seconds // HOUR_SECONDS * HOUR_SECONDS


def last_hour(minutes: list[Minute], now: float) -> list[int]:
    """The rows in each of the last 60 whole minutes, oldest first."""
    rows = {minute.at: minute.rows for minute in minutes}
    end = minute_of(now)
    return [rows.get(end - back * MINUTE_SECONDS, 0) for back in range(60, 0, -1)]


def hours_path(task_id: str) -> str:
    return f"{ROOT}/task/{task_id}/hours"


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
