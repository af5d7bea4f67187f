"""Conditions on keys as SQL of either side. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from cdcbus.plugins.rowchange import Cell

WIDE_CHARSETS: Final = frozenset(("", "utf8mb4", "utf16", "utf16le", "utf32", "gb18030"))
"""Character sets that have all characters."""
EVERYTHING: Final = "1 = 1"
# For a lookup of keys that have no literals.
NOTHING: Final = "1 = 0"

Cells = tuple[Cell, ...]
Column = TypeVar("Column")


def beyond(columns: Sequence[str], bound: Sequence[str]) -> str:
    """The condition for rows after a key, in a form for which servers use an index."""
    first, *rest = columns
    least, *others = bound
    if not rest:
        return f"{first} > {least}"
    return f"({first} > {least} OR ({first} = {least} AND {beyond(rest, others)}))"


def up_to(columns: Sequence[str], bound: Sequence[str]) -> str:
    """The condition for rows up to and including a key."""
    first, *rest = columns
    most, *others = bound
    if not rest:
        return f"{first} <= {most}"
    return f"({first} < {most} OR ({first} = {most} AND {up_to(rest, others)}))"


def key_literals(
    columns: Sequence[Column], key: Cells, literal: Callable[[Column, str], str | None]
) -> list[str] | None:
    """The literals of a key's cells; None where a cell has none: rows with this key, if there can
    be any, are not found by it."""
    found = []
    for column, cell in zip(columns, key, strict=True):
        if cell is None:
            return None
        known = literal(column, cell)
        if known is None:
            return None
        found.append(known)
    return found


def among(
    columns: Sequence[str],
    charsets: Sequence[str],
    keys: Sequence[Cells],
    literals: Callable[[Cells], list[str] | None],
) -> str:
    """The condition for rows with these keys, without those that have no literals. A text that a
    column's character set lacks is compared with the column converted to a wider one, for which no
    index is used."""
    plain, odd = list[list[str]](), list[list[str]]()
    for key in keys:
        row = literals(key)
        if row is None:
            continue
        # Apart, so that a rare odd key does not cost all others the index.
        if _fit(charsets, key):
            plain.append(row)
        else:
            odd.append(row)
    if not odd:
        return _equal_to_any(columns, plain) if plain else NOTHING
    rare = _equal_to_any(_widened(columns, charsets), odd)
    return f"({_equal_to_any(columns, plain)} OR {rare})" if plain else rare


def _fit(charsets: Sequence[str], key: Cells) -> bool:
    """Whether all texts of a key can be compared with their columns as they are."""
    for charset, cell in zip(charsets, key, strict=True):
        if cell is not None and not fits(charset, cell):
            return False
    return True


def _widened(columns: Sequence[str], charsets: Sequence[str]) -> list[str]:
    """The columns, those with a character set converted to one that has all characters."""
    found = list(columns)
    for place, charset in enumerate(charsets):
        if charset:
            found[place] = f"CONVERT({columns[place]} USING utf8mb4)"
    return found


def _equal_to_any(columns: Sequence[str], keys: Sequence[Sequence[str]]) -> str:
    """The condition for rows with one of these keys, given as literals. Column by column, because
    MariaDB misses rows with `(a, b) IN (('x', 'y'), ...)` if a column's character set is not the
    literals'."""
    if len(columns) == 1:
        literals = ", ".join(key[0] for key in keys)
        return f"{columns[0]} IN ({literals})"
    rows = []
    for key in keys:
        cells = map("{} = {}".format, columns, key)
        rows.append(f"({' AND '.join(cells)})")
    return f"({' OR '.join(rows)})"


def fits(charset: str, cell: str) -> bool:
    """Whether a text can be compared as a literal with a column of this character set, empty for
    none; MySQL and MariaDB refuse the statement otherwise. False in doubt."""
    if cell.isascii() or charset in WIDE_CHARSETS:
        return True
    # These have no characters beyond the Basic Multilingual Plane.
    if charset in ("utf8", "utf8mb3", "ucs2"):
        return max(cell) <= "\uffff"
    try:
        # MySQL's latin1 is Windows-1252.
        cell.encode("cp1252" if charset == "latin1" else charset)
    except (LookupError, UnicodeEncodeError):
        return False
    return True
