"""`JdbcBatch` and `JdbcSingle`: load rows into a SQL database, each batch in one transaction with
the offset it ends at."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from socket import gethostname
from threading import Lock
from time import monotonic

from sqlalchemy import Connection

from cdcbus.plugins.contracts import (
    AppliedOffset,
    CascadingKey,
    LoadTransaction,
    OffsetTable,
    TargetColumn,
    TargetTable,
)
from cdcbus.plugins.errors import (
    OffsetConflict,
    TargetError,
    TargetMisconfigured,
    TargetRejected,
    TargetTableUnfit,
    TargetUnavailable,
    UnsafeOffsetTable,
)
from cdcbus.plugins.loaders import offset_table, row_versions
from cdcbus.plugins.loaders.add_column import add_column
from cdcbus.plugins.loaders.catalog import (
    cascading_keys,
    folds_names,
    keys_of,
    reflect,
    with_hidden,
)
from cdcbus.plugins.loaders.dialect import QUOTING, run_plain
from cdcbus.plugins.loaders.engine import Database
from cdcbus.plugins.loaders.identity.known_tables import KnownTables
from cdcbus.plugins.loaders.marking import Marking
from cdcbus.plugins.loaders.schema_evolution import lacking, too_narrow
from cdcbus.plugins.loaders.transaction import JdbcTransaction
from cdcbus.plugins.rowchange import Column, TableId
from cdcbus.plugins.transform.selectors import lowered

LOG = logging.getLogger(__name__)
OFFSET_TABLE = f"table {offset_table.TABLE}"
"""For errors: what they are about."""
KEYS_EACH_SECONDS, KEYS_SHARE = 30.0, 100
"""Between two readings of all foreign keys, and how many times as long as one takes."""


class JdbcBatch:
    """A Loader. Connects at first use."""

    is_merging = True
    is_dry_run = False

    def __init__(self, database: Database, task_id: str) -> None:
        self._database = database
        self._task_id = task_id
        # The last table whose turn it was to forget versions.
        self._pruned = ""
        self._tables: dict[TableId, TargetTable] = {}
        # All keys of the target, and whether it takes names that differ in case for one.
        self._cascades: tuple[list[CascadingKey], bool] | None = None
        # When their reading began, when the next one is due, and when one was asked for.
        self._cascades_began, self._cascades_due, self._cascades_asked = 0.0, 0.0, 0.0
        # How often a reading differed from the one before.
        self._cascade_changes = 0
        self._keeping = Lock()
        self._coarse: dict[TableId, bool] = {}
        # with the key that the target table had
        self._version_tables: dict[TableId, tuple[list[TargetColumn], TargetTable]] = {}
        self._offset_table: TargetTable | None = None
        self._is_offset_table_open = False
        self._offset_table_lock = Lock()
        self._evolving = Lock()
        self._marking = Marking(database)
        self._known = KnownTables(database, task_id)

    def table(self, name: TableId) -> TargetTable | None:
        """The table, cached once found; a missing one is looked up again each time."""
        if (known := self._tables.get(name)) is not None:
            return known
        while True:
            changes = self._cascade_changes
            found = self._reflected(name)
            if found is None:
                return None
            with self._keeping:
                # Else it may have been read with the keys before.
                if self._cascade_changes == changes:
                    # One object under all names by which it is asked for, as plans are kept by
                    # identity.
                    found = self._tables[name] = self._tables.setdefault(found.id, found)
                    return found

    def _reflected(self, name: TableId) -> TargetTable | None:
        database = self._database
        with database.connected(f"table {name}") as connection:
            catalog = database.dialect.catalog
            table = reflect(connection, catalog, database.dialect.name, name)
            if table is None:
                return None
            keys, is_folding = self._keys(connection)
        return replace(table, cascades=keys_of(table.id, keys, is_folding=is_folding))

    def _keys(self, connection: Connection) -> tuple[list[CascadingKey], bool]:
        """All foreign keys with an action, and whether names that differ in case are one table."""
        known = self._cascades
        now = monotonic()
        is_asked = self._cascades_asked >= self._cascades_began
        if known is not None and now < self._cascades_due and not is_asked:
            return known
        catalog = self._database.dialect.catalog
        # Of all tables at once, as MariaDB opens each table of the server to answer.
        keys, is_folding = cascading_keys(connection, catalog), folds_names(connection, catalog)
        # What follows can wait for DDL, which does not count.
        pause = max(KEYS_EACH_SECONDS, KEYS_SHARE * (monotonic() - now))
        if known is not None and not set(keys).issuperset(known[0]):
            connection.rollback()  # a lock that is held while others are awaited can be a deadlock
            keys = with_hidden(connection, catalog, keys, known[0])
        with self._keeping:
            known = self._cascades
            if known is not None and self._cascades_began > now:
                return known  # another thread's, which is newer
            self._cascades = keys, is_folding
            self._cascades_began, self._cascades_due = now, now + pause
            if known is not None and (changed := {*known[0]} ^ {*keys}):
                # Their tables are known without a key that came, or with one that went.
                self._cascade_changes += 1
                names = {lowered(each) for key in changed for each in (key.child, key.parent)}
                for table in list(self._tables.values()):
                    if lowered(table.id) in names:
                        self._forget(table.id)
        return keys, is_folding

    def is_one_table(self, names: Collection[TableId]) -> bool:
        """Whether rows of names that differ in case only would come into one table: only one is
        there, or the server takes them for one. Raises TargetError, ConfigError."""
        found = {table.id for table in map(self.table, names) if table}
        if not found:
            return False
        database = self._database
        with database.connected("names of tables") as connection:
            return len(found) == 1 or folds_names(connection, database.dialect.catalog)

    def refresh(self, name: TableId) -> None:
        """Drops a table from the cache, under every spelling that it was asked for by."""
        # What is known of keys is kept, as the next reading is compared with it.
        self._cascades_asked = monotonic()
        self._forget(name)

    def _forget(self, name: TableId) -> None:
        known = list(self._tables.items())  # a copy: other partitions may add to it
        ids = {name, *(table.id for wanted, table in known if wanted == name)}
        for wanted, table in known:
            if table.id in ids:
                self._tables.pop(wanted, None)
                self._coarse.pop(table.id, None)
        for own, (_, versions) in list(self._version_tables.items()):
            if name == versions.id:
                self._version_tables.pop(own, None)

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
                # another task may have made the same change a moment before
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
        self.refresh(table.id)
        found = self.table(table.id)
        if found is not None:
            return found
        raise TargetRejected(f"{self._database.shown}: target table {table.id} no longer exists")

    def _alter(self, table: TargetTable, columns: Sequence[Column]) -> None:
        database = self._database
        for column in lacking(table, columns):
            sql = add_column(table, column)
            with database.begun(f"new column {column.name} of table {table.id}") as connection:
                run_plain(connection, sql)
            LOG.warning(
                "task %s: loader.schemaChange=evolve has changed the target: %s%s",
                self._task_id,
                sql,
                "; records do not name the source's type, which may hold less"
                if column.is_bound
                else "",
            )
            if self._has_rows(table):
                self._warn_of_old_rows(table, column.name)
        for name, type_ in too_narrow(table, columns).items():
            with database.begun(f"column {name} of table {table.id}") as connection:
                database.dialect.widen(connection, table, name, type_)
            LOG.warning(
                "task %s: loader.schemaChange=evolve has made column %s of target table %s %s",
                self._task_id,
                name,
                table.id,
                type_,
            )

    def _has_rows(self, table: TargetTable) -> bool:
        first = "LIMIT 1"
        if table.dialect == "oracle":
            first = "FETCH FIRST 1 ROWS ONLY"
        sql = f"SELECT 1 FROM {QUOTING[table.dialect].table(table.id)} {first}"
        with self._database.connected(f"table {table.id}") as connection:
            return run_plain(connection, sql).first() is not None

    def _warn_of_old_rows(self, table: TargetTable, column: str) -> None:
        """Older rows lack the value that the source gave them by the column's DEFAULT: it is in no
        record."""
        quoting = QUOTING[table.dialect]
        LOG.warning(
            "task %s: rows that target table %s had before hold NULL in its new column %s. "
            "Where the source's column has a DEFAULT, they hold it there: run at the target "
            "UPDATE %s SET %s = (that default) WHERE %s IS NULL",
            self._task_id,
            table.id,
            column,
            quoting.table(table.id),
            quoting.name(column),
            quoting.name(column),
        )

    def is_coarse(self, table: TargetTable) -> bool:
        if not table.key:
            return False
        if (known := self._coarse.get(table.id)) is not None:
            return known
        with self._database.connected(f"table {table.id}") as connection:
            found = self._database.dialect.is_coarse(connection, table)
        self._coarse[table.id] = found
        return found

    def version_table(self, table: TargetTable, *, make: bool) -> TargetTable | None:
        known_key, known = self._version_tables.get(table.id, (None, None))
        if known_key == table.key_columns:
            return known
        with self._database.reported(f"versions of rows of table {table.id}"):
            found = row_versions.find(self._database, self._task_id, table)
            if not make:
                return found
            if found is not None:
                found = row_versions.fit(self._database, self._task_id, table, found)
            else:
                found = row_versions.make(self._database, self._task_id, table)
                LOG.warning(
                    "task %s: changes of one row of target table %s come in several Kafka "
                    "partitions: table %s keeps which is the newest",
                    self._task_id,
                    table.id,
                    row_versions.name_of(self._task_id, table),
                )
        if found is not None:
            self._version_tables[table.id] = table.key_columns, found
        return found

    def scatter(self) -> bool:
        self._database.open_first()
        with self._database.reported("versions of rows"):
            return row_versions.make_every(self._database, self._task_id)

    def is_scattered(self) -> bool:
        database = self._database
        with database.connected("versions of rows") as connection:
            if database.schema is None:
                return False  # no place for them
            return row_versions.is_any_there(connection, database, self._task_id, [None])

    def forget_versions(self, before_ms: Callable[[], int]) -> None:
        with self._database.reported("versions of rows"):
            row_versions.prune(
                self._database, self._task_id, before_ms, self._pruned, self._note_pruned
            )

    def _note_pruned(self, table: str) -> None:
        self._pruned = table

    @contextmanager
    def transaction(self) -> Iterator[LoadTransaction]:
        with self._own_tables():
            table = self._open_offset_table()
            self._marking.prepare()
            with self._database.begun("transaction") as connection:
                self._marking.begin(connection)
                transaction = JdbcTransaction(
                    self._database, connection, self._task_id, table, self.refresh
                )
                yield transaction
            for batch, counts in transaction.batches:
                self._known.saw(batch, counts)

    def lost_tables(self) -> list[str]:
        tables = {table.id: table for table in list(self._tables.values())}
        return self._known.look(tables)

    def accept_tables(self) -> None:
        self._known.forget()

    def forget_rows(self) -> None:
        self._known.forget_rows()

    def applied_offsets(self, partition: tuple[str, int] | None = None) -> list[AppliedOffset]:
        table = self._open_offset_table()
        if table is None:
            return []
        with self._own_tables(), self._database.connected(OFFSET_TABLE) as connection:
            return offset_table.load(connection, self._task_id, table, partition)

    def counts(self) -> dict[int, AppliedOffset]:
        """By reader, how much a direct load of the task has committed here; empty also where the
        target keeps no offsets."""
        table = self._open_offset_table()
        if table is None:
            return {}
        with self._own_tables(), self._database.connected(OFFSET_TABLE) as connection:
            return offset_table.counts(connection, self._task_id, table)

    def fence(self) -> list[AppliedOffset] | None:
        table = self._open_offset_table()
        if table is None:
            return None
        self._marking.prepare()
        with self._own_tables(), self._database.begun(OFFSET_TABLE) as connection:
            self._marking.begin(connection)
            offset_table.fence(connection, self._task_id)
            return offset_table.load(connection, self._task_id, table)

    def offset_table(self) -> OffsetTable:
        # so that a refused login is not blamed on this table
        with self._database.connected("login"):
            pass
        with self._database.reported(OFFSET_TABLE):
            try:
                table = offset_table.find_table(self._database)
            except TargetMisconfigured:
                return OffsetTable(False, False)  # no database for it: a start works without it
        with self._database.connected(OFFSET_TABLE) as connection:
            if table is None:
                dialect = self._database.dialect
                return OffsetTable(False, offset_table.may_create(connection, dialect))
            applied = offset_table.load(connection, self._task_id, table)
            return OffsetTable(True, True, applied)

    def end_other_sessions(self) -> None:
        # A take-over looks where the address leads now: open connections stay with their server.
        self._database.engine.dispose()
        self._database.end_other_sessions()

    def close(self) -> None:
        self._database.engine.dispose()

    @contextmanager
    def _own_tables(self) -> Iterator[None]:
        """Opens the tables of offsets and marks anew after an error of a table: somebody may have
        dropped them. An empty table of offsets then shows that the target has none. Connects anew
        after an offset that nobody has stored here."""
        try:
            yield
        except TargetTableUnfit:
            with self._offset_table_lock:
                # One that could not be created was not dropped either.
                if self._offset_table is not None:
                    self._is_offset_table_open = False
            self._marking.forget()
            raise
        except OffsetConflict:
            # Connections to two servers, of which the address leads to one, would differ forever.
            self._database.engine.dispose()
            raise

    def _open_offset_table(self) -> TargetTable | None:
        """Opens the table, once unless the target is unavailable. Returns None if it cannot be
        created: repeated batches are harmless, as they are upserts. Raises TargetMisconfigured then
        where the driver keeps offsets, as servers can give an account other rights from each host:
        rows without an offset would not be fenced, and the driver would expect one."""
        with self._offset_table_lock:
            if self._is_offset_table_open:
                return self._offset_table
            self._database.open_first()  # so that a refused login is not blamed on this table
            try:
                with self._database.reported(OFFSET_TABLE):
                    self._offset_table = offset_table.open_table(self._database)
            except (TargetUnavailable, UnsafeOffsetTable, offset_table.OldOffsetTable):
                raise
            except TargetError as error:
                if self._database.target.needs_offsets:
                    raise TargetMisconfigured(
                        f"{error}; the driver of task {self._task_id} keeps offsets in this table, "
                        f"and its executor on host {gethostname()} finds no such table: give the "
                        "task's account the same rights from this host as from the driver's"
                    ) from error
                LOG.warning("task %s keeps no offsets in the target: %s", self._task_id, error)
            self._is_offset_table_open = True
            return self._offset_table


class JdbcSingle(JdbcBatch):
    """Like JdbcBatch, but row by row in source order."""

    is_merging = False
