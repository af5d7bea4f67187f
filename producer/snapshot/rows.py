"""Converts rows in a server's answer to row images, and these to row events. Pure."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable, Iterator, Sequence

from pymysqlreplication.constants import BINLOG

from cdcbus.plugins.rowchange import Origin
from cdcbus.producer.decoding.table import DecodableTable
from cdcbus.producer.snapshot.columns import CellForm, SelectedTable
from cdcbus.producer.snapshot.packets import cells
from cdcbus.producer.source.row_events import Rows

try:
    from cdcbus.producer.snapshot import _images as built
except ImportError:
    built = None  # type: ignore[assignment]

INTERFACE = 3
"""The version of the values passed to the compiled part and returned by it."""
if built is not None and (
    built.INTERFACE != INTERFACE or os.environ.get("CDCBUS_PURE_PYTHON")
):  # built from another version, or must not be used
    built = None  # type: ignore[assignment]
compiled = built.images if built is not None else None
compiled_columns = built.columns if built is not None else None
compiled_cut = built.cut if built is not None else None
"""None if it is not built, or must not be used."""
EVENT_BYTES = 1 << 17
_PACKED = 251
_SIZES = {CellForm.FLOAT: 4, CellForm.DOUBLE: 8}
_MOST_BYTES = 2**31 - 1
_SIZE, _FLOAT, _DOUBLE = (struct.Struct(form).pack for form in ("<I", "<f", "<d"))


def image(packet: bytes, forms: Sequence[CellForm]) -> bytes:
    """The row image of a row in the protocol's text form."""
    nulls = 0
    parts: list[bytes] = [b""]
    for number, (cell, form) in enumerate(zip(cells(packet, len(forms)), forms, strict=True)):
        if cell is None:
            nulls |= 1 << number
        elif form is CellForm.TEXT:
            parts += _SIZE(len(cell)), cell
        else:
            parts.append((_FLOAT if form is CellForm.FLOAT else _DOUBLE)(float(cell)))
    parts[0] = nulls.to_bytes((len(forms) + 7) // 8, "little")
    return b"".join(parts)


def plain_images(packets: list[bytes], forms: Sequence[CellForm]) -> list[bytes]:
    """The row images of an answer: the plain reference of the compiled part."""
    return [image(packet, forms) for packet in packets]


def images(packets: list[bytes], selected: SelectedTable) -> list[bytes]:
    """The row images of an answer. Raises ValueError for a packet that is not a row."""
    if compiled is None:
        return plain_images(packets, selected.forms)
    return compiled(packets, bytes(selected.forms))


CellColumn = tuple[bytes, bytes, bytes]
"""A column of many rows: a bitmap of the rows whose cell is not NULL, the lowest bit of each byte
first; a zero and the end of each row's cell, four bytes each; and the cells' bytes."""


def plain_columns(rows: Sequence[bytes], forms: Sequence[CellForm]) -> list[CellColumn]:
    """Row images as columns: the plain reference of the compiled part."""
    nulls_bytes = (len(forms) + 7) // 8
    places = [nulls_bytes] * len(rows)
    nulls = [int.from_bytes(row[:nulls_bytes], "little") for row in rows]
    made: list[CellColumn] = []
    for number, form in enumerate(forms):
        present, ends = bytearray((len(rows) + 7) // 8), [0]
        found: list[bytes] = []
        for place, row in enumerate(rows):
            size = 0
            if not nulls[place] >> number & 1:
                at = places[place]
                size = _SIZES.get(form, 0)
                if form is CellForm.TEXT:
                    size = int.from_bytes(row[at : at + 4], "little")
                    at += 4
                present[place >> 3] |= 1 << (place & 7)
                found.append(row[at : at + size])
                places[place] = at + size
            ends.append(ends[-1] + size)
        if ends[-1] > _MOST_BYTES:
            raise ValueError("a column has more than 2 GB")
        made.append(
            (
                bytes(present),
                struct.pack(f"<{len(ends)}I", *ends),
                b"".join(found),
            )
        )
    if places != list(map(len, rows)):
        raise ValueError("a row image is not as long as its cells")
    return made


def cell_columns(rows: list[bytes], selected: SelectedTable) -> list[CellColumn]:
    """Row images as columns. Raises ValueError for a damaged image, or a column over 2 GB."""
    if compiled_columns is None:
        return plain_columns(rows, selected.forms)
    return compiled_columns(rows, bytes(selected.forms))


def key_texts(row: bytes, table: DecodableTable, columns: Sequence[int]) -> tuple[str, ...]:
    """The texts of these columns, none of them NULL, in a row image of all columns."""
    at = (len(table.readers) + 7) // 8
    nulls = int.from_bytes(row[:at], "little")
    texts: dict[int, str] = {}
    # A cell is found only by the ends of those before it.
    for number in range(max(columns) + 1):
        if not nulls >> number & 1:
            texts[number], at = table.readers[number](row, at)
    return tuple(texts[column] for column in columns)


def row_events(table: DecodableTable, rows: Iterable[bytes], origin: Origin) -> Iterator[Rows]:
    """Yields INSERT events of the rows, with about EVENT_BYTES each, as one transaction."""
    count = len(table.readers)
    # No table number and no flags: the table of these rows is known.
    head = bytes(8) + _packed(count) + ((1 << count) - 1).to_bytes((count + 7) // 8, "little")

    def event(some: list[bytes], *, is_first: bool, is_last: bool) -> Rows:
        body = b"".join([head, *some])
        return Rows(table, BINLOG.WRITE_ROWS_EVENT_V1, body, origin, is_first, is_last)

    is_first = True
    before: list[bytes] = []
    for some in _in_memory(rows) if isinstance(rows, list) else _as_they_come(rows):
        if before:
            yield event(before, is_first=is_first, is_last=False)
            is_first = False
        before = some
    if before:
        yield event(before, is_first=is_first, is_last=True)


def _as_they_come(rows: Iterable[bytes]) -> Iterator[list[bytes]]:
    """Rows in lists of about EVENT_BYTES each: no more than that is kept in memory."""
    some: list[bytes] = []
    size = 0
    for row in rows:
        if size >= EVENT_BYTES:
            yield some
            some, size = [], 0
        some.append(row)
        size += len(row)
    if some:
        yield some


def _in_memory(rows: list[bytes]) -> Iterator[list[bytes]]:
    """The same for rows that are in memory, without a look at each: halves of those that are too
    large together."""
    size = sum(map(len, rows))
    if size <= 2 * EVENT_BYTES or len(rows) < 2:
        if rows:
            yield rows
        return
    # About as many rows for each event; where they are uneven, some parts are divided again.
    at_once = max(1, len(rows) * EVENT_BYTES // size)
    for start in range(0, len(rows), at_once):
        yield from _in_memory(rows[start : start + at_once])


def _packed(count: int) -> bytes:
    if count < _PACKED:
        return bytes((count,))
    return b"\xfc" + count.to_bytes(2, "little")
