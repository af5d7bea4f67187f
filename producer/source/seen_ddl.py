"""Collects the DDL of a task's tables that its stream has passed, published or not, for charts, and
warns of the one that changes rows without a row event."""

from __future__ import annotations

import logging
import time
from collections import deque

from cdcbus.plugins.rowchange import TableId
from cdcbus.producer.config import FetchTask
from cdcbus.producer.ddl.named_tables import named
from cdcbus.producer.ddl.rows.known_tables import KnownTables
from cdcbus.producer.ddl.rows.unlogged import unlogged
from cdcbus.producer.ddl.statements import changes
from cdcbus.producer.schema.ddl_scanner import Statement
from cdcbus.producer.source.row_events import Batch, Rows
from cdcbus.producer.table_filter import TableFilter

LOG = logging.getLogger(__name__)
KEPT = 200  # until the reporter takes them
Seen = tuple[float, str]
"""The time, in epoch seconds, and a sentence without the statement's text: that may hold values."""


class SeenDdl:
    """Takes the batches of one attempt. `seen` can be emptied on another thread. `folds_names`: the
    server ignores the case of tables' names."""

    def __init__(self, task: FetchTask, seen: deque[Seen], *, folds_names: bool = False) -> None:
        self._filter, self._config, self._seen = TableFilter(task.tables), task.ddl, seen
        self._tables = KnownTables(folds_names=folds_names)

    def take(self, batch: Batch) -> None:
        """Collects the DDL of a batch."""
        # Rows beside DDL can be from before it or behind it.
        if not batch.ddl:
            for part in (*batch.closed, *batch.opened):
                if isinstance(part, Rows):
                    self._tables.take(part.table.table)
        for statement in batch.ddl:
            changed = changes(statement.sql, statement.schema, statement.session)
            if statement.has_happened:
                self._warn(statement)
            self._note(statement)
            self._tables.follow(changed)

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

    def _warn(self, statement: Statement) -> None:
        """Logs what a statement does to rows without an event that would bring it to targets."""
        found = unlogged(statement.sql, statement.schema, statement.session)
        if found is None:
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
        if not self._filter.may_accept_any(schema):
            return
        LOG.warning(
            "%s.*: DDL before %s drops all tables of the schema, and the binlog has no row "
            "events of that: targets keep what they had. Compare its tables by cdcbus verify "
            "of their consumer task, which can also repair them",
            schema,
            statement.end,
        )
