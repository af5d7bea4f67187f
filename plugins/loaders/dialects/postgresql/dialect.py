"""PostgreSQL: one statement per operation, the cells of each column as one array.

`INSERT ... SELECT FROM unnest(arrays)` is fastest for small batches. Many rows that are new at the
source are copied straight into the table, in less than half the time. Thousands of other rows are
copied into a temporary table and merged from it, in a sixth less time.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import psycopg
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from cdcbus.plugins.contracts import TableBatch, TargetTable, Writes, ZeroDate
from cdcbus.plugins.errors import TargetTableUnfit
from cdcbus.plugins.loaders.cells.arrow_rows import ColumnRows
from cdcbus.plugins.loaders.dialect import (
    Cells,
    Diagnosis,
    Statement,
    Upserted,
    assigned,
    can_insert,
    check_hits,
    nulls_of,
    refuse_orphans,
    run_plain,
)
from cdcbus.plugins.loaders.dialects.postgresql.catalog import CATALOG, COARSE, DEFAULT, INSERTED
from cdcbus.plugins.loaders.dialects.postgresql.cells import arrays, coerced, copied_rows
from cdcbus.plugins.loaders.dialects.postgresql.errors import (
    OF_ROW,
    diagnose,
    is_read_only,
    naming,
)
from cdcbus.plugins.loaders.dialects.postgresql.sql import (
    COPIED,
    QUOTED,
    compared_cells,
    copy_sql,
    delete_sql,
    distinct_sql,
    insert_missing_sql,
    insert_sql,
    is_by_locale,
    locked_sql,
    merge_sqls,
    settable,
    spelled_sql,
    swap_sql,
    truncate_sql,
    update_sql,
    upsert_sql,
    widen_sqls,
)
from cdcbus.plugins.loaders.dialects.preview import previewed
from cdcbus.plugins.rowchange import Cell

LOG = logging.getLogger(__name__)
COPY_ROWS: Final = 500
"""For fewer rows the array statement is as fast."""
MERGE_ROWS: Final = 5000
"""For fewer rows a temporary table does not pay off."""
MANY_ROWS: Final = 1000
"""From this many on, PostgreSQL may estimate that scanning the whole table is cheaper than looking
up each row by its key. With its default page cost, meant for spinning disks, it did so for 19,000
rows of 1.3 million, and took four to nine times as long."""
NEAR_PAGES: Final = "SET LOCAL random_page_cost = 1.1"
KEYS_ARE_ACTING: Final = "SELECT current_setting('session_replication_role') <> 'replica'"
NO_COLUMN: Final = "42703"
NO_TRUNCATE: Final = ("0A000", "55006")
"""Other tables have foreign keys to the table; the checks of deferred ones of its own are due."""


class Postgresql:
    """Writes to PostgreSQL 12 and later."""

    name = "postgresql"
    catalog = CATALOG

    def __init__(self, zero_date: ZeroDate = ZeroDate.REJECT) -> None:
        self._zero_date = zero_date
        self._reported: set[tuple[str, str]] = set()

    def truncate(self, connection: Connection, table: TargetTable) -> None:
        """Deletes the rows where PostgreSQL refuses a TRUNCATE, whatever rows there are: as other
        tables refer to the table, or the transaction has yet to check rows of it. Raises
        RowConflict where foreign keys would then change rows of other tables."""
        connection.exec_driver_sql("SAVEPOINT cdcbus_truncate")
        try:
            connection.exec_driver_sql(truncate_sql(table))
        except DBAPIError as error:
            if getattr(error.orig, "sqlstate", None) not in NO_TRUNCATE:
                raise
            connection.exec_driver_sql("ROLLBACK TO SAVEPOINT cdcbus_truncate")
            refuse_orphans(connection, CATALOG, table, KEYS_ARE_ACTING)
            connection.exec_driver_sql(QUOTED.delete_all(table.id))
        connection.exec_driver_sql("RELEASE SAVEPOINT cdcbus_truncate")

    def delete(
        self, connection: Connection, table: TargetTable, keys: Sequence[tuple[Cell, ...]]
    ) -> int:
        cells = self._arrays(table, table.key, keys)
        return self._changed_by_key(connection, delete_sql(table), cells, len(keys))

    def upsert(self, connection: Connection, table: TargetTable, writes: Writes) -> Upserted:
        if not writes.expected:
            stored = self._upsert(connection, table, writes)
            return Upserted(0, self._left_out(connection, table, writes, stored))
        if len(writes.rows) == 1:
            # one statement is enough if the row exists
            if self.update(connection, table, writes):
                return Upserted(0)
            stored = self._upsert(connection, table, writes)
            left_out = self._left_out(connection, table, writes, stored)
            return Upserted(1 - left_out, left_out)
        # the server counts for the transaction, which may have inserted rows before
        before = self._inserted(connection, table)
        stored = self._upsert(connection, table, writes)
        inserted = self._inserted(connection, table) - before
        return Upserted(inserted, self._left_out(connection, table, writes, stored))

    def _left_out(
        self, connection: Connection, table: TargetTable, writes: Writes, stored: int
    ) -> int:
        """The number of rows that a trigger has left out, if `stored` were stored. If the rows have
        only columns that an update does not set, existing rows count as stored."""
        sets_nothing = bool(table.key) and set(assigned(table, writes.columns)) <= set(table.key)
        if stored < len(writes.rows) and sets_nothing:
            stored = len(self.spelled(connection, table, writes.rows_of(table.key)))
        left_out = len(writes.rows) - stored
        if left_out > 0 and ("", str(table.id)) not in self._reported:
            self._reported.add(("", str(table.id)))
            LOG.warning(
                "target table %s has not stored %d rows, as a trigger before each row leaves them "
                "out: these count as missed",
                table.id,
                left_out,
            )
        return max(0, left_out)

    def _inserted(self, connection: Connection, table: TargetTable) -> int:
        name = COPIED.table(table.id)
        return int(connection.exec_driver_sql(INSERTED, (name,)).scalar_one())

    def _upsert(self, connection: Connection, table: TargetTable, writes: Writes) -> int:
        """Returns the number of rows updated or inserted."""
        columns = writes.columns
        rows = writes.rows
        if isinstance(rows, ColumnRows):
            stored = self._copy(connection, table, writes, rows)
            if stored is not None:
                return stored
        cells = self._arrays(table, columns, rows)
        with naming(table, columns, rows):
            if can_merge_by_key(table, columns):
                return connection.exec_driver_sql(upsert_sql(table, columns), cells).rowcount
            updated = self._changed_by_key(connection, update_sql(table, columns), cells, len(rows))
            check_hits(connection, CATALOG, table, updated, writes.expected)
            if updated >= len(rows):
                return updated
            sql = insert_missing_sql(table, columns)
            return updated + connection.exec_driver_sql(sql, cells).rowcount

    def _copy(
        self, connection: Connection, table: TargetTable, writes: Writes, rows: ColumnRows
    ) -> int | None:
        """Writes rows by COPY and returns the number updated or inserted; None if COPY does not pay
        off, or fails."""
        enough = MERGE_ROWS
        if writes.are_new:
            enough = COPY_ROWS
        if len(rows) < enough:
            return None
        columns = writes.columns
        form, text = copied_rows(table, columns, rows, self._zero_date)
        if writes.are_new and not any(is_by_locale(table.columns[name]) for name in columns):
            copy = copy_sql(COPIED.table(table.id), columns, form)
            copied = self._copied(connection, [copy], text)
            if copied is not None:
                return copied
        if len(rows) >= MERGE_ROWS and can_merge_by_key(table, columns):
            return self._copied(connection, merge_sqls(table, columns, form), text)
        return None

    def _changed_by_key(
        self, connection: Connection, sql: str, cells: tuple[str, ...], count: int
    ) -> int:
        """Runs a statement that finds `count` rows by their keys; returns how many exist."""
        if count >= MANY_ROWS:
            connection.exec_driver_sql(NEAR_PAGES)
        result = connection.exec_driver_sql(sql, cells)
        return int(result.scalar_one()) if result.returns_rows else result.rowcount

    def _copied(self, connection: Connection, statements: Sequence[str], text: bytes) -> int | None:
        """Runs the statements and returns the number of rows written; a COPY among them reads the
        text. Returns None, with nothing done, if they fail: existing rows, a cell that does not
        fit, a view, no right to create temporary tables. The slower statement then writes the rows,
        or reports the error."""
        stored = 0
        # SQLAlchemy has no COPY
        driver: Any = connection.connection.driver_connection
        connection.exec_driver_sql("SAVEPOINT cdcbus_copy")
        try:
            with driver.cursor() as cursor:
                for sql in statements:
                    if sql.startswith("COPY "):
                        with cursor.copy(sql) as copy:
                            copy.write(text)
                    else:
                        cursor.execute(sql)
                    # the last of these writes to the table itself
                    if sql.startswith(("COPY ", "INSERT ")):
                        stored = cursor.rowcount
        except psycopg.Error as error:
            connection.exec_driver_sql("ROLLBACK TO SAVEPOINT cdcbus_copy")
            self._warn_of_slow(error, statements[0])
            return None
        connection.exec_driver_sql("RELEASE SAVEPOINT cdcbus_copy")
        return stored

    def _warn_of_slow(self, error: psycopg.Error, sql: str) -> None:
        """Logs each reason once, except errors of rows: the slower statement reports these, if they
        occur again."""
        state = error.sqlstate or ""
        if not state.startswith(OF_ROW) and (state, sql) not in self._reported:
            self._reported.add((state, sql))
            LOG.warning(
                "rows are not copied but written by slower statements: %s, as PostgreSQL refuses: "
                "%s",
                diagnose(error, ()).text,
                sql,
            )

    def update(self, connection: Connection, table: TargetTable, writes: Writes) -> int:
        cells = self._arrays(table, writes.columns, writes.rows)
        with naming(table, writes.columns, writes.rows):
            hit = self._changed_by_key(
                connection, update_sql(table, writes.columns), cells, len(writes.rows)
            )
        check_hits(connection, CATALOG, table, hit, len(writes.rows))
        return hit

    def insert(self, connection: Connection, table: TargetTable, writes: Writes) -> int:
        cells = self._arrays(table, writes.columns, writes.rows)
        with naming(table, writes.columns, writes.rows):
            stored = connection.exec_driver_sql(insert_sql(table, writes.columns), cells).rowcount
        return len(writes.rows) - self._left_out(connection, table, writes, stored)

    def swap(
        self,
        connection: Connection,
        table: TargetTable,
        columns: Sequence[str],
        old: Cells,
        new: Cells | None,
    ) -> int:
        before = self._row(table, columns, old)
        nulls = nulls_of(columns, before)
        parameters: list[Cell] = []
        for name, cell in zip(columns, before, strict=True):
            if cell is not None:
                parameters += compared_cells(table.columns[name], cell)
        if new is not None:
            cells = dict(zip(columns, new, strict=True))
            names = settable(table, columns)
            parameters[:0] = self._row(table, names, [cells[name] for name in names])
        sql = swap_sql(table, columns, nulls, is_update=new is not None)
        with naming(table, columns, [new or old]), _explaining_views(table):
            return connection.exec_driver_sql(sql, tuple(parameters)).rowcount

    def locked(
        self,
        connection: Connection,
        table: TargetTable,
        keys: Sequence[Cells],
        columns: Sequence[str],
    ) -> Iterator[tuple[int, tuple[Any, ...]]]:
        numbers = ",".join(map(str, range(len(keys))))
        cells = (*self._arrays(table, table.key, keys), f"{{{numbers}}}")
        for number, *row in connection.exec_driver_sql(locked_sql(table, columns), cells):
            yield number, tuple(row)

    def is_coarse(self, connection: Connection, table: TargetTable) -> bool:
        return bool(connection.exec_driver_sql(COARSE, (*table.id, list(table.key))).scalar())

    def spelled(
        self, connection: Connection, table: TargetTable, keys: Sequence[tuple[Cell, ...]]
    ) -> list[tuple[Cell, ...]]:
        found = connection.exec_driver_sql(spelled_sql(table), self._arrays(table, table.key, keys))
        return list(map(tuple, found))

    def is_any_alike(
        self, connection: Connection, table: TargetTable, keys: Sequence[tuple[Cell, ...]]
    ) -> bool:
        cells = self._arrays(table, table.key, keys)
        distinct = connection.exec_driver_sql(distinct_sql(table), cells).scalar_one()
        return int(distinct) < len(keys)

    def preview(self, batch: TableBatch) -> Iterator[Statement]:
        table = batch.table
        return previewed(
            batch,
            truncate=truncate_sql(table),
            delete=delete_sql(table),
            written=lambda writes: _preview_writes(table, writes),
            swap=lambda columns, old, is_update: _preview_swap(table, columns, old, is_update),
            insert=lambda columns: insert_sql(table, columns),
        )

    def widen(self, connection: Connection, table: TargetTable, column: str, type_: str) -> None:
        default = connection.exec_driver_sql(DEFAULT, (*table.id, column)).scalar()
        for sql in widen_sqls(table, column, type_, default):
            run_plain(connection, sql)

    def diagnose(self, error: BaseException, columns: Collection[str]) -> Diagnosis:
        return diagnose(error, tuple(columns))

    def is_read_only(self, error: BaseException) -> bool:
        return is_read_only(error)

    def _arrays(
        self, table: TargetTable, columns: Sequence[str], rows: Iterable[Cells]
    ) -> tuple[str, ...]:
        return arrays(table, columns, rows, self._zero_date)

    def _row(self, table: TargetTable, columns: Sequence[str], row: Sequence[Cell]) -> Cells:
        found: list[Cell] = []
        for name, cell in zip(columns, row, strict=True):
            found += coerced(table, table.columns[name], [cell], self._zero_date)
        return tuple(found)


@contextmanager
def _explaining_views(table: TargetTable) -> Iterator[None]:
    """Explains the error of `swap_sql` for a view, which lacks the columns that each table has."""
    try:
        yield
    except DBAPIError as error:
        cause: Any = error.orig
        if cause.sqlstate != NO_COLUMN or "tableoid" not in cause.diag.message_primary:
            raise
        raise TargetTableUnfit(
            f"target table {table.id} is a view, of which no key is known, and only a table's row "
            "can be updated or deleted without one: let the task write to the table that it shows "
            "(mapper[i].schema and .table)"
        ) from error


def can_merge_by_key(table: TargetTable, columns: Sequence[str]) -> bool:
    """Whether ON CONFLICT can be used: not with a deferrable key."""
    return can_insert(table, columns) and not table.is_key_deferrable


def _preview_writes(table: TargetTable, writes: Writes) -> Iterator[Statement]:
    count = len(writes.rows)
    if writes.may_insert and can_merge_by_key(table, writes.columns):
        yield Statement(upsert_sql(table, writes.columns), count)
        return
    yield Statement(update_sql(table, writes.columns), count)
    if writes.may_insert:
        yield Statement(insert_missing_sql(table, writes.columns), count)


def _preview_swap(table: TargetTable, columns: Sequence[str], old: Cells, is_update: bool) -> str:
    return swap_sql(table, columns, nulls_of(columns, old), is_update=is_update)
