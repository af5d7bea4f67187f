"""Derives the states of tables after DDL from their states before it: for tables that a task reads,
and for those that a RENAME may bring to it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from enum import StrEnum

from cdcbus.plugins.rowchange import TableId
from cdcbus.producer.ddl.table_alteration import apply
from cdcbus.producer.ddl.table_changes import (
    Altered,
    Change,
    Created,
    Dropped,
    Renamed,
    SchemaAltered,
    SchemaDropped,
)
from cdcbus.producer.ddl.table_schema import TableSchema


class Missing(StrEnum):
    """A table without columns: it does not exist, or they cannot be known."""

    DROPPED = "dropped"
    UNKNOWN = "unknown"


State = TableSchema | Missing


def made(
    change: Change,
    before: Callable[[TableId], State | None],
    there: Iterable[TableId],
    known: Callable[[TableId], TableSchema | None],
    charset: Callable[[str], str],
) -> dict[TableId, State | None]:
    """Returns the tables that a change affects, with their states after it; None for a state that
    derives from a table not known yet.

    `before`: the states before, None if not known yet; `there`: the tables that `before` knows;
    `known`: the table after the change from other sources; `charset`: a schema's default character
    set, empty if unknown. CREATE IF NOT EXISTS counts as if the table were missing."""
    if isinstance(change, Renamed):
        if change.to != change.table and isinstance(before(change.to), TableSchema):
            # A server renames no table to the name of another one. MariaDB also writes the renaming
            # of a temporary table, which may have any name, and not how that was created.
            return {table: known(table) or Missing.UNKNOWN for table in (change.table, change.to)}
        moved = _moved(before(change.table), known(change.to))
        return {change.table: Missing.DROPPED, change.to: moved}
    if isinstance(change, Dropped):
        return {change.table: Missing.DROPPED}
    if isinstance(change, Created) and change.like is not None:
        return {change.table: _moved(before(change.like), known(change.table))}
    if isinstance(change, Created | Altered):
        return {change.table: known(change.table) or _by_its_text(change, before, charset)}
    if isinstance(change, SchemaAltered):
        return {}
    found: dict[TableId, State | None] = {}
    for table in list(there):
        if not touches(change, table) or before(table) in (None, Missing.DROPPED):
            continue
        if isinstance(change, SchemaDropped):
            found[table] = Missing.DROPPED
        else:
            found[table] = known(table) or Missing.UNKNOWN
    return found


def _moved(state: State | None, known: TableSchema | None) -> State | None:
    """The state of a table that takes over the columns of another, which was in `state`."""
    if isinstance(state, TableSchema):
        return state
    return known or (state and Missing.UNKNOWN)


def _by_its_text(
    change: Created | Altered,
    before: Callable[[TableId], State | None],
    charset: Callable[[str], str],
) -> State | None:
    if change.actions is None:
        return Missing.UNKNOWN
    base: State | None
    if isinstance(change, Altered):
        base = before(change.table)
    else:
        base = TableSchema((), (), charset(change.table.schema))
    if isinstance(base, TableSchema):
        return apply(base, change.actions) or Missing.UNKNOWN
    return base and Missing.UNKNOWN


def touches(change: Change, table: TableId) -> bool:
    """Whether a change may affect a table that exists before and after it."""
    if isinstance(change, Renamed):
        return table in (change.table, change.to)
    if isinstance(change, Created):
        return table == change.table and not change.if_missing and not change.is_temporary
    if isinstance(change, Dropped):
        return table == change.table and not change.is_temporary
    if isinstance(change, Altered):
        return table == change.table
    if isinstance(change, SchemaDropped):
        return table.schema == change.schema
    if isinstance(change, SchemaAltered):
        return False
    return change.words is None or table.table in change.words


class TemporaryTables:
    """The temporary tables of sessions, each hides the real table of its name."""

    def __init__(self) -> None:
        self._tables: set[tuple[int, TableId]] = set()

    def real(self, change: Change, thread: int, *, is_of_session: bool) -> Change | None:
        """Takes the next change of the session `thread`. Returns what it does to a real table; None
        if it concerns a temporary one. `is_of_session`: its statement depends on the session."""
        if self._takes(change, thread, is_of_session=is_of_session):
            return None
        if isinstance(change, Created) and change.like and (thread, change.like) in self._tables:
            return replace(change, like=None)  # a copy of columns that are not known
        return change

    def _takes(self, change: Change, thread: int, *, is_of_session: bool) -> bool:
        if not isinstance(change, Altered | Created | Dropped | Renamed):
            return False
        key = (thread, change.table)
        if isinstance(change, Created) and change.is_temporary:
            self._tables.add(key)
            return True
        if isinstance(change, Dropped) and (change.is_temporary or key in self._tables):
            self._tables.discard(key)
            return True
        # Session numbers are given out anew when the server starts.
        is_known = is_of_session and key in self._tables
        if is_known and isinstance(change, Renamed):
            self._tables.remove(key)
            self._tables.add((thread, change.to))
        return is_known and isinstance(change, Altered | Renamed)
