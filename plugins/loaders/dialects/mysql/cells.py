"""Converts cells to literals of MySQL and MariaDB. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import pyarrow as pa

from cdcbus.plugins.contracts import TargetColumn, TargetTable
from cdcbus.plugins.loaders.cells.arrow_literals import (
    are_numbers,
    number_literals,
    rows_of,
    text_literals,
)
from cdcbus.plugins.loaders.cells.arrow_rows import ColumnRows
from cdcbus.plugins.loaders.dialect import Cells, by_column, hexadecimal, unfit
from cdcbus.plugins.rowchange import Cell


def types(names: str) -> frozenset[str]:
    """Parses names separated by blanks."""
    return frozenset(names.split())


SPATIAL_TYPES: Final = types(
    "geometry point linestring polygon multipoint multilinestring multipolygon "
    "geometrycollection geomcollection vector"
)
BINARY_TYPES: Final = SPATIAL_TYPES | types("binary varbinary tinyblob blob mediumblob longblob")
TEXT_TYPES: Final = types("char varchar tinytext text mediumtext longtext enum set")
NUMBER_TYPES: Final = types("tinyint smallint mediumint int bigint decimal float double bit")
NUMBER: Final = re.compile(r"-?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?")


def row_literals(table: TargetTable, columns: Sequence[str], rows: Iterable[Cells]) -> list[str]:
    """Returns each row as `(1, 'a', NULL)`. Raises TargetRejected for a cell that its column cannot
    hold."""
    if isinstance(rows, ColumnRows):
        arrays = []
        for name, cells in zip(columns, rows.arrays, strict=True):
            arrays.append(_column_literals(table, table.columns[name], cells))
        return rows_of(arrays)
    return list(map(row_literal, literal_rows(table, columns, rows)))


def _column_literals(table: TargetTable, column: TargetColumn, cells: pa.Array) -> pa.Array:
    """`_literals` for a whole column."""
    is_number = column.type in NUMBER_TYPES
    if column.type in BINARY_TYPES or (is_number and not are_numbers(cells)):
        return pa.array(_literals(table, column, cells.to_pylist()), pa.string())
    if is_number:
        return number_literals(cells)
    return text_literals(cells)


def row_literal(literals: Iterable[str]) -> str:
    return f"({', '.join(literals)})"


def literal_rows(
    table: TargetTable, columns: Sequence[str], rows: Iterable[Cells]
) -> Iterator[tuple[str, ...]]:
    """Yields each row as one literal per column. Raises TargetRejected for a cell that its column
    cannot hold."""
    literals = []
    for name, cells in by_column(columns, rows):
        literals.append(_literals(table, table.columns[name], cells))
    return zip(*literals, strict=True)


def _literals(table: TargetTable, column: TargetColumn, cells: Sequence[Cell]) -> Iterable[str]:
    """The literals of a column's cells. Numbers are unquoted, as a key compared with a text may be
    compared as a rounded number. In text only quotes are doubled: the session has no backslash
    escapes."""
    if column.type in BINARY_TYPES:
        texts = hexadecimal(table, column, cells)
        return ["NULL" if digits is None else f"x'{digits}'" for digits in texts]
    if column.type in NUMBER_TYPES:
        known = [cell for cell in cells if cell is not None]
        if not all(map(NUMBER.fullmatch, known)):
            raise unfit(table, column, "no number")
        return ["NULL" if cell is None else cell for cell in cells]
    return ["NULL" if cell is None else "'" + cell.replace("'", "''") + "'" for cell in cells]


def in_statements(rows: Iterable[str], room: int) -> Iterator[list[str]]:
    """Yields the rows in parts of at most `room` bytes as sent, separators included; a longer row
    is a part of its own."""
    part: list[str] = []
    size = 0
    for row in rows:
        row_size = size_of(row) + len(", ")
        if part and size + row_size > room:
            yield part
            part = []
            size = 0
        part.append(row)
        size += row_size
    if part:
        yield part


def size_of(text: str) -> int:
    """The size of a text in bytes, as sent."""
    return len(text) if text.isascii() else len(text.encode())
