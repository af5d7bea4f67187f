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
from dataclasses import dataclass, replace
from datetime import tzinfo
from functools import partial
from itertools import accumulate
from typing import Any, Final

import orjson
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from cdcbus.plugins.contracts import ColumnarConverter, Converter
from cdcbus.plugins.errors import ConversionError
from cdcbus.plugins.rowchange import Op, Row, RowChange, Table
from cdcbus.plugins.time_zone import seconds_ahead

MIN_ROWS: Final = 32  # fewer are read faster one by one
# of records of one table and operation, as updates that change different columns
MAX_SHAPES: Final = 8
BLOCK_ROWS: Final = 4000  # few enough for a processor's cache
# a text of as many is taken out first: each of its quotation marks would cost a cut
LONG_TEXT_BYTES: Final = 100
# No JSON text holds control characters as such, so they can stand for something.
SLOT: Final = b"\x00"
NULL: Final = b"\x01"
BACKSLASH: Final = b"\x02"
QUOTE: Final = b"\x03"
LONG_TEXT: Final = b"\x04"
ESCAPES: Final = ((rb"\\", BACKSLASH), (rb"\"", QUOTE))
ANY_ESCAPE: Final = "[\\\\\x02\x03]"
NUMBER: Final = "^:(-?(0|[1-9][0-9]*)|true|false),$"
# Of a bare Python value Arrow asks first whether it is one of dateutil's, which Python looks for
# each time where it is not installed.
NOTHING: Final = pa.scalar("", pa.string())
LINE_BREAK: Final = pa.scalar("\n", pa.string())
NO_BYTES: Final = pa.scalar(b"", pa.binary())
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
    marks = wire.marks(records)
    tries = Counter[Any]()
    left = pc.indices_nonzero(records.is_valid()).cast(pa.int64())
    rest = set(pc.indices_nonzero(records.is_null()).to_pylist())
    while len(left) >= MIN_ROWS:
        # The first record that is left gives a shape; `mine` are those that may have it, too.
        first = left[0].as_py()
        shape = _shape(records[first].as_py(), reader, wire)
        is_alike = pc.equal(marks, marks[first]).take(left)
        mine = left.filter(is_alike)
        left = left.filter(pc.invert(is_alike))
        kind = marks[first] if shape is None else (shape.start, shape.end)
        tries[kind] += 1
        group = None
        if shape is not None and len(mine) >= MIN_ROWS:
            try:
                group = _group(shape, records, mine, wire)
            except (pa.ArrowInvalid, ValueError):
                # somewhere is no JSON, or a number or time in a form of its own
                tries[kind] = MAX_SHAPES
        if group is not None:
            groups.append(group)
            mine = _without(mine, group.records)
        elif len(mine) >= MIN_ROWS:
            rest.add(first)
            mine = mine[1:]
        is_tried_out = tries[kind] >= MAX_SHAPES
        if is_tried_out and shape is not None:
            is_kind = shape.is_like(records.take(mine))
            rest.update(mine.filter(is_kind).to_pylist())
            mine = mine.filter(pc.invert(is_kind))
        if len(mine) < MIN_ROWS or (is_tried_out and shape is None):
            rest.update(mine.to_pylist())
        else:
            # others of the same marks come again with those that are left
            left = pa.concat_arrays([left, mine])
            left = left.take(pc.array_sort_indices(left))
    return Columns(groups, sorted({*rest, *left.to_pylist()}))


def _without(places: pa.Array, taken: pa.Array) -> pa.Array:
    """The places that are not taken; `taken` are some of them, or all."""
    if len(taken) == len(places):
        return places[:0]
    return places.filter(pc.invert(pc.is_in(places, taken)))


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
    is_long = pc.greater(pc.binary_length(times), OP_TS_CHARACTERS)
    is_year_0 = pc.starts_with(times, "0000")
    if pc.any(pc.or_(is_long, is_year_0)).as_py():
        raise pa.ArrowInvalid("a time in a form of its own")
    moments = pc.cast(times, pa.timestamp("us"))
    return pc.fill_null(pc.cast(moments, pa.int64()), 0)


def _clock_times(zone: tzinfo, times: pa.Array) -> pa.Array:
    """The same of clocks in a zone."""
    clock_us = _utc_times(times)
    whole = pc.floor_temporal(clock_us.cast(pa.timestamp("us")), unit="second")
    seen = whole.cast(pa.timestamp("s")).cast(pa.int64()).dictionary_encode()
    ahead_us = [seconds_ahead(zone, each) * 1_000_000 for each in seen.dictionary.to_pylist()]
    moments = pc.subtract(clock_us, pa.array(ahead_us, pa.int64()).take(seen.indices))
    return pc.if_else(times.is_null(), clock_us, moments)


def _has_no_missing_flag(message: Mapping[str, Any]) -> bool:
    """Whether the images hold no `<COLUMN>_isMissing` of GoldenGate's."""
    names = [*(message.get("before") or ()), *(message.get("after") or ())]
    return not any(name.endswith("_isMissing") for name in names)


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
    is_plain=_has_no_missing_flag,
    # up to the operation, or a part of the table's name
    marks=lambda records: pc.binary_slice(records, 0, 38),
)


def ogg_json(zone: tzinfo | None) -> Wire:
    """oggJson whose times are those of clocks in a zone; None: UTC."""
    if zone is None:
        return OGG_JSON
    return replace(OGG_JSON, commit_us=partial(_clock_times, zone))


@dataclass(frozen=True, slots=True)
class _Placeholder:
    """What differs between records: a member's value, or a cell of the image that is the
    member's value."""

    member: str
    column: str | None
    is_text: bool


@dataclass(frozen=True, slots=True)
class _Shape:
    """Records that differ in placeholders only: `start`, the placeholders with `texts` between
    them, `end`. Where `stamp_bytes` is not 0, `before_stamp` and a number of so many characters,
    which nobody reads, stand before `end`. All these texts begin and end with quotation marks: what
    stands beside a number otherwise goes to it. `change` is one such record's.
    """

    change: RowChange
    placeholders: tuple[_Placeholder, ...]
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
        """A row's columns. The cells are in the order of the placeholders."""
        if row is None:
            return None
        found: dict[str | None, pa.Array] = {}
        # of two members that have a column the first counts: it overwrites the other
        for member in reversed(members):
            for placeholder, cell in zip(self.placeholders, cells, strict=True):
                if placeholder.member == member:
                    found[placeholder.column] = cell
        return {name: found[name] for name in row}

    def is_like(self, values: pa.BinaryArray) -> pa.BooleanArray:
        """Whether records start and end so: a quick look."""
        return pc.and_(pc.starts_with(values, self.start), pc.ends_with(values, self.end))

    def encloses(self, values: pa.BinaryArray) -> pa.BooleanArray:
        """Whether records are so before their first placeholder and after their last."""
        if not self.stamp_bytes:
            return self.is_like(values)
        # counted from a record's end: before_stamp, the stamp, `end`
        stamp = -self.stamp_bytes - len(self.end)
        before = pc.binary_slice(values, -self.bytes_after_slots, stamp)
        stamps = pc.binary_slice(values, stamp, -len(self.end))
        is_stamped = pc.and_(
            pc.starts_with(before, self.before_stamp), pc.match_substring_regex(stamps, NUMBER)
        )
        return pc.and_(self.is_like(values), is_stamped)


def _shape(record: bytes, reader: Converter, wire: Wire) -> _Shape | None:
    """The shape that a record has; None where `from_bytes` does more than taking its cells as
    they stand.

    `{"data":[{"id":"7"}],"es":17,"type":"INSERT"}` has the placeholders `7` and `17`: it starts
    with `{"data":[{"id":"`, then stands `"}],"es":` between them, and it ends with
    `,"type":"INSERT"}`, of which the comma goes to the number.
    """
    try:
        changes = reader.from_bytes(record)
        message = orjson.loads(record)
    except (ConversionError, ValueError):
        return None
    if len(changes) != 1 or changes[0].op is Op.TRUNCATE or not wire.is_plain(message):
        return None
    placeholders = _put_placeholders(message, wire)
    if any(
        placeholder.column is not None and not placeholder.is_text for placeholder in placeholders
    ):
        return None
    if _Placeholder(wire.commit, None, wire.is_commit_text) not in placeholders:
        return None
    start, *between, end = _texts_around(orjson.dumps(message), placeholders)
    if len(between) < 2 or not (record.startswith(start) and record.endswith(end)):
        return None
    if placeholders[-1].is_text or placeholders[-1].member == wire.commit:
        return _Shape(changes[0], tuple(placeholders), start, tuple(between), b"", 0, end)
    # The last number is read by nobody: it is only compared in its place from the end.
    before_stamp = between.pop()
    stamp_bytes = len(record) - len(end) - record.rindex(b'"', 0, -len(end)) - 1
    return _Shape(
        changes[0], tuple(placeholders[:-1]), start, tuple(between), before_stamp, stamp_bytes, end
    )


def _put_placeholders(message: dict[str, Any], wire: Wire) -> list[_Placeholder]:
    """Puts SLOT in place of what differs between records; what was there, in order."""
    placeholders: list[_Placeholder] = []

    def slotted(value: Any, member: str, column: str | None = None) -> orjson.Fragment:
        is_text = value is None or isinstance(value, str)
        placeholders.append(_Placeholder(member, column, is_text))
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
    return placeholders


def _texts_around(message: bytes, placeholders: Sequence[_Placeholder]) -> list[bytes]:
    """The texts before, between and after the placeholders. What stands between a number and the
    quotation marks beside it goes to the number."""
    texts = message.split(SLOT)
    for i, placeholder in enumerate(placeholders):
        if not placeholder.is_text:
            before = texts[i]
            after = texts[i + 1]
            texts[i] = before[: before.rindex(b'"') + 1]
            texts[i + 1] = after[after.index(b'"') :]
    return texts


def _group(shape: _Shape, values: pa.BinaryArray, places: pa.Array, wire: Wire) -> RowGroup | None:
    """The records of the shape; None when there is none. Raises ArrowInvalid, ValueError."""
    kept: list[pa.Array] = []
    pieces: list[list[pa.Array]] = []
    for start in range(0, len(places), BLOCK_ROWS):
        block = places[start : start + BLOCK_ROWS]
        found, cells_of_block = _pieces(shape, _taken(values, block), block)
        if len(found):
            kept.append(found)
            pieces.append(cells_of_block)
    if not kept:
        return None
    cells = [pa.concat_arrays(blocks) for blocks in zip(*pieces, strict=True)]
    change = shape.change
    commit = cells[shape.placeholders.index(_Placeholder(wire.commit, None, wire.is_commit_text))]
    return RowGroup(
        change.table,
        change.op,
        pa.concat_arrays(kept),
        shape.image(change.before, wire.before, cells),
        shape.image(change.after, wire.after, cells),
        wire.commit_us(commit),
    )


def _taken(values: pa.BinaryArray, places: pa.Array) -> pa.BinaryArray:
    """What stands at ascending places."""
    first = places[0].as_py()
    last = places[-1].as_py()
    if last - first < len(places):  # without gaps: nothing is copied
        return values.slice(first, len(places))
    return values.take(places)


def _pieces(
    shape: _Shape, values: pa.BinaryArray, places: pa.Array
) -> tuple[pa.Array, list[pa.Array]]:
    """The places of the records that are of the shape, and what stands in the placeholders of
    those; no placeholders if there is none."""
    values, places = _filtered(shape.encloses(values), values, places)
    lines = pc.binary_slice(values, len(shape.start), -shape.bytes_after_slots)
    texts = list(shape.texts)
    if len(lines) and pc.min(_bytes(lines)).as_py() < ord(" "):
        raise ValueError("not JSON on one line")
    lines, places, texts = _without_long_text(lines, places, texts)
    if not len(lines):
        return places, []
    lines = lines.cast(pa.string())
    has_escapes = b"\\" in lines.buffers()[2].to_pybytes()
    # NULL gets quotation marks as any text, and quotation marks within texts go.
    replaced = [(b":null", b':"' + NULL + b'"')]
    if has_escapes:
        replaced += ESCAPES
    for old, new in replaced:
        texts = [text.replace(old, new) for text in texts]
        lines = pc.replace_substring(lines, old, new)
    skipped, fields = _fields(lines, texts)
    if skipped:
        is_kept = pa.array([i not in skipped for i in range(len(lines))])
        lines, places = _filtered(is_kept, lines, places)
    # Only a record that comes out again from its pieces has been read rightly.
    is_right = pc.equal(_joined(fields, texts), lines)
    for placeholder, field in zip(shape.placeholders, fields, strict=True):
        if not placeholder.is_text:
            is_right = pc.and_(is_right, pc.match_substring_regex(field, NUMBER))
    places, *fields = _filtered(is_right, places, *fields)
    if has_escapes:
        fields = [_unescaped(field) for field in fields]
    return places, fields


def _without_long_text(
    lines: pa.Array, places: pa.Array, texts: list[bytes]
) -> tuple[pa.Array, pa.Array, list[bytes]]:
    """The records that have the longest of the texts, each with one character in its place: each
    of its quotation marks would cost a cut."""
    longest = max(texts, key=len)
    if len(longest) < LONG_TEXT_BYTES:
        return lines, places, texts
    # from a rare character on it is found faster
    start = max(longest.find(b"{", 0, len(longest) // 2), 1)
    inner = longest[start:-1]
    cut = pc.replace_substring(lines, inner, LONG_TEXT, max_replacements=1)
    has_it = pc.not_equal(pc.binary_length(lines), pc.binary_length(cut))
    lines, places = _filtered(has_it, cut, places)
    texts[texts.index(longest)] = longest.replace(inner, LONG_TEXT)
    return lines, places, texts


def _joined(fields: Sequence[pa.Array], texts: Sequence[bytes]) -> pa.Array:
    """The records again: the fields with the texts between them."""
    parts = [fields[0]]
    for text, field in zip(pa.array(texts, pa.string()), fields[1:], strict=True):
        parts += (text, field)
    return pc.binary_join_element_wise(
        *parts, NOTHING, null_handling="replace", null_replacement=NULL.decode()
    )


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

    # Of the pieces between two quotation marks those count that are no part of a text.
    counts = [0, *accumulate(text.count(b'"') for text in texts)]
    names = [f"f{count}" for count in counts]
    whole = pa.ListArray.from_arrays(pa.array([0, len(lines)], pa.int32()), lines)
    data = pc.binary_join(whole, LINE_BREAK)[0].as_buffer()
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
    # all of them in one call
    texts = orjson.loads('["' + '","'.join(escaped) + '"]')
    return pc.replace_with_mask(cells, is_escaped, pa.array(texts, pa.string()))
