"""Converts cells to literals of MySQL and MariaDB. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from cdcbus.plugins.contracts import TargetColumn, TargetTable
from cdcbus.plugins.loaders.cells.arrow_literals import (
    are_numbers,
    number_literals,
    rows_of,
    text_literals,
)
from cdcbus.plugins.loaders.cells.arrow_rows import ColumnRows
from cdcbus.plugins.loaders.cells.canonical import hold_of
from cdcbus.plugins.loaders.cells.numbers import POINT
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
LARGEST_FLOAT: Final = "3.4028234663852886e+38"
YEAR: Final = re.compile("[0-9]{4}")
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
    is_odd = is_number and (not are_numbers(cells) or _has_large(column, cells))
    if column.type in BINARY_TYPES or column.type == "year" or is_odd:
        return pa.array(_literals(table, column, cells.to_pylist()), pa.string())
    if is_number:
        return number_literals(cells)
    return text_literals(cells)


def _has_large(column: TargetColumn, cells: pa.Array) -> bool:
    """Whether one of the numbers may be the largest one of the column."""
    largest = _largest(column)
    if largest is None:
        return False
    found = pc.max(pc.abs(pc.cast(cells, pa.float64()))).as_py()
    return found is not None and found >= _near(largest)


def _largest(column: TargetColumn) -> str | None:
    """The largest number of a FLOAT, or of a DOUBLE with a number of digits."""
    known = []
    if column.type == "float":
        known.append(LARGEST_FLOAT)
    if found := POINT.match(column.declared):
        after = int(found[2])
        known.append(f"{'9' * (int(found[1]) - after)}.{'9' * after}")
    return min(known, key=float, default=None)


def _near(largest: str) -> float:
    """A number below all whose text may stand for the largest one."""
    return float(largest) * 0.999


def _within(column: TargetColumn, cells: Sequence[Cell]) -> Sequence[Cell]:
    """The numbers, the column's largest one in digits that the servers accept. Its shortest text
    (`3.4028235e+38`), or the number that is stored for it (1e8 in a FLOAT(10,2)), is above it."""
    largest = _largest(column)
    hold = hold_of(column)
    if largest is None or hold is None:
        return cells
    near = _near(largest)
    held = hold(largest)
    found = []
    for cell in cells:
        if cell is not None and abs(float(cell)) >= near and hold(cell.lstrip("-")) == held:
            cell = "-" * cell.startswith("-") + largest
        found.append(cell)
    return found


def refuse_replaced_nulls(
    table: TargetTable, columns: Sequence[str], rows: Sequence[Cells]
) -> None:
    """Raises TargetRejected for a NULL that the servers would replace by a value of their own, also
    in strict mode: by the next number, and by the current time where
    explicit_defaults_for_timestamp is off."""
    for place, name in enumerate(columns):
        column = table.columns[name]
        if column.is_nullable or not _replaces_nulls(column):
            continue
        if isinstance(rows, ColumnRows):
            has_null = rows.arrays[place].null_count > 0
        else:
            has_null = None in map(itemgetter(place), rows)
        if has_null:
            raise unfit(table, column, "NULL, which the column does not take")


def _replaces_nulls(column: TargetColumn) -> bool:
    return column.type == "timestamp" or column.declared.endswith(" auto_increment")


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
        return ["NULL" if cell is None else cell for cell in _within(column, cells)]
    # Servers take shorter ones for years of this century, or the last one.
    if column.type == "year":
        known = [cell for cell in cells if cell is not None]
        if not all(map(YEAR.fullmatch, known)):
            raise unfit(table, column, "no year of four digits")
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
