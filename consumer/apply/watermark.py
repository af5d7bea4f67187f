"""Finds what other partitions can still bring to one that waits for them, and which records it
still holds itself."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import closing
from itertools import islice
from threading import Event
from typing import NamedTuple

import pyarrow as pa

from cdcbus.consumer.apply.lookahead import NotYet
from cdcbus.consumer.apply.row_order import NEAR_MS, is_older, place_of
from cdcbus.consumer.config import LoadTask
from cdcbus.consumer.offsets.topic_logs import TopicLogs
from cdcbus.consumer.records.arrival_clock import IN_FLIGHT_SECONDS, ArrivalClock
from cdcbus.consumer.records.late import KnownEpochs, begun_before
from cdcbus.consumer.records.records import Record, Records
from cdcbus.plugins.contracts import Converter, RowVersion
from cdcbus.plugins.epoch import has_epochs
from cdcbus.plugins.errors import DataError
from cdcbus.plugins.positions import TopicPartition
from cdcbus.plugins.start import Replay

# The number of a waiting partition's records that one call looks at.
MOST_RECORDS = 1000
# The size of the parts in which `read_beside` yields records.
PART_RECORDS = 5000
PART_BYTES = 8 << 20

ReadBeside = Callable[
    [Iterable[TopicPartition], Mapping[TopicPartition, int]],
    Iterable[tuple[TopicPartition, Records]],
]
"""See `read_beside`."""


class _Head(NamedTuple):
    """The next record of a partition: the version and the server of its first change."""

    partition: TopicPartition
    version: RowVersion
    server_id: int


def low_watermark_of(
    task: LoadTask,
    partition: TopicPartition,
    next_offsets: Mapping[TopicPartition, int],
    arrivals: ArrivalClock,
) -> int:
    """The cross-partition low watermark of a partition: the offset before which changes in other
    partitions can no longer help. Their remaining records are of later changes, or they have been
    read to their end IN_FLIGHT_SECONDS after the partition's records arrived in Kafka. 0 where the
    task does not read all partitions, so that it cannot know. Raises BusError.

    Two records that arrive in Kafka in the same millisecond have no order by that: a changed key is
    a delete in one partition and an insert in another.
    """
    converter = task.reader
    with TopicLogs(task) as logs:
        others = [other for other in logs.all_partitions() if other != partition]
        if not others:
            return logs.bounds(partition)[1]
        if not next_offsets.keys() >= {partition, *others}:
            return 0
        heads = [_head(task, converter, logs, other, next_offsets[other]) for other in others]
        watermark = next_offsets[partition]
        for offset, came_ms, value in islice(logs.records(partition, watermark), MOST_RECORDS):
            arrivals.saw(came_ms)
            own = _head_of(converter, partition, came_ms, value)
            if not all(_is_beyond(head, own, arrivals) for head in heads):
                break
            watermark = offset + 1
    return watermark


def _is_beyond(head: _Head | None, own: _Head, arrivals: ArrivalClock) -> bool:
    """Whether another partition, whose next record is `head`, has been read beyond everything
    before `own`. Where the order of the two is undecidable, the one in the first partition counts
    as the earlier one, so that partitions do not wait for each other."""
    if head is None:
        return arrivals.has_all_before(own.version.came_ms)
    one, other = own.version, head.version
    if (own.partition.topic, own.server_id) != (head.partition.topic, head.server_id):
        # They may be of two binlogs, whose places have no common order.
        one, other = one._replace(place=""), other._replace(place="")
    if is_older(one, other):
        return True
    return not is_older(other, one) and own.partition < head.partition


def _head(
    task: LoadTask, converter: Converter, logs: TopicLogs, partition: TopicPartition, offset: int
) -> _Head | None:
    """The next record of a partition; None after the last one."""
    record = _next_record(task, logs, partition, offset)
    if record is None:
        return None
    _, came_ms, value = record
    return _head_of(converter, partition, came_ms, value)


def _next_record(
    task: LoadTask, logs: TopicLogs, partition: TopicPartition, offset: int
) -> tuple[int, int, bytes | None] | None:
    """The next record of a partition as `TopicLogs.next_record` gives it; None after the last
    one."""
    if is_beyond(task, offset):
        return None
    return logs.next_record(partition, offset)


def _head_of(
    converter: Converter, partition: TopicPartition, came_ms: int, value: bytes | None
) -> _Head:
    """The head made of a record; with only the time of arrival where it cannot be read."""
    try:
        changes = converter.from_bytes(value) if value else []
    except DataError:
        changes = []
    if not changes:
        return _Head(partition, RowVersion(came_ms), 0)
    version = RowVersion(came_ms, place_of(changes[0]))
    return _Head(partition, version, changes[0].origin.server_id)


def read_before_ms(
    task: LoadTask, next_offsets: Mapping[TopicPartition, int], arrivals: ArrivalClock
) -> int:
    """The time, in epoch milliseconds, before which no unread record arrived in Kafka, allowing for
    IN_FLIGHT_SECONDS; 0 or less where the task does not read all partitions, or has read nothing
    yet. Raises BusError."""
    before_ms = arrivals.now_ms()
    with TopicLogs(task) as logs:
        partitions = logs.all_partitions()
        if not next_offsets.keys() >= set(partitions):
            return 0
        for partition in partitions:
            record = _next_record(task, logs, partition, next_offsets[partition])
            if record is not None:
                _, came_ms, _ = record
                before_ms = min(before_ms, came_ms)
    return before_ms - int(IN_FLIGHT_SECONDS * 1000)


def read_on(
    task: LoadTask, stop: Event, epochs: KnownEpochs, partition: TopicPartition, offset: int
) -> Iterator[Record]:
    """Yields the records of a partition from an offset up to its present end, or to the end of a
    bounded replay. Skips those that came too late: they will be left out, so they make no earlier
    change obsolete. Adds to `epochs` what the records show, for the next call. Raises NotYet where
    a partition is not followed and Kafka does not show in time which these are; BusError, also once
    `stop` is set while records are waited for."""
    with TopicLogs(task, stop=stop) as logs:
        if has_epochs(task.converter) and not epochs.is_followed(partition):
            known, missing = begun_before(logs, {partition: offset}, task.converter, is_start=False)
            if missing:
                raise NotYet(
                    "Kafka does not show in time which records before offset "
                    f"{offset} of {partition} came too late"
                )
            epochs.add(partition, known.get(partition, {}))
        for at, _, value in logs.records(partition, offset):
            if is_beyond(task, at):
                return
            if not epochs.learn(partition, at, value, task.converter):
                yield at, value


def read_beside(
    task: LoadTask, added: Iterable[TopicPartition], known: Mapping[TopicPartition, int]
) -> Iterator[tuple[TopicPartition, Records]]:
    """Yields, in parts, the records that came into `known` partitions, before these offsets, since
    `added` ones have had records. Raises BusError."""
    with TopicLogs(task) as logs:
        since: list[int] = []
        for partition in added:
            low, _ = logs.bounds(partition)
            if first := _next_record(task, logs, partition, low):
                _, came_ms, _ = first
                since.append(came_ms - NEAR_MS)
        if not since:
            return
        for partition, end in known.items():
            begin = logs.at_time(partition, min(since))
            if begin is not None and begin < end:
                for part in _parts(logs.records(partition, begin), end):
                    yield partition, part


def _parts(
    records: Generator[tuple[int, int, bytes | None], None, int], end: int
) -> Iterator[Records]:
    part: list[tuple[int, int, bytes | None]] = []
    bytes_ = 0
    with closing(records):
        for record in records:
            offset, _, value = record
            if offset >= end:
                break
            part.append(record)
            bytes_ += len(value or b"")
            if len(part) >= PART_RECORDS or bytes_ >= PART_BYTES:
                yield _columns(part)
                part = []
                bytes_ = 0
    if part:
        yield _columns(part)


def _columns(records: Iterable[tuple[int, int, bytes | None]]) -> Records:
    offsets, times, values = zip(*records, strict=True)
    return Records(
        pa.array(offsets, pa.int64()),
        pa.array(values, pa.binary()),
        times=pa.array(times, pa.int64()),
    )


def is_beyond(task: LoadTask, offset: int) -> bool:
    """Whether an offset is after the end of a bounded replay."""
    return isinstance(task.start, Replay) and offset > task.start.last
