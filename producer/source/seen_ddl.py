"""Collects the DDL of a task's tables that its stream has passed, published or not, for charts, and
warns of the one that changes rows without a row event."""

from __future__ import annotations

import logging
import re
import time
from collections import deque

from cdcbus.plugins.rowchange import Table, TableId
from cdcbus.producer.config import FetchTask
from cdcbus.producer.ddl.named_tables import named, unlogged
from cdcbus.producer.schema.ddl_scanner import Statement
from cdcbus.producer.source.row_events import Batch, Rows
from cdcbus.producer.table_filter import TableFilter

_WHOLE = re.compile("(tiny|small|medium|big)?int|bit|year")
LOG = logging.getLogger(__name__)
KEPT = 200  # until the reporter takes them
Seen = tuple[float, str]
"""The time, in epoch seconds, and a sentence without the statement's text: that may hold values."""


class SeenDdl:
    """Takes the batches of one attempt. `seen` can be emptied on another thread."""

    def __init__(self, task: FetchTask, seen: deque[Seen]) -> None:
        self._filter, self._config, self._seen = TableFilter(task.tables), task.ddl, seen
        self._tables: dict[TableId, Table] = {}  # as in their last rows, if no DDL came since

    def take(self, batch: Batch) -> None:
        """Collects the DDL of a batch."""
        # Rows beside DDL can be from before it or behind it.
        if not batch.ddl:
            for part in (*batch.closed, *batch.opened):
                if isinstance(part, Rows):
                    self._tables[part.table.table.id] = part.table.table
        for statement in batch.ddl:
            self._warn(statement)
            found = named(statement.sql, statement.schema, statement.session)
            if found is None:
                self._tables.clear()
            for each in found or ():
                for table in filter(None, (each.table, each.was, each.other)):
                    self._tables.pop(table, None)
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
        if found is None or not statement.has_happened:
            return
        rounded = {table for table, column in found.whole if self._may_have_digits(table, column)}
        effects = (
            (found.replaced, "drops the table, or gives its name other rows"),
            (found.trimmed, "deletes some of its rows"),
            (found.refilled, "gives its rows other cells"),
            (
                found.retyped | rounded,
                "gives its rows other cells if the new type or character set of a column holds "
                "less than the former one (digits were rounded, texts cut, or characters replaced)",
            ),
        )
        for tables, effect in effects:
            for table in sorted(filter(self._filter.accepts, tables)):
                LOG.warning(
                    "%s: DDL before %s %s, and the binlog has no row events of that: targets keep "
                    "what they had. Compare the table by cdcbus verify of its consumer task, "
                    "which can also repair it",
                    table,
                    statement.end,
                    effect,
                )
        for schema in sorted(filter(self._filter.may_accept_any, found.schemas)):
            LOG.warning(
                "%s.*: DDL before %s drops all tables of the schema, and the binlog has no row "
                "events of that: targets keep what they had. Compare its tables by cdcbus verify "
                "of their consumer task, which can also repair them",
                schema,
                statement.end,
            )

    def _may_have_digits(self, table: TableId, column: str) -> bool:
        """Whether cells of the column may have digits after the point: those of a type that is not
        known may."""
        known = self._tables.get(table)
        if known is None:
            return True
        types = {each.name.lower(): each.mysql_type for each in known.columns}
        return _WHOLE.match(types.get(column, "")) is None
