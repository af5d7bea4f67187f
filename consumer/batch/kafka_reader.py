"""The records of a task's partitions as they come into Kafka: the tail gear's eyes.

A client of librdkafka's, one for each task: fifty that wait for records take together some 1 % of a
core and 35 MB, where one for all would take 0.1 % and 1 MB, but could not read a partition for two
tasks at different offsets.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from time import monotonic
from types import TracebackType
from typing import Any

import confluent_kafka
import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, KafkaException

from cdcbus.consumer.config import LoadTask
from cdcbus.consumer.offsets.topic_logs import LIBRARY_LOG
from cdcbus.consumer.records.records import Records
from cdcbus.plugins.errors import BusError, BusUnavailable, ConfigError
from cdcbus.plugins.kafka.client_errors import Refusals
from cdcbus.plugins.kafka.config import PublishConfig
from cdcbus.plugins.positions import TopicPartition

READ_BYTES = 8 << 20  # of records that come with one reading, or one record
QUEUED_KB = READ_BYTES >> 10  # of records that wait in the client
FULL_WAIT_MS = 5  # until a client that has had enough looks whether it may fetch more
FETCHED_BYTES = 256 << 10  # of an answer for a partition: LZ4 may have packed it 250 times smaller
FETCH_WAIT_MS = 1000  # for what is not there; what comes is told at once
OTHERS_SECONDS = 2 * FETCH_WAIT_MS / 1000  # a broker has answered by then
LARGEST_BYTES = 1 << 30  # of an answer: a record may be larger than librdkafka expects
_HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


class _Troubles(Refusals):
    """`is_cut_off`: no broker can be reached."""

    is_cut_off = False

    def __call__(self, error: KafkaError) -> None:
        super().__call__(error)
        if error.code() == KafkaError._ALL_BROKERS_DOWN:
            self.is_cut_off = True


class KafkaReader:
    """Reads what is committed. A context manager."""

    def __init__(self, task: LoadTask, offsets: Mapping[TopicPartition, int], most: int) -> None:
        """From `offsets` on, `most` records at most with one reading. Raises ConfigError."""
        source = task.source
        self._servers = source.servers
        self._troubles = _Troubles()
        self._with_headers = isinstance(task.target, PublishConfig)
        self._next, self._most = dict(offsets), most
        # Of the last reading: where it began in each partition, and its messages. Those that have
        # not been applied come again with the next one: a seek would wait for the answer that is
        # under way, which may take FETCH_WAIT_MS.
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
        try:
            self._consumer = Consumer(options)
        except KafkaException as error:
            raise ConfigError(
                f"settings of the Kafka client (kafka.*): {error.args[0].str()}"
            ) from error
        self._consumer.assign(
            [
                confluent_kafka.TopicPartition(*partition, offset)
                for partition, offset in offsets.items()
            ]
        )

    def __enter__(self) -> KafkaReader:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._consumer.close()

    def read(
        self, wait_seconds: float, *, from_all: bool = False
    ) -> tuple[dict[TopicPartition, Records], dict[TopicPartition, int]]:
        """The records that are there, in offset order in each partition, as soon as there is one;
        and the offset behind what was read of each partition, transaction markers included.
        `from_all`: of each partition that has some, which is waited for a moment. Raises
        BusRejected, and BusUnavailable where Kafka is away, or holds no record at the offset: the
        next start says what is wrong."""
        messages, self._again, self._last = self._again, [], []
        if not messages:
            first = self._consumer.poll(wait_seconds)
            if first is None:
                if self._troubles.is_cut_off:
                    raise self._unavailable(KafkaError(KafkaError._ALL_BROKERS_DOWN))
                return {}, {}
            self._troubles.is_cut_off = False
            messages = [first]
        messages = self._with_more(messages)
        if from_all and len(self._next) > 1:
            messages += self._of_others(messages)
        self._begun, self._last = dict(self._next), messages
        # By plain tuples: a NamedTuple made for each record takes longer than all else in the loop.
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
        found = dict[TopicPartition, Records]()
        for where, of_partition in by_partition.items():
            partition = TopicPartition(*where)
            ends[partition] = max(ends.get(partition, 0), of_partition[-1].offset() + 1)
            found[partition] = self._records(of_partition)
        self._next |= ends
        return found, ends

    def go_back(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Partitions are read again from these offsets, where they have been read further. Raises
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

    def add(self, partitions: Iterable[TopicPartition]) -> None:
        """These are read as well, from their beginning."""
        new = list(partitions)
        self._next |= dict.fromkeys(new, 0)
        self._consumer.incremental_assign(
            [confluent_kafka.TopicPartition(*partition, 0) for partition in new]
        )

    def ahead(self) -> int:
        """How many offsets Kafka has behind what was read, as far as it has told with its last
        answers."""
        return sum(
            max(0, end - self._next[partition]) for partition, end in self._known_ends().items()
        )

    def _with_more(self, first: list[Any]) -> list[Any]:
        """What is not here yet is not waited for, and what is beyond READ_BYTES stays here."""
        messages, bytes_ = list(first), sum(len(message.value() or b"") for message in first)
        while len(messages) < self._most and bytes_ < READ_BYTES:
            fitting = READ_BYTES * len(messages) // max(1, bytes_)
            count = max(1, min(fitting, self._most) - len(messages))
            more = self._consumer.consume(count, 0)
            if not more:
                break
            messages += more
            bytes_ += sum(len(message.value() or b"") for message in more)
        return messages

    def _of_others(self, messages: list[Any]) -> list[Any]:
        """What comes from the partitions that have given nothing, until each has."""
        lacking = {
            partition
            for partition, end in self._known_ends().items()
            if end != self._next[partition]
        }
        lacking -= {(message.topic(), message.partition()) for message in messages}
        found: list[Any] = []
        deadline = monotonic() + OTHERS_SECONDS
        while lacking and (left := deadline - monotonic()) > 0:
            if (message := self._consumer.poll(left)) is not None:
                found += self._with_more([message])
                lacking -= {(each.topic(), each.partition()) for each in found}
        return found

    def _known_ends(self) -> dict[TopicPartition, int]:
        """Where partitions end, as Kafka has told with its last answers; -1: it has told nothing
        yet."""
        ends = {}
        for partition in self._next:
            bounds: Any = self._consumer.get_watermark_offsets(
                confluent_kafka.TopicPartition(*partition), cached=True
            )
            ends[partition] = max(-1, bounds[1]) if bounds else -1
        return ends

    def _records(self, messages: list[Any]) -> Records:
        keys = headers = None
        if len(self._next) > 1:
            keys = pa.array([message.key() for message in messages], pa.binary())
        if self._with_headers:
            headers = pa.array(
                [
                    [{"key": key, "value": value} for key, value in found]
                    if (found := message.headers())
                    else None
                    for message in messages
                ],
                _HEADERS,
            )
        return Records(
            pa.array([message.offset() for message in messages], pa.int64()),
            pa.array([message.value() for message in messages], pa.binary()),
            headers,
            keys,
            pa.array([message.timestamp()[1] for message in messages], pa.int64()),
        )

    def _wrong(self, partition: TopicPartition, error: KafkaError) -> BusError:
        if error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
            return BusUnavailable(
                f"Kafka at {self._servers} holds no record of {partition} at offset "
                f"{self._next.get(partition)}"
            )
        return self._unavailable(error)

    def _unavailable(self, error: KafkaError) -> BusError:
        return self._troubles.unanswered(self._consumer, self._servers, KafkaException(error))
