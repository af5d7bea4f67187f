"""Checksums of rows as SQL: the same text of each cell on both sides, hashed and added up inside of
the databases. Pure.

A column has such a text only where equal texts mean equal cells for sure. Where they may differ
though the cells are equal, rows are compared afterwards.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from cdcbus.plugins.contracts import TargetColumn
from cdcbus.plugins.loaders.cells.canonical import DOUBLE, FILLED_UP, SINGLE, WHOLE
from cdcbus.producer.ddl.table_schema import TableColumn

HASH_DIGITS: Final = 15
"""Hexadecimal ones: 60 bits, which is what a signed 64-bit number and both servers take."""
BUCKET_DIGITS: Final = 3
BUCKETS: Final = 16**BUCKET_DIGITS
LONG_CHARACTERS: Final = 255
"""Longer cells stand in a row's text as their own hash, so that no row's text grows too long for
the server, which would make NULL of it."""
TOTAL_CHARSETS: Final = frozenset(("utf8mb4", "utf8mb3", "utf8", "latin1"))
"""Every text of theirs is one in Unicode: in others a byte that is no character would show as ?."""
INTEGERS: Final = frozenset(("tinyint", "smallint", "mediumint", "int", "bigint"))
TEXTS: Final = frozenset(("char", "varchar", "tinytext", "text", "mediumtext", "longtext"))
BYTES: Final = frozenset(
    ("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob", "bytea")
)
MOMENTS: Final = frozenset(
    ("datetime", "timestamp", "timestamp without time zone", "timestamp with time zone")
)
CLOCKS: Final = frozenset(("time", "time without time zone", "interval"))
OWN_TEXTS: Final = frozenset(("uuid", "inet4", "inet6"))
DIGITS: Final = re.compile(r"[a-z]+\(([0-9]+)(?:,\s*([0-9]+))?\)")


@dataclass(frozen=True, slots=True)
class Term:
    """A column on one side: its name as SQL, and its text as SQL, or its bytes. `is_long`: these
    are hashed by themselves."""

    column: str
    text: str
    is_long: bool = False
    is_bytes: bool = False


@dataclass(frozen=True, slots=True)
class Pair:
    """A column's terms at the source and at the target."""

    source: Term
    target: Term


def pair_of(
    source: TableColumn, column: str, target: TargetColumn, name: str, dialect: str, charset: str
) -> Pair | None:
    """`column`, `name`: how source and target quote it; `dialect`: the target's; `charset`: of the
    target's column, in MySQL and MariaDB. None where no text in SQL is the same on both sides."""
    is_pg = dialect == "postgresql"
    found = _texts(source, column, target, name, is_pg, charset)
    if found is None:
        return None
    own, theirs = found
    is_long = (
        source.size > LONG_CHARACTERS
        or source.data_type.endswith(("text", "blob"))
        or source.data_type == "json"
    )
    is_bytes = is_long and source.data_type in BYTES
    return Pair(Term(column, own, is_long, is_bytes), Term(name, theirs, is_long, is_bytes))


def _texts(
    source: TableColumn, c: str, target: TargetColumn, t: str, is_pg: bool, charset: str
) -> tuple[str, str] | None:
    kind = source.data_type
    own = _char(c)
    theirs = f"{t}::text" if is_pg else _char(t)
    if kind in INTEGERS:
        return _whole(f"{c} + 0" if "zerofill" in source.type else c, target, t, theirs, is_pg)
    if kind == "bit":
        if target.type == '"bit"':
            width = target.length or 1
            return f"LPAD(BIN({c} + 0), {width}, '0')", theirs
        if target.type == "bit" and not is_pg:
            return _char(f"{c} + 0"), _char(f"{t} + 0")
        return _whole(f"{c} + 0", target, t, theirs, is_pg)
    if kind == "year":
        if target.type in WHOLE:
            return _char(f"{c} + 0"), theirs
        return (own, theirs) if target.type == "year" else None
    if kind in ("decimal", "numeric"):
        return _decimal(source, c, target, theirs)
    if kind in ("float", "double"):
        same = SINGLE if kind == "float" else DOUBLE
        if is_pg or target.type not in same:
            return None
        return _char(f"{c} + 0e0"), _char(f"{t} + 0e0")
    if kind in TEXTS:
        return _text(source, c, target, t, is_pg, charset)
    if kind in BYTES:
        return _bytes(source, c, target, t, is_pg)
    if kind == "date":
        return (own, theirs) if target.type == "date" else None
    if kind in MOMENTS or kind == "time":
        return _time(source, c, target, t, is_pg)
    if kind in ("enum", "set"):
        is_text = _is_text(target, is_pg, charset) and target.type not in FILLED_UP
        if is_text or target.type in ("enum", "set") or target.declared.startswith("enum("):
            return _utf8(c), f"{t}::text" if is_pg else _utf8(t)
        return None
    if kind == "json":
        if target.type == "json":
            return _utf8(own), f"{t}::text" if is_pg else _utf8(theirs)
        return (_utf8(own), _utf8(t)) if not is_pg and target.type == "longtext" else None
    if kind in OWN_TEXTS and (target.type == kind or (is_pg and target.type == "text")):
        return own, theirs
    return None


def _char(sql: str) -> str:
    return f"CAST({sql} AS CHAR)"


def _utf8(sql: str) -> str:
    """Bytes, so that no collation has a say."""
    return f"CAST(CONVERT({sql} USING utf8mb4) AS BINARY)"


def _whole(
    c: str, target: TargetColumn, t: str, theirs: str, is_pg: bool
) -> tuple[str, str] | None:
    if is_pg and target.type == "boolean":
        return _char(c), f"CASE {t} WHEN true THEN '1' WHEN false THEN '0' END"
    is_whole = target.type in ("decimal", "numeric") and not target.scale
    return (_char(c), theirs) if target.type in WHOLE or is_whole else None


def _decimal(
    source: TableColumn, c: str, target: TargetColumn, theirs: str
) -> tuple[str, str] | None:
    found = DIGITS.match(source.type)
    if target.type not in ("decimal", "numeric") or found is None:
        return None
    scale = int(found[2] or 0)
    wanted = scale if target.scale is None else target.scale
    if not scale <= wanted <= 30:
        return None
    return _char(f"CAST({c} AS DECIMAL(65,{wanted}))"), theirs


def _is_text(target: TargetColumn, is_pg: bool, charset: str) -> bool:
    if is_pg:
        return target.type in ("text", "character varying", "varchar", "bpchar")
    return target.type in TEXTS and charset in TOTAL_CHARSETS


def _text(
    source: TableColumn, c: str, target: TargetColumn, t: str, is_pg: bool, charset: str
) -> tuple[str, str] | None:
    if source.charset not in TOTAL_CHARSETS or not _is_text(target, is_pg, charset):
        return None
    if target.type in FILLED_UP:
        c = f"TRIM(TRAILING ' ' FROM {c})"
    return _utf8(c), f"{t}::text" if is_pg else _utf8(t)


def _bytes(
    source: TableColumn, c: str, target: TargetColumn, t: str, is_pg: bool
) -> tuple[str, str] | None:
    if target.type not in BYTES:
        return None
    if target.type == "binary" and (source.data_type, source.size) != ("binary", target.length):
        return None  # filled up with zero bytes there
    if source.size > LONG_CHARACTERS or source.data_type.endswith("blob"):
        return c, t
    return f"LOWER(HEX({c}))", f"encode({t}, 'hex')" if is_pg else f"LOWER(HEX({t}))"


def _time(
    source: TableColumn, c: str, target: TargetColumn, t: str, is_pg: bool
) -> tuple[str, str] | None:
    """With other digits, and in PostgreSQL, no zeros stand at the end of a fraction."""
    if target.type not in (CLOCKS if source.data_type == "time" else MOMENTS):
        return None
    found = DIGITS.match(source.type)
    digits = int(found[1]) if found else 0
    theirs = 6 if target.length is None else target.length
    if theirs < digits:
        return None
    if not is_pg and theirs == digits:
        return _char(c), _char(t)
    own = _shortened(_char(c), digits)
    if not is_pg:
        return own, _shortened(_char(t), theirs)
    if target.type == "timestamp with time zone":
        return own, f"({t} AT TIME ZONE 'UTC')::text"
    return own, f"{t}::text"


def _shortened(text: str, digits: int) -> str:
    if not digits:
        return text
    return f"TRIM(TRAILING '.' FROM TRIM(TRAILING '0' FROM {text}))"


def mysql_hash(terms: Iterable[Term]) -> str:
    """Hexadecimal digits of a row. A NULL is told by the column itself: a text that is too long for
    the server makes the whole hash NULL, which is counted, and never equal. By SHA-256, as newest
    servers, and those that keep to FIPS, have no MD5."""
    cells = []
    for each in terms:
        text = f"SHA2({each.text}, 256)" if each.is_long else _sized(f"LENGTH({each.text})", each)
        cells.append(f"IF({each.column} IS NULL, '~', {text})")
    return f"SHA2(CONCAT({', '.join(cells)}), 256)"


def _sized(length: str, each: Term) -> str:
    return f"CONCAT({length}, ':', {each.text})"


def postgresql_hash(terms: Iterable[Term]) -> str:
    cells = []
    for each in terms:
        if each.is_long:
            raw = each.text if each.is_bytes else _utf8_bytes(each.text)
            text = f"encode(sha256({raw}), 'hex')"
        else:
            text = f"octet_length({each.text})::text || ':' || ({each.text})"
        cells.append(f"coalesce({text}, '~')")
    # as many bytes as are looked at
    return f"encode(substr(sha256({_utf8_bytes(' || '.join(cells))}), 1, 8), 'hex')"


def _utf8_bytes(text: str) -> str:
    return f"convert_to({text}, 'UTF8')"


@dataclass(frozen=True, slots=True)
class Sums:
    """Of some rows: how many they are, how many of them have a hash, and what their hashes add up
    to."""

    rows: int = 0
    hashed: int = 0
    total: int = 0

    def __add__(self, other: Sums) -> Sums:
        return Sums(self.rows + other.rows, self.hashed + other.hashed, self.total + other.total)

    def is_equal(self, other: Sums) -> bool:
        """Whether the rows are the same for sure."""
        return self == other and self.rows == self.hashed


def _number(dialect: str, digest: str, digits: int) -> str:
    if dialect == "postgresql":
        # fewer than all 64 bits, so that the number has no sign
        return f"('x' || substr({digest}, 1, {digits}))::bit({4 * digits})::bigint"
    return f"CAST(CONV(SUBSTR({digest}, 1, {digits}), 16, 10) AS UNSIGNED)"


def _hash(dialect: str, terms: Iterable[Term]) -> str:
    return postgresql_hash(terms) if dialect == "postgresql" else mysql_hash(terms)


def sums_sql(dialect: str, table: str, terms: Sequence[Term], where: str) -> str:
    """Rows, hashed rows, total. The inner query is not merged into the outer one, which would hash
    each row twice."""
    number = _number(dialect, _hash(dialect, terms), HASH_DIGITS)
    barrier = "OFFSET 0" if dialect == "postgresql" else "LIMIT 18446744073709551615"
    return (
        f"SELECT COUNT(*), COUNT(h), COALESCE(SUM(h), 0) FROM (SELECT {number} AS h "
        f"FROM {table} WHERE {where} {barrier}) AS rows_"
    )


def bucket_sql(dialect: str, key: Iterable[Term]) -> str:
    """The number of a row's bucket, by its key's text."""
    return _number(dialect, _hash(dialect, key), BUCKET_DIGITS)


def bucket_sums_sql(
    dialect: str, table: str, terms: Sequence[Term], key: Sequence[Term], where: str
) -> str:
    """Bucket, rows, hashed rows, total."""
    number = _number(dialect, _hash(dialect, terms), HASH_DIGITS)
    return (
        "SELECT b, COUNT(*), COUNT(h), COALESCE(SUM(h), 0) FROM (SELECT "
        f"{bucket_sql(dialect, key)} AS b, {number} AS h FROM {table} WHERE {where}) AS rows_ "
        "GROUP BY b"
    )


def beyond(columns: Sequence[str], bound: Sequence[str], *, or_equal: bool = False) -> str:
    """Rows behind a key in its order, as servers use an index for it."""
    first, *rest = columns
    least, *others = bound
    if not rest:
        return f"{first} {'>=' if or_equal else '>'} {least}"
    inner = beyond(rest, others, or_equal=or_equal)
    return f"({first} > {least} OR ({first} = {least} AND {inner}))"


def up_to(columns: Sequence[str], bound: Sequence[str]) -> str:
    """Rows up to a key, itself included."""
    first, *rest = columns
    most, *others = bound
    if not rest:
        return f"{first} <= {most}"
    return f"({first} < {most} OR ({first} = {most} AND {up_to(rest, others)}))"
