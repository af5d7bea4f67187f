"""`JdbcBatch`: sets of rows into a SQL database, each batch in one transaction with the offset it ends at."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

from sqlalchemy import Connection

from cdcbus.plugins.contracts import AppliedOffset, Counts, OffsetTable, TableBatch, TargetTable
from cdcbus.plugins.errors import TargetError, TargetMisconfigured, TargetUnavailable
from cdcbus.plugins.loaders import offsets
from cdcbus.plugins.loaders.engine import Database
from cdcbus.plugins.loaders.reflect import reflect
from cdcbus.plugins.rowchange import TableId

LOG = logging.getLogger(__name__)


class JdbcBatch:
    """A Loader. Connects at first use."""

    def __init__(self, database: Database, task_id: str) -> None:
        self._database = database
        self._task_id = task_id
        self._tables: dict[TableId, TargetTable] = {}
        self._offset_table: TargetTable | None = None
        self._is_offset_table_open = False
        self._offset_table_lock = Lock()

    def table(self, name: TableId) -> TargetTable | None:
        """A missing table is looked for again each time."""
        if name not in self._tables:
            database = self._database
            with database.reported(f"table {name}"), database.engine.connect() as connection:
                table = reflect(connection, database.dialect.catalog, database.dialect.name, name)
            if table is None:
                return None
            self._tables[name] = table
        return self._tables[name]

    def refresh(self, name: TableId) -> None:
        self._tables.pop(name, None)

    @contextmanager
    def transaction(self) -> Iterator[JdbcTransaction]:
        offset_table = self._open_offset_table()
        with self._database.reported("transaction"), self._database.engine.begin() as connection:
            yield JdbcTransaction(self._database, connection, self._task_id, offset_table)

    def applied_offsets(self) -> list[AppliedOffset]:
        if self._open_offset_table() is None:
            return []
        with self._database.reported(f"table {offsets.TABLE}"), self._database.engine.connect() as connection:
            return offsets.load(connection, self._task_id)

    def offset_table(self) -> OffsetTable:
        with self._database.reported("login"), self._database.engine.connect():
            pass
        with self._database.reported(f"table {offsets.TABLE}"):
            try:
                is_there = offsets.find_table(self._database) is not None
            except TargetMisconfigured:
                return OffsetTable(False, False)  # it has no place: a start goes on without it, too
            with self._database.engine.connect() as connection:
                if is_there:
                    return OffsetTable(True, True, offsets.load(connection, self._task_id))
                return OffsetTable(False, offsets.may_create(connection, self._database.dialect))

    def close(self) -> None:
        self._database.engine.dispose()

    def _open_offset_table(self) -> TargetTable | None:
        """Tried once, unless the target is away. None where it cannot be had: batches that come twice are harmless, being upserts."""
        with self._offset_table_lock:
            if not self._is_offset_table_open:
                self._database.open_first()  # a login that is refused is not about this table
                try:
                    with self._database.reported(f"table {offsets.TABLE}"):
                        self._offset_table = offsets.open_table(self._database)
                except TargetUnavailable:
                    raise
                except TargetError as error:
                    LOG.warning("task %s keeps no offsets in the target: %s", self._task_id, error)
                self._is_offset_table_open = True
            return self._offset_table


class JdbcTransaction:
    """A LoadTransaction."""

    def __init__(self, database: Database, connection: Connection, task_id: str, offset_table: TargetTable | None) -> None:
        self._database = database
        self._connection = connection
        self._task_id = task_id
        self._offset_table = offset_table

    def write(self, batch: TableBatch) -> Counts:
        table, dialect, connection = batch.table, self._database.dialect, self._connection
        counts = Counts()
        with self._database.reported(f"table {table.id}", table.key):
            if batch.truncate:
                dialect.truncate(connection, table)
            if batch.deletes:
                counts.deleted = dialect.delete(connection, table, batch.deletes)
                counts.missed = len(batch.deletes) - counts.deleted
        for writes in batch.writes:
            with self._database.reported(f"table {table.id}", writes.columns):
                if writes.may_insert:
                    dialect.upsert(connection, table, writes)
                    hit = len(writes.rows)
                else:
                    hit = dialect.update(connection, table, writes)
            counts.add(Counts(written=hit, missed=len(writes.rows) - hit))
        return counts

    def displace(self, batch: TableBatch) -> int:
        table, count = batch.table, 0
        for writes in batch.writes:
            for unique_key in table.unique_keys:
                if unique_key and set(unique_key) <= set(writes.columns):
                    with self._database.reported(f"table {table.id}", writes.columns):
                        count += self._database.dialect.displace(self._connection, table, writes, unique_key)
        return count

    @contextmanager
    def savepoint(self) -> Iterator[None]:
        with self._database.reported("savepoint"):
            nested = self._connection.begin_nested()
            try:
                yield
            except TargetUnavailable:
                raise  # the whole transaction is lost: after a deadlock there is no savepoint left to go back to
            except BaseException:
                nested.rollback()
                raise
            nested.commit()

    def store_offset(self, offset: AppliedOffset) -> None:
        if self._offset_table is not None:
            with self._database.reported(f"table {offsets.TABLE}"):
                offsets.store(self._connection, self._database.dialect, self._offset_table, self._task_id, offset)
