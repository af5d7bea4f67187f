"""Selects the DDL to publish: the binlog's statements on tables that the task reads."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace

from cdcbus.plugins.errors import UnreadableEvent
from cdcbus.plugins.rowchange import Origin, TableDdl, TableId
from cdcbus.producer.binlog.event_types import TRUNCATE
from cdcbus.producer.config import DdlConfig
from cdcbus.producer.ddl.named_tables import Named, named
from cdcbus.producer.ddl.table_changes import lower_case
from cdcbus.producer.schema.ddl_scanner import Statement
from cdcbus.producer.table_filter import TableFilter

LOG = logging.getLogger(__name__)


class DdlReader:
    """Reads statements in binlog order. `folds_names`: table names are case-insensitive at the
    server, which stores them in lower case."""

    def __init__(
        self, tables: TableFilter, config: DdlConfig, *, folds_names: bool = False
    ) -> None:
        self._tables, self._config, self._folds_names = tables, config, folds_names
        # temporary tables by session, each hides the real table of its name
        self._temporary: set[tuple[int, TableId]] = set()

    def read(
        self, statement: Statement, origin: Origin, *, is_left_out: bool = False
    ) -> Iterator[TableDdl]:
        """Yields one DDL for each table that the task reads; none if the statement `is_left_out`.
        Raises UnreadableEvent for a TRUNCATE that is not understood, or may be of a temporary
        table."""
        found = named_at_server(statement, folds_names=self._folds_names)
        if found is None:
            if not is_left_out:
                self._refuse(statement, origin)
            return
        for one in found:
            if self._is_temporary(one, statement) or is_left_out:
                continue
            table = self._wanted(one)
            if table is None:
                continue
            if one.kind == "TRUNCATE" and statement.is_of_session:
                raise UnreadableEvent(_unclear(table))
            yield TableDdl(table, one.kind, statement.sql.decode(), origin)

    def server_started(self) -> None:
        """Forgets the temporary tables of sessions, whose numbers are given out again."""
        self._temporary.clear()

    def _is_temporary(self, one: Named, statement: Statement) -> bool:
        """Whether it concerns a temporary table, of which it takes note."""
        key = (statement.thread, one.was or one.table)
        if one.is_temporary and one.kind == "CREATE":
            self._temporary.add(key)
        elif one.kind == "ERASE" and key in self._temporary:
            self._temporary.remove(key)
            return True
        elif statement.is_of_session and key in self._temporary and one.kind != "CREATE":
            self._temporary.remove(key)
            self._temporary.add((statement.thread, one.table))
            return True
        return one.is_temporary

    def _wanted(self, one: Named) -> TableId | None:
        if not self._config.publishes(one.kind):
            return None
        names = filter(None, (one.table, one.was))
        return next(filter(self._tables.accepts, names), None)

    def _refuse(self, statement: Statement, origin: Origin) -> None:
        if self._config.truncates and TRUNCATE.match(statement.sql):
            raise UnreadableEvent(
                "a TRUNCATE whose table's name is not understood. If the task reads the table, "
                "empty it at the targets; "
                "loader.source.truncate=false continues without it"
            )
        if self._config.definitions:
            LOG.warning(
                "%s:%d: a statement is not understood, and not published as DDL",
                origin.file,
                origin.pos,
            )


def named_at_server(statement: Statement, *, folds_names: bool) -> list[Named] | None:
    """The tables that a statement defines or truncates, as `named`, by the names that their rows
    have: a server that `folds_names` has them in lower case, whatever the text says."""
    found = named(statement.sql, statement.schema, statement.session)
    if found is None or not folds_names:
        return found
    return list(map(_folded, found))


def _folded(one: Named) -> Named:
    was, other = one.was and lower_case(one.was), one.other and lower_case(one.other)
    return replace(one, table=lower_case(one.table), was=was, other=other)


def _unclear(table: TableId) -> str:
    return (
        f"a TRUNCATE of {table}, or of a temporary table of that name: the binlog shows which one "
        "only where the CREATE TEMPORARY TABLE of its session was read, too, and none was since "
        "the task was started. If the table itself was emptied, empty it at the targets; then set "
        "the position past it, or continue without it by loader.source.truncate=false"
    )
