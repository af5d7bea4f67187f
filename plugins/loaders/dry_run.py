"""`JdbcSqlDebug`: a dry run. Logs the statements for a batch, with placeholders for cells, and runs
none of them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from operator import attrgetter

from cdcbus.plugins.contracts import (
    AppliedOffset,
    Counts,
    KnownRow,
    LoadTransaction,
    TableBatch,
    TargetTable,
)
from cdcbus.plugins.loaders.add_column import add_column
from cdcbus.plugins.loaders.dialect import SqlDialect
from cdcbus.plugins.loaders.schema_evolution import lacking, too_narrow
from cdcbus.plugins.loaders.sqlalchemy_loader import JdbcBatch
from cdcbus.plugins.rowchange import Cell, Column, TableId

LOG = logging.getLogger(__name__)


class JdbcSqlDebug(JdbcBatch):
    """A Loader that only reads the target: its tables' columns and keys, and the offsets that
    other runs have stored."""

    is_dry_run = True

    @contextmanager
    def transaction(self) -> Iterator[LoadTransaction]:
        yield DryTransaction(self._database.dialect, self._task_id)

    def applied_offsets(self, partition: tuple[str, int] | None = None) -> list[AppliedOffset]:
        applied = self.offset_table().applied
        return [each for each in applied if partition in (None, each.topic_partition)]

    def fence(self) -> list[AppliedOffset] | None:
        table = self.offset_table()
        if not table.is_there:
            return None
        return list(table.applied)

    def version_table(self, table: TargetTable, *, make: bool) -> TargetTable | None:
        return super().version_table(table, make=False)

    def lost_tables(self) -> list[str]:
        return []

    def accept_tables(self) -> None:
        """Does nothing: a dry run notes nothing."""

    def scatter(self) -> bool:
        return False

    def forget_versions(self, before_ms: Callable[[], int]) -> None:
        """Does nothing: a dry run changes nothing."""

    def end_other_sessions(self) -> None:
        """Does nothing: a dry run ends no sessions."""

    def evolve(self, table: TargetTable, columns: Sequence[Column]) -> TargetTable:
        for column in lacking(table, columns):
            LOG.info("task %s would run: %s", self._task_id, add_column(table, column))
        for name, type_ in too_narrow(table, columns).items():
            LOG.info(
                "task %s would make column %s of table %s %s", self._task_id, name, table.id, type_
            )
        return table


class DryTransaction:
    """A LoadTransaction. Its counts are those of a target in which every row exists."""

    def __init__(self, dialect: SqlDialect, task_id: str) -> None:
        self._dialect = dialect
        self._task_id = task_id

    def write(self, batch: TableBatch) -> Counts:
        statements = self._dialect.preview(batch)
        # consecutive equal statements are logged once
        for sql, equal in groupby(statements, attrgetter("sql")):
            rows = sum(map(attrgetter("rows"), equal))
            concerned = f"{rows} rows"
            if rows == 0:
                concerned = "all rows"
            LOG.info("task %s would run, for %s: %s", self._task_id, concerned, sql)
        counts = Counts(deleted=len(batch.deletes))
        for writes in batch.writes:
            counts.written += len(writes.rows)
        for swaps in batch.swaps:
            for _, new in swaps.rows:
                if new is None:
                    counts.deleted += 1
                else:
                    counts.written += 1
        return counts

    @contextmanager
    def savepoint(self) -> Iterator[None]:
        yield

    def check_at_once(self) -> None:
        pass

    def may_be_freed(self, tables: Collection[TableId]) -> None:
        pass

    def row_versions(
        self, versions: TargetTable, keys: Sequence[tuple[Cell, ...]]
    ) -> list[KnownRow]:
        """Returns no versions: a dry run stores none."""
        return [KnownRow(repr(key)) for key in keys]

    def has_version_table(self, tables: Sequence[TargetTable]) -> bool:
        """Returns False: the answer makes no difference in a dry run."""
        return False

    def store_offset(self, offset: AppliedOffset, seen: AppliedOffset | None) -> None:
        """Stores nothing: the next start begins where this one began."""
