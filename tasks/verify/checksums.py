"""Checksums of rows as SQL: the same text for each cell on both sides, hashed and summed inside the
databases. Pure.

A column has such a text only if equal texts certainly mean equal cells. Where texts may differ
although the cells are equal, rows are compared afterwards.
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
"""Hexadecimal digits: 60 bits, which fit a signed 64-bit number on both servers."""
BUCKET_DIGITS: Final = 3
BUCKETS: Final = 16**BUCKET_DIGITS
DIGESTED: Final = 256 << 20
"""The maximum number of bytes of rows that PostgreSQL joins for one hash."""
SPARE: Final = 64
"""How many bytes below its limit a server might already cut a text."""
# Twice 45 and the separator are below PostgreSQL's 100 arguments per call.
_CELLS_IN_A_CALL: Final = 45
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
MOMENTS: Final = frozenset(
    ("datetime", "timestamp", "timestamp without time zone", "timestamp with time zone")
)
CLOCKS: Final = frozenset(("time", "time without time zone", "interval"))
OWN_TEXTS: Final = frozenset(("uuid", "inet4", "inet6"))
WITH_COMMAS: Final = TEXTS | OWN_TEXTS | {"enum", "set"}
"""Source types whose text at the target can be anything."""
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


def pair_of(
    source: TableColumn, column: str, target: TargetColumn, name: str, dialect: str, charset: str
) -> Pair | None:
    """The terms of a column; None where no SQL text is the same on both sides, as for Oracle, whose
    texts are limited to the length of a VARCHAR2. `column`, `name`: quoted for source and target;
    `dialect`: the target's; `charset`: of the target column, in MySQL and MariaDB."""
    if dialect == "oracle":
        return None
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
    # A long cell appears as its hash, which has no comma.
    kind = is_long, is_bytes, source.data_type in WITH_COMMAS and not is_long
    return Pair(
        Term(column, own, *kind, source.is_nullable), Term(name, theirs, *kind, target.is_nullable)
    )


def _texts(
    source: TableColumn, c: str, target: TargetColumn, t: str, is_pg: bool, charset: str
) -> tuple[str, str] | None:
    kind = source.data_type
    own = c
    theirs = f"{t}::text" if is_pg else t
    if kind in INTEGERS:
        # ZEROFILL pads the text with zeros, + 0 makes it a number again.
        return _whole(f"{c} + 0" if "zerofill" in source.type else c, target, t, theirs, is_pg)
    if kind == "bit":
        if target.type == '"bit"':
            # bit without a length is bit(1).
            width = target.length or 1
            return f"LPAD(BIN({c} + 0), {width}, '0')", theirs
        if target.type == "bit" and not is_pg:
            return f"{c} + 0", f"{t} + 0"
        return _whole(f"{c} + 0", target, t, theirs, is_pg)
    if kind == "year":
        if target.type in WHOLE:
            return f"{c} + 0", theirs
        return (own, theirs) if target.type == "year" else None
    if kind in ("decimal", "numeric"):
        return _decimal(source, c, target, theirs)
    if kind in ("float", "double"):
        # PostgreSQL prints floating-point numbers differently, as do FLOAT and DOUBLE.
        same = SINGLE if kind == "float" else DOUBLE
        if is_pg or target.type not in same:
            return None
        # As a double, because a FLOAT is printed with 6 digits only.
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
    # PostgreSQL's json keeps the text as the source printed it; jsonb does not, so its rows are
    # compared one by one.
    if kind == "json":
        if target.type == "json":
            return _utf8(_char(c)), f"{t}::text" if is_pg else _utf8(_char(t))
        return (_utf8(_char(c)), _utf8(t)) if not is_pg and target.type == "longtext" else None
    if kind in OWN_TEXTS and (target.type == kind or (is_pg and target.type == "text")):
        return _char(c), theirs if is_pg else _char(t)
    return None


def _char(sql: str) -> str:
    return f"CAST({sql} AS CHAR)"


def _utf8(sql: str, charset: str = "") -> str:
    """The text as bytes, so that no collation matters."""
    wide = sql if charset.startswith("utf8") else f"CONVERT({sql} USING utf8mb4)"
    return f"CAST({wide} AS BINARY)"


def _whole(
    c: str, target: TargetColumn, t: str, theirs: str, is_pg: bool
) -> tuple[str, str] | None:
    if is_pg and target.type == "boolean":
        return c, f"CASE {t} WHEN true THEN '1' WHEN false THEN '0' END"
    # With a scale, the target would print zeros after the point.
    is_whole = target.type in ("decimal", "numeric") and not target.scale
    return (c, theirs) if target.type in WHOLE or is_whole else None


def _decimal(
    source: TableColumn, c: str, target: TargetColumn, theirs: str
) -> tuple[str, str] | None:
    found = DIGITS.match(source.type)
    if target.type not in ("decimal", "numeric") or found is None:
        return None
    scale = int(found[2] or 0)
    wanted = scale if target.scale is None else target.scale
    # A smaller scale rounds at the target; MySQL's DECIMAL has 30 digits after the point at most.
    if not scale <= wanted <= 30:
        return None
    if wanted == scale and "zerofill" not in source.type:
        return c, theirs
    return f"CAST({c} AS DECIMAL(65,{wanted}))", theirs


def _is_text(target: TargetColumn, is_pg: bool, charset: str) -> bool:
    if is_pg:
        return target.type in ("text", "character varying", "varchar", "bpchar")
    return target.type in TEXTS and charset in TOTAL_CHARSETS


def _text(
    source: TableColumn, c: str, target: TargetColumn, t: str, is_pg: bool, charset: str
) -> tuple[str, str] | None:
    if source.charset not in TOTAL_CHARSETS or not _is_text(target, is_pg, charset):
        return None
    # The target pads these with blanks, so those of the source mean nothing.
    if target.type in FILLED_UP:
        c = f"TRIM(TRAILING ' ' FROM {c})"
    return _utf8(c, source.charset), f"{t}::text" if is_pg else _utf8(t, charset)


def _bytes(
    source: TableColumn, c: str, target: TargetColumn, t: str, is_pg: bool
) -> tuple[str, str] | None:
    if target.type not in BYTES:
        return None
    if target.type == "binary" and (source.data_type, source.size) != ("binary", target.length):
        # The target pads it with zero bytes.
        return None
    if source.size > LONG_CHARACTERS or source.data_type.endswith("blob"):
        return c, t
    return f"LOWER(HEX({c}))", f"encode({t}, 'hex')" if is_pg else f"LOWER(HEX({t}))"


def _time(
    source: TableColumn, c: str, target: TargetColumn, t: str, is_pg: bool
) -> tuple[str, str] | None:
    """The texts of a time. Trailing zeros of a fraction are cut where the numbers of digits differ,
    and for PostgreSQL, which shows none."""
    if target.type not in (CLOCKS if source.data_type == "time" else MOMENTS):
        return None
    found = DIGITS.match(source.type)
    digits = int(found[1]) if found else 0
    # PostgreSQL's types of time have 6 digits unless they say another number.
    theirs = 6 if target.length is None else target.length
    # The target rounds or cuts the fraction, so texts may differ where cells are equal.
    if theirs < digits:
        return None
    if not is_pg and theirs == digits:
        return c, t
    own = _shortened(c, digits)
    if not is_pg:
        return own, _shortened(t, theirs)
    if target.type == "timestamp with time zone":
        return own, f"({t} AT TIME ZONE 'UTC')::text"
    return own, f"{t}::text"


def _shortened(text: str, digits: int) -> str:
    if not digits:
        return text
    return f"TRIM(TRAILING '.' FROM TRIM(TRAILING '0' FROM {text}))"


def mysql_row(terms: Sequence[Term]) -> str:
    """A row's text: its cells separated by commas, NULL as ~, and a text that may hold a comma
    preceded by its length, so that no two rows share a text. Most rows have no NULL, and skip the
    test of each cell. A text that is too long for the server makes the row's text NULL."""
    return _by_nulls(
        [f"{each.column} IS NULL" for each in terms if each.is_nullable],
        f"CONCAT({_with_commas(map(_mysql_cell, terms))})",
        f"CONCAT({_with_commas(map(_mysql_nullable, terms))})",
    )


def _by_nulls(tests: Sequence[str], full: str, other: str) -> str:
    return f"CASE WHEN {' OR '.join(tests)} THEN {other} ELSE {full} END" if tests else full


def _with_commas(cells: Iterable[str]) -> str:
    return ", ',', ".join(cells)


def _mysql_cell(each: Term) -> str:
    if each.is_long:
        return f"SHA2({each.text}, 256)"
    return f"LENGTH({each.text}), ',', {each.text}" if each.is_open else each.text


def _mysql_nullable(each: Term) -> str:
    """The cell, or ~ for NULL, which is tested on the column itself: the text of a cell may be NULL
    because it is too long."""
    if not each.is_nullable:
        return _mysql_cell(each)
    is_null = f"{each.column} IS NULL"
    if each.is_open and not each.is_long:
        return f"IF({is_null}, '~', LENGTH({each.text})), ',', IF({is_null}, '', {each.text})"
    return f"IF({is_null}, '~', {_mysql_cell(each)})"


def postgresql_row(terms: Sequence[Term]) -> str:
    """The same text as `mysql_row`."""
    return _by_nulls(
        [f"{each.column} IS NULL" for each in terms if each.is_nullable],
        _concat_ws([_postgresql_cell(each) for each in terms]),
        _concat_ws([_postgresql_nullable(each) for each in terms]),
    )


def _concat_ws(cells: Sequence[str]) -> str:
    """The cells joined by commas. Many cells are joined in parts, with the same result: PostgreSQL
    takes 100 arguments per call, and a cell may be two."""
    parts = []
    for start in range(0, len(cells), _CELLS_IN_A_CALL):
        part = cells[start : start + _CELLS_IN_A_CALL]
        parts.append(f"concat_ws(',', {', '.join(part)})")
    return parts[0] if len(parts) == 1 else f"concat_ws(',', {', '.join(parts)})"


def _postgresql_cell(each: Term) -> str:
    """The cell, without a cast if the type prints as it casts, which takes half the time."""
    if each.is_long:
        return _postgresql_long(each)
    return f"octet_length({each.text}), {each.text}" if each.is_open else _printed(each.text)


def _printed(text: str) -> str:
    return text.removesuffix("::text")


def _postgresql_long(each: Term) -> str:
    raw = each.text if each.is_bytes else _utf8_bytes(each.text)
    return f"encode(sha256({raw}), 'hex')"


def _postgresql_nullable(each: Term) -> str:
    if each.is_long:
        return f"coalesce({_postgresql_long(each)}, '~')"
    if each.is_open:
        return f"coalesce(octet_length({each.text})::text, '~'), coalesce({each.text}, '')"
    return f"coalesce({each.text}, '~')"


def _row(dialect: str, terms: Sequence[Term]) -> str:
    return postgresql_row(terms) if dialect == "postgresql" else mysql_row(terms)


def _hash(dialect: str, terms: Sequence[Term]) -> str:
    """The hash of a row in hexadecimal digits; NULL where its text is. SHA-256, because the newest
    servers, and those in FIPS mode, have no MD5."""
    row = _row(dialect, terms)
    if dialect == "postgresql":
        # only as many bytes as are used
        return f"encode(substr(sha256({_utf8_bytes(row)}), 1, 8), 'hex')"
    return f"SHA2({row}, 256)"


def _utf8_bytes(text: str) -> str:
    return f"convert_to({text}, 'UTF8')"


@dataclass(frozen=True, slots=True)
class Sums:
    """The number of some rows, how many of them have a hash, and the sum of their hashes."""

    rows: int = 0
    hashed: int = 0
    total: int = 0

    def __add__(self, other: Sums) -> Sums:
        return Sums(self.rows + other.rows, self.hashed + other.hashed, self.total + other.total)

    def is_equal(self, other: Sums) -> bool:
        """Whether the rows are certainly the same."""
        return self == other and self.rows == self.hashed


@dataclass(frozen=True, slots=True)
class Digest:
    """The number of some rows, and the SHA-256 of their texts in the order of the key; None for too
    many rows, and for none."""

    rows: int
    digest: str | None

    def is_equal(self, other: Digest) -> bool:
        """Whether the rows are certainly the same."""
        return self == other and self.digest is not None


def _number(dialect: str, digest: str, digits: int) -> str:
    if dialect == "postgresql":
        # fewer than 64 bits, so that the number is never negative
        return f"('x' || substr({digest}, 1, {digits}))::bit({4 * digits})::bigint"
    return f"CAST(CONV(SUBSTR({digest}, 1, {digits}), 16, 10) AS UNSIGNED)"


def sums_sql(dialect: str, table: str, terms: Sequence[Term], where: str) -> str:
    """Selects rows, hashed rows and total. A barrier keeps the inner query from being merged into
    the outer one, which would hash each row twice."""
    number = _number(dialect, _hash(dialect, terms), HASH_DIGITS)
    # The largest 64-bit number, as MySQL has no LIMIT without a number.
    barrier = "OFFSET 0" if dialect == "postgresql" else "LIMIT 18446744073709551615"
    return (
        f"SELECT COUNT(*), COUNT(h), COALESCE(SUM(h), 0) FROM (SELECT {number} AS h "
        f"FROM {table} WHERE {where} {barrier}) AS rows_"
    )


def digest_sql(
    dialect: str, table: str, terms: Sequence[Term], key: Sequence[str], where: str, most: int
) -> str:
    """Selects the number of rows and their digest: one hash of all their texts, a third cheaper
    than one hash per row. `key`: the columns that order the rows. MySQL reads a range of the key in
    its order anyway; if it does not, the digest differs, and rows are summed instead. `most`: from
    this number of rows on there is no digest."""
    row = _row(dialect, terms)
    if dialect == "postgresql":
        # a text of 1 GB would fail, so a row that long makes the digest random
        kept = f"CASE WHEN octet_length(h) < {DIGESTED // most} THEN h ELSE random()::text END"
        texts = _utf8_bytes(f"string_agg({kept}, ',')")
        return (
            f"SELECT COUNT(*), CASE WHEN COUNT(*) < {most} THEN encode(sha256({texts}), 'hex') END "
            f"FROM (SELECT {row} AS h FROM {table} WHERE {where} ORDER BY {', '.join(key)} "
            f"LIMIT {most}) AS rows_"
        )
    # a row without a text makes the digest random; a text near the limit may have been cut
    return (
        f"SELECT n, IF(LENGTH(g) < LEAST(@@group_concat_max_len, @@max_allowed_packet) - {SPARE}, "
        "SHA2(g, 256), NULL) FROM (SELECT COUNT(*) AS n, "
        f"GROUP_CONCAT(IFNULL({row}, CAST(UUID() AS CHAR)) SEPARATOR ',') AS g FROM {table} "
        f"WHERE {where}) AS rows_"
    )


def bucket_sql(dialect: str, key: Sequence[Term]) -> str:
    """The number of a row's bucket, from its key's text."""
    return _number(dialect, _hash(dialect, key), BUCKET_DIGITS)


def bucket_sums_sql(
    dialect: str, table: str, terms: Sequence[Term], key: Sequence[Term], where: str
) -> str:
    """Selects bucket, rows, hashed rows and total, for each bucket."""
    number = _number(dialect, _hash(dialect, terms), HASH_DIGITS)
    return (
        "SELECT b, COUNT(*), COUNT(h), COALESCE(SUM(h), 0) FROM (SELECT "
        f"{bucket_sql(dialect, key)} AS b, {number} AS h FROM {table} WHERE {where}) AS rows_ "
        "GROUP BY b"
    )


def beyond(columns: Sequence[str], bound: Sequence[str], *, or_equal: bool = False) -> str:
    """The condition for rows after a key, in a form for which servers use an index."""
    first, *rest = columns
    least, *others = bound
    if not rest:
        return f"{first} {'>=' if or_equal else '>'} {least}"
    inner = beyond(rest, others, or_equal=or_equal)
    return f"({first} > {least} OR ({first} = {least} AND {inner}))"


def up_to(columns: Sequence[str], bound: Sequence[str]) -> str:
    """The condition for rows up to and including a key."""
    first, *rest = columns
    most, *others = bound
    if not rest:
        return f"{first} <= {most}"
    return f"({first} < {most} OR ({first} = {most} AND {up_to(rest, others)}))"
