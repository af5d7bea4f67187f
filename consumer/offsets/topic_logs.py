"""Looks up what the topics of a task hold, and which of their partitions the task reads."""

from __future__ import annotations

import logging
from collections.abc import Generator, Iterable, Mapping, Sequence
from functools import partial
from threading import Event
from time import monotonic, sleep
from typing import NamedTuple

import confluent_kafka
from confluent_kafka import Consumer, KafkaError, KafkaException, Message

from cdcbus.consumer.config import LoadTask, TopicConfig
from cdcbus.consumer.offsets.kafka_client import LARGEST_BYTES, at_offsets
from cdcbus.plugins.contracts import Landmark
from cdcbus.plugins.errors import (
    BusError,
    BusUnavailable,
    ConfigError,
)
from cdcbus.plugins.kafka.client.asking import asked
from cdcbus.plugins.kafka.client.errors import LIBRARY_LOG, Refusals, topic_error
from cdcbus.plugins.kafka.client.making import make_client
from cdcbus.plugins.positions import TopicPartition

LOG = logging.getLogger(__name__)
ASK_SECONDS = 10.0
# How long a single record may take, as a large one over a slow line.
FIRST_SECONDS = 60.0
# The client holds its caller, who sees neither a signal nor `stop` meanwhile.
POLL_SECONDS = 1.0
FETCH_WAIT_MS = 5
SAMPLE_RECORDS = 100
# Else each partition would bring a megabyte, all of them tens of megabytes in one answer.
ONE_RECORD = {"queued.min.messages": 1, "fetch.message.max.bytes": 65536}
# The last record before an offset, and the end of its transaction.
NEWEST_OFFSETS = 2
# The group's coordinator starts, stops or moves: soon another broker, or the same one, takes over.
# None of them says that the group has no offset.
MOVING = (
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
)


class LogRecord(NamedTuple):
    """A record found while looking at a topic."""

    partition: TopicPartition
    offset: int
    value: bytes | None
    # When it arrived in Kafka, in epoch milliseconds.
    came_ms: int
    key: bytes | None = None


class TopicLogs:
    """Queries Kafka about a task's topics. A context manager. `sees_open`: logs do not end where
    the first open transaction begins. `fetches_one`: reads a partition's next record, few behind
    it. Once `stop` is set, an answer is waited for only briefly."""

    def __init__(
        self,
        task: LoadTask,
        ask_seconds: float = ASK_SECONDS,
        *,
        sees_open: bool = False,
        fetches_one: bool = False,
        stop: Event | None = None,
    ) -> None:
        source = task.source
        self._servers = source.servers
        self._topics = source.topics
        self._ask_seconds = ask_seconds
        self._stop = stop or Event()
        # Whether a call still waits, in a thread that was left alone.
        self._is_asking = False
        self._refusals = Refusals()
        options = {
            **source.look_up_options,
            "bootstrap.servers": source.servers,
            "group.id": source.group or f"cdcbus-{task.task_id}",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            # The default would go to the end from an offset that Kafka no longer holds, as if no
            # record followed.
            "auto.offset.reset": "error",
            "isolation.level": "read_uncommitted" if sees_open else "read_committed",
            # How long a broker waits for more records: for an empty partition it answers only after
            # that.
            "fetch.wait.max.ms": FETCH_WAIT_MS,
            # The client fetches no more ahead, as a look needs only a sample.
            "queued.min.messages": SAMPLE_RECORDS,
            # How soon the client fetches again once the queue is below that.
            "fetch.queue.backoff.ms": FETCH_WAIT_MS,
            "receive.message.max.bytes": LARGEST_BYTES,
            "error_cb": self._refusals,
            "logger": LIBRARY_LOG,
        }
        if fetches_one:
            options |= ONE_RECORD
        self._options = options
        self._consumer = make_client(Consumer, options)
        # Reads on behind open transactions, of all partitions; made once one is found.
        self._uncommitted: Consumer | None = None

    def __enter__(self) -> TopicLogs:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if not self._is_asking:  # else it would be closed under the thread, which drops it
            self._consumer.close()
        if self._uncommitted is not None:
            self._uncommitted.close()

    def partitions(self, topic: str) -> list[int]:
        """The topic's partition numbers. Raises BusError when there is no such topic,
        BusUnavailable."""
        consumer = self._consumer
        try:
            metadata = asked(
                lambda: consumer.list_topics(topic, timeout=self._ask_seconds),
                self._servers,
                self._stop,
            )
        except KafkaException as error:
            raise self._unavailable(error) from error
        except (BusUnavailable, KeyboardInterrupt):
            self._is_asking = True
            raise
        found = metadata.topics[topic]
        if found.error is not None:
            # Not a ConfigError: the task that writes the topic may create it later.
            raise topic_error(self._servers, topic, found.error) or BusError(
                f"Kafka topic {topic} at {self._servers}: {found.error.str()}; check "
                "consumer.source.topics"
            )
        return sorted(found.partitions)

    def all_partitions(self) -> list[TopicPartition]:
        """Every partition of every topic of the task, read or not. Raises BusError."""
        found: list[TopicPartition] = []
        for topic in self._topics:
            found += map(partial(TopicPartition, topic), self.partitions(topic))
        return found

    def cluster(self) -> str:
        """The id of the brokers' cluster. Raises BusUnavailable."""
        try:
            return str(self._consumer.list_topics(timeout=self._ask_seconds).cluster_id)
        except KafkaException as error:
            raise self._unavailable(error) from error

    def bounds(self, partition: TopicPartition) -> tuple[int, int]:
        """The first offset held, and the end, or, unless `sees_open`, where the first open
        transaction begins. Raises BusUnavailable."""
        try:
            low, high = self._consumer.get_watermark_offsets(
                confluent_kafka.TopicPartition(*partition), timeout=self._ask_seconds
            )
        except KafkaException as error:
            raise self._unavailable(error) from error
        return low, high

    def at_time(self, partition: TopicPartition, epoch_ms: int) -> int | None:
        """The first offset at or after a time; None when every record is older. Raises BusError."""
        try:
            (found,) = self._consumer.offsets_for_times(
                [confluent_kafka.TopicPartition(*partition, epoch_ms)], timeout=self._ask_seconds
            )
        except KafkaException as error:
            raise self._unavailable(error) from error
        if found.error is not None:
            raise self._unavailable(KafkaException(found.error))
        return found.offset if found.offset >= 0 else None

    def committed(self, partition: TopicPartition) -> int | None:
        """The group's committed offset, the next one to read; None when it has none. Raises
        BusError."""
        deadline = monotonic() + self._ask_seconds
        while True:
            try:
                (found,) = self._consumer.committed(
                    [confluent_kafka.TopicPartition(*partition)], timeout=self._ask_seconds
                )
                if found.error is not None:
                    raise KafkaException(found.error)
                return found.offset if found.offset >= 0 else None
            except KafkaException as error:
                code = error.args[0].code()
                if code not in MOVING or monotonic() > deadline:
                    raise self._unavailable(error) from error
                sleep(0.1)

    def newest(self, partitions: Iterable[TopicPartition], count: int) -> list[LogRecord]:
        """The records at the last `count` offsets of each partition, in order. Records that do not
        arrive in time are left out. Raises BusError."""
        begins, ends = self._before(dict.fromkeys(partitions), count)
        return self._read(begins, ends)

    def landmarks(
        self, begins: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
    ) -> list[tuple[TopicPartition, Landmark]]:
        """The records that Kafka still holds from `begins` to before `ends` of each partition, in
        order. The first one of each is waited for longer, as it can be large; further ones that do
        not arrive in time are left out, as behind a long run of aborted ones, and the log says so.
        Raises BusUnavailable when none of a partition arrives."""
        left = {partition: ends[partition] for partition in begins}
        found = self._read(begins, left, FIRST_SECONDS)
        if left.keys() - {record.partition for record in found}:
            raise self._unavailable(KafkaException(KafkaError(KafkaError._TIMED_OUT)))
        for partition, end in sorted(left.items()):
            LOG.warning(
                "Kafka at %s does not show within %g s what %s holds up to offset %d: of what was "
                "read before that, only the last record is compared",
                self._servers,
                self._ask_seconds,
                partition,
                end,
            )
        landmarks: list[tuple[TopicPartition, Landmark]] = []
        for partition, offset, _, came_ms, _ in found:
            if begins[partition] <= offset < ends[partition]:
                landmarks.append((partition, Landmark(offset, came_ms)))
        return landmarks

    def _read(
        self,
        begins: Mapping[TopicPartition, int],
        ends: dict[TopicPartition, int],
        first_seconds: float = 0.0,
        later_seconds: float = 0.0,
    ) -> list[LogRecord]:
        """Reads records from `begins` on until each partition has reached its end; returns them in
        order. Removes each partition from `ends` once it has; those left were not reached in time.
        `first_seconds`: how long the first record of each is waited for, if that is longer. It
        begins anew with each that arrives, as that one took the line. `later_seconds`: how long
        what follows it is then read, if that is longer."""
        first_seconds = max(first_seconds, self._ask_seconds)
        later_seconds = max(later_seconds, self._ask_seconds)
        silent = set(begins)
        until = dict.fromkeys(ends, monotonic() + first_seconds)
        self._consumer.assign(at_offsets(begins))
        found: list[LogRecord] = []
        while until:
            message = self._polled(self._consumer, max(until.values()))
            if message is None:
                break
            partition = TopicPartition(str(message.topic()), message.partition() or 0)
            if partition not in until:
                continue
            error = message.error()
            if error is not None:
                # The second: Kafka has deleted the first of them meanwhile.
                if error.code() not in (KafkaError._PARTITION_EOF, KafkaError._AUTO_OFFSET_RESET):
                    raise self._unavailable(KafkaException(error))
                del ends[partition]
                self._leave(partition, until)
                continue
            offset = int(message.offset() or 0)
            _, came_ms = message.timestamp()
            found.append(LogRecord(partition, offset, message.value(), came_ms, message.key()))
            now = monotonic()
            if partition in silent:
                silent.remove(partition)
                until[partition] = now + later_seconds
                until |= dict.fromkeys(silent & until.keys(), now + first_seconds)
            if offset + 1 >= ends[partition]:
                del ends[partition]
                self._leave(partition, until)
            elif now >= until[partition]:
                self._leave(partition, until)
        self._consumer.unassign()
        return sorted(found, key=lambda record: (record.partition, record.offset))

    def _leave(self, partition: TopicPartition, until: dict[TopicPartition, float]) -> None:
        """Reads no more of a partition: its backlog would fill the memory, and the line, while
        others are waited for."""
        del until[partition]
        self._consumer.incremental_unassign([confluent_kafka.TopicPartition(*partition)])

    def _polled(self, client: Consumer, until: float) -> Message | None:
        """The next message; None where none comes until then. Raises BusUnavailable once the task
        is to stop."""
        while True:
            left = max(0.0, until - monotonic())
            message = client.poll(min(left, POLL_SECONDS))
            if message is not None or left <= POLL_SECONDS:
                return message
            if self._stop.is_set():
                raise BusUnavailable(
                    f"stopped before Kafka at {self._servers} has shown what its logs hold"
                )

    def before(
        self, offsets: Mapping[TopicPartition, int], count: int, *, is_patient: bool
    ) -> tuple[list[LogRecord], list[TopicPartition]]:
        """The records at the `count` offsets before these, and the partitions of which some did not
        arrive in the time of an answer. `is_patient`: the newest ones are then waited for longer;
        some can be there twice. Raises BusError."""
        begins, ends = self._before(offsets, count)
        left = dict(ends)
        found = self._read(begins, left)
        missing = set(left)
        if left and is_patient:
            reached = begins | {record.partition: record.offset + 1 for record in found}
            newest = {}
            for partition, end in left.items():
                newest[partition] = max(reached[partition], end - NEWEST_OFFSETS)
            found += self._read(newest, left, FIRST_SECONDS, FIRST_SECONDS)
            for partition, begin in newest.items():
                if partition not in left and begin == reached[partition]:
                    missing.remove(partition)
        return found, sorted(missing)

    def after(self, offsets: Mapping[TopicPartition, int], count: int) -> list[LogRecord]:
        """The records at the `count` offsets from these on, in order. Records that do not arrive in
        time are left out. Raises BusError."""
        ends = {partition: offset + count for partition, offset in offsets.items()}
        found: list[LogRecord] = []
        for record in self._read(offsets, dict(ends)):
            if record.offset < ends[record.partition]:
                found.append(record)
        return found

    def _before(
        self, offsets: Mapping[TopicPartition, int | None], count: int
    ) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
        """From where to where the `count` offsets before these go, as far as Kafka holds them; None
        stands for the end."""
        begins: dict[TopicPartition, int] = {}
        ends: dict[TopicPartition, int] = {}
        for partition, offset in offsets.items():
            if offset == 0:
                continue
            low, high = self.bounds(partition)
            end = high if offset is None else offset
            begin = max(low, end - count)
            if begin < min(end, high):
                begins[partition] = begin
                ends[partition] = end
        return begins, ends

    def next_record(
        self, partition: TopicPartition, offset: int
    ) -> tuple[int, int, bytes | None] | None:
        """The first record from an offset on, as `records` yields it; None where there is none. A
        record of an open transaction counts, without its value, as readers of committed records
        can still get it, and those behind it. Raises BusError, as `records`."""
        return self.next_records({partition: offset}).get(partition)

    def next_records(
        self, offsets: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, tuple[int, int, bytes | None]]:
        """The same for many partitions side by side, without those that have none."""
        found, held_back = self._first_of(self._consumer, offsets)
        if held_back:
            options = {**self._options, "isolation.level": "read_uncommitted"}
            client = self._uncommitted = self._uncommitted or make_client(Consumer, options)
            uncommitted, _ = self._first_of(client, held_back)
            for partition, (at, came_ms, _) in uncommitted.items():
                found[partition] = at, came_ms, None
        return found

    def _first_of(
        self, client: Consumer, offsets: Mapping[TopicPartition, int]
    ) -> tuple[dict[TopicPartition, tuple[int, int, bytes | None]], dict[TopicPartition, int]]:
        """The first record from each offset on; and where an open transaction holds back others,
        for partitions without any."""
        found: dict[TopicPartition, tuple[int, int, bytes | None]] = {}
        held_back: dict[TopicPartition, int] = {}
        left = set(offsets)
        client.assign(at_offsets(offsets))
        try:
            while left:
                message = self._arrived(client)
                partition = TopicPartition(str(message.topic()), message.partition() or 0)
                # It was fetched before its partition was left.
                if partition not in left:
                    continue
                place = confluent_kafka.TopicPartition(*partition)
                if self._is_end(message, partition, offsets[partition]):
                    end = int(message.offset() or 0)
                    # As the last answer to the reader has it.
                    _, beyond_open = client.get_watermark_offsets(place, cached=True)
                    if beyond_open > end:
                        held_back[partition] = end
                else:
                    found[partition] = _record_in(message)
                left.remove(partition)
                if left:
                    # Its backlog would stand in line before those that are waited for.
                    client.incremental_unassign([place])
        finally:
            client.unassign()
        return found, held_back

    def records(
        self, partition: TopicPartition, offset: int
    ) -> Generator[tuple[int, int, bytes | None], None, int]:
        """Yields the records from an offset up to the partition's present end, or to the first open
        transaction: offset, time of arrival in Kafka in epoch milliseconds, value. Returns where it
        ended. Raises BusError, also where Kafka no longer holds the offset."""
        return self._records(self._consumer, partition, offset)

    def _records(
        self, client: Consumer, partition: TopicPartition, offset: int
    ) -> Generator[tuple[int, int, bytes | None], None, int]:
        client.assign([confluent_kafka.TopicPartition(*partition, offset)])
        try:
            while True:
                message = self._arrived(client)
                # It was fetched before this partition was the only one.
                if (message.topic(), message.partition()) != partition:
                    continue
                if self._is_end(message, partition, offset):
                    return int(message.offset() or 0)
                yield _record_in(message)
        finally:
            client.unassign()

    def _arrived(self, client: Consumer) -> Message:
        message = self._polled(client, monotonic() + self._ask_seconds)
        if message is None:
            raise self._unavailable(KafkaException(KafkaError(KafkaError._TIMED_OUT)))
        return message

    def _is_end(self, message: Message, partition: TopicPartition, offset: int) -> bool:
        """Whether a message is the end of what is read from an offset on. Raises BusError for any
        other that is no record."""
        error = message.error()
        if error is None:
            return False
        if error.code() == KafkaError._PARTITION_EOF:
            return True
        if error.code() == KafkaError._AUTO_OFFSET_RESET:
            raise BusUnavailable(
                f"Kafka at {self._servers} holds no record of {partition} at offset {offset}"
            )
        raise self._unavailable(KafkaException(error))

    def ahead(self, offsets: Mapping[TopicPartition, int]) -> tuple[int, int]:
        """The number of offsets from these to the ends, and the mean size in bytes of the next
        values in the partition with the most of them; 0 where it has only a few. Raises
        BusUnavailable."""
        counts: dict[TopicPartition, int] = {}
        for partition, offset in offsets.items():
            _, high = self.bounds(partition)
            counts[partition] = high - offset
        longest = max(counts, key=counts.__getitem__)
        if counts[longest] < SAMPLE_RECORDS:
            return sum(counts.values()), 0
        sizes = self._sample_sizes(longest, offsets[longest])
        return sum(counts.values()), sum(sizes) // max(1, len(sizes))

    def _sample_sizes(self, partition: TopicPartition, offset: int) -> list[int]:
        sizes: list[int] = []
        self._consumer.assign([confluent_kafka.TopicPartition(*partition, offset)])
        until = monotonic() + self._ask_seconds
        while len(sizes) < SAMPLE_RECORDS:
            message = self._polled(self._consumer, until)
            if message is None or message.error() is not None:
                break
            sizes.append(len(message.value() or b""))
        self._consumer.unassign()
        return sizes

    def _unavailable(self, error: KafkaException) -> BusError:
        return self._refusals.unanswered(self._consumer, self._servers, error)


def partitions_of(task: LoadTask, logs: TopicLogs, topic: str) -> list[TopicPartition]:
    """The partitions of a topic that the task reads. Raises ConfigError when a chosen one does
    not exist."""
    numbers = chosen_partitions(task.source, topic, logs.partitions(topic))
    return list(map(partial(TopicPartition, topic), numbers))


def partitions_read(task: LoadTask, logs: TopicLogs) -> list[TopicPartition]:
    """The partitions of all topics that the task reads. Raises as `partitions_of`."""
    found: list[TopicPartition] = []
    for topic in task.source.topics:
        found += partitions_of(task, logs, topic)
    return found


def chosen_partitions(source: TopicConfig, topic: str, partitions: Sequence[int]) -> Sequence[int]:
    """The numbers of those of a topic's partitions that the task reads. Raises ConfigError when a
    chosen one does not exist."""
    missing = [str(chosen) for chosen in source.partitions if chosen not in partitions]
    if missing:
        raise ConfigError(
            f"consumer.source.partition: topic {topic} has no partition {', '.join(missing)}, "
            f"only 0 to {partitions[-1]}"
        )
    return source.partitions or partitions


def _record_in(message: Message) -> tuple[int, int, bytes | None]:
    """A record's offset, time of arrival in Kafka in epoch milliseconds, and value."""
    _, came_ms = message.timestamp()
    return int(message.offset() or 0), came_ms, message.value()
