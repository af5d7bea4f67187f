"""Row events to row images: the plain reference of the decoding. Pure.

Layout: "Rows_log_event": table id, flags, (version 2: extra data), column count, bitmaps of the
columns present (before, and for updates after), then row images: a null bitmap over the present
columns, then their values.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from pymysqlreplication.constants import BINLOG

from cdcbus.plugins.errors import UnreadableEvent
from cdcbus.plugins.rowchange import Op, Row
from cdcbus.producer.binlog.event_types import packed_integer
from cdcbus.producer.decoding.table import DecodableTable

OPS = {
    BINLOG.WRITE_ROWS_EVENT_V1: Op.INSERT,
    BINLOG.UPDATE_ROWS_EVENT_V1: Op.UPDATE,
    BINLOG.DELETE_ROWS_EVENT_V1: Op.DELETE,
    BINLOG.WRITE_ROWS_EVENT_V2: Op.INSERT,
    BINLOG.UPDATE_ROWS_EVENT_V2: Op.UPDATE,
    BINLOG.DELETE_ROWS_EVENT_V2: Op.DELETE,
}
_WITH_EXTRA_DATA = {
    BINLOG.WRITE_ROWS_EVENT_V2,
    BINLOG.UPDATE_ROWS_EVENT_V2,
    BINLOG.DELETE_ROWS_EVENT_V2,
}

Images = tuple[Row | None, Row | None]


@dataclass(frozen=True, slots=True)
class Layout:
    """The layout of the images of an event's rows: bitmaps of the columns in the first image, and
    in an update's second one (else empty)."""

    op: Op
    first: bytes
    second: bytes


def layout(event_type: int, body: bytes, table: DecodableTable) -> tuple[Layout, int]:
    """Returns the layout of a row event, and where in its body the first row starts. Raises
    UnreadableEvent if it does not fit the table."""
    at = 8
    if event_type in _WITH_EXTRA_DATA:
        at += int.from_bytes(body[8:10], "little")
    try:
        count, at = packed_integer(body, at)
    except (IndexError, KeyError) as error:
        raise _no_rows(table) from error
    if count != len(table.readers):
        raise UnreadableEvent(
            f"table {table.table.id}: the row event has {count} columns, the table "
            f"{len(table.readers)}"
        )
    size = (count + 7) // 8
    op = OPS[event_type]
    first, second, start = body[at : at + size], bytes(size), at + size
    if op is Op.UPDATE:
        second, start = body[start : start + size], start + size
    if start > len(body):
        raise _no_rows(table)
    return Layout(op, first, second), start


def row_images(event_type: int, body: bytes, table: DecodableTable) -> Iterator[Images]:
    """Yields (before, after) of each row, in order. `body` follows the event header, without
    checksum. Raises UnreadableEvent if a row does not fit the table."""
    shape, at = layout(event_type, body, table)
    while at < len(body):
        images, at = images_at(body, at, shape, table)
        yield images


def images_at(body: bytes, at: int, shape: Layout, table: DecodableTable) -> tuple[Images, int]:
    """Returns (before, after) of the row that starts at `at`, and where the next one starts. Raises
    UnreadableEvent."""
    start = at
    try:
        image, at = _image(body, at, shape.first, table)
        second, at = _image(body, at, shape.second, table) if shape.op is Op.UPDATE else (None, at)
    except (struct.error, IndexError) as error:
        raise _too_long(table) from error
    if at > len(body):
        raise _too_long(table)
    if at == start:  # the caller's loop would never end
        raise UnreadableEvent(f"table {table.table.id}: rows without columns")
    if shape.op is Op.INSERT:
        return (None, image), at
    return (image, second), at


def _no_rows(table: DecodableTable) -> UnreadableEvent:
    return UnreadableEvent(f"table {table.table.id}: the row event ends before its first row")


def _too_long(table: DecodableTable) -> UnreadableEvent:
    return UnreadableEvent(
        f"table {table.table.id}: a row is longer than its event; the columns known do not fit it"
    )


def is_set(bitmap: bytes, index: int) -> bool:
    """Whether the bit is set in the bitmap: the lowest bit of each byte comes first."""
    return bool(bitmap[index >> 3] >> (index & 7) & 1)


def present(bitmap: bytes, table: DecodableTable) -> list[int]:
    """The numbers of the columns that an image holds."""
    return [index for index in range(len(table.readers)) if is_set(bitmap, index)]


def _image(body: bytes, at: int, bitmap: bytes, table: DecodableTable) -> tuple[Row, int]:
    columns = present(bitmap, table)
    nulls = body[at : at + (len(columns) + 7) // 8]
    at += len(nulls)
    row: dict[str, str | None] = {}
    for i, index in enumerate(columns):
        column, read = table.columns[index], table.readers[index]
        text = None
        if not is_set(nulls, i):
            text, at = read(body, at)
        if not column.is_hidden:
            row[column.name] = text
    return row, at
