"""`JdbcBatch` and `JdbcSingle`: load rows into a SQL database, each batch in one transaction with
the offset it ends at."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from threading import Lock

from sqlalchemy import Connection

from cdcbus.plugins.contracts import (
    VERSION,
    AppliedOffset,
    Counts,
    KnownRow,
    LoadTransaction,
    Moves,
    OffsetTable,
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
    UnsafeOffsetTable,
)
from cdcbus.plugins.loaders import offset_table, row_versions
from cdcbus.plugins.loaders.add_column import add_column
from cdcbus.plugins.loaders.catalog import reflect
from cdcbus.plugins.loaders.cells.equal_keys import (
    are_plain,
    as_spelled,
    folds,
    refuse_alike,
    refuse_others,
    refuse_rounded,
    texts_of,
)
from cdcbus.plugins.loaders.dialect import QUOTING, Cells
from cdcbus.plugins.loaders.engine import Database
from cdcbus.plugins.loaders.marking import Marking
from cdcbus.plugins.loaders.schema_evolution import lacking, too_narrow
from cdcbus.plugins.loaders.sessions import POOLED
from cdcbus.plugins.rowchange import Column, TableId

LOG = logging.getLogger(__name__)
GONE_LOOKS, GONE_SECONDS = 10, 0.1


class JdbcBatch:
    """A Loader. Connects at first use."""

    is_merging = True
    is_dry_run = False

    def __init__(self, database: Database, task_id: str) -> None:
        self._database = database
        self._task_id = task_id
        self._tables: dict[TableId, TargetTable] = {}
        self._coarse: dict[TableId, bool] = {}
        self._version_tables: dict[str, TargetTable] = {}
        self._offset_table: TargetTable | None = None
        self._is_offset_table_open = False
        self._offset_table_lock = Lock()
        self._evolving = Lock()
        self._marking = Marking(database)

    def table(self, name: TableId) -> TargetTable | None:
        """The table, cached once found; a missing one is looked up again each time."""
        if (known := self._tables.get(name)) is not None:
            return known
        if (found := self._reflected(name)) is not None:
            self._tables[name] = found
        return found

    def _reflected(self, name: TableId) -> TargetTable | None:
        database = self._database
        with database.reported(f"table {name}"), database.engine.connect() as connection:
            return reflect(connection, database.dialect.catalog, database.dialect.name, name)

    def refresh(self, name: TableId) -> None:
        """Drops a table from the cache, under every spelling that it was asked for by."""
        for wanted, table in list(self._tables.items()):  # a copy: other partitions may add to it
            if name in (wanted, table.id):
                self._tables.pop(wanted, None)
                self._coarse.pop(table.id, None)

    def is_altered(self, table: TargetTable) -> bool:
        if self._reflected(table.id) == table:
            return False
        self.refresh(table.id)
        return True

    def evolve(self, table: TargetTable, columns: Sequence[Column]) -> TargetTable:
        """Runs the statements one by one, each in its own transaction, as some targets commit with
        each."""
        with self._evolving:
            table = self._fresh(table)
            while lacking(table, columns) or too_narrow(table, columns):
                before = table
                error: TargetError | None = None
                try:
                    self._alter(table, columns)
                except (TargetRejected, TargetTableUnfit) as refused:
                    error = refused
                table = self._fresh(table)
                # nobody else has changed it meanwhile, so another attempt would not help
                if table == before:
                    if error:
                        raise error
                    break
            return table

    def _fresh(self, table: TargetTable) -> TargetTable:
        for _ in range(GONE_LOOKS):
            self.refresh(table.id)
            found = self.table(table.id)
            if found is not None:
                return found
            time.sleep(GONE_SECONDS)  # MariaDB hides it while another session alters it
        raise TargetRejected(f"{self._database.shown}: target table {table.id} no longer exists")

    def _alter(self, table: TargetTable, columns: Sequence[Column]) -> None:
        database = self._database
        for column in lacking(table, columns):
            with (
                database.reported(f"new column {column.name} of table {table.id}"),
                database.engine.begin() as connection,
            ):
                connection.exec_driver_sql(
                    sql := add_column(table, column), execution_options={"no_parameters": True}
                )
            LOG.warning(
                "task %s: loader.schemaChange=evolve has changed the target: %s", self._task_id, sql
            )
            self._tell_old_rows(table, column.name)
        for name, type_ in too_narrow(table, columns).items():
            with (
                database.reported(f"column {name} of table {table.id}"),
                database.engine.begin() as connection,
            ):
                database.dialect.widen(connection, table, name, type_)
            LOG.warning(
                "task %s: loader.schemaChange=evolve has made column %s of target table %s %s",
                self._task_id,
                name,
                table.id,
                type_,
            )

    def _tell_old_rows(self, table: TargetTable, column: str) -> None:
        """Warns that older rows lack the value that the source gave them by the column's DEFAULT:
        it is in no record."""
        quoting = QUOTING[table.dialect]
        name, first = (
            quoting.table(table.id),
            "FETCH FIRST 1 ROWS ONLY" if table.dialect == "oracle" else "LIMIT 1",
        )
        with (
            self._database.reported(f"table {table.id}"),
            self._database.engine.connect() as connection,
        ):
            found = connection.exec_driver_sql(
                f"SELECT 1 FROM {name} {first}", execution_options={"no_parameters": True}
            ).first()
        if found:
            LOG.warning(
                "task %s: rows that target table %s had before hold NULL in its new column %s. "
                "Where the source's column has a DEFAULT, "
                "they hold it there: run at the target UPDATE %s SET %s = (that default) WHERE %s "
                "IS NULL",
                *(
                    self._task_id,
                    table.id,
                    column,
                    name,
                    quoting.name(column),
                    quoting.name(column),
                ),
            )

    def is_coarse(self, table: TargetTable) -> bool:
        if (known := self._coarse.get(table.id)) is not None:
            return known
        database = self._database
        with database.reported(f"table {table.id}"), database.engine.connect() as connection:
            found = self._coarse[table.id] = bool(table.key) and database.dialect.is_coarse(
                connection, table
            )
        return found

    def version_table(self, table: TargetTable, *, make: bool) -> TargetTable | None:
        name = row_versions.name_of(self._task_id, table)
        if (known := self._version_tables.get(name)) is not None:
            return known
        with self._database.reported(f"versions of rows of table {table.id}"):
            found = row_versions.find(self._database, self._task_id, table)
            if found is None and make:
                found = row_versions.make(self._database, self._task_id, table)
                LOG.warning(
                    "task %s: changes of one row of target table %s come in several Kafka "
                    "partitions: table %s keeps which is the newest",
                    *(self._task_id, table.id, name),
                )
        if found is not None:
            self._version_tables[name] = found
        return found

    def scatter(self) -> bool:
        self._database.open_first()
        with self._database.reported("versions of rows"):
            return row_versions.make_every(self._database, self._task_id)

    def is_scattered(self) -> bool:
        with (
            self._database.reported("versions of rows"),
            self._database.engine.connect() as connection,
        ):
            return row_versions.is_any_there(connection, self._database, self._task_id, [None])

    def forget_versions(self, before_ms: int) -> None:
        with self._database.reported("versions of rows"):
            row_versions.prune(self._database, self._task_id, before_ms)

    @contextmanager
    def transaction(self) -> Iterator[LoadTransaction]:
        offset_table = self._open_offset_table()
        self._marking.prepare()
        with self._database.reported("transaction"), self._database.engine.begin() as connection:
            self._marking.begin(connection)
            yield JdbcTransaction(
                self._database, connection, self._task_id, offset_table, self.refresh
            )

    def applied_offsets(self) -> list[AppliedOffset]:
        if (table := self._open_offset_table()) is None:
            return []
        with (
            self._database.reported(f"table {offset_table.TABLE}"),
            self._database.engine.connect() as connection,
        ):
            return offset_table.load(connection, self._task_id, table)

    def fence(self) -> list[AppliedOffset] | None:
        if (table := self._open_offset_table()) is None:
            return None
        self._marking.prepare()
        with (
            self._database.reported(f"table {offset_table.TABLE}"),
            self._database.engine.begin() as connection,
        ):
            self._marking.begin(connection)
            offset_table.fence(connection, self._task_id)
            return offset_table.load(connection, self._task_id, table)

    def offset_table(self) -> OffsetTable:
        with self._database.reported("login"), self._database.engine.connect():
            pass
        with self._database.reported(f"table {offset_table.TABLE}"):
            try:
                table = offset_table.find_table(self._database)
            except TargetMisconfigured:
                return OffsetTable(False, False)  # no database for it: a start works without it
            with self._database.engine.connect() as connection:
                if table:
                    return OffsetTable(
                        True, True, offset_table.load(connection, self._task_id, table)
                    )
                return OffsetTable(
                    False, offset_table.may_create(connection, self._database.dialect)
                )

    def end_other_sessions(self) -> None:
        self._database.end_other_sessions()

    def close(self) -> None:
        self._database.engine.dispose()

    def _open_offset_table(self) -> TargetTable | None:
        """Opens the table, once unless the target is unavailable. Returns None if it cannot be
        created: repeated batches are harmless, as they are upserts."""
        with self._offset_table_lock:
            if not self._is_offset_table_open:
                self._database.open_first()  # so that a refused login is not blamed on this table
                try:
                    with self._database.reported(f"table {offset_table.TABLE}"):
                        self._offset_table = offset_table.open_table(self._database)
                except (TargetUnavailable, UnsafeOffsetTable, offset_table.OldOffsetTable):
                    raise
                except TargetError as error:
                    LOG.warning("task %s keeps no offsets in the target: %s", self._task_id, error)
                self._is_offset_table_open = True
            return self._offset_table


class JdbcSingle(JdbcBatch):
    """Like JdbcBatch, but row by row in source order."""

    is_merging = False


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

    def write(self, batch: TableBatch) -> Counts:
        table, dialect, connection = batch.table, self._database.dialect, self._connection
        counts, taken = Counts(), RowConflict if batch.table.id in self._freed else TargetRejected
        with self._reported(table, table.key):
            if batch.truncate:
                dialect.truncate(connection, table)
            # checked first: deleting a row that the batch also inserted could hit another row
            if batch.fresh:
                refuse_rounded(table, dialect.spelled(connection, table, batch.fresh), taken)
            if batch.deletes:
                keys = batch.deletes
                if folds(table):
                    keys = as_spelled(table, keys, dialect.spelled(connection, table, keys))
                counts.deleted = dialect.delete(connection, table, keys) if keys else 0
                counts.missed = batch.missed(counts.deleted)
        if batch.moves:
            with self._reported(table, table.key):
                counts.add(self._move(table, batch.moves))
        for writes in batch.writes:
            with self._reported(table, writes.columns):
                if folds(table) and not batch.respells:
                    keys = [
                        tuple(row[writes.columns.index(name)] for name in table.key)
                        for row in writes.rows
                    ]
                    refuse_others(table, keys, dialect.spelled(connection, table, keys), taken)
                    if (
                        len(keys) > 1
                        and not are_plain(table, keys)
                        and dialect.is_any_alike(connection, table, keys)
                    ):
                        refuse_alike(table)
                if writes.may_insert:
                    inserted, left_out = dialect.upsert(connection, table, writes)
                    counts.add(
                        Counts(
                            written=len(writes.rows) - left_out,
                            missed=writes.missed(inserted) + left_out,
                        )
                    )
                else:
                    hit = dialect.update(connection, table, writes)
                    counts.add(Counts(written=hit, missed=len(writes.rows) - hit))
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

    def _move(self, table: TargetTable, moves: Moves) -> Counts:
        """Gives rows their new keys. They are counted by the writes that follow."""
        dialect = self._database.dialect
        counts = Counts()
        for old, new in moves.rows:
            is_there = moves.may_repeat and any(
                True for _ in dialect.locked(self._connection, table, [new], table.key)
            )
            if is_there:
                counts.deleted += dialect.delete(self._connection, table, [old])
            else:
                dialect.swap(self._connection, table, table.key, old, new)
        return counts

    def _swap(self, table: TargetTable, swaps: Swaps) -> Counts:
        """Applies swaps: deletes and updates row by row, then inserts all new rows."""
        if self._offset_table is None:
            raise TargetMisconfigured(
                f"target table {table.id} has no key, and table {offset_table.TABLE} could not be "
                "made, so a batch that comes twice would "
                "repeat rows: give the table a primary key, or grant CREATE in the schema that "
                "the address names"
            )
        counts, coming = Counts(), list[Cells]()
        for old, new in swaps.rows:
            if old is not None and self._database.dialect.swap(
                self._connection, table, swaps.columns, old, new
            ):
                counts.add(Counts(deleted=1) if new is None else Counts(written=1))
                continue
            counts.missed += old is not None
            if new is not None and (old is None or swaps.may_insert):
                coming.append(new)
        if coming:
            taken = self._database.dialect.insert(
                self._connection, table, Writes(swaps.columns, coming)
            )
            counts.add(Counts(written=taken, missed=len(coming) - taken))
        return counts

    @contextmanager
    def savepoint(self) -> Iterator[None]:
        """Uses plain statements: SQLAlchemy's own take longer than the single row that a savepoint
        often protects. At the beginning of a transaction it uses none, as a rollback of all of it
        is equivalent: that saves two of the six round trips that a row waits for."""
        if self._is_empty:
            with self._from_beginning():
                yield
            return
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
        rows = (
            locked.get(place, (*key, 0, row_versions.NO_PLACE)) for place, key in enumerate(keys)
        )
        return [
            KnownRow(repr(row), row_versions.version(came_ms, place), texts(tuple(row)))
            for *row, came_ms, place in rows
        ]

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
        if not is_stored:
            expected = "no offset" if seen is None else f"offset {seen.next_offset}"
            raise OffsetConflict(
                f"{self._database.shown}: table {offset_table.TABLE} no longer holds {expected} of "
                f"{offset.topic_partition} for task "
                f"{self._task_id}: another process has applied records of it meanwhile; this "
                "batch was rolled back, resuming from there"
            )
