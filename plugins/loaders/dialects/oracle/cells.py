"""Converts cells to the driver's own types, so that no session setting changes their meaning.
Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from cdcbus.plugins.contracts import TargetColumn, TargetTable, ZeroDate
from cdcbus.plugins.loaders.cells.oracle_types import family
from cdcbus.plugins.loaders.dialect import unfit, without_zero_dates
from cdcbus.plugins.rowchange import Cell

LONG_TYPES: Final = frozenset(("CLOB", "NCLOB", "BLOB"))
TEXT_TYPES: Final = frozenset(("VARCHAR2", "NVARCHAR2", "CHAR", "NCHAR", "CLOB", "NCLOB", "LONG"))
SHORT_CHARACTERS: Final = 1000
SHORT_BYTES: Final = 2000
"""What fits into a statement without a temporary LOB: 4000 bytes of text, at most four per
character; 2000 of RAW."""
BIND_TYPES: Final = {
    **dict.fromkeys(("NUMBER", "FLOAT", "BOOLEAN"), "DB_TYPE_NUMBER"),
    "BINARY_FLOAT": "DB_TYPE_BINARY_FLOAT",
    "BINARY_DOUBLE": "DB_TYPE_BINARY_DOUBLE",
    "DATE": "DB_TYPE_DATE",
    "TIMESTAMP": "DB_TYPE_TIMESTAMP",
    "INTERVAL DAY": "DB_TYPE_INTERVAL_DS",
    "CHAR": "DB_TYPE_CHAR",
    "NCHAR": "DB_TYPE_NCHAR",
    "NVARCHAR2": "DB_TYPE_NVARCHAR",
    "CLOB": "DB_TYPE_VARCHAR",
    "NCLOB": "DB_TYPE_NVARCHAR",
    "RAW": "DB_TYPE_RAW",
    "BLOB": "DB_TYPE_RAW",
    "LONG RAW": "DB_TYPE_LONG_RAW",
}
"""The driver's names; text types not listed are left to the driver. CHAR is listed, as it is
compared including blanks. BINARY_FLOAT has its own, as hardly any number with a fraction is the
same in both precisions."""


def bind_type(column: TargetColumn, cells: Sequence[Cell]) -> str | None:
    """The driver's name for the type of a column's binds; None if the driver chooses it."""
    if column.type in LONG_TYPES:
        limit = SHORT_CHARACTERS
        if column.type == "BLOB":
            limit = SHORT_BYTES
        longest = max(map(len, filter(None, cells)), default=0)
        if longest > limit:
            return f"DB_TYPE_{column.type}"
    return BIND_TYPES.get(family(column.type))


def binds(
    table: TargetTable,
    column: TargetColumn,
    cells: Sequence[Cell],
    zero_date: ZeroDate = ZeroDate.REJECT,
) -> Iterable[Any]:
    """A column's cells as the driver's types. Raises TargetRejected for a cell that the column
    cannot hold."""
    kind = family(column.type)
    if column.type in TEXT_TYPES:
        if column.is_nullable:
            return [cell or None for cell in cells]
        return [" " if cell == "" else cell for cell in cells]
    if kind in ("DATE", "TIMESTAMP"):
        cells = without_zero_dates(table, column, cells, zero_date)
    read, what = READERS.get(kind, (str, ""))
    try:
        return [None if cell is None else read(cell) for cell in cells]
    except (ValueError, InvalidOperation, OverflowError):
        raise unfit(table, column, what) from None


def _number(cell: str) -> Decimal:
    number = Decimal(cell)
    if not number.is_finite():
        raise ValueError
    return number


def _interval(cell: str) -> timedelta:
    match = re.fullmatch(r"(-?)(\d+):(\d\d):(\d\d)(?:\.(\d{1,6}))?", cell)
    if match is None:
        raise ValueError
    sign, hours, minutes, seconds, fraction = match.groups()
    span = timedelta(
        hours=int(hours),
        minutes=int(minutes),
        seconds=int(seconds),
        microseconds=int((fraction or "").ljust(6, "0")),
    )
    if sign:
        return -span
    return span


READERS: Final[Mapping[str, tuple[Callable[[str], Any], str]]] = {
    **dict.fromkeys(("NUMBER", "FLOAT", "BOOLEAN"), (_number, "no number")),
    **dict.fromkeys(("BINARY_FLOAT", "BINARY_DOUBLE"), (float, "no number")),
    **dict.fromkeys(("DATE", "TIMESTAMP"), (datetime.fromisoformat, "no date and time")),
    "INTERVAL DAY": (_interval, "no time of the form HH:MM:SS"),
    **dict.fromkeys(
        ("RAW", "BLOB", "LONG RAW"),
        (lambda cell: cell.encode("latin-1") or None, "a character above U+00FF, which is no byte"),
    ),
}
