"""What the actions of a statement make of a table. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

from cdcbus.producer.ddl.key_alteration import (
    ColumnFates,
    Unclear,
    altered_keys,
    is_rekeyed,
    ordered_keys,
)
from cdcbus.producer.ddl.table_schema import (
    FIRST,
    HIDDEN,
    PRIMARY,
    ROW_TIMES,
    Action,
    AddColumn,
    AddRowTimes,
    ChangeColumn,
    ColumnText,
    DropColumn,
    DropRowTimes,
    RenameColumn,
    SetCharset,
    TableColumn,
    TableSchema,
    UniqueKey,
    character_bytes,
    folded_name,
    with_row_times,
    without_row_times,
)
from cdcbus.producer.decoding.charsets import stored

# By type: the bytes it holds.
_TEXTS = {"tinytext": 2**8 - 1, "text": 2**16 - 1, "mediumtext": 2**24 - 1, "longtext": 2**32 - 1}
_LABELED = ("enum", "set")
_CHARACTER_TYPES = {"char", "varchar", *_TEXTS, *_LABELED}
# What a text of the character set `binary` is.
_BINARY_TYPES = {
    "char": "binary",
    "varchar": "varbinary",
    "tinytext": "tinyblob",
    "text": "blob",
    "mediumtext": "mediumblob",
    "longtext": "longblob",
}
_WIDE = {"ucs2", "utf16", "utf16le", "utf32"}
_MAX_CHARACTERS = 255  # of a CHAR
_MAX_BYTES = 65_535  # of a VARCHAR


def apply(table: TableSchema, actions: Sequence[Action]) -> TableSchema | None:
    """The table after one statement's actions; None where they do not fit the table, or may mean
    more than one thing.

    Old names in the actions are those before the statement: two columns may exchange names. Columns
    are then put into their places in the order of the statement.
    """
    try:
        if table.times == HIDDEN:
            return _applied_before_times(table, actions)
        return _applied(table, actions)
    except Unclear:
        return None


def _applied_before_times(table: TableSchema, actions: Sequence[Action]) -> TableSchema:
    """The hidden times of rows stay behind the columns that are added."""
    rest = [action for action in actions if not isinstance(action, AddRowTimes | DropRowTimes)]
    if not leaves(rest, ROW_TIMES):
        raise Unclear
    altered = _applied(without_row_times(table), rest)
    return altered if DropRowTimes() in actions else with_row_times(altered)


def _applied(table: TableSchema, actions: Sequence[Action]) -> TableSchema:
    """Without hidden times of rows."""
    old = {folded_name(column.name) for column in table.columns}
    if DropRowTimes() in actions:
        raise Unclear
    if table.times and any(is_rekeyed(action, old) for action in actions):
        raise Unclear
    if not table.times and tuple(column.name for column in table.columns[-2:]) == ROW_TIMES:
        raise Unclear  # stored by a release that did not say whose columns they are
    actions = _effective(actions, old)
    charset = _charset(actions, table.charset)

    before = table.columns
    if any(isinstance(action, SetCharset) and action.converts for action in actions):
        before = _converted(before, actions, charset)
    changes = _column_changes(before, actions, charset)
    after = {column.name: changes.changed.get(column.name, column) for column in before}
    kept = [column for column in after.values() if column is not None]
    columns = _placed(kept + changes.added, changes.placed)
    now = {folded_name(column.name): column for column in columns}
    if not columns or len(now) < len(columns):
        raise Unclear

    uniques = altered_keys(table, actions, ColumnFates(after, now))
    columns = _never_null(columns, uniques)
    ordered = ordered_keys(table, uniques, columns, actions)
    result = TableSchema(tuple(columns), tuple(ordered), charset, table.times)
    return with_row_times(result) if AddRowTimes() in actions else result


def _effective(actions: Sequence[Action], old: Collection[str]) -> list[Action]:
    """Without the actions that do nothing, as a column exists, or does not. Raises Unclear where
    other actions are about it, too."""
    names: list[str] = []
    for action in actions:
        names += {folded_name(name) for name in _names(action)}
    found = []
    for action in actions:
        if _is_conditional(action):
            if any(names.count(folded_name(name)) > 1 for name in _names(action)):
                raise Unclear
            if _does_nothing(action, old):
                continue
        found.append(action)
    return found


def _is_conditional(action: Action) -> bool:
    """IF EXISTS and IF NOT EXISTS."""
    if isinstance(action, AddColumn):
        return action.if_missing
    return isinstance(action, ChangeColumn | DropColumn) and action.if_there


def _does_nothing(action: Action, old: Collection[str]) -> bool:
    """Whether a conditional action finds its column as it wants it."""
    if isinstance(action, AddColumn):
        exists = folded_name(action.text.column.name) in old
        if exists and action.text.unique:
            raise Unclear  # the key is made all the same
        return exists
    return isinstance(action, ChangeColumn | DropColumn) and folded_name(action.name) not in old


def _charset(actions: Sequence[Action], charset: str) -> str:
    """The character set of columns to come. Raises Unclear where the actions name several."""
    named = {action.charset for action in actions if isinstance(action, SetCharset)}
    if len(named) > 1:
        raise Unclear
    return named.pop() if named else charset


@dataclass(slots=True)
class _ColumnChanges:
    """`changed`: by its old name what a column becomes, None where it is dropped. `placed`: in the
    order of the statement, a column's name and that of the one before it, or FIRST."""

    changed: dict[str, TableColumn | None] = field(default_factory=dict)
    added: list[TableColumn] = field(default_factory=list)
    placed: list[tuple[str, str]] = field(default_factory=list)


def _column_changes(
    before: Sequence[TableColumn], actions: Sequence[Action], charset: str
) -> _ColumnChanges:
    by_name = {folded_name(column.name): column for column in before}
    found = _ColumnChanges()
    for action in actions:
        column: TableColumn | None = None
        if isinstance(action, AddColumn | ChangeColumn):
            column = _defined(action.text, charset)
            if action.text.place is not None:
                found.placed.append((column.name, action.text.place))
        if isinstance(action, AddColumn):
            assert column is not None
            found.added.append(column)
            continue
        if not isinstance(action, ChangeColumn | RenameColumn | DropColumn):
            continue
        old = by_name.get(folded_name(action.name))
        if old is None or old.name in found.changed:
            raise Unclear
        if isinstance(action, RenameColumn):
            column = replace(old, name=action.to)
        found.changed[old.name] = column
    return found


def _never_null(columns: Sequence[TableColumn], uniques: Sequence[UniqueKey]) -> list[TableColumn]:
    """The columns, those of the primary key as NOT NULL."""
    primary: set[str] = set()
    for unique in uniques:
        if unique.name == PRIMARY:
            primary.update(unique.columns)
    found = []
    for column in columns:
        found.append(replace(column, is_nullable=False) if column.name in primary else column)
    return found


def leaves(actions: Sequence[Action], columns: Collection[str]) -> bool:
    """Whether actions leave columns of these names as they are, and give such a name to no
    other."""
    named = {folded_name(name) for action in actions for name in _names(action)}
    return named.isdisjoint(map(folded_name, columns))


def _names(action: Action) -> tuple[str, ...]:
    """The columns that it is about."""
    if isinstance(action, AddColumn):
        return (action.text.column.name,)
    if isinstance(action, ChangeColumn):
        return action.name, action.text.column.name
    if isinstance(action, RenameColumn):
        return action.name, action.to
    if isinstance(action, DropColumn):
        return (action.name,)
    return ()


def _defined(text: ColumnText, charset: str) -> TableColumn:
    """A column as the server makes it; `charset`: the table's. Raises Unclear where that is not
    known."""
    column = text.column
    if column.data_type not in _CHARACTER_TYPES:
        return _defined_bytes(column)
    charset = charset if text.charset is None else text.charset
    if not charset:
        raise Unclear
    column = replace(column, charset=charset)
    if column.data_type in _LABELED:
        labels = stored(charset, column.type)
        if labels is None:
            raise Unclear
        return replace(column, type=labels)
    size = column.size * character_bytes(charset)
    # some servers refuse these, and some make a TEXT
    if column.data_type == "char" and column.size > _MAX_CHARACTERS:
        raise Unclear
    if column.data_type == "varchar" and size > _MAX_BYTES:
        raise Unclear
    if column.data_type == "text" and size:
        column = replace(column, type=_text_of(size))
    if charset == "binary":
        rest = column.type.removeprefix(column.data_type)
        return replace(column, type=_BINARY_TYPES[column.data_type] + rest, charset="")
    return column


def _defined_bytes(column: TableColumn) -> TableColumn:
    if column.data_type == "blob" and column.size:
        return replace(column, type=_text_of(column.size).replace("text", "blob"))
    if column.data_type == "varbinary" and column.size > _MAX_BYTES:
        raise Unclear
    return column


def _text_of(size: int) -> str:
    """The smallest type that holds `size` bytes."""
    for text, limit in _TEXTS.items():
        if size <= limit:
            return text
    return "longtext"


def _converted(
    columns: Sequence[TableColumn], actions: Sequence[Action], charset: str
) -> tuple[TableColumn, ...]:
    """The columns after CONVERT TO a character set. Raises Unclear where the text does not say to
    what."""
    for action in actions:
        if isinstance(action, AddColumn | ChangeColumn):
            text = action.text
            # MariaDB converts what is named in the same statement, MySQL does not, or makes it
            # smaller
            if text.charset not in (None, charset) or text.column.data_type in _TEXTS:
                raise Unclear
    if charset == "binary":
        raise Unclear
    return tuple(_converted_column(column, charset) for column in columns)


def _converted_column(column: TableColumn, charset: str) -> TableColumn:
    if column.data_type not in _CHARACTER_TYPES or column.charset in ("", "binary"):
        return column
    before = character_bytes(column.charset)
    after = character_bytes(charset)
    if column.data_type in _TEXTS and after > before:
        # the type must hold as many characters as before
        characters = _TEXTS[column.data_type] // before
        return replace(column, charset=charset, type=_text_of(characters * after))
    # both servers take the bytes of labels for text of the other character set
    if not column.type.isascii() or (column.data_type in _LABELED and column.charset in _WIDE):
        raise Unclear
    return replace(column, charset=charset)


def _placed(columns: Sequence[TableColumn], placed: Sequence[tuple[str, str]]) -> list[TableColumn]:
    """Raises Unclear when a column is to stand behind one that is only placed later: servers do
    not agree on what that means."""
    ordered = list(columns)
    for number, (name, after) in enumerate(placed, 1):
        column = next(column for column in ordered if column.name == name)
        ordered.remove(column)
        if after == FIRST:
            ordered.insert(0, column)
            continue
        if folded_name(after) in (folded_name(later) for later, _ in placed[number:]):
            raise Unclear
        ordered.insert(_place_of(after, ordered) + 1, column)
    return ordered


def _place_of(name: str, columns: Sequence[TableColumn]) -> int:
    for place, column in enumerate(columns):
        if folded_name(column.name) == folded_name(name):
            return place
    raise Unclear
