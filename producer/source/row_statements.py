"""Statements that change rows and were logged as text, without the rows."""

from __future__ import annotations

import logging

from cdcbus.plugins.errors import UnreadableEvent
from cdcbus.producer.binlog.coordinates import BinlogCoordinates
from cdcbus.producer.ddl.statement_targets import Session, Targets, targets
from cdcbus.producer.server.connection import Server
from cdcbus.producer.table_filter import TableFilter

LOG = logging.getLogger(__name__)
_PASSED_OVER = 100  # kinds of statements that are logged, at most


class RowStatements:
    """Decides on such statements in one stream. `skips`: those of the task's own tables are
    skipped, as consumer.onStatement=skip allows."""

    def __init__(self, server: Server, tables: TableFilter, *, skips: bool) -> None:
        self._charsets = server.charsets
        self._filter = tables
        self._skips = skips
        # Of tables that the task does not read, logged already.
        self._passed_over: set[Targets] = set()

    def is_skipped(self, sql: bytes, of: Session, place: BinlogCoordinates) -> bool:
        """Whether skipping the statement loses rows of the task. A statement on other tables does
        not concern the task; for its own tables, or if that is uncertain, this raises
        UnreadableEvent unless such statements are skipped."""
        charset = self._charsets.get(of.collation, "")
        found = targets(sql, of, is_utf8=charset.startswith("utf8"))
        if found.tables is not None and not any(map(self._filter.accepts, found.tables)):
            self._pass_over(found, place)
            return False
        if not self._skips:
            raise UnreadableEvent(
                "a statement that changes rows was logged as text (binlog_format STATEMENT or "
                f"MIXED), {found}; "
                "rows cannot be taken from it. Set binlog_format=ROW for every session; "
                "consumer.onStatement=skip continues without what "
                "such statements change"
            )
        LOG.warning(
            "%s: %s was logged as text and is skipped (consumer.onStatement=skip): what "
            "it changed is not in Kafka; compare "
            "the table with its targets, and set binlog_format=ROW for every session",
            place,
            found,
        )
        return True

    def _pass_over(self, found: Targets, place: BinlogCoordinates) -> None:
        if found in self._passed_over or len(self._passed_over) >= _PASSED_OVER:
            return
        self._passed_over.add(found)
        LOG.warning(
            "%s: %s was logged as text and is passed over, here and from now on: the task does "
            "not read that. Changes that it causes in tables of the task, through views, triggers, "
            "foreign keys and functions, would be "
            "missed; binlog_format=ROW for every session "
            "shows them",
            place,
            found,
        )
