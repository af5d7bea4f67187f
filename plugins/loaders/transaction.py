"""A transaction of a SQL database: the rows of batches, and with them the offset they end at."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager

from sqlalchemy import Connection

from cdcbus.plugins.contracts import (
    VERSION,
    AppliedOffset,
    Counts,
    KnownRow,
    Moves,
    Swaps,
    TableBatch,
    TargetTable,
    Writes,
)
from cdcbus.plugins.errors import (
    OffsetConflict,
    RowConflict,
    TargetError,
    TargetMisconfigured,
    TargetRejected,
    TargetTableUnfit,
    TargetUnavailable,
)
from cdcbus.plugins.loaders import offset_table, row_versions
from cdcbus.plugins.loaders.cells.equal_keys import (
    are_plain,
    as_spelled,
    folds,
    refuse_alike,
    refuse_others,
    refuse_rounded,
    texts_of,
)
from cdcbus.plugins.loaders.dialect import Cells, check_hits, check_key
from cdcbus.plugins.loaders.engine import Database
from cdcbus.plugins.loaders.identity import note_table
from cdcbus.plugins.loaders.sessions import POOLED
from cdcbus.plugins.rowchange import TableId

LOG = logging.getLogger(__name__)


class JdbcTransaction:
    """A LoadTransaction."""

    def __init__(
        self,
        database: Database,
        connection: Connection,
        task_id: str,
        offset_table: TargetTable | None,
        forget: Callable[[TableId], None],
    ) -> None:
        """`forget` drops a table from the loader's cache."""
        self._database = database
        self._connection = connection
        self._task_id = task_id
        self._offset_table = offset_table
        self._forget = forget
        self._depth = 0
        # A transaction that begins with a mark, or with settings for a pooler, is not empty: a
        # rollback of all of it would lose them.
        self._is_empty = not database.target.mark and POOLED not in connection.info
        self._freed: Collection[TableId] = ()
        # What was written, with its counts; None for what was undone since.
        self.batches: list[tuple[TableBatch, Counts | None]] = []

    def write(self, batch: TableBatch) -> Counts:
        counts = self._write(batch)
        if batch.truncate:
            self._forget_note(batch.table.id)
        self.batches.append((batch, counts))
        return counts

    def _forget_note(self, name: TableId) -> None:
        """Has the next process expect no row of a table that is emptied, if there are notes."""
        try:
            with self._below():
                note_table.forget_table(self._connection, self._task_id, name)
        except TargetUnavailable:
            raise
        except TargetError as error:
            LOG.debug("task %s has no note of table %s: %s", self._task_id, name, error)

    def _write(self, batch: TableBatch) -> Counts:
        table = batch.table
        # in this order, as a new row may have a unique cell of one that goes or moves
        with self._reported(table, table.key):
            counts = self._delete(batch)
        if batch.moves:
            with self._reported(table, table.key):
                counts.add(self._move(table, batch.moves))
        for writes in batch.writes:
            with self._reported(table, writes.columns):
                if folds(table) and not batch.respells:
                    self._refuse_equal_keys(table, writes)
                counts.add(self._write_rows(table, writes))
        for swaps in batch.swaps:
            with self._reported(table, swaps.columns):
                counts.add(self._swap(table, swaps))
        return counts

    @contextmanager
    def _reported(self, table: TargetTable, columns: Sequence[str]) -> Iterator[None]:
        """Reports errors with the table. A table that could not be written may have been altered:
        the next attempt looks it up again."""
        self._is_empty = False
        try:
            with self._database.reported(f"table {table.id}", columns):
                yield
        except (TargetUnavailable, TargetTableUnfit):
            self._forget(table.id)
            raise

    def _delete(self, batch: TableBatch) -> Counts:
        table, dialect, connection = batch.table, self._database.dialect, self._connection
        if batch.truncate:
            dialect.truncate(connection, table)
        # checked first: deleting a row that the batch also inserted could hit another row
        if batch.fresh:
            found = dialect.spelled(connection, table, batch.fresh)
            refuse_rounded(table, found, self._taken(table))
        keys = batch.deletes
        if not keys:
            return Counts()
        expected = len(keys) - batch.passing
        if folds(table):
            keys = as_spelled(table, keys, dialect.spelled(connection, table, keys))
            expected = len(keys)
        deleted = 0
        if keys:
            deleted = dialect.delete(connection, table, keys)
            check_hits(connection, dialect.catalog, table, deleted, expected)
        return Counts(deleted=deleted, missed=batch.missed(deleted))

    def _taken(self, table: TargetTable) -> type[TargetRejected]:
        """The error for a new row whose key another row has: see `may_be_freed`."""
        return RowConflict if table.id in self._freed else TargetRejected

    def _refuse_equal_keys(self, table: TargetTable, writes: Writes) -> None:
        """Raises TargetRejected if the target treats keys as equal that the source distinguishes:
        one of the rows and one that exists, or two of the rows."""
        dialect = self._database.dialect
        keys = writes.rows_of(table.key)
        found = dialect.spelled(self._connection, table, keys)
        refuse_others(table, keys, found, self._taken(table))
        # the target is asked only where the texts alone do not show it
        differ = len(keys) <= 1 or are_plain(table, keys)
        if not differ and dialect.is_any_alike(self._connection, table, keys):
            refuse_alike(table)

    def _write_rows(self, table: TargetTable, writes: Writes) -> Counts:
        dialect = self._database.dialect
        count = len(writes.rows)
        if not writes.may_insert:
            hit = dialect.update(self._connection, table, writes)
            return Counts(written=hit, missed=count - hit)
        inserted, left_out = dialect.upsert(self._connection, table, writes)
        missed = writes.missed(inserted)
        if missed:
            self._check_key(table)
        return Counts(written=count - left_out, missed=missed + left_out)

    def _check_key(self, table: TargetTable) -> None:
        """Asks for the table's key where rows were inserted that should have been there. MySQL and
        MariaDB name no key in an upsert, so one by a key that was altered meanwhile makes a second
        row, and no error."""
        dialect = self._database.dialect
        if dialect.name == "mysql":
            check_key(self._connection, dialect.catalog, table)

    def _move(self, table: TargetTable, moves: Moves) -> Counts:
        """Gives rows their new keys. They are counted by the writes that follow."""
        dialect, connection = self._database.dialect, self._connection
        counts = Counts()
        for old, new in moves.rows:
            keys = [old, new] if moves.may_repeat else [old]
            found = [index for index, _ in dialect.locked(connection, table, keys, ())]
            # Counted before, as a swap takes one of several rows.
            check_hits(connection, dialect.catalog, table, len(found), len(set(found)))
            if 1 in found:
                counts.deleted += dialect.delete(connection, table, [old])
            else:
                dialect.swap(connection, table, table.key, old, new)
        return counts

    def _swap(self, table: TargetTable, swaps: Swaps) -> Counts:
        """Applies swaps: deletes and updates row by row, then inserts all new rows."""
        if self._offset_table is None:
            raise TargetMisconfigured(
                f"target table {table.id} has no key, and table {offset_table.TABLE} could not be "
                "made, so a batch that comes twice would repeat rows: give the table a primary "
                "key, or grant CREATE in the schema that the address names"
            )
        dialect = self._database.dialect
        counts = Counts()
        coming: list[Cells] = []
        for old, new in swaps.rows:
            if old is not None:
                if dialect.swap(self._connection, table, swaps.columns, old, new):
                    if new is None:
                        counts.deleted += 1
                    else:
                        counts.written += 1
                    continue
                counts.missed += 1
            if new is not None and (old is None or swaps.may_insert):
                coming.append(new)
        if coming:
            with self._keyed_otherwise(table, swaps.columns):
                taken = dialect.insert(self._connection, table, Writes(swaps.columns, coming))
            counts.add(Counts(written=taken, missed=len(coming) - taken))
        return counts

    @contextmanager
    def _keyed_otherwise(self, table: TargetTable, columns: Sequence[str]) -> Iterator[None]:
        """Explains a refused row of a table whose unique keys are none by which rows are found."""
        try:
            with self._database.reported(f"table {table.id}", columns):
                yield
        except RowConflict as error:
            # MySQL's name of a primary key: the table has one, which is on less than columns.
            if () not in table.unique_keys and not str(error).endswith("PRIMARY"):
                raise
            raise RowConflict(
                f"{error}. This key is more than whole columns (a prefix of a long text, an "
                "expression), so rows are not found by it, and one that comes twice, as after a "
                "kill or by a snapshot, is refused: give the table a primary key on whole columns "
                "(MySQL and MariaDB: of at most 3,072 bytes), or remove its rows before they are "
                "sent again"
            ) from None

    @contextmanager
    def savepoint(self) -> Iterator[None]:
        """Uses plain statements: SQLAlchemy's own take longer than the single row that a savepoint
        often protects. At the beginning of a transaction it uses none, as a rollback of all of it
        is equivalent: that saves two of the six round trips that a row waits for."""
        with self._undone(len(self.batches)):
            if self._is_empty:
                with self._from_beginning():
                    yield
                return
            with self._below():
                yield

    @contextmanager
    def _undone(self, begin: int) -> Iterator[None]:
        """Notes that what was written from `begin` on is undone if the block raises."""
        try:
            yield
        except BaseException:
            self.batches[begin:] = [(batch, None) for batch, _ in self.batches[begin:]]
            raise

    @contextmanager
    def _below(self) -> Iterator[None]:
        self._depth += 1
        name = f"cdcbus_{self._depth}"
        try:
            with self._database.reported("savepoint"):
                self._run(f"SAVEPOINT {name}")
                try:
                    yield
                except TargetUnavailable:
                    # the whole transaction is lost: after a deadlock there is no savepoint left to
                    # go back to
                    raise
                except BaseException:
                    self._run(f"ROLLBACK TO SAVEPOINT {name}")
                    self._release(name)
                    raise
                self._release(name)
        finally:
            self._depth -= 1

    @contextmanager
    def _from_beginning(self) -> Iterator[None]:
        self._is_empty = False
        try:
            yield
        except TargetUnavailable:
            raise
        except BaseException:
            with self._database.reported("transaction"):
                self._run("ROLLBACK")  # the driver begins a new one with the next statement
            self._is_empty = True
            raise

    def _release(self, name: str) -> None:
        """Releases a savepoint. Oracle has no such statement: a savepoint ends with the next one of
        its name."""
        if self._database.dialect.name != "oracle":
            self._run(f"RELEASE SAVEPOINT {name}")

    def _run(self, sql: str) -> None:
        self._connection.exec_driver_sql(sql)

    def check_at_once(self) -> None:
        self._is_empty = False
        if self._database.dialect.name != "mysql":  # always checks immediately
            with self._database.reported("transaction"):
                self._run("SET CONSTRAINTS ALL IMMEDIATE")

    def may_be_freed(self, tables: Collection[TableId]) -> None:
        self._freed = tables

    def row_versions(self, versions: TargetTable, keys: Sequence[Cells]) -> list[KnownRow]:
        """Inserts missing rows first, so that other transactions wait for these, too. A key that is
        not found counts as a row without a version."""
        dialect, connection = self._database.dialect, self._connection
        texts = texts_of(versions)
        with self._reported(versions, versions.key):
            dialect.upsert(connection, versions, Writes(versions.key, keys))
            locked = dict(dialect.locked(connection, versions, keys, VERSION))
        known = []
        for index, key in enumerate(keys):
            *row, came_ms, place = locked.get(index, (*key, 0, row_versions.NO_PLACE))
            version = row_versions.version(came_ms, place)
            known.append(KnownRow(repr(row), version, texts(tuple(row))))
        return known

    def has_version_table(self, tables: Sequence[TargetTable]) -> bool:
        self._is_empty = False
        with self._database.reported("versions of rows"):
            return row_versions.is_any_there(
                self._connection, self._database, self._task_id, [None, *tables]
            )

    def store_offset(self, offset: AppliedOffset, seen: AppliedOffset | None) -> None:
        self._is_empty = False
        if self._offset_table is None:
            return
        try:
            with self._database.reported(f"table {offset_table.TABLE}"):
                is_stored = offset_table.store(self._connection, self._task_id, offset, seen)
        except RowConflict:
            is_stored = False
        if is_stored:
            return
        expected = "no offset"
        if seen is not None:
            expected = f"offset {seen.next_offset}"
        raise OffsetConflict(
            f"{self._database.shown}: table {offset_table.TABLE} no longer holds {expected} of "
            f"{offset.topic_partition} for task {self._task_id}: another process has applied "
            "records of it meanwhile; this batch was rolled back, resuming from there"
        )
