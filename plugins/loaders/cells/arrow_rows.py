"""Rows held as Arrow columns, for loaders that write whole columns; other loaders see plain
rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import methodcaller
from typing import overload

import pyarrow as pa

from cdcbus.plugins.rowchange import Cell


class ColumnRows(Sequence[tuple[Cell, ...]]):
    """Rows of columns of equal length, of text or null. `arrays`: one per column, in order."""

    def __init__(self, arrays: Sequence[pa.Array]) -> None:
        self.arrays = tuple(arrays)

    def __len__(self) -> int:
        return len(self.arrays[0])

    def __iter__(self) -> Iterator[tuple[Cell, ...]]:
        columns = map(methodcaller("to_pylist"), self.arrays)
        return zip(*columns, strict=True)

    @overload
    def __getitem__(self, index: int) -> tuple[Cell, ...]: ...
    @overload
    def __getitem__(self, index: slice) -> ColumnRows: ...
    def __getitem__(self, index: int | slice) -> tuple[Cell, ...] | ColumnRows:
        if isinstance(index, slice):
            return ColumnRows([array[index] for array in self.arrays])
        return tuple(array[index].as_py() for array in self.arrays)
