"""Names, literals and selected columns as SQL of either side. Pure."""

from __future__ import annotations

import re
import struct
from typing import Final

from cdcbus.plugins.contracts import TargetColumn
from cdcbus.plugins.loaders.cells.canonical import CLOCK, WHOLE
from cdcbus.plugins.loaders.cells.numbers import DECIMAL
from cdcbus.plugins.loaders.cells.oracle_types import family
from cdcbus.plugins.loaders.dialect import QUOTING, ZERO_DATE
from cdcbus.plugins.loaders.dialects.mysql.cells import BINARY_TYPES, NUMBER, NUMBER_TYPES
from cdcbus.plugins.loaders.dialects.oracle.cells import TEXT_TYPES
from cdcbus.plugins.rowchange import TableId

SHOWN_AS_TEXT: Final = (
    WHOLE
    | DECIMAL
    | frozenset(
        (
            *("real", "double precision", "boolean", "text", "character varying", "bpchar"),
            *("date", "timestamp without time zone", "interval"),
            *("time without time zone", "time with time zone"),
            *("json", "jsonb", "uuid", '"bit"', "bit varying"),
        )
    )
)
PRINTED: Final = frozenset(("citext", "inet", "cidr", "macaddr", "xml", "name"))
"""Types whose cells are printed as they were given, except for rare spellings."""
COMPARABLE: Final = SHOWN_AS_TEXT | PRINTED | {"bytea", "timestamp with time zone"}
POSTGRESQL_SESSION: Final = "SET LOCAL DateStyle = 'ISO, YMD'; SET LOCAL extra_float_digits = 3"
"""The settings that the text of cells depends on; all others are those of the loaders' sessions."""
QUOTED_TYPES: Final = frozenset(("text", "character varying", "varchar", "bpchar", "citext"))
WHOLE_NUMBER: Final = re.compile(r"-?[0-9]+")
TIMES: Final = frozenset(
    (
        *("date", "timestamp without time zone", "timestamp with time zone"),
        *("time without time zone", "time with time zone"),
    )
)
TIME: Final = re.compile(
    r"(?!0000)[0-9]{4}-[0-9]{2}-[0-9]{2}( [0-9:.]+)?|([01][0-9]|2[0-3]):[0-9:.]+"
)
DAY: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}( [0-9:.]+)?")
MYSQL_TIMES: Final = {
    **dict.fromkeys(("date", "datetime", "timestamp"), DAY),
    "time": re.compile(r"-?[0-9]{2,3}:[0-9]{2}:[0-9.]+"),
}
ORACLE_SHOWN: Final = frozenset(
    (
        *("NUMBER", "FLOAT", "BINARY_FLOAT", "BINARY_DOUBLE", "DATE", "TIMESTAMP", "INTERVAL DAY"),
        *("RAW", "BLOB", "LONG RAW", *TEXT_TYPES),
    )
)
COMPARED_ITSELF: Final = WHOLE | DECIMAL | QUOTED_TYPES | TIMES | {"bytea", "interval"}
TRUTH: Final = {"true": "1", "false": "0"}
"""The cells of a boolean -> those of its source."""


def quoted(dialect: str, name: str) -> str:
    return QUOTING[dialect].name(name)


def quoted_table(dialect: str, table: TableId) -> str:
    return QUOTING[dialect].table(table)


def is_comparable(dialect: str, column: TargetColumn) -> bool:
    """Whether the text that the target shows for a cell is known: not for arrays, ranges, money and
    the like in PostgreSQL, nor for Oracle's times with a zone."""
    if dialect == "oracle":
        kind = family(column.type)
        return kind in ORACLE_SHOWN and "ZONE" not in column.type
    if dialect != "postgresql" or column.declared.startswith("enum("):
        return True
    return column.type in COMPARABLE


def postgresql_selected(column: TargetColumn) -> str:
    """A column's cell as text."""
    name = quoted("postgresql", column.name)
    if column.type == "bytea":
        return f"encode({name}, 'hex')"
    if column.type == "timestamp with time zone":
        # Otherwise the session's zone would be part of the text.
        return f"({name} AT TIME ZONE 'UTC')::text"
    if column.type in SHOWN_AS_TEXT:
        return f"{name}::text"
    # as it is printed, which for an address differs from a cast
    return f"CASE WHEN {name} IS NOT NULL THEN format('%s', {name}) END"


def oracle_selected(column: TargetColumn) -> str:
    """A column's cell as text that no session setting changes, or as the driver returns it."""
    name = quoted("oracle", column.name)
    match family(column.type):
        case "NUMBER" | "FLOAT":
            # TM9: as few digits as the number needs, without an exponent up to 64 characters.
            return f"TO_CHAR({name}, 'TM9', 'NLS_NUMERIC_CHARACTERS=''.,''')"
        case "DATE":
            return f"TO_CHAR({name}, 'YYYY-MM-DD HH24:MI:SS')"
        case "TIMESTAMP":
            return f"TO_CHAR({name}, 'YYYY-MM-DD HH24:MI:SS.FF6')"
    return name


def mysql_literal(data_type: str, cell: str) -> str | None:
    """The cell as a literal; None: no cell of that type equals it."""
    # MySQL refuses to compare such a column with any other text.
    if data_type in MYSQL_TIMES and not MYSQL_TIMES[data_type].fullmatch(cell):
        return None
    if data_type in BINARY_TYPES:
        try:
            return f"x'{cell.encode('latin-1').hex()}'"
        except UnicodeEncodeError:
            return None
    if data_type == "float":
        return _single(cell)
    # a YEAR is not the text `0`, which means 2000
    if data_type in NUMBER_TYPES or data_type == "year":
        return _matching(NUMBER, TRUTH.get(cell, cell))
    # Backslashes stay: the session has NO_BACKSLASH_ESCAPES.
    return "'" + cell.replace("'", "''") + "'"


def _single(cell: str) -> str | None:
    """The number of a FLOAT as a double: no short decimal number equals it."""
    if not NUMBER.fullmatch(cell):
        return None
    try:
        packed = struct.pack("<f", float(cell))
    except OverflowError:
        return None
    return repr(struct.unpack("<f", packed)[0])


def _matching(pattern: re.Pattern[str], cell: str) -> str | None:
    return cell if pattern.fullmatch(cell) else None


def postgresql_literal(column: TargetColumn, cell: str) -> str | None:
    """The cell as a literal; None where it has none, although a cell may be NaN, infinity, of a
    year BC, and so on."""
    if column.type == "bytea":
        try:
            return f"'\\x{cell.encode('latin-1').hex()}'::bytea"
        except UnicodeEncodeError:
            return None
    # PostgreSQL stores no zero byte, and fails on a literal with one.
    if "\0" in cell:
        return None
    if column.type in WHOLE:
        return _matching(WHOLE_NUMBER, cell)
    if column.type in DECIMAL:
        return _matching(NUMBER, cell)
    if column.type == '"bit"':
        return f"'{int(cell):0{column.length or 1}b}'" if cell.isdecimal() else None
    text = "'" + cell.replace("'", "''") + "'"
    # One interval has many texts.
    if column.type == "interval":
        return f"{text}::interval" if CLOCK.fullmatch(cell) else None
    if column.type in TIMES:
        # Any other text would fail the statement instead of finding nothing.
        is_time = TIME.fullmatch(cell) and not ZERO_DATE.match(cell)
        return f"{text}::{column.type}" if is_time else None
    return text


def compared_column(dialect: str, column: TargetColumn) -> str:
    """What a key's literal is compared with at the target: the column, else its text, which matches
    any cell and never fails."""
    name = quoted(dialect, column.name)
    if dialect != "postgresql" or column.type in COMPARED_ITSELF:
        return name
    return postgresql_selected(column)


def target_literal(dialect: str, column: TargetColumn, cell: str) -> str | None:
    if dialect == "oracle":
        return _matching(WHOLE_NUMBER, cell)
    if dialect != "postgresql":
        return mysql_literal(column.type, cell)
    return postgresql_literal(column, cell)
