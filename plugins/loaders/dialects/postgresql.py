"""PostgreSQL: one statement per operation, the cells of each column as one array.

`INSERT ... SELECT FROM unnest(arrays)` takes the least time for small batches. Many rows that are
new to the source are copied straight into the table: that takes less than half the time. Thousands
of others are copied into a temporary table and merged from there, which takes a sixth less.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from fractions import Fraction
from io import BytesIO
from typing import Any, Final

import psycopg
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv
from sqlalchemy import Connection
from sqlalchemy.dialects.postgresql.base import PGDialect
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError

from cdcbus.plugins.contracts import TableBatch, TargetColumn, TargetTable, Writes, ZeroDate
from cdcbus.plugins.errors import (
    RowConflict,
    TargetError,
    TargetMisconfigured,
    TargetRejected,
    TargetTableUnfit,
    TargetUnavailable,
)
from cdcbus.plugins.loaders.catalog import Catalog
from cdcbus.plugins.loaders.cells.arrow_literals import array_literal, has_any
from cdcbus.plugins.loaders.cells.arrow_rows import ColumnRows
from cdcbus.plugins.loaders.dialect import (
    QUOTING,
    Cells,
    Diagnosis,
    Quoting,
    Statement,
    Upserted,
    assigned,
    can_insert,
    hexadecimal,
    unfit,
    without_zero_dates,
)
from cdcbus.plugins.loaders.schema_evolution import labels_of
from cdcbus.plugins.rowchange import Cell

LOG = logging.getLogger(__name__)
COPY_ROWS: Final = 500
"""Of fewer the array statement is done as fast."""
MERGE_ROWS: Final = 5000
"""For fewer it does not pay to make a temporary table."""
STAGE: Final = "pg_temp.cdcbus_stage"
MANY_ROWS: Final = 1000
"""For as many PostgreSQL may come to believe that it is cheaper to read the whole table than to
look each row up by its key. With its own estimate of what a page costs, made for disks that
turn, it did so for 19,000 rows of 1.3 million, and took four to nine times as long."""
NEAR_PAGES: Final = "SET LOCAL random_page_cost = 1.1"

QUOTED: Final = Quoting(PGDialect, paramstyle="pyformat")
COPIED: Final = QUOTING["postgresql"]
"""For statements without parameters: in these a percent sign is one."""

CATALOG: Final = Catalog(
    names="""
        SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE lower(n.nspname) = lower(:schema) AND lower(c.relname) = lower(:table) AND c.relkind IN ('r', 'p', 'v', 'f')""",
    # format_type with -1 spells a type that a cast does not cut: `bpchar` and `"bit"`, where
    # `character` and `bit` would mean length 1.
    columns="""
        SELECT a.attname, format_type(b.oid, -1),
            CASE WHEN b.typname IN ('bit', 'varbit') THEN nullif(m.typmod, -1)
                WHEN b.typname IN ('varchar', 'bpchar') THEN nullif(m.typmod, -1) - 4
                WHEN b.typname IN ('timestamp', 'timestamptz', 'time', 'timetz') THEN nullif(m.typmod, -1)
                WHEN b.typname = 'numeric' THEN (nullif(m.typmod, -1) - 4) >> 16 END,
            NOT a.attnotnull, a.attgenerated <> '', a.attnotnull AND NOT a.atthasdef AND a.attidentity = '',
            CASE b.typname WHEN 'numeric' THEN (((nullif(m.typmod, -1) - 4) & 2047) # 1024) - 1024 END,
            (SELECT 'enum(' || string_agg('''' || replace(enumlabel, '''', '''''') || '''', ',' ORDER BY enumsortorder) || ')'
                FROM pg_enum WHERE enumtypid = b.oid),
            a.attidentity = 'a',
            b.typname = 'citext' OR EXISTS (SELECT FROM pg_collation l WHERE l.oid = a.attcollation AND NOT l.collisdeterministic)
        FROM pg_attribute a
            JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace
            JOIN pg_type t ON t.oid = a.atttypid
            JOIN pg_type b ON b.oid = CASE t.typtype WHEN 'd' THEN t.typbasetype ELSE t.oid END
            CROSS JOIN LATERAL (SELECT CASE t.typtype WHEN 'd' THEN t.typtypmod ELSE a.atttypmod END) AS m(typmod)
        WHERE n.nspname = :schema AND c.relname = :table AND c.relkind IN ('r', 'p', 'v', 'f') AND a.attnum > 0 AND NOT a.attisdropped
        ORDER BY a.attnum""",
    unique_keys="""
        SELECT i.indisprimary, i.indexrelid::text, CASE WHEN i.indpred IS NULL AND i.indisvalid THEN a.attname END, NOT i.indimmediate
        FROM pg_index i
            JOIN pg_class c ON c.oid = i.indrelid JOIN pg_namespace n ON n.oid = c.relnamespace
            CROSS JOIN LATERAL unnest(i.indkey::int2[]) WITH ORDINALITY AS k(attnum, place)
            LEFT JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum AND k.attnum > 0
        WHERE n.nspname = :schema AND c.relname = :table AND i.indisunique AND k.place <= i.indnkeyatts
        ORDER BY i.indexrelid, k.place""",
    unsafe="""
        SELECT 'has rules (CREATE RULE), which make other statements of those that write rows, and which COPY passes by: drop them, or '
            || 'write to the table that they mean'
        FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE n.nspname = :schema AND c.relname = :table AND c.relkind IN ('r', 'p', 'f') AND c.relhasrules
            AND EXISTS (SELECT FROM pg_rewrite w WHERE w.ev_class = c.oid AND w.ev_type <> '1')
        UNION ALL
        SELECT 'has child tables (INHERITS), among them ' || min(format('%I.%I', s.nspname, h.relname)) || ': its key does not hold for '
            || 'their rows, so that an insert would not find a row there, and an update would. Run for each: ALTER TABLE '
            || min(format('%I.%I', s.nspname, h.relname)) || ' NO INHERIT ' || format('%I.%I', n.nspname, c.relname)
        FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_inherits i ON i.inhparent = c.oid
            JOIN pg_class h ON h.oid = i.inhrelid JOIN pg_namespace s ON s.oid = h.relnamespace
        WHERE n.nspname = :schema AND c.relname = :table AND c.relkind IN ('r', 'f') GROUP BY n.nspname, c.relname
        UNION ALL
        SELECT CASE c.relkind WHEN 'f' THEN 'is' ELSE 'has a partition that is' END || ' a foreign table: another server commits its rows, '
            || 'and not together with their offset, so that they would be lost or come twice. Let the task write there itself'
        FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE n.nspname = :schema AND c.relname = :table AND (c.relkind = 'f' OR EXISTS (
            SELECT FROM pg_partition_tree(c.oid) p JOIN pg_class f ON f.oid = p.relid WHERE f.relkind = 'f'))""",
    remarks="""
        SELECT CASE kind WHEN 0 THEN 'hides rows from this user by row level security: updates and deletes of these find nothing'
            ELSE 'has the trigger ' || name || ', which runs before each row and may leave it out or change it' END
        FROM (
            SELECT 0 AS kind, '' AS name FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
            WHERE n.nspname = :schema AND c.relname = :table AND row_security_active(c.oid)
            UNION ALL
            SELECT 1, t.tgname FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid JOIN pg_namespace n ON n.oid = c.relnamespace
            WHERE n.nspname = :schema AND c.relname = :table AND NOT t.tgisinternal AND t.tgenabled <> 'D' AND t.tgtype & 3 = 3
        ) AS found ORDER BY 1""",
    rights="""
        SELECT verb, string_agg(a.attname, ', ' ORDER BY a.attnum), verb = 'DELETE'
        FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_attribute a ON a.attrelid = c.oid
            CROSS JOIN (VALUES ('DELETE'), ('INSERT'), ('SELECT'), ('UPDATE')) AS verbs(verb)
        WHERE n.nspname = :schema AND c.relname = :table AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''
            AND CASE verb WHEN 'DELETE' THEN NOT has_table_privilege(c.oid, verb) ELSE NOT has_column_privilege(c.oid, a.attnum, verb) END
        GROUP BY verb ORDER BY verb""",
    may_create="SELECT has_schema_privilege(current_schema(), 'CREATE')",
)
DEFAULT: Final = """
    SELECT pg_get_expr(d.adbin, d.adrelid)
    FROM pg_attrdef d
        JOIN pg_attribute a ON a.attrelid = d.adrelid AND a.attnum = d.adnum
        JOIN pg_class c ON c.oid = d.adrelid JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = %s AND c.relname = %s AND a.attname = %s"""
"""A column's, as SQL."""
COARSE: Final = """
    SELECT bool_or(b.typname IN ('bpchar', 'citext') OR NOT coalesce(l.collisdeterministic, true))
    FROM pg_attribute a
        JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace
        JOIN pg_type t ON t.oid = a.atttypid
        JOIN pg_type b ON b.oid = CASE t.typtype WHEN 'd' THEN t.typbasetype ELSE t.oid END
        LEFT JOIN pg_collation l ON l.oid = a.attcollation
    WHERE n.nspname = %s AND c.relname = %s AND a.attname = ANY (%s)"""
"""Whether one of these columns takes different texts for one."""
INSERTED: Final = """
    SELECT coalesce((SELECT sum(pg_stat_get_xact_tuples_inserted(relid)) FROM pg_partition_tree(name)),
        pg_stat_get_xact_tuples_inserted(name), 0) FROM (SELECT %s::regclass AS name) AS n"""
"""How many rows this transaction has inserted into a table; 0 where the server does not count
(track_counts), or it is a view. RETURNING xmax costs a seventh of a large statement, and
partitioned tables refuse it."""


class Postgresql:
    """Writes to PostgreSQL 12 and later."""

    name = "postgresql"
    catalog = CATALOG

    def __init__(self, zero_date: ZeroDate = ZeroDate.REJECT) -> None:
        self._zero_date = zero_date
        self._told: set[tuple[str, str]] = set()

    def truncate(self, connection: Connection, table: TargetTable) -> None:
        connection.exec_driver_sql(truncate_sql(table))

    def delete(
        self, connection: Connection, table: TargetTable, keys: Sequence[tuple[Cell, ...]]
    ) -> int:
        return self._changed_by_key(
            connection, delete_sql(table), self._arrays(table, table.key, keys), len(keys)
        )

    def upsert(self, connection: Connection, table: TargetTable, writes: Writes) -> Upserted:
        if len(writes.rows) == 1 and writes.expected:  # which costs one statement where it is there
            if self.update(connection, table, writes):
                return Upserted(0)
            left_out = self._left_out(
                connection, table, writes, self._upsert(connection, table, writes)
            )
            return Upserted(1 - left_out, left_out)
        before = self._inserted(connection, table) if writes.expected else 0
        stored = self._upsert(connection, table, writes)
        inserted = self._inserted(connection, table) - before if writes.expected else 0
        return Upserted(inserted, self._left_out(connection, table, writes, stored))

    def _left_out(
        self, connection: Connection, table: TargetTable, writes: Writes, stored: int
    ) -> int:
        """How many rows a trigger has left out, when so many were stored. Where there is nothing
        but a key, those that were there count."""
        if stored < len(writes.rows) and table.key and set(writes.columns) <= set(table.key):
            keys = [
                tuple(row[writes.columns.index(name)] for name in table.key) for row in writes.rows
            ]
            stored = len(self.spelled(connection, table, keys))
        left_out = len(writes.rows) - stored
        if left_out > 0 and ("", str(table.id)) not in self._told:
            self._told.add(("", str(table.id)))
            LOG.warning(
                "target table %s has not stored %d rows, as a trigger before each row leaves them "
                "out: these count as missed",
                *(table.id, left_out),
            )
        return max(0, left_out)

    def _inserted(self, connection: Connection, table: TargetTable) -> int:
        return int(connection.exec_driver_sql(INSERTED, (COPIED.table(table.id),)).scalar_one())

    def _upsert(self, connection: Connection, table: TargetTable, writes: Writes) -> int:
        """How many rows were updated or inserted."""
        columns, rows, can_merge = (
            writes.columns,
            writes.rows,
            can_merge_by_key(table, writes.columns),
        )
        if isinstance(rows, ColumnRows) and len(rows) >= (
            COPY_ROWS if writes.are_new else MERGE_ROWS
        ):
            form, text = copied_rows(table, columns, rows, self._zero_date)
            if writes.are_new:
                copied = self._copied(
                    connection, [copy_sql(COPIED.table(table.id), columns, form)], text
                )
                if copied is not None:
                    return copied
            if can_merge and len(rows) >= MERGE_ROWS:
                merged = self._copied(connection, merge_sqls(table, columns, form), text)
                if merged is not None:
                    return merged
        cells = self._arrays(table, columns, rows)
        with _naming(table, columns, rows):
            if can_merge:
                return connection.exec_driver_sql(upsert_sql(table, columns), cells).rowcount
            updated = self._changed_by_key(connection, update_sql(table, columns), cells, len(rows))
            if updated < len(rows):
                updated += connection.exec_driver_sql(
                    insert_missing_sql(table, columns), cells
                ).rowcount
            return updated

    def _changed_by_key(
        self, connection: Connection, sql: str, cells: tuple[str, ...], count: int
    ) -> int:
        """How many of so many rows are there."""
        if count >= MANY_ROWS:
            connection.exec_driver_sql(NEAR_PAGES)
        return connection.exec_driver_sql(sql, cells).rowcount

    def _copied(self, connection: Connection, statements: Sequence[str], text: bytes) -> int | None:
        """How many rows the statements, of which a COPY takes the text, have written; None where
        nothing is done. Why is not asked: rows that are there already, a cell that does not fit,
        a view, no right to make temporary tables. The slower statement takes the rows, or says
        what is wrong."""
        stored = 0
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
                    # the last of them is into the table itself
                    if sql.startswith(("COPY ", "INSERT ")):
                        stored = cursor.rowcount
        except psycopg.Error as error:
            connection.exec_driver_sql("ROLLBACK TO SAVEPOINT cdcbus_copy")
            self._tell_slow(error, statements[0])
            return None
        connection.exec_driver_sql("RELEASE SAVEPOINT cdcbus_copy")
        return stored

    def _tell_slow(self, error: psycopg.Error, sql: str) -> None:
        """Once of each reason, unless it is one that a row gives: then the slower statement says
        what is wrong, if anything is."""
        state = error.sqlstate or ""
        if not state.startswith(OF_ROW) and (state, sql) not in self._told:
            self._told.add((state, sql))
            LOG.warning(
                "rows are not copied but written by slower statements: %s, as PostgreSQL refuses: "
                "%s",
                diagnose(error, ()).text,
                sql,
            )

    def update(self, connection: Connection, table: TargetTable, writes: Writes) -> int:
        cells = self._arrays(table, writes.columns, writes.rows)
        with _naming(table, writes.columns, writes.rows):
            return self._changed_by_key(
                connection, update_sql(table, writes.columns), cells, len(writes.rows)
            )

    def insert(self, connection: Connection, table: TargetTable, writes: Writes) -> int:
        cells = self._arrays(table, writes.columns, writes.rows)
        with _naming(table, writes.columns, writes.rows):
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
        gone, come = self._row(table, columns, old), None
        if new is not None:
            cells, settable = dict(zip(columns, new, strict=True)), _settable(table, columns)
            come = self._row(table, settable, [cells[name] for name in settable])
        nulls = [name for name, cell in zip(columns, gone, strict=True) if cell is None]
        parameters = (*(come or ()), *(cell for cell in gone if cell is not None))
        with _naming(table, columns, [new or old]):
            return connection.exec_driver_sql(
                swap_sql(table, columns, nulls, is_update=new is not None), parameters
            ).rowcount

    def locked(
        self,
        connection: Connection,
        table: TargetTable,
        keys: Sequence[Cells],
        columns: Sequence[str],
    ) -> Iterator[tuple[int, tuple[Any, ...]]]:
        numbers = "{" + ",".join(map(str, range(len(keys)))) + "}"
        cells = (*self._arrays(table, table.key, keys), numbers)
        for number, *row in connection.exec_driver_sql(locked_sql(table, columns), cells):
            yield number, tuple(row)

    def is_coarse(self, connection: Connection, table: TargetTable) -> bool:
        return bool(connection.exec_driver_sql(COARSE, (*table.id, list(table.key))).scalar())

    def spelled(
        self, connection: Connection, table: TargetTable, keys: Sequence[tuple[Cell, ...]]
    ) -> list[tuple[Cell, ...]]:
        names = ", ".join(f"t.{QUOTED.name(name)}::text" for name in table.key)
        sql = (
            f"SELECT {names} FROM {QUOTED.table(table.id)} AS t JOIN {_rows(table, table.key)} "
            f"ON {_same_key(table)}"
        )
        return [
            tuple(row)
            for row in connection.exec_driver_sql(sql, self._arrays(table, table.key, keys))
        ]

    def is_any_alike(
        self, connection: Connection, table: TargetTable, keys: Sequence[tuple[Cell, ...]]
    ) -> bool:
        """The column that gives no row gives the collation."""
        cells = ", ".join(_cell(table, name) for name in table.key)
        own = f"SELECT {QUOTED.names(table.key)} FROM {QUOTED.table(table.id)} WHERE false"
        sql = (
            f"SELECT count(*) FROM ({own} UNION SELECT {cells} FROM {_rows(table, table.key)}) AS k"
        )
        return int(
            connection.exec_driver_sql(sql, self._arrays(table, table.key, keys)).scalar_one()
        ) < len(keys)

    def preview(self, batch: TableBatch) -> Iterator[Statement]:
        table = batch.table
        if batch.truncate:
            yield Statement(truncate_sql(table), 0)
        if batch.deletes:
            yield Statement(delete_sql(table), len(batch.deletes))
        for writes in batch.writes:
            count = len(writes.rows)
            if writes.may_insert and can_merge_by_key(table, writes.columns):
                yield Statement(upsert_sql(table, writes.columns), count)
                continue
            yield Statement(update_sql(table, writes.columns), count)
            if writes.may_insert:
                yield Statement(insert_missing_sql(table, writes.columns), count)
        for swaps in batch.swaps:
            for old, new in swaps.rows:
                if old is not None:
                    nulls = [
                        name for name, cell in zip(swaps.columns, old, strict=True) if cell is None
                    ]
                    yield Statement(
                        swap_sql(table, swaps.columns, nulls, is_update=new is not None), 1
                    )
            if count := sum(old is None for old, _ in swaps.rows):
                yield Statement(insert_sql(table, swaps.columns), count)

    def widen(self, connection: Connection, table: TargetTable, column: str, type_: str) -> None:
        default = connection.exec_driver_sql(DEFAULT, (*table.id, column)).scalar()
        for sql in widen_sqls(table, column, type_, default):
            connection.exec_driver_sql(sql, execution_options={"no_parameters": True})

    def diagnose(self, error: BaseException, columns: Collection[str]) -> Diagnosis:
        return diagnose(error, tuple(columns))

    def _arrays(
        self, table: TargetTable, columns: Sequence[str], rows: Iterable[Cells]
    ) -> tuple[str, ...]:
        return arrays(table, columns, rows, self._zero_date)

    def _row(self, table: TargetTable, columns: Sequence[str], row: Sequence[Cell]) -> Cells:
        return tuple(
            _coerced(table, table.columns[name], [cell], self._zero_date)[0]
            for name, cell in zip(columns, row, strict=True)
        )


def _settable(table: TargetTable, columns: Sequence[str]) -> list[str]:
    """Those of a row without a key that an UPDATE may set."""
    return [name for name in columns if not table.columns[name].is_fixed]


def can_merge_by_key(table: TargetTable, columns: Sequence[str]) -> bool:
    """ON CONFLICT does not go by a key that may be checked later."""
    return can_insert(table, columns) and not table.is_key_deferrable


# SQL text


def truncate_sql(table: TargetTable) -> str:
    return f"TRUNCATE TABLE {QUOTED.table(table.id)}"


def delete_sql(table: TargetTable) -> str:
    """Keys of one column are looked up in their order, which takes half the time or less where
    they are near to each other."""
    if len(table.key) == 1 and not _is_array(table, table.key[0]):
        key = table.key[0]
        return (
            f"DELETE FROM {QUOTED.table(table.id)} WHERE {QUOTED.name(key)} = ANY "
            f"(%s::{table.columns[key].type}[])"
        )
    return (
        f"DELETE FROM {QUOTED.table(table.id)} AS t USING {_rows(table, table.key)} WHERE "
        f"{_same_key(table)}"
    )


def upsert_sql(table: TargetTable, columns: Sequence[str]) -> str:
    return f"{insert_sql(table, columns)} {_on_conflict(table, columns, QUOTED)}"


def _on_conflict(table: TargetTable, columns: Sequence[str], quoted: Quoting) -> str:
    written = [name for name in assigned(table, columns) if name not in table.key]
    changes = ", ".join(f"{quoted.name(name)} = EXCLUDED.{quoted.name(name)}" for name in written)
    then = f"UPDATE SET {changes}" if changes else "NOTHING"
    return f"ON CONFLICT ({quoted.names(table.key)}) DO {then}"


def insert_missing_sql(table: TargetTable, columns: Sequence[str]) -> str:
    return (
        f"{insert_sql(table, columns)} WHERE NOT EXISTS (SELECT FROM {QUOTED.table(table.id)} "
        f"AS t WHERE {_same_key(table)})"
    )


def insert_sql(table: TargetTable, columns: Sequence[str]) -> str:
    """System values are overridden: an identity column takes the source's number."""
    return (
        f"INSERT INTO {QUOTED.table(table.id)} ({QUOTED.names(columns)}) OVERRIDING SYSTEM VALUE "
        f"SELECT {', '.join(_cell(table, name) for name in columns)} FROM {_rows(table, columns)}"
    )


def locked_sql(table: TargetTable, columns: Sequence[str]) -> str:
    """The last parameter: the rows' numbers."""
    types = ["text" if _is_array(table, name) else table.columns[name].type for name in table.key]
    rows = (
        f"unnest({', '.join(f'%s::{type_}[]' for type_ in (*types, 'int'))}) AS "
        f"s({QUOTED.names(table.key)}, cdcbus_n)"
    )
    found = QUOTED.names((*table.key, *columns), "t.")
    return (
        f"SELECT s.cdcbus_n, {found} FROM {QUOTED.table(table.id)} AS t JOIN {rows} ON "
        f"{_same_key(table)} FOR UPDATE OF t"
    )


PLAIN: Final = "FORMAT text, NULL ''"
CSV: Final = "FORMAT csv"
"""What is not quoted is NULL."""


def copy_sql(table: str, columns: Sequence[str], form: str) -> str:
    """`form`: see `copied_rows`."""
    return f"COPY {table} ({COPIED.names(columns)}) FROM STDIN ({form})"


def merge_sqls(table: TargetTable, columns: Sequence[str], form: str) -> list[str]:
    """By way of a temporary table, made anew each time so that it always fits."""
    types = ", ".join(f"{COPIED.name(name)} {table.columns[name].type}" for name in columns)
    names = COPIED.names(columns)
    insert = (
        f"INSERT INTO {COPIED.table(table.id)} ({names}) OVERRIDING SYSTEM VALUE SELECT "
        f"{names} FROM {STAGE}"
    )
    return [
        f"CREATE TEMPORARY TABLE {STAGE} ({types})",
        copy_sql(STAGE, columns, form),
        f"{insert} {_on_conflict(table, columns, COPIED)}",
        f"DROP TABLE {STAGE}",
    ]


def update_sql(table: TargetTable, columns: Sequence[str]) -> str:
    changes = ", ".join(
        f"{QUOTED.name(name)} = {_cell(table, name)}" for name in assigned(table, columns)
    )
    return (
        f"UPDATE {QUOTED.table(table.id)} AS t SET {changes} FROM {_rows(table, columns)} "
        f"WHERE {_same_key(table)}"
    )


def swap_sql(
    table: TargetTable, columns: Sequence[str], nulls: Collection[str], *, is_update: bool
) -> str:
    """One row, found by its place, as DELETE and UPDATE have no LIMIT; a partitioned table has
    the same place in each partition. It is locked before, so that two lanes take two rows.
    `nulls`: the columns in which the row that goes holds NULL."""
    same = " AND ".join(
        f"{QUOTED.name(name)} IS NULL" if name in nulls else _equals(table, name)
        for name in columns
    )
    one = (
        f"(SELECT tableoid AS part, ctid AS place FROM {QUOTED.table(table.id)} WHERE {same} "
        "LIMIT 1 FOR UPDATE) AS one"
    )
    here = "WHERE t.tableoid = one.part AND t.ctid = one.place"
    if not is_update:
        return f"DELETE FROM {QUOTED.table(table.id)} AS t USING {one} {here}"
    changes = ", ".join(
        f"{QUOTED.name(name)} = %s::{table.columns[name].type}"
        for name in _settable(table, columns)
    )
    return f"UPDATE {QUOTED.table(table.id)} AS t SET {changes} FROM {one} {here}"


def _equals(table: TargetTable, name: str) -> str:
    type_ = table.columns[name].type
    return (
        f"{QUOTED.name(name)}::text = %s"
        if type_ in COMPARED_AS_TEXT
        else f"{QUOTED.name(name)} = %s::{type_}"
    )


def widen_sqls(
    table: TargetTable, column: str, type_: str, default: str | None = None
) -> list[str]:
    """Of an enum type new labels are added behind the others. Bits come before those that are
    there, where PostgreSQL would append them; `default` is the column's, which it would leave as
    short as it is."""
    if labels := labels_of(type_):
        own = table.columns[column]
        new = [label for label in labels if label not in labels_of(own.declared)]
        return [f"ALTER TYPE {own.type} ADD VALUE IF NOT EXISTS {_literal(label)}" for label in new]
    name = COPIED.name(column)
    change = f"ALTER COLUMN {name} TYPE {type_}"
    if bits := re.fullmatch(r"bit\(([0-9]+)\)", type_):
        change += f" USING {_lengthened(name, bits[1])}"
        if default is not None:
            change = (
                f"ALTER COLUMN {name} DROP DEFAULT, {change}, ALTER COLUMN {name} SET "
                f"DEFAULT {_lengthened(default, bits[1])}"
            )
    return [f"ALTER TABLE {COPIED.table(table.id)} {change}"]


def _lengthened(bits: str, length: str) -> str:
    return f"lpad(({bits})::text, {length}, '0')::bit({length})"


def _literal(cell: str) -> str:
    """Backslashes stand for themselves: that is the server's default."""
    return "'" + cell.replace("'", "''") + "'"


def _rows(table: TargetTable, columns: Sequence[str]) -> str:
    """The parameters as rows of `s`. An array cannot hold arrays of any length, so cells of
    array columns come as text."""
    types = ["text" if _is_array(table, name) else table.columns[name].type for name in columns]
    return f"unnest({', '.join(f'%s::{type_}[]' for type_ in types)}) AS s({QUOTED.names(columns)})"


def _cell(table: TargetTable, name: str) -> str:
    cast = f"::{table.columns[name].type}" if _is_array(table, name) else ""
    return f"s.{QUOTED.name(name)}{cast}"


def _is_array(table: TargetTable, name: str) -> bool:
    return table.columns[name].type.endswith("[]")


def _same_key(table: TargetTable) -> str:
    return " AND ".join(f"t.{QUOTED.name(name)} = {_cell(table, name)}" for name in table.key)


# Cells

DATES: Final = frozenset(("date", "timestamp without time zone", "timestamp with time zone"))
OTHER_FORMS: Final = frozenset(("bytea", '"bit"', "bit varying"))
"""Types whose cells come in another form than PostgreSQL reads."""
COMPARED_AS_TEXT: Final = frozenset(
    ("json", "xml", "citext", "point", "line", "lseg", "box", "path", "polygon", "circle")
)
"""Types whose own equality is none, or is none of values."""


def arrays(
    table: TargetTable,
    columns: Sequence[str],
    rows: Iterable[Cells],
    zero_date: ZeroDate = ZeroDate.REJECT,
) -> tuple[str, ...]:
    """One array literal per column. Raises TargetRejected for a cell that its column cannot
    hold."""
    if isinstance(rows, ColumnRows):
        return tuple(
            array_literal(cells)
            if _stands_as_it_is(table.columns[name], cells)
            else _array(table, table.columns[name], cells.to_pylist(), zero_date)
            for name, cells in zip(columns, rows.arrays, strict=True)
        )
    cells = zip(*rows, strict=True)
    return tuple(
        _array(table, table.columns[name], column, zero_date)
        for name, column in zip(columns, cells, strict=True)
    )


def copied_rows(
    table: TargetTable,
    columns: Sequence[str],
    rows: ColumnRows,
    zero_date: ZeroDate = ZeroDate.REJECT,
) -> tuple[str, bytes]:
    """All rows in UTF-8, and the form that they have for COPY: PLAIN where nothing in them needs
    to be quoted, which PostgreSQL reads in nine tenths of the time, else CSV. Raises
    TargetRejected for a cell that its column cannot hold."""
    cells = [
        cells
        if _stands_as_it_is(column := table.columns[name], cells)
        else pa.array(_coerced(table, column, cells.to_pylist(), zero_date), pa.string())
        for name, cells in zip(columns, rows.arrays, strict=True)
    ]
    found = pa.table(cells, list(columns))
    if not any(_has_empty(column) for column in cells):
        with suppress(pa.ArrowInvalid):  # a tab, a line break, a quotation mark
            if b"\\" not in (
                plain := _written(
                    found,
                    csv.WriteOptions(include_header=False, delimiter="\t", quoting_style="none"),
                )
            ):
                return PLAIN, plain
    return CSV, _written(found, csv.WriteOptions(include_header=False))


def _has_empty(cells: pa.Array) -> bool:
    """Whether a text is empty, which would be NULL in plain form."""
    return bool(pc.min(pc.binary_length(cells)).as_py() == 0)


def _written(cells: pa.Table, options: csv.WriteOptions) -> bytes:
    text = BytesIO()
    csv.write_csv(cells, text, options)
    return text.getvalue()


def _stands_as_it_is(column: TargetColumn, cells: pa.Array) -> bool:
    """Whether no cell needs a look of its own."""
    if column.type in DATES:
        return not has_any(cells, "-00", "0000-", "\0")
    return column.type not in OTHER_FORMS and not has_any(cells, "\0")


def _array(
    table: TargetTable, column: TargetColumn, cells: Sequence[Cell], zero_date: ZeroDate
) -> str:
    cells = _coerced(table, column, cells, zero_date)
    text = "".join(filter(None, cells))
    if "\0" in text:
        raise unfit(table, column, "the character U+0000, which PostgreSQL text cannot hold")
    if "\\" in text or '"' in text:
        cells = [cell and cell.replace("\\", "\\\\").replace('"', '\\"') for cell in cells]
    return "{" + ",".join(["NULL" if cell is None else f'"{cell}"' for cell in cells]) + "}"


def _coerced(
    table: TargetTable, column: TargetColumn, cells: Sequence[Cell], zero_date: ZeroDate
) -> Sequence[Cell]:
    match column.type:
        case name if name in DATES:
            return without_zero_dates(table, column, cells, zero_date)
        case "bytea":
            return [
                None if digits is None else f"\\x{digits}"
                for digits in hexadecimal(table, column, cells)
            ]
        case '"bit"' | "bit varying":
            return _bits(table, column, cells)
    return cells


def _bits(table: TargetTable, column: TargetColumn, cells: Sequence[Cell]) -> Sequence[Cell]:
    """BIT comes as a decimal number; bit(n) wants exactly n digits."""
    width = f"0{column.length or 1}b" if column.type == '"bit"' else "b"
    try:
        return [None if cell is None else format(int(cell), width) for cell in cells]
    except ValueError:
        raise unfit(table, column, "no whole number, which bits come as") from None


# Errors

# Which error is about what, by the longest beginning of its SQLSTATE: only those of one row may
# ever become a dead letter, and one that is not named here stops the task. docs/targets.md has the
# same table.
UNAVAILABLE: Final = ("08", "40", "53", "55P03", "57", "58", "25006", "25P03", "25P04")
MISCONFIGURED: Final = ("28", "3D000", "3F000", "42501")
# no such column, table or key; a view that takes no rows
UNFIT: Final = ("0A", "42", "428C9", "55000", "55006", "2BP01")
# what its columns cannot hold, constraints, too large for an index
OF_ROW: Final = ("21000", "22", "23", "44", "54000")
CONFLICTS: Final = ("23505", "23503", "23001", "23P01")  # unique and foreign keys, exclusion
OWN_REFUSAL: Final = "P0"
RAISE: Final = "exec_stmt_raise"
"""The server's function that raises what a function in PL/pgSQL says."""
SYNTAX: Final = "42601"
"""Of a statement of ours."""
# Classes whose primary message names objects only. Others, and triggers, may quote cells.
QUOTABLE: Final = (*UNAVAILABLE, *MISCONFIGURED, "23", "25", "42", "54", "22001", "0A")
PARAMETER: Final = re.compile(r"parameter \$(\d+)")
NUMBER: Final = re.compile(r"-?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]{1,3})?")
# A server that refuses the connection sends no SQLSTATE through the driver.
LOGIN_REFUSED: Final = re.compile(
    r"password authentication failed|no password supplied|no pg_hba\.conf entry|(database|role) "
    r"\"[^\"]*\" does not exist"
    r"|is not permitted to log in|permission denied for database|certificate verify failed|server "
    r"certificate for"
    r"|server does not support SSL|(root )?certificate file \"[^\"]*\" does not exist|weak sslmode"
)


def diagnose(error: BaseException, columns: Sequence[str]) -> Diagnosis:
    """`columns`: those of the statement, in the order of its parameters."""
    cause: Any = getattr(error, "orig", None) or error
    state: str | None = getattr(cause, "sqlstate", None)
    if state is None:
        return _without_state(error, cause)
    text = _text_of(state, cause)
    parameter = PARAMETER.search(cause.diag.context or "")
    if parameter and int(parameter[1]) <= len(columns):
        text += f", column {columns[int(parameter[1]) - 1]}"
    return Diagnosis(_class_of(state), f"SQLSTATE {state}: {text}")


def _text_of(state: str, cause: Any) -> str:
    """The server's own words where they name objects only, which those of a RAISE may not."""
    if state.startswith(OWN_REFUSAL) or cause.diag.source_function == RAISE:
        return "a trigger or a function of the target's own refuses the statement (RAISE)"
    if state.startswith(QUOTABLE):
        return str(cause.diag.message_primary)
    return (
        "a cell does not fit"
        if state.startswith(OF_ROW)
        else "the server refuses the statement, and not for what a row holds"
    )


@contextmanager
def _naming(table: TargetTable, columns: Sequence[str], rows: Sequence[Cells]) -> Iterator[None]:
    """Raises TargetRejected with the column that a server's error is about, or with those that
    it may be about, where it names none."""
    try:
        yield
    except DBAPIError as error:
        cause: Any = error.orig
        is_about = UNNAMED.get(cause.sqlstate)
        if is_about is None or PARAMETER.search(cause.diag.context or ""):
            raise
        cells = zip(columns, zip(*rows, strict=True), strict=True)
        named = [
            name
            for name, column in cells
            if any(cell is not None and is_about(table.columns[name], cell) for cell in column)
        ]
        if not named:
            raise
        which = (
            f"column {named[0]}" if len(named) == 1 else f"one of the columns {', '.join(named)}"
        )
        raise TargetRejected(
            f"target table {table.id}, {which}: {diagnose(error, ()).text}"
        ) from None


def _is_too_long(column: TargetColumn, cell: str) -> bool:
    """Blanks at the end are no matter to PostgreSQL, digits behind the point are rounded."""
    if column.length is None:
        return False
    match column.type:
        case "character varying" | "bpchar":
            return len(cell.rstrip(" ")) > column.length
        case '"bit"' | "bit varying":
            return int(cell).bit_length() > column.length
        case "numeric":
            scale = column.scale or 0
            return NUMBER.fullmatch(cell) is not None and abs(
                round(Fraction(cell), scale)
            ) >= 10 ** (column.length - scale)
    return False


UNNAMED: Final[Mapping[str, Callable[[TargetColumn, str], bool]]] = {
    **dict.fromkeys(("22001", "22003", "22026"), _is_too_long),
    "22P02": lambda column, _: column.type.endswith("[]"),  # which are read after all others
}
"""Errors that come without a column, and the cells that they may be about."""


def _class_of(state: str) -> type[TargetError]:
    if state.startswith(UNAVAILABLE):
        return TargetUnavailable
    if state.startswith(MISCONFIGURED):
        return TargetMisconfigured
    if state.startswith(UNFIT) and state != SYNTAX:
        return TargetTableUnfit
    if state in CONFLICTS:
        return RowConflict
    return TargetRejected if state.startswith(OF_ROW) else TargetError


def _without_state(error: BaseException, cause: BaseException) -> Diagnosis:
    """From the driver itself: the connection failed, or it could not send the cells."""
    if not isinstance(error, OperationalError | InterfaceError):
        return Diagnosis(TargetRejected, f"the driver refuses the cells ({type(cause).__name__})")
    text = str(cause).partition("\n")[0]
    return Diagnosis(TargetMisconfigured if LOGIN_REFUSED.search(text) else TargetUnavailable, text)
