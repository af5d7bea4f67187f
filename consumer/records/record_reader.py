"""Reads records from Kafka again: the originals of dead letters, or all records of a topic."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import groupby
from operator import itemgetter
from time import monotonic
from typing import Any, Final

import confluent_kafka
from confluent_kafka import Consumer, KafkaError, KafkaException, Message

from cdcbus.consumer.offsets.kafka_client import LARGEST_BYTES
from cdcbus.consumer.records.dead_letters import DeadLetter
from cdcbus.plugins.errors import BusError, BusUnavailable
from cdcbus.plugins.kafka.client.errors import Refusals, topic_error
from cdcbus.plugins.kafka.client.making import make_client
from cdcbus.plugins.positions import TopicPartition

WAIT_SECONDS: Final = 30.0
# Skipping this much is cheaper than a seek, as one fetch returns as much anyway.
NEAR_BYTES: Final = 1 << 20
# The cost of skipping a record in addition to its bytes, as small ones take time, too.
SKIP_BYTES: Final = 1024


class RecordReader:
    """Reads records with a new client for each use."""

    def __init__(self, options: Mapping[str, Any], servers: str) -> None:
        """`options`: settings of the Kafka client, including its group."""
        self._options = options
        self._servers = servers
        # Those of the last client.
        self._refusals = Refusals()

    @contextmanager
    def consumer(self) -> Iterator[Consumer]:
        """A client for `read`, one at a time."""
        self._refusals = Refusals()
        options = {
            **self._options,
            "error_cb": self._refusals,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            # A seek waits for a fetch in progress, also for one at a partition's end.
            "fetch.wait.max.ms": 10,
            "receive.message.max.bytes": LARGEST_BYTES,
        }
        consumer = make_client(Consumer, options)
        try:
            yield consumer
        finally:
            consumer.close()

    def originals(self, dead_letters: Sequence[DeadLetter]) -> list[Message]:
        """The original records, in the dead letters' order. Raises BusError where Kafka no longer
        holds one."""
        found: dict[str, Message] = {}
        by_record = {dead_letter.record: dead_letter for dead_letter in dead_letters}
        ordered = sorted(by_record.values())
        with self.consumer() as consumer:
            for _, of_partition in groupby(ordered, key=itemgetter(0, 1)):
                found |= self._originals_of(consumer, of_partition)
        return [found[dead_letter.record] for dead_letter in dead_letters]

    def _originals_of(
        self, consumer: Consumer, dead_letters: Iterable[DeadLetter]
    ) -> dict[str, Message]:
        """The original records of dead letters of one partition, by `record`. The letters are
        ordered by offset. Reads on from one letter to the next where they are near each other, as a
        seek costs a fetch."""
        found: dict[str, Message] = {}
        records: Iterator[Message] = iter(())
        for dead_letter in dead_letters:
            message = _skip_to(records, dead_letter.offset)
            if message is None:
                topic, number, offset = dead_letter[:3]
                consumer.assign([confluent_kafka.TopicPartition(topic, number, offset)])
                records = self.read(consumer, topic)
                message = next(records, None)
            if message is None or message.offset() != dead_letter.offset:
                raise BusUnavailable(
                    f"record {dead_letter.record}, a dead letter, cannot be read once more from "
                    f"Kafka at {self._servers}"
                )
            found[dead_letter.record] = message
        return found

    def all_records(self, topic: str) -> Iterator[Message]:
        """Every record of a topic, partition by partition; none where there is no such topic.
        Raises BusError."""
        with self.consumer() as consumer:
            try:
                found = consumer.list_topics(topic, timeout=WAIT_SECONDS).topics[topic]
                if found.error is not None:
                    if found.error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                        return
                    raise topic_error(self._servers, topic, found.error) or BusError(
                        f"Kafka topic {topic} at {self._servers}: {found.error.str()}"
                    )
                for number in found.partitions:
                    consumer.assign([confluent_kafka.TopicPartition(topic, number, 0)])
                    yield from self.read(consumer, topic)
            except KafkaException as error:
                raise self._refusals.unanswered(consumer, self._servers, error) from error

    def bounds(self, consumer: Consumer, partition: TopicPartition) -> tuple[int, int]:
        """The first offset that Kafka holds, and the end offset. Raises BusError."""
        asked = confluent_kafka.TopicPartition(*partition)
        try:
            low, high = consumer.get_watermark_offsets(asked, timeout=WAIT_SECONDS)
        except KafkaException as error:
            raise self._refusals.unanswered(consumer, self._servers, error) from error
        return low, high

    def read(self, consumer: Consumer, topic: str) -> Iterator[Message]:
        """Yields the records of the assigned partition up to its end. Raises BusError, also where
        none arrives for WAIT_SECONDS."""
        deadline = monotonic() + WAIT_SECONDS
        while True:
            message = consumer.poll(max(0.0, deadline - monotonic()))
            if message is None:
                raise BusUnavailable(
                    f"topic {topic} at {self._servers} cannot be read to its end within "
                    f"{WAIT_SECONDS:g} s"
                )
            error = message.error()
            if error is None:
                deadline = monotonic() + WAIT_SECONDS
                yield message
            # Without the topic there are no dead letters yet.
            elif error.code() in (KafkaError._PARTITION_EOF, KafkaError.UNKNOWN_TOPIC_OR_PART):
                return
            else:
                raise self._refusals.unanswered(consumer, self._servers, KafkaException(error))


def _skip_to(records: Iterator[Message], offset: int) -> Message | None:
    """The first record at or after an offset; None where it is not near."""
    skipped = 0
    for message in records:
        if (message.offset() or 0) >= offset:
            return message
        skipped += SKIP_BYTES + len(message)
        if skipped > NEAR_BYTES:
            break
    return None
