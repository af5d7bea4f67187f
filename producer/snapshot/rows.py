"""Rows as the server answers them, as row images, and these as row events. Pure."""

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

INTERFACE = 1
"""Of what is given to the compiled part, and comes back."""
compiled = (
    built.images
    if built is not None
    and built.INTERFACE == INTERFACE
    and not os.environ.get("CDCBUS_PURE_PYTHON")
    else None
)
"""None where it is not built, or not to be used."""
EVENT_BYTES = 1 << 20
_PACKED = 251
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
    """The row images of an answer: what the compiled part does, too, and faster."""
    return [image(packet, forms) for packet in packets]


def images(packets: list[bytes], selected: SelectedTable) -> list[bytes]:
    """The row images of an answer. Raises ValueError for what is no row."""
    if compiled is None:
        return plain_images(packets, selected.forms)
    return compiled(packets, bytes(selected.forms))


def key_texts(row: bytes, table: DecodableTable, columns: Sequence[int]) -> tuple[str, ...]:
    """The texts of these columns, none of which is NULL, in a row image of all."""
    at = (len(table.readers) + 7) // 8
    nulls = int.from_bytes(row[:at], "little")
    texts: dict[int, str] = {}
    for number in range(max(columns) + 1):
        if not nulls >> number & 1:
            texts[number], at = table.readers[number](row, at)
    return tuple(texts[column] for column in columns)


def row_events(table: DecodableTable, rows: Iterable[bytes], origin: Origin) -> Iterator[Rows]:
    """Inserts of the rows, as many in each event as come to EVENT_BYTES; as one transaction."""
    count = len(table.readers)
    head = bytes(8) + _packed(count) + ((1 << count) - 1).to_bytes((count + 7) // 8, "little")

    def event(some: list[bytes], *, is_first: bool, is_last: bool) -> Rows:
        body = b"".join([head, *some])
        return Rows(table, BINLOG.WRITE_ROWS_EVENT_V1, body, origin, is_first, is_last)

    is_first, size = True, 0
    some: list[bytes] = []
    for row in rows:
        if size >= EVENT_BYTES:
            yield event(some, is_first=is_first, is_last=False)
            some, size, is_first = [], 0, False
        some.append(row)
        size += len(row)
    if some:
        yield event(some, is_first=is_first, is_last=True)


def _packed(count: int) -> bytes:
    return bytes((count,)) if count < _PACKED else b"\xfc" + count.to_bytes(2, "little")
