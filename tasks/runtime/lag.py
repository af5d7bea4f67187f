"""How far a running task is behind. Asks Kafka and the source while the task runs, on separate
connections."""

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
from cdcbus.consumer.offsets.kafka_admin import answered_bounds
from cdcbus.consumer.offsets.topic_logs import TopicLogs
from cdcbus.plugins.errors import BusError, CdcError
from cdcbus.plugins.kafka.client.errors import LIBRARY_LOG
from cdcbus.plugins.positions import TopicPartition
from cdcbus.producer.binlog.coordinates import BinlogCoordinates
from cdcbus.producer.config import FetchTask
from cdcbus.producer.server import connection as servers
from cdcbus.producer.server.retention import RETENTION, binlog_retention

if TYPE_CHECKING:
    from cdcbus.consumer.batch.progress import Progress as LoadProgress
    from cdcbus.producer.progress import Progress as FetchProgress

# Less than the time between two reports, which must not wait for a server that is silent.
ASK_SECONDS = 3.0
# Between two looks at the topics' settings, which change rarely.
RETENTION_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class Lag:
    """What a task still has to do. None: unknown.

    `seconds`: for topics, since the oldest unapplied record reached Kafka, by Kafka's times,
    because those in records may be of another zone or a wrong clock; for a binlog, since the commit
    of the last transaction that is in Kafka, by the source's clock, whose skew is known. `bytes`:
    unread bytes of a binlog. `last_row_ms`: when the newest processed row was committed at the
    source, as its record says; 0 before the first. `skew_seconds`: how far the source's clock is
    ahead of this machine's.

    `retention_seconds`: how long topics or binlog are kept. `kept_unread`: where they are kept by
    size instead, the share that is still unread; 1: all, so that the next deletion takes unread
    data. `kept_place`: the same in words.
    """

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
    """A function that measures a task's lag from its progress. It keeps its connection open, and
    never raises a CdcError."""
    if isinstance(task, FetchTask):
        if task.source.added is not None:
            return _unknown
        return _FetchLag(task)
    return _LoadLag(task)


def _unknown(_: object) -> Lag:
    """The lag of a source from another package, which does not say how much is left."""
    return Lag()


class _LoadLag:
    """Counts the records from the applied offsets to the end of the topics. Seconds count from
    when the first of these reached Kafka, and are 0 at the end. Where Kafka does not answer about
    some partitions, both are at least those of the others; unknown if these are at their end."""

    def __init__(self, task: LoadTask) -> None:
        self._task = task
        # Reads records of topics. There is one only while something is left to read: an idle task
        # has no Kafka client of its own for this.
        self._logs: TopicLogs | None = None
        self._retention = Retention()
        self._retention_due = 0.0
        # Of the sampled records, for the mean size of a record.
        self._sampled_records = 0
        self._sampled_bytes = 0

    def __call__(self, progress: LoadProgress) -> Lag:
        offsets = dict(progress.next_offsets)
        last_row_ms = progress.total.last_commit_ms
        with suppress(CdcError):
            bounds = answered_bounds(self._task.source, offsets, ASK_SECONDS)
            records: int | None = 0
            # Nothing is unread, so nothing waits.
            seconds: float | None = 0.0
            if len(bounds) < len(offsets):
                # Nobody knows what the others hold. What is counted is left to read in any case.
                offsets = {partition: offsets[partition] for partition in bounds}
                records = seconds = None
            behind = {}
            for partition, offset in offsets.items():
                _, end = bounds[partition]
                if end > offset:
                    records = (records or 0) + end - offset
                    behind[partition] = offset
            if behind:
                self._logs = logs = self._logs or TopicLogs(
                    self._task, ASK_SECONDS, fetches_one=True
                )
                seconds = self._seconds(logs, behind, progress.total.last_kafka_ms)
            elif self._logs:
                self._logs.close()
                self._logs = None
            retention = self._kept()
            unread, place = self._unread(retention.bytes, offsets, bounds)
            return Lag(
                records=records,
                seconds=seconds,
                last_row_ms=last_row_ms,
                retention_seconds=retention.seconds,
                kept_unread=unread,
                kept_place=place,
            )
        return Lag(last_row_ms=last_row_ms)

    def _seconds(
        self, logs: TopicLogs, offsets: dict[TopicPartition, int], last_came_ms: int
    ) -> float | None:
        """Seconds since the oldest of the first unapplied records reached Kafka, also of open
        transactions; 0 where only aborted ones are left. Where Kafka does not return these in time,
        since the last applied row did. None: unknown."""
        deadline = time.monotonic() + ASK_SECONDS
        came_ms = []
        is_complete = True
        for partition, offset in offsets.items():
            # The rest of the partitions is left out rather than the report delayed.
            if time.monotonic() >= deadline:
                is_complete = False
                break
            try:
                record = logs.next_record(partition, offset)
            except BusError:
                is_complete = False
                continue
            if record is None:
                continue
            _, first_ms, value = record
            came_ms.append(first_ms)
            if value is not None:
                self._sampled_records += 1
                self._sampled_bytes += len(value)
        if is_complete and not came_ms:
            return 0.0
        oldest_ms = min(came_ms, default=last_came_ms)
        if oldest_ms <= 0:
            return None
        return max(0.0, time.time() - oldest_ms / 1000)

    def _unread(
        self,
        kept_bytes: Mapping[str, int],
        offsets: Mapping[TopicPartition, int],
        bounds: Mapping[TopicPartition, tuple[int, int]],
    ) -> tuple[float | None, str]:
        """The unread share of the partition where it is largest, and the same in words."""
        record_bytes = self._sampled_bytes / max(1, self._sampled_records)
        shares = []
        for partition, offset in offsets.items():
            if partition.topic in kept_bytes:
                share = unread_share(
                    offset, bounds[partition], record_bytes, kept_bytes[partition.topic]
                )
                shares.append((share, partition, offset))
        if not shares:
            return None, ""
        # The partition that loses unread records first.
        share, partition, offset = max(shares)
        first, end = bounds[partition]
        return share, (
            f"topic {partition.topic}, partition {partition.partition}: {end - offset:,} of the "
            f"{end - first:,} records that Kafka holds are still to be read, "
            f"the next one is {max(0, offset - first):,} after the first, and the topic keeps "
            f"{kept_bytes[partition.topic]:,} bytes of a partition"
        )

    def _kept(self) -> Retention:
        if time.monotonic() >= self._retention_due:
            self._retention_due = time.monotonic() + RETENTION_SECONDS
            with suppress(KafkaException, TimeoutError):
                self._retention = topics_retention(self._task)
        return self._retention


@dataclass(frozen=True, slots=True)
class Retention:
    """How much topics keep. `seconds`: the shortest retention; None: unlimited, or not visible to
    this user. `bytes`: the limit of each partition, by topic; topics without one are left out."""

    seconds: float | None = None
    bytes: Mapping[str, int] = field(default_factory=dict)


def unread_share(
    offset: int, bounds: tuple[int, int], record_bytes: float, kept_bytes: int
) -> float:
    """The unread share of the bytes that a partition keeps, 0 to 1, estimated from the mean size
    of a record."""
    first, end = bounds
    unread = max(0, end - offset)
    # Kafka reports the size of a log only to its own tools. The estimate is too high for compressed
    # records, so the unread share of the records limits it.
    return min(1.0, unread / max(1, end - first), unread * record_bytes / kept_bytes)


def topics_retention(task: LoadTask) -> Retention:
    """The retention of the task's topics, including the brokers' defaults. Raises KafkaException
    and TimeoutError."""
    options: dict[str, Any] = {
        **task.source.look_up_options,
        "bootstrap.servers": task.source.servers,
        "logger": LIBRARY_LOG,
    }
    topics = []
    for topic in task.source.topics:
        topics.append(ConfigResource(ConfigResource.Type.TOPIC, topic))
    seconds: list[float] = []
    kept_bytes: dict[str, int] = {}
    with AdminClient(options) as admin:
        asked = admin.describe_configs(topics, request_timeout=ASK_SECONDS)
        configs = {each.name: future.result(ASK_SECONDS) for each, future in asked.items()}
    for topic, config in configs.items():
        # A compacted topic deletes nothing by age or size.
        if "delete" not in config["cleanup.policy"].value:
            continue
        # -1 means no limit.
        if (kept_ms := int(config["retention.ms"].value)) > 0:
            seconds.append(kept_ms / 1000)
        if (most := int(config["retention.bytes"].value)) > 0:
            kept_bytes[topic] = most
    return Retention(min(seconds, default=None), kept_bytes)


class _FetchLag:
    """Counts the bytes from the position to the end of the binlog, whose records cannot be
    counted. Seconds count from the commit of the last transaction in Kafka, and are 0 at the
    end. Unknown while the position is in the binlog of another server than the one that is read."""

    def __init__(self, task: FetchTask) -> None:
        self._source = task.source
        self._connection: Any = None
        self._identity = ""
        self._variables: dict[str, str] = {}

    def __call__(self, progress: FetchProgress) -> Lag:
        position = progress.position
        if position is None:
            return Lag()
        try:
            self._follow(progress.address)
            if self._connection is None:
                self._connection = servers.connect(self._source, ASK_SECONDS)
                self._identity = servers.identity(self._connection)
                names = (*RETENTION, _MOST_BYTES)
                self._variables = servers.global_variables(self._connection, names)
            # Files and offsets of two servers have no common order.
            if position.server_uuid not in ("", self._identity):
                # By the next call another server may have come behind the address.
                self._close()
                return Lag(last_row_ms=position.timestamp_ms)
            end = servers.latest_position(self._connection)
            # Beyond an XA transaction that is still prepared, what was published since counts.
            edge = position.reached
            here = BinlogCoordinates(edge.file, edge.pos)
            is_at_end = here >= BinlogCoordinates(end.file, end.pos)
            # File sizes matter only where the two positions are in different files.
            files = []
            if edge.file != end.file:
                files = servers.binlog_files(self._connection)
            skew_seconds = self._skew_seconds()
        # The next call opens another connection.
        except (CdcError, pymysql.Error, OSError):
            self._connection = None
            return Lag(last_row_ms=position.timestamp_ms)
        seconds: float | None
        unread_bytes: int | None
        if is_at_end:
            seconds, unread_bytes = 0.0, 0
        else:
            seconds = self._seconds_since(position.timestamp_ms, skew_seconds)
            unread_bytes = bytes_between(files, (edge.file, edge.pos), (end.file, end.pos))
        kept_bytes = int(self._variables.get(_MOST_BYTES) or 0)
        share, place = binlog_unread(unread_bytes, kept_bytes)
        return Lag(
            seconds=seconds,
            last_row_ms=position.timestamp_ms,
            bytes=unread_bytes,
            skew_seconds=skew_seconds,
            retention_seconds=binlog_retention(self._variables),
            kept_unread=share,
            kept_place=place,
        )

    def _follow(self, address: tuple[str, int] | None) -> None:
        """Asks the server that is read from now on, as after a failover."""
        if address is not None and address != self._source.addresses[0]:
            self._source = replace(self._source, addresses=(address,))
            self._close()

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    @staticmethod
    def _seconds_since(source_ms: int, skew_seconds: float) -> float | None:
        """Seconds since a time of the source, by the source's clock; None for an unknown time."""
        if not source_ms:
            return None
        return max(0.0, time.time() + skew_seconds - source_ms / 1000)

    def _skew_seconds(self) -> float:
        """How far the server's clock is ahead, assuming that it answered halfway between question
        and answer."""
        asked = time.time()
        theirs = servers.now_ms(self._connection) / 1000
        return theirs - (asked + time.time()) / 2


# Of MariaDB.
_MOST_BYTES = "max_binlog_total_size"


def binlog_unread(behind_bytes: int | None, kept_bytes: int) -> tuple[float | None, str]:
    """The unread share of the bytes of binlog that a server keeps, 0 to 1, and the same in words.
    None and an empty text where the server has no such limit, or the share is unknown."""
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
    """The number of bytes of binlog between two positions. `files`: (name, size), oldest first,
    needed where the positions are in different files. None where one of these is not listed."""
    if start[0] == end[0]:
        return max(0, end[1] - start[1])
    names = [name for name, _ in files]
    if start[0] not in names or end[0] not in names:
        return None
    first = names.index(start[0])
    last = names.index(end[0])
    rest_of_first = max(0, files[first][1] - start[1])
    whole_files = sum(size for _, size in files[first + 1 : last])
    return rest_of_first + whole_files + end[1]
