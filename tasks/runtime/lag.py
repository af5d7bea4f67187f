"""How far a running task is behind: asked of Kafka and of the source while it runs, on
connections of its own."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pymysql
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import ConfigResource

from cdcbus.consumer.config import LoadTask
from cdcbus.consumer.offsets.start_offsets import LIBRARY_LOG, Lane, TopicLogs
from cdcbus.plugins.errors import CdcError
from cdcbus.plugins.registry import make_converter
from cdcbus.producer.binlog.coordinates import BinlogCoordinates
from cdcbus.producer.config import FetchTask
from cdcbus.producer.server import connection as servers

if TYPE_CHECKING:
    from cdcbus.consumer.batch.progress import Progress as LoadProgress
    from cdcbus.producer.run import Progress as FetchProgress

ASK_SECONDS = 3.0
RETENTION_SECONDS = 600.0
# Only the first record is looked at: none shall be fetched ahead.
_ONE_RECORD = {"queued.min.messages": "1", "fetch.message.max.bytes": "65536"}


@dataclass(frozen=True, slots=True)
class Lag:
    """None: not known. `seconds`: since the oldest row that is not done was committed at the
    source, by the source's clock. `bytes`: of a binlog. `last_row_ms`: when the newest row that
    is done was committed there, 0 before the first. `skew_seconds`: by how much the source's
    clock is ahead of this machine's. `retention_seconds`: how long topics or binlog are kept.
    `kept_unread`: where so many bytes are kept, how much of these is still to be read; 1: all,
    so that what is deleted next is not read yet. `kept_place`: the same in words."""

    records: int | None = None
    seconds: float | None = None
    last_row_ms: int = 0
    bytes: int | None = None
    skew_seconds: float | None = None
    retention_seconds: float | None = None
    kept_unread: float | None = None
    kept_place: str = ""

    @property
    def is_behind(self) -> bool:
        """Whether there is certainly more to do."""
        return bool(self.records or self.bytes)


def lag_meter(task: FetchTask | LoadTask) -> Callable[[Any], Lag]:
    """What measures a task's lag, of its progress, at each call; keeps its connection. Never
    raises a CdcError."""
    return _FetchLag(task) if isinstance(task, FetchTask) else _LoadLag(task)


class _LoadLag:
    """Records between what is applied and the end of the topics. Seconds by the first of them;
    at the end by the last heartbeat."""

    def __init__(self, task: LoadTask) -> None:
        self._task = replace(
            task,
            source=replace(
                task.source, look_up_options={**task.source.look_up_options, **_ONE_RECORD}
            ),
        )
        self._converter = make_converter(task.converter)
        self._logs: TopicLogs | None = None
        self._retention = Retention()
        self._retention_due = 0.0
        self._looked_at, self._looked_at_bytes = 0, 0

    def __call__(self, progress: LoadProgress) -> Lag:
        offsets = dict(progress.next_offsets)
        last_row_ms = progress.total.last_commit_ms
        with suppress(CdcError):
            self._logs = logs = self._logs or TopicLogs(self._task, ASK_SECONDS)
            bounds = {lane: logs.bounds(lane) for lane in offsets}
            behind = {
                lane: records
                for lane, offset in offsets.items()
                if (records := bounds[lane][1] - offset) > 0
            }
            seconds = (
                self._seconds(logs, {lane: offsets[lane] for lane in behind}, last_row_ms)
                if behind
                else progress.lag_seconds or 0.0
            )
            retention = self._kept()
            unread, place = self._unread(retention.bytes, offsets, bounds)
            return Lag(
                sum(behind.values()),
                seconds,
                last_row_ms,
                None,
                None,
                retention.seconds,
                unread,
                place,
            )
        return Lag(last_row_ms=last_row_ms)

    def _seconds(self, logs: TopicLogs, offsets: dict[Lane, int], last_row_ms: int) -> float | None:
        """By the first rows that are not applied; where these do not come in time, by the last
        one that is."""
        deadline = time.monotonic() + ASK_SECONDS
        found = [
            record
            for lane, offset in offsets.items()
            if time.monotonic() < deadline and (record := logs.first(lane, offset))
        ]
        self._looked_at += len(found)
        self._looked_at_bytes += sum(len(value or b"") for _, value in found)
        oldest_ms = min((self._commit_ms(*record) for record in found), default=last_row_ms)
        return max(0.0, time.time() - oldest_ms / 1000) if oldest_ms > 0 else None

    def _commit_ms(self, kafka_ms: int, value: bytes | None) -> int:
        """When a record's row was committed at the source, else when it came into Kafka."""
        with suppress(CdcError):
            for change in self._converter.from_bytes(value or b""):
                return change.origin.commit_ms or kafka_ms
        return kafka_ms

    def _unread(
        self,
        kept_bytes: Mapping[str, int],
        offsets: Mapping[Lane, int],
        bounds: Mapping[Lane, tuple[int, int]],
    ) -> tuple[float | None, str]:
        """Of the lane of which most is unread."""
        record_bytes = self._looked_at_bytes / self._looked_at if self._looked_at else 0.0
        found = [
            (unread_share(offset, bounds[lane], record_bytes, kept_bytes[lane[0]]), lane, offset)
            for lane, offset in offsets.items()
            if lane[0] in kept_bytes
        ]
        if not found:
            return None, ""
        share, lane, offset = max(found)
        first, end = bounds[lane]
        return share, (
            f"topic {lane[0]}, partition {lane[1]}: {end - offset:,} of the {end - first:,} "
            "records that are there are still to be read, "
            f"the next one is {max(0, offset - first):,} after the first, and the topic keeps "
            f"{kept_bytes[lane[0]]:,} bytes of a partition"
        )

    def _kept(self) -> Retention:
        if time.monotonic() >= self._retention_due:
            self._retention_due = time.monotonic() + RETENTION_SECONDS
            with suppress(KafkaException, TimeoutError):
                self._retention = topics_retention(self._task)
        return self._retention


@dataclass(frozen=True, slots=True)
class Retention:
    """What topics keep. `seconds`: the shortest; None: for ever, or this user may not ask.
    `bytes`: of each partition, by topic; those that keep any number are not among them."""

    seconds: float | None = None
    bytes: Mapping[str, int] = field(default_factory=dict)


def unread_share(
    offset: int, bounds: tuple[int, int], record_bytes: float, kept_bytes: int
) -> float:
    """How much is still to be read of what a partition keeps by bytes, 0 to 1. Kafka tells the
    size of a log to nobody but its own tools: what is to be read is estimated by the mean size
    of records, which is too much where they are compressed, and is never more than its part of
    the records that are there."""
    first, end = bounds
    unread = max(0, end - offset)
    return min(1.0, unread / max(1, end - first), unread * record_bytes / kept_bytes)


def topics_retention(task: LoadTask) -> Retention:
    """As the broker says, its own defaults included. Raises KafkaException, TimeoutError."""
    options: dict[str, Any] = {
        **task.source.look_up_options,
        "bootstrap.servers": task.source.servers,
        "logger": LIBRARY_LOG,
    }
    admin = AdminClient(options)  # which must live until it has answered
    topics = [ConfigResource(ConfigResource.Type.TOPIC, topic) for topic in task.source.topics]
    asked = admin.describe_configs(topics, request_timeout=ASK_SECONDS)
    configs = {resource.name: future.result(ASK_SECONDS) for resource, future in asked.items()}
    deleted = {
        topic: config
        for topic, config in configs.items()
        if "delete" in config["cleanup.policy"].value
    }
    kept_ms = [int(config["retention.ms"].value) for config in deleted.values()]
    kept_bytes = {topic: int(config["retention.bytes"].value) for topic, config in deleted.items()}
    return Retention(
        min((ms / 1000 for ms in kept_ms if ms > 0), default=None),
        {topic: most for topic, most in kept_bytes.items() if most > 0},
    )


class _FetchLag:
    """Seconds since the last transaction that is in Kafka was committed, 0 at the end of the
    binlog. Records in a binlog cannot be counted, its bytes can."""

    def __init__(self, task: FetchTask) -> None:
        self._source = task.source
        self._connection: Any = None
        self._variables: dict[str, str] = {}

    def __call__(self, progress: FetchProgress) -> Lag:
        position = progress.position
        if position is None:
            return Lag()
        try:
            if self._connection is None:
                self._connection = servers.connect(self._source, ASK_SECONDS)
                self._variables = servers.global_variables(
                    self._connection, (*_EXPIRY, _MOST_BYTES)
                )
            end = servers.latest_position(self._connection)
            is_at_end = BinlogCoordinates(position.file, position.pos) >= BinlogCoordinates(
                end.file, end.pos
            )
            files = [] if position.file == end.file else servers.binlog_files(self._connection)
            skew_seconds = self._skew_seconds()
        except (CdcError, pymysql.Error, OSError):
            self._connection = None
            return Lag(last_row_ms=position.timestamp_ms)
        kept_seconds, kept_bytes = (
            binlog_retention(self._variables),
            int(self._variables.get(_MOST_BYTES) or 0),
        )
        if is_at_end:
            return Lag(
                None,
                0.0,
                position.timestamp_ms,
                0,
                skew_seconds,
                kept_seconds,
                *binlog_unread(0, kept_bytes),
            )
        behind = bytes_between(files, (position.file, position.pos), (end.file, end.pos))
        seconds = (
            max(0.0, time.time() + skew_seconds - position.timestamp_ms / 1000)
            if position.timestamp_ms
            else None
        )
        return Lag(
            None,
            seconds,
            position.timestamp_ms,
            behind,
            skew_seconds,
            kept_seconds,
            *binlog_unread(behind, kept_bytes),
        )

    def _skew_seconds(self) -> float:
        """The server's clock is asked for; its answer is of the middle between question and
        answer."""
        asked = time.time()
        theirs = servers.now_ms(self._connection) / 1000
        return theirs - (asked + time.time()) / 2


_MOST_BYTES = "max_binlog_total_size"  # of MariaDB
_EXPIRY = ("binlog_expire_logs_seconds", "expire_logs_days")


def binlog_retention(variables: dict[str, str]) -> float | None:
    """For how many seconds a server keeps its binlog; None: for ever."""
    seconds, days = (float(variables.get(name) or 0) for name in _EXPIRY)
    return seconds or days * 86_400 or None


def binlog_unread(behind_bytes: int | None, kept_bytes: int) -> tuple[float | None, str]:
    """How much of what a server keeps of its binlog is still to be read, 0 to 1, and that in
    words; None where it keeps any number of bytes, or that is not known."""
    if not kept_bytes or behind_bytes is None:
        return None, ""
    words = (
        f"{behind_bytes:,} bytes of the binlog are still to be read, and the server keeps "
        f"{kept_bytes:,} ({_MOST_BYTES})"
    )
    return min(1.0, behind_bytes / kept_bytes), words


def bytes_between(
    files: Sequence[tuple[str, int]], start: tuple[str, int], end: tuple[str, int]
) -> int | None:
    """Of the binlog from one place to another. `files`: (name, size), oldest first, needed where
    the places are in two; None where one of these is not among them."""
    if start[0] == end[0]:
        return max(0, end[1] - start[1])
    names = [name for name, _ in files]
    if start[0] not in names or end[0] not in names:
        return None
    first, last = names.index(start[0]), names.index(end[0])
    return (
        max(0, files[first][1] - start[1])
        + sum(size for _, size in files[first + 1 : last])
        + end[1]
    )
