"""Notices that a table which a task's rows went to was dropped and made anew, emptied or restored:
by what the server says of it, and by rows of which it should still hold one."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from time import monotonic
from typing import Final

from sqlalchemy import Connection

from cdcbus.plugins.contracts import Counts, TableBatch, TargetTable
from cdcbus.plugins.errors import TargetError, TargetTableUnfit, TargetUnavailable
from cdcbus.plugins.loaders.catalog import reflect
from cdcbus.plugins.loaders.cells.equal_keys import folds
from cdcbus.plugins.loaders.engine import Database
from cdcbus.plugins.loaders.identity import note_table
from cdcbus.plugins.loaders.identity.note_table import Identity, Note, RowKey, identity_of
from cdcbus.plugins.rowchange import TableId
from cdcbus.plugins.transform.selectors import lowered

LOG = logging.getLogger(__name__)
# Looks at many tables are spread over several calls, as no row is applied meanwhile.
LOOK_SECONDS: Final = 0.1
LOOK_TABLES: Final = 200
# As somebody else may have deleted some. They are of different looks.
ROWS_KEPT: Final = 3

_WHAT: Final = "tables that rows went to"
_MADE_ANEW: Final = (
    "target table {} is another one than before: it was dropped and made anew, or another table "
    "has got its name"
)
_EMPTIED: Final = (
    "target table {} has other storage than before, and lacks rows that the task has written: it "
    "was emptied, restored, or dropped and made anew"
)


class KnownTables:
    """The tables of one task. `saw` can be called on several threads; everything else only while no
    batch is applied."""

    def __init__(self, database: Database, task_id: str) -> None:
        self._database = database
        self._task_id = task_id
        self._notes: dict[TableId, Note] = {}
        # As the next process would find them.
        self._stored: dict[TableId, Note] = {}
        # The rows written last since each table was looked at.
        self._last: dict[TableId, RowKey] = {}
        # The tables in the order in which they are looked at.
        self._turn: deque[TableId] = deque()
        # The table of the notes, None where it could not be created, and what it is.
        self._own: TableId | None = None
        self._own_identity: Identity | None = None
        self._is_open = False

    def saw(self, batch: TableBatch, counts: Counts | None) -> None:
        """Takes a batch whose transaction has committed. `counts` is None if its rows were undone
        within the transaction."""
        name = batch.table.id
        note = self._notes.get(name)
        if note is not None:
            rows = tuple([row for row in note.rows if not _may_delete(batch, row)])
            self._notes[name] = replace(note, rows=rows)
        if batch.truncate:
            # The transaction has removed it.
            self._stored.pop(name, None)
        last = self._last.get(name)
        if last is not None and _may_delete(batch, last):
            self._last.pop(name, None)
        row = _last_row(batch, counts)
        if row is not None:
            self._last[name] = row

    def forget_rows(self) -> None:
        """Expects any row to be deleted: other processes write from now on."""
        self._last.clear()
        for name, note in self._notes.items():
            self._notes[name] = Note(note.identity)

    def forget(self) -> None:
        """Takes all tables as they are at the next look. Raises TargetUnavailable."""
        try:
            self._open()
            with self._noting():
                if self._own is not None:
                    with self._database.begun(_WHAT) as connection:
                        note_table.forget(connection, self._task_id)
        except TargetTableUnfit as error:
            self._open_again(error)
        self._notes.clear()
        self._stored.clear()
        self._last.clear()
        self._own_identity = None

    def look(self, tables: Mapping[TableId, TargetTable]) -> list[str]:
        """Looks at tables noted before, and at these, for LOOK_SECONDS; returns a sentence about
        each that was made anew or emptied, once. An error is logged: the next look may succeed."""
        # Where applications write, too, they may delete any row.
        if self._database.target.mark:
            return []
        try:
            self._open()
            return self._look(tables)
        except TargetTableUnfit as error:
            self._open_again(error)
        except TargetError as error:
            self._log(error)
        return []

    def _open_again(self, error: TargetTableUnfit) -> None:
        """Looks for the table of the notes again: it may have been dropped."""
        self._log(error)
        self._is_open = False

    def _log(self, error: TargetError) -> None:
        LOG.info(
            "task %s: it is not known whether target tables were made anew: %s",
            self._task_id,
            error,
        )

    def _open(self) -> None:
        """Reads the notes, once. Without a table for them only this process has them."""
        if self._is_open:
            return
        # The default schema is known from the first connection on.
        self._database.open_first()
        try:
            self._read()
        except TargetUnavailable:
            raise
        except TargetError as error:
            self._go_without(error)
        self._is_open = True

    def _read(self) -> None:
        database = self._database
        with database.reported(f"table {note_table.TABLE}"):
            self._own = note_table.open_table(database)
        with database.begun(_WHAT) as connection:
            stored = note_table.load(connection, self._task_id)
            # The table of the notes may have been dropped.
            known = {name: self._notes[name] for name in self._notes.keys() - stored.keys()}
            # Notes that cannot be replaced would say the same at each start: one is tried.
            tried = dict(list(stored.items())[:1])
            note_table.store(connection, self._task_id, {**tried, **known})
        self._stored = {**stored, **known}
        own = stored.pop(self._own, None)
        if own is not None:
            self._own_identity = own.identity
        # What this process has seen is newer.
        self._notes = {**stored, **self._notes}

    @contextmanager
    def _noting(self) -> Iterator[None]:
        """Goes without notes where the target refuses to keep them. Raises TargetUnavailable,
        TargetTableUnfit."""
        try:
            yield
        except (TargetUnavailable, TargetTableUnfit):
            raise
        except TargetError as error:
            self._go_without(error)

    def _go_without(self, error: TargetError) -> None:
        remedy = ""
        if self._own is not None:
            user = self._database.target.user
            remedy = (
                f"; if rights are missing: GRANT SELECT, INSERT, DELETE ON {self._own} TO {user}"
            )
        self._own = None
        LOG.info(
            "task %s keeps no notes of its tables in the target, and will not notice what is done "
            "to them between two runs: %s%s",
            self._task_id,
            error,
            remedy,
        )

    def _look(self, tables: Mapping[TableId, TargetTable]) -> list[str]:
        found: list[str] = []
        changed: dict[TableId, Note] = {}
        known = tables.keys() | self._notes.keys()
        self._turn.extend(sorted(known.difference(self._turn)))
        names = list(islice(self._turn, LOOK_TABLES))
        with self._database.connected(_WHAT) as connection:
            storages = self._storages(connection, names)
            began = monotonic()
            changed |= self._looked_at_own(connection, storages)
            for name in names:
                self._turn.rotate(-1)
                identity = identity_of(connection, self._database.dialect.catalog, name, storages)
                # A missing table is reported by the batch that needs it.
                if identity is not None:
                    note = self._notes.get(name)
                    lost = self._lost(connection, name, note, identity)
                    if lost:
                        found.append(lost)
                        note = None
                    changed[name] = self._noted(connection, name, identity, note, tables.get(name))
                if monotonic() - began > LOOK_SECONDS:
                    break
        # The next process must not expect a row that was deleted since its table was looked at.
        self._keep({**self._notes, **changed})
        return found

    def _storages(self, connection: Connection, names: Sequence[TableId]) -> Mapping[TableId, str]:
        storages = self._database.dialect.catalog.storages
        if storages is None:
            return {}
        own = [self._own] if self._own is not None else []
        return storages(connection, {*names, *own})

    def _looked_at_own(
        self, connection: Connection, storages: Mapping[TableId, str]
    ) -> dict[TableId, Note]:
        """Where the table of the notes is another one, the target was restored from a copy of it
        all, or moved: then it says nothing that the other tables are other ones, too."""
        if self._own is None:
            return {}
        identity = identity_of(connection, self._database.dialect.catalog, self._own, storages)
        if identity is None or identity == self._own_identity:
            return {}
        if self._own_identity is not None and identity.made != self._own_identity.made:
            for name, note in self._notes.items():
                self._notes[name] = replace(note, identity=replace(note.identity, made=""))
        self._own_identity = identity
        return {self._own: Note(identity)}

    def _lost(
        self, connection: Connection, name: TableId, note: Note | None, identity: Identity
    ) -> str:
        """A sentence if the table was made anew, or emptied; else empty."""
        if note is None or note.identity == identity:
            return ""
        if note.identity.made and note.identity.made != identity.made:
            return _MADE_ANEW.format(name)
        if note.rows and not self._is_any_there(connection, name, note.rows):
            return _EMPTIED.format(name)
        return ""

    def _noted(
        self,
        connection: Connection,
        name: TableId,
        identity: Identity,
        note: Note | None,
        table: TargetTable | None,
    ) -> Note:
        """With the row that was written last, if the target finds it by its key."""
        rows = () if note is None else note.rows
        last = self._last.pop(name, None)
        # Changes of other tables may delete any row.
        if table is not None and any(lowered(key.child) == lowered(name) for key in table.cascades):
            return Note(identity)
        if table is None or last is None or last.keys() != set(table.key):  # the key was altered
            return Note(identity, rows)
        if self._is_any_of(connection, table, [last]):
            rows = (last, *[row for row in rows if row != last])
        return Note(identity, rows[:ROWS_KEPT])

    def _is_any_there(self, connection: Connection, name: TableId, rows: Sequence[RowKey]) -> bool:
        """Whether the table has one of the rows, or nothing can be said, as its key has other
        columns."""
        database = self._database
        table = reflect(connection, database.dialect.catalog, database.dialect.name, name)
        if table is None:
            return True
        for row in rows:
            if row.keys() != set(table.key):
                return True
        return self._is_any_of(connection, table, rows)

    def _is_any_of(
        self, connection: Connection, table: TargetTable, rows: Sequence[RowKey]
    ) -> bool:
        keys = [tuple([row[column] for column in table.key]) for row in rows]
        return bool(self._database.dialect.spelled(connection, table, keys))

    def _keep(self, notes: dict[TableId, Note]) -> None:
        """Stores notes before they are taken over: what is not stored is found again."""
        changed = {name: note for name, note in notes.items() if self._stored.get(name) != note}
        if changed and self._own is not None:
            with self._noting(), self._database.begun(_WHAT) as connection:
                note_table.store(connection, self._task_id, changed)
        self._stored |= changed
        self._notes |= {name: note for name, note in changed.items() if name != self._own}


def _may_delete(batch: TableBatch, row: RowKey) -> bool:
    """Whether the batch may have deleted a row, or given it another key."""
    if batch.truncate or batch.moves or row.keys() != set(batch.table.key):
        return True
    if not batch.deletes:
        return False
    key = tuple([row[column] for column in batch.table.key])
    return folds(batch.table) or key in batch.deletes


def _last_row(batch: TableBatch, counts: Counts | None) -> RowKey | None:
    """A row that the target has after the batch; None if none is known."""
    writes = [each for each in batch.writes if each.may_insert and each.rows]
    if not writes or not batch.table.key or counts is None:
        return None
    # A trigger may have left some out.
    if counts.written != sum([len(each.rows) for each in batch.writes]):
        return None
    last = dict(zip(writes[-1].columns, writes[-1].rows[-1], strict=True))
    cells: dict[str, str] = {}
    for column in batch.table.key:
        cell = last[column]
        if cell is None:
            return None
        cells[column] = cell
    return cells
