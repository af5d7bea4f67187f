"""The text that records of one table, operation and column set share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from cdcbus.plugins.contracts import Converter
from cdcbus.plugins.converters.arrow.wire import Wire
from cdcbus.plugins.errors import ConversionError
from cdcbus.plugins.rowchange import Op, Row, RowChange

# JSON text contains no raw control characters, so they can serve as marks.
SLOT: Final = b"\x00"
TEXT_SLOT: Final = b'"' + SLOT + b'"'
# A number or truth value with the characters beside it, as cut at quotation marks.
NUMBER: Final = "^:(-?(0|[1-9][0-9]*)|true|false),$"


@dataclass(frozen=True, slots=True)
class Placeholder:
    """A part that differs between records: the value of a member, or, where the member is an image,
    one of its cells."""

    member: str
    column: str | None
    is_text: bool


@dataclass(frozen=True, slots=True)
class Shape:
    """The text of records that differ only in placeholders: `start`, the placeholders with `texts`
    between them, `end`.

    Where `stamp_bytes` is not 0, `before_stamp` and a number of that length, which is never read,
    come before `end`. All these texts begin and end with quotation marks: other characters beside a
    number belong to the number.
    """

    # The change of one such record.
    change: RowChange
    placeholders: tuple[Placeholder, ...]
    start: bytes
    texts: tuple[bytes, ...]
    before_stamp: bytes
    stamp_bytes: int
    end: bytes

    @property
    def bytes_after_slots(self) -> int:
        """The number of bytes after a record's last placeholder."""
        return len(self.before_stamp) + self.stamp_bytes + len(self.end)

    def image(
        self, row: Row | None, members: tuple[str, ...], cells: Sequence[pa.Array]
    ) -> dict[str, pa.Array] | None:
        """A row's columns. The cells are in the order of the placeholders."""
        if row is None:
            return None
        found: dict[str | None, pa.Array] = {}
        # The first of two members with the same column counts: it comes last, and overwrites.
        for member in reversed(members):
            for placeholder, cell in zip(self.placeholders, cells, strict=True):
                if placeholder.member == member:
                    found[placeholder.column] = cell
        return {name: found[name] for name in row}

    def is_like(self, values: pa.BinaryArray) -> pa.BooleanArray:
        """Whether records have this start and end: a quick check."""
        return pc.and_(pc.starts_with(values, self.start), pc.ends_with(values, self.end))

    def encloses(self, values: pa.BinaryArray) -> pa.BooleanArray:
        """Whether records have the shape before their first placeholder and after their last."""
        if not self.stamp_bytes:
            return self.is_like(values)
        # Counted from a record's end: `before_stamp`, the stamp, `end`.
        stamp = -self.stamp_bytes - len(self.end)
        before = pc.binary_slice(values, -self.bytes_after_slots, stamp)
        stamps = pc.binary_slice(values, stamp, -len(self.end))
        is_stamped = pc.and_(
            pc.starts_with(before, self.before_stamp),
            pc.match_substring_regex(stamps, NUMBER),
        )
        return pc.and_(self.is_like(values), is_stamped)


def read_shape(record: bytes, reader: Converter, wire: Wire) -> Shape | None:
    """The shape of a record; None where `from_bytes` does more than take its cells unchanged.

    `{"data":[{"id":"7"}],"es":17,"type":"INSERT"}` has the placeholders `7` and `:17,`. It starts
    with `{"data":[{"id":"`; between the two is `"}],"es"`; and it ends with `"type":"INSERT"}`.
    """
    try:
        changes = reader.from_bytes(record)
        message = orjson.loads(record)
    except (ConversionError, ValueError):
        return None
    if len(changes) != 1 or changes[0].op is Op.TRUNCATE or not wire.is_plain(message):
        return None
    placeholders = _put_placeholders(message, wire)
    for placeholder in placeholders:
        if placeholder.column is not None and not placeholder.is_text:
            return None
    if Placeholder(wire.commit, None, wire.is_commit_text) not in placeholders:
        return None
    start, *between, end = _texts_around(orjson.dumps(message), placeholders)
    if len(between) < 2 or not (record.startswith(start) and record.endswith(end)):
        return None
    before_stamp = b""
    stamp_bytes = 0
    if not placeholders[-1].is_text and placeholders[-1].member != wire.commit:
        # The last number is not needed, so it is not cut out: only its form is checked, at its
        # place counted from the record's end.
        placeholders.pop()
        before_stamp = between.pop()
        stamp_bytes = len(record) - len(end) - record.rindex(b'"', 0, -len(end)) - 1
    return Shape(
        changes[0],
        tuple(placeholders),
        start,
        tuple(between),
        before_stamp,
        stamp_bytes,
        end,
    )


def _put_placeholders(message: dict[str, Any], wire: Wire) -> list[Placeholder]:
    """Replaces the parts that differ between records by SLOT, and returns their placeholders, in
    order."""
    placeholders: list[Placeholder] = []

    def slotted(value: Any, member: str, column: str | None = None) -> orjson.Fragment:
        # NULL counts as text, as other records can have a text there, without its quotation marks.
        is_text = value is None or isinstance(value, str)
        placeholders.append(Placeholder(member, column, is_text))
        return orjson.Fragment(TEXT_SLOT if is_text else SLOT)

    def image(value: Any, member: str) -> Any:
        if not value:
            return value
        if isinstance(value, list):
            return [image(row, member) for row in value]
        return {name: slotted(cell, member, name) for name, cell in value.items()}

    for member, value in message.items():
        if member in wire.before or member in wire.after:
            message[member] = image(value, member)
        elif member in wire.varying:
            message[member] = slotted(value, member)
    return placeholders


def _texts_around(message: bytes, placeholders: Sequence[Placeholder]) -> list[bytes]:
    """The texts before, between and after the placeholders. Characters between a number and the
    quotation marks beside it belong to the number."""
    texts = message.split(SLOT)
    for i, placeholder in enumerate(placeholders):
        if not placeholder.is_text:
            before = texts[i]
            after = texts[i + 1]
            texts[i] = before[: before.rindex(b'"') + 1]
            texts[i + 1] = after[after.index(b'"') :]
    return texts
