"""Whole Arrow batches of records to columns: what `from_bytes` reads one by one, many at a time. Pure.

Records of one table, operation and column set are the same text but for their cells. The converter reads the first of them, which gives
that text (`_Shape`); Arrow's CSV reader cuts the others at their quotation marks. Then each record is put together again from its pieces:
one that comes out byte for byte has been read rightly, any other is left to `from_bytes`. So are records of writers whose cells are
numbers, or that put blanks between them, or several rows into one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import accumulate
from typing import Any, Final

import orjson
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from cdcbus.plugins.contracts import Converter
from cdcbus.plugins.errors import ConversionError
from cdcbus.plugins.registry import make_converter
from cdcbus.plugins.rowchange import Op, Row, RowChange, Table

MIN_ROWS: Final = 32  # fewer are read faster one by one
MAX_SHAPES: Final = 8  # of records of one table and operation, as updates that change different columns
BLOCK_ROWS, BLOCK_BYTES = 8000, 1 << 18  # small enough for a processor's cache
# No JSON text holds control characters as such, so they can stand for something.
SLOT, NULL, BACKSLASH, QUOTE = (bytes([code]) for code in range(4))
ESCAPES: Final = ((rb"\\", BACKSLASH), (rb"\"", QUOTE))
ANY_ESCAPE: Final = "[\\\\\x02\x03]"
NUMBER: Final = "^:(-?(0|[1-9][0-9]*)|true|false),$"
OP_TS_CHARACTERS: Final = 26  # more digits than these are not read


@dataclass(frozen=True, slots=True)
class RowGroup:
    """Row changes of one table and operation with the same columns, one of each record.

    `records` are their places in the batch, ascending (int64). `before` and `after` are as in `RowChange`, but with a text column in place
    of a cell; `commit_us` (int64) is as in `Origin`. All are as long as `records`.
    """

    table: Table
    op: Op
    records: pa.Array
    before: Mapping[str, pa.Array] | None
    after: Mapping[str, pa.Array] | None
    commit_us: pa.Array


@dataclass(frozen=True, slots=True)
class Columns:
    """A batch as columns. `rest`: the places of the records that are in no group, ascending; `from_bytes` reads them, or says why not."""

    groups: list[RowGroup]
    rest: list[int]


def read_columns(records: pa.BinaryArray, converter: str) -> Columns:
    """The row changes of record values, but for the place in the binlog of each: the order of rows is that of `records`.

    In the rest are records without a value as well, and all records of a format that is not known here. Raises ConfigError when no
    converter is called so, and nothing on account of a record.
    """
    reader, wire = make_converter(converter), _WIRES.get(converter)
    if wire is None:
        return Columns([], list(range(len(records))))
    groups: list[RowGroup] = []
    marks, tries = wire.marks(records), Counter[Any]()
    left = pa.array(range(len(records)), pa.int64()).filter(records.is_valid())
    rest = set(range(len(records))) - set(left.to_pylist()) if records.null_count else set[int]()
    while len(left) >= MIN_ROWS:
        first = left[0].as_py()
        shape, alike = _shape(records[first].as_py(), reader, wire), pc.equal(marks, marks[first])
        if shape is not None:
            alike = pc.and_(alike, pc.and_(pc.starts_with(records, shape.texts[0]), pc.ends_with(records, shape.texts[-1])))
        alike = alike.take(left)
        mine, left = left.filter(alike), left.filter(pc.invert(alike))
        kind = marks[first] if shape is None else (shape.texts[0], shape.texts[-1])
        tries[kind] += 1
        group = None
        try:
            group = None if shape is None or len(mine) < MIN_ROWS else _group(shape, records, mine, wire)
        except (pa.ArrowInvalid, ValueError):  # somewhere is no JSON, or a number or time in a form of its own
            tries[kind] = MAX_SHAPES
        if group is not None:
            groups.append(group)
            mine = mine.filter(pc.invert(pc.is_in(mine, group.records))) if len(group.records) < len(mine) else mine[:0]
        elif len(mine) >= MIN_ROWS:
            rest.add(first)
            mine = mine[1:]
        if len(mine) < MIN_ROWS or tries[kind] >= MAX_SHAPES:
            rest.update(mine.to_pylist())
        else:
            left = pa.concat_arrays([left, mine])
            left = left.take(pc.array_sort_indices(left))
    return Columns(groups, sorted({*rest, *left.to_pylist()}))


@dataclass(frozen=True, slots=True)
class _Wire:
    """A wire format. `before`, `after`: the members that hold the image; of two that have a column the first counts. `varying`: the other
    members that differ between records. `commit`: the one of these with the commit time, a number or text, read by `commit_us`.

    `is_plain`: whether the images of a record with one row are its cells as they stand. `marks`: what all records of a table share, found
    quickly; others may share it too.
    """

    before: tuple[str, ...]
    after: tuple[str, ...]
    varying: frozenset[str]
    commit: str
    is_commit_text: bool
    commit_us: Callable[[pa.Array], pa.Array]
    is_plain: Callable[[Mapping[str, Any]], bool]
    marks: Callable[[pa.BinaryArray], pa.BinaryArray]


def _epoch_ms(numbers: pa.Array) -> pa.Array:
    return pc.multiply_checked(pc.cast(pc.ascii_trim(numbers, ":,"), pa.int64()), 1000)


def _utc_times(times: pa.Array) -> pa.Array:
    """What Arrow and `from_bytes` take for a time alike, null for 0; anything else raises ArrowInvalid."""
    if pc.any(pc.or_(pc.greater(pc.binary_length(times), OP_TS_CHARACTERS), pc.starts_with(times, "0000"))).as_py():
        raise pa.ArrowInvalid("a time in a form of its own")
    return pc.fill_null(pc.cast(pc.cast(times, pa.timestamp("us")), pa.int64()), 0)


def _canal_marks(records: pa.BinaryArray) -> pa.Array:
    """Some 50 bytes up to the table's name, while `ts` has 13 digits, until the year 2286. `true` is shorter than `false`."""
    is_last = pc.equal(pc.binary_slice(records, -21, -17), b"true")
    return pc.if_else(is_last, pc.binary_slice(records, -99, -51), pc.binary_slice(records, -100, -52))


_CANAL_ROW: Final = _Wire(
    before=("old", "data"),
    after=("data",),
    varying=frozenset({"es", "file", "gtid", "pos", "row", "serverId", "ts", "txLast"}),
    commit="es",
    is_commit_text=False,
    commit_us=_epoch_ms,
    is_plain=lambda message: "txLast" in message,  # else the cells are in canal's own rendering
    marks=_canal_marks,
)
_OGG_JSON: Final = _Wire(
    before=("before", "after"),
    after=("after",),
    varying=frozenset({"op_ts", "current_ts", "pos"}),
    commit="op_ts",
    is_commit_text=True,
    commit_us=_utc_times,
    is_plain=lambda message: not any(n.endswith("_isMissing") for image in ("before", "after") for n in message.get(image) or ()),
    marks=lambda records: pc.binary_slice(records, 0, 38),  # up to the operation, or a part of the table's name
)
_WIRES: Final = {"canalRow": _CANAL_ROW, "canalCompat": _CANAL_ROW, "oggJson": _OGG_JSON, "porterCompat": _OGG_JSON}


@dataclass(frozen=True, slots=True)
class _Slot:
    """What differs between records: a member's value, or a cell of the image that is the member's value."""

    member: str
    column: str | None
    is_text: bool


@dataclass(frozen=True, slots=True)
class _Shape:
    """Records that differ in slots only. `texts` stand around the slots, one more than those; `change` is one such record's."""

    change: RowChange
    slots: tuple[_Slot, ...]
    texts: tuple[bytes, ...]

    def image(self, row: Row | None, members: tuple[str, ...], cells: Sequence[pa.Array]) -> dict[str, pa.Array] | None:
        """A row's columns. The cells are in the order of the slots."""
        if row is None:
            return None
        found = {slot.column: cell for m in reversed(members) for slot, cell in zip(self.slots, cells, strict=True) if slot.member == m}
        return {name: found[name] for name in row}


def _shape(record: bytes, reader: Converter, wire: _Wire) -> _Shape | None:
    """The shape that a record has; None where `from_bytes` does more than taking its cells as they stand."""
    try:
        changes, message = reader.from_bytes(record), orjson.loads(record)
    except (ConversionError, ValueError):
        return None
    if len(changes) != 1 or changes[0].op is Op.TRUNCATE or not wire.is_plain(message):
        return None
    slots: list[_Slot] = []

    def slotted(value: Any, member: str, column: str | None = None) -> orjson.Fragment:
        is_text = value is None or isinstance(value, str)
        slots.append(_Slot(member, column, is_text))
        return orjson.Fragment(b'"' + SLOT + b'"' if is_text else SLOT)

    def image(value: Any, member: str) -> Any:
        if isinstance(value, list):
            return [image(row, member) for row in value]
        return value and {name: slotted(cell, member, name) for name, cell in value.items()}

    for member, value in message.items():
        if member in wire.before or member in wire.after:
            message[member] = image(value, member)
        elif member in wire.varying:
            message[member] = slotted(value, member)
    if any(slot.column is not None and not slot.is_text for slot in slots) or _Slot(wire.commit, None, wire.is_commit_text) not in slots:
        return None
    texts = tuple(orjson.dumps(message).split(SLOT))
    return _Shape(changes[0], tuple(slots), texts) if record.startswith(texts[0]) and record.endswith(texts[-1]) else None


def _group(shape: _Shape, values: pa.BinaryArray, places: pa.Array, wire: _Wire) -> RowGroup | None:
    """The records of the shape; None when there is none. Raises ArrowInvalid, ValueError."""
    blocks = [places[i : i + BLOCK_ROWS] for i in range(0, len(places), BLOCK_ROWS)]
    found = [_pieces(shape, values.take(block)) for block in blocks]
    records = pa.concat_arrays([block.take(kept) for block, (kept, _) in zip(blocks, found, strict=True)])
    if not len(records):
        return None
    cells = [pa.concat_arrays(columns) for columns in zip(*(cells for _, cells in found), strict=True)]
    change, commit = shape.change, shape.slots.index(_Slot(wire.commit, None, wire.is_commit_text))
    before, after = shape.image(change.before, wire.before, cells), shape.image(change.after, wire.after, cells)
    return RowGroup(change.table, change.op, records, before, after, wire.commit_us(cells[commit]))


def _pieces(shape: _Shape, values: pa.BinaryArray) -> tuple[pa.Array, list[pa.Array]]:
    """Which of the records are of the shape, and what stands in the slots of those."""
    lines, texts = values.cast(pa.string()), _up_to_quotes(shape)
    data = values.buffers()[2]
    if pc.min(pa.Array.from_buffers(pa.uint8(), data.size, [None, data])).as_py() < ord(" "):
        raise ValueError("not JSON on one line")
    has_escapes = b"\\" in data.to_pybytes()
    for old, new in ((b":null", b':"' + NULL + b'"'), *(ESCAPES if has_escapes else ())):
        texts = [text.replace(old, new) for text in texts]
        lines = pc.replace_substring(lines, old, new)
    skipped, fields = _fields(lines, texts)
    kept = pa.array([i for i in range(len(lines)) if i not in skipped], pa.int64())
    *before, last = pa.array([text.decode() for text in texts])
    parts = [part for text, field in zip(before, fields, strict=True) for part in (text, field)]
    again = pc.binary_join_element_wise(*parts, last, "", null_handling="replace", null_replacement=NULL.decode())
    masks = [pc.match_substring_regex(field, NUMBER) for slot, field in zip(shape.slots, fields, strict=True) if not slot.is_text]
    is_same = reduce(pc.and_, masks, pc.equal(again, lines.take(kept) if skipped else lines))
    if not pc.all(is_same).as_py():
        kept, fields = kept.filter(is_same), [field.filter(is_same) for field in fields]
    return kept, [_unescaped(field) for field in fields] if has_escapes else fields


def _up_to_quotes(shape: _Shape) -> list[bytes]:
    """The texts from quotation mark to quotation mark: what else stands beside a number goes to it."""
    texts = list(shape.texts)
    for i, slot in enumerate(shape.slots):
        if not slot.is_text:
            texts[i] = texts[i][: texts[i].rindex(b'"') + 1]
            texts[i + 1] = texts[i + 1][texts[i + 1].index(b'"') :]
    return texts


def _fields(lines: pa.StringArray, texts: Sequence[bytes]) -> tuple[set[int], list[pa.Array]]:
    """The lines that have not as many quotation marks as the first; of the others, what stands where the first has its slots."""
    skipped: set[int] = set()

    def skip(row: csv.InvalidRow) -> str:
        skipped.add(row.number - 1)
        return "skip"

    names = [f"f{count}" for count in accumulate(constant.count(b'"') for constant in texts[:-1])]
    longest = pc.max(pc.binary_length(lines)).as_py()
    table = csv.read_csv(
        pc.binary_join(pa.ListArray.from_arrays(pa.array([0, len(lines)], pa.int32()), lines), "\n")[0].as_buffer(),
        csv.ReadOptions(use_threads=False, autogenerate_column_names=True, block_size=max(BLOCK_BYTES, longest + 1)),
        csv.ParseOptions(delimiter='"', quote_char=False, double_quote=False, invalid_row_handler=skip),
        csv.ConvertOptions(
            include_columns=names, column_types=dict.fromkeys(names, pa.string()), null_values=[NULL.decode()], strings_can_be_null=True
        ),
    )
    return skipped, [pa.concat_arrays(table.column(name).chunks) for name in names]


def _unescaped(cells: pa.Array) -> pa.Array:
    """JSON text as the text that it means. Raises ValueError."""
    is_escaped = pc.fill_null(pc.match_substring_regex(cells, ANY_ESCAPE), False)
    escaped = cells.filter(is_escaped).to_pylist()
    if not escaped:
        return cells
    for old, new in ESCAPES:
        escaped = [cell.replace(new.decode(), old.decode()) for cell in escaped]
    return pc.replace_with_mask(cells, is_escaped, pa.array(orjson.loads('["' + '","'.join(escaped) + '"]'), pa.string()))
