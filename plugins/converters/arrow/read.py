"""Reads batches of records as columns, shape by shape.

Records of one table, operation and column set are the same text except for their cells. The
converter reads the first of them, which gives that text (`Shape`); `cells_of` cuts the others.
Records of writers that put numbers in cells, blanks between them, or several rows in one record are
left to `from_bytes`.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from cdcbus.plugins.contracts import Converter
from cdcbus.plugins.converters.arrow.compiled import cells_of
from cdcbus.plugins.converters.arrow.shape import Placeholder, Shape, read_shape
from cdcbus.plugins.converters.arrow.wire import Wire
from cdcbus.plugins.converters.columnar import Columns, RowGroup

# Fewer records are read faster one by one.
MIN_ROWS: Final = 32
# The number of shapes tried for the records of one table and operation: updates that change
# different columns have different ones.
MAX_SHAPES: Final = 8


def columns_on_wire(records: pa.BinaryArray, reader: Converter, wire: Wire) -> Columns:
    """The columns of records of a wire format; `reader` reads one record of each shape."""
    groups: list[RowGroup] = []
    marks = wire.marks(records)
    tries = Counter[Any]()
    rest = set(pc.indices_nonzero(records.is_null()).to_pylist())
    left = pc.indices_nonzero(records.is_valid()).cast(pa.int64())
    while len(left) >= MIN_ROWS:
        # The first remaining record gives a shape; `alike` are all records that can have it.
        first = left[0].as_py()
        shape = read_shape(records[first].as_py(), reader, wire)
        is_alike = pc.equal(marks, marks[first]).take(left)
        alike = left.filter(is_alike)
        left = left.filter(pc.invert(is_alike))

        kind = marks[first] if shape is None else (shape.start, shape.end)
        tries[kind] += 1
        group = None
        if shape is not None and len(alike) >= MIN_ROWS:
            try:
                group = _group(shape, records, alike, wire)
            except (pa.ArrowInvalid, ValueError):
                # One of them is not JSON, or has a number or time that only `from_bytes` reads.
                tries[kind] = MAX_SHAPES
        if group is not None:
            groups.append(group)
            alike = _without(alike, group.records)
        elif len(alike) >= MIN_ROWS:
            rest.add(first)
            alike = alike[1:]

        is_tried_out = tries[kind] >= MAX_SHAPES
        if is_tried_out and shape is not None:
            is_kind = shape.is_like(records.take(alike))
            rest.update(alike.filter(is_kind).to_pylist())
            alike = alike.filter(pc.invert(is_kind))
        if len(alike) < MIN_ROWS or (is_tried_out and shape is None):
            rest.update(alike.to_pylist())
        else:
            # Others with the same marks are tried again, with another first record.
            left = pa.concat_arrays([left, alike])
            left = left.take(pc.array_sort_indices(left))
    return Columns(groups, sorted({*rest, *left.to_pylist()}))


def _without(places: pa.Array, taken: pa.Array) -> pa.Array:
    """The indexes that are not in `taken`, which are some of them, or all."""
    if len(taken) == len(places):
        return places[:0]
    return places.filter(pc.invert(pc.is_in(places, taken)))


def _group(shape: Shape, values: pa.BinaryArray, places: pa.Array, wire: Wire) -> RowGroup | None:
    """The records of the shape as a group; None where no record has it. Raises ArrowInvalid,
    ValueError."""
    kept, cells = cells_of(shape, values, places)
    if not len(kept):
        return None
    change = shape.change
    commit = Placeholder(wire.commit, None, wire.is_commit_text)
    commit_cells = cells[shape.placeholders.index(commit)]
    return RowGroup(
        change.table,
        change.op,
        kept,
        shape.image(change.before, wire.before, cells),
        shape.image(change.after, wire.after, cells),
        wire.commit_us(commit_cells),
    )
