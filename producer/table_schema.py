"""What is known of a table beside its table maps: columns, keys, character set; what DDL makes of it; its form as JSON. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column. `type` is information_schema's column_type (`int(10) unsigned`, `enum('a','b')`); `charset` is empty where it has none."""

    name: str
    type: str
    charset: str = ""
    is_nullable: bool = True

    @property
    def data_type(self) -> str:
        """The type's first word."""
        return self.type.partition("(")[0].partition(" ")[0]


@dataclass(frozen=True, slots=True)
class UniqueKey:
    """A unique index. `is_whole`: of whole columns only, no prefix and no expression."""

    name: str
    columns: tuple[str, ...]
    is_whole: bool = True


@dataclass(frozen=True, slots=True)
class TableSchema:
    """A table: its columns in order, its unique keys in the server's order, and the character set of columns that name none (empty: not
    known)."""

    columns: tuple[TableColumn, ...]
    uniques: tuple[UniqueKey, ...] = ()
    charset: str = ""

    @property
    def key(self) -> tuple[str, ...]:
        """What full row metadata would name: the primary key, else the first unique key whose columns are whole and never NULL."""
        nullable = {column.name for column in self.columns if column.is_nullable}
        return next((u.columns for u in self.uniques if u.name == PRIMARY or (u.is_whole and not nullable & set(u.columns))), ())

    def __str__(self) -> str:
        return ", ".join(f"{column.name} {column.type}" for column in self.columns)

    def to_fields(self) -> dict[str, Any]:
        """As JSON holds it."""
        return {
            "columns": [[c.name, c.type, c.charset, c.is_nullable] for c in self.columns],
            "uniques": [[u.name, list(u.columns), u.is_whole] for u in self.uniques],
            "charset": self.charset,
        }

    @classmethod
    def from_fields(cls, fields: Any) -> TableSchema:
        """Reads what `to_fields` gives. Raises KeyError, TypeError, ValueError for anything else."""
        columns = tuple(TableColumn(_text(n), _text(t), _text(c), _flag(null)) for n, t, c, null in fields["columns"])
        uniques = tuple(UniqueKey(_text(n), tuple(map(_text, columns)), _flag(whole)) for n, columns, whole in fields["uniques"])
        if not columns:
            raise ValueError("no columns")
        return cls(columns, uniques, _text(fields["charset"]))


PRIMARY = "PRIMARY"
ROW_TIMES = ("row_start", "row_end")


def with_row_times(table: TableSchema) -> TableSchema:
    """A table of MariaDB WITH SYSTEM VERSIONING that does not name the times of its rows: they are columns all the same, always the last
    ones, and the later one is in every unique key."""
    columns = (*table.columns, *(TableColumn(name, "timestamp(6)", is_nullable=False) for name in ROW_TIMES))
    uniques = tuple(replace(unique, columns=(*unique.columns, ROW_TIMES[1])) for unique in table.uniques)
    return replace(table, columns=columns, uniques=uniques)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"{value!r} is neither true nor false")
    return value


@dataclass(frozen=True, slots=True)
class ColumnText:
    """A column as DDL defines it. `charset` None: the table's. `place`: behind which column, FIRST, or None as it comes. `unique`:
    `PRIMARY` or `UNIQUE` where the definition itself says so."""

    column: TableColumn
    charset: str | None
    place: str | None = None
    unique: str = ""


FIRST = ""


@dataclass(frozen=True, slots=True)
class AddColumn:
    text: ColumnText


@dataclass(frozen=True, slots=True)
class ChangeColumn:
    """CHANGE, and MODIFY, where the name stays."""

    name: str
    text: ColumnText


@dataclass(frozen=True, slots=True)
class RenameColumn:
    name: str
    to: str


@dataclass(frozen=True, slots=True)
class DropColumn:
    name: str


@dataclass(frozen=True, slots=True)
class AddUnique:
    unique: UniqueKey


@dataclass(frozen=True, slots=True)
class DropIndex:
    """Of any kind; `PRIMARY` is the primary key."""

    name: str


@dataclass(frozen=True, slots=True)
class RenameIndex:
    name: str
    to: str


@dataclass(frozen=True, slots=True)
class SetCharset:
    """The character set of columns to come; those that are there are converted where `converts`."""

    charset: str
    converts: bool


Action = AddColumn | ChangeColumn | RenameColumn | DropColumn | AddUnique | DropIndex | RenameIndex | SetCharset


def apply(table: TableSchema, actions: Sequence[Action]) -> TableSchema | None:
    """The table after one statement's actions; None where they do not fit the table, or may mean more than one thing.

    Old names in the actions are those before the statement: two columns may exchange names. Columns are then put into their places in
    the order of the statement.
    """
    if tuple(column.name for column in table.columns[-2:]) == ROW_TIMES:
        return None  # which stay behind the columns that are added
    old = {_folded(column.name): column.name for column in table.columns}
    charset = next((action.charset for action in reversed(actions) if isinstance(action, SetCharset)), table.charset)
    converts = any(isinstance(action, SetCharset) and action.converts for action in actions)
    columns_before = _converted(table.columns, charset) if converts else table.columns
    changed: dict[str, TableColumn | None] = {}
    added: list[TableColumn] = []
    placed: list[tuple[str, str]] = []
    new_uniques: list[UniqueKey] = []
    for action in actions:
        if isinstance(action, AddColumn | ChangeColumn):
            column = _column(action.text, charset)
            if column is None:
                return None
            if action.text.unique:
                name = PRIMARY if action.text.unique == PRIMARY else column.name
                new_uniques.append(UniqueKey(name, (column.name,)))
            if action.text.place is not None:
                placed.append((column.name, action.text.place))
            if isinstance(action, AddColumn):
                added.append(column)
                continue
        elif isinstance(action, RenameColumn):
            before = next((c for c in columns_before if _folded(c.name) == _folded(action.name)), None)
            column = replace(before, name=action.to) if before else None
        elif isinstance(action, DropColumn):
            column = None
        else:
            continue
        if _folded(action.name) not in old or old[_folded(action.name)] in changed:
            return None
        changed[old[_folded(action.name)]] = column
    kept = [(column, changed.get(column.name, column)) for column in columns_before]
    columns = _placed([column for _, column in kept if column is not None] + added, placed)
    uniques = _uniques(table, {before.name: after for before, after in kept}, actions, new_uniques)
    if columns is None or uniques is None or not columns or len({_folded(column.name) for column in columns}) < len(columns):
        return None
    spelled = {_folded(column.name): column.name for column in columns}
    if any(_folded(name) not in spelled for unique in uniques for name in unique.columns if unique.is_whole):
        return None
    uniques = [replace(unique, columns=tuple(spelled.get(_folded(name), name) for name in unique.columns)) for unique in uniques]
    primary = {name for unique in uniques if unique.name == PRIMARY for name in unique.columns}
    columns = [replace(column, is_nullable=False) if column.name in primary else column for column in columns]
    nullable = {column.name for column in columns if column.is_nullable}
    uniques.sort(key=lambda unique: (unique.name != PRIMARY, bool(nullable & set(unique.columns)), not unique.is_whole))  # as servers do
    return TableSchema(tuple(columns), tuple(uniques), charset)


def leaves(actions: Sequence[Action], columns: Collection[str]) -> bool:
    """Whether actions leave columns of these names as they are, and give such a name to no other."""
    return {_folded(name) for action in actions for name in _names(action)}.isdisjoint(map(_folded, columns))


def _names(action: Action) -> tuple[str, ...]:
    """The columns that it is about."""
    if isinstance(action, AddColumn):
        return (action.text.column.name,)
    if isinstance(action, ChangeColumn):
        return action.name, action.text.column.name
    if isinstance(action, RenameColumn):
        return action.name, action.to
    return (action.name,) if isinstance(action, DropColumn) else ()


def _folded(name: str) -> str:
    """Column and index names are compared without case."""
    return name.casefold()


_CHARACTER_TYPES = {"char", "varchar", "tinytext", "text", "mediumtext", "longtext", "enum", "set"}


def _column(text: ColumnText, charset: str) -> TableColumn | None:
    if text.column.data_type not in _CHARACTER_TYPES:
        return text.column
    charset = charset if text.charset is None else text.charset
    return replace(text.column, charset=charset) if charset else None


def _converted(columns: Sequence[TableColumn], charset: str) -> tuple[TableColumn, ...]:
    return tuple(replace(c, charset=charset) if c.data_type in _CHARACTER_TYPES and c.charset != "binary" else c for c in columns)


def _placed(columns: Sequence[TableColumn], placed: Sequence[tuple[str, str]]) -> list[TableColumn] | None:
    """None when a column is to stand behind one that is only placed later: servers do not agree on what that means."""
    ordered = list(columns)
    names = [_folded(name) for name, _ in placed]
    for i, (name, after) in enumerate(placed):
        column = next(column for column in ordered if column.name == name)
        ordered.remove(column)
        if after == FIRST:
            ordered.insert(0, column)
            continue
        at = next((at for at, column in enumerate(ordered) if _folded(column.name) == _folded(after)), None)
        if at is None or _folded(after) in names[i + 1 :]:
            return None
        ordered.insert(at + 1, column)
    return ordered


def _uniques(
    table: TableSchema, columns: dict[str, TableColumn | None], actions: Sequence[Action], new: Sequence[UniqueKey]
) -> list[UniqueKey] | None:
    dropped = {_folded(action.name) for action in actions if isinstance(action, DropIndex)}
    renamed = {_folded(action.name): action.to for action in actions if isinstance(action, RenameIndex)}
    uniques = []
    for unique in table.uniques:
        if _folded(unique.name) in dropped:
            continue
        after = [columns.get(name) for name in unique.columns]
        gone = [name in columns and columns[name] is None for name in unique.columns]
        if any(gone):
            if all(gone):
                continue
            return None  # what is left of the key is for the server to say
        names = tuple(column.name if column else name for column, name in zip(after, unique.columns, strict=True))
        uniques.append(replace(unique, name=renamed.get(_folded(unique.name), unique.name), columns=names))
    uniques += [*(action.unique for action in actions if isinstance(action, AddUnique)), *new]
    if len({_folded(unique.name) for unique in uniques}) < len(uniques):
        return None
    return uniques
