"""The target's current row beside the row of a dead letter: read by its key, without any write.

Every look ends within LOOK_SECONDS, also at a server that hangs. Only in databases whose cells are
read as a verify reads them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import closing
from dataclasses import dataclass, replace
from threading import BoundedSemaphore, Thread
from typing import Any, Final

from sqlalchemy import Connection

from cdcbus.consumer.config import LoadTask
from cdcbus.consumer.records.batch_report import BatchReport
from cdcbus.consumer.transform.change_filter import ChangeFilter
from cdcbus.plugins.contracts import JdbcTarget, TargetTable
from cdcbus.plugins.errors import ConfigError, TargetUnavailable
from cdcbus.plugins.loaders import LOADERS, open_target
from cdcbus.plugins.loaders.engine import Database
from cdcbus.plugins.rowchange import Cell, Op, Row, RowChange
from cdcbus.producer.ddl.table_schema import TableColumn
from cdcbus.tasks.verify.cells import forms_of
from cdcbus.tasks.verify.sides import charsets_of
from cdcbus.tasks.verify.sides import open_target as connected
from cdcbus.tasks.verify.sql.keys import fits
from cdcbus.tasks.verify.sql.source_cells import reading, selected
from cdcbus.tasks.verify.sql.text import (
    POSTGRESQL_SESSION,
    compared_column,
    postgresql_selected,
    quoted,
    quoted_table,
    target_literal,
)

CONNECT_SECONDS: Final = 5.0
STATEMENT_SECONDS: Final = 5
LOOK_SECONDS: Final = 15.0
CHANGES: Final = 20  # of a record, that are looked up
LOOKS_AT_ONCE: Final = 4
"""A server that hangs holds this many threads at most."""
_LOOKS = BoundedSemaphore(LOOKS_AT_ONCE)
READABLE: Final = ("postgresql", "mysql")


@dataclass(frozen=True, slots=True)
class ComparedCell:
    """A column of the target: as the dead letter's change has it before and after, and as the
    target has it now. None is NULL; the flags say whether it is present at all. `is_different`:
    the target has another cell than the change would write."""

    name: str
    before: Cell
    after: Cell
    now: Cell
    has_before: bool
    has_after: bool
    has_now: bool
    is_key: bool
    is_different: bool


@dataclass(frozen=True, slots=True)
class TargetRow:
    """A row change of a dead letter and the target's row with its key. `is_there`: it exists; None
    where it could not be looked up, as `reason` says in a sentence."""

    table: str
    op: str
    cells: tuple[ComparedCell, ...] = ()
    is_there: bool | None = None
    reason: str = ""


def target_rows(task: LoadTask, value: bytes) -> list[TargetRow]:
    """A row for each row change of a record and each table that it goes to. Raises ConfigError for
    a target that cannot be read like this, DataError for a record that cannot be read, and
    TargetError where the target does not answer."""
    target = task.target
    if not isinstance(target, JdbcTarget):
        raise ConfigError("its target is a topic, which has no rows that could be read by a key")
    if task.loader not in LOADERS:
        raise ConfigError(f"rows of targets of the loader {task.loader} are not read here")
    if task.processor:
        raise ConfigError(
            "an event processor (consumer.eventProcessor) makes its rows, so that their keys at "
            "the target are not known here"
        )
    # Not under the task's id: a session with it counts as an earlier process of the task, and is
    # ended.
    own = replace(
        target,
        task_id="",
        pool_size=2,
        min_connections=0,
        # A look gives up where a task would wait for the target.
        max_wait_seconds=CONNECT_SECONDS,
        connect_retries=0,
    )
    return within(LOOK_SECONDS, lambda: _look(task, own, value))


def _look(task: LoadTask, target: JdbcTarget, value: bytes) -> list[TargetRow]:
    # What the task's filter leaves out has no row at the target.
    wanted = ChangeFilter(task, task.reader, None)
    changes = list(wanted.changes(value, BatchReport()))[:CHANGES]
    mapper = task.mapper
    database = open_target(target)
    if database.url.dialect not in READABLE:
        raise ConfigError(
            f"rows of a target of the kind {database.url.dialect} are not read here; look the row "
            "up by its key with the target's own tools"
        )
    found = []
    with closing(LOADERS[task.loader](database, "")) as loader, connected(database) as connection:
        for change in changes:
            for route in mapper.routes(change.table.id):
                table = loader.table(route.target)
                if table is None:
                    reason = f"the target has no table {route.target}"
                    found.append(TargetRow(str(route.target), change.op.value, reason=reason))
                    continue
                mapped = route.passing_plan(change.table, table).map(change)
                found += _rows_of(mapped, table, target, database, connection)
    return found


def _rows_of(
    change: RowChange,
    table: TargetTable,
    target: JdbcTarget,
    database: Database,
    connection: Connection,
) -> Iterator[TargetRow]:
    """One row, or for a change that moves the key one for each key."""
    op = change.op.value
    if change.op is Op.TRUNCATE:
        yield TargetRow(str(table.id), op, reason="it empties the table, and is of no single row")
        return
    keys = _keys(change, table)
    if not keys:
        reason = (
            f"the target table {table.id} has no key that the row has, so its row cannot be "
            "identified"
        )
        yield TargetRow(str(table.id), op, _compared(change, table, target, None), None, reason)
    for key in keys:
        now = _row(key, table, target, database, connection)
        yield TargetRow(str(table.id), op, _compared(change, table, target, now), now is not None)


def _keys(change: RowChange, table: TargetTable) -> list[tuple[Cell, ...]]:
    """The key of the row after the change, and the one before where the change moves it."""
    if not table.key:
        return []
    keys = []
    for image in (change.after, change.before):
        if image is not None and all(name in image for name in table.key):
            keys.append(tuple(image[name] for name in table.key))
    return list(dict.fromkeys(keys))


def _row(
    key: Sequence[Cell],
    table: TargetTable,
    target: JdbcTarget,
    database: Database,
    connection: Connection,
) -> Row | None:
    """The row with this key as the target has it, in the form in which a verify compares it."""
    charsets: Mapping[str, str] = {}
    if table.dialect != "postgresql":
        with database.reported(f"table {table.id}"):
            charsets = charsets_of(connection, table.id)
    where = _condition(key, table, target, charsets)
    if where is None:
        return None
    picked, read = _selected(table, charsets)
    sql = f"SELECT {picked} FROM {quoted_table(table.dialect, table.id)} WHERE {where} LIMIT 1"
    with database.reported(f"table {table.id}"), connection.begin():
        _limit(connection, table.dialect)
        # A % in a literal is no placeholder.
        rows = connection.exec_driver_sql(sql, execution_options={"no_parameters": True}).fetchall()
    if not rows:
        return None
    row = {}
    for column, cell in zip(table.columns.values(), read(tuple(rows[0])), strict=True):
        row[column.name] = forms_of(column, target.zero_date).actual(cell)
    return row


def _condition(
    key: Sequence[Cell], table: TargetTable, target: JdbcTarget, charsets: Mapping[str, str]
) -> str | None:
    """The condition that only the row with this key meets; None where no cell of a column's type
    equals the one of the key."""
    where = []
    for name, cell in zip(table.key, key, strict=True):
        column = table.columns[name]
        expected = forms_of(column, target.zero_date).expected(cell)
        if expected is None:
            return None
        literal = target_literal(table.dialect, column, expected)
        if literal is None:
            return None
        place = compared_column(table.dialect, column)
        # MySQL and MariaDB refuse a literal that the column's character set cannot hold.
        charset = charsets.get(name, "")
        if charset and not fits(charset, expected):
            place = f"CONVERT({place} USING utf8mb4)"
        where.append(f"{place} = {literal}")
    return " AND ".join(where)


def _selected(
    table: TargetTable, charsets: Mapping[str, str]
) -> tuple[str, Callable[[Any], tuple[Cell, ...]]]:
    """The columns of the SELECT, and what reads a row of its answer."""
    columns = table.columns.values()
    if table.dialect == "postgresql":
        return ", ".join(map(postgresql_selected, columns)), tuple
    expressions = []
    readers = []
    for column in columns:
        typed = TableColumn(column.name, column.declared, charsets.get(column.name, ""))
        expression, reader = selected(typed, quoted("mysql", column.name))
        expressions.append(expression)
        readers.append(reader)
    return ", ".join(expressions), reading(readers)


def _limit(connection: Connection, dialect: str) -> None:
    """Limits a transaction that reads: how long a statement may take, and that it writes
    nothing."""
    if dialect == "postgresql":
        connection.exec_driver_sql("SET TRANSACTION READ ONLY")
        connection.exec_driver_sql(f"SET LOCAL statement_timeout = {STATEMENT_SECONDS * 1000}")
        for setting in POSTGRESQL_SESSION.split("; "):
            connection.exec_driver_sql(setting)
        return
    # MySQL limits statements in milliseconds, MariaDB by another name in seconds.
    [[version]] = connection.exec_driver_sql("SELECT VERSION()").fetchall()
    if isinstance(version, bytes):
        version = version.decode()
    limit = f"max_execution_time = {STATEMENT_SECONDS * 1000}"
    if "mariadb" in str(version).lower():
        limit = f"max_statement_time = {STATEMENT_SECONDS}"
    connection.exec_driver_sql(f"SET SESSION {limit}")


def _compared(
    change: RowChange, table: TargetTable, target: JdbcTarget, now: Row | None
) -> tuple[ComparedCell, ...]:
    before, after, there = change.before or {}, change.after or {}, now or {}
    names = dict.fromkeys([*table.key, *table.columns, *after, *before])
    cells = []
    for name in names:
        if name not in before and name not in after and name not in there:
            continue
        is_different = False
        if name in after and name in there:
            expected = after[name]
            if name in table.columns:  # as the target would store it
                expected = forms_of(table.columns[name], target.zero_date).expected(expected)
            is_different = expected != there[name]
        cell = ComparedCell(
            name=name,
            before=before.get(name),
            after=after.get(name),
            now=there.get(name),
            has_before=name in before,
            has_after=name in after,
            has_now=name in there,
            is_key=name in table.key,
            is_different=is_different,
        )
        cells.append(cell)
    return tuple(cells)


def within(seconds: float, ask: Callable[[], list[TargetRow]]) -> list[TargetRow]:
    """What `ask` returns or raises; TargetUnavailable where it takes longer, or too many wait."""
    # Refused rather than queued: a page must not wait for targets that hang.
    if not _LOOKS.acquire(blocking=False):
        raise TargetUnavailable("others are looking at target rows now; try again in a while")
    future: Future[list[TargetRow]] = Future()

    def run() -> None:
        try:
            future.set_result(ask())
        except BaseException as error:
            # Goes to the thread that waits for it, whatever it is.
            future.set_exception(error)
        finally:
            # By this thread, not by the caller: a look at a target that hangs counts until it ends.
            _LOOKS.release()

    try:
        Thread(target=run, name="target-row", daemon=True).start()
    except RuntimeError as error:
        _LOOKS.release()
        raise TargetUnavailable(
            "this node may start no more threads: raise its limit (ulimit -u, pids), or try again"
        ) from error
    try:
        return future.result(seconds)
    except TimeoutError:
        raise TargetUnavailable(
            f"the target has not answered within {seconds:g} s: the row is not known"
        ) from None
