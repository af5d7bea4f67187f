"""The schema of a table, which completes its table maps: columns, keys, character set; the actions
of DDL on it, as values; its form as JSON. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from cdcbus.plugins.rowchange import type_without_comment
from cdcbus.producer.decoding.charsets import BYTES_PER_CHARACTER


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column. `type` is information_schema's column_type without its comment
    (`int(10) unsigned`, `enum('a','b')`); `charset` is empty if it has none; `collation` is known
    only of a column that has just been read, and is no part of the history."""

    name: str
    type: str
    charset: str = ""
    is_nullable: bool = True
    collation: str = field(default="", compare=False)

    @property
    def data_type(self) -> str:
        """The type's first word."""
        return self.type.partition("(")[0].partition(" ")[0]

    @property
    def size(self) -> int:
        """The number in parentheses of a text or bytes type; 0 for any other type, and if there is
        none."""
        if self.data_type not in _SIZED or "(" not in self.type:
            return 0
        return int(self.type.partition("(")[2].rstrip(")"))

    @property
    def is_long(self) -> bool:
        """Whether it is too long to be a whole part of an index."""
        return self.data_type.endswith(("text", "blob"))

    @property
    def has_zerofill(self) -> bool:
        """Whether clients are shown its numbers with zeros before them."""
        # at the end: before it can be labels, which are any text
        return self.type.endswith(" zerofill")


@dataclass(frozen=True, slots=True)
class UniqueKey:
    """A unique index. `name` is empty if the server chose it. `is_whole`: it has whole columns
    only, no prefix and no expression. `is_hashed`: MariaDB keeps it by a hash, in a column that the
    table does not show, as its columns are too long for an index."""

    name: str
    columns: tuple[str, ...]
    is_whole: bool = True
    is_hashed: bool = False


@dataclass(frozen=True, slots=True)
class TableSchema:
    """A table: its columns in order, its unique keys in the server's order, and the character
    set of columns that name none (empty = unknown). `times`: in MariaDB, whether the times of its
    rows are columns that it does not name (`HIDDEN`), or does (`NAMED`); the end time is added to
    every unique key."""

    columns: tuple[TableColumn, ...]
    uniques: tuple[UniqueKey, ...] = ()
    charset: str = ""
    times: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        """The columns' names, in order."""
        return tuple(column.name for column in self.columns)

    @property
    def by_name(self) -> dict[str, TableColumn]:
        return {column.name: column for column in self.columns}

    @property
    def nullable(self) -> set[str]:
        """The names of the columns that can be NULL."""
        return {column.name for column in self.columns if column.is_nullable}

    @property
    def key(self) -> tuple[str, ...]:
        """The key that full row metadata would name: the primary key, else the first unique key
        whose columns are whole and never NULL."""
        nullable = self.nullable
        for unique in self.uniques:
            if unique.name == PRIMARY:
                return unique.columns
            is_whole = unique.is_whole and unique not in self.hashed
            if is_whole and nullable.isdisjoint(unique.columns):
                return unique.columns
        return ()

    @property
    def hashed(self) -> list[UniqueKey]:
        """The keys that are no index, but a hash. Those of whole TEXT and BLOB columns are."""
        long = {column.name for column in self.columns if column.is_long}
        found = []
        for unique in self.uniques:
            is_long = unique.is_whole and not long.isdisjoint(unique.columns)
            if unique.is_hashed or is_long:
                found.append(unique)
        return found

    def __str__(self) -> str:
        return ", ".join(f"{column.name} {column.type}" for column in self.columns)

    def to_fields(self) -> dict[str, Any]:
        """The schema as JSON fields."""
        columns = [[c.name, c.type, c.charset, c.is_nullable] for c in self.columns]
        uniques = []
        for unique in self.uniques:
            hashed = [True] if unique.is_hashed else []
            uniques.append([unique.name, list(unique.columns), unique.is_whole, *hashed])
        fields: dict[str, Any] = {"columns": columns, "uniques": uniques, "charset": self.charset}
        if self.times:
            fields["times"] = self.times
        return fields

    @classmethod
    def from_fields(cls, fields: Any) -> TableSchema:
        """Reads the fields that `to_fields` returns. Raises KeyError, TypeError, ValueError for
        anything else."""
        columns = []
        for name, type_, charset, is_nullable in fields["columns"]:
            # stored by versions that kept the comment
            plain = type_without_comment(_text(type_))
            column = TableColumn(_text(name), plain, _text(charset), _flag(is_nullable))
            columns.append(column)
        uniques = []
        for name, names, is_whole, *hashed in fields["uniques"]:
            flags = map(_flag, (is_whole, *hashed))
            uniques.append(UniqueKey(_text(name), tuple(map(_text, names)), *flags))
        if not columns:
            raise ValueError("no columns")
        charset = _text(fields["charset"])
        return cls(tuple(columns), tuple(uniques), charset, _text(fields.get("times", "")))


PRIMARY = "PRIMARY"
# Types whose size is a length, in characters or bytes.
_SIZED = {"char", "varchar", "text", "binary", "blob", "varbinary"}
ROW_TIMES = ("row_start", "row_end")
HIDDEN, NAMED = "hidden", "named"
# All columns of a SEQUENCE, which has no key.
SEQUENCE_COLUMNS = (
    *("next_not_cached_value", "minimum_value", "maximum_value", "start_value"),
    *("increment", "cache_size", "cycle_option", "cycle_count"),
)


def with_row_times(table: TableSchema) -> TableSchema:
    """The schema of a MariaDB table WITH SYSTEM VERSIONING that does not name the times of its
    rows: they are columns nevertheless, always the last ones, and the end time is in every unique
    key."""
    times = [TableColumn(name, "timestamp(6)", is_nullable=False) for name in ROW_TIMES]
    uniques = []
    for unique in table.uniques:
        uniques.append(replace(unique, columns=(*unique.columns, ROW_TIMES[1])))
    columns = (*table.columns, *times)
    return replace(table, columns=columns, uniques=tuple(uniques), times=HIDDEN)


def without_row_times(table: TableSchema) -> TableSchema:
    """Undoes `with_row_times`."""
    uniques = []
    for unique in table.uniques:
        uniques.append(replace(unique, columns=unique.columns[:-1]))
    columns = table.columns[: -len(ROW_TIMES)]
    return replace(table, columns=columns, uniques=tuple(uniques), times="")


def folded_name(name: str) -> str:
    """A name for comparison: column and index names are case-insensitive."""
    return name.casefold()


def by_folded_name(columns: Iterable[TableColumn]) -> dict[str, TableColumn]:
    """The columns by their names for comparison."""
    return {folded_name(column.name): column for column in columns}


def character_bytes(charset: str) -> int:
    """The maximum bytes of a character."""
    return BYTES_PER_CHARACTER.get(charset, 1)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not a text")
    return value


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"{value!r} is neither true nor false")
    return value


@dataclass(frozen=True, slots=True)
class ColumnText:
    """A column as DDL defines it. `charset`: None = the table's. `place`: the column before it,
    FIRST, or None = in order. `unique`: `PRIMARY` or `UNIQUE` if the definition itself says so."""

    column: TableColumn
    charset: str | None
    place: str | None = None
    unique: str = ""


FIRST = ""


@dataclass(frozen=True, slots=True)
class AddColumn:
    """`if_missing`: nothing happens if the column exists."""

    text: ColumnText
    if_missing: bool = False


@dataclass(frozen=True, slots=True)
class ChangeColumn:
    """CHANGE, and MODIFY, which keeps the name. `if_there`: nothing happens if the column is
    missing."""

    name: str
    text: ColumnText
    if_there: bool = False


@dataclass(frozen=True, slots=True)
class RenameColumn:
    name: str
    to: str


@dataclass(frozen=True, slots=True)
class DropColumn:
    """`if_there`: nothing happens if the column is missing."""

    name: str
    if_there: bool = False


@dataclass(frozen=True, slots=True)
class AddUnique:
    """`prefixes`: the length of each column's prefix in the key; 0 = the whole column."""

    unique: UniqueKey
    prefixes: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class AddIndex:
    """A non-unique index; `names`: the names it may have."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AddRowTimes:
    """MariaDB's WITH, or ADD, SYSTEM VERSIONING."""


@dataclass(frozen=True, slots=True)
class DropRowTimes:
    """DROP SYSTEM VERSIONING."""


@dataclass(frozen=True, slots=True)
class DropIndex:
    """Drops an index of any kind; `PRIMARY` is the primary key."""

    name: str


@dataclass(frozen=True, slots=True)
class RenameIndex:
    name: str
    to: str


@dataclass(frozen=True, slots=True)
class SetCharset:
    """Sets the character set of later columns; `converts`: existing columns are converted."""

    charset: str
    converts: bool


Action = (
    AddColumn
    | ChangeColumn
    | RenameColumn
    | DropColumn
    | AddUnique
    | AddIndex
    | AddRowTimes
    | DropRowTimes
    | DropIndex
    | RenameIndex
    | SetCharset
)
