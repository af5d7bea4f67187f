"""Reads the records of a task's partitions as they arrive in Kafka, for the tail gear.

Each task has a librdkafka client of its own: fifty that wait for records take about 1 % of a core
and 35 MB together. One for all would take 0.1 % and 1 MB, but could not read a partition for two
tasks at different offsets.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from operator import methodcaller
from time import monotonic
from typing import Any

import confluent_kafka
import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, KafkaException

from cdcbus.consumer.config import LoadTask
from cdcbus.consumer.offsets.kafka_client import LARGEST_BYTES, at_offsets
from cdcbus.consumer.records.records import Records
from cdcbus.plugins.errors import BusError, BusUnavailable
from cdcbus.plugins.kafka.client.errors import LIBRARY_LOG, Refusals
from cdcbus.plugins.kafka.client.making import make_client
from cdcbus.plugins.kafka.config import PublishConfig
from cdcbus.plugins.positions import TopicPartition

# The size of the records that one read returns; a larger record comes alone.
READ_BYTES = 8 << 20
# The size of the records that wait in the client.
QUEUED_KB = READ_BYTES >> 10
# How long a client with a full queue waits until it checks whether it can fetch more.
FULL_WAIT_MS = 5
# The size of a response for one partition: LZ4 can have packed it 250 times smaller.
FETCHED_BYTES = 256 << 10
# How long a broker waits for new records; it answers immediately once there are some.
FETCH_WAIT_MS = 1000
# Every broker has answered by then.
OTHERS_SECONDS = 2 * FETCH_WAIT_MS / 1000
# The records of each partition, and where reading has ended.
ReadRecords = tuple[dict[TopicPartition, Records], dict[TopicPartition, int]]
_HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


class _Troubles(Refusals):
    """Also notes in `is_cut_off` that no broker can be reached."""

    is_cut_off = False

    def __call__(self, error: KafkaError) -> None:
        super().__call__(error)
        if error.code() == KafkaError._ALL_BROKERS_DOWN:
            self.is_cut_off = True


class KafkaReader:
    """Reads committed records. A context manager."""

    def __init__(self, task: LoadTask, offsets: Mapping[TopicPartition, int], most: int) -> None:
        """Reads from `offsets` on, at most `most` records at a time. Raises ConfigError."""
        source = task.source
        self._servers = source.servers
        self._troubles = _Troubles()
        self._with_headers = isinstance(task.target, PublishConfig)
        self._next, self._most = dict(offsets), most
        # Where the last read began in each partition, and its messages. Messages that have not been
        # applied are returned again by the next read: a seek would wait for the response in
        # progress, which can take FETCH_WAIT_MS.
        self._begun = dict(offsets)
        self._last: list[Any] = []
        self._again: list[Any] = []
        options = {
            **source.look_up_options,
            "bootstrap.servers": source.servers,
            "group.id": source.group or f"cdcbus-{task.task_id}",
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
            "isolation.level": "read_committed",
            "fetch.wait.max.ms": FETCH_WAIT_MS,
            "fetch.message.max.bytes": FETCHED_BYTES,
            "fetch.error.backoff.ms": 100,
            "queued.max.messages.kbytes": QUEUED_KB,
            "queued.min.messages": most,
            "fetch.queue.backoff.ms": FULL_WAIT_MS,
            "receive.message.max.bytes": LARGEST_BYTES,
            "socket.nagle.disable": True,
            "error_cb": self._troubles,
            "logger": LIBRARY_LOG,
        }
        self._consumer = make_client(Consumer, options)
        self._consumer.assign(at_offsets(offsets))

    def __enter__(self) -> KafkaReader:
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()

    def read(self, wait_seconds: float, *, from_all: bool = False) -> ReadRecords:
        """Returns the available records, in offset order in each partition, as soon as there is
        one; and the offset after the last one read of each partition, transaction markers included.

        `from_all`: waits a moment for records of every partition that has some. Raises BusRejected,
        and BusUnavailable where Kafka is unreachable, or holds no record at the offset: the next
        start says what is wrong."""
        messages, self._again, self._last = self._again, [], []
        self._begun = dict(self._next)
        if not messages:
            # Not `poll`, which wakes five times a second while it waits, to look for signals.
            messages = self._consumer.consume(1, wait_seconds)
            if not messages:
                self._check_connection()
                return {}, {}
            self._troubles.is_cut_off = False
        messages = self._with_more(messages)
        if from_all and len(self._next) > 1:
            messages += self._of_others(messages)
        self._last = messages
        by_partition, ends = self._by_partition(messages)
        found = dict[TopicPartition, Records]()
        for where, of_partition in by_partition.items():
            partition = TopicPartition(*where)
            ends[partition] = max(ends.get(partition, 0), of_partition[-1].offset() + 1)
            found[partition] = self._records(of_partition)
        self._next |= ends
        return found, ends

    def _check_connection(self) -> None:
        """Raises BusUnavailable where no broker can be reached."""
        if self._troubles.is_cut_off:
            raise self._unavailable(KafkaError(KafkaError._ALL_BROKERS_DOWN))

    def _by_partition(
        self, messages: list[Any]
    ) -> tuple[dict[tuple[str, int], list[Any]], dict[TopicPartition, int]]:
        """The records of each partition, and the ends that partitions have told. Raises BusError
        for a message that tells an error."""
        # Keyed by plain tuples: making a NamedTuple for each record takes longer than the rest of
        # the loop.
        by_partition = dict[tuple[str, int], list[Any]]()
        ends = dict[TopicPartition, int]()
        for message in messages:
            where = message.topic(), message.partition()
            error = message.error()
            if error is None:
                by_partition.setdefault(where, []).append(message)
            elif error.code() == KafkaError._PARTITION_EOF:
                ends[TopicPartition(*where)] = message.offset()
            else:
                raise self._wrong(TopicPartition(*where), error)
        return by_partition, ends

    def go_back(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Reads partitions again from these offsets, where they have been read further. Raises
        BusUnavailable."""
        again: set[TopicPartition] = set()
        for partition, offset in offsets.items():
            if offset >= self._next[partition]:
                continue
            if offset >= self._begun[partition]:
                again.add(partition)
            else:
                self._seek(partition, offset)
            self._next[partition] = offset
        for message in self._last:
            where = TopicPartition(message.topic(), message.partition())
            if where in again and message.offset() >= offsets[where]:
                self._again.append(message)

    def _seek(self, partition: TopicPartition, offset: int) -> None:
        try:
            self._consumer.seek(confluent_kafka.TopicPartition(*partition, offset))
        except KafkaException as error:
            raise self._unavailable(error.args[0]) from error

    def add(self, partitions: Mapping[TopicPartition, int]) -> None:
        """Reads these partitions as well, from these offsets."""
        self._next |= partitions
        self._consumer.incremental_assign(at_offsets(partitions))

    def ahead(self) -> int:
        """The number of offsets that Kafka holds after those read, according to its last
        responses."""
        count = 0
        for partition, end in self._known_ends().items():
            count += max(0, end - self._next[partition])
        return count

    def _with_more(self, first: list[Any]) -> list[Any]:
        """Adds the messages that the client holds, without waiting, up to READ_BYTES or `most`; the
        rest stays in the client."""
        messages = list(first)
        bytes_ = _value_bytes(first)
        while len(messages) < self._most and bytes_ < READ_BYTES:
            fitting = READ_BYTES * len(messages) // max(1, bytes_)
            count = max(1, min(fitting, self._most) - len(messages))
            more = self._consumer.consume(count, 0)
            if not more:
                break
            messages += more
            bytes_ += _value_bytes(more)
        return messages

    def _of_others(self, messages: list[Any]) -> list[Any]:
        """Waits for messages of the partitions that hold some and are missing in `messages`; at
        most OTHERS_SECONDS."""
        lacking: set[tuple[str, int]] = set()
        for partition, end in self._known_ends().items():
            if end != self._next[partition]:
                lacking.add(partition)
        lacking -= _partitions(messages)
        found: list[Any] = []
        deadline = monotonic() + OTHERS_SECONDS
        while lacking and (left := deadline - monotonic()) > 0:
            if first := self._consumer.consume(1, left):
                found += self._with_more(first)
                lacking -= _partitions(found)
        return found

    def _known_ends(self) -> dict[TopicPartition, int]:
        """Where partitions end, according to Kafka's last responses; -1: there was none yet."""
        ends = {}
        for partition in self._next:
            bounds: Any = self._consumer.get_watermark_offsets(
                confluent_kafka.TopicPartition(*partition), cached=True
            )
            ends[partition] = max(-1, bounds[1]) if bounds else -1
        return ends

    def _records(self, messages: list[Any]) -> Records:
        """The records of one partition as columns."""
        offsets = _column(messages, "offset", pa.int64())
        values = _column(messages, "value", pa.binary())
        times = pa.array([message.timestamp()[1] for message in messages], pa.int64())
        keys = headers = None
        if len(self._next) > 1:
            keys = _column(messages, "key", pa.binary())
        if self._with_headers:
            headers = pa.array(list(map(_headers, messages)), _HEADERS)
        return Records(offsets, values, headers, keys, times)

    def _wrong(self, partition: TopicPartition, error: KafkaError) -> BusError:
        if error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
            return BusUnavailable(
                f"Kafka at {self._servers} holds no record of {partition} at offset "
                f"{self._next.get(partition)}"
            )
        return self._unavailable(error)

    def _unavailable(self, error: KafkaError) -> BusError:
        return self._troubles.unanswered(self._consumer, self._servers, KafkaException(error))


def _column(messages: Iterable[Any], method: str, kind: pa.DataType) -> pa.Array:
    """What this method of each message returns."""
    return pa.array(list(map(methodcaller(method), messages)), kind)


def _value_bytes(messages: Iterable[Any]) -> int:
    return sum(len(message.value() or b"") for message in messages)


def _partitions(messages: Iterable[Any]) -> set[tuple[str, int]]:
    return {(message.topic(), message.partition()) for message in messages}


def _headers(message: Any) -> list[dict[str, Any]] | None:
    """A message's headers as Arrow takes them; None: it has none."""
    headers = message.headers()
    if not headers:
        return None
    return [{"key": key, "value": value} for key, value in headers]
