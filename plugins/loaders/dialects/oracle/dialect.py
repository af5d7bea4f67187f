"""Oracle: MERGE with the rows as array binds, each cell as the driver's own type, so that no
session setting changes its meaning.

An empty text is NULL in Oracle. In a text column that is NOT NULL it becomes one blank, like
porter's: the source's '' is a value.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any, Final

from sqlalchemy import Connection

from cdcbus.plugins.contracts import TableBatch, TargetTable, Writes, ZeroDate
from cdcbus.plugins.loaders.cells.equal_keys import folds
from cdcbus.plugins.loaders.dialect import (
    Cells,
    Diagnosis,
    Statement,
    Upserted,
    assigned,
    by_column,
    check_hits,
    check_key,
    nulls_of,
)
from cdcbus.plugins.loaders.dialects.oracle.catalog import CATALOG
from cdcbus.plugins.loaders.dialects.oracle.cells import bind_type, binds
from cdcbus.plugins.loaders.dialects.oracle.errors import diagnose, is_read_only
from cdcbus.plugins.loaders.dialects.oracle.sql import (
    QUOTED,
    delete_sql,
    insert_sql,
    locked_sql,
    merge_sql,
    spelled_sql,
    swap_sql,
    update_sql,
    widen_sql,
)
from cdcbus.plugins.loaders.dialects.preview import previewed
from cdcbus.plugins.rowchange import Cell

ROWS_PER_CALL: Final = 5_000
"""Array binds of one call: enough to make the round trip negligible, few enough for the memory of
both sides."""


class Oracle:
    """Writes to Oracle 12 and later. The session is set up by `engine`."""

    name = "oracle"
    catalog = CATALOG

    def __init__(self, zero_date: ZeroDate = ZeroDate.REJECT) -> None:
        self._zero_date = zero_date

    def truncate(self, connection: Connection, table: TargetTable) -> None:
        """Uses DELETE, as TRUNCATE would commit."""
        connection.exec_driver_sql(QUOTED.delete_all(table.id))

    def delete(self, connection: Connection, table: TargetTable, keys: Sequence[Cells]) -> int:
        return self._execute(connection, delete_sql(table), table, table.key, keys)

    def upsert(self, connection: Connection, table: TargetTable, writes: Writes) -> Upserted:
        """Updates rows first if all should exist, as MERGE does not report what it has inserted."""
        count = len(writes.rows)
        inserted = 0
        if writes.expected == count:
            inserted = count - self.update(connection, table, writes)
            if not inserted:
                return Upserted(0)
        sql = merge_sql(table, writes.columns)
        hit = self._execute(connection, sql, table, writes.columns, writes.rows)
        # Fewer are hit where there is nothing to update: rows with these keys exist then.
        if hit > count:
            check_key(connection, CATALOG, table)
        return Upserted(inserted)

    def update(self, connection: Connection, table: TargetTable, writes: Writes) -> int:
        columns = (*assigned(table, writes.columns), *table.key)
        sql = update_sql(table, writes.columns)
        hit = self._execute(connection, sql, table, columns, writes.rows_of(columns))
        check_hits(connection, CATALOG, table, hit, len(writes.rows))
        return hit

    def insert(self, connection: Connection, table: TargetTable, writes: Writes) -> int:
        sql = insert_sql(table, writes.columns)
        self._execute(connection, sql, table, writes.columns, writes.rows)
        return len(writes.rows)

    def swap(
        self,
        connection: Connection,
        table: TargetTable,
        columns: Sequence[str],
        old: Cells,
        new: Cells | None,
    ) -> int:
        nulls = self._nulls(table, columns, old)
        # binds are numbered: first the new row's cells, then those of the old one that are compared
        names: list[str] = []
        row: list[Cell] = []
        if new:
            names += columns
            row += new
        for name, cell in zip(columns, old, strict=True):
            if name not in nulls:
                names.append(name)
                row.append(cell)
        sql = swap_sql(table, columns, nulls, is_update=new is not None)
        return self._execute(connection, sql, table, names, [tuple(row)])

    def locked(
        self,
        connection: Connection,
        table: TargetTable,
        keys: Sequence[Cells],
        columns: Sequence[str],
    ) -> Iterator[tuple[int, tuple[Any, ...]]]:
        return self._found(connection, locked_sql(table, columns), table, keys)

    def is_coarse(self, connection: Connection, table: TargetTable) -> bool:
        types = {column.type for column in table.key_columns}
        return folds(table) or not types.isdisjoint(("CHAR", "NCHAR"))

    def spelled(
        self, connection: Connection, table: TargetTable, keys: Sequence[Cells]
    ) -> list[Cells]:
        """Looks up keys one by one, as such keys are few: few columns have a collation of their
        own."""
        found: list[Cells] = []
        for _, spelled in self._found(connection, spelled_sql(table), table, keys):
            found.append(tuple(map(str, spelled)))
        return found

    def is_any_alike(
        self, connection: Connection, table: TargetTable, keys: Sequence[Cells]
    ) -> bool:
        """Returns True, so that such rows are written one by one: how a collation compares texts
        is not asked."""
        return True

    def preview(self, batch: TableBatch) -> Iterator[Statement]:
        table = batch.table
        return previewed(
            batch,
            truncate=QUOTED.delete_all(table.id),
            delete=delete_sql(table),
            written=lambda writes: _preview_writes(table, writes),
            swap=lambda columns, old, is_update: _preview_swap(table, columns, old, is_update),
            insert=lambda columns: insert_sql(table, columns),
        )

    def widen(self, connection: Connection, table: TargetTable, column: str, type_: str) -> None:
        connection.exec_driver_sql(widen_sql(table, column, type_))

    def diagnose(self, error: BaseException, columns: Collection[str]) -> Diagnosis:
        return diagnose(error, columns)

    def is_read_only(self, error: BaseException) -> bool:
        return is_read_only(error)

    def _nulls(self, table: TargetTable, columns: Sequence[str], row: Cells) -> list[str]:
        """The columns in which the row is NULL at the target."""
        [bound] = self._rows(table, columns, [row])
        return nulls_of(columns, bound)

    def _rows(
        self, table: TargetTable, columns: Sequence[str], rows: Sequence[Cells]
    ) -> list[tuple[Any, ...]]:
        bound = []
        for name, cells in by_column(columns, rows):
            bound.append(binds(table, table.columns[name], cells, self._zero_date))
        return list(zip(*bound, strict=True))

    def _execute(
        self,
        connection: Connection,
        sql: str,
        table: TargetTable,
        columns: Sequence[str],
        rows: Sequence[Cells],
    ) -> int:
        """Returns the number of rows hit. Declares the bind types beforehand, as a column of NULLs
        has no type of its own."""
        if not columns:
            return connection.exec_driver_sql(sql).rowcount
        hit = 0
        for start in range(0, len(rows), ROWS_PER_CALL):
            part = rows[start : start + ROWS_PER_CALL]
            options = _typed(connection, table, columns, part)
            bound = self._rows(table, columns, part)
            hit += connection.exec_driver_sql(sql, bound, execution_options=options).rowcount
        return hit

    def _found(
        self, connection: Connection, sql: str, table: TargetTable, keys: Sequence[Cells]
    ) -> Iterator[tuple[int, tuple[Any, ...]]]:
        """What a query finds by each key, with the key's number. Declares the bind types, too: the
        driver's own choice finds no CHAR that is shorter than its column, and no fraction of a
        time."""
        options = _typed(connection, table, table.key, keys)
        for number, row in enumerate(self._rows(table, table.key, keys)):
            for found in connection.exec_driver_sql(sql, row, execution_options=options):
                yield number, tuple(found)


def _typed(
    connection: Connection, table: TargetTable, columns: Sequence[str], rows: Sequence[Cells]
) -> dict[str, Any]:
    """The option that declares the types of the binds for these columns."""
    driver: Any = connection.dialect.dbapi
    types = []
    for name, cells in by_column(columns, rows):
        type_ = bind_type(table.columns[name], cells)
        types.append(getattr(driver, type_) if type_ else None)
    return {"input_sizes": types}


def _preview_writes(table: TargetTable, writes: Writes) -> Iterator[Statement]:
    sql = update_sql(table, writes.columns)
    if writes.may_insert:
        sql = merge_sql(table, writes.columns)
    yield Statement(sql, len(writes.rows))


def _preview_swap(table: TargetTable, columns: Sequence[str], old: Cells, is_update: bool) -> str:
    # an empty text is NULL in Oracle
    cells = [cell or None for cell in old]
    return swap_sql(table, columns, nulls_of(columns, cells), is_update=is_update)
