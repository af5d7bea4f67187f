"""Tables as their last rows, and the DDL since, have shown them: what a new type does to cells."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from cdcbus.plugins.rowchange import Column, Table, TableId
from cdcbus.producer.ddl.rows.kept_cells import are_kept, has_own_labels, type_in
from cdcbus.producer.ddl.rows.unlogged import Retyped, Unlogged
from cdcbus.producer.ddl.table_changes import Altered, Change, folded, lower_case
from cdcbus.producer.ddl.table_schema import (
    Action,
    AddColumn,
    ChangeColumn,
    DropColumn,
    RenameColumn,
    SetCharset,
)
from cdcbus.producer.ddl.table_states import touches


class KnownTables:
    """`folds_names`: the server ignores the case of tables' names."""

    def __init__(self, *, folds_names: bool) -> None:
        self._folds_names = folds_names
        self._tables: dict[TableId, Table] = {}

    def take(self, table: Table) -> None:
        """Takes a table as its rows show it."""
        self._tables[self._name(table.id)] = table

    def follow(self, changes: Iterable[Change]) -> None:
        """Follows a statement; forgets tables of which it leaves open how they are then."""
        for change in changes:
            if self._folds_names:
                change = folded(change)
            if isinstance(change, Altered):
                before = self._tables.pop(change.table, None)
                after = before and _altered(before, change.actions)
                if after is not None:
                    self.take(after)
                continue
            for table in [table for table in self._tables if touches(change, table)]:
                del self._tables[table]

    def with_other_cells(self, found: Unlogged) -> set[TableId]:
        """The tables whose rows may have other cells after a statement by which they get types or
        a character set, to be called before `follow`. All that are not known may."""
        tables = set()
        for retyped in found.retyped:
            if not self._keeps(retyped):
                tables.add(retyped.table)
        for table in found.converted:
            known = self._tables.get(self._name(table))
            if known is None or any(has_own_labels(each.mysql_type) for each in known.columns):
                tables.add(table)
        return tables

    def _keeps(self, retyped: Retyped) -> bool:
        known = self._tables.get(self._name(retyped.table))
        if known is None or not are_kept(_types_of(known).get(retyped.column, ""), retyped.type):
            return False
        # Cells of a key have numbers already, as it is the usual one that had AUTO_INCREMENT.
        return not retyped.is_numbered or retyped.column in map(str.lower, known.key)

    def _name(self, table: TableId) -> TableId:
        return lower_case(table) if self._folds_names else table


def _types_of(table: Table) -> dict[str, str]:
    """The types of its columns, by their names in lower case."""
    return {column.name.lower(): column.mysql_type for column in table.columns}


def _altered(table: Table, actions: Iterable[Action] | None) -> Table | None:
    """The table after the actions of an ALTER TABLE, its columns in any order, with an empty type
    where that is not known. None if no type is."""
    if actions is None:
        return None
    types = _types_of(table)
    for action in actions:
        match action:
            case AddColumn(text, if_missing):
                types[text.column.name.lower()] = "" if if_missing else type_in(text)
            case ChangeColumn(name, text):
                types.pop(name.lower(), None)
                types[text.column.name.lower()] = type_in(text)
            case RenameColumn(name, to):
                types[to.lower()] = types.pop(name.lower(), "")
            case DropColumn(name):
                types.pop(name.lower(), None)
            case SetCharset(converts=True):
                return None
    return replace(table, columns=tuple(Column(*each) for each in types.items()))
