"""Finds what other partitions can still bring to one that waits for them, and which records it
still holds itself."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from itertools import islice
from threading import Event
from time import monotonic
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
# After this time the next records of all partitions are read again for the next one that waits: a
# partition that had none can get some meanwhile.
HEADS_SECONDS = 5.0
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


def low_watermarks_of(
    task: LoadTask,
    waiting: Sequence[TopicPartition],
    next_offsets: Mapping[TopicPartition, int],
    arrivals: ArrivalClock,
) -> dict[TopicPartition, int]:
    """The cross-partition low watermark of each waiting partition: the offset before which changes
    in other partitions can no longer help. Their remaining records are of later changes, or they
    have been read to their end IN_FLIGHT_SECONDS after the partition's records arrived in Kafka. 0
    where the task does not read all partitions, so that it cannot know. Raises BusError.

    Two records that arrive in Kafka in the same millisecond have no order by that: a changed key is
    a delete in one partition and an insert in another.
    """
    converter = task.reader
    with TopicLogs(task, fetches_one=True) as logs:
        partitions = logs.all_partitions()
        if not next_offsets.keys() >= {*waiting, *partitions}:
            return dict.fromkeys(waiting, 0)
        found: dict[TopicPartition, int] = {}
        heads: dict[TopicPartition, _Head] = {}
        read_at = 0.0
        for partition in waiting:
            others = [other for other in partitions if other != partition]
            if not others:
                found[partition] = logs.bounds(partition)[1]
                continue
            if not found or monotonic() - read_at > HEADS_SECONDS:
                read_at = monotonic()
                records = _next_records(task, logs, partitions, next_offsets)
                heads = {}
                for other, (_, came_ms, value) in records.items():
                    heads[other] = _head_of(converter, other, came_ms, value)
            watermark = next_offsets[partition]
            for offset, came_ms, value in islice(logs.records(partition, watermark), MOST_RECORDS):
                arrivals.saw(came_ms)
                own = _head_of(converter, partition, came_ms, value)
                if not all(_is_beyond(heads.get(other), own, arrivals) for other in others):
                    break
                watermark = offset + 1
            found[partition] = watermark
    return found


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


def _next_records(
    task: LoadTask,
    logs: TopicLogs,
    partitions: Iterable[TopicPartition],
    next_offsets: Mapping[TopicPartition, int],
) -> dict[TopicPartition, tuple[int, int, bytes | None]]:
    """The next record of each partition as `TopicLogs.next_records` gives them."""
    offsets: dict[TopicPartition, int] = {}
    for partition in partitions:
        offset = next_offsets[partition]
        if not is_beyond(task, offset):
            offsets[partition] = offset
    return logs.next_records(offsets)


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
    with TopicLogs(task, fetches_one=True) as logs:
        partitions = logs.all_partitions()
        if not next_offsets.keys() >= set(partitions):
            return 0
        for _, came_ms, _ in _next_records(task, logs, partitions, next_offsets).values():
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
    with TopicLogs(task, fetches_one=True) as logs:
        lows = {partition: logs.bounds(partition)[0] for partition in added}
        first = _next_records(task, logs, lows, lows)
    since = [came_ms - NEAR_MS for _, came_ms, _ in first.values()]
    if not since:
        return
    with TopicLogs(task) as logs:
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
