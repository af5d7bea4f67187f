"""Rows of a table as the consumer task reads them, without records in between: Arrow columns of
texts straight from row images, without writing and parsing JSON.

One row takes the path through a record. It shows how rows look to the consumer task (names, types,
place), and whether the formats of both tasks leave cells unchanged. Where they do not, all rows
take the path through records (`chunk_loader.py`), the reference that this must be equal to.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import Final

import pyarrow as pa

from cdcbus.plugins.contracts import Converter
from cdcbus.plugins.converters.columnar import Columns, RowGroup, read_columns
from cdcbus.plugins.errors import UnreadableEvent
from cdcbus.plugins.rowchange import Cell, Row, RowChange
from cdcbus.producer.decoding.column_types import BinlogColumn, Reader
from cdcbus.producer.snapshot.columns import CellForm, SelectedTable
from cdcbus.producer.snapshot.rows import CellColumn, cell_columns

AS_THEY_ARE: Final = {"canalRow", "oggJson", "porterCompat"}
"""The formats that write a cell's text unchanged."""
# oggJson's members for missing cells; a column of such a name would be taken for one.
_FLAG: Final = "_ismissing"
_UTF8: Final = {"utf8mb4", "utf8mb3", "utf8"}
# A 64-bit number as bytes, so that it passes where values of records pass.
_PLACE: Final = pa.binary(8)


@dataclass(slots=True)
class ReadRows:
    """Rows that were read. `like`: one of them, as the consumer task reads it. `columns`: the cells
    of all rows, by its column names."""

    like: RowChange
    columns: dict[str, pa.Array]
    _lists: list[list[Cell]] = field(default_factory=list)

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def values(self) -> pa.BinaryArray:
        """The rows' places, which stand in for the values of records."""
        return pa.array(range(len(self)), pa.int64()).view(_PLACE).cast(pa.binary())

    def group(self, values: pa.BinaryArray) -> RowGroup:
        """The rows with these values."""
        columns = self.columns
        # The applier asks for a part where it halves a batch.
        if len(values) < len(self):
            places = values.cast(_PLACE).view(pa.int64())
            columns = {name: cells.take(places) for name, cells in columns.items()}
        commit = pa.scalar(self.like.origin.commit_us, pa.int64())
        return RowGroup(
            self.like.table,
            self.like.op,
            pa.array(range(len(values)), pa.int64()),
            None,
            columns,
            pa.repeat(commit, len(values)),
        )

    def change(self, value: bytes) -> RowChange:
        """The row with this value."""
        # All rows at once, as converting single cells is slower.
        if not self._lists:
            self._lists = [cells.to_pylist() for cells in self.columns.values()]
        place = int.from_bytes(value, "little")
        cells = map(itemgetter(place), self._lists)
        after: Row = dict(zip(self.columns, cells, strict=True))
        return replace(self.like, after=after)


class RowsOrRecords:
    """A converter that reads records, except while `rows` is set: values are then their places."""

    def __init__(self, converter: Converter) -> None:
        self._converter = converter
        self.rows: ReadRows | None = None

    def to_bytes(self, change: RowChange) -> bytes:
        return self._converter.to_bytes(change)

    def from_bytes(self, value: bytes) -> list[RowChange]:
        """The row changes of a value. Raises ConversionError."""
        if self.rows is None:
            return self._converter.from_bytes(value)
        return [self.rows.change(value)]

    def read_columns(self, records: pa.BinaryArray) -> Columns:
        """All rows by columns, from `rows` or from records."""
        if self.rows is None:
            return read_columns(records, self._converter)
        return Columns([self.rows.group(records)], [])


def read_rows(
    images: list[bytes], selected: SelectedTable, first: Sequence[RowChange]
) -> ReadRows | None:
    """The rows; None where they must take the path through records. `first`: what the consumer task
    reads from the record of the first image."""
    names = selected.table.table.names
    if len(first) != 1 or any(name.lower().endswith(_FLAG) for name in names):
        return None
    like = first[0]
    if like.after is None or len(like.after) != len(names):
        return None
    try:
        columns = _columns(images, selected)
    # The path through records reports what is wrong.
    except (ValueError, UnreadableEvent):
        return None
    # The proof: the first row is equal on both paths, else the formats change cells.
    if [cells[0].as_py() for cells in columns] != list(like.after.values()):
        return None
    return ReadRows(like, dict(zip(like.after, columns, strict=True)))


def _columns(images: list[bytes], selected: SelectedTable) -> list[pa.Array]:
    columns = []
    for cells, form, column, read in zip(
        cell_columns(images, selected),
        selected.forms,
        selected.table.columns,
        selected.table.readers,
        strict=True,
    ):
        columns.append(_texts(cells, len(images), form, column, read))
    return columns


def _texts(
    cells: CellColumn, rows: int, form: CellForm, column: BinlogColumn, read: Reader
) -> pa.Array:
    """A column's texts. `read` decodes cells whose bytes are not the text itself."""
    buffers = [pa.py_buffer(part) for part in cells]
    if form is CellForm.TEXT and column.charset in _UTF8:
        texts = pa.Array.from_buffers(pa.string(), rows, buffers)
        try:
            texts.validate(full=True)
        except pa.ArrowInvalid:
            """Some cells are not UTF-8; the reader decides what becomes of them."""
        else:
            return texts
    found = pa.Array.from_buffers(pa.binary(), rows, buffers).to_pylist()
    decode = _of_text(read) if form is CellForm.TEXT else _of_number(read)
    return pa.array([None if cell is None else decode(cell) for cell in found], pa.string())


def _of_text(read: Reader) -> Callable[[bytes], str]:
    # The reader expects a length of four bytes before the text, as in a row image.
    return lambda cell: read(len(cell).to_bytes(4, "little") + cell, 0)[0]


def _of_number(read: Reader) -> Callable[[bytes], str]:
    return lambda cell: read(cell, 0)[0]
