"""Applies the actions of a statement to a table's unique keys and their order. Pure.

The order matters: without a primary key, the server's first unique key without nullable columns
takes its place.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from cdcbus.plugins.mysql.sql_types import GEOMETRIES
from cdcbus.producer.ddl.table_schema import (
    PRIMARY,
    Action,
    AddColumn,
    AddIndex,
    AddUnique,
    ChangeColumn,
    DropIndex,
    RenameIndex,
    TableColumn,
    TableSchema,
    UniqueKey,
    by_folded_name,
    character_bytes,
    folded_name,
)

_KEY_PARTS = {"char", "varchar", "binary", "varbinary"}
_KEY_BYTES = 990  # fit in a key of any engine


class Unclear(Exception):
    """The actions do not fit the table, or are ambiguous."""


@dataclass(frozen=True, slots=True)
class ColumnFates:
    """The columns before and after a statement. `after`: each earlier column's name -> the column
    after the statement, None if dropped; `now`: all columns after it, by their folded names."""

    after: Mapping[str, TableColumn | None]
    now: Mapping[str, TableColumn]

    def is_dropped(self, name: str) -> bool:
        return name in self.after and self.after[name] is None

    def name_after(self, name: str) -> str:
        """A column's name after the statement."""
        column = self.after.get(name)
        if column is None:
            return name
        return column.name


def altered_keys(
    table: TableSchema, actions: Sequence[Action], fates: ColumnFates
) -> list[UniqueKey]:
    """The keys after the actions, the new ones last. Raises Unclear."""
    uniques = _kept_keys(table, actions, fates)
    for action in actions:
        if (added := _added_key(action)) is not None:
            unique = _sized(added, fates.now)
            if not table.columns:
                unique = _named(unique, actions)
            uniques.append(unique)
    given = [unique.name for unique in uniques if unique.name]
    if len(set(map(folded_name, given))) < len(given):
        raise Unclear
    return [_spelled(unique, fates.now) for unique in uniques]


def _kept_keys(
    table: TableSchema, actions: Sequence[Action], fates: ColumnFates
) -> list[UniqueKey]:
    dropped: set[str] = set()
    changed: set[str] = set()
    renamed: dict[str, str] = {}
    for action in actions:
        if isinstance(action, DropIndex):
            dropped.add(folded_name(action.name))
        elif isinstance(action, ChangeColumn):
            changed.add(folded_name(action.name))
        elif isinstance(action, RenameIndex):
            renamed[folded_name(action.name)] = action.to
    before = table.by_name
    kept = []
    for unique in table.uniques:
        if not unique.name and _may_be_named(unique, dropped | renamed.keys()):
            raise Unclear
        if unique.name and folded_name(unique.name) in dropped:
            continue
        for name in unique.columns:
            if folded_name(name) in changed:
                _check_changed(unique, before[name], fates.after[name])
        are_dropped = list(map(fates.is_dropped, unique.columns))
        if are_dropped and all(are_dropped):
            continue
        if any(are_dropped):
            raise Unclear  # only the server knows what is left of the key
        name = renamed.get(folded_name(unique.name), unique.name)
        columns = tuple(map(fates.name_after, unique.columns))
        kept.append(replace(unique, name=name, columns=columns))
    return kept


def _check_changed(unique: UniqueKey, before: TableColumn, after: TableColumn | None) -> None:
    """Raises Unclear if the change of a column may change the key that has it."""
    if not unique.is_whole or unique.is_hashed:
        raise Unclear  # the prefix may now cover the whole column, or an index hold it
    if _is_long(before) or (after is not None and _is_long(after)):
        raise Unclear  # MariaDB indexes a hash of it


def _added_key(action: Action) -> AddUnique | None:
    """The key that an action adds, on its own or in a column's definition."""
    if isinstance(action, AddUnique):
        return action
    if isinstance(action, AddColumn | ChangeColumn) and action.text.unique:
        # The server chooses the name of any other key.
        name = ""
        if action.text.unique == PRIMARY:
            name = PRIMARY
        return AddUnique(UniqueKey(name, (action.text.column.name,)), (0,))
    return None


def _named(unique: UniqueKey, actions: Sequence[Action]) -> UniqueKey:
    """Names a key of a new table: without a name it gets its first column's, unless that is
    taken."""
    if unique.name or not unique.columns:
        return unique
    taken: list[str] = []
    for action in actions:
        taken += map(folded_name, _index_names(action))
    if taken.count(folded_name(unique.columns[0])) > 1:
        return unique
    return replace(unique, name=unique.columns[0])


def _index_names(action: Action) -> tuple[str, ...]:
    """The names that an action may give to an index."""
    if isinstance(action, AddIndex):
        return action.names
    if isinstance(action, AddUnique):
        return (action.unique.name or "".join(action.unique.columns[:1]),)
    if isinstance(action, AddColumn | ChangeColumn) and action.text.unique:
        return (action.text.column.name,)
    return ()


def _may_be_named(unique: UniqueKey, names: Collection[str]) -> bool:
    """Whether a server may have given the key one of these names."""
    if not unique.columns:
        return bool(names)
    own = (folded_name(unique.columns[0]), "functional_index")
    return any(name.startswith(own) for name in names)


def _spelled(unique: UniqueKey, now: Mapping[str, TableColumn]) -> UniqueKey:
    """The key with its columns' names as spelled in the table. Raises Unclear if one is missing."""
    names = []
    for name in unique.columns:
        column = now.get(folded_name(name))
        if column is None:
            raise Unclear
        names.append(column.name)
    return replace(unique, columns=tuple(names))


def _sized(action: AddUnique, columns: Mapping[str, TableColumn]) -> UniqueKey:
    """The key with `is_whole` according to the columns' sizes. Raises Unclear if they are
    unknown."""
    unique = action.unique
    for name, prefix in zip(unique.columns, action.prefixes, strict=True):
        column = columns.get(folded_name(name))
        if column is None:
            raise Unclear
        if not prefix:
            if _is_long(column):
                raise Unclear  # MariaDB indexes a hash of it
            continue
        if column.data_type in _KEY_PARTS:
            if prefix < (column.size or 1):
                unique = replace(unique, is_whole=False)
        elif _is_text(column):
            unique = replace(unique, is_whole=False)
        else:
            raise Unclear
    return unique


def ordered_keys(
    table: TableSchema,
    uniques: Sequence[UniqueKey],
    columns: Sequence[TableColumn],
    actions: Sequence[Action],
) -> list[UniqueKey]:
    """The keys in the server's order, as far as it matters: a primary key is the table's key,
    whatever follows it. Raises Unclear if the server's order is not known."""
    if _has_primary(uniques):
        return _sorted(uniques, columns)
    if _has_primary(table.uniques):
        if len(uniques) > 1:
            raise Unclear
        return list(uniques)
    is_sorted = list(table.uniques) == _sorted(table.uniques, table.columns)
    if not _are_rekeyed(table, actions):
        # a new index may make the server sort all keys
        if not is_sorted and any(isinstance(action, AddIndex) for action in actions):
            raise Unclear
        return list(uniques)
    if len(uniques) > 1:
        _check_sortable(uniques, columns, is_sorted=is_sorted)
    _check_not_again(table, uniques, actions)
    ordered = _sorted(uniques, columns)
    # MySQL moves a key forward when its columns become NOT NULL, MariaDB leaves it in its place.
    if ordered != list(uniques) and not any(map(_changes_keys, actions)):
        raise Unclear
    return ordered


def _are_rekeyed(table: TableSchema, actions: Sequence[Action]) -> bool:
    keyed: set[str] = set()
    for unique in table.uniques:
        keyed.update(map(folded_name, unique.columns))
    return any(is_rekeyed(action, keyed) for action in actions)


def _check_sortable(
    uniques: Sequence[UniqueKey], columns: Sequence[TableColumn], *, is_sorted: bool
) -> None:
    """Raises Unclear if servers differ in how they sort these keys."""
    now = by_folded_name(columns)
    if not is_sorted or any(_is_odd(unique, now) for unique in uniques):
        raise Unclear


def _check_not_again(
    table: TableSchema, uniques: Sequence[UniqueKey], actions: Sequence[Action]
) -> None:
    """Raises Unclear if a key is dropped and added again: it may keep its place."""
    added = [action.unique.columns for action in actions if isinstance(action, AddUnique)]
    for unique in table.uniques:
        # Still among `uniques`: it was not dropped.
        if unique.columns in added and unique not in uniques:
            raise Unclear


def _has_primary(uniques: Sequence[UniqueKey]) -> bool:
    return any(unique.name == PRIMARY for unique in uniques)


def _changes_keys(action: Action) -> bool:
    return isinstance(action, AddUnique | AddIndex | DropIndex) or _makes_key(action)


def is_rekeyed(action: Action, keyed: Collection[str] = ()) -> bool:
    """Whether an action may change the keys or their order. `keyed`: the columns that are in a
    key."""
    if isinstance(action, ChangeColumn) and folded_name(action.name) in keyed:
        return True
    return isinstance(action, AddUnique | DropIndex) or _makes_key(action)


def _makes_key(action: Action) -> bool:
    """Whether a column's own definition makes a key of it."""
    return isinstance(action, AddColumn | ChangeColumn) and bool(action.text.unique)


def _sorted(uniques: Sequence[UniqueKey], columns: Sequence[TableColumn]) -> list[UniqueKey]:
    """The keys as servers sort them; MariaDB puts those last that it indexes by a hash."""
    nullable = {column.name for column in columns if column.is_nullable}
    long = {column.name for column in columns if _is_long(column)}

    def place(unique: UniqueKey) -> tuple[bool, bool, bool, bool]:
        is_hashed = unique.is_whole and bool(long & set(unique.columns))
        is_nullable = bool(nullable & set(unique.columns))
        return unique.name != PRIMARY, is_hashed, is_nullable, not unique.is_whole

    return sorted(uniques, key=place)


def _is_odd(unique: UniqueKey, columns: Mapping[str, TableColumn]) -> bool:
    """Whether the key has geometries, or is so wide that the table's engine decides whether MariaDB
    indexes a hash of it."""
    parts = [columns[folded_name(name)] for name in unique.columns]
    if any(column.data_type in GEOMETRIES for column in parts):
        return True
    is_hashed = unique.is_whole and any(map(_is_long, parts))
    return not is_hashed and sum(map(_key_bytes, parts)) > _KEY_BYTES


def _key_bytes(column: TableColumn) -> int:
    if column.data_type not in _KEY_PARTS:
        return 0
    return column.size * character_bytes(column.charset)


def _is_text(column: TableColumn) -> bool:
    return column.data_type.endswith(("text", "blob"))


def _is_long(column: TableColumn) -> bool:
    return _is_text(column) or column.data_type in (*GEOMETRIES, "json", "vector")
