"""Finds dead letters that a replay would put after newer records of their rows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from time import monotonic
from typing import Final, NamedTuple

import confluent_kafka
from confluent_kafka import Consumer

from cdcbus.consumer.records.dead_letters import (
    OpenDeadLetter,
    digest_of,
    origin_of,
    to_bytes,
)
from cdcbus.consumer.records.record_reader import RecordReader
from cdcbus.plugins.positions import TopicPartition

PROGRESS_SECONDS: Final = 5.0


class Newest(NamedTuple):
    """The newest record of a key: the offset at which it first came, and its offset now."""

    origin: int
    offset: int


class PartLog(NamedTuple):
    """What a partition holds of its letters' records. `newest`: the newest record of each letter's
    key, except replays of the letters themselves; `last`: the last offset of each, with these;
    `replays`: the last of these by where the letter's record first came; `digests`: of the records
    at the letters' offsets."""

    newest: dict[bytes | None, Newest]
    last: dict[bytes | None, int]
    replays: dict[int, int]
    digests: dict[int, str]


def find_outdated(
    reader: RecordReader, dead_letters: Iterable[OpenDeadLetter], report: Callable[[str], None]
) -> dict[str, str]:
    """Returns why dead letters are outdated, by their `record`.

    A letter whose record was replayed already counts as outdated, too.

    Reads each partition once, from its oldest letter to its end, and reports progress to `report`.
    Records that are replayed together keep their order. Records that Kafka no longer holds could
    have been newer, and so could all of another log. Raises BusError.
    """
    found: dict[str, str] = {}
    partitions: defaultdict[TopicPartition, list[OpenDeadLetter]] = defaultdict(list)
    for each in dead_letters:
        partition = TopicPartition(each.dead_letter.topic, each.dead_letter.partition)
        partitions[partition].append(each)
    with reader.consumer() as consumer:
        for partition, letters in sorted(partitions.items()):
            begin, end = reader.bounds(consumer, partition)
            log = _read_log(reader, consumer, partition, letters, end, report)
            for each in letters:
                reason = _why_outdated(each, log, begin, end)
                if reason:
                    found[each.dead_letter.record] = reason
    return found


def _read_log(
    reader: RecordReader,
    consumer: Consumer,
    partition: TopicPartition,
    dead_letters: Sequence[OpenDeadLetter],
    end: int,
    report: Callable[[str], None],
) -> PartLog:
    keys = {each.key for each in dead_letters}
    replayed = {each.origin for each in dead_letters}
    offsets = {each.dead_letter.offset for each in dead_letters}
    log = PartLog({}, {}, {}, {})
    reported_at = monotonic()
    consumer.assign([confluent_kafka.TopicPartition(*partition, min(replayed))])
    for message in reader.read(consumer, partition.topic):
        offset = message.offset() or 0
        key = None
        if message.key() is not None:
            key = to_bytes(message.key())
        if offset in offsets:
            log.digests[offset] = digest_of(message.key(), message.value())
        if key in keys:
            record = Newest(origin_of(message), offset)
            log.last[key] = offset
            if record.origin not in replayed:
                log.newest[key] = max(log.newest.get(key, record), record)
            elif record.origin != offset:
                log.replays[record.origin] = offset
        if monotonic() - reported_at > PROGRESS_SECONDS:
            report(f"looking for newer records in {partition}: at offset {offset} of {end}")
            reported_at = monotonic()
    return log


def _why_outdated(letter: OpenDeadLetter, log: PartLog, begin: int, end: int) -> str:
    """The reason why a letter is outdated; empty where its record is known to be the newest of its
    key. The partition has the offsets from `begin` to `end`."""
    partition = TopicPartition(letter.dead_letter.topic, letter.dead_letter.partition)
    offset = letter.dead_letter.offset
    # A crash can leave a letter open whose record was replayed. If that failed again, it has a
    # letter of its own.
    if (again := log.replays.get(letter.origin, offset)) > offset:
        return f"was replayed already, as record {partition.topic}/{partition.partition}/{again}"
    newest = log.newest.get(letter.key)
    if newest is not None and newest.origin > letter.origin:
        record = f"record {partition.topic}/{partition.partition}/{newest.offset}"
        if letter.key is None:
            return f"{record} is newer, and without a key its row is unknown"
        return f"{record} with the same key is newer"
    another_log = "so it is another log than the one that had the record"
    if end <= offset:
        return f"{partition} ends at {end}, {another_log}"
    if log.digests.get(offset, letter.digest) != letter.digest:
        return f"{partition} has another record at {offset}, {another_log}"
    # Compaction removes a record only for a later one of its key, which is not newer: see above.
    is_compacted = letter.key is not None and log.last.get(letter.key, offset) > offset
    if offset >= begin and offset not in log.digests and not is_compacted:
        return (
            f"{partition} has no record at {offset} any more, {another_log}, or newer records are "
            "gone"
        )
    if begin > letter.origin + 1:
        return f"{partition} begins at {begin} by now, and earlier records may have been newer"
    return ""
