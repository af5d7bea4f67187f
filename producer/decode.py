"""Row events to row images: the plain reference of the decoding. Pure.

Layout: "Rows_log_event": table id, flags, (version 2: extra data), column count, bitmaps of the columns present (before, and for updates
after), then row images: a null bitmap over the present columns, then their values.
"""

from __future__ import annotations

from collections.abc import Iterator

from pymysqlreplication.constants import BINLOG

from cdcbus.plugins.errors import UnreadableEvent
from cdcbus.plugins.rowchange import Op, Row
from cdcbus.producer.columns import Reader
from cdcbus.producer.schema import DecodableTable
from cdcbus.producer.table_map import packed_integer

OPS = {
    BINLOG.WRITE_ROWS_EVENT_V1: Op.INSERT,
    BINLOG.UPDATE_ROWS_EVENT_V1: Op.UPDATE,
    BINLOG.DELETE_ROWS_EVENT_V1: Op.DELETE,
    BINLOG.WRITE_ROWS_EVENT_V2: Op.INSERT,
    BINLOG.UPDATE_ROWS_EVENT_V2: Op.UPDATE,
    BINLOG.DELETE_ROWS_EVENT_V2: Op.DELETE,
}
_WITH_EXTRA_DATA = {BINLOG.WRITE_ROWS_EVENT_V2, BINLOG.UPDATE_ROWS_EVENT_V2, BINLOG.DELETE_ROWS_EVENT_V2}

Images = tuple[Row | None, Row | None]


def row_images(event_type: int, body: bytes, table: DecodableTable) -> Iterator[Images]:
    """(before, after) of each row, in order. `body` is what follows the event header, without checksum.
    Raises UnreadableEvent when the row does not fit the table."""
    at = 8
    if event_type in _WITH_EXTRA_DATA:
        at += int.from_bytes(body[8:10], "little")
    count, at = packed_integer(body, at)
    if count != len(table.readers):
        raise UnreadableEvent(f"table {table.table.id}: the row event has {count} columns, the table {len(table.readers)}")
    size = (count + 7) // 8
    op = OPS[event_type]
    first = _present(body[at : at + size], table)
    at += size
    second = first
    if op is Op.UPDATE:
        second = _present(body[at : at + size], table)
        at += size
    while at < len(body):
        image, at = _row(body, at, first, table)
        if op is Op.INSERT:
            yield None, image
        elif op is Op.DELETE:
            yield image, None
        else:
            after, at = _row(body, at, second, table)
            yield image, after


Present = list[tuple[str, Reader]]


def _present(bitmap: bytes, table: DecodableTable) -> Present:
    pairs = zip(table.table.columns, table.readers, strict=True)
    return [(column.name, read) for i, (column, read) in enumerate(pairs) if bitmap[i >> 3] >> (i & 7) & 1]


def _row(body: bytes, at: int, present: Present, table: DecodableTable) -> tuple[Row, int]:
    nulls = body[at : at + (len(present) + 7) // 8]
    at += len(nulls)
    row: dict[str, str | None] = {}
    for i, (name, read) in enumerate(present):
        if nulls[i >> 3] >> (i & 7) & 1:
            row[name] = None
        else:
            row[name], at = read(body, at)
    if at > len(body):
        raise UnreadableEvent(f"table {table.table.id}: a row is longer than its event; the columns known do not fit it")
    return row, at
