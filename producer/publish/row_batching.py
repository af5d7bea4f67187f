"""Joins the rows of one binlog event that go to the same partition into records of many rows.
Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from cdcbus.plugins.kafka.partitioner import partition_of
from cdcbus.plugins.kafka.record_key import Record


class RecordLimits(NamedTuple):
    """The number of partitions of a topic, and the most rows and bytes of a record with several
    rows."""

    partitions: int
    most_rows: int
    most_bytes: int


@dataclass(slots=True)
class _Open:
    """Records of a partition to be joined into one."""

    records: list[Record] = field(default_factory=list)
    size_bytes: int = 0


def many_rows(
    records: Sequence[Record], limits: RecordLimits, join: Callable[[Sequence[bytes]], bytes]
) -> list[Record]:
    """Joins the records of an event into records of many rows, within the limits; in each partition
    the rows keep their order. The plain reference of the compiled part (`Plan.join`).

    Joined records have no key. Records with headers, as of a changed key, and larger ones are left
    unchanged. Each names the partition of its keys: the client must not choose, as it may learn of
    new partitions between two records.
    """
    partitions, most_rows, most_bytes = limits
    made: list[Record] = []
    waiting: dict[int, _Open] = {}

    def close(partition: int) -> None:
        some = waiting.pop(partition, _Open()).records
        if len(some) > 1:
            made.append(
                {
                    "key": None,
                    "value": join([record["value"] for record in some]),
                    "partition": partition,
                }
            )
        else:
            made.extend({**record, "partition": partition} for record in some)

    for record in records:
        partition, size_bytes = partition_of(record["key"], partitions), len(record["value"])
        current = waiting.get(partition)
        # More than key and value: it has headers.
        is_alone = len(record) > 2 or size_bytes > most_bytes
        if current and (
            is_alone
            or len(current.records) == most_rows
            or current.size_bytes + size_bytes > most_bytes
        ):
            close(partition)
        if is_alone:
            made.append({**record, "partition": partition})
            continue
        current = waiting.setdefault(partition, _Open())
        current.records.append(record)
        current.size_bytes += size_bytes
    for partition in sorted(waiting):
        close(partition)
    return made
