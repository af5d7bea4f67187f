"""The records of a partition's part of a batch, in offset order: as Arrow columns, and one by
one."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from operator import methodcaller
from typing import overload

import pyarrow as pa
import pyarrow.compute as pc

from cdcbus.plugins.contracts import Landmark
from cdcbus.plugins.positions import TopicPartition

# Offset and value.
Record = tuple[int, bytes | None]
Header = tuple[str, bytes | None]

# The columns of a batch that is read, by the names that Spark gives them.
COLUMNS = ("offset", "value", "headers", "key", "kafka_ms")


class Records(Sequence[Record]):
    """Columns of equal length: offsets (int64); values (binary, null for a tombstone); headers as
    Spark reads them, null for none; keys (binary), None unless the task reads more than one
    partition; and the time when each record arrived in Kafka (int64, epoch milliseconds)."""

    def __init__(
        self,
        offsets: pa.Array,
        values: pa.Array,
        headers: pa.Array | None = None,
        keys: pa.Array | None = None,
        times: pa.Array | None = None,
        read: tuple[pa.Array, pa.Array] | None = None,
    ) -> None:
        """`read`: offsets and times of all records that were read, including those left out
        since."""
        self.offsets = offsets
        self.values = values
        self.headers = pa.nulls(len(offsets)) if headers is None else headers
        self.keys = keys
        self.times = pa.nulls(len(offsets), pa.int64()) if times is None else times
        self._read = read or (self.offsets, self.times)

    @classmethod
    def of(cls, table: pa.Table) -> Records:
        """The records of one partition, from a table that has some of COLUMNS, at least offset and
        value."""
        found: dict[str, pa.Array] = {}
        for name in COLUMNS:
            if name in table.column_names:
                found[name] = pa.concat_arrays(table.column(name).chunks)
        return cls(
            found["offset"],
            found["value"],
            found.get("headers"),
            found.get("key"),
            found.get("kafka_ms"),
        )

    def __len__(self) -> int:
        return len(self.offsets)

    def __iter__(self) -> Iterator[Record]:
        return zip(self.offsets.to_pylist(), self.values.to_pylist(), strict=True)

    @overload
    def __getitem__(self, index: int) -> Record: ...
    @overload
    def __getitem__(self, index: slice) -> Records: ...
    def __getitem__(self, index: int | slice) -> Record | Records:
        if isinstance(index, slice):
            keys = None if self.keys is None else self.keys[index]
            return Records(
                self.offsets[index],
                self.values[index],
                self.headers[index],
                keys,
                self.times[index],
                self._read,
            )
        return self.offsets[index].as_py(), self.values[index].as_py()

    def take(self, places: Sequence[int]) -> Records:
        """The records at these indexes."""
        chosen = pa.array(places, pa.int64())
        keys = None if self.keys is None else self.keys.take(chosen)
        columns = (
            self.offsets.take(chosen),
            self.values.take(chosen),
            self.headers.take(chosen),
            keys,
            self.times.take(chosen),
        )
        return Records(*columns, self._read)

    def header_lists(self) -> Iterator[list[Header]]:
        """The headers of each record."""
        for headers in self.headers.to_pylist():
            yield [(header["key"], header["value"]) for header in headers or ()]

    def before(self, end: int) -> Records:
        """The records with offsets below `end`."""
        return self[: count_before(self.offsets, end)]

    def kafka_times(self) -> tuple[int, int]:
        """When the first and the last of all records read arrived in Kafka, in epoch milliseconds;
        0 where that is unknown."""
        times = pc.min_max(self._read[1]).as_py()
        return max(0, times["min"] or 0), max(0, times["max"] or 0)

    def last_before(self, end: int) -> Landmark | None:
        """The last record read with an offset below `end`, even if it has been left out since."""
        offsets, times = self._read
        count = count_before(offsets, end)
        if not count:
            return None
        came_ms = times[count - 1].as_py()
        if came_ms is None:
            return None
        return Landmark(offsets[count - 1].as_py(), came_ms)


def count_before(offsets: pa.Array, end: int) -> int:
    """The number of these ascending offsets that are below `end`."""
    # Faster than Arrow's comparison with a number, which looks up a module on each call.
    return bisect_left(offsets, end, key=methodcaller("as_py"))


PartitionPart = tuple[TopicPartition, Records, int, int]
"""A partition, its records, the offset where they end, and the version of its stored position."""

NO_RECORDS = Records(pa.array([], pa.int64()), pa.array([], pa.binary()))


def same_in_all(partitions: Iterable[TopicPartition]) -> list[str]:
    """The columns that are the same in every record of these partitions, so no record needs to
    carry them."""
    topics = set[str]()
    numbers = set[int]()
    for topic, number in partitions:
        topics.add(topic)
        numbers.add(number)
    same = []
    if len(topics) == 1:
        same.append("topic")
    if len(numbers) == 1:
        same.append("partition")
    return same


def topic_partition_of(batch: pa.Table, partitions: Iterable[TopicPartition]) -> TopicPartition:
    """The partition of a table's records, which are all of one. A column that the table lacks is
    `same_in_all` of these partitions."""
    topic, number = next(iter(partitions))
    if "topic" in batch.column_names:
        topic = batch.column("topic")[0].as_py()
    if "partition" in batch.column_names:
        number = batch.column("partition")[0].as_py()
    return TopicPartition(topic, number)
