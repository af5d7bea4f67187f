"""Rows read by columns are those that the consumer task reads of their records."""

from __future__ import annotations

import struct
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cdcbus.plugins.registry import make_converter
from cdcbus.plugins.rowchange import Op, Origin, RowChange, TableId
from cdcbus.producer.ddl.table_schema import PRIMARY, TableColumn, TableSchema, UniqueKey
from cdcbus.producer.snapshot.columns import SelectedTable, selected_table
from cdcbus.producer.snapshot.rows import images
from cdcbus.tasks.direct.chunks.chunk_loader import _record_values, record_writer
from cdcbus.tasks.direct.chunks.row_columns import AS_THEY_ARE, ReadRows, RowsOrRecords, read_rows

ORIGIN = Origin(server_id=7, commit_us=1_700_000_000_123_000)
TEXTS = st.text(max_size=8)
FLOATS = st.floats(allow_nan=False, allow_infinity=False, width=32)
KINDS: tuple[tuple[str, str, st.SearchStrategy[bytes]], ...] = (
    ("int", "", st.integers().map(lambda number: str(number).encode())),
    ("float", "", FLOATS.map(lambda number: repr(number).encode())),
    ("double", "", FLOATS.map(lambda number: repr(number).encode())),
    ("decimal(9,2)", "", st.just(b"-0.50")),
    ("datetime(3)", "", st.just(b"0000-00-00 00:00:00.000")),
    ("varchar(20)", "utf8mb4", TEXTS.map(str.encode)),
    ("varchar(20)", "utf8mb4", TEXTS.map(str.encode) | st.binary(max_size=8)),  # once it was latin1
    ("longtext", "latin1", st.binary(max_size=8)),
    ("varchar(20)", "gbk", st.just("汉 a".encode("gbk")) | st.binary(max_size=3)),
    ("enum('a','it''s')", "utf8mb4", st.sampled_from([b"a", b"it's", b""])),
    ("varbinary(9)", "", st.binary(max_size=9)),
    ("json", "", st.just(b'{"a": [1, "\\u20ac"]}')),
)
FORMATS = [
    *((name, name) for name in sorted(AS_THEY_ARE)),
    ("canalRow", "canalCompat"),
    ("oggJson", "auto"),
]


@st.composite
def tables(draw: st.DrawFn) -> tuple[SelectedTable, list[bytes]]:
    """A table, and the images of some of its rows."""
    kinds = draw(st.lists(st.sampled_from(KINDS), min_size=1, max_size=9))
    names = draw(
        st.lists(
            st.sampled_from("abcdefghij") | TEXTS.filter(str.strip),
            min_size=len(kinds),
            max_size=len(kinds),
            unique_by=str.upper,
        )
    )
    columns = [TableColumn("id", "int", is_nullable=False)]
    for name, (type_, charset, _) in zip(names, kinds, strict=True):
        columns.append(TableColumn(f"c{name}", type_, charset))
    schema = TableSchema(tuple(columns), (UniqueKey(PRIMARY, ("id",)),))
    selected = selected_table(TableId("shop", "orders"), schema, has_metadata=True)
    rows = draw(
        st.lists(st.tuples(*(st.none() | cells for _, _, cells in kinds)), min_size=1, max_size=12)
    )
    packets = [packet(b"%d" % number, *row) for number, row in enumerate(rows)]
    return selected, images(packets, selected)


def packet(*cells: bytes | None) -> bytes:
    """A row as the protocol has it."""
    return b"".join(
        b"\xfb" if cell is None else b"\xfc" + struct.pack("<H", len(cell)) + cell for cell in cells
    )


def by_records(
    selected: SelectedTable, rows: list[bytes], written: str, read: str
) -> list[list[RowChange]]:
    """What the consumer task reads of each row's record."""
    values = _record_values(
        selected, record_writer(selected, make_converter(written)), rows, ORIGIN
    )
    return [make_converter(read).from_bytes(value) for value in values]


@pytest.mark.parametrize(("written", "read"), FORMATS)
@settings(max_examples=40, deadline=None)
@given(case=tables(), data=st.data())
def test_rows_by_columns_are_those_by_records(
    written: str, read: str, case: tuple[SelectedTable, list[bytes]], data: st.DataObject
) -> None:
    selected, rows = case
    wanted = by_records(selected, rows, written, read)
    found = read_rows(rows, selected, wanted[0])
    assert found is not None
    values = found.values()
    changes = [found.change(value) for value in values.to_pylist()]
    assert [replaced(change) for [change] in wanted] == [replaced(change) for change in changes]
    assert rows_of(found, values) == changes
    some = data.draw(st.lists(st.sampled_from(range(len(rows))), unique=True).map(sorted))
    assert rows_of(found, values.take(pa.array(some, pa.int64()))) == [changes[at] for at in some]


def replaced(change: RowChange) -> tuple[Any, ...]:
    """But for the number of the row in its transaction, which means nothing to a target."""
    return change.table, change.op, change.before, change.after, change.origin


def rows_of(found: ReadRows, values: pa.BinaryArray) -> list[RowChange]:
    """The same, by columns."""
    group = found.group(values)
    assert group.op is Op.INSERT and group.before is None and group.after is not None
    assert group.records.to_pylist() == list(range(len(values)))
    assert group.commit_us.to_pylist() == [found.like.origin.commit_us] * len(values)
    lists = [cells.to_pylist() for cells in group.after.values()]
    return [
        RowChange(
            group.table,
            group.op,
            None,
            dict(zip(group.after, cells, strict=True)),
            found.like.origin,
            found.like.row,
            found.like.is_last,
        )
        for cells in zip(*lists, strict=True)
    ]


def of_one_column(column: TableColumn, *cells: bytes) -> tuple[SelectedTable, list[bytes]]:
    schema = TableSchema((column,), (UniqueKey(PRIMARY, (column.name,)),))
    selected = selected_table(TableId("shop", "orders"), schema, has_metadata=True)
    return selected, images([packet(cell) for cell in cells], selected)


def test_a_column_that_is_called_like_a_flag_of_golden_gates_goes_by_records() -> None:
    column = TableColumn("c_isMissing", "varchar(5)", "utf8mb4", is_nullable=False)
    selected, rows = of_one_column(column, b"true")
    [first] = by_records(selected, rows, "oggJson", "oggJson")
    assert read_rows(rows, selected, first) is None


def test_what_is_no_row_image_goes_by_records() -> None:
    selected, rows = of_one_column(TableColumn("c", "int", is_nullable=False), b"1")
    [first] = by_records(selected, rows, "oggJson", "oggJson")
    assert read_rows([*rows, rows[0][:-1]], selected, first) is None


def test_rows_that_the_format_renders_in_another_way_go_by_records() -> None:
    """By the look of one of them."""
    selected, rows = of_one_column(TableColumn("c", "double", is_nullable=False), b"1e16")
    [first] = by_records(selected, rows, "canalCompat", "canalRow")
    assert read_rows(rows, selected, first) is None
    assert read_rows(rows, selected, []) is None


def test_records_are_read_as_such_while_there_are_no_rows() -> None:
    selected, rows = of_one_column(TableColumn("c", "int", is_nullable=False), b"1")
    converter = make_converter("canalRow")
    [value] = _record_values(selected, record_writer(selected, converter), rows, ORIGIN)
    both = RowsOrRecords(converter)
    assert both.from_bytes(value) == converter.from_bytes(value)
    assert both.read_columns(pa.array([value], pa.binary())).rest == [0]
    assert both.to_bytes(both.from_bytes(value)[0]).startswith(b"{")
