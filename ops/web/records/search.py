"""Searches a topic for row changes, from a time or an offset on, within limits; the next search can
begin where one ends."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from cdcbus.ops.services.row_view import is_wanted, key_text
from cdcbus.ops.web.answers import Refused
from cdcbus.ops.web.cells import FoundCell, cells_side_by_side
from cdcbus.plugins.contracts import Converter
from cdcbus.plugins.errors import ConversionError
from cdcbus.plugins.kafka.topic_log import Access, KafkaRecord, TopicLog, first_offsets, unread
from cdcbus.plugins.registry import make_converter
from cdcbus.plugins.rowchange import RowChange
from cdcbus.tasks.config.diagnostics import printable

FOUND = 100  # row changes of one look, at most
LOOKED = 50_000  # records of one look, at most
LOOK_SECONDS = 8.0


@dataclass(frozen=True, slots=True)
class Sought:
    """What is searched for; empty: anything. `text`: in a cell, before or after, any case. `since`,
    `until`: when records came into Kafka, epoch milliseconds."""

    tables: Sequence[str] = ()
    key: str = ""
    op: str = ""
    text: str = ""
    since: int | None = None
    until: int | None = None

    @property
    def takes_all(self) -> bool:
        return not (self.tables or self.key or self.op or self.text)

    def fits(self, record: KafkaRecord, change: RowChange) -> bool:
        ops = (self.op.lower(),) if self.op else ()
        if not is_wanted(record, change, self.tables, self.key or None, ops):
            return False
        return not self.text or _holds(change, self.text.casefold())


@dataclass(frozen=True, slots=True)
class Found:
    """A row change that matches, or a record that cannot be read (then `op` is empty)."""

    partition: int
    offset: int
    time_ms: int
    key: str
    op: str
    table: str
    cells: Sequence[FoundCell] = ()
    unreadable: str = ""


@dataclass(frozen=True, slots=True)
class Look:
    """`looked`: records read; `unreadable`: how many of them could not be decoded, and so were not
    searched. `rest`: where the next look begins, by partition; empty where nothing is left."""

    found: Sequence[Found]
    looked: int
    unreadable: int = 0
    rest: Mapping[int, int] = field(default_factory=dict)


def look(access: Access, topic: str, sought: Sought, starts: Mapping[int, int]) -> Look:
    """The first row changes from `starts` on; a partition that is not named begins at `since`, else
    at its beginning. With `starts` only the partitions that they name. Raises BusError."""
    converter = make_converter(access.converter, access.time_zone)
    found: list[Found] = []
    looked = unreadable = 0
    end = time.monotonic() + LOOK_SECONDS
    with TopicLog(access) as log:
        bounds = log.bounds(topic)
        begin = _beginnings(log, topic, sought, starts, bounds)
        ends = {number: bounds[number][1] for number in begin}
        if sought.until is not None:
            # The first offset after `until`: records of that very millisecond belong to it.
            for number, offset in log.at_time(topic, sought.until + 1).items():
                if number in ends:
                    ends[number] = min(ends[number], offset)
        rest = unread(begin, ends)
        # A copy, as `rest` changes while the records are read.
        for record in log.records(topic, rest.copy(), ends):
            looked += 1
            rest[record.partition] = record.offset + 1
            if record.value is None:  # a tombstone
                continue
            try:
                found += _found(record, sought, converter)
            except ConversionError as error:
                unreadable += 1
                # With a filter nobody knows whether it fits, so it is only counted.
                if sought.takes_all:
                    found.append(_one(record, "", "", unreadable=printable(str(error))))
            if len(found) >= FOUND or looked >= LOOKED or time.monotonic() > end:
                break
        else:  # all was read, also where a partition's last offsets hold no records
            rest = {}
    rest = unread(rest, ends)
    found.sort(key=lambda each: (each.time_ms, each.partition, each.offset))
    return Look(found, looked, unreadable, rest)


def places_of(text: str) -> dict[int, int]:
    """`0@120 1@7`: partitions and offsets. Raises Refused (422)."""
    places = {}
    for word in text.replace(",", " ").split():
        partition, at, offset = word.partition("@")
        if not (partition.isdecimal() and at and offset.isdecimal()):
            raise Refused(422, f"{word!r} is no place; expected PARTITION@OFFSET, such as 0@120")
        places[int(partition)] = int(offset)
    return places


def places_text(places: Mapping[int, int]) -> str:
    return " ".join(f"{partition}@{offset}" for partition, offset in sorted(places.items()))


def moment(text: str) -> int | None:
    """Epoch milliseconds of `2026-11-26 03:00` or with seconds, UTC unless it has a zone; None for
    none. Raises Refused (422)."""
    if not text.strip():
        return None
    try:
        read = datetime.fromisoformat(text.strip())
    except ValueError as error:
        raise Refused(
            422, f"{text!r} is no time; expected one such as 2026-11-26 03:00, in UTC"
        ) from error
    if read.tzinfo is None:
        read = read.replace(tzinfo=UTC)
    return int(read.timestamp() * 1000)


def _beginnings(
    log: TopicLog,
    topic: str,
    sought: Sought,
    starts: Mapping[int, int],
    bounds: Mapping[int, tuple[int, int]],
) -> dict[int, int]:
    if unknown := starts.keys() - bounds.keys():
        raise Refused(
            422, f"topic {topic} has no partition {min(unknown)}; it has {len(bounds)}, from 0 on"
        )
    if starts:
        begin = {}
        for number, offset in starts.items():
            # Kafka may have deleted records since the address was made.
            low, end = bounds[number]
            begin[number] = min(max(offset, low), end)
        return begin
    if sought.since is not None:
        return log.at_time(topic, sought.since)
    return first_offsets(bounds)


def _found(record: KafkaRecord, sought: Sought, converter: Converter) -> list[Found]:
    """Raises ConversionError."""
    found = []
    for change in converter.from_bytes(record.value or b""):
        if sought.fits(record, change):
            table = printable(str(change.table.id))
            found.append(_one(record, change.op.value, table, cells_side_by_side(change)))
    return found


def _one(
    record: KafkaRecord,
    op: str,
    table: str,
    cells: Sequence[FoundCell] = (),
    unreadable: str = "",
) -> Found:
    place = record.partition, record.offset, record.time_ms
    return Found(*place, key_text(record), op, table, cells, unreadable)


def _holds(change: RowChange, text: str) -> bool:
    for row in (change.before, change.after):
        for cell in (row or {}).values():
            if cell is not None and text in cell.casefold():
                return True
    return False
