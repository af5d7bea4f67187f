"""Collects the DDL of a task's tables that its stream has passed, published or not, for charts."""

from __future__ import annotations

import time
from collections import deque

from cdcbus.producer.config import FetchTask
from cdcbus.producer.ddl.named_tables import named
from cdcbus.producer.source.row_events import Batch
from cdcbus.producer.table_filter import TableFilter

KEPT = 200  # until the reporter takes them
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
