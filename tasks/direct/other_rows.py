"""Looks in the binlogs of a direct load's sources for statements by which a loaded table has other
rows than before. No event tells these rows: the copy has rows of both, and nothing comes later."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from time import monotonic

from cdcbus.plugins.errors import CdcError, PositionLost, SourceUnavailable
from cdcbus.plugins.positions import BinlogPosition
from cdcbus.plugins.rowchange import TableId
from cdcbus.producer.binlog.coordinates import BinlogCoordinates
from cdcbus.producer.ddl.rows.unlogged import Unlogged, unlogged
from cdcbus.producer.ddl.table_changes import lower_case
from cdcbus.producer.schema.ddl_scanner import Statement
from cdcbus.producer.source.binlog_source import BinlogSource
from cdcbus.tasks.direct.beginning import check_server
from cdcbus.tasks.direct.given import ANEW
from cdcbus.tasks.direct.opened import Opened, Source, interrupted
from cdcbus.tasks.snapshots.direct import DirectLoad, put_direct_load

LOG = logging.getLogger(__name__)
LOOK_SECONDS = 60.0
"""Between two looks: a load ends soon after a table has other rows, and each look reads little."""


class Looks:
    """Looks at the sources' binlogs from where the load began to their ends, and at which servers
    the fetch tasks read. `found`: the load with the places up to which they were read, and what was
    committed; it is stored with each change of these."""

    def __init__(self, opened: Opened, found: DirectLoad) -> None:
        self._opened, self.found = opened, found
        self._look_at = monotonic() + LOOK_SECONDS

    def look_sometimes(self) -> None:
        """Looks if the last look was long ago; a source that is away is asked later."""
        if monotonic() < self._look_at or self._opened.stop.is_set():
            return
        try:
            self.look()
        except SourceUnavailable as error:
            self._look_at = monotonic() + LOOK_SECONDS
            LOG.warning("%s; looking for swapped tables again in %g s", error, LOOK_SECONDS)

    def look(self) -> None:
        """Raises CdcError for a table that has other rows, PositionLost where a source no longer
        holds its binlog, ConfigError where a fetch task has gone to another server, and
        Interrupted."""
        looked = dict(self.found.looked)
        for source in self._opened.sources:
            task_id = source.feed.fetch.task_id
            check_server(self._opened, source)
            since = looked.get(task_id) or self.found.seen[task_id]
            looked[task_id] = _look(source, since, self._proceed)
        self._proceed()
        self.found = replace(self.found, looked=looked)
        put_direct_load(self._opened.client, self._opened.load.task_id, self.found)
        self._look_at = monotonic() + LOOK_SECONDS

    def note_commits(self, commits: Mapping[int, int]) -> None:
        """Stores with the load how many transactions each reader has committed."""
        self.found = replace(self.found, commits=commits)
        put_direct_load(self._opened.client, self._opened.load.task_id, self.found)

    def _proceed(self) -> None:
        if self._opened.stop.is_set():
            raise interrupted(self._opened.load)


def _look(source: Source, since: BinlogPosition, proceed: Callable[[], None]) -> BinlogPosition:
    """Looks at a binlog's part after a place. Returns the place up to which it was read."""
    try:
        with BinlogSource(source.feed.fetch) as binlog:
            # First, so that what is written meanwhile is read by the next look.
            end = binlog.end()
            start = binlog.locate(since)
            after = BinlogCoordinates(start.file, start.pos)
            statements = binlog.ddl_scan(proceed).between(after, end)
    except PositionLost as lost:
        raise PositionLost(
            f"{source.feed.place}: the source's binlog of the time since the direct load began "
            "tells whether its tables were swapped for others, and cannot be read any more: "
            f"{lost}; {ANEW}"
        ) from lost
    check(statements, source.tables, folds_names=source.server.folds_names)
    if end <= after:
        return start
    created_ms = start.file_created_ms if end.file == start.file else 0
    return replace(start, file=end.file, pos=end.pos, file_created_ms=created_ms)


def check(
    statements: Iterable[Statement], tables: Collection[TableId], *, folds_names: bool
) -> None:
    """Raises CdcError for a table that has other rows after one of the statements. Warns of tables
    of which only rows are gone or cells are others: the target keeps those that were loaded, as it
    does when the task runs."""
    for statement in statements:
        found = effects(statement, tables, folds_names=folds_names)
        for table in sorted(found.replaced):
            raise CdcError(
                f"table {table} has other rows since a statement in its source's binlog that ends "
                f"at {statement.end}: while it was loaded it was renamed, dropped, exchanged for "
                "another table, or one of its partitions was. Their rows are in no event, so what "
                f"is loaded is a mixture: {ANEW}"
            )
        for table in sorted(found.trimmed):
            LOG.warning(
                "table %s has lost rows, as of partitions, while it was loaded, by a statement in "
                "its source's binlog that ends at %s: they are deleted by no event, so those that "
                "were loaded before stay at the target, until cdcbus verify --prune deletes them",
                table,
                statement.end,
            )
        for table in sorted(found.refilled):
            LOG.warning(
                "table %s has other cells since a statement in its source's binlog that ends at "
                "%s: no event tells them, so rows that were loaded before keep their former ones, "
                "until cdcbus verify --repair sends them",
                table,
                statement.end,
            )
        for table in sorted(found.cut):
            LOG.warning(
                "table %s may have other cells since a statement in its source's binlog that ends "
                "at %s, where a column's new type or character set does not keep the former ones: "
                "no event tells them, so rows that were loaded before keep their former ones, "
                "until cdcbus verify --repair sends them",
                table,
                statement.end,
            )


def effects(statement: Statement, tables: Collection[TableId], *, folds_names: bool) -> Unlogged:
    """What a statement does to the rows of these tables; those whose cells may be others, whatever
    types they had, are `cut`. One that is not understood replaces those that it may name."""
    found = unlogged(statement.sql, statement.schema, statement.session)
    if found is None:
        found = Unlogged(_named(statement.sql, tables))
    fold: Callable[[TableId], TableId] = lower_case if folds_names else _as_it_is

    def among(some: Iterable[TableId]) -> frozenset[TableId]:
        names = set(map(fold, some))
        return frozenset(table for table in tables if fold(table) in names)

    schemas = {fold(TableId(schema, "")) for schema in found.schemas}
    gone = {table for table in tables if fold(TableId(table.schema, "")) in schemas}
    retyped = {each.table for each in found.retyped}
    return Unlogged(
        among(found.replaced) | gone,
        trimmed=among(found.trimmed),
        refilled=among(found.refilled),
        cut=among(found.cut | found.converted | retyped),
    )


def _as_it_is(table: TableId) -> TableId:
    return table


def _named(sql: bytes, tables: Collection[TableId]) -> frozenset[TableId]:
    """The tables that a statement may name which is not understood."""
    text = sql.decode("ascii", "replace").lower()
    found = []
    for table in tables:
        if not table.table.isascii() or table.table.lower() in text:
            found.append(table)
    return frozenset(found)
