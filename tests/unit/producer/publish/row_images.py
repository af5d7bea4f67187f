"""Tables and rows of any kind, as their bytes in a binlog event, and what each writer makes of them."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy
from pymysqlreplication.constants import BINLOG
from pymysqlreplication.constants import FIELD_TYPE as TYPE

from cdcbus.plugins.contracts import Converter
from cdcbus.plugins.epoch import epoch_text
from cdcbus.plugins.errors import UnreadableEvent
from cdcbus.plugins.kafka.record_key import Record, key_text, split_key_change
from cdcbus.plugins.registry import make_converter
from cdcbus.plugins.rowchange import Origin, RowChange, TableId
from cdcbus.producer.decoding.column_types import BINARY, BinlogColumn
from cdcbus.producer.decoding.decimals import decimal_size
from cdcbus.producer.decoding.table import DecodableTable, decodable
from cdcbus.producer.decoding.table_map import TableMap
from cdcbus.producer.publish import native
from cdcbus.producer.publish.codegen import TableWriter
from cdcbus.producer.publish.native import MakePlan
from cdcbus.producer.source.row_events import Rows

FORMATS = ("canalRow", "oggJson")


ORIGIN = Origin("mysql-bin.000042", 4711, "0-1-17", 9, 1_700_000_000_123)


ORIGINS = (ORIGIN, replace(ORIGIN, is_snapshot=True, epoch=epoch_text(7, "shop", "shop")))


WRITE, UPDATE, DELETE = (
    BINLOG.WRITE_ROWS_EVENT_V2,
    BINLOG.UPDATE_ROWS_EVENT_V2,
    BINLOG.DELETE_ROWS_EVENT_V2,
)


COMPILED = pytest.param(
    native.compiled,
    id="compiled",
    marks=pytest.mark.skipif(native.compiled is None, reason="it is not built"),
)


# Where a case takes longer to make up than to check, it is checked in both ways.
BOTH = (None, native.compiled) if native.compiled else (None,)


WAYS = pytest.mark.parametrize("make_plan", [pytest.param(None, id="generated"), COMPILED])


def _bytes(size: int) -> SearchStrategy[bytes]:
    return st.binary(min_size=size, max_size=size)


def _long(length_bytes: int, value: SearchStrategy[bytes]) -> SearchStrategy[bytes]:
    return value.map(lambda raw: len(raw).to_bytes(length_bytes, "little") + raw)


def _packed(size: int, zero: int, *parts: tuple[int, int]) -> SearchStrategy[bytes]:
    """Bits of a date or time, each part (most, bits) wide, over a bias."""

    def pack(values: tuple[int, ...]) -> bytes:
        packed = 0
        for value, (_, bits) in zip(values, parts, strict=True):
            packed = packed << bits | value
        return (packed + zero).to_bytes(size, "big")

    return st.tuples(*(st.integers(0, most) for most, _ in parts)).map(pack)


def _fraction(digits: int) -> SearchStrategy[bytes]:
    """As servers store it, in bytes of two digits each: behind an odd number of them stands a 0."""
    size = (digits + 1) // 2
    return (
        st.integers(0, 10**digits - 1).map(
            lambda value: (value * 10 ** (digits % 2)).to_bytes(size, "big")
        )
        if size
        else st.just(b"")
    )


def _joined(*parts: SearchStrategy[bytes]) -> SearchStrategy[bytes]:
    return st.tuples(*parts).map(b"".join)


def _decimal(precision: int, scale: int) -> SearchStrategy[bytes]:
    """Groups of up to nine digits, each within its range."""

    def group(width: int) -> SearchStrategy[bytes]:
        size = decimal_size(width, 0)
        return st.integers(0, 10**width - 1).map(lambda value: value.to_bytes(size, "big"))

    def signed(raw: bytes, negative: bool) -> bytes:
        raw = bytes((raw[0] ^ 0x80,)) + raw[1:]
        return bytes(byte ^ 0xFF for byte in raw) if negative else raw

    whole = [(precision - scale) % 9] * bool((precision - scale) % 9) + [9] * (
        (precision - scale) // 9
    )
    fraction = [9] * (scale // 9) + [scale % 9] * bool(scale % 9)
    return st.builds(signed, _joined(*map(group, whole + fraction)), st.booleans())


TEXT = st.text(st.characters(codec="utf-8"), max_size=20)


LABELS = ("new", 'a"b', "l'été", "\\")


DATE = st.tuples(st.integers(0, 9999), st.integers(0, 12), st.integers(0, 31)).map(
    lambda day: (day[0] << 9 | day[1] << 5 | day[2]).to_bytes(3, "little")
)


# A column without its name, and the bytes that rows may hold for it.
KINDS: list[tuple[BinlogColumn, SearchStrategy[bytes]]] = [
    *(
        (BinlogColumn("", kind, unsigned=unsigned), _bytes(size))
        for (kind, size), unsigned in product(
            [(TYPE.TINY, 1), (TYPE.SHORT, 2), (TYPE.INT24, 3), (TYPE.LONG, 4), (TYPE.LONGLONG, 8)],
            [False, True],
        )
    ),
    (
        BinlogColumn("", TYPE.DOUBLE, (8, 0)),
        st.floats(allow_nan=False, allow_infinity=False).map(
            lambda value: struct.pack("<d", value)
        ),
    ),
    (
        BinlogColumn("", TYPE.FLOAT, (4, 0)),
        st.floats(width=32, allow_nan=False, allow_infinity=False).map(
            lambda v: struct.pack("<f", v)
        ),
    ),
    *(
        (BinlogColumn("", TYPE.NEWDECIMAL, meta), _decimal(*meta))
        for meta in [
            (1, 0),
            (5, 5),
            (10, 2),
            (12, 2),
            (18, 9),
            (19, 0),
            (27, 9),
            (65, 30),
            (30, 10),
        ]
    ),
    *(
        (
            BinlogColumn("", TYPE.DATETIME2, (digits, 0)),
            _joined(
                _packed(5, 1 << 39, (9999 * 13 + 12, 17), (31, 5), (23, 5), (59, 6), (59, 6)),
                _fraction(digits),
            ),
        )
        for digits in range(7)
    ),
    *(
        (BinlogColumn("", TYPE.TIMESTAMP2, (digits, 0)), _joined(_bytes(4), _fraction(digits)))
        for digits in range(7)
    ),
    (
        BinlogColumn("", TYPE.TIME2, (6, 0)),
        _joined(_packed(3, 1 << 23, (838, 11), (59, 6), (59, 6)), _fraction(6)),
    ),
    (BinlogColumn("", TYPE.DATE), DATE),
    (BinlogColumn("", TYPE.YEAR), _bytes(1)),
    (BinlogColumn("", TYPE.BIT, (13, 0)), _bytes(2)),
    (
        BinlogColumn("", TYPE.ENUM, (1, 0), charset="utf8mb4", labels=LABELS),
        st.integers(0, 4).map(lambda n: bytes((n,))),
    ),
    (
        BinlogColumn("", TYPE.ENUM, (2, 0), charset="utf8mb4", labels=LABELS),
        st.integers(0, 4).map(lambda n: bytes((n, 0))),
    ),
    (
        BinlogColumn("", TYPE.SET, (1, 0), charset="utf8mb4", labels=LABELS),
        st.integers(0, 15).map(lambda n: bytes((n,))),
    ),
    (BinlogColumn("", TYPE.VARCHAR, (255, 0), charset="utf8mb4"), _long(1, TEXT.map(str.encode))),
    (BinlogColumn("", TYPE.VARCHAR, (400, 0), charset="utf8mb3"), _long(2, TEXT.map(str.encode))),
    (BinlogColumn("", TYPE.VARCHAR, (400, 0), charset="latin1"), _long(2, st.binary(max_size=20))),
    (BinlogColumn("", TYPE.VARCHAR, (30, 0), charset=BINARY), _long(1, st.binary(max_size=20))),
    (BinlogColumn("", TYPE.STRING, (40, 0), charset="utf8mb4"), _long(1, TEXT.map(str.encode))),
    (BinlogColumn("", TYPE.STRING, (20, 0), charset=BINARY), _long(1, st.binary(max_size=20))),
    # longer than what is written at once, with characters of several bytes in between
    (
        BinlogColumn("", TYPE.BLOB, (2, 0), charset="utf8mb4"),
        _long(2, TEXT.map(lambda text: (text * 200).encode())),
    ),
    (
        BinlogColumn("", TYPE.BLOB, (2, 0), charset="latin1"),
        _long(2, st.binary(max_size=20).map(lambda raw: raw * 200)),
    ),
    *(
        (BinlogColumn("", TYPE.BLOB, (size, 0), charset=charset), _long(size, TEXT.map(str.encode)))
        for size in (1, 2, 3, 4)
        for charset in ("utf8mb4", BINARY)
    ),
    (BinlogColumn("", TYPE.GEOMETRY, (4, 0)), _long(4, st.binary(max_size=9))),
]


NAMES = st.text(st.characters(codec="utf-8"), min_size=1, max_size=6)


def null_bitmap(bits: list[bool]) -> bytes:
    return sum(bit << i for i, bit in enumerate(bits)).to_bytes((len(bits) + 7) // 8, "little")


def event_body(kind: int, columns: int, present: list[list[bool]], images: list[bytes]) -> bytes:
    extra = (2).to_bytes(2, "little") if kind >= WRITE else b""
    return (
        bytes(8)
        + extra
        + bytes((columns,))
        + b"".join(map(null_bitmap, present))
        + b"".join(images)
    )


def numbered(kind: int, numbers: Iterable[int], moved_by: int = 0) -> Rows:
    """An event of rows of a number, the key, and its text; an UPDATE adds `moved_by` to the key."""
    columns = (
        BinlogColumn("id", TYPE.LONG),
        BinlogColumn("note", TYPE.VARCHAR, (255, 0), charset="utf8mb4"),
    )
    table = decodable(TableMap(TableId("shop", "orders"), columns, ("id",), is_complete=True))

    def image(number: int, note: str) -> bytes:
        return b"\0" + number.to_bytes(4, "little") + bytes((len(note),)) + note.encode()

    images = []
    for number in numbers:
        images.append(image(number, f"note {number}"))
        if kind == UPDATE:
            images.append(image(number + moved_by, f"another {number}"))
    masks = [[True, True]] * (2 if kind == UPDATE else 1)
    return Rows(table, kind, event_body(kind, 2, masks, images), ORIGIN, is_last=True)


@st.composite
def tables(draw: DrawFn) -> tuple[DecodableTable, list[SearchStrategy[bytes]], tuple[str, ...]]:
    """A table, what its rows may hold, and the columns of the record key."""
    kinds = draw(st.lists(st.sampled_from(KINDS), min_size=1, max_size=12))
    names = draw(st.lists(NAMES, min_size=len(kinds), max_size=len(kinds), unique=True))
    columns = tuple(
        replace(column, name=name, is_hidden=column.type == TYPE.LONGLONG and draw(st.booleans()))
        for (column, _), name in zip(kinds, names, strict=True)
    )
    shown = [column.name for column in columns if not column.is_hidden]
    if not shown:
        columns, shown = (replace(columns[0], is_hidden=False), *columns[1:]), names[:1]
    key, record_key = (
        tuple(draw(st.lists(st.sampled_from(shown), max_size=2, unique=True))) for _ in range(2)
    )
    table = decodable(TableMap(TableId(draw(NAMES), draw(NAMES)), columns, key, is_complete=True))
    return table, [values for _, values in kinds], record_key


@st.composite
def cases(draw: DrawFn) -> tuple[Rows, tuple[str, ...]]:
    """An event of some rows that come from few values, so that they repeat, and the columns of
    the record key."""
    table, values, key = draw(tables())
    kind = draw(
        st.sampled_from(
            [WRITE, UPDATE, DELETE, BINLOG.WRITE_ROWS_EVENT_V1, BINLOG.UPDATE_ROWS_EVENT_V1]
        )
    )
    is_full = draw(st.booleans())
    masks = [
        [is_full or draw(st.booleans()) for _ in values]
        for _ in range(2 if kind in (UPDATE, BINLOG.UPDATE_ROWS_EVENT_V1) else 1)
    ]
    if not any(map(any, masks)):
        masks[0][0] = True
    pools = [draw(st.lists(value, min_size=1, max_size=2)) for value in values]

    def image(mask: list[bool]) -> bytes:
        cells = [
            draw(st.sampled_from([None, *pool]))
            for pool, is_present in zip(pools, mask, strict=True)
            if is_present
        ]
        return null_bitmap([cell is None for cell in cells]) + b"".join(
            cell for cell in cells if cell is not None
        )

    images = [image(mask) for _ in range(draw(st.integers(1, 6))) for mask in masks]
    return Rows(
        table,
        kind,
        event_body(kind, len(values), masks, images),
        draw(st.sampled_from(ORIGINS)),
        is_last=draw(st.booleans()),
    ), key


def plain(converter: Converter, key: tuple[str, ...]) -> Callable[[RowChange], list[Record]]:
    """The records of one row change, by the row-at-a-time path."""

    def records(change: RowChange) -> list[Record]:
        return [
            {"key": key_text(part, key), "value": converter.to_bytes(part)}
            for part in split_key_change(change, key)
        ]

    return records


def written(
    rows: Rows, name: str, key: tuple[str, ...], make_plan: MakePlan | None, first_row: int = 0
) -> tuple[Any, Any]:
    """What comes out of the row-at-a-time path, and what a writer makes of the same rows: records,
    or the sentence of what is raised, as partial images and bytes that are no rows may do."""
    converter = make_converter(name)
    plainly = plain(converter, key)

    def wanted() -> tuple[list[Record], int]:
        changes = rows.changes(first_row)
        return [record for change in changes for record in plainly(change)], len(changes)

    writer = TableWriter(
        rows.table, converter, key, plainly, takes_partial=True, make_plan=make_plan
    )
    return outcome(wanted), outcome(lambda: writer.records(rows, first_row))


def outcome(make: Callable[[], tuple[list[Record], int]]) -> tuple[list[Record], int] | str:
    try:
        return make()
    except UnreadableEvent as error:
        return str(error)
