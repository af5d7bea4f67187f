"""How far a running task is behind: asked of Kafka and of the source while it runs, on connections of its own."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pymysql

from cdcbus.consumer.offsets import TopicLogs
from cdcbus.consumer.task import LoadTask
from cdcbus.plugins.errors import CdcError
from cdcbus.producer import server as servers
from cdcbus.producer.place import Place
from cdcbus.producer.task import FetchTask

if TYPE_CHECKING:
    from cdcbus.consumer.run import Progress as LoadProgress
    from cdcbus.producer.run import Progress as FetchProgress

ASK_SECONDS = 3.0


@dataclass(frozen=True, slots=True)
class Lag:
    """None: not known. `last_row_ms`: when the newest row that is done was committed at the source, 0 before the first."""

    records: int | None = None
    seconds: float | None = None
    last_row_ms: int = 0


def lag_meter(task: FetchTask | LoadTask) -> Callable[[Any], Lag]:
    """What measures a task's lag, of its progress, at each call; keeps its connection. Never raises a CdcError."""
    return _FetchLag(task) if isinstance(task, FetchTask) else _LoadLag(task)


class _LoadLag:
    """Records between what is applied and the end of the topics; seconds by the last heartbeat, else by the last row's commit time."""

    def __init__(self, task: LoadTask) -> None:
        self._task = task
        self._logs: TopicLogs | None = None

    def __call__(self, progress: LoadProgress) -> Lag:
        offsets = dict(progress.next_offsets)
        with suppress(CdcError):
            self._logs = self._logs or TopicLogs(self._task, ASK_SECONDS)
            records = sum(max(0, self._logs.bounds(lane)[1] - offset) for lane, offset in offsets.items())
            return Lag(records, self._seconds(progress, records), progress.total.last_commit_ms)
        return Lag(last_row_ms=progress.total.last_commit_ms)

    def _seconds(self, progress: LoadProgress, records: int) -> float | None:
        if not records:
            return progress.lag_seconds or 0.0
        return max(0.0, time.time() - progress.total.last_commit_ms / 1000) if progress.total.last_commit_ms else progress.lag_seconds


class _FetchLag:
    """Seconds since the last transaction that is in Kafka was committed, 0 at the end of the binlog. Records in a binlog cannot be
    counted."""

    def __init__(self, task: FetchTask) -> None:
        self._source = task.source
        self._connection: Any = None

    def __call__(self, progress: FetchProgress) -> Lag:
        position = progress.position
        if position is None:
            return Lag()
        try:
            self._connection = self._connection or servers.connect(self._source, ASK_SECONDS)
            end = servers.latest_position(self._connection)
        except (CdcError, pymysql.Error, OSError):
            self._connection = None
            return Lag(last_row_ms=position.timestamp_ms)
        if Place(position.file, position.pos) >= Place(end.file, end.pos):
            return Lag(None, 0.0, position.timestamp_ms)
        seconds = max(0.0, time.time() - position.timestamp_ms / 1000) if position.timestamp_ms else None
        return Lag(None, seconds, position.timestamp_ms)
