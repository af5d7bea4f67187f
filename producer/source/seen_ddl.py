"""Collects the DDL of a task's tables that its stream has passed, published or not, for charts, and
warns of the one that changes rows without a row event."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Iterable, Sequence

from cdcbus.plugins.rowchange import TableId
from cdcbus.producer.binlog.event_types import CHANGES_TABLES
from cdcbus.producer.config import FetchTask
from cdcbus.producer.ddl.named_tables import named
from cdcbus.producer.ddl.rows.known_tables import KnownTables
from cdcbus.producer.ddl.rows.unlogged import unlogged
from cdcbus.producer.ddl.statements import changes
from cdcbus.producer.ddl.table_changes import (
    Altered,
    Change,
    Created,
    Dropped,
    Renamed,
    SchemaDropped,
    Unread,
)
from cdcbus.producer.schema.ddl_scanner import Statement
from cdcbus.producer.source.row_events import Batch, Rows
from cdcbus.producer.table_filter import TableFilter

LOG = logging.getLogger(__name__)
KEPT = 200  # until the reporter takes them
Seen = tuple[float, str]
"""The time, in epoch seconds, and a sentence without the statement's text: that may hold values."""
_UNREAD = "\ufffd"  # in names, for a byte of a character that is not known


class SeenDdl:
    """Takes the batches of one attempt. `seen` can be emptied on another thread. `folds_names`: the
    server ignores the case of tables' names."""

    def __init__(self, task: FetchTask, seen: deque[Seen], *, folds_names: bool = False) -> None:
        self._filter, self._config, self._seen = TableFilter(task.tables), task.ddl, seen
        self._tables = KnownTables(folds_names=folds_names)

    def take(self, batch: Batch) -> list[TableId]:
        """Collects the DDL of a batch. Returns the task's tables that it drops or renames, of a
        schema without a table's name."""
        gone: list[TableId] = []
        # Rows beside DDL can be from before it or behind it.
        if not batch.ddl:
            for part in (*batch.closed, *batch.opened):
                if isinstance(part, Rows):
                    self._tables.take(part.table.table)
        for statement in batch.ddl:
            changed = changes(statement.sql, statement.schema, statement.session)
            # What is published already was told then; the other side tells what came from it.
            if not statement.is_left_out:
                if statement.has_happened:
                    self._warn(statement, changed)
                self._note(statement)
            self._tables.follow(changed)
            gone += self._gone(changed)
        return gone

    def _gone(self, changed: Sequence[Change]) -> Iterable[TableId]:
        """In order: a statement that swaps tables leaves their names with one."""
        gone: dict[TableId, None] = {}
        for change in changed:
            match change:
                case Dropped(table, is_temporary=False):
                    if self._filter.accepts(table):
                        gone[table] = None
                case Renamed(table, to):
                    if self._filter.accepts(table):
                        gone[table] = None
                    gone.pop(to, None)
                case SchemaDropped(schema):
                    if self._may_accept_any(schema):
                        gone[TableId(schema, "")] = None
        return gone

    def _note(self, statement: Statement) -> None:
        for each in named(statement.sql, statement.schema, statement.session) or ():
            tables = filter(None, (each.table, each.was))
            if each.is_temporary or not any(map(self._filter.accepts, tables)):
                continue
            subject = f"{each.kind} of {each.table}"
            if each.was:
                subject += f" (before: {each.was})"
            how = "seen at the source, not published"
            if self._config.publishes(each.kind):
                how = "published"
            sentence = f"{subject} before {statement.end}: {how}"
            self._seen.append((time.time(), sentence))

    def _warn(self, statement: Statement, changed: Sequence[Change]) -> None:
        """Logs what a statement does to rows without an event that would bring it to targets."""
        found = unlogged(statement.sql, statement.schema, statement.session)
        if found is None:
            if CHANGES_TABLES.match(statement.sql):
                self._warn_of_unread(statement, changed)
            return
        effects = (
            (found.replaced, "drops the table, or gives its name other rows"),
            (found.trimmed, "deletes some of its rows"),
            (found.refilled, "gives its rows other cells"),
            (
                found.cut | self._tables.with_other_cells(found),
                "gives its rows other cells where a column's new type or character set does not "
                "keep the former ones (digits rounded, texts cut or read anew, characters or "
                "NULL replaced, blanks or zeros added or removed, numbers given)",
            ),
        )
        for tables, effect in effects:
            for table in sorted(tables):
                self._warn_of(table, statement, effect)
        for schema in sorted(found.schemas):
            self._warn_of_schema(schema, statement)

    def _warn_of_unread(self, statement: Statement, changed: Sequence[Change]) -> None:
        """Warns of each table that a statement may change which is not understood."""
        is_open = False
        for change in changed:
            if isinstance(change, SchemaDropped):
                self._warn_of_schema(change.schema, statement)
            for table in _tables_of(change):
                if _UNREAD in str(table):
                    is_open |= self._may_accept_any(table.schema)
                else:
                    self._warn_of(table, statement, "is not understood, and may change its rows")
            is_open |= isinstance(change, Unread) and self._may_name(change.words, statement)
        if is_open:
            LOG.warning(
                "DDL before %s is not understood: it may change rows of tables that this task "
                "reads, of which the binlog has no row events, so targets keep what they had. Look "
                "at the statement by mysqlbinlog, and compare the tables that it names by cdcbus "
                "verify of their consumer task, which can also repair them",
                statement.end,
            )

    def _may_name(self, words: Iterable[str] | None, statement: Statement) -> bool:
        """Whether a statement of these words may name a table that the task reads."""
        if words is None:
            return True
        schemas = {statement.schema, *filter(self._filter.may_accept_any, words)}
        names = (TableId(schema, word) for schema in schemas for word in words)
        return any(map(self._filter.accepts, names))

    def _may_accept_any(self, schema: str) -> bool:
        return _UNREAD in schema or self._filter.may_accept_any(schema)

    def _warn_of(self, table: TableId, statement: Statement, effect: str) -> None:
        if not self._filter.accepts(table):
            return
        LOG.warning(
            "%s: DDL before %s %s, and the binlog has no row events of that: targets keep "
            "what they had. Compare the table by cdcbus verify of its consumer task, "
            "which can also repair it",
            table,
            statement.end,
            effect,
        )

    def _warn_of_schema(self, schema: str, statement: Statement) -> None:
        if not self._may_accept_any(schema):
            return
        LOG.warning(
            "%s.*: DDL before %s drops all tables of the schema, and the binlog has no row "
            "events of that: targets keep what they had. Compare its tables by cdcbus verify "
            "of their consumer task, which can also repair them",
            schema,
            statement.end,
        )


def _tables_of(change: Change) -> tuple[TableId, ...]:
    match change:
        case Altered(table) | Created(table) | Dropped(table):
            return (table,)
        case Renamed(table, to):
            return table, to
    return ()
