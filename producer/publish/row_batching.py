"""Joins the rows of one binlog event that go to the same partition into records of many rows.
Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from cdcbus.plugins.kafka.partitioner import partition_of
from cdcbus.plugins.kafka.record_key import Record


@dataclass(slots=True)
class _Open:
    """Records of a partition to be joined into one."""

    records: list[Record] = field(default_factory=list)
    size_bytes: int = 0


def many_rows(
    records: Sequence[Record],
    partitions: int,
    most_rows: int,
    most_bytes: int,
    join: Callable[[Sequence[bytes]], bytes],
) -> list[Record]:
    """Joins the records of an event into records of at most `most_rows` rows and `most_bytes`
    bytes; in each partition the rows keep their order.

    Joined records have no key. Records with headers, as of a changed key, and larger ones are left
    unchanged. Each names the partition of its keys: the client must not choose, as it may learn of
    new partitions between two records.
    """
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
    for partition in list(waiting):
        close(partition)
    return made
