"""The target tables of source tables that are gone: nothing compares them, so their rows are
reported as a difference.

A source table counts only if a fetch task has read it: a snapshot, a direct load or the schema
history knows it. So a target table that has nothing to do with the task is never reported.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TYPE_CHECKING

from kazoo.client import KazooClient

from cdcbus.consumer.config import LoadTask
from cdcbus.plugins.errors import CdcError
from cdcbus.plugins.loaders.dialect import QUOTING, run_plain
from cdcbus.plugins.rowchange import TableId
from cdcbus.producer.schema.history_codec import entry_table
from cdcbus.tasks.control.source_of import Feed, topics_of
from cdcbus.tasks.snapshots.direct import direct_path
from cdcbus.tasks.snapshots.store import snapshot_path
from cdcbus.tasks.verify.report import Kind, TableReport
from cdcbus.tasks.zookeeper.schema_history import schema_path
from cdcbus.tasks.zookeeper.znode import get_children

if TYPE_CHECKING:
    from cdcbus.tasks.verify.run import Opened

Gone = dict[TableId, list[TableId]]
"""Target table -> the source tables whose rows it had."""


def known_tables(zookeeper: KazooClient, load: LoadTask, feed: Feed) -> set[TableId]:
    """The source tables that the tasks have read, as far as ZooKeeper knows."""
    task_id, swimlane = feed.fetch.task_id, feed.fetch.swimlane
    found = set()
    for path in (
        f"{snapshot_path(task_id, swimlane)}/tables",
        f"{direct_path(load.task_id)}/tables",
        schema_path(task_id, swimlane),
    ):
        found |= set(map(entry_table, get_children(zookeeper, path)))
    return {table for table in found if table is not None}


def gone_tables(
    load: LoadTask,
    known: Sequence[tuple[Feed, Collection[TableId]]],
    seen: Collection[TableId],
    targets: Collection[TableId],
) -> Gone:
    """The target tables of source tables that are not seen any more. `known`: the tables that were
    read once, by feed; `targets`: those that further source tables write to."""
    # Servers may ignore the case of names.
    shown = {str(table).upper() for table in seen}
    found: Gone = {}
    for feed, tables in known:
        for table in topics_of(feed, sorted(tables)):
            # Tables that the task names have an error of their own.
            if str(table).upper() in shown | load.includes:
                continue
            for route in load.mapper.routes(table):
                if route.target not in targets:
                    found.setdefault(route.target, []).append(table)
    return found


def gone_reports(
    opened: Opened,
    seen: Collection[TableId],
    targets: Collection[TableId],
    others: Callable[[Opened, TableId], Sequence[str]],
) -> Iterator[TableReport]:
    """A report for each target table of such tables that still has rows. `seen`, `targets`: see
    `gone_tables`. `others`: the other tasks that may have written its rows."""
    known = [(feed, known_tables(opened.zookeeper, opened.task, feed)) for feed in opened.feeds]
    for target, sources in sorted(gone_tables(opened.task, known, seen, targets).items()):
        report = TableReport(str(target), list(map(str, sources)), is_gone=True)
        try:
            rows = 0 if others(opened, target) else _rows(opened, target)
        except CdcError as error:
            report.error = str(error)
            yield report
            continue
        if rows:
            report.target_rows = report.counts[Kind.EXTRA] = rows
            yield report


def _rows(opened: Opened, target: TableId) -> int:
    table = opened.loader.table(target)
    if table is None:
        return 0
    sql = f"SELECT COUNT(*) FROM {QUOTING[table.dialect].table(table.id)}"
    with opened.database.connected(f"table {table.id}") as connection:
        return int(run_plain(connection, sql).scalar_one())
