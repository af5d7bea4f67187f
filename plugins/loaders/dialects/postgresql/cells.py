"""Converts cells to PostgreSQL's input: arrays, and the text of a COPY. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from io import BytesIO
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from cdcbus.plugins.contracts import TargetColumn, TargetTable, ZeroDate
from cdcbus.plugins.loaders.cells.arrow_literals import array_literal, has_any
from cdcbus.plugins.loaders.cells.arrow_rows import ColumnRows
from cdcbus.plugins.loaders.dialect import (
    Cells,
    by_column,
    hexadecimal,
    unfit,
    without_zero_dates,
)
from cdcbus.plugins.rowchange import Cell

PLAIN: Final = "FORMAT text, NULL ''"
CSV: Final = "FORMAT csv"
"""Only an unquoted empty field is NULL."""
DATES: Final = frozenset(("date", "timestamp without time zone", "timestamp with time zone"))
OTHER_FORMS: Final = frozenset(("bytea", '"bit"', "bit varying"))
"""Types whose cells come in a form that PostgreSQL does not read."""
_PLAIN_OPTIONS: Final = csv.WriteOptions(include_header=False, delimiter="\t", quoting_style="none")
COMPARED_AS_TEXT: Final = frozenset(
    ("json", "xml", "citext", "point", "line", "lseg", "box", "path", "polygon", "circle")
)
"""Types that have no equality, or none by value."""


def arrays(
    table: TargetTable,
    columns: Sequence[str],
    rows: Iterable[Cells],
    zero_date: ZeroDate = ZeroDate.REJECT,
) -> tuple[str, ...]:
    """Returns one array literal per column. Raises TargetRejected for a cell that its column cannot
    hold."""
    literals = []
    if isinstance(rows, ColumnRows):
        for name, column_cells in zip(columns, rows.arrays, strict=True):
            column = table.columns[name]
            if _stands_as_it_is(column, column_cells):
                literals.append(array_literal(column_cells))
            else:
                literals.append(_array(table, column, column_cells.to_pylist(), zero_date))
    else:
        for name, cells in by_column(columns, rows):
            literals.append(_array(table, table.columns[name], cells, zero_date))
    return tuple(literals)


def copied_rows(
    table: TargetTable,
    columns: Sequence[str],
    rows: ColumnRows,
    zero_date: ZeroDate = ZeroDate.REJECT,
) -> tuple[str, bytes]:
    """Returns the format of the rows for COPY, and all rows in UTF-8: PLAIN if nothing needs
    quoting, which PostgreSQL reads in nine tenths of the time, else CSV. Raises TargetRejected for
    a cell that its column cannot hold."""
    arrays = []
    for name, cells in zip(columns, rows.arrays, strict=True):
        column = table.columns[name]
        if not _stands_as_it_is(column, cells):
            cells = pa.array(coerced(table, column, cells.to_pylist(), zero_date), pa.string())
        arrays.append(cells)
    found = pa.table(arrays, list(columns))
    if not any(map(_has_empty, arrays)):
        with suppress(pa.ArrowInvalid):  # a tab, a line break, a quotation mark
            plain = _written(found, _PLAIN_OPTIONS)
            if b"\\" not in plain:
                return PLAIN, plain
    return CSV, _written(found, csv.WriteOptions(include_header=False))


def _has_empty(cells: pa.Array) -> bool:
    """Whether a text is empty, which would be NULL in PLAIN format."""
    return bool(pc.min(pc.binary_length(cells)).as_py() == 0)


def _written(cells: pa.Table, options: csv.WriteOptions) -> bytes:
    text = BytesIO()
    csv.write_csv(cells, text, options)
    return text.getvalue()


def _stands_as_it_is(column: TargetColumn, cells: pa.Array) -> bool:
    """Whether no cell needs to be checked individually."""
    if column.type in DATES:
        return not has_any(cells, "-00", "0000-", "\0")
    return column.type not in OTHER_FORMS and not has_any(cells, "\0")


def _array(
    table: TargetTable, column: TargetColumn, cells: Sequence[Cell], zero_date: ZeroDate
) -> str:
    cells = coerced(table, column, cells, zero_date)
    text = "".join(filter(None, cells))
    if "\0" in text:
        raise unfit(table, column, "the character U+0000, which PostgreSQL text cannot hold")
    if "\\" in text or '"' in text:
        cells = [cell and cell.replace("\\", "\\\\").replace('"', '\\"') for cell in cells]
    quoted = ["NULL" if cell is None else f'"{cell}"' for cell in cells]
    return "{" + ",".join(quoted) + "}"


def coerced(
    table: TargetTable, column: TargetColumn, cells: Sequence[Cell], zero_date: ZeroDate
) -> Sequence[Cell]:
    match column.type:
        case name if name in DATES:
            return without_zero_dates(table, column, cells, zero_date)
        case "bytea":
            digits = hexadecimal(table, column, cells)
            return [None if each is None else f"\\x{each}" for each in digits]
        case '"bit"' | "bit varying":
            return _bits(table, column, cells)
    return cells


def _bits(table: TargetTable, column: TargetColumn, cells: Sequence[Cell]) -> Sequence[Cell]:
    """Converts BIT cells, which are decimal numbers; bit(n) requires exactly n digits."""
    width = "b"
    if column.type == '"bit"':
        width = f"0{column.length or 1}b"
    try:
        return [None if cell is None else format(int(cell), width) for cell in cells]
    except ValueError:
        raise unfit(table, column, "no whole number, which bits come as") from None
