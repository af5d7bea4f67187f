"""How far a running task is behind: asked of Kafka and of the source while it runs, on connections of its own."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pymysql
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import ConfigResource

from cdcbus.consumer.offsets import LIBRARY_LOG, Lane, TopicLogs
from cdcbus.consumer.task import LoadTask
from cdcbus.plugins.errors import CdcError
from cdcbus.plugins.registry import make_converter
from cdcbus.producer import server as servers
from cdcbus.producer.place import Place
from cdcbus.producer.task import FetchTask

if TYPE_CHECKING:
    from cdcbus.consumer.run import Progress as LoadProgress
    from cdcbus.producer.run import Progress as FetchProgress

ASK_SECONDS = 3.0
RETENTION_SECONDS = 600.0
# Only the first record is looked at: none shall be fetched ahead.
_ONE_RECORD = {"queued.min.messages": "1", "fetch.message.max.bytes": "65536"}


@dataclass(frozen=True, slots=True)
class Lag:
    """None: not known. `seconds`: since the oldest row that is not done was committed at the source, by the source's clock. `bytes`: of a
    binlog. `last_row_ms`: when the newest row that is done was committed there, 0 before the first. `skew_seconds`: by how much the
    source's clock is ahead of this machine's. `retention_seconds`: how long topics or binlog are kept."""

    records: int | None = None
    seconds: float | None = None
    last_row_ms: int = 0
    bytes: int | None = None
    skew_seconds: float | None = None
    retention_seconds: float | None = None

    @property
    def is_behind(self) -> bool:
        """Whether there is certainly more to do."""
        return bool(self.records or self.bytes)


def lag_meter(task: FetchTask | LoadTask) -> Callable[[Any], Lag]:
    """What measures a task's lag, of its progress, at each call; keeps its connection. Never raises a CdcError."""
    return _FetchLag(task) if isinstance(task, FetchTask) else _LoadLag(task)


class _LoadLag:
    """Records between what is applied and the end of the topics. Seconds by the first of them; at the end by the last heartbeat."""

    def __init__(self, task: LoadTask) -> None:
        self._task = replace(task, source=replace(task.source, look_up_options={**task.source.look_up_options, **_ONE_RECORD}))
        self._converter = make_converter(task.converter)
        self._logs: TopicLogs | None = None
        self._retention: float | None = None
        self._retention_due = 0.0

    def __call__(self, progress: LoadProgress) -> Lag:
        offsets = dict(progress.next_offsets)
        last_row_ms = progress.total.last_commit_ms
        with suppress(CdcError):
            self._logs = logs = self._logs or TopicLogs(self._task, ASK_SECONDS)
            behind = {lane: records for lane, offset in offsets.items() if (records := logs.bounds(lane)[1] - offset) > 0}
            seconds = self._seconds(logs, {lane: offsets[lane] for lane in behind}, last_row_ms) if behind else progress.lag_seconds or 0.0
            return Lag(sum(behind.values()), seconds, last_row_ms, retention_seconds=self._kept_seconds())
        return Lag(last_row_ms=last_row_ms)

    def _seconds(self, logs: TopicLogs, offsets: dict[Lane, int], last_row_ms: int) -> float | None:
        """By the first rows that are not applied; where these do not come in time, by the last one that is."""
        deadline = time.monotonic() + ASK_SECONDS
        found = [logs.first(lane, offset) for lane, offset in offsets.items() if time.monotonic() < deadline]
        oldest_ms = min((self._commit_ms(*record) for record in found if record), default=last_row_ms)
        return max(0.0, time.time() - oldest_ms / 1000) if oldest_ms > 0 else None

    def _commit_ms(self, kafka_ms: int, value: bytes | None) -> int:
        """When a record's row was committed at the source, else when it came into Kafka."""
        with suppress(CdcError):
            for change in self._converter.from_bytes(value or b""):
                return change.origin.commit_ms or kafka_ms
        return kafka_ms

    def _kept_seconds(self) -> float | None:
        if time.monotonic() >= self._retention_due:
            self._retention_due = time.monotonic() + RETENTION_SECONDS
            with suppress(KafkaException, TimeoutError):
                self._retention = topics_retention(self._task)
        return self._retention


def topics_retention(task: LoadTask) -> float | None:
    """For how long the topics keep records, the shortest; None: for ever, or this user may not ask. Raises KafkaException,
    TimeoutError."""
    options: dict[str, Any] = {**task.source.look_up_options, "bootstrap.servers": task.source.servers, "logger": LIBRARY_LOG}
    admin = AdminClient(options)  # which must live until it has answered
    topics = [ConfigResource(ConfigResource.Type.TOPIC, topic) for topic in task.source.topics]
    asked = admin.describe_configs(topics, request_timeout=ASK_SECONDS)
    configs = [future.result(ASK_SECONDS) for future in asked.values()]
    kept = [int(config["retention.ms"].value) for config in configs if "delete" in config["cleanup.policy"].value]
    return min((ms / 1000 for ms in kept if ms > 0), default=None)


class _FetchLag:
    """Seconds since the last transaction that is in Kafka was committed, 0 at the end of the binlog. Records in a binlog cannot be
    counted, its bytes can."""

    def __init__(self, task: FetchTask) -> None:
        self._source = task.source
        self._connection: Any = None
        self._retention: float | None = None

    def __call__(self, progress: FetchProgress) -> Lag:
        position = progress.position
        if position is None:
            return Lag()
        try:
            if self._connection is None:
                self._connection = servers.connect(self._source, ASK_SECONDS)
                self._retention = binlog_retention(servers.global_variables(self._connection, _EXPIRY))
            end = servers.latest_position(self._connection)
            is_at_end = Place(position.file, position.pos) >= Place(end.file, end.pos)
            files = [] if position.file == end.file else servers.binlog_files(self._connection)
            skew_seconds = self._skew_seconds()
        except (CdcError, pymysql.Error, OSError):
            self._connection = None
            return Lag(last_row_ms=position.timestamp_ms)
        if is_at_end:
            return Lag(None, 0.0, position.timestamp_ms, 0, skew_seconds, self._retention)
        behind = bytes_between(files, (position.file, position.pos), (end.file, end.pos))
        seconds = max(0.0, time.time() + skew_seconds - position.timestamp_ms / 1000) if position.timestamp_ms else None
        return Lag(None, seconds, position.timestamp_ms, behind, skew_seconds, self._retention)

    def _skew_seconds(self) -> float:
        """The server's clock is asked for; its answer is of the middle between question and answer."""
        asked = time.time()
        theirs = servers.now_ms(self._connection) / 1000
        return theirs - (asked + time.time()) / 2


_EXPIRY = ("binlog_expire_logs_seconds", "expire_logs_days")


def binlog_retention(variables: dict[str, str]) -> float | None:
    """For how many seconds a server keeps its binlog; None: for ever."""
    seconds, days = (float(variables.get(name) or 0) for name in _EXPIRY)
    return seconds or days * 86_400 or None


def bytes_between(files: Sequence[tuple[str, int]], start: tuple[str, int], end: tuple[str, int]) -> int | None:
    """Of the binlog from one place to another. `files`: (name, size), oldest first, needed where the places are in two; None where one of
    these is not among them."""
    if start[0] == end[0]:
        return max(0, end[1] - start[1])
    names = [name for name, _ in files]
    if start[0] not in names or end[0] not in names:
        return None
    first, last = names.index(start[0]), names.index(end[0])
    return max(0, files[first][1] - start[1]) + sum(size for _, size in files[first + 1 : last]) + end[1]
