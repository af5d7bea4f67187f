"""The compiled part cuts records as Arrow does, and reads nothing outside of them."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cdcbus.plugins.converters.arrow.compiled import cells_of, compiled
from cdcbus.plugins.converters.arrow.cut import cut_in_blocks
from cdcbus.plugins.converters.arrow.shape import Shape, read_shape
from cdcbus.plugins.converters.arrow.wire import CANAL_ROW, OGG_JSON
from cdcbus.plugins.registry import make_converter
from cdcbus.plugins.rowchange import Column, Op, Origin, Row, RowChange, Table, TableId
from tests.unit.plugins.converters.rows import CELLS

pytestmark = pytest.mark.skipif(compiled is None, reason="the compiled part is not in use")

WIRES = {"canalRow": CANAL_ROW, "oggJson": OGG_JSON}
TABLE = Table(
    TableId("shop", "orders"), tuple(Column(name) for name in ("id", "note", "state")), ("id",)
)
FULL: Row = {"id": "7", "note": "x", "state": "new"}
# What ends a cell or a record, or begins something else.
PIECES = [
    *(b"", b'"', b"\\", b'\\"', b"\\u0041", b"\\x", b",", b":", b"null", b'"null"', b"\n", b"\x01"),
    *(b"0", b"-", b"-1", b"1.5", b"true", b"\xff"),
]


def record(converter: str, op: Op, before: Row, after: Row) -> bytes:
    change = RowChange(
        TABLE,
        op,
        None if op is Op.INSERT else before,
        None if op is Op.DELETE else after,
        Origin("f", 4, "0-1-2", 1, 1_700_000_000_123_000),
        row=3,
    )
    return make_converter(converter).to_bytes(change)


def shape_of(converter: str, op: Op) -> Shape:
    value = record(converter, op, FULL, {name: f"{cell}!" for name, cell in FULL.items()})
    shape = read_shape(value, make_converter(converter), WIRES[converter])
    assert shape is not None
    return shape


def rows_of(columns: list[pa.Array]) -> list[tuple[str | None, ...]]:
    return list(zip(*[column.to_pylist() for column in columns], strict=True))


@pytest.mark.parametrize("op", [Op.INSERT, Op.UPDATE, Op.DELETE])
@pytest.mark.parametrize("converter", WIRES)
@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_both_find_the_same_cells(converter: str, op: Op, data: st.DataObject) -> None:
    """The compiled part also takes a record whose first or last cell is NULL; and of a block that
    Arrow refuses for one record, the others."""
    shape = shape_of(converter, op)
    rows = st.fixed_dictionaries(dict.fromkeys(FULL, CELLS))
    records = [record(converter, op, data.draw(rows), data.draw(rows)) for _ in range(8)]
    for number in data.draw(st.lists(st.integers(0, 7), max_size=3)):
        whole = records[number]
        start = data.draw(st.integers(0, len(whole)))
        rest = whole[start + data.draw(st.integers(0, 12)) :]
        records[number] = whole[:start] + data.draw(st.sampled_from(PIECES)) + rest
    # As slices, and with gaps between the places.
    values = pa.array([b"before", *records], pa.binary())[1:]
    chosen = data.draw(st.sets(st.integers(0, 7), min_size=1))
    places = pa.array([9, *sorted(chosen)], pa.int64())[1:]
    try:
        plain_places, plain_cells = cut_in_blocks(shape, values, places)
    except ValueError:
        return
    try:
        found_places, found_cells = cells_of(shape, values, places)
    except ValueError:
        # Of a damaged record that only the compiled part takes: without it both find the others.
        assert len(plain_places) < len(places)
        found_places, found_cells = cells_of(shape, values, plain_places)
    found = dict(zip(found_places.to_pylist(), rows_of(found_cells), strict=True))
    plain = dict(zip(plain_places.to_pylist(), rows_of(plain_cells), strict=True))
    assert plain.items() <= found.items()
    for place in found.keys() - plain.keys():
        assert None in found[place]
        assert not shape.is_like(values[place : place + 1])[0].as_py()


@pytest.mark.parametrize("op", [Op.INSERT, Op.UPDATE])
@pytest.mark.parametrize("converter", WIRES)
def test_a_record_is_not_read_beyond_its_end(converter: str, op: Op) -> None:
    """The bytes behind each part of this one would complete it."""
    whole = record(converter, op, FULL, {**FULL, "id": "8", "note": None, "state": "a"})
    shape = read_shape(whole, make_converter(converter), WIRES[converter])
    assert shape is not None
    data = pa.py_buffer(whole)
    for size in range(1, len(whole)):
        ends = pa.array([0, size, len(whole)], pa.int32()).buffers()[1]
        parts = pa.Array.from_buffers(pa.binary(), 2, [None, ends, data])
        found, _ = cells_of(shape, parts, pa.array([0, 1], pa.int64()))
        assert not len(found)


@pytest.mark.parametrize("place", [-1, 1, 2**40])
def test_a_place_outside_is_refused(place: int) -> None:
    values = pa.array([record("canalRow", Op.INSERT, FULL, FULL)], pa.binary())
    with pytest.raises(ValueError, match="outside"):
        cells_of(shape_of("canalRow", Op.INSERT), values, pa.array([place], pa.int64()))
