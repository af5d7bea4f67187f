"""The SQL for reading a table chunk by chunk, in the order of a key. Pure.

A chunk begins after the last key of the previous one, so each is a range of the key's index,
however large the table is and however uneven its keys are. A bound is written in the column's own
character set, so that the server compares it by the column's collation.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from cdcbus.plugins.rowchange import TableId

CHUNK_BYTES = 8_000_000
FIRST_ROWS = 1_000
Bound = tuple[str, ...]
"""A place between rows: a literal, made by `literal`, for each column of the key."""


class KeyKind(StrEnum):
    """How values of a key column are written in SQL."""

    NUMBER = "number"  # also ENUM, SET and BIT, by their numbers
    QUOTED = "quoted"  # dates, times, addresses: digits and punctuation
    TEXT = "text"  # in the column's character set


@dataclass(frozen=True, slots=True)
class KeyColumn:
    """`charset`: the server's name for it, of KeyKind.TEXT only. `order`: by what its values are
    ordered, where its kind does not say it: a collation, labels, a type."""

    name: str
    kind: KeyKind
    charset: str = ""
    order: str = ""

    def __str__(self) -> str:
        return f"{self.name} {self.order}".rstrip()


@dataclass(frozen=True, slots=True)
class Key:
    """A unique key without NULLs. `index`: its name."""

    index: str
    columns: tuple[KeyColumn, ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)


_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[-+]?\d+)?", re.ASCII)
_QUOTED = re.compile(r"'[-0-9a-f:. ]*'", re.ASCII)
_TEXT = re.compile(r"_[a-z0-9]+ x'(?:[0-9a-f]{2})*'", re.ASCII)
_LITERALS = {KeyKind.NUMBER: _NUMBER, KeyKind.QUOTED: _QUOTED, KeyKind.TEXT: _TEXT}


def literal(column: KeyColumn, value: bytes) -> str:
    """The SQL literal of a value that the server sent without converting its characters. Raises
    ValueError if it is not of the column's kind."""
    match column.kind:
        case KeyKind.TEXT:
            made = f"_{column.charset} x'{value.hex()}'"
        case KeyKind.QUOTED:
            made = f"'{value.decode('ascii')}'"
        case KeyKind.NUMBER:
            made = value.decode("ascii").replace("e+", "e")
    return checked(column, made)


def checked(column: KeyColumn, text: str) -> str:
    """Returns the literal itself, which may come from where people write. Raises ValueError for
    anything else, so that it never gets into a statement."""
    if not _LITERALS[column.kind].fullmatch(text):
        raise ValueError(f"not a bound of column {column.name}: {len(text)} characters")
    return text


def quoted(name: str) -> str:
    """A name quoted for SQL."""
    return "`" + name.replace("`", "``") + "`"


def named(table: TableId) -> str:
    """A table's name in SQL."""
    return f"{quoted(table.schema)}.{quoted(table.table)}"


def with_history(table: str) -> str:
    """A table WITH SYSTEM VERSIONING in SQL, with its former rows, which the binlog has, too."""
    return f"{table} FOR SYSTEM_TIME ALL"


def by_index(table: str, index: str) -> str:
    """A table in SQL that is read by an index."""
    return f"{table} FORCE INDEX ({quoted(index)})"


def beyond(columns: Sequence[KeyColumn], bound: Bound) -> str:
    """The condition for keys after a bound.

    Written out, as `(a, b) > (x, y)` scans the whole index on some servers; `a >= x` before it
    gives every server one range.
    """
    return _on_a_side(columns, bound, ">", ">")


def up_to(columns: Sequence[KeyColumn], bound: Bound) -> str:
    """The condition for keys up to and including a bound."""
    return _on_a_side(columns, bound, "<", "<=")


def _on_a_side(columns: Sequence[KeyColumn], bound: Bound, side: str, last_side: str) -> str:
    names = [quoted(column.name) for column in columns]
    values = [checked(*pair) for pair in zip(columns, bound, strict=True)]
    sides = [*[side] * (len(names) - 1), last_side]
    # A way for each column: those before it are equal, and it is on the side.
    equal: list[str] = []
    ways = []
    for name, one_side, value in zip(names, sides, values, strict=True):
        ways.append(" AND ".join([*equal, f"{name} {one_side} {value}"]))
        equal.append(f"{name} = {value}")
    if len(ways) == 1:
        return ways[0]
    return f"{names[0]} {side}= {values[0]} AND (({') OR ('.join(ways)}))"


def page(
    table: str,
    selected: Sequence[str],
    key: Key,
    after: Bound | None,
    until: Bound | None,
    rows: int,
    where: str = "",
) -> str:
    """The statement for the next rows in the key's order: at most `rows`, after `after`, up to
    `until`. `table`: in SQL, here and below; `where`: an operator's condition in SQL."""
    conditions = []
    if after is not None:
        conditions.append(beyond(key.columns, after))
    if until is not None:
        conditions.append(up_to(key.columns, until))
    order = ", ".join(map(quoted, key.names))
    return (
        f"SELECT {', '.join(selected)} FROM {by_index(table, key.index)}"
        f"{_where(*conditions, where)} ORDER BY {order} LIMIT {rows}"
    )


def nth_key(
    table: str,
    selected: Sequence[str],
    key: Key,
    after: Bound | None,
    until: Bound,
    rows: int,
) -> str:
    """The statement for the key of the last of `rows` rows after `after`; it returns nothing if
    there are fewer up to `until`. `selected`: the expressions of the key's values, which the index
    covers."""
    return f"{page(table, selected, key, after, until, 1)} OFFSET {rows - 1}"


def between(
    table: str, selected: Sequence[str], key: Key, after: Bound | None, until: Bound
) -> str:
    """The statement for all rows after `after`, up to `until`, in the key's order."""
    return page(table, selected, key, after, until, ALL_ROWS)


def last_key(table: str, selected: Sequence[str], key: Key, where: str = "") -> str:
    """The statement for the current greatest key. `selected`: the expressions of its values."""
    order = ", ".join(f"{quoted(name)} DESC" for name in key.names)
    return (
        f"SELECT {', '.join(selected)} FROM {by_index(table, key.index)}"
        f"{_where(where)} ORDER BY {order} LIMIT 1"
    )


def whole(table: str, selected: Sequence[str], where: str = "") -> str:
    """The statement for all rows, unordered."""
    return f"SELECT {', '.join(selected)} FROM {table}{_where(where)}"


def _where(*conditions: str) -> str:
    """The clause with all conditions, except for empty ones."""
    given = [f"({condition})" for condition in conditions if condition]
    if not given:
        return ""
    return " WHERE " + " AND ".join(given)


_QUOTED_PART = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`[^`]*`""", re.DOTALL)
_ENDS_EARLY = re.compile(r";|#|/\*|--(?:\s|$)|['\"`]")


def is_one_condition(where: str) -> bool:
    """Whether it stays within the parentheses that it is put into, as SQL reads it."""
    bare = _QUOTED_PART.sub("", where)
    depth = 0
    for character in bare:
        depth += {"(": 1, ")": -1}.get(character, 0)
        if depth < 0:
            return False
    return depth == 0 and bool(where.strip()) and not _ENDS_EARLY.search(bare)


ALL_ROWS = 2**63 - 1
MOST_ROWS, LEAST_ROWS = 100_000, 1


def rows_for(wanted_bytes: int, read_rows: int, read_bytes: int) -> int:
    """The number of rows for a next chunk of about `wanted_bytes`, judged by the rows read last; at
    most four times as many as those."""
    if not read_rows or not read_bytes:
        return MOST_ROWS
    fitting = wanted_bytes * read_rows // read_bytes
    return max(LEAST_ROWS, min(MOST_ROWS, 4 * read_rows, fitting))
