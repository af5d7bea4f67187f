"""What `loader.schemaChange=evolve` does to a target table: columns it lacks, and types too narrow
for the source's. Pure.

A type is made wider only within its family, where every value that is there keeps its meaning:
whole numbers, decimals, FLOAT to DOUBLE, texts, bytes and bits by length, times by the digits of
their seconds, a day to a moment, ENUM and SET by labels behind the others.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from cdcbus.plugins.contracts import TargetColumn, TargetTable
from cdcbus.plugins.rowchange import Column

TYPE: Final = re.compile(
    r"(?P<name>\w+)(?:\s*\((?P<length>[0-9]+)(?:\s*,\s*(?P<scale>[0-9]+))?\))?(?P<rest>.*)",
    re.DOTALL,
)
WHOLE: Final = ("tinyint", "smallint", "mediumint", "int", "bigint")
DIGITS: Final = {"tinyint": 3, "smallint": 5, "mediumint": 8, "int": 10, "bigint": 19}
LENGTHS: Final = {"tinytext": 255, "text": 65_535, "mediumtext": 2**24 - 1, "longtext": 2**32 - 1}
BYTES: Final = {"tinyblob": 255, "blob": 65_535, "mediumblob": 2**24 - 1, "longblob": 2**32 - 1}
PG_BITS: Final = {"smallint": 16, "integer": 32, "bigint": 64}
BITS: Final = {"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "bigint": 64}
FLOATS: Final = ("float", "double")
MOMENTS: Final = ("datetime", "timestamp")
ORACLE_CHARACTERS, ORACLE_BYTES, ORACLE_DIGITS = 4000, 2000, 38
ORACLE_TIME: Final = re.compile(
    r"(?P<kind>TIMESTAMP|INTERVAL DAY\([0-9]\) TO SECOND)\((?P<digits>[0-9])\)(?P<rest>.*)"
)
MYSQL_DIGITS, MYSQL_MEMBERS = 65, 64
PG_LABEL_BYTES: Final = 63
LABELS: Final = re.compile(r"(?:enum|set)\((.*)\)", re.DOTALL | re.IGNORECASE)
LABEL: Final = re.compile(r"'((?:[^']|'')*)'")


def lacking(table: TargetTable, columns: Sequence[Column]) -> list[Column]:
    """Those that the table has in no spelling."""
    known = {name.lower() for name in table.columns}
    return [column for column in columns if column.name.lower() not in known]


def too_narrow(table: TargetTable, columns: Sequence[Column]) -> dict[str, str]:
    """The table's columns that are too narrow for the source's, each with the type that is wide
    enough."""
    spelled = {name.lower(): name for name in table.columns} | {
        name: name for name in table.columns
    }
    found: dict[str, str] = {}
    for column in columns:
        name = spelled.get(column.name) or spelled.get(column.name.lower())
        if name is not None and TYPE.fullmatch(column.mysql_type):
            wider = WIDER[table.dialect](table.columns[name], _Type(column.mysql_type))
            if wider is not None:
                found[name] = wider
    return found


def labels_of(type_: str) -> tuple[str, ...]:
    """Of an ENUM or SET; none for other types."""
    match = LABELS.fullmatch(type_)
    return tuple(label.replace("''", "'") for label in LABEL.findall(match[1])) if match else ()


class _Type:
    """A type as MySQL spells it: a source column's, or a target's own."""

    def __init__(self, text: str) -> None:
        match = TYPE.fullmatch(text.lower())
        self.name = match["name"] if match else ""
        self.spelled = text
        self.text = text.lower()
        self.length = int((match and match["length"]) or 0) or {**LENGTHS, **BYTES, "bit": 1}.get(
            self.name, 0
        )
        self.scale = int((match and match["scale"]) or 0)
        self.is_unsigned = match is not None and "unsigned" in match["rest"]
        self.counts_up = self.text.endswith("auto_increment")

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
        if self.name in ("bit", "year"):
            return len(str(2**self.length - 1)) if self.name == "bit" else 4, 0
        return (
            (self.length - self.scale, self.scale)
            if self.name == "decimal" and self.length
            else None
        )

    def is_finer(self, column: TargetColumn) -> bool:
        """Whether its seconds have more digits than a column's of times."""
        return column.length is not None and self.length > column.length


def _decimal(column: TargetColumn, source: _Type) -> tuple[int, int] | None:
    """Precision and scale that hold both; None where the column's do."""
    wanted = source.decimals()
    if wanted is None or column.length is None:
        return None
    scale = max(column.scale or 0, wanted[1])
    before = max(column.length - (column.scale or 0), wanted[0])
    return (
        None
        if (before + scale, scale) == (column.length, column.scale or 0)
        else (before + scale, scale)
    )


def _labels(column: TargetColumn, source: _Type, same: Callable[[str], str]) -> list[str]:
    """All labels of an ENUM or SET, those that the column lacks behind the others; none where it
    lacks none. `same`: alike for labels that are one to the column. They are left alone where a
    catalog may have spelled one otherwise than it is: MySQL's print `?` for what is beyond
    U+FFFF, and escapes for some characters."""
    if column.declared.partition("(")[0] != source.name or {"?", "\\"} & {
        *column.declared,
        *source.spelled,
    }:
        return []
    known = labels_of(column.declared)
    lacking = [label for label in labels_of(source.spelled) if same(label) not in map(same, known)]
    return [*known, *lacking] if lacking else []


def _with_labels(name: str, labels: Sequence[str]) -> str:
    quoted = ["'" + label.replace("'", "''") + "'" for label in labels]
    return f"{name}({','.join(quoted)})"


def _postgresql(column: TargetColumn, source: _Type) -> str | None:
    if labels := _labels(column, source, str):
        return (
            _with_labels("enum", labels)
            if all(len(label.encode()) <= PG_LABEL_BYTES for label in labels)
            else None
        )
    kind, _, zone = column.type.partition(" ")
    match column.type:
        case "smallint" | "integer" | "bigint" if (
            source.name in WHOLE and source.bits > PG_BITS[column.type]
        ):
            return (
                "integer" if source.bits <= 32 else "bigint" if source.bits <= 64 else "numeric(20)"
            )
        case "numeric" if wider := _decimal(column, source):
            return f"numeric({wider[0]},{wider[1]})"
        case "real" if source.name == "double":
            return "double precision"
        case "character varying" | "bpchar" if (
            source.is_text and column.length and source.length > column.length
        ):
            kind = "char" if column.type == "bpchar" else "varchar"
            return "text" if source.name in LENGTHS else f"{kind}({source.length})"
        case '"bit"' | "bit varying" if (
            source.name == "bit" and column.length and source.length > column.length
        ):
            return f"{'bit' if column.type != 'bit varying' else 'varbit'}({source.length})"
        case "date" if source.name in MOMENTS:
            return f"timestamp({source.length})"
    if (kind == "timestamp" and source.name in MOMENTS) or (kind == source.name == "time"):
        return f"{kind}({source.length}) {zone}" if source.is_finer(column) else None
    return None


def _mysql(column: TargetColumn, source: _Type) -> str | None:
    target = _Type(column.declared)
    if source.name in WHOLE and column.type in WHOLE:
        return _mysql_whole(target, source)
    if column.type == "year" and source.name in WHOLE:
        return source.text if source.name != "tinyint" else "smallint"
    if column.type == "decimal":
        return _mysql_decimal(column, target, source)
    if column.type in FLOATS and source.name in FLOATS:
        wider, is_unsigned = (
            max(column.type, source.name, key=FLOATS.index),
            target.is_unsigned and source.is_unsigned,
        )
        return (
            wider + " unsigned" * is_unsigned
            if (wider, is_unsigned) != (column.type, target.is_unsigned)
            else None
        )
    if column.type == "date" and source.name in MOMENTS:
        return f"datetime({source.length})" if source.length else "datetime"
    if (column.type in MOMENTS and source.name in MOMENTS) or (
        column.type == source.name == "time"
    ):
        return f"{column.type}({source.length})" if source.is_finer(column) else None
    if labels := _labels(column, source, str.casefold):
        return (
            _with_labels(column.type, labels)
            if column.type == "enum" or len(labels) <= MYSQL_MEMBERS
            else None
        )
    is_bits = column.type == source.name == "bit"
    is_text = column.type in ("char", "varchar") or column.type in LENGTHS
    is_bytes = column.type in ("binary", "varbinary") or column.type in BYTES
    fits_kind = (is_text and source.is_text) or (is_bytes and source.is_bytes) or is_bits
    return (
        source.text
        if fits_kind and column.length is not None and source.length > column.length
        else None
    )


def _mysql_whole(target: _Type, source: _Type) -> str | None:
    """One that holds the numbers of both."""
    if source.is_unsigned >= target.is_unsigned and source.bits <= target.bits:
        return None
    if source.is_unsigned == target.is_unsigned:
        return source.text
    bits = max(target.bits, source.bits)
    wider = next((name for name in WHOLE if BITS[name] >= bits), "")
    if not wider:
        return None if target.counts_up else "decimal(20)"  # which cannot count up
    return source.text if wider == source.name else wider


def _mysql_decimal(column: TargetColumn, target: _Type, source: _Type) -> str | None:
    """UNSIGNED stays where both have it."""
    wider = _decimal(column, source)
    if (
        wider is None
        and source.decimals()
        and target.is_unsigned
        and not source.is_unsigned
        and source.name not in ("bit", "year")
    ):
        wider = column.length or 0, column.scale or 0
    unsigned = " unsigned" * (target.is_unsigned and source.is_unsigned)
    return (
        f"decimal({wider[0]},{wider[1]}){unsigned}" if wider and wider[0] <= MYSQL_DIGITS else None
    )


def _oracle(column: TargetColumn, source: _Type) -> str | None:
    """Only what ALTER TABLE can do: a VARCHAR2 becomes no CLOB, a NUMBER no more than 38 digits."""
    longer = column.length is not None and source.length > column.length
    match column.type:
        case "NUMBER" if wider := _decimal(column, source):
            return f"NUMBER({wider[0]},{wider[1]})" if wider[0] <= ORACLE_DIGITS else None
        case "BINARY_FLOAT" if source.name == "double":
            return "BINARY_DOUBLE"
        case "VARCHAR2" | "CHAR" if (
            source.is_text and longer and source.length <= ORACLE_CHARACTERS
        ):
            return f"{column.type}({source.length} CHAR)"
        case "RAW" if source.is_bytes and longer and source.length <= ORACLE_BYTES:
            return f"RAW({source.length})"
        case "DATE" if source.name in MOMENTS and source.length:
            return f"TIMESTAMP({source.length})"
    time = ORACLE_TIME.fullmatch(column.type)
    if (
        time
        and source.name in (MOMENTS if time["kind"] == "TIMESTAMP" else ("time",))
        and source.length > int(time["digits"])
    ):
        return f"{time['kind']}({source.length}){time['rest']}"
    return None


WIDER: Final[Mapping[str, Callable[[TargetColumn, _Type], str | None]]] = {
    "postgresql": _postgresql,
    "mysql": _mysql,
    "oracle": _oracle,
}
