"""Checksums of rows as SQL: the texts of cells, the same on both sides, hashed and summed inside
the databases. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from cdcbus.tasks.verify.sql.pairs import Term

HASH_DIGITS: Final = 15
"""Hexadecimal digits: 60 bits, which fit a signed 64-bit number on both servers."""
BUCKET_DIGITS: Final = 3
BUCKETS: Final = 16**BUCKET_DIGITS
DIGESTED: Final = 256 << 20
"""The maximum number of bytes of rows that PostgreSQL joins for one hash."""
SPARE: Final = 64
"""How many bytes below its limit a server might already cut a text."""
EXCESS: Final = 64
"""More characters than any cell has beyond the length that MySQL and MariaDB expect of its column:
12 for a DOUBLE or FLOAT, 1 for a DECIMAL without whole digits."""
# Twice 45 and the separator are below PostgreSQL's 100 arguments per call.
_CELLS_IN_A_CALL: Final = 45


def mysql_row(terms: Sequence[Term]) -> str:
    """A row's text: its cells separated by commas, NULL as ~, and a text that may hold a comma
    preceded by its length, so that no two rows share a text. Most rows have no NULL, and skip the
    test of each cell. A text that is too long for the server makes the row's text NULL."""
    full = f"CONCAT({_with_commas(map(_mysql_cell, terms))})"
    other = f"CONCAT({_with_commas(map(_mysql_nullable, terms))})"
    return _by_nulls(terms, full, other)


def _by_nulls(terms: Sequence[Term], full: str, other: str) -> str:
    """The text of a row: `other` where a cell is NULL, else `full`."""
    tests = [f"{each.column} IS NULL" for each in terms if each.is_nullable]
    if not tests:
        return full
    return f"CASE WHEN {' OR '.join(tests)} THEN {other} ELSE {full} END"


def _with_commas(cells: Iterable[str]) -> str:
    return ", ',', ".join(cells)


def _mysql_cell(each: Term) -> str:
    if each.is_long:
        return f"SHA2({each.text}, 256)"
    if each.is_open:
        return f"LENGTH({each.text}), ',', {each.text}"
    return each.text


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
    full = _concat_ws(list(map(_postgresql_cell, terms)))
    other = _concat_ws(list(map(_postgresql_nullable, terms)))
    return _by_nulls(terms, full, other)


def _concat_ws(cells: Sequence[str]) -> str:
    """The cells joined by commas. Many cells are joined in parts, with the same result: PostgreSQL
    takes 100 arguments per call, and a cell may be two."""
    parts = []
    for start in range(0, len(cells), _CELLS_IN_A_CALL):
        part = cells[start : start + _CELLS_IN_A_CALL]
        parts.append(f"concat_ws(',', {', '.join(part)})")
    if len(parts) == 1:
        return parts[0]
    return f"concat_ws(',', {', '.join(parts)})"


def _postgresql_cell(each: Term) -> str:
    """The cell, without a cast if the type prints as it casts, which takes half the time."""
    if each.is_long:
        return _postgresql_long(each)
    if each.is_open:
        return f"octet_length({each.text}), {each.text}"
    return each.text.removesuffix("::text")


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
    # a row without a text makes the digest random
    text = f"IFNULL({row}, CAST(UUID() AS CHAR))"
    # GROUP_CONCAT cuts each text at the expected length, which an empty text increases
    text = f"CONCAT({text}, CAST('' AS CHAR({EXCESS * len(terms)})))"
    # a text near the limit may have been cut
    return (
        f"SELECT n, IF(LENGTH(g) < LEAST(@@group_concat_max_len, @@max_allowed_packet) - {SPARE}, "
        "SHA2(g, 256), NULL) FROM (SELECT COUNT(*) AS n, "
        f"GROUP_CONCAT({text} SEPARATOR ',') AS g FROM {table} "
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
