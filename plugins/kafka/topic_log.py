"""Looks into Kafka topics: bounds, times, records. Commits nothing and joins no group."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from time import monotonic
from types import TracebackType
from typing import Any, cast

import confluent_kafka
from confluent_kafka import Consumer, KafkaError, KafkaException, Message

from cdcbus.plugins.errors import BusError, BusRejected
from cdcbus.plugins.kafka.client.errors import LIBRARY_LOG, Refusals, topic_error
from cdcbus.plugins.kafka.client.making import make_client
from cdcbus.plugins.kafka.client.options import Client, client_options
from cdcbus.plugins.kafka.config import PublishConfig

ANSWER_SECONDS = 4.0


@dataclass(frozen=True, slots=True)
class Access:
    """How to reach Kafka, and how its records are read. `options` are librdkafka's."""

    servers: str
    options: Mapping[str, str]
    converter: str
    time_zone: str = ""


@dataclass(frozen=True, slots=True)
class KafkaRecord:
    """One record. `time_ms`: epoch milliseconds, 0 where it has none."""

    partition: int
    offset: int
    time_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


def access_to(config: PublishConfig) -> Access:
    """How to read what is written with this configuration."""
    options = client_options(config.kafka_options, Client.LOOK_UP, lambda _option, _sentence: None)
    return Access(config.servers, options, config.converter)


class TopicLog:
    """Reads from a Kafka cluster. A context manager. All methods raise BusRejected or
    BusUnavailable, within a few seconds."""

    def __init__(self, access: Access) -> None:
        self._servers = access.servers
        self._refusals = Refusals()
        fixed = {
            "bootstrap.servers": access.servers,
            # librdkafka needs a group also to read partitions that were assigned by hand.
            "group.id": "cdcbus-look",
            "enable.auto.commit": False,
            # Records that expire just then are left out; by default, all others would be as well.
            "auto.offset.reset": "earliest",
            # `records` ends by it in compacted topics.
            "enable.partition.eof": True,
        }
        own: dict[str, Any] = {
            "error_cb": self._refusals,
            "logger": LIBRARY_LOG,
            # A look must not create the topic that it asks for.
            "allow.auto.create.topics": False,
        }
        self._consumer = make_client(Consumer, {**access.options, **fixed, **own})

    def __enter__(self) -> TopicLog:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._consumer.close()

    def topics(self) -> dict[str, tuple[int, int]]:
        """Topic -> partitions, replicas of each; without Kafka's internal topics."""
        try:
            found = self._consumer.list_topics(timeout=ANSWER_SECONDS).topics
        except KafkaException as error:
            raise self._unanswered(error) from error
        topics = {}
        for name, topic in sorted(found.items()):
            if name.startswith("__"):
                continue
            replicas = [len(partition.replicas) for partition in topic.partitions.values()]
            topics[name] = (len(topic.partitions), min(replicas, default=0))
        return topics

    def partitions(self, topic: str) -> list[int]:
        """The topic's partition numbers."""
        try:
            found = self._consumer.list_topics(topic, timeout=ANSWER_SECONDS).topics[topic]
        except KafkaException as error:
            raise self._unanswered(error) from error
        if found.error is not None:
            raise topic_error(self._servers, topic, found.error) or BusRejected(
                f"Kafka topic {topic} at {self._servers}: {found.error.str()}; `cdcbus topic "
                "list` names the existing ones"
            )
        return sorted(found.partitions)

    def bounds(self, topic: str) -> dict[int, tuple[int, int]]:
        """Partition -> first offset held, end offset."""
        bounds = {}
        try:
            for number in self.partitions(topic):
                partition = confluent_kafka.TopicPartition(topic, number)
                bounds[number] = self._consumer.get_watermark_offsets(
                    partition, timeout=ANSWER_SECONDS
                )
            return bounds
        except KafkaException as error:
            raise self._unanswered(error) from error

    def at_time(self, topic: str, epoch_ms: int) -> dict[int, int]:
        """Partition -> the first offset at or after a time; the end offset where every record is
        older."""
        bounds = self.bounds(topic)
        try:
            found = self._consumer.offsets_for_times(
                # `offsets_for_times` takes the time in place of the offset.
                [confluent_kafka.TopicPartition(topic, p, epoch_ms) for p in bounds],
                timeout=ANSWER_SECONDS,
            )
        except KafkaException as error:
            raise self._unanswered(error) from error
        offsets = {}
        for each in found:
            offset = each.offset
            # Negative: no record is as new as that.
            if offset < 0:
                _, offset = bounds[each.partition]
            offsets[each.partition] = offset
        return offsets

    def newest(self, topic: str, count: int) -> list[KafkaRecord]:
        """The records at the last `count` offsets of each partition, by partition and offset."""
        bounds = self.bounds(topic)
        starts = {}
        for number, (low, end) in bounds.items():
            starts[number] = max(low, end - count)
        found = self.records(topic, starts, end_offsets(bounds))
        return sorted(found, key=lambda record: (record.partition, record.offset))

    def records(
        self, topic: str, starts: Mapping[int, int], ends: Mapping[int, int] | None
    ) -> Iterator[KafkaRecord]:
        """The records from `starts` on, in order within a partition, up to `ends`; None: without
        end, also new ones."""
        left = dict(starts)
        if ends is not None:
            left = unread(starts, ends)
        assigned = []
        for number, offset in sorted(left.items()):
            assigned.append(confluent_kafka.TopicPartition(topic, number, offset))
        self._consumer.assign(assigned)
        deadline = monotonic() + ANSWER_SECONDS
        while left:
            message = self._consumer.poll(0.2)
            if message is None:
                # Without an end there is always a next record to wait for.
                if ends is not None and monotonic() > deadline:
                    raise self._unanswered(KafkaException(KafkaError(KafkaError._TIMED_OUT)))
                continue
            # Kafka answers, so the time to wait begins again.
            deadline = monotonic() + ANSWER_SECONDS
            partition = message.partition() or 0
            offset = message.offset() or 0
            error = message.error()
            if error is not None and error.code() != KafkaError._PARTITION_EOF:
                raise self._unanswered(KafkaException(error))
            is_end = error is not None
            if ends is None:
                if not is_end:
                    yield _record(message)
                continue
            if not is_end and partition in left and offset < ends[partition]:
                yield _record(message)
            # A compacted topic may have no record at the offset before the end: then Kafka reports
            # the end of the partition.
            if is_end or offset + 1 >= ends[partition]:
                left.pop(partition, None)
        self._consumer.unassign()

    def _unanswered(self, error: KafkaException) -> BusError:
        return self._refusals.unanswered(self._consumer, self._servers, error)


def _record(message: Message) -> KafkaRecord:
    # librdkafka reports -1 for a record without a time.
    time_ms = max(0, message.timestamp()[1])
    given = cast("list[tuple[str, bytes | None]]", message.headers() or [])
    headers = tuple((name, _bytes(value)) for name, value in given)
    return KafkaRecord(
        message.partition() or 0,
        message.offset() or 0,
        time_ms,
        _bytes(message.key()),
        _bytes(message.value()),
        headers,
    )


def _bytes(value: str | bytes | None) -> bytes | None:
    if isinstance(value, str):
        return value.encode()
    return value


def first_offsets(bounds: Mapping[int, tuple[int, int]]) -> dict[int, int]:
    """Partition -> the first offset held, of what `TopicLog.bounds` returns."""
    return {number: low for number, (low, _) in bounds.items()}


def end_offsets(bounds: Mapping[int, tuple[int, int]]) -> dict[int, int]:
    """Partition -> the end offset, of what `TopicLog.bounds` returns."""
    return {number: end for number, (_, end) in bounds.items()}


def unread(offsets: Mapping[int, int], ends: Mapping[int, int]) -> dict[int, int]:
    """The partitions whose offset is before their end."""
    return {number: offset for number, offset in offsets.items() if offset < ends[number]}


def first_times(
    log: TopicLog, topic: str, offsets: Mapping[int, int], ends: Mapping[int, int]
) -> dict[int, int]:
    """Partition -> when the record at an offset, or the next one after it and before the end, was
    written (epoch milliseconds)."""
    found: dict[int, int] = {}
    for partition, offset in offsets.items():
        first = next(log.records(topic, {partition: offset}, ends), None)
        if first is not None:
            found[partition] = first.time_ms
    return found
