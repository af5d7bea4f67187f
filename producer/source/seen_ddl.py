"""Collects the DDL of a task's tables that its stream has passed, published or not, for charts."""

from __future__ import annotations

import time
from collections import deque

from cdcbus.producer.config import FetchTask
from cdcbus.producer.ddl.named_tables import named
from cdcbus.producer.source.row_events import Batch
from cdcbus.producer.table_filter import TableFilter

KEPT = 200  # until the reporter takes them
TRUNCATE = "TRUNCATE"
Seen = tuple[float, str]
"""The time, in epoch seconds, and a sentence without the statement's text: that may hold values."""


class SeenDdl:
    """Takes the batches of one attempt. `seen` can be emptied on another thread."""

    def __init__(self, task: FetchTask, seen: deque[Seen]) -> None:
        self._filter, self._config, self._seen = TableFilter(task.tables), task.ddl, seen

    def take(self, batch: Batch) -> None:
        """Collects the DDL of a batch."""
        for statement in batch.ddl:
            for each in named(statement.sql, statement.schema, statement.session) or ():
                tables = [table for table in (each.table, each.was) if table]
                if each.is_temporary or not any(map(self._filter.accepts, tables)):
                    continue
                is_truncate = each.kind == TRUNCATE
                is_sent = self._config.truncates if is_truncate else self._config.definitions
                how = "published" if is_sent else "seen at the source, not published"
                was = f" (before: {each.was})" if each.was else ""
                sentence = f"{each.kind} of {each.table}{was} before {statement.end}: {how}"
                self._seen.append((time.time(), sentence))
