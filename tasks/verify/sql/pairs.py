"""The pair of texts of a column: SQL that gives the same text for a cell at the source and at the
target. Pure.

A column has such a text only if equal texts certainly mean equal cells. Where texts may differ
although the cells are equal, rows are compared afterwards.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from cdcbus.plugins.contracts import TargetColumn
from cdcbus.plugins.loaders.cells.canonical import DOUBLE, FILLED_UP, MOMENTS, SINGLE, WHOLE
from cdcbus.producer.ddl.table_schema import TableColumn

LONG_CHARACTERS: Final = 255
"""Longer cells appear in a row's text as their own hash, so that no row's text grows too long for
the server, which would turn it into NULL."""
TOTAL_CHARSETS: Final = frozenset(("utf8mb4", "utf8mb3", "utf8", "latin1"))
"""Character sets whose texts all convert to Unicode; in others an invalid byte would show as ?."""
INTEGERS: Final = frozenset(("tinyint", "smallint", "mediumint", "int", "bigint"))
TEXTS: Final = frozenset(("char", "varchar", "tinytext", "text", "mediumtext", "longtext"))
BYTES: Final = frozenset(
    ("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob", "bytea")
)
CLOCKS: Final = frozenset(("time", "time without time zone", "interval"))
OWN_TEXTS: Final = frozenset(("uuid", "inet4", "inet6"))
WITH_COMMAS: Final = TEXTS | OWN_TEXTS | {"enum", "set"}
"""Source types whose text at the target can be anything."""
DIGITS_OF_EXPRESSIONS: Final = 15
MOST_DIGITS: Final = 65
"""Of a DECIMAL in MySQL."""
DIGITS: Final = re.compile(r"[a-z]+\(([0-9]+)(?:,\s*([0-9]+))?\)")


@dataclass(frozen=True, slots=True)
class Term:
    """A column on one side: its name as SQL, and its text or bytes as SQL. `is_long`: the cell is
    hashed separately. `is_open`: the text may hold a comma."""

    column: str
    text: str
    is_long: bool = False
    is_bytes: bool = False
    is_open: bool = True
    is_nullable: bool = True


@dataclass(frozen=True, slots=True)
class Pair:
    """A column's terms at the source and at the target."""

    source: Term
    target: Term


def source_terms(pairs: Iterable[Pair]) -> list[Term]:
    return [pair.source for pair in pairs]


def target_terms(pairs: Iterable[Pair]) -> list[Term]:
    return [pair.target for pair in pairs]


@dataclass(frozen=True, slots=True)
class _Column:
    """A column on both sides. `own`, `theirs`: its quoted name at source and target. `charset`: the
    target's, in MySQL and MariaDB."""

    source: TableColumn
    own: str
    target: TargetColumn
    theirs: str
    is_pg: bool
    charset: str

    def shown(self, in_mysql: str) -> str:
        """The target's text: a cast in PostgreSQL, `in_mysql` in MySQL and MariaDB."""
        return f"{self.theirs}::text" if self.is_pg else in_mysql

    @property
    def printed(self) -> str:
        """The target's text as each server prints it."""
        return self.shown(self.theirs)

    @property
    def is_decimal(self) -> bool:
        """Whether the target column is a number of a fixed scale."""
        return self.target.type in ("decimal", "numeric")

    @property
    def is_text(self) -> bool:
        """Whether the target column holds any text, in a character set that shows all of it."""
        if self.is_pg:
            return self.target.type in ("text", "character varying", "varchar", "bpchar")
        return self.target.type in TEXTS and self.charset in TOTAL_CHARSETS


Texts = tuple[str, str] | None
"""The SQL of source and target; None where no text is the same on both."""


def pair_of(
    source: TableColumn, column: str, target: TargetColumn, name: str, dialect: str, charset: str
) -> Pair | None:
    """The terms of a column; None where no SQL text is the same on both sides, as for Oracle, whose
    texts are limited to the length of a VARCHAR2. `column`, `name`: quoted for source and target;
    `dialect`: the target's; `charset`: of the target column, in MySQL and MariaDB."""
    texts_of = TEXTS_OF.get(source.data_type)
    if dialect == "oracle" or texts_of is None:
        return None
    both = _Column(source, column, target, name, dialect == "postgresql", charset)
    found = texts_of(both)
    if found is None:
        return None
    own, theirs = found
    is_long = (
        source.size > LONG_CHARACTERS
        or source.data_type.endswith(("text", "blob"))
        or source.data_type == "json"
    )
    is_bytes = is_long and source.data_type in BYTES
    # A long cell appears as its hash, which has no comma.
    kind = is_long, is_bytes, source.data_type in WITH_COMMAS and not is_long
    return Pair(
        Term(column, own, *kind, source.is_nullable), Term(name, theirs, *kind, target.is_nullable)
    )


def _integer(both: _Column) -> Texts:
    # ZEROFILL pads the text with zeros, + 0 makes it a number again.
    if both.source.has_zerofill:
        return _whole(both, f"{both.own} + 0")
    return _whole(both, both.own)


def _whole(both: _Column, own: str) -> Texts:
    target = both.target
    if both.is_pg and target.type == "boolean":
        return own, f"CASE {both.theirs} WHEN true THEN '1' WHEN false THEN '0' END"
    # With a scale, the target would print zeros after the point.
    if target.type in WHOLE or (both.is_decimal and not target.scale):
        return own, both.printed
    return None


def _bit(both: _Column) -> Texts:
    number = f"{both.own} + 0"
    if both.target.type == '"bit"':
        # bit without a length is bit(1).
        width = both.target.length or 1
        found = DIGITS.match(both.source.type)
        # LPAD cuts what is longer, and would make it equal to a shorter one.
        if found is None or int(found[1]) > width:
            return None
        return f"LPAD(BIN({number}), {width}, '0')", both.printed
    if both.target.type == "bit" and not both.is_pg:
        return number, f"{both.theirs} + 0"
    return _whole(both, number)


def _year(both: _Column) -> Texts:
    if both.target.type in WHOLE:
        return f"{both.own} + 0", both.printed
    return _same_type(both)


def _same_type(both: _Column) -> Texts:
    """The cells as they are, in a target column of the source's type."""
    if both.target.type != both.source.data_type:
        return None
    return both.own, both.printed


def _decimal(both: _Column) -> Texts:
    source, target = both.source, both.target
    found = DIGITS.match(source.type)
    if not both.is_decimal or found is None:
        return None
    scale = int(found[2] or 0)
    wanted = scale if target.scale is None else target.scale
    # A smaller scale rounds at the target; MySQL's DECIMAL has 30 digits after the point at most.
    if not scale <= wanted <= 30:
        return None
    if wanted == scale and not source.has_zerofill:
        return both.own, both.printed
    # A cast to fewer digits before the point would make all larger numbers the largest one.
    if int(found[1]) - scale + wanted > MOST_DIGITS:
        return None
    return f"CAST({both.own} AS DECIMAL({MOST_DIGITS},{wanted}))", both.printed


def _single(both: _Column) -> Texts:
    # PostgreSQL prints floating-point numbers differently, as do FLOAT and DOUBLE.
    if both.is_pg or both.target.type not in SINGLE:
        return None
    # As a double, because a FLOAT is printed with 6 digits only.
    return _char(f"{both.own} + 0e0"), _char(f"{both.theirs} + 0e0")


def _double(both: _Column) -> Texts:
    if both.is_pg or both.target.type not in DOUBLE:
        return None
    own = _double_text(both.source.type, both.own)
    theirs = _double_text(both.target.declared, both.theirs)
    if own is None or theirs is None:
        return None
    return own, theirs


def _double_text(type_: str, name: str) -> str | None:
    """The text of a DOUBLE with all its digits. MySQL prints all digits of a column only if it is
    declared without a number of them, and 22 characters of an expression, which hold 15 digits."""
    found = DIGITS.match(type_)
    if found is None:
        return _char(name)
    if int(found[1]) <= DIGITS_OF_EXPRESSIONS:
        return _char(f"{name} + 0e0")
    return None


def _text(both: _Column) -> Texts:
    if both.source.charset not in TOTAL_CHARSETS or not both.is_text:
        return None
    own = both.own
    # The target pads these with blanks, so those of the source mean nothing.
    if both.target.type in FILLED_UP:
        own = f"TRIM(TRAILING ' ' FROM {own})"
    return _utf8(own, both.source.charset), both.shown(_utf8(both.theirs, both.charset))


def _bytes(both: _Column) -> Texts:
    source, target = both.source, both.target
    if target.type not in BYTES:
        return None
    if target.type == "binary" and (source.data_type, source.size) != ("binary", target.length):
        # The target pads it with zero bytes.
        return None
    if source.size > LONG_CHARACTERS or source.data_type.endswith("blob"):
        return both.own, both.theirs
    own = f"LOWER(HEX({both.own}))"
    if both.is_pg:
        return own, f"encode({both.theirs}, 'hex')"
    return own, f"LOWER(HEX({both.theirs}))"


def _moment(both: _Column) -> Texts:
    return _time(both) if both.target.type in MOMENTS else None


def _clock(both: _Column) -> Texts:
    return _time(both) if both.target.type in CLOCKS else None


def _time(both: _Column) -> Texts:
    """The texts of a time. Trailing zeros of a fraction are cut where the numbers of digits differ,
    and for PostgreSQL, which shows none."""
    found = DIGITS.match(both.source.type)
    digits = int(found[1]) if found else 0
    # PostgreSQL's types of time have 6 digits unless they say another number.
    theirs = 6 if both.target.length is None else both.target.length
    # The target rounds or cuts the fraction, so texts may differ where cells are equal.
    if theirs < digits:
        return None
    if not both.is_pg and theirs == digits:
        return both.own, both.theirs
    own = _shortened(both.own, digits)
    if both.target.type == "timestamp with time zone" and both.is_pg:
        return own, f"({both.theirs} AT TIME ZONE 'UTC')::text"
    return own, both.shown(_shortened(both.theirs, theirs))


def _shortened(text: str, digits: int) -> str:
    if not digits:
        return text
    return f"TRIM(TRAILING '.' FROM TRIM(TRAILING '0' FROM {text}))"


def _label(both: _Column) -> Texts:
    target = both.target
    is_text = both.is_text and target.type not in FILLED_UP
    if is_text or target.type in ("enum", "set") or target.declared.startswith("enum("):
        return _utf8(both.own), both.shown(_utf8(both.theirs))
    return None


def _json(both: _Column) -> Texts:
    # PostgreSQL's json keeps the text as the source printed it; jsonb does not, so its rows are
    # compared one by one.
    own = _utf8(_char(both.own))
    if both.target.type == "json":
        return own, both.shown(_utf8(_char(both.theirs)))
    if both.target.type == "longtext" and not both.is_pg:
        return own, _utf8(both.theirs)
    return None


def _own_text(both: _Column) -> Texts:
    target = both.target.type
    if target == both.source.data_type or (both.is_pg and target == "text"):
        return _char(both.own), both.shown(_char(both.theirs))
    return None


def _char(sql: str) -> str:
    return f"CAST({sql} AS CHAR)"


def _utf8(sql: str, charset: str = "") -> str:
    """The text as bytes, so that no collation matters."""
    if not charset.startswith("utf8"):
        sql = f"CONVERT({sql} USING utf8mb4)"
    return f"CAST({sql} AS BINARY)"


TEXTS_OF: Final[dict[str, Callable[[_Column], Texts]]] = {
    **dict.fromkeys(INTEGERS, _integer),
    "bit": _bit,
    "year": _year,
    "decimal": _decimal,
    "numeric": _decimal,
    "float": _single,
    "double": _double,
    **dict.fromkeys(TEXTS, _text),
    **dict.fromkeys(BYTES, _bytes),
    "date": _same_type,
    **dict.fromkeys(MOMENTS, _moment),
    "time": _clock,
    "enum": _label,
    "set": _label,
    "json": _json,
    **dict.fromkeys(OWN_TEXTS, _own_text),
}
"""By source type; other types have no text that is the same on both sides."""
