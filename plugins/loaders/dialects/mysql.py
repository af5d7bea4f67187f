"""MySQL and MariaDB: multi-row statements with the cells as literals; by way of a temporary table
only where other rows could be hit.

ON DUPLICATE KEY UPDATE would update whichever row collides on any unique key, so tables with
further unique keys are updated by primary key through a join, and only then get the rows that are
not there. A unique key that is not known yet makes the statement fail (`upsert_sql`).
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, Final

import pyarrow as pa
from sqlalchemy import Connection, bindparam, text
from sqlalchemy.exc import DBAPIError

from cdcbus.plugins.contracts import TableBatch, TargetColumn, TargetTable, Writes
from cdcbus.plugins.errors import (
    RowConflict,
    TargetError,
    TargetMisconfigured,
    TargetRejected,
    TargetTableUnfit,
    TargetUnavailable,
)
from cdcbus.plugins.loaders.catalog import Catalog
from cdcbus.plugins.loaders.cells.arrow_literals import (
    are_numbers,
    number_literals,
    rows_of,
    text_literals,
)
from cdcbus.plugins.loaders.cells.arrow_rows import ColumnRows
from cdcbus.plugins.loaders.dialect import (
    QUOTING,
    Cells,
    Diagnosis,
    Statement,
    Upserted,
    assigned,
    can_insert,
    hexadecimal,
    unfit,
)
from cdcbus.plugins.loaders.dialects.mysql_enums import marks_held_back
from cdcbus.plugins.loaders.sessions import MAX_PACKET
from cdcbus.plugins.mysql_tls import TLS_ERRORS, is_tls_refusal
from cdcbus.plugins.rowchange import Cell, TableId

LOG = logging.getLogger(__name__)
QUOTED: Final = QUOTING["mysql"]
STATEMENT_BYTES: Final = 500_000
"""How long a statement may grow where the server takes as much; an eighth of its
max_allowed_packet is left for what is no row."""
FEW_ROWS: Final = 8
"""Up to so many rows cost less one by one than the statements around a temporary table."""
RECORDS: Final = re.compile(rb"([0-9]+)[^0-9]+([0-9]+)")
"""In `Records: 7  Duplicates: 2  Warnings: 0`, in the server's language."""
KEYS_PER_STATEMENT: Final = 500
"""Below the sizes at which MariaDB turns an IN list into a join and MySQL gives up looking up
its members by index."""
STAGE_KEY: Final = "cdcbus_stage_row"
ROWS_PER_UNION: Final = 100
LENIENT: Final = "NO_BACKSLASH_ESCAPES"
"""The SQL mode in which an invalid value may be written."""

CATALOG: Final = Catalog(
    names="""
        SELECT table_schema, table_name FROM information_schema.tables
        WHERE LOWER(table_schema) = LOWER(:schema) AND LOWER(table_name) = LOWER(:table)""",
    columns="""
        SELECT column_name, data_type,
            CASE WHEN data_type IN ('bit', 'decimal') THEN numeric_precision
                WHEN data_type IN ('time', 'datetime', 'timestamp') THEN datetime_precision ELSE character_maximum_length END,
            is_nullable = 'YES', extra REGEXP 'VIRTUAL|STORED|PERSISTENT',
            is_nullable = 'NO' AND column_default IS NULL AND extra NOT REGEXP 'auto_increment|VIRTUAL|STORED|PERSISTENT',
            CASE data_type WHEN 'decimal' THEN numeric_scale END,
            CONCAT(column_type, CASE WHEN extra LIKE '%auto_increment%' THEN ' auto_increment' ELSE '' END),
            FALSE, collation_name IS NOT NULL AND NOT (data_type IN ('enum', 'set') AND RIGHT(collation_name, 4) = '_bin')
                AND collation_name NOT IN ('binary') AND collation_name NOT REGEXP '(_0900|_nopad)_bin$'
        FROM information_schema.columns WHERE table_schema = :schema AND table_name = :table ORDER BY ordinal_position""",
    unique_keys="""
        SELECT index_name = 'PRIMARY', index_name, CASE WHEN sub_part IS NULL THEN column_name END, 0
        FROM information_schema.statistics AS s WHERE table_schema = :schema AND table_name = :table AND non_unique = 0
            AND NOT EXISTS (SELECT 1 FROM information_schema.columns AS c WHERE c.table_schema = s.table_schema
                AND c.table_name = s.table_name AND c.column_name = s.column_name AND c.generation_expression IN ('ROW START', 'ROW END'))
        ORDER BY index_name, seq_in_index""",
    unsafe="""
        SELECT CONCAT('has the engine ', t.engine, ', which knows no transactions: rows could not be undone, nor written together with ',
            'their offset, so that they would be lost or come twice. Run there: ALTER TABLE ', :schema, '.', :table, ' ENGINE=InnoDB')
        FROM information_schema.tables AS t JOIN information_schema.engines AS e ON e.engine = t.engine
        WHERE t.table_schema = :schema AND t.table_name = :table AND COALESCE(e.transactions, 'NO') <> 'YES'""",
    remarks="""
        SELECT CONCAT('has the trigger ', trigger_name, ' (', action_timing, ' ', event_manipulation, '): it runs for the rows that come')
        FROM information_schema.triggers WHERE event_object_schema = :schema AND event_object_table = :table
        ORDER BY trigger_name""",
    rights="""
        SELECT verb, GROUP_CONCAT(column_name ORDER BY ordinal_position SEPARATOR ', '), 0
        FROM information_schema.columns JOIN (SELECT 'SELECT' AS verb UNION SELECT 'INSERT' UNION SELECT 'UPDATE') AS verbs
            ON NOT FIND_IN_SET(verb, privileges)
        WHERE table_schema = :schema AND table_name = :table AND extra NOT REGEXP 'VIRTUAL|STORED|PERSISTENT|INVISIBLE'
        GROUP BY verb ORDER BY verb""",
    view="SELECT view_definition FROM information_schema.views WHERE table_schema = :schema AND "
    "table_name = :table",
    # Two plain queries: MySQL writes a condition on a UNION anew and spells its quotes with
    # backslashes, which the session does not have.
    may_create="""
        SELECT
            (SELECT COUNT(*) FROM information_schema.user_privileges WHERE privilege_type = 'CREATE'
                AND grantee = CONCAT('''', REPLACE(CURRENT_USER(), '@', '''@'''), ''''))
            + (SELECT COUNT(*) FROM information_schema.schema_privileges WHERE privilege_type = 'CREATE' AND DATABASE() LIKE table_schema
                AND grantee = CONCAT('''', REPLACE(CURRENT_USER(), '@', '''@'''), ''''))""",
)
COARSE: Final = text(
    """
    SELECT COUNT(*) FROM information_schema.columns
    WHERE table_schema = :schema AND table_name = :table AND column_name IN :key AND data_type NOT IN ('enum', 'set')
        AND collation_name NOT IN ('binary') AND (data_type = 'char' OR collation_name NOT REGEXP '(_0900|_nopad)_bin$')"""
).bindparams(bindparam("key", expanding=True))
"""How many of these columns take different texts for one. To other binary collations blanks at
the end are nothing, and a CHAR has none."""
COLUMN_TYPE: Final = """
    SELECT column_type FROM information_schema.columns WHERE table_schema = :schema AND table_name = :table AND column_name = :column"""


class Mysql:
    """Writes to MySQL and MariaDB. The session's settings come with the address: see `jdbc_url`."""

    name = "mysql"
    catalog = CATALOG

    def __init__(self) -> None:
        self._told: set[str] = set()

    def truncate(self, connection: Connection, table: TargetTable) -> None:
        """By DELETE: TRUNCATE would commit."""
        _execute(connection, truncate_sql(table), table)

    def delete(
        self, connection: Connection, table: TargetTable, keys: Sequence[tuple[Cell, ...]]
    ) -> int:
        return sum(
            _execute(connection, delete_sql(table, part), table)
            for part in _key_literals(connection, table, keys)
        )

    def upsert(self, connection: Connection, table: TargetTable, writes: Writes) -> Upserted:
        held, marks = marks_held_back(table, writes)
        inserted = self._upsert(connection, table, held)
        _mark(connection, table, marks)
        return Upserted(inserted)

    def _upsert(self, connection: Connection, table: TargetTable, writes: Writes) -> int:
        """A lone row that is expected to be there is updated first, as the server does not tell
        what became of it otherwise."""
        is_direct = _is_direct(table, writes)
        if is_direct and (len(writes.rows) > 1 or not writes.expected):
            return _insert(
                connection, table, writes, lambda rows: upsert_sql(table, writes.columns, rows)
            )
        if len(writes.rows) <= FEW_ROWS or not self._stage(connection, table, writes):
            inserted = 0
            for row in literal_rows(table, writes.columns, writes.rows):
                if not _execute(connection, update_row_sql(table, writes.columns, row), table):
                    rows = [_row(row)]
                    # Where it is there all the same, its key is one that the server rounds.
                    sql = (
                        upsert_sql(table, writes.columns, rows)
                        if is_direct
                        else insert_sql(table.id, writes.columns, rows)
                    )
                    inserted += _execute(connection, sql, table) == 1
            return inserted
        inserted = 0
        if _execute(connection, update_sql(table, writes.columns), table) < len(writes.rows):
            inserted = _execute(connection, insert_missing_sql(table, writes.columns), table)
        _execute(connection, drop_stage_sql(table), table)
        return inserted

    def update(self, connection: Connection, table: TargetTable, writes: Writes) -> int:
        held, marks = marks_held_back(table, writes)
        if marks and len(writes.rows) > 1:  # which of them are there, only each by itself tells
            return sum(
                self.update(connection, table, replace(writes, rows=[row])) for row in writes.rows
            )
        hit = self._update(connection, table, held)
        if hit:
            _mark(connection, table, marks)
        return hit

    def _update(self, connection: Connection, table: TargetTable, writes: Writes) -> int:
        if len(writes.rows) <= FEW_ROWS or not self._stage(connection, table, writes):
            rows = literal_rows(table, writes.columns, writes.rows)
            return sum(
                _execute(connection, update_row_sql(table, writes.columns, row), table)
                for row in rows
            )
        hit = _execute(connection, update_sql(table, writes.columns), table)
        _execute(connection, drop_stage_sql(table), table)
        return hit

    def _stage(self, connection: Connection, table: TargetTable, writes: Writes) -> bool:
        """The rows in a temporary table, made anew each time so that it always fits; after an
        error it stays until the next time. False where the user may make none, which is told
        once: rows go one by one then, to the same end."""
        try:
            _execute(connection, drop_stage_sql(table), table)
            _execute(connection, create_stage_sql(table, writes.columns), table)
        except DBAPIError as error:
            number = error.orig.args[0] if error.orig and error.orig.args else 0
            if number not in NO_RIGHT:
                raise
            if table.id.schema not in self._told:
                self._told.add(table.id.schema)
                LOG.warning(
                    "rows go to %s one by one: GRANT CREATE TEMPORARY TABLES ON %s.* lets many go "
                    "at once",
                    table.id,
                    table.id.schema,
                )
            return False
        _insert(
            connection,
            table,
            writes,
            lambda rows: insert_sql(stage_of(table), writes.columns, rows),
        )
        return True

    def insert(self, connection: Connection, table: TargetTable, writes: Writes) -> int:
        _insert(connection, table, writes, lambda rows: insert_sql(table.id, writes.columns, rows))
        return len(writes.rows)

    def swap(
        self,
        connection: Connection,
        table: TargetTable,
        columns: Sequence[str],
        old: Cells,
        new: Cells | None,
    ) -> int:
        literals = literal_rows(table, columns, [old] if new is None else [old, new])
        return _execute(connection, swap_sql(table, columns, *literals), table)

    def locked(
        self,
        connection: Connection,
        table: TargetTable,
        keys: Sequence[Cells],
        columns: Sequence[str],
    ) -> Iterator[tuple[int, tuple[Any, ...]]]:
        numbered = enumerate(literal_rows(table, table.key, keys))
        while part := [*islice(numbered, ROWS_PER_UNION)]:
            sql = " UNION ALL ".join(f"({locked_sql(table, columns, *each)})" for each in part)
            for number, *row in connection.exec_driver_sql(
                sql, execution_options={"no_parameters": True}
            ):
                yield number, tuple(row)

    def is_coarse(self, connection: Connection, table: TargetTable) -> bool:
        parameters = {**table.id._asdict(), "key": list(table.key)}
        return bool(connection.execute(COARSE, parameters).scalar())

    def spelled(
        self, connection: Connection, table: TargetTable, keys: Sequence[tuple[Cell, ...]]
    ) -> list[tuple[Cell, ...]]:
        names = ", ".join(f"CAST({QUOTED.name(name)} AS CHAR)" for name in table.key)
        found: list[tuple[Cell, ...]] = []
        for part in _key_literals(connection, table, keys):
            sql = f"SELECT {names} FROM {QUOTED.table(table.id)} WHERE {_is_one_of(table, part)}"
            found += [
                tuple(row)
                for row in connection.exec_driver_sql(
                    sql, execution_options={"no_parameters": True}
                )
            ]
        return found

    def is_any_alike(
        self, connection: Connection, table: TargetTable, keys: Sequence[tuple[Cell, ...]]
    ) -> bool:
        """By their weights. The column that gives no row gives the collation; blanks at the end,
        which some pad, count for nothing."""
        folding = [name for name in table.key if table.columns[name].is_folding]
        own = f"SELECT {QUOTED.names(folding)} FROM {QUOTED.table(table.id)} WHERE FALSE"
        weights = ", ".join(f"HEX(WEIGHT_STRING({QUOTED.name(name)}))" for name in folding)
        seen = set[tuple[Cell, ...]]()
        places = [table.key.index(name) for name in folding]
        texts = (tuple((key[place] or "").rstrip(" ") for place in places) for key in keys)
        rest = (
            tuple(cell for place, cell in enumerate(key) if place not in places) for key in keys
        )
        literals = literal_rows(table, folding, texts)
        while part := [*islice(literals, ROWS_PER_UNION)]:
            sql = (
                f"SELECT {weights} FROM "
                f"({' UNION ALL '.join([own, *(f'SELECT {chr(44).join(each)}' for each in part)])}) AS k"
            )
            for found in connection.exec_driver_sql(sql, execution_options={"no_parameters": True}):
                key = (*found, *next(rest))
                if key in seen:
                    return True
                seen.add(key)
        return False

    def preview(self, batch: TableBatch) -> Iterator[Statement]:
        """As for many rows; a few take statements of their own instead of the temporary table."""
        table = batch.table
        if batch.truncate:
            yield Statement(truncate_sql(table), 0)
        if batch.deletes:
            yield Statement(delete_sql(table, [_row("?" * len(table.key))] * 2), len(batch.deletes))
        for writes in batch.writes:
            columns, count, row = writes.columns, len(writes.rows), _row("?" * len(writes.columns))
            if writes.may_insert and _is_direct(table, writes):
                yield Statement(upsert_sql(table, columns, [row]), count)
                continue
            yield Statement(insert_sql(stage_of(table), columns, [row]), count)
            yield Statement(update_sql(table, columns), count)
            if writes.may_insert:
                yield Statement(insert_missing_sql(table, columns), count)
        for swaps in batch.swaps:
            row = "?" * len(swaps.columns)
            for old, new in swaps.rows:
                if old is not None:
                    before = ["NULL" if cell is None else "?" for cell in old]
                    yield Statement(
                        swap_sql(table, swaps.columns, before, None if new is None else row), 1
                    )
            if count := sum(old is None for old, _ in swaps.rows):
                yield Statement(insert_sql(table.id, swaps.columns, [_row(row)]), count)

    def widen(self, connection: Connection, table: TargetTable, column: str, type_: str) -> None:
        """MODIFY takes the whole definition, and what it leaves out is lost: so it is the one
        that the server prints, with another type."""
        old_type = connection.execute(
            text(COLUMN_TYPE), {**table.id._asdict(), "column": column}
        ).scalar_one()
        printed = connection.exec_driver_sql(f"SHOW CREATE TABLE {QUOTED.table(table.id)}").one()[1]
        _execute(connection, widen_sql(table, column, type_, old_type, printed), table)

    def diagnose(self, error: BaseException, columns: Collection[str]) -> Diagnosis:
        return diagnose(error, columns)


def _is_direct(table: TargetTable, writes: Writes) -> bool:
    """Whether ON DUPLICATE KEY UPDATE can only meet the row with the same key."""
    return can_insert(table, writes.columns) and not table.unique_keys


def _key_literals(
    connection: Connection, table: TargetTable, keys: Sequence[tuple[Cell, ...]]
) -> Iterator[list[str]]:
    """In parts for one statement each."""
    if any(table.columns[name].type == "float" for name in table.key):
        found = literal_rows(table, table.key, keys)
        literals = [
            _row(
                _compared(table.columns[name], cell)
                for name, cell in zip(table.key, row, strict=True)
            )
            for row in found
        ]
    else:
        literals = row_literals(table, table.key, keys)
    for rows in in_statements(literals, _room(connection)):
        yield from (
            rows[start : start + KEYS_PER_STATEMENT]
            for start in range(0, len(rows), KEYS_PER_STATEMENT)
        )


def _room(connection: Connection) -> int:
    """How many bytes of rows go into one statement."""
    return min(STATEMENT_BYTES, int(connection.info[MAX_PACKET]) * 7 // 8)


def _mark(
    connection: Connection, table: TargetTable, marks: Mapping[str, Sequence[tuple[Cell, ...]]]
) -> None:
    """Of rows that are there. One that is not found has a key that the server has rounded: it
    must not keep the label in its place."""
    for column, keys in marks.items():
        if sum(
            _execute(connection, mark_sql(table, column, part), table)
            for part in _key_literals(connection, table, keys)
        ) < len(keys):
            raise unfit(table, table.columns[column], NO_LABEL)


def _insert(
    connection: Connection, table: TargetTable, writes: Writes, sql: Callable[[Iterable[str]], str]
) -> int:
    """How many rows are new, as far as the server tells: of a statement with one row it does
    not."""
    inserted = 0
    for rows in in_statements(row_literals(table, writes.columns, writes.rows), _room(connection)):
        _execute(connection, sql(rows), table)
        driver: Any = connection.connection.driver_connection
        # what PyMySQL shows of it: a count in which changed rows are two
        if told := RECORDS.search(driver._result.message):
            inserted += int(told[1]) - int(told[2])
    return inserted


def _execute(connection: Connection, sql: str, table: TargetTable) -> int:
    """How many rows it hit. A row too long for the server is refused here: the server would just
    hang up, as if it were away."""
    limit = connection.info[MAX_PACKET]
    if 4 * len(sql) >= limit and (size := _size(sql)) >= limit:
        raise TargetRejected(
            f"target table {table.id}: a row takes {size} bytes, but max_allowed_packet is "
            f"{limit}: raise it"
        )
    try:
        return connection.exec_driver_sql(sql, execution_options={"no_parameters": True}).rowcount
    except DBAPIError as error:
        if (column := _enum_without_label(error, table)) is None:
            raise
    raise unfit(table, column, NO_LABEL)


# SQL text


def truncate_sql(table: TargetTable) -> str:
    return f"DELETE FROM {QUOTED.table(table.id)}"


def stage_of(table: TargetTable) -> TableId:
    return TableId(table.id.schema, "cdcbus_stage")


def drop_stage_sql(table: TargetTable) -> str:
    return f"DROP TEMPORARY TABLE IF EXISTS {QUOTED.table(stage_of(table))}"


def create_stage_sql(table: TargetTable, columns: Sequence[str]) -> str:
    """With a key of its own, which servers may ask of each table (sql_require_primary_key)."""
    source = f"SELECT {QUOTED.names(columns)} FROM {QUOTED.table(table.id)} WHERE FALSE"
    key = f"{QUOTED.name(STAGE_KEY)} BIGINT AUTO_INCREMENT PRIMARY KEY"
    return f"CREATE TEMPORARY TABLE {QUOTED.table(stage_of(table))} ({key}) AS {source}"


def insert_sql(table: TableId, columns: Sequence[str], rows: Iterable[str]) -> str:
    return f"INSERT INTO {QUOTED.table(table)} ({QUOTED.names(columns)}) VALUES {', '.join(rows)}"


def upsert_sql(table: TargetTable, columns: Sequence[str], rows: Iterable[str]) -> str:
    """Updates rows with the same key only. The server would take any row that holds a unique
    value, and the table may have got a unique key since it was looked at: so the first column of
    the key is set to itself, which overflows where it is in another row. That is an error in
    every SQL mode, whereas NULL would be none in a column that counts up."""
    first, same = (
        QUOTED.name(table.key[0]),
        " AND ".join(f"{QUOTED.name(name)} = VALUES({QUOTED.name(name)})" for name in table.key),
    )
    guard = f"{first} = IF(IF({same}, 1, ~0 + 1), {first}, {first})"
    changes = [
        f"{QUOTED.name(name)} = VALUES({QUOTED.name(name)})"
        for name in columns
        if name not in table.key
    ]
    return (
        f"{insert_sql(table.id, columns, rows)} ON DUPLICATE KEY UPDATE "
        f"{', '.join([guard, *changes])}"
    )


def update_sql(table: TargetTable, columns: Sequence[str]) -> str:
    """STRAIGHT_JOIN: the staged rows lead, the target's are found by primary key."""
    changes = ", ".join(
        f"t.{QUOTED.name(name)} = s.{QUOTED.name(name)}" for name in assigned(table, columns)
    )
    return (
        f"UPDATE {QUOTED.table(stage_of(table))} AS s STRAIGHT_JOIN {QUOTED.table(table.id)} "
        f"AS t ON {_same_key(table)} SET {changes}"
    )


def update_row_sql(table: TargetTable, columns: Sequence[str], row: Sequence[str]) -> str:
    """`row`: a literal per column."""
    cells = dict(zip(columns, row, strict=True))
    changes = ", ".join(f"{QUOTED.name(name)} = {cells[name]}" for name in assigned(table, columns))
    return f"UPDATE {QUOTED.table(table.id)} SET {changes} WHERE {_has(table, cells)}"


def _has(table: TargetTable, cells: Mapping[str, str]) -> str:
    return " AND ".join(
        f"{QUOTED.name(name)} = {_compared(table.columns[name], cells[name])}" for name in table.key
    )


def _compared(column: TargetColumn, literal: str) -> str:
    """A FLOAT is no decimal number of few digits: none is equal to it."""
    return (
        f"CAST({literal} AS FLOAT)"
        if column.type == "float" and literal not in ("NULL", "?")
        else literal
    )


def swap_sql(
    table: TargetTable, columns: Sequence[str], old: Sequence[str], new: Sequence[str] | None = None
) -> str:
    """`old` and `new`: a literal per column."""
    same = " AND ".join(
        _equals(table.columns[name], literal) for name, literal in zip(columns, old, strict=True)
    )
    if new is None:
        return f"DELETE FROM {QUOTED.table(table.id)} WHERE {same} LIMIT 1"
    changes = ", ".join(
        f"{QUOTED.name(name)} = {literal}" for name, literal in zip(columns, new, strict=True)
    )
    return f"UPDATE {QUOTED.table(table.id)} SET {changes} WHERE {same} LIMIT 1"


def _equals(column: TargetColumn, literal: str) -> str:
    """Equal to the last byte: collations take `a` for `A`, and a FLOAT is no decimal number of
    few digits."""
    name = QUOTED.name(column.name)
    if literal == "NULL":
        return f"{name} IS NULL"
    if column.type in TEXT_TYPES:
        return (
            f"{name} = {literal} AND CAST(CONVERT({name} USING utf8mb4) AS BINARY) = "
            f"CAST({literal} AS BINARY)"
        )
    if column.type in SPATIAL_TYPES:
        return f"CAST({name} AS BINARY) = {literal}"
    return (
        f"{name} = CAST({literal} AS {column.type})"
        if column.type in ("float", "json")
        else f"{name} = {literal}"
    )


def widen_sql(table: TargetTable, column: str, type_: str, old_type: str, printed: str) -> str:
    """`printed`: what SHOW CREATE TABLE prints; `old_type` stands there behind the column's
    name. The moment at which a row is written is asked for with as many digits as the column
    has, else it is no default for it."""
    begin = f"  {QUOTED.name(column)} {old_type}"
    [rest] = [
        line.removeprefix(begin).removesuffix(",")
        for line in printed.split("\n")
        if line.startswith(begin)
    ]
    digits = re.fullmatch(r"(?:datetime|timestamp)(\([0-9]\))?", type_)
    parts = [
        _unescaped(part)
        if part.startswith("'")
        else NOW.sub(f"CURRENT_TIMESTAMP{digits[1] or ''}", part)
        if digits
        else part
        for part in QUOTED_TEXT.split(rest)
    ]
    return (
        f"ALTER TABLE {QUOTED.table(table.id)} MODIFY COLUMN {QUOTED.name(column)} "
        f"{type_}{''.join(parts)}"
    )


QUOTED_TEXT: Final = re.compile(r"('(?:[^']|'')*')")
NOW: Final = re.compile(r"\bcurrent_timestamp(\([0-9]?\))?", re.IGNORECASE)
ESCAPES: Final = {"n": "\n", "r": "\r", "0": "\0"}


def _unescaped(text: str) -> str:
    """A text as the session reads it, which has no backslash escapes; SHOW CREATE TABLE prints
    them all the same."""
    return re.sub(r"\\(.)", lambda match: ESCAPES.get(match[1], match[1]), text)


def insert_missing_sql(table: TargetTable, columns: Sequence[str]) -> str:
    return (
        f"INSERT INTO {QUOTED.table(table.id)} ({QUOTED.names(columns)}) SELECT "
        f"{QUOTED.names(columns, 's.')} "
        f"FROM {QUOTED.table(stage_of(table))} AS s LEFT JOIN {QUOTED.table(table.id)} AS t ON "
        f"{_same_key(table)} "
        f"WHERE t.{QUOTED.name(table.key[0])} IS NULL"
    )


def locked_sql(table: TargetTable, columns: Sequence[str], number: int, key: Sequence[str]) -> str:
    """`key`: a literal per column."""
    has_key = _has(table, dict(zip(table.key, key, strict=True)))
    return (
        f"SELECT {number}, {QUOTED.names((*table.key, *columns))} FROM "
        f"{QUOTED.table(table.id)} WHERE {has_key} FOR UPDATE"
    )


def delete_sql(table: TargetTable, keys: Sequence[str]) -> str:
    """`keys` are row literals."""
    return f"DELETE FROM {QUOTED.table(table.id)} WHERE {_is_one_of(table, keys)}"


def mark_sql(table: TargetTable, column: str, keys: Sequence[str]) -> str:
    """`keys` are row literals. Without strict mode for this statement only, as MariaDB says it
    and as MySQL does, from 8.0 on. A moment is set to itself, as it may follow updates by
    itself."""
    moments = [
        QUOTED.name(name)
        for name, its in table.columns.items()
        if its.type in ("datetime", "timestamp") and not its.is_generated
    ]
    changes = ", ".join([f"{QUOTED.name(column)} = 0", *(f"{name} = {name}" for name in moments)])
    return (
        f"/*M! SET STATEMENT sql_mode = '{LENIENT}' FOR */ UPDATE /*+ SET_VAR(sql_mode = "
        f"'{LENIENT}') */ {QUOTED.table(table.id)} "
        f"SET {changes} WHERE {_is_one_of(table, keys)}"
    )


def _is_one_of(table: TargetTable, keys: Sequence[str]) -> str:
    """A lone key is named twice: MariaDB reads the whole table for `(a, b) IN ((1, 2))`."""
    keys = keys if len(keys) > 1 else [*keys, *keys]
    return f"({QUOTED.names(table.key)}) IN ({', '.join(keys)})"


def _same_key(table: TargetTable) -> str:
    return " AND ".join(f"t.{QUOTED.name(name)} = s.{QUOTED.name(name)}" for name in table.key)


# Cells

SPATIAL_TYPES: Final = frozenset(
    ("geometry", "point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon", "geometrycollection",
     "geomcollection", "vector")
)  # fmt: skip
BINARY_TYPES: Final = SPATIAL_TYPES | {
    "binary",
    "varbinary",
    "tinyblob",
    "blob",
    "mediumblob",
    "longblob",
}
TEXT_TYPES: Final = frozenset(
    ("char", "varchar", "tinytext", "text", "mediumtext", "longtext", "enum", "set")
)
NUMBER_TYPES: Final = frozenset(
    ("tinyint", "smallint", "mediumint", "int", "bigint", "decimal", "float", "double", "bit")
)
NUMBER: Final = re.compile(r"-?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?")


def row_literals(table: TargetTable, columns: Sequence[str], rows: Iterable[Cells]) -> list[str]:
    """Each row as `(1, 'a', NULL)`. Raises TargetRejected for a cell that its column cannot
    hold."""
    if isinstance(rows, ColumnRows):
        return rows_of(
            [
                _column_literals(table, table.columns[name], cells)
                for name, cells in zip(columns, rows.arrays, strict=True)
            ]
        )
    return [_row(cells) for cells in literal_rows(table, columns, rows)]


def _column_literals(table: TargetTable, column: TargetColumn, cells: pa.Array) -> pa.Array:
    """`_literals` of a whole column."""
    if column.type in BINARY_TYPES or (column.type in NUMBER_TYPES and not are_numbers(cells)):
        return pa.array(_literals(table, column, cells.to_pylist()), pa.string())
    return number_literals(cells) if column.type in NUMBER_TYPES else text_literals(cells)


def _row(literals: Iterable[str]) -> str:
    return f"({', '.join(literals)})"


def literal_rows(
    table: TargetTable, columns: Sequence[str], rows: Iterable[Cells]
) -> Iterator[tuple[str, ...]]:
    """Each row as a literal per column. Raises TargetRejected for a cell that its column cannot
    hold."""
    cells = zip(*rows, strict=True)
    return zip(
        *(
            _literals(table, table.columns[name], column)
            for name, column in zip(columns, cells, strict=True)
        ),
        strict=True,
    )


def _literals(table: TargetTable, column: TargetColumn, cells: Sequence[Cell]) -> Iterable[str]:
    """Numbers stand bare, as a key that is compared with a text may be compared as a rounded
    number. In text only the quote is doubled: the session has no backslash escapes."""
    if column.type in BINARY_TYPES:
        return [
            "NULL" if digits is None else f"x'{digits}'"
            for digits in hexadecimal(table, column, cells)
        ]
    if column.type in NUMBER_TYPES:
        if not all(map(NUMBER.fullmatch, [cell for cell in cells if cell is not None])):
            raise unfit(table, column, "no number")
        return ["NULL" if cell is None else cell for cell in cells]
    return ["NULL" if cell is None else "'" + cell.replace("'", "''") + "'" for cell in cells]


def in_statements(rows: Iterable[str], room: int) -> Iterator[list[str]]:
    """The rows in parts that take at most `room` bytes as they are sent, with what stands
    between them; a longer row goes alone."""
    part: list[str] = []
    size = 0
    for row in rows:
        its = _size(row) + len(", ")
        if part and size + its > room:
            yield part
            part, size = [], 0
        part.append(row)
        size += its
    if part:
        yield part


def _size(text: str) -> int:
    """In bytes, as it is sent."""
    return len(text) if text.isascii() else len(text.encode())


# Errors

# Which error is about what: only those of one row may ever become a dead letter, and one that is
# not named here stops the task. docs/targets.md has the same table.
UNAVAILABLE: Final = frozenset(
    (
        # locks, deadlock, changed row, no wait, commit
        *(1205, 1213, 1206, 1020, 3572, 3101, 1180, 1099, 1100, 1223),
        *(1412, 1615),  # a table was altered meanwhile, for the transaction or the statement
        # no connection, lost, idle, killed, network
        *(2002, 2003, 2006, 2013, 2014, 2055, 4031, 1927, 1152, 1158, 1159, 1160, 1161),
        *(1040, 1041, 1037, 1038, 1203, 1226),  # connections, memory, per-user limits
        # disk or table full, errors of files and of the storage engine
        *(1021, 1114, 1026, 1030, 3, 1016, 1023),
        # shutdown, read-only (failover), cluster not ready, interrupted, timeouts
        *(1053, 1079, 1290, 1792, 1836, 1047, 1317, 1969, 3024),
    )
)
MISCONFIGURED: Final = frozenset(
    (
        1044,
        1045,
        1046,
        1049,
        1129,
        1130,
        1142,
        1143,
        1227,
        1251,
        1370,
        1524,
        1665,
        1698,
        1820,
        1862,
        2059,
        3118,
        *TLS_ERRORS,
    )
)  # rights, unknown database, host, login method, account, binlog format
NO_RIGHT: Final = frozenset((1044, 1142))
"""To make a temporary table, among others."""
UNFIT: Final = frozenset(
    (
        *(1054, 1136, 1146, 1051, 1072, 1091, 1176),  # no such column, table or key
        *(1288, 1471, 1347, 1356, 1394),  # a view that takes no rows, or that is broken
        *(3105, 1906, 1907, 3750, 1173),  # generated columns; a primary key is asked for
        # what ALTER TABLE refuses
        *(1060, 1061, 1067, 1068, 1075, 1101, 1118, 1166, 1170, 1171, 3780),
        *(1832, 1833, 1846, 1845),
    )
)
OF_ROW: Final = frozenset(
    (
        *(1048, 1364, 1263),  # NULL, or nothing, where something must stand
        # what its column cannot hold
        *(1264, 1265, 1292, 1366, 1367, 1406, 1411, 1416, 1441, 1690, 1365, 1300),
        # JSON, geometries
        *(3140, 3141, 3144, 3156, 3158, 3037, 3055, 3516, 3643, 3616, 3617, 4038),
        *(3819, 4025, 1369, 1526, 1748, 1591, 1514),  # checks, partitions
        *(1153, 1301, 139, 1713),  # too large
    )
)
QUOTABLE: Final = (
    UNAVAILABLE
    | MISCONFIGURED
    | frozenset(
        (
            1048,
            1054,
            1060,
            1118,
            1146,
            1264,
            1265,
            1364,
            1406,
            1451,
            1452,
            1792,
            1832,
            1833,
            3780,
            3819,
            4025,
        )
    )
)
DUPLICATE: Final = 1062
SIGNAL: Final = 1644
OUT_OF_RANGE: Final = 1690
OTHER_ROW: Final = re.compile(r"'(~0 \+ 1|\(~\(0\) \+ 1\))'$")
"""What `upsert_sql` does where it meets a row with another key, as servers print it."""
TRUNCATED: Final = 1265
NO_LABEL: Final = (
    "none of its labels; an empty one is MySQL's mark of an invalid value, which cannot be "
    "written in columns of keys, nor in tables "
    "without a key or with one that is rounded: correct it at the source, or give the target's "
    "column the label ''"
)
CONFLICTS: Final = frozenset((DUPLICATE, 1216, 1217, 1451, 1452, 1761, 1762))  # and foreign keys


def diagnose(error: BaseException, columns: Collection[str]) -> Diagnosis:
    """Server messages are passed on only where they name objects, not cells."""
    cause: BaseException = getattr(error, "orig", None) or error
    number, message = (*cause.args, "", "")[:2]
    message = str(message)
    if is_tls_refusal(cause):
        return Diagnosis(TargetMisconfigured, f"no TLS connection: {message}")
    if number == OUT_OF_RANGE and OTHER_ROW.search(message):
        return Diagnosis(
            TargetUnavailable, "it has got a unique key meanwhile, and is looked at again"
        )
    # from the driver: the connection is closed already
    if not isinstance(number, int) or number == 0:
        return Diagnosis(TargetUnavailable, f"the connection is lost ({type(cause).__name__})")
    return Diagnosis(_class_of(number), f"errno {number}: {_safe_text(number, message, columns)}")


def _enum_without_label(error: DBAPIError, table: TargetTable) -> TargetColumn | None:
    """The ENUM column of which the server says that a cell does not fit it."""
    number, message = (*error.orig.args, "", "")[:2] if error.orig else ("", "")
    named = re.search("'(.+)'", str(message)) if number == TRUNCATED else None
    column = table.columns.get(named[1]) if named else None
    return column if column and column.type == "enum" else None


def _class_of(number: int) -> type[TargetError]:
    if number in UNAVAILABLE:
        return TargetUnavailable
    if number in MISCONFIGURED:
        return TargetMisconfigured
    if number in UNFIT:
        return TargetTableUnfit
    if number in CONFLICTS:
        return RowConflict
    return TargetRejected if number in OF_ROW else TargetError


def _safe_text(number: int, message: str, columns: Collection[str]) -> str:
    if number in QUOTABLE:
        return message
    if number == SIGNAL:
        return "a trigger or a check of the target's own refuses the statement (SIGNAL)"
    if number == DUPLICATE:
        key = re.search(r"for key '([^']*)'$", message)
        return f"a value that must be unique is there already{f', key {key[1]}' if key else ''}"
    # The column's name comes last, after the cell; only a name that the batch has is believed.
    named = [
        word for word in re.findall(r"[^`'. ]+", message.rpartition("olumn ")[2]) if word in columns
    ]
    if not named:
        return (
            "the server refuses the rows"
            if number in OF_ROW
            else "the server refuses the statement, and not for what a row holds"
        )
    if message.startswith("Incorrect string value"):
        return f"text has characters that column {named[0]} cannot hold: check its character set"
    return f"a cell does not fit column {named[0]}"
