"""What is known of a table beside its table maps: columns, keys, character set; what DDL makes
of it; its form as JSON. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from cdcbus.producer.decoding.charsets import BYTES_PER_CHARACTER, stored


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column. `type` is information_schema's column_type (`int(10) unsigned`,
    `enum('a','b')`); `charset` is empty where it has none."""

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
    """A unique index. `name` is empty where the server chose it. `is_whole`: of whole columns
    only, no prefix and no expression."""

    name: str
    columns: tuple[str, ...]
    is_whole: bool = True


@dataclass(frozen=True, slots=True)
class TableSchema:
    """A table: its columns in order, its unique keys in the server's order, and the character
    set of columns that name none (empty: not known). `times`: whether the times of its rows are
    columns that it does not name (`HIDDEN`), or does (`NAMED`), in MariaDB, which adds the later
    one to every unique key."""

    columns: tuple[TableColumn, ...]
    uniques: tuple[UniqueKey, ...] = ()
    charset: str = ""
    times: str = ""

    @property
    def key(self) -> tuple[str, ...]:
        """What full row metadata would name: the primary key, else the first unique key whose
        columns are whole and never NULL."""
        nullable = {column.name for column in self.columns if column.is_nullable}
        return next(
            (
                u.columns
                for u in self.uniques
                if u.name == PRIMARY or (u.is_whole and not nullable & set(u.columns))
            ),
            (),
        )

    def __str__(self) -> str:
        return ", ".join(f"{column.name} {column.type}" for column in self.columns)

    def to_fields(self) -> dict[str, Any]:
        """As JSON holds it."""
        return {
            "columns": [[c.name, c.type, c.charset, c.is_nullable] for c in self.columns],
            "uniques": [[u.name, list(u.columns), u.is_whole] for u in self.uniques],
            "charset": self.charset,
            **({"times": self.times} if self.times else {}),
        }

    @classmethod
    def from_fields(cls, fields: Any) -> TableSchema:
        """Reads what `to_fields` gives. Raises KeyError, TypeError, ValueError for anything
        else."""
        columns = tuple(
            TableColumn(_text(n), _text(t), _text(c), _flag(null))
            for n, t, c, null in fields["columns"]
        )
        uniques = tuple(
            UniqueKey(_text(n), tuple(map(_text, columns)), _flag(whole))
            for n, columns, whole in fields["uniques"]
        )
        if not columns:
            raise ValueError("no columns")
        return cls(columns, uniques, _text(fields["charset"]), _text(fields.get("times", "")))


PRIMARY = "PRIMARY"
GEOMETRIES = (
    *(
        "geometry",
        "point",
        "linestring",
        "polygon",
        "multipoint",
        "multilinestring",
        "multipolygon",
    ),
    *("geomcollection", "geometrycollection"),
)
ROW_TIMES = ("row_start", "row_end")
HIDDEN, NAMED = "hidden", "named"
# All columns of a SEQUENCE, which has no key.
SEQUENCE_COLUMNS = (
    *("next_not_cached_value", "minimum_value", "maximum_value", "start_value"),
    *("increment", "cache_size", "cycle_option", "cycle_count"),
)


def with_row_times(table: TableSchema) -> TableSchema:
    """A table of MariaDB WITH SYSTEM VERSIONING that does not name the times of its rows: they
    are columns all the same, always the last ones, and the later one is in every unique key."""
    columns = (
        *table.columns,
        *(TableColumn(name, "timestamp(6)", is_nullable=False) for name in ROW_TIMES),
    )
    uniques = tuple(
        replace(unique, columns=(*unique.columns, ROW_TIMES[1])) for unique in table.uniques
    )
    return replace(table, columns=columns, uniques=uniques, times=HIDDEN)


def _without_row_times(table: TableSchema) -> TableSchema:
    uniques = tuple(replace(unique, columns=unique.columns[:-1]) for unique in table.uniques)
    return replace(table, columns=table.columns[: -len(ROW_TIMES)], uniques=uniques, times="")


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
    """A column as DDL defines it. `charset` None: the table's. `place`: behind which column,
    FIRST, or None as it comes. `unique`: `PRIMARY` or `UNIQUE` where the definition itself says
    so."""

    column: TableColumn
    charset: str | None
    place: str | None = None
    unique: str = ""


FIRST = ""


@dataclass(frozen=True, slots=True)
class AddColumn:
    """`if_missing`: nothing happens when it is there."""

    text: ColumnText
    if_missing: bool = False


@dataclass(frozen=True, slots=True)
class ChangeColumn:
    """CHANGE, and MODIFY, where the name stays. `if_there`: nothing happens when it is not."""

    name: str
    text: ColumnText
    if_there: bool = False


@dataclass(frozen=True, slots=True)
class RenameColumn:
    name: str
    to: str


@dataclass(frozen=True, slots=True)
class DropColumn:
    """`if_there`: nothing happens when it is not."""

    name: str
    if_there: bool = False


@dataclass(frozen=True, slots=True)
class AddUnique:
    """`prefixes`: how much of each column is in it; 0: all."""

    unique: UniqueKey
    prefixes: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class AddIndex:
    """One that is not unique; `names` are those that it may have."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AddRowTimes:
    """MariaDB's WITH, or ADD, SYSTEM VERSIONING."""


@dataclass(frozen=True, slots=True)
class DropRowTimes:
    """DROP SYSTEM VERSIONING."""


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


def apply(table: TableSchema, actions: Sequence[Action]) -> TableSchema | None:
    """The table after one statement's actions; None where they do not fit the table, or may mean
    more than one thing.

    Old names in the actions are those before the statement: two columns may exchange names. Columns
    are then put into their places in the order of the statement.
    """
    if table.times == HIDDEN:  # they stay behind the columns that are added
        rest = [action for action in actions if not isinstance(action, AddRowTimes | DropRowTimes)]
        made = apply(_without_row_times(table), rest) if leaves(rest, ROW_TIMES) else None
        return made if made is None or DropRowTimes() in actions else with_row_times(made)
    old = {_folded(column.name): column.name for column in table.columns}
    if DropRowTimes() in actions or (
        table.times and any(_is_rekeyed(action, old) for action in actions)
    ):
        return None
    if not table.times and tuple(column.name for column in table.columns[-2:]) == ROW_TIMES:
        return None  # stored by a release that did not tell whose columns they are
    chosen = _chosen(actions, old)
    charset = _charset(actions, table.charset)
    if chosen is None or charset is None:
        return None
    columns_before: Sequence[TableColumn] = table.columns
    if any(isinstance(action, SetCharset) and action.converts for action in chosen):
        converted = _converted(table.columns, charset)
        texts = [action.text for action in chosen if isinstance(action, AddColumn | ChangeColumn)]
        if converted is None or any(
            text.charset not in (None, charset) or text.column.data_type in _TEXTS for text in texts
        ):
            # MariaDB converts what is named in the same statement, MySQL does not, or makes it
            # smaller
            return None
        columns_before = converted
    changed: dict[str, TableColumn | None] = {}
    added: list[TableColumn] = []
    placed: list[tuple[str, str]] = []
    for action in chosen:
        if isinstance(action, AddColumn | ChangeColumn):
            column = _column(action.text, charset)
            if column is None:
                return None
            if action.text.place is not None:
                placed.append((column.name, action.text.place))
            if isinstance(action, AddColumn):
                added.append(column)
                continue
        elif isinstance(action, RenameColumn):
            before = next(
                (c for c in columns_before if _folded(c.name) == _folded(action.name)), None
            )
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
    if (
        columns is None
        or not columns
        or len({_folded(column.name) for column in columns}) < len(columns)
    ):
        return None
    spelled = {_folded(column.name): column for column in columns}
    uniques = _uniques(table, {before.name: after for before, after in kept}, chosen, spelled)
    if uniques is None or any(
        _folded(name) not in spelled for unique in uniques for name in unique.columns
    ):
        return None
    uniques = [
        replace(unique, columns=tuple(spelled[_folded(name)].name for name in unique.columns))
        for unique in uniques
    ]
    primary = {name for unique in uniques if unique.name == PRIMARY for name in unique.columns}
    columns = [
        replace(column, is_nullable=False) if column.name in primary else column
        for column in columns
    ]
    ordered = _ordered(table, uniques, columns, chosen, spelled)
    if ordered is None:
        return None
    result = TableSchema(tuple(columns), tuple(ordered), charset, table.times)
    return with_row_times(result) if AddRowTimes() in chosen else result


def _ordered(
    table: TableSchema,
    uniques: Sequence[UniqueKey],
    columns: Sequence[TableColumn],
    actions: Sequence[Action],
    spelled: Mapping[str, TableColumn],
) -> list[UniqueKey] | None:
    """The keys in the server's order, as far as it matters: a primary key is the table's,
    whatever is behind it. None where the server's order is not known."""
    if any(unique.name == PRIMARY for unique in uniques):
        return _sorted(uniques, columns)
    if any(unique.name == PRIMARY for unique in table.uniques):
        return list(uniques) if len(uniques) < 2 else None
    is_sorted = list(table.uniques) == _sorted(table.uniques, table.columns)
    keyed = {_folded(name) for unique in table.uniques for name in unique.columns}
    if not any(_is_rekeyed(action, keyed) for action in actions):
        return (
            None
            if not is_sorted and any(isinstance(action, AddIndex) for action in actions)
            else list(uniques)
        )
    if len(uniques) > 1 and (not is_sorted or any(_is_odd(unique, spelled) for unique in uniques)):
        return None
    added = [action.unique.columns for action in actions if isinstance(action, AddUnique)]
    if any(unique.columns in added and unique not in uniques for unique in table.uniques):
        return None  # the same key again may keep its place
    ordered = _sorted(uniques, columns)
    changes_keys = any(
        isinstance(action, AddUnique | AddIndex | DropIndex) or _unique_of(action)
        for action in actions
    )
    # MySQL puts a key forward that is never NULL from now on, MariaDB leaves it where it is.
    return None if not changes_keys and ordered != list(uniques) else ordered


def _chosen(actions: Sequence[Action], old: Collection[str]) -> list[Action] | None:
    """Without those that do nothing, as a column is there, or is not; None where other actions
    are about it, too."""
    conditional = [
        a
        for a in actions
        if isinstance(a, AddColumn | ChangeColumn | DropColumn) and _is_conditional(a)
    ]
    names = [_folded(name) for action in actions for name in set(map(_folded, _names(action)))]
    if any(
        isinstance(a, AddColumn) and a.text.unique and _folded(a.text.column.name) in old
        for a in conditional
    ):
        return None  # the key is made all the same
    if any(names.count(_folded(name)) > 1 for action in conditional for name in _names(action)):
        return None
    return [
        action
        for action in actions
        if not (
            isinstance(action, AddColumn)
            and action.if_missing
            and _folded(action.text.column.name) in old
        )
        and not (
            isinstance(action, ChangeColumn | DropColumn)
            and action.if_there
            and _folded(action.name) not in old
        )
    ]


def _is_rekeyed(action: Action, keyed: Collection[str] = ()) -> bool:
    """Whether the keys may be others after it, or in another order. `keyed`: the columns that
    are in one."""
    is_changed = isinstance(action, ChangeColumn) and _folded(action.name) in keyed
    return isinstance(action, AddUnique | DropIndex) or is_changed or bool(_unique_of(action))


def _unique_of(action: Action) -> str:
    """The key that a column's own definition makes of it."""
    return action.text.unique if isinstance(action, AddColumn | ChangeColumn) else ""


def _sorted(uniques: Sequence[UniqueKey], columns: Sequence[TableColumn]) -> list[UniqueKey]:
    """As servers do; MariaDB puts those last of which it keeps a hash."""
    nullable = {column.name for column in columns if column.is_nullable}
    long = {column.name for column in columns if _is_long(column)}

    def place(unique: UniqueKey) -> tuple[bool, bool, bool, bool]:
        is_hashed = unique.is_whole and bool(long & set(unique.columns))
        return (
            unique.name != PRIMARY,
            is_hashed,
            bool(nullable & set(unique.columns)),
            not unique.is_whole,
        )

    return sorted(uniques, key=place)


def _is_conditional(action: AddColumn | ChangeColumn | DropColumn) -> bool:
    return action.if_missing if isinstance(action, AddColumn) else action.if_there


def _charset(actions: Sequence[Action], charset: str) -> str | None:
    """Of columns to come; None where the actions name several."""
    named = {action.charset for action in actions if isinstance(action, SetCharset)}
    return None if len(named) > 1 else next(iter(named), charset)


def leaves(actions: Sequence[Action], columns: Collection[str]) -> bool:
    """Whether actions leave columns of these names as they are, and give such a name to no
    other."""
    return {_folded(name) for action in actions for name in _names(action)}.isdisjoint(
        map(_folded, columns)
    )


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


# bytes
_TEXTS = {"tinytext": 2**8 - 1, "text": 2**16 - 1, "mediumtext": 2**24 - 1, "longtext": 2**32 - 1}
_BINARY_TYPES = {"char": "binary", "varchar": "varbinary"} | {
    text: text.replace("text", "blob") for text in _TEXTS
}


def _column(text: ColumnText, charset: str) -> TableColumn | None:
    """As the server makes it, by the character set that it is to have; None where that is not
    known."""
    column = text.column
    size = (
        int(column.type.partition("(")[2].rstrip(")"))
        if column.data_type in _SIZED and "(" in column.type
        else 0
    )
    if column.data_type not in _CHARACTER_TYPES:
        if column.data_type == "blob" and size:
            return replace(column, type=_text_of(size).replace("text", "blob"))
        return None if column.data_type == "varbinary" and size > 65_535 else column
    charset = charset if text.charset is None else text.charset
    if not charset:
        return None
    column = replace(column, charset=charset)
    if column.data_type in ("enum", "set"):
        labels = stored(charset, column.type)
        return None if labels is None else replace(column, type=labels)
    if (column.data_type == "char" and size > 255) or (
        column.data_type == "varchar" and size * _width(charset) > 65_535
    ):
        return None  # which some servers refuse, and some make a TEXT
    if column.data_type == "text" and size:
        column = replace(column, type=_text_of(size * _width(charset)))
    if charset == "binary":
        return replace(
            column,
            type=_BINARY_TYPES[column.data_type] + column.type.removeprefix(column.data_type),
            charset="",
        )
    return column


_WIDE = {"ucs2", "utf16", "utf16le", "utf32"}
_SIZED = {"char", "varchar", "text", "blob", "varbinary"}


def _width(charset: str) -> int:
    return BYTES_PER_CHARACTER.get(charset, 1)


def _text_of(size: int) -> str:
    """The smallest type that holds so many bytes."""
    return next((text for text, limit in _TEXTS.items() if size <= limit), "longtext")


def _converted(columns: Sequence[TableColumn], charset: str) -> tuple[TableColumn, ...] | None:
    """None where the text does not tell to what."""
    if charset == "binary":
        return None
    found = []
    for column in columns:
        if column.data_type in _CHARACTER_TYPES and column.charset not in ("", "binary"):
            after = replace(column, charset=charset)
            if column.data_type in _TEXTS and _width(charset) > _width(column.charset):
                characters = _TEXTS[column.data_type] // _width(column.charset)
                after = replace(after, type=_text_of(characters * _width(charset)))
            elif not column.type.isascii() or (
                column.data_type in ("enum", "set") and column.charset in _WIDE
            ):
                # both servers take the bytes of labels for text of the other character set
                return None
            column = after
        found.append(column)
    return tuple(found)


def _placed(
    columns: Sequence[TableColumn], placed: Sequence[tuple[str, str]]
) -> list[TableColumn] | None:
    """None when a column is to stand behind one that is only placed later: servers do not agree
    on what that means."""
    ordered = list(columns)
    names = [_folded(name) for name, _ in placed]
    for i, (name, after) in enumerate(placed):
        column = next(column for column in ordered if column.name == name)
        ordered.remove(column)
        if after == FIRST:
            ordered.insert(0, column)
            continue
        at = next(
            (at for at, column in enumerate(ordered) if _folded(column.name) == _folded(after)),
            None,
        )
        if at is None or _folded(after) in names[i + 1 :]:
            return None
        ordered.insert(at + 1, column)
    return ordered


def _uniques(
    table: TableSchema,
    columns: dict[str, TableColumn | None],
    actions: Sequence[Action],
    spelled: Mapping[str, TableColumn],
) -> list[UniqueKey] | None:
    """`columns`: those that were there, and what became of them; `spelled`: those that are there
    now."""
    dropped = {_folded(action.name) for action in actions if isinstance(action, DropIndex)}
    renamed = {
        _folded(action.name): action.to for action in actions if isinstance(action, RenameIndex)
    }
    changed = {_folded(action.name) for action in actions if isinstance(action, ChangeColumn)}
    before = {column.name: column for column in table.columns}
    uniques = []
    for unique in table.uniques:
        if not unique.name and any(
            _may_be_named(unique, name) for name in dropped | renamed.keys()
        ):
            return None
        if unique.name and _folded(unique.name) in dropped:
            continue
        touched = [name for name in unique.columns if _folded(name) in changed]
        if touched and not unique.is_whole:
            return None  # a part may have become all
        if any(
            _is_long(column)
            for name in touched
            for column in (before[name], columns[name])
            if column
        ):
            return None  # MariaDB keeps a hash of it
        after = [columns.get(name) for name in unique.columns]
        gone = [name in columns and columns[name] is None for name in unique.columns]
        if any(gone):
            if all(gone):
                continue
            return None  # what is left of the key is for the server to say
        names = tuple(
            column.name if column else name
            for column, name in zip(after, unique.columns, strict=True)
        )
        uniques.append(
            replace(unique, name=renamed.get(_folded(unique.name), unique.name), columns=names)
        )
    taken = [_folded(name) for action in actions for name in _index_names(action)]
    for action in actions:
        if isinstance(action, AddColumn | ChangeColumn) and action.text.unique:
            action = AddUnique(
                UniqueKey(
                    PRIMARY if action.text.unique == PRIMARY else "", (action.text.column.name,)
                ),
                (0,),
            )
        if isinstance(action, AddUnique):
            added = _sized(action, spelled)
            if added is None:
                return None
            if (
                not added.name
                and not table.columns
                and added.columns
                and taken.count(_folded(added.columns[0])) == 1
            ):
                added = replace(added, name=added.columns[0])
            uniques.append(added)
    given = [_folded(unique.name) for unique in uniques if unique.name]
    return uniques if len(set(given)) == len(given) else None


def _may_be_named(unique: UniqueKey, name: str) -> bool:
    """Whether a server may have given it this name."""
    return not unique.columns or name.startswith((_folded(unique.columns[0]), "functional_index"))


def _index_names(action: Action) -> tuple[str, ...]:
    """Those that it may give to an index."""
    if isinstance(action, AddIndex):
        return action.names
    if isinstance(action, AddUnique):
        return (action.unique.name or "".join(action.unique.columns[:1]),)
    if isinstance(action, AddColumn | ChangeColumn) and action.text.unique:
        return (action.text.column.name,)
    return ()


def _sized(action: AddUnique, columns: Mapping[str, TableColumn]) -> UniqueKey | None:
    """With `is_whole` as the columns' sizes have it; None where that cannot be known."""
    unique = action.unique
    for name, prefix in zip(unique.columns, action.prefixes, strict=True):
        column = columns.get(_folded(name))
        if column is None:
            return None
        is_sized = column.data_type in _KEY_PARTS
        if _is_long(column) if not prefix else not (is_sized or _is_text(column)):
            return None  # MariaDB keeps a hash of what is long
        size = column.type.partition("(")[2].rstrip(")") or "1"
        if prefix and (not is_sized or prefix < int(size)):
            unique = replace(unique, is_whole=False)
    return unique


_KEY_PARTS = {"char", "varchar", "binary", "varbinary"}


_KEY_BYTES = 990  # hold in a key of any engine


def _is_odd(unique: UniqueKey, columns: Mapping[str, TableColumn]) -> bool:
    """Whether it is of shapes, or so wide that MariaDB keeps a hash of it or not, by the table's
    engine."""
    parts = [columns[_folded(name)] for name in unique.columns]
    is_hashed = unique.is_whole and any(_is_long(column) for column in parts)
    return any(column.data_type in GEOMETRIES for column in parts) or (
        not is_hashed and sum(map(_bytes, parts)) > _KEY_BYTES
    )


def _bytes(column: TableColumn) -> int:
    size = column.type.partition("(")[2].rstrip(")")
    return int(size) * _width(column.charset) if column.data_type in _KEY_PARTS and size else 0


def _is_text(column: TableColumn) -> bool:
    return column.data_type.endswith(("text", "blob"))


def _is_long(column: TableColumn) -> bool:
    return (
        _is_text(column) or column.data_type in GEOMETRIES or column.data_type in ("json", "vector")
    )
