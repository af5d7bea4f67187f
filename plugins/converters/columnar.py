"""Whole Arrow batches of records to columns: what `from_bytes` reads one by one, many at a time.
Pure.

Records of one table, operation and column set are the same text but for their cells. The converter
reads the first of them, which gives that text (`_Shape`). Of the others, what is the same at both
ends is compared and cut off, and so is the longest text within; Arrow's CSV reader cuts what is
left at its quotation marks. Then that is put together again from its pieces: a record of which it
comes out byte for byte has been read rightly, any other is left to `from_bytes`. So are records of
writers whose cells are numbers, or that put blanks between them, or several rows into one.
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

from cdcbus.plugins.contracts import ColumnarConverter, Converter
from cdcbus.plugins.errors import ConversionError
from cdcbus.plugins.rowchange import Op, Row, RowChange, Table

MIN_ROWS: Final = 32  # fewer are read faster one by one
# of records of one table and operation, as updates that change different columns
MAX_SHAPES: Final = 8
BLOCK_ROWS: Final = 4000  # few enough for a processor's cache
# a text of as many is taken out first: each of its quotation marks would cost a cut
LONG_TEXT_BYTES: Final = 100
# No JSON text holds control characters as such, so they can stand for something.
SLOT, NULL, BACKSLASH, QUOTE, LONG_TEXT = (bytes([code]) for code in range(5))
ESCAPES: Final = ((rb"\\", BACKSLASH), (rb"\"", QUOTE))
ANY_ESCAPE: Final = "[\\\\\x02\x03]"
NUMBER: Final = "^:(-?(0|[1-9][0-9]*)|true|false),$"
# Of a bare Python value Arrow asks first whether it is one of dateutil's, which Python looks for
# each time where it is not installed.
NOTHING, LINE_BREAK, NO_BYTES = (
    pa.scalar("", pa.string()),
    pa.scalar("\n", pa.string()),
    pa.scalar(b"", pa.binary()),
)
OP_TS_CHARACTERS: Final = pa.scalar(26, pa.int32())  # more digits than these are not read
MS_US: Final = pa.scalar(1000, pa.int64())


@dataclass(frozen=True, slots=True)
class RowGroup:
    """Row changes of one table and operation with the same columns, one of each record.

    `records` are their places in the batch, ascending (int64). `before` and `after` are as in
    `RowChange`, but with a text column in place of a cell; `commit_us` (int64) is as in `Origin`.
    All are as long as `records`.
    """

    table: Table
    op: Op
    records: pa.Array
    before: Mapping[str, pa.Array] | None
    after: Mapping[str, pa.Array] | None
    commit_us: pa.Array


@dataclass(frozen=True, slots=True)
class Columns:
    """A batch as columns. `rest`: the places of the records that are in no group, ascending;
    `from_bytes` reads them, or says why not."""

    groups: list[RowGroup]
    rest: list[int]


def read_columns(records: pa.BinaryArray, converter: Converter) -> Columns:
    """The row changes of record values, but for the place in the binlog of each: the order of rows
    is that of `records`.

    In the rest are records without a value as well, and all records of a format that is not read as
    columns. Raises nothing on account of a record.
    """
    if isinstance(converter, ColumnarConverter):
        return converter.read_columns(records)
    return Columns([], list(range(len(records))))


def columns_on_wire(records: pa.BinaryArray, reader: Converter, wire: Wire) -> Columns:
    """The same for a format whose records are JSON objects with the members that `wire` names;
    `reader` reads one of each shape."""
    groups: list[RowGroup] = []
    marks, tries = wire.marks(records), Counter[Any]()
    left = pc.indices_nonzero(records.is_valid()).cast(pa.int64())
    rest = set(pc.indices_nonzero(records.is_null()).to_pylist())
    while len(left) >= MIN_ROWS:
        first = left[0].as_py()
        shape, alike = (
            _shape(records[first].as_py(), reader, wire),
            pc.equal(marks, marks[first]).take(left),
        )
        mine, left = left.filter(alike), left.filter(pc.invert(alike))
        kind = marks[first] if shape is None else (shape.start, shape.end)
        tries[kind] += 1
        group = None
        try:
            group = (
                None
                if shape is None or len(mine) < MIN_ROWS
                else _group(shape, records, mine, wire)
            )
        # somewhere is no JSON, or a number or time in a form of its own
        except (pa.ArrowInvalid, ValueError):
            tries[kind] = MAX_SHAPES
        if group is not None:
            groups.append(group)
            mine = (
                mine.filter(pc.invert(pc.is_in(mine, group.records)))
                if len(group.records) < len(mine)
                else mine[:0]
            )
        elif len(mine) >= MIN_ROWS:
            rest.add(first)
            mine = mine[1:]
        if tries[kind] >= MAX_SHAPES and shape is not None:
            is_kind = shape.is_like(records.take(mine))
            rest.update(mine.filter(is_kind).to_pylist())
            mine = mine.filter(pc.invert(is_kind))
        if len(mine) < MIN_ROWS or (tries[kind] >= MAX_SHAPES and shape is None):
            rest.update(mine.to_pylist())
        else:
            left = pa.concat_arrays([left, mine])
            left = left.take(pc.array_sort_indices(left))
    return Columns(groups, sorted({*rest, *left.to_pylist()}))


@dataclass(frozen=True, slots=True)
class Wire:
    """A wire format. `before`, `after`: the members that hold the image; of two that have a column
    the first counts. `varying`: the other members that differ between most records. `commit`: the
    one of these with the commit time, a number or text, read by `commit_us`.

    `is_plain`: whether the images of a record with one row are its cells as they stand. `marks`:
    what all records of a table share, found quickly; others may share it too.
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
    return pc.multiply_checked(pc.cast(pc.ascii_trim(numbers, ":,"), pa.int64()), MS_US)


def _utc_times(times: pa.Array) -> pa.Array:
    """What Arrow and `from_bytes` take for a time alike, null for 0; anything else raises
    ArrowInvalid."""
    if pc.any(
        pc.or_(pc.greater(pc.binary_length(times), OP_TS_CHARACTERS), pc.starts_with(times, "0000"))
    ).as_py():
        raise pa.ArrowInvalid("a time in a form of its own")
    return pc.fill_null(pc.cast(pc.cast(times, pa.timestamp("us")), pa.int64()), 0)


def _canal_marks(records: pa.BinaryArray) -> pa.BinaryArray:
    """Some 50 bytes up to the table's name, while `ts` has 13 digits, until the year 2286; and
    from `txLast` on."""
    return pc.binary_join_element_wise(
        pc.binary_slice(records, -100, -51), pc.binary_slice(records, -31), NO_BYTES
    )


CANAL_ROW: Final = Wire(
    before=("old", "data"),
    after=("data",),
    varying=frozenset({"es", "gtid", "pos", "row", "ts"}),
    commit="es",
    is_commit_text=False,
    commit_us=_epoch_ms,
    is_plain=lambda message: "txLast" in message,  # else the cells are in canal's own rendering
    marks=_canal_marks,
)
OGG_JSON: Final = Wire(
    before=("before", "after"),
    after=("after",),
    varying=frozenset({"op_ts", "current_ts", "pos"}),
    commit="op_ts",
    is_commit_text=True,
    commit_us=_utc_times,
    is_plain=lambda message: (
        not any(
            n.endswith("_isMissing")
            for image in ("before", "after")
            for n in message.get(image) or ()
        )
    ),
    # up to the operation, or a part of the table's name
    marks=lambda records: pc.binary_slice(records, 0, 38),
)


@dataclass(frozen=True, slots=True)
class _Slot:
    """What differs between records: a member's value, or a cell of the image that is the
    member's value."""

    member: str
    column: str | None
    is_text: bool


@dataclass(frozen=True, slots=True)
class _Shape:
    """Records that differ in slots only: `start`, the slots with `texts` between them, `end`. Where
    `stamp_bytes` is not 0, `before_stamp` and a number of so many characters, which nobody reads,
    stand before `end`. All these texts begin and end with quotation marks: what stands beside a
    number otherwise goes to it. `change` is one such record's.
    """

    change: RowChange
    slots: tuple[_Slot, ...]
    start: bytes
    texts: tuple[bytes, ...]
    before_stamp: bytes
    stamp_bytes: int
    end: bytes

    @property
    def bytes_after_slots(self) -> int:
        """Of every such record."""
        return len(self.before_stamp) + self.stamp_bytes + len(self.end)

    def image(
        self, row: Row | None, members: tuple[str, ...], cells: Sequence[pa.Array]
    ) -> dict[str, pa.Array] | None:
        """A row's columns. The cells are in the order of the slots."""
        if row is None:
            return None
        found = {
            slot.column: cell
            for m in reversed(members)
            for slot, cell in zip(self.slots, cells, strict=True)
            if slot.member == m
        }
        return {name: found[name] for name in row}

    def is_like(self, values: pa.BinaryArray) -> pa.BooleanArray:
        """Whether records start and end so: a quick look."""
        return pc.and_(pc.starts_with(values, self.start), pc.ends_with(values, self.end))

    def encloses(self, values: pa.BinaryArray) -> pa.BooleanArray:
        """Whether records are so before their first slot and after their last."""
        if not self.stamp_bytes:
            return self.is_like(values)
        stamp = -self.stamp_bytes - len(self.end)
        before = pc.starts_with(
            pc.binary_slice(values, -self.bytes_after_slots, stamp), self.before_stamp
        )
        is_number = pc.match_substring_regex(pc.binary_slice(values, stamp, -len(self.end)), NUMBER)
        return reduce(pc.and_, (self.is_like(values), before, is_number))


def _shape(record: bytes, reader: Converter, wire: Wire) -> _Shape | None:
    """The shape that a record has; None where `from_bytes` does more than taking its cells as
    they stand."""
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
    if (
        any(slot.column is not None and not slot.is_text for slot in slots)
        or _Slot(wire.commit, None, wire.is_commit_text) not in slots
    ):
        return None
    texts = orjson.dumps(message).split(SLOT)
    for i, slot in enumerate(slots):
        if not slot.is_text:
            texts[i] = texts[i][: texts[i].rindex(b'"') + 1]
            texts[i + 1] = texts[i + 1][texts[i + 1].index(b'"') :]
    start, *between, end = texts
    if len(between) < 2 or not (record.startswith(start) and record.endswith(end)):
        return None
    if slots[-1].is_text or slots[-1].member == wire.commit:
        return _Shape(changes[0], tuple(slots), start, tuple(between), b"", 0, end)
    stamp_bytes = len(record) - len(end) - record.rindex(b'"', 0, -len(end)) - 1
    return _Shape(
        changes[0], tuple(slots[:-1]), start, tuple(between[:-1]), between[-1], stamp_bytes, end
    )


def _group(shape: _Shape, values: pa.BinaryArray, places: pa.Array, wire: Wire) -> RowGroup | None:
    """The records of the shape; None when there is none. Raises ArrowInvalid, ValueError."""
    blocks = [places[i : i + BLOCK_ROWS] for i in range(0, len(places), BLOCK_ROWS)]
    found = [
        (kept, cells)
        for kept, cells in (_pieces(shape, _taken(values, block), block) for block in blocks)
        if len(kept)
    ]
    if not found:
        return None
    records = pa.concat_arrays([kept for kept, _ in found])
    cells = [
        pa.concat_arrays(columns) for columns in zip(*(cells for _, cells in found), strict=True)
    ]
    change, commit = shape.change, shape.slots.index(_Slot(wire.commit, None, wire.is_commit_text))
    before, after = (
        shape.image(change.before, wire.before, cells),
        shape.image(change.after, wire.after, cells),
    )
    return RowGroup(change.table, change.op, records, before, after, wire.commit_us(cells[commit]))


def _taken(values: pa.BinaryArray, places: pa.Array) -> pa.BinaryArray:
    """What stands at ascending places."""
    first, last = places[0].as_py(), places[-1].as_py()
    return values.slice(first, len(places)) if last - first < len(places) else values.take(places)


def _pieces(
    shape: _Shape, values: pa.BinaryArray, places: pa.Array
) -> tuple[pa.Array, list[pa.Array]]:
    """The places of the records that are of the shape, and what stands in the slots of those; no
    slots if there is none."""
    values, places = _filtered(shape.encloses(values), values, places)
    lines, texts = (
        pc.binary_slice(values, len(shape.start), -shape.bytes_after_slots),
        list(shape.texts),
    )
    if len(lines) and pc.min(_bytes(lines)).as_py() < ord(" "):
        raise ValueError("not JSON on one line")
    longest = max(texts, key=len)
    if len(longest) >= LONG_TEXT_BYTES:
        # from a rare character on it is found faster
        inner = longest[max(longest.find(b"{", 0, len(longest) // 2), 1) : -1]
        texts[texts.index(longest)] = longest.replace(inner, LONG_TEXT)
        cut = pc.replace_substring(lines, inner, LONG_TEXT, max_replacements=1)
        lines, places = _filtered(
            pc.not_equal(pc.binary_length(lines), pc.binary_length(cut)), cut, places
        )
    if not len(lines):
        return places, []
    lines = lines.cast(pa.string())
    has_escapes = b"\\" in lines.buffers()[2].to_pybytes()
    for old, new in ((b":null", b':"' + NULL + b'"'), *(ESCAPES if has_escapes else ())):
        texts = [text.replace(old, new) for text in texts]
        lines = pc.replace_substring(lines, old, new)
    skipped, fields = _fields(lines, texts)
    if skipped:
        lines, places = _filtered(
            pa.array([i not in skipped for i in range(len(lines))]), lines, places
        )
    first, *others = fields
    parts = [
        part
        for text, field in zip(pa.array(texts, pa.string()), others, strict=True)
        for part in (text, field)
    ]
    again = pc.binary_join_element_wise(
        first, *parts, NOTHING, null_handling="replace", null_replacement=NULL.decode()
    )
    masks = [
        pc.match_substring_regex(field, NUMBER)
        for slot, field in zip(shape.slots, fields, strict=True)
        if not slot.is_text
    ]
    places, *fields = _filtered(reduce(pc.and_, masks, pc.equal(again, lines)), places, *fields)
    return places, [_unescaped(field) for field in fields] if has_escapes else fields


def _bytes(texts: pa.BinaryArray) -> pa.Array:
    data = texts.buffers()[2]
    return pa.Array.from_buffers(pa.uint8(), data.size, [None, data])


def _filtered(mask: pa.BooleanArray, *arrays: pa.Array) -> list[pa.Array]:
    return list(arrays) if pc.all(mask).as_py() else [array.filter(mask) for array in arrays]


def _fields(lines: pa.StringArray, texts: Sequence[bytes]) -> tuple[set[int], list[pa.Array]]:
    """The lines that have another number of quotation marks than `texts`; of the others, what
    stands before, between and after those."""
    skipped: set[int] = set()

    def skip(row: csv.InvalidRow) -> str:
        skipped.add(row.number - 1)
        return "skip"

    counts = [0, *accumulate(text.count(b'"') for text in texts)]
    names = [f"f{count}" for count in counts]
    data = pc.binary_join(
        pa.ListArray.from_arrays(pa.array([0, len(lines)], pa.int32()), lines), LINE_BREAK
    )[0].as_buffer()
    table = csv.read_csv(
        data,
        csv.ReadOptions(
            use_threads=False,
            column_names=[f"f{i}" for i in range(counts[-1] + 1)],
            block_size=data.size + 1,
        ),
        csv.ParseOptions(
            delimiter='"',
            quote_char=False,
            double_quote=False,
            invalid_row_handler=skip,
            ignore_empty_lines=False,
        ),
        csv.ConvertOptions(
            check_utf8=False,  # which the lines have been
            include_columns=names,
            column_types=dict.fromkeys(names, pa.string()),
            null_values=[NULL.decode()],
            strings_can_be_null=True,
        ),
    )
    return skipped, [table.column(name).combine_chunks() for name in names]


def _unescaped(cells: pa.Array) -> pa.Array:
    """JSON text as the text that it means. Raises ValueError."""
    is_escaped = pc.fill_null(pc.match_substring_regex(cells, ANY_ESCAPE), False)
    escaped = cells.filter(is_escaped).to_pylist()
    if not escaped:
        return cells
    for old, new in ESCAPES:
        escaped = [cell.replace(new.decode(), old.decode()) for cell in escaped]
    return pc.replace_with_mask(
        cells, is_escaped, pa.array(orjson.loads('["' + '","'.join(escaped) + '"]'), pa.string())
    )
