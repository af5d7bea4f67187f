"""What `loader.schemaChange=evolve` does to a target table: columns it lacks, and types too narrow for the source's. Pure.

A type is made wider only within its family, where every value that is there keeps its meaning: whole numbers, decimals, FLOAT to DOUBLE,
texts and bytes by length. Labels of ENUM and SET, BIT and times stay as they are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from cdcbus.plugins.contracts import TargetColumn, TargetTable
from cdcbus.plugins.rowchange import Column

TYPE: Final = re.compile(r"(?P<name>\w+)(?:\s*\((?P<length>[0-9]+)(?:\s*,\s*(?P<scale>[0-9]+))?\))?(?P<rest>.*)", re.DOTALL)
WHOLE: Final = ("tinyint", "smallint", "mediumint", "int", "bigint")
DIGITS: Final = {"tinyint": 3, "smallint": 5, "mediumint": 8, "int": 10, "bigint": 19}
LENGTHS: Final = {"tinytext": 255, "text": 65_535, "mediumtext": 2**24 - 1, "longtext": 2**32 - 1}
BYTES: Final = {"tinyblob": 255, "blob": 65_535, "mediumblob": 2**24 - 1, "longblob": 2**32 - 1}
PG_BITS: Final = {"smallint": 16, "integer": 32, "bigint": 64}
BITS: Final = {"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "bigint": 64}
ORACLE_CHARACTERS, ORACLE_BYTES, ORACLE_DIGITS = 4000, 2000, 38


def lacking(table: TargetTable, columns: Sequence[Column]) -> list[Column]:
    """Those that the table has in no spelling."""
    known = {name.lower() for name in table.columns}
    return [column for column in columns if column.name.lower() not in known]


def too_narrow(table: TargetTable, columns: Sequence[Column]) -> dict[str, str]:
    """The table's columns that are too narrow for the source's, each with the type that is wide enough."""
    spelled = {name.lower(): name for name in table.columns} | {name: name for name in table.columns}
    found: dict[str, str] = {}
    for column in columns:
        name = spelled.get(column.name) or spelled.get(column.name.lower())
        source = TYPE.fullmatch(column.mysql_type.lower())
        if name is not None and source is not None:
            wider = WIDER[table.dialect](table.columns[name], _Source(source))
            if wider is not None:
                found[name] = wider
    return found


class _Source:
    """A source column's type."""

    def __init__(self, match: re.Match[str]) -> None:
        self.name = match["name"]
        self.text = match.string
        self.length = int(match["length"] or 0) or {**LENGTHS, **BYTES}.get(self.name, 0)
        self.scale = int(match["scale"] or 0)
        self.is_unsigned = "unsigned" in match["rest"]

    @property
    def is_text(self) -> bool:
        return self.name in ("char", "varchar") or self.name in LENGTHS

    @property
    def is_bytes(self) -> bool:
        return self.name in ("binary", "varbinary") or self.name in BYTES

    @property
    def bits(self) -> int:
        """A signed whole number's that holds all values."""
        return BITS[self.name] + self.is_unsigned

    def decimals(self) -> tuple[int, int] | None:
        """Digits before and behind the point, where it is a number with a fixed count of these."""
        if self.name in WHOLE:
            return DIGITS[self.name] + (self.name == "bigint" and self.is_unsigned), 0
        return (self.length - self.scale, self.scale) if self.name == "decimal" and self.length else None


def _decimal(column: TargetColumn, source: _Source) -> tuple[int, int] | None:
    """Precision and scale that hold both; None where the column's do."""
    wanted = source.decimals()
    if wanted is None or column.length is None:
        return None
    scale = max(column.scale or 0, wanted[1])
    before = max(column.length - (column.scale or 0), wanted[0])
    return None if (before + scale, scale) == (column.length, column.scale or 0) else (before + scale, scale)


def _postgresql(column: TargetColumn, source: _Source) -> str | None:
    match column.type:
        case "smallint" | "integer" | "bigint" if source.name in WHOLE and source.bits > PG_BITS[column.type]:
            return "integer" if source.bits <= 32 else "bigint" if source.bits <= 64 else "numeric(20)"
        case "numeric" if wider := _decimal(column, source):
            return f"numeric({wider[0]},{wider[1]})"
        case "real" if source.name == "double":
            return "double precision"
        case "character varying" | "bpchar" if source.is_text and column.length and source.length > column.length:
            kind = "char" if column.type == "bpchar" else "varchar"
            return "text" if source.name in LENGTHS else f"{kind}({source.length})"
    return None


def _mysql(column: TargetColumn, source: _Source) -> str | None:
    """Whether a whole number of the same size is unsigned here is not known: then a row that does not fit is refused."""
    if source.name in WHOLE and column.type in WHOLE:
        return source.text if WHOLE.index(source.name) > WHOLE.index(column.type) else None
    if column.type == "decimal":
        wider = _decimal(column, source)
        return f"decimal({wider[0]},{wider[1]})" if wider else None
    if (column.type, source.name) == ("float", "double"):
        return source.text
    is_text = column.type in ("char", "varchar") or column.type in LENGTHS
    is_bytes = column.type in ("binary", "varbinary") or column.type in BYTES
    fits_kind = (is_text and source.is_text) or (is_bytes and source.is_bytes)
    return source.text if fits_kind and column.length is not None and source.length > column.length else None


def _oracle(column: TargetColumn, source: _Source) -> str | None:
    """Only what ALTER TABLE can do: a VARCHAR2 becomes no CLOB, a NUMBER no more than 38 digits."""
    longer = column.length is not None and source.length > column.length
    match column.type:
        case "NUMBER" if wider := _decimal(column, source):
            return f"NUMBER({wider[0]},{wider[1]})" if wider[0] <= ORACLE_DIGITS else None
        case "BINARY_FLOAT" if source.name == "double":
            return "BINARY_DOUBLE"
        case "VARCHAR2" | "CHAR" if source.is_text and longer and source.length <= ORACLE_CHARACTERS:
            return f"{column.type}({source.length} CHAR)"
        case "RAW" if source.is_bytes and longer and source.length <= ORACLE_BYTES:
            return f"RAW({source.length})"
    return None


WIDER: Final[Mapping[str, Callable[[TargetColumn, _Source], str | None]]] = {
    "postgresql": _postgresql,
    "mysql": _mysql,
    "oracle": _oracle,
}
