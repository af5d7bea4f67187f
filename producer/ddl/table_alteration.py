"""Applies the actions of a statement to a table. Pure."""

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
    by_folded_name,
    character_bytes,
    folded_name,
    with_row_times,
    without_row_times,
)
from cdcbus.producer.decoding.charsets import stored

# The maximum bytes of each type.
_TEXTS = {"tinytext": 2**8 - 1, "text": 2**16 - 1, "mediumtext": 2**24 - 1, "longtext": 2**32 - 1}
_LABELED = ("enum", "set")
_CHARACTER_TYPES = {"char", "varchar", *_TEXTS, *_LABELED}
# The types of texts with character set `binary`.
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
    """The table after one statement's actions; None if they do not fit the table, or are ambiguous.

    Old names in the actions are those before the statement: two columns can swap names. Columns are
    then moved to their places in the order of the statement.
    """
    try:
        if table.times == HIDDEN:
            return _applied_before_times(table, actions)
        return _applied(table, actions)
    except Unclear:
        return None


def _applied_before_times(table: TableSchema, actions: Sequence[Action]) -> TableSchema:
    """Applies the actions so that the hidden times of rows stay after added columns."""
    rest = [action for action in actions if not isinstance(action, AddRowTimes | DropRowTimes)]
    if not leaves(rest, ROW_TIMES):
        raise Unclear
    altered = _applied(without_row_times(table), rest)
    if DropRowTimes() in actions:
        return altered
    return with_row_times(altered)


def _applied(table: TableSchema, actions: Sequence[Action]) -> TableSchema:
    """Applies the actions to a table without hidden times of rows."""
    old = set(by_folded_name(table.columns))
    if DropRowTimes() in actions:
        raise Unclear
    if table.times and any(is_rekeyed(action, old) for action in actions):
        raise Unclear
    if not table.times and table.names[-2:] == ROW_TIMES:
        raise Unclear  # stored by a release that did not say whether the times are hidden
    actions = _effective(actions, old)
    charset = _charset(actions, table.charset)

    before = table.columns
    # Only the old columns: new ones are defined in the new character set already.
    if any(isinstance(action, SetCharset) and action.converts for action in actions):
        before = _converted(before, actions, charset)
    changes = _column_changes(before, actions, charset)
    after = {column.name: changes.changed.get(column.name, column) for column in before}
    kept = [column for column in after.values() if column is not None]
    columns = _placed(kept + changes.added, changes.placed)
    now = by_folded_name(columns)
    if not columns or len(now) < len(columns):
        raise Unclear

    uniques = altered_keys(table, actions, ColumnFates(after, now))
    # Before the keys are sorted, which depends on the columns that can be NULL.
    columns = _never_null(columns, uniques)
    ordered = ordered_keys(table, uniques, columns, actions)
    result = TableSchema(tuple(columns), tuple(ordered), charset, table.times)
    if AddRowTimes() in actions:
        return with_row_times(result)
    return result


def _effective(actions: Sequence[Action], old: Collection[str]) -> list[Action]:
    """The actions except those that do nothing, as their column exists, or does not. Raises Unclear
    if other actions concern that column, too."""
    names: list[str] = []
    for action in actions:
        # Once for each action: CHANGE that keeps the name has it twice.
        names += set(map(folded_name, _names(action)))
    found = []
    for action in actions:
        if _is_conditional(action):
            concerned = map(folded_name, _names(action))
            if max(map(names.count, concerned)) > 1:
                raise Unclear
            if _does_nothing(action, old):
                continue
        found.append(action)
    return found


def _is_conditional(action: Action) -> bool:
    """Whether an action has IF EXISTS or IF NOT EXISTS."""
    if isinstance(action, AddColumn):
        return action.if_missing
    return isinstance(action, ChangeColumn | DropColumn) and action.if_there


def _does_nothing(action: Action, old: Collection[str]) -> bool:
    """Whether the condition of a conditional action is not met."""
    if isinstance(action, AddColumn):
        exists = folded_name(action.text.column.name) in old
        if exists and action.text.unique:
            raise Unclear  # the key is created nevertheless
        return exists
    return isinstance(action, ChangeColumn | DropColumn) and folded_name(action.name) not in old


def _charset(actions: Sequence[Action], charset: str) -> str:
    """The character set of later columns. Raises Unclear if the actions name several."""
    named = {action.charset for action in actions if isinstance(action, SetCharset)}
    if len(named) > 1:
        raise Unclear
    if not named:
        return charset
    return named.pop()


@dataclass(slots=True)
class _ColumnChanges:
    """`changed`: a column's old name -> the new column, None if dropped. `placed`: in the order of
    the statement, a column's name and the name of the column before it, or FIRST."""

    changed: dict[str, TableColumn | None] = field(default_factory=dict)
    added: list[TableColumn] = field(default_factory=list)
    placed: list[tuple[str, str]] = field(default_factory=list)


def _column_changes(
    before: Sequence[TableColumn], actions: Sequence[Action], charset: str
) -> _ColumnChanges:
    by_name = by_folded_name(before)
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
    """The columns, with those of the primary key NOT NULL."""
    primary: set[str] = set()
    for unique in uniques:
        if unique.name == PRIMARY:
            primary.update(unique.columns)
    found = []
    for column in columns:
        if column.name in primary:
            column = replace(column, is_nullable=False)
        found.append(column)
    return found


def leaves(actions: Sequence[Action], columns: Collection[str]) -> bool:
    """Whether actions leave columns of these names unchanged, and give such a name to no other
    column."""
    named: set[str] = set()
    for action in actions:
        named.update(map(folded_name, _names(action)))
    return named.isdisjoint(map(folded_name, columns))


def _names(action: Action) -> tuple[str, ...]:
    """The columns that an action concerns."""
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
    """A column as the server creates it; `charset`: the table's. Raises Unclear if that is not
    known."""
    column = text.column
    if column.data_type not in _CHARACTER_TYPES:
        return _defined_bytes(column)
    if text.charset is not None:
        charset = text.charset
    if not charset:
        raise Unclear
    column = replace(column, charset=charset)
    if column.data_type in _LABELED:
        labels = stored(charset, column.type)
        if labels is None:
            raise Unclear
        return replace(column, type=labels)
    size = column.size * character_bytes(charset)
    # some servers refuse these, others create a TEXT
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
    """The columns after CONVERT TO a character set. Raises Unclear if servers differ in the
    result."""
    for action in actions:
        if isinstance(action, AddColumn | ChangeColumn):
            text = action.text
            # MariaDB converts columns that the same statement defines; MySQL does not, or makes
            # them smaller
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
    # both servers reinterpret the bytes of labels in the other character set
    if not column.type.isascii() or (column.data_type in _LABELED and column.charset in _WIDE):
        raise Unclear
    return replace(column, charset=charset)


def _placed(columns: Sequence[TableColumn], placed: Sequence[tuple[str, str]]) -> list[TableColumn]:
    """Moves the columns to their places. Raises Unclear if a column follows one that is placed
    later: servers disagree on what that means."""
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
