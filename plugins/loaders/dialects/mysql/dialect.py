"""MySQL and MariaDB: multi-row statements with the cells as literals; through a temporary table
only if other rows could be hit.

ON DUPLICATE KEY UPDATE would update any row that collides on any unique key, so tables with further
unique keys are first updated by primary key through a join, then the missing rows are inserted. A
unique key that is not known yet makes the statement fail (`upsert_sql`).
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any, Final

from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError

from cdcbus.plugins.contracts import TableBatch, TargetTable, Writes
from cdcbus.plugins.errors import TargetRejected
from cdcbus.plugins.loaders.cells.equal_keys import folding_places
from cdcbus.plugins.loaders.dialect import (
    Cells,
    Diagnosis,
    Statement,
    Upserted,
    can_insert,
    check_hits,
    refuse_orphans,
    run_plain,
    unfit,
)
from cdcbus.plugins.loaders.dialects.mysql.catalog import CATALOG, COARSE, COLUMN_TYPE, hold
from cdcbus.plugins.loaders.dialects.mysql.cells import (
    in_statements,
    literal_rows,
    refuse_replaced_nulls,
    row_literal,
    row_literals,
    size_of,
)
from cdcbus.plugins.loaders.dialects.mysql.enums import marks_held_back
from cdcbus.plugins.loaders.dialects.mysql.errors import (
    NO_LABEL,
    diagnose,
    enum_without_label,
    is_form_refused,
    is_read_only,
    is_too_wide,
    lacks_right,
)
from cdcbus.plugins.loaders.dialects.mysql.jdbc_address import MAX_PACKET
from cdcbus.plugins.loaders.dialects.mysql.sql import (
    QUOTED,
    create_stage_sql,
    delete_sql,
    drop_stage_sql,
    insert_missing_sql,
    insert_sql,
    key_sql,
    locked_sql,
    mark_sql,
    spelled_sql,
    stage_of,
    swap_sql,
    update_row_sql,
    update_sql,
    upsert_sql,
    weights_sql,
    widen_sql,
)
from cdcbus.plugins.loaders.dialects.preview import previewed
from cdcbus.plugins.rowchange import Cell

LOG = logging.getLogger(__name__)
STATEMENT_BYTES: Final = 500_000
"""The maximum length of a statement if the server accepts it; an eighth of max_allowed_packet is
left for the text around the rows."""
FEW_ROWS: Final = 8
"""Up to this many rows cost less one by one than through a temporary table."""
RECORDS: Final = re.compile(rb"([0-9]+)[^0-9]+([0-9]+)")
"""In `Records: 7  Duplicates: 2  Warnings: 0`, in the server's language."""
KEYS_PER_STATEMENT: Final = 500
"""Below the sizes at which MariaDB converts an IN list to a join and MySQL stops looking up its
members by index."""
ROWS_PER_UNION: Final = 100
NEEDS_RIGHT: Final = "GRANT CREATE TEMPORARY TABLES ON %s.* lets the task write many together"
FORM_REFUSED: Final = (
    "the server makes no temporary tables within transactions, because of enforce_gtid_consistency "
    "in MySQL before 8.0.13 or with another binlog_format than ROW, or of pxc_strict_mode; without "
    "that the task would write many together"
)
TOO_WIDE: Final = (
    "it has as many columns, or as long rows, as the server allows, so that no temporary table can "
    "hold them with a key of its own; with shorter or fewer columns the task would write many "
    "together"
)


class Mysql:
    """Writes to MySQL and MariaDB. The settings of its sessions are in `jdbc_address`."""

    name = "mysql"
    catalog = CATALOG

    def __init__(self) -> None:
        self._reported: set[str] = set()

    def truncate(self, connection: Connection, table: TargetTable) -> None:
        """Uses DELETE, as TRUNCATE would commit."""
        refuse_orphans(connection, CATALOG, table, "SELECT @@foreign_key_checks")
        _execute(connection, QUOTED.delete_all(table.id), table)

    def delete(
        self, connection: Connection, table: TargetTable, keys: Sequence[tuple[Cell, ...]]
    ) -> int:
        deleted = 0
        for part in _key_literals(connection, table, keys):
            deleted += _execute(connection, delete_sql(table, part), table)
        return deleted

    def upsert(self, connection: Connection, table: TargetTable, writes: Writes) -> Upserted:
        refuse_replaced_nulls(table, writes.columns, writes.rows)
        held, marks = marks_held_back(table, writes)
        inserted = self._upsert(connection, table, held)
        _mark(connection, table, marks)
        return Upserted(inserted)

    def _upsert(self, connection: Connection, table: TargetTable, writes: Writes) -> int:
        """Returns the number of inserted rows. A single row that is expected to exist is updated
        first, as the server would not report whether it was inserted."""
        is_direct = _is_direct(table, writes)
        if is_direct and (len(writes.rows) > 1 or not writes.expected):
            sql = partial(upsert_sql, table, writes.columns)
            return _insert(connection, table, writes, sql)
        if len(writes.rows) <= FEW_ROWS or not self._stage(connection, table, writes):
            return self._upsert_one_by_one(connection, table, writes, is_direct=is_direct)
        inserted = 0
        hit = _execute(connection, update_sql(table, writes.columns), table)
        check_hits(connection, CATALOG, table, hit, writes.expected)
        if hit < len(writes.rows):
            inserted = _execute(connection, insert_missing_sql(table, writes.columns), table)
        _execute(connection, drop_stage_sql(table), table)
        return inserted

    def _upsert_one_by_one(
        self, connection: Connection, table: TargetTable, writes: Writes, *, is_direct: bool
    ) -> int:
        inserted = 0
        for row in literal_rows(table, writes.columns, writes.rows):
            hit = _execute(connection, update_row_sql(table, writes.columns, row), table)
            check_hits(connection, CATALOG, table, hit, 1)
            if hit:
                continue
            rows = [row_literal(row)]
            if is_direct:
                # if the row exists nevertheless, the server has rounded its key
                sql = upsert_sql(table, writes.columns, rows)
            else:
                sql = insert_sql(table.id, writes.columns, rows)
            # a count of two means that an existing row was updated
            inserted += _execute(connection, sql, table) == 1
        return inserted

    def update(self, connection: Connection, table: TargetTable, writes: Writes) -> int:
        refuse_replaced_nulls(table, writes.columns, writes.rows)
        held, marks = marks_held_back(table, writes)
        if marks and len(writes.rows) > 1:
            # only one row at a time shows whether it exists and must be marked
            hit = 0
            for row in writes.rows:
                hit += self.update(connection, table, replace(writes, rows=[row]))
            return hit
        hit = self._update(connection, table, held)
        if hit:
            _mark(connection, table, marks)
        return hit

    def _update(self, connection: Connection, table: TargetTable, writes: Writes) -> int:
        if len(writes.rows) <= FEW_ROWS or not self._stage(connection, table, writes):
            hit = 0
            for row in literal_rows(table, writes.columns, writes.rows):
                found = _execute(connection, update_row_sql(table, writes.columns, row), table)
                check_hits(connection, CATALOG, table, found, 1)
                hit += found
            return hit
        hit = _execute(connection, update_sql(table, writes.columns), table)
        check_hits(connection, CATALOG, table, hit, len(writes.rows))
        _execute(connection, drop_stage_sql(table), table)
        return hit

    def _stage(self, connection: Connection, table: TargetTable, writes: Writes) -> bool:
        """Puts the rows into a temporary table, created each time so that it always fits; after an
        error it stays until the next time. Returns False if the user may not create one, the
        server makes none within a transaction, or the table is so wide that one with a column more
        is too wide: rows are then written one by one, with the same result. That is logged
        once."""
        try:
            _execute(connection, drop_stage_sql(table), table)
            _execute(connection, create_stage_sql(table, writes.columns), table)
        except DBAPIError as error:
            if lacks_right(error):
                self._warn_of_slow(table, table.id.schema, NEEDS_RIGHT % table.id.schema)
            elif is_form_refused(error):
                self._warn_of_slow(table, "", FORM_REFUSED)
            elif is_too_wide(error):
                self._warn_of_slow(table, str(table.id), TOO_WIDE)
            else:
                raise
            return False
        sql = partial(insert_sql, stage_of(table), writes.columns)
        _insert(connection, table, writes, sql)
        return True

    def _warn_of_slow(self, table: TargetTable, about: str, remedy: str) -> None:
        if about not in self._reported:
            self._reported.add(about)
            LOG.warning("rows are written to %s one by one: %s", table.id, remedy)

    def insert(self, connection: Connection, table: TargetTable, writes: Writes) -> int:
        refuse_replaced_nulls(table, writes.columns, writes.rows)
        _insert(connection, table, writes, partial(insert_sql, table.id, writes.columns))
        return len(writes.rows)

    def swap(
        self,
        connection: Connection,
        table: TargetTable,
        columns: Sequence[str],
        old: Cells,
        new: Cells | None,
    ) -> int:
        rows = [old]
        if new is not None:
            refuse_replaced_nulls(table, columns, [new])
            rows.append(new)
        literals = literal_rows(table, columns, rows)
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
            selects = []
            for number, key in part:
                selects.append(f"({locked_sql(table, columns, number, key)})")
            for row in run_plain(connection, " UNION ALL ".join(selects)):
                yield row[0], tuple(row[1:])

    def is_coarse(self, connection: Connection, table: TargetTable) -> bool:
        hold(connection, table.id)
        parameters = {**table.id._asdict(), "key": list(table.key)}
        return bool(connection.execute(COARSE, parameters).scalar())

    def spelled(
        self, connection: Connection, table: TargetTable, keys: Sequence[tuple[Cell, ...]]
    ) -> list[tuple[Cell, ...]]:
        found: list[tuple[Cell, ...]] = []
        for part in _key_literals(connection, table, keys):
            found += map(tuple, run_plain(connection, spelled_sql(table, part)))
        return found

    def is_any_alike(
        self, connection: Connection, table: TargetTable, keys: Sequence[tuple[Cell, ...]]
    ) -> bool:
        """Compares collation weights. Trailing blanks are ignored, as some collations pad; so are
        trailing characters that the collation treats as blanks, or ignores."""
        places = folding_places(table)
        folding = [table.key[place] for place in places]
        texts = []
        others = []
        for key in keys:
            text_cells = []
            other_cells = list(key)
            for place in places:
                text_cells.append((key[place] or "").rstrip(" "))
                other_cells[place] = None
            texts.append(tuple(text_cells))
            others.append(other_cells)
        # texts and the rest are compared apart: only texts have weights
        rest = iter(others)
        seen = set[tuple[Cell, ...]]()
        literals = literal_rows(table, folding, texts)
        [blank] = literal_rows(table, folding, [(" ",) * len(places)])
        while part := [*islice(literals, ROWS_PER_UNION)]:
            blanks, *found = run_plain(connection, weights_sql(table, folding, [blank, *part]))
            for weights in found:
                key = (*map(_without_end, weights, blanks), *next(rest))
                if key in seen:
                    return True
                seen.add(key)
        return False

    def preview(self, batch: TableBatch) -> Iterator[Statement]:
        """Shows the statements for many rows; a few rows are written without the temporary
        table."""
        table = batch.table
        delete = ""  # a table without a key has no deletes by key
        if table.key:
            key = key_sql(table, "?" * len(table.key))
            delete = delete_sql(table, [key, key])
        return previewed(
            batch,
            truncate=QUOTED.delete_all(table.id),
            delete=delete,
            written=lambda writes: _preview_writes(table, writes),
            swap=lambda columns, old, is_update: _preview_swap(table, columns, old, is_update),
            insert=lambda columns: insert_sql(table.id, columns, [_unknown(columns)]),
        )

    def widen(self, connection: Connection, table: TargetTable, column: str, type_: str) -> None:
        """Uses MODIFY with the definition that the server prints, and the new type: attributes that
        MODIFY omits would be lost."""
        hold(connection, table.id)
        place = {**table.id._asdict(), "column": column}
        old_type = connection.execute(text(COLUMN_TYPE), place).scalar_one()
        show = f"SHOW CREATE TABLE {QUOTED.table(table.id)}"
        _, printed, *_ = connection.exec_driver_sql(show).one()
        _execute(connection, widen_sql(table, column, type_, old_type, printed), table)

    def diagnose(self, error: BaseException, columns: Collection[str]) -> Diagnosis:
        return diagnose(error, columns)

    def is_read_only(self, error: BaseException) -> bool:
        return is_read_only(error)


def _unknown(columns: Sequence[str]) -> str:
    """A row with question marks in place of its cells."""
    return row_literal("?" * len(columns))


def _preview_writes(table: TargetTable, writes: Writes) -> Iterator[Statement]:
    columns = writes.columns
    row = _unknown(columns)
    count = len(writes.rows)
    if writes.may_insert and _is_direct(table, writes):
        yield Statement(upsert_sql(table, columns, [row]), count)
        return
    yield Statement(insert_sql(stage_of(table), columns, [row]), count)
    yield Statement(update_sql(table, columns), count)
    if writes.may_insert:
        yield Statement(insert_missing_sql(table, columns), count)


def _preview_swap(table: TargetTable, columns: Sequence[str], old: Cells, is_update: bool) -> str:
    before = ["NULL" if cell is None else "?" for cell in old]
    after = None
    if is_update:
        after = "?" * len(columns)
    return swap_sql(table, columns, before, after)


def _is_direct(table: TargetTable, writes: Writes) -> bool:
    """Whether ON DUPLICATE KEY UPDATE can only hit the row with the same key."""
    return can_insert(table, writes.columns) and not table.unique_keys


def _key_literals(
    connection: Connection, table: TargetTable, keys: Sequence[tuple[Cell, ...]]
) -> Iterator[list[str]]:
    """Yields the keys, in parts for one statement each."""
    literals = [key_sql(table, cells) for cells in literal_rows(table, table.key, keys)]
    for rows in in_statements(literals, _room(connection)):
        for start in range(0, len(rows), KEYS_PER_STATEMENT):
            yield rows[start : start + KEYS_PER_STATEMENT]


def _room(connection: Connection) -> int:
    """The bytes of rows that fit into one statement."""
    return min(STATEMENT_BYTES, int(connection.info[MAX_PACKET]) * 7 // 8)


def _mark(
    connection: Connection, table: TargetTable, marks: Mapping[str, Sequence[tuple[Cell, ...]]]
) -> None:
    """Marks existing rows. Raises TargetRejected if one is not found, as the server has rounded its
    key: it must not keep the label instead of the mark."""
    for column, keys in marks.items():
        marked = 0
        for part in _key_literals(connection, table, keys):
            marked += _execute(connection, mark_sql(table, column, part), table)
        if marked < len(keys):
            raise unfit(table, table.columns[column], NO_LABEL)


def _insert(
    connection: Connection, table: TargetTable, writes: Writes, sql: Callable[[Iterable[str]], str]
) -> int:
    """Returns the number of new rows, as far as the server reports it: not for a single row."""
    inserted = 0
    literals = row_literals(table, writes.columns, writes.rows)
    for rows in in_statements(literals, _room(connection)):
        _execute(connection, sql(rows), table)
        driver: Any = connection.connection.driver_connection
        # PyMySQL's own count counts updated rows twice; the server's text has both numbers
        if counts := RECORDS.search(driver._result.message):
            inserted += int(counts[1]) - int(counts[2])
    return inserted


def _execute(connection: Connection, sql: str, table: TargetTable) -> int:
    """Returns the number of rows hit. Raises TargetRejected for a row too long for the server,
    which would just close the connection, as if it were down."""
    limit = connection.info[MAX_PACKET]
    # a character takes up to four bytes: the bytes of most statements need not be counted
    if 4 * len(sql) >= limit and (size := size_of(sql)) >= limit:
        raise TargetRejected(
            f"target table {table.id}: a row takes {size} bytes, but max_allowed_packet is "
            f"{limit}: raise it"
        )
    try:
        return run_plain(connection, sql).rowcount
    except DBAPIError as error:
        column = enum_without_label(error, table)
        if column is None:
            raise
    raise unfit(table, column, NO_LABEL)


def _without_end(weights: str, blank: str) -> str:
    """The weights without trailing blanks."""
    while blank and weights.endswith(blank):
        weights = weights.removesuffix(blank)
    return weights
