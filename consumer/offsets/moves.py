"""Finds rows that have left their partition although their record keys are in order: partitions
were added to a topic, or a fetch task sends a table to another topic."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from cdcbus.consumer.config import LoadTask
from cdcbus.consumer.offsets.topic_logs import LogRecord, TopicLogs
from cdcbus.plugins.contracts import Converter
from cdcbus.plugins.epoch import epochs
from cdcbus.plugins.errors import DataError
from cdcbus.plugins.kafka.partitioner import murmur2
from cdcbus.plugins.positions import TopicPartition
from cdcbus.plugins.rowchange import TableId

# The number of each partition's records that a start looks at.
MOST_RECORDS = 100
# Maxwell chooses partitions by other hashes than Kafka's, and not by the whole key.
MAXWELL = b'{"database":'


@dataclass(frozen=True, slots=True)
class FirstRecords:
    """The records with which a start begins, in order in each partition. `counts`: how many
    partitions each of their topics has."""

    records: Sequence[LogRecord] = ()
    counts: Mapping[str, int] = field(default_factory=dict)

    def grown_topic(self) -> str | None:
        """A topic with records from a time when it had fewer partitions; None where there is
        none."""
        keys: dict[str, set[tuple[int, bytes]]] = {}
        for record in self.records:
            if record.key and not record.key.startswith(MAXWELL):
                topic, number = record.partition
                keys.setdefault(topic, set()).add((number, record.key))
        for topic, found in keys.items():
            if _has_grown(found, self.counts[topic]):
                return topic
        return None


ReadFirst = Callable[[Mapping[TopicPartition, int]], FirstRecords]
"""Reads the first records of partitions, given the offsets at which they resume."""


def no_records(_offsets: Mapping[TopicPartition, int]) -> FirstRecords:
    """A ReadFirst that returns none."""
    return FirstRecords()


def begins_anew(starts: Mapping[TopicPartition, int], known: Mapping[TopicPartition, int]) -> bool:
    """Whether a partition is read for the first time, or again. `known`: how far partitions have
    been read."""
    for partition, offset in starts.items():
        if partition not in known or offset < known[partition]:
            return True
    return False


def read_first(task: LoadTask, offsets: Mapping[TopicPartition, int]) -> FirstRecords:
    """Reads them from Kafka; those that do not arrive in time are left out. Raises BusError."""
    counts: dict[str, int] = {}
    with TopicLogs(task) as logs:
        for topic in sorted({partition.topic for partition in offsets}):
            counts[topic] = len(logs.partitions(topic))
        if len(offsets) == 1:
            return FirstRecords(counts=counts)
        return FirstRecords(logs.after(offsets, MOST_RECORDS), counts)


def _has_grown(keys: Iterable[tuple[int, bytes]], count: int) -> bool:
    """Whether keys are in the partitions of a smaller number than `count`. False where one is in a
    partition that Kafka's hash chooses for no number up to that: the writer uses another one."""
    is_elsewhere = False
    for number, key in keys:
        hashed = murmur2(key) & 0x7FFFFFFF
        if hashed % count == number:
            continue
        # All keys fit partition 0 of one, which only the other partitions can refute.
        if all(hashed % fewer != number for fewer in range(number + 1, count)):
            return False
        is_elsewhere = True
    return is_elsewhere


def writer_of(value: bytes, converter: Converter, name: str) -> str:
    """Who wrote a record: the fetch task, else the source's server; empty where it says neither.
    Tables of one name from several sources are not one table that has moved."""
    found = epochs(pa.array([value], pa.binary()), name)
    if found is not None:
        _, _, fetch_task = found[0].as_py().decode().partition("-")
        return str(fetch_task)
    try:
        changes = converter.from_bytes(value)
    except DataError:
        return ""
    server_id = changes[0].origin.server_id if changes else 0
    return f"server {server_id}" if server_id else ""


class TableTopics:
    """The topics from which each source table came, as far as known. Thread-safe."""

    def __init__(self, converter: Converter, name: str) -> None:
        self._converter = converter
        self._name = name
        self._looked_at: set[tuple[TableId, str]] = set()
        self._topics: dict[tuple[TableId, str], str] = {}

    def other(self, table: TableId, topic: str, value: bytes) -> str | None:
        """The other topic into which the writer of this record has put the same table; None where
        none is known, and from the second call for a topic on."""
        if (table, topic) in self._looked_at:
            return None
        self._looked_at.add((table, topic))
        writer = writer_of(value, self._converter, self._name)
        if not writer:
            return None
        first = self._topics.setdefault((table, writer), topic)
        return None if first == topic else first
