"""The changes that `loader.schemaChange=evolve` makes to a target table: missing columns, and types
too narrow for the source's. Pure.

A type is widened only within its family, where every existing value keeps its meaning: integers,
decimals, FLOAT to DOUBLE, texts, bytes and bits by length, times by their fractional digits, a date
to a date and time, ENUM and SET by labels after the others.
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
DEFAULT_LENGTHS: Final = LENGTHS | BYTES | {"bit": 1}
PG_BITS: Final = {"smallint": 16, "integer": 32, "bigint": 64}
BITS: Final = {"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "bigint": 64}
FLOATS: Final = ("float", "double")
MOMENTS: Final = ("datetime", "timestamp")
# Limits of Oracle, MySQL and PostgreSQL.
ORACLE_CHARACTERS: Final = 4000
ORACLE_BYTES: Final = 2000
ORACLE_DIGITS: Final = 38
MYSQL_DIGITS: Final = 65
MYSQL_MEMBERS: Final = 64
ORACLE_TIME: Final = re.compile(
    r"(?P<kind>TIMESTAMP|INTERVAL DAY\([0-9]\) TO SECOND)\((?P<digits>[0-9])\)(?P<rest>.*)"
)
PG_LABEL_BYTES: Final = 63
LABELS: Final = re.compile(r"(?:enum|set)\((.*)\)", re.DOTALL | re.IGNORECASE)
LABEL: Final = re.compile(r"'((?:[^']|'')*)'")


def lacking(table: TargetTable, columns: Sequence[Column]) -> list[Column]:
    """The columns that the table lacks, compared without case."""
    known = set(map(str.lower, table.columns))
    return [column for column in columns if column.name.lower() not in known]


def too_narrow(table: TargetTable, columns: Sequence[Column]) -> dict[str, str]:
    """The table's columns that are surely too narrow for the source's, each with a type that is
    wide enough."""
    # an exact match takes precedence over one that differs in case
    spelled = {name.lower(): name for name in table.columns}
    spelled.update(zip(table.columns, table.columns, strict=True))
    found: dict[str, str] = {}
    for column in columns:
        name = spelled.get(column.name) or spelled.get(column.name.lower())
        if name is None or not TYPE.fullmatch(column.least_type):
            continue
        own, widened = table.columns[name], WIDER[table.dialect]
        # A type that is only a bound says how wide is enough, not what is too narrow.
        if widened(own, _Type(column.least_type)) is None:
            continue
        wider = widened(own, _Type(column.mysql_type))
        if wider is not None:
            found[name] = wider
    return found


def labels_of(type_: str) -> tuple[str, ...]:
    """The labels of an ENUM or SET; none for other types."""
    match = LABELS.fullmatch(type_)
    if match is None:
        return ()
    return tuple(label.replace("''", "'") for label in LABEL.findall(match[1]))


class _Type:
    """A type as MySQL spells it: a source column's, or a target's own."""

    def __init__(self, text: str) -> None:
        self.spelled = text
        self.text = text.lower()
        self.name, length, scale, rest = "", "", "", ""
        if match := TYPE.fullmatch(self.text):
            self.name, length, scale, rest = match.groups(default="")
        self.length = int(length or 0) or DEFAULT_LENGTHS.get(self.name, 0)
        self.scale = int(scale or 0)
        self.is_unsigned = "unsigned" in rest
        self.counts_up = self.text.endswith("auto_increment")

    @property
    def is_text(self) -> bool:
        return self.name in ("char", "varchar") or self.name in LENGTHS

    @property
    def is_bytes(self) -> bool:
        return self.name in ("binary", "varbinary") or self.name in BYTES

    @property
    def bits(self) -> int:
        """The bits that a signed integer needs to hold all of its values."""
        return BITS[self.name] + self.is_unsigned

    def decimals(self) -> tuple[int, int] | None:
        """Digits before and after the point, if it is a number with a fixed count of these."""
        if self.name in WHOLE:
            # an unsigned BIGINT has one digit more than a signed one
            return DIGITS[self.name] + (self.name == "bigint" and self.is_unsigned), 0
        if self.name == "bit":
            return len(str(2**self.length - 1)), 0
        if self.name == "year":
            return 4, 0
        if self.name == "decimal" and self.length:
            return self.length - self.scale, self.scale
        return None

    def is_finer(self, column: TargetColumn) -> bool:
        """Whether it has more fractional digits of seconds than a column of times."""
        return column.length is not None and self.length > column.length


def _decimal(column: TargetColumn, source: _Type) -> tuple[int, int] | None:
    """Precision and scale that hold both; None if the column's do already."""
    wanted = source.decimals()
    if wanted is None or column.length is None:
        return None
    own_scale = column.scale or 0
    # digits before and after the point are compared apart: decimal(5,0) and decimal(5,4) need 9
    scale = max(own_scale, wanted[1])
    before_point = max(column.length - own_scale, wanted[0])
    wider = (before_point + scale, scale)
    if wider == (column.length, own_scale):
        return None
    return wider


def _labels(column: TargetColumn, source: _Type, same: Callable[[str], str]) -> list[str]:
    """All labels of an ENUM or SET, the missing ones after the column's own; none if the column
    lacks none. `same` maps labels that are equal to the column to one text. No change if a catalog
    may have misspelled a label: MySQL's prints `?` for characters beyond U+FFFF, and escapes for
    some others."""
    if column.declared.partition("(")[0] != source.name:
        return []
    if {"?", "\\"} & {*column.declared, *source.spelled}:
        return []
    labels = list(labels_of(column.declared))
    known = set(map(same, labels))
    missing = [label for label in labels_of(source.spelled) if same(label) not in known]
    if not missing:
        return []
    return labels + missing


def _with_labels(name: str, labels: Sequence[str]) -> str:
    quoted = []
    for label in labels:
        quoted.append("'" + label.replace("'", "''") + "'")
    return f"{name}({','.join(quoted)})"


def _postgresql(column: TargetColumn, source: _Type) -> str | None:
    if labels := _labels(column, source, str):
        longest = max(map(len, map(str.encode, labels)))
        if longest > PG_LABEL_BYTES:
            return None
        return _with_labels("enum", labels)
    is_longer = bool(column.length) and source.length > (column.length or 0)
    match column.type:
        case "smallint" | "integer" | "bigint" if source.name in WHOLE:
            return _postgresql_whole(column, source)
        case "numeric" if wider := _decimal(column, source):
            return f"numeric({wider[0]},{wider[1]})"
        case "real" if source.name == "double":
            return "double precision"
        case "character varying" | "bpchar" if source.is_text and is_longer:
            return _postgresql_text(column, source)
        case '"bit"' if source.name == "bit" and is_longer:
            return f"bit({source.length})"
        case "bit varying" if source.name == "bit" and is_longer:
            return f"varbit({source.length})"
        case "date" if source.name in MOMENTS:
            return f"timestamp({source.length})"
    # `timestamp without time zone`: the digits go in the middle
    kind, _, zone = column.type.partition(" ")
    is_moment = kind == "timestamp" and source.name in MOMENTS
    is_clock = kind == source.name == "time"
    if (is_moment or is_clock) and source.is_finer(column):
        return f"{kind}({source.length}) {zone}"
    return None


def _postgresql_text(column: TargetColumn, source: _Type) -> str:
    if source.name in LENGTHS:
        return "text"
    kind = "varchar"
    if column.type == "bpchar":
        kind = "char"
    return f"{kind}({source.length})"


def _postgresql_whole(column: TargetColumn, source: _Type) -> str | None:
    if source.bits <= PG_BITS[column.type]:
        return None
    for wider, bits in PG_BITS.items():
        if source.bits <= bits:
            return wider
    return "numeric(20)"  # an unsigned BIGINT


def _mysql(column: TargetColumn, source: _Type) -> str | None:
    target = _Type(column.declared)
    if source.name in WHOLE and column.type in WHOLE:
        return _mysql_whole(target, source)
    if column.type == "year" and source.name in WHOLE:
        if source.name == "tinyint":
            return "smallint"  # a YEAR reaches 2155
        return source.text
    if column.type == "decimal":
        return _mysql_decimal(column, target, source)
    if column.type in FLOATS and source.name in FLOATS:
        return _mysql_float(column, target, source)
    if column.type == "date" and source.name in MOMENTS:
        if not source.length:
            return "datetime"
        return f"datetime({source.length})"
    is_moment = column.type in MOMENTS and source.name in MOMENTS
    if is_moment or column.type == source.name == "time":
        if not source.is_finer(column):
            return None
        return f"{column.type}({source.length})"
    if labels := _labels(column, source, str.casefold):
        if column.type != "enum" and len(labels) > MYSQL_MEMBERS:
            return None
        return _with_labels(column.type, labels)
    is_longer = column.length is not None and source.length > column.length
    if is_longer and _is_one_kind(column, source):
        return source.text
    return None


def _is_one_kind(column: TargetColumn, source: _Type) -> bool:
    """Whether both are text, both bytes, or both bits."""
    if column.type in ("char", "varchar") or column.type in LENGTHS:
        return source.is_text
    if column.type in ("binary", "varbinary") or column.type in BYTES:
        return source.is_bytes
    return column.type == source.name == "bit"


def _mysql_float(column: TargetColumn, target: _Type, source: _Type) -> str | None:
    """The wider type; UNSIGNED is kept if both have it."""
    wider = max(column.type, source.name, key=FLOATS.index)
    is_unsigned = target.is_unsigned and source.is_unsigned
    if (wider, is_unsigned) == (column.type, target.is_unsigned):
        return None
    if is_unsigned:
        return f"{wider} unsigned"
    return wider


def _mysql_whole(target: _Type, source: _Type) -> str | None:
    """A type that holds the numbers of both."""
    # not narrower, and not unsigned where the source has negative numbers
    if source.is_unsigned >= target.is_unsigned and source.bits <= target.bits:
        return None
    if source.is_unsigned == target.is_unsigned:
        return source.text
    bits = max(target.bits, source.bits)
    for wider in WHOLE:
        if BITS[wider] < bits:
            continue
        if wider == source.name:
            return source.text
        return wider
    if target.counts_up:  # AUTO_INCREMENT, which a DECIMAL cannot have
        return None
    return "decimal(20)"


def _mysql_decimal(column: TargetColumn, target: _Type, source: _Type) -> str | None:
    """A DECIMAL that holds both; UNSIGNED is kept if both have it."""
    wider = _decimal(column, source)
    if wider is None:
        is_signed_number = bool(source.decimals()) and source.name not in ("bit", "year")
        if not (target.is_unsigned and is_signed_number and not source.is_unsigned):
            return None
        wider = column.length or 0, column.scale or 0
    if wider[0] > MYSQL_DIGITS:
        return None
    type_ = f"decimal({wider[0]},{wider[1]})"
    if target.is_unsigned and source.is_unsigned:
        return f"{type_} unsigned"
    return type_


def _oracle(column: TargetColumn, source: _Type) -> str | None:
    """Only what ALTER TABLE can do: no VARCHAR2 to CLOB, no NUMBER of more than 38 digits."""
    is_longer = column.length is not None and source.length > column.length
    match column.type:
        case "NUMBER" if wider := _decimal(column, source):
            if wider[0] > ORACLE_DIGITS:
                return None
            return f"NUMBER({wider[0]},{wider[1]})"
        case "BINARY_FLOAT" if source.name == "double":
            return "BINARY_DOUBLE"
        case "VARCHAR2" | "CHAR" if source.is_text and is_longer:
            if source.length <= ORACLE_CHARACTERS:
                return f"{column.type}({source.length} CHAR)"
        case "RAW" if source.is_bytes and is_longer and source.length <= ORACLE_BYTES:
            return f"RAW({source.length})"
        case "DATE" if source.name in MOMENTS and source.length:
            return f"TIMESTAMP({source.length})"
    time = ORACLE_TIME.fullmatch(column.type)
    if time is None or source.length <= int(time["digits"]):
        return None
    is_moment = time["kind"] == "TIMESTAMP" and source.name in MOMENTS
    is_clock = time["kind"] != "TIMESTAMP" and source.name == "time"
    if not (is_moment or is_clock):
        return None
    return f"{time['kind']}({source.length}){time['rest']}"


WIDER: Final[Mapping[str, Callable[[TargetColumn, _Type], str | None]]] = {
    "postgresql": _postgresql,
    "mysql": _mysql,
    "oracle": _oracle,
}
