"""The changes of DDL statements to tables, as values. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace

from cdcbus.plugins.rowchange import TableId
from cdcbus.producer.ddl.table_schema import Action


@dataclass(frozen=True, slots=True)
class Altered:
    """`actions` is None if the text is not understood."""

    table: TableId
    actions: tuple[Action, ...] | None


@dataclass(frozen=True, slots=True)
class Created:
    """`actions` create the table from nothing; None if they are not understood. `like`: the table
    is a copy of that one. `if_missing`: nothing happens if it already exists."""

    table: TableId
    actions: tuple[Action, ...] | None = None
    like: TableId | None = None
    if_missing: bool = False
    is_temporary: bool = False


@dataclass(frozen=True, slots=True)
class Dropped:
    table: TableId
    is_temporary: bool = False


@dataclass(frozen=True, slots=True)
class Renamed:
    table: TableId
    to: TableId


@dataclass(frozen=True, slots=True)
class SchemaDropped:
    """A schema with all its tables."""

    schema: str


@dataclass(frozen=True, slots=True)
class SchemaAltered:
    """A change of the defaults that a schema's later tables inherit."""

    schema: str


@dataclass(frozen=True, slots=True)
class Unread:
    """A statement that may change any table it names. `words`: all its words, None if not even
    these are known."""

    words: frozenset[str] | None


Change = Altered | Created | Dropped | Renamed | SchemaDropped | SchemaAltered | Unread


def folded(change: Change) -> Change:
    """The change with table names in lower case, for servers that ignore their case."""
    if isinstance(change, Renamed):
        return Renamed(lower_case(change.table), lower_case(change.to))
    if isinstance(change, Created):
        like = change.like and lower_case(change.like)
        return replace(change, table=lower_case(change.table), like=like)
    if isinstance(change, Altered | Dropped):
        return replace(change, table=lower_case(change.table))
    if isinstance(change, Unread):
        return Unread(change.words and frozenset(map(str.lower, change.words)))
    return replace(change, schema=change.schema.lower())


def lower_case(table: TableId) -> TableId:
    """The table's name as a server compares it that ignores the case of names."""
    return TableId(table.schema.lower(), table.table.lower())
