"""The target tables of source tables that are gone: nothing compares them, so their rows are
reported as a difference.

A source table counts if a fetch task has read it: a snapshot, a direct load or the schema history
knows it. These forget it, or never knew it where the binlog has the columns. So a target table
counts, too, if the target has a note that rows of the task went to it, and the tasks would still
send rows there. A target table that has nothing to do with the task is never reported.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from kazoo.client import KazooClient

from cdcbus.consumer.config import LoadTask
from cdcbus.plugins.errors import CdcError, TargetError, TargetUnavailable
from cdcbus.plugins.loaders.dialect import QUOTING, run_plain
from cdcbus.plugins.loaders.identity import note_table
from cdcbus.plugins.rowchange import TableId
from cdcbus.plugins.transform.selectors import is_pattern, leads_to, lowered, source_of
from cdcbus.producer.schema.history_codec import entry_table
from cdcbus.producer.schema.schema_reader import SchemaReader
from cdcbus.producer.source.event_tables import is_own_table
from cdcbus.tasks.control.beside import Unread, shown
from cdcbus.tasks.control.source_of import Feed, topics_of
from cdcbus.tasks.snapshots.direct import direct_path
from cdcbus.tasks.snapshots.store import snapshot_path
from cdcbus.tasks.verify.report import Kind, TableReport
from cdcbus.tasks.zookeeper.schema_history import schema_path
from cdcbus.tasks.zookeeper.znode import get_children

if TYPE_CHECKING:
    from cdcbus.tasks.verify.run import Opened

Gone = dict[TableId, list[TableId]]
"""Target table -> the source tables whose rows it had, or may have had."""


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


def left_tables(
    load: LoadTask,
    feeds: Sequence[Feed],
    written: Collection[TableId],
    seen: Collection[TableId],
    targets: Collection[TableId],
) -> Gone:
    """The target tables that no source table goes to which is seen, although the tasks would send
    rows there. `written`: the tables that rows of the task went to; `targets`: those that are
    reported otherwise. A source may be a pattern of the mapper."""
    accounted = {str(table).upper() for table in seen} | load.includes
    reported = set(map(lowered, targets))
    found: Gone = {}
    for target in written:
        if lowered(target) in reported or is_own_table(target):
            continue
        sources = set[TableId]()
        for feed in feeds:
            sources |= _possible_sources(feed, target)
        # Tables that the task names have an error of their own.
        if sources := {each for each in sources if str(each).upper() not in accounted}:
            found[target] = sorted(sources)
    return found


def _possible_sources(feed: Feed, target: TableId) -> set[TableId]:
    """The tables whose rows the tasks would send to the target table, if the source had them."""
    load = feed.load
    names = {source_of(rule, target) for rule in load.rules if leads_to(rule, target)} | {target}
    patterns = set(filter(_is_open, names))
    found = set() if load.named_tables else patterns
    for table in topics_of(feed, sorted(names - patterns)):
        if lowered(target) in [lowered(route.target) for route in load.mapper.routes(table)]:
            found.add(table)
    return found


def _is_open(table: TableId) -> bool:
    return any(map(is_pattern, table))


def gone_reports(
    opened: Opened,
    seen: Collection[TableId],
    targets: Collection[TableId],
    others: Callable[[Opened, TableId], Sequence[str]],
) -> Iterator[TableReport]:
    """A report for each target table of such tables that still has rows; an error where it is not
    known whether the source has one for these, or whose they are. `seen`, `targets`: see
    `gone_tables`. `others`: the other tasks that may have written its rows, and where tasks are
    that cannot be read."""
    known = [(feed, known_tables(opened.zookeeper, opened.task, feed)) for feed in opened.feeds]
    gone = gone_tables(opened.task, known, seen, targets)
    left = left_tables(opened.task, opened.feeds, _written(opened), seen, {*targets, *gone})
    for target, sources in sorted({**gone, **left}.items()):
        report = TableReport(str(target), list(map(str, sources)), is_gone=True)
        try:
            writers = set(others(opened, target))
            # Where all of them are known to write there, the rows are taken for theirs.
            is_of_others = bool(writers) and writers.isdisjoint(opened.beside.unread)
            rows = 0 if is_of_others else _rows(opened, target)
        except CdcError as error:
            report.error = str(error)
            yield report
            continue
        if not rows:
            continue
        report.target_rows = rows
        if writers:
            report.error = _of_unread(report, opened.beside.unread)
        elif target in left and (doubtful := _doubtful(opened, sources, seen)):
            report.error = _not_known(report, doubtful)
        else:
            report.counts[Kind.EXTRA] = rows
        yield report


def _written(opened: Opened) -> Collection[TableId]:
    """The target tables that rows of the task went to, as far as the target has notes of them."""
    try:
        with opened.database.connected(f"table {note_table.TABLE}") as connection:
            return note_table.load(connection, opened.task.task_id).keys()
    except TargetUnavailable:
        raise
    # The task does without them, too.
    except TargetError:
        return ()


def _doubtful(
    opened: Opened, sources: Sequence[TableId], seen: Collection[TableId]
) -> Sequence[TableId]:
    """Those of the tables that the source may still have; empty where it certainly lacks the ones
    that are likely to have been there."""
    # A former rule may have sent rows from elsewhere to a schema that the source never had; nor has
    # it a table there for each name that a rule leads to.
    schemas = {table.schema.lower() for table in seen}
    likely = [each for each in sources if each.schema.lower() in schemas]
    if any(map(_is_open, sources)) or not likely:
        return sources
    found = set[TableId]()
    for feed in opened.feeds:
        reader = SchemaReader(opened.sources[feed.place])
        found |= {table for table in topics_of(feed, likely) if not reader.lacks(table)}
    return sorted(found)


def _not_known(report: TableReport, doubtful: Sequence[TableId]) -> str:
    names = ", ".join(map(str, doubtful))
    return (
        f"rows of the task went to this table, which has {report.target_rows:,}, and it is not "
        f"known whether the source still has a table for them ({names}): it shows none to the "
        "fetch task's user. If there is one, GRANT SELECT on it to that user; if it was dropped, "
        "or a mapper rule for it removed, empty or drop the target table, or leave it out with "
        "consumer.excludes"
    )


def _of_unread(report: TableReport, unread: Mapping[str, Unread]) -> str:
    return (
        f"the source has no table for its rows any more ({', '.join(report.sources)}), but they "
        f"({report.target_rows:,}) may be of a task that cannot be read: {shown(unread)}; correct "
        "what is wrong there, and run it again"
    )


def _rows(opened: Opened, target: TableId) -> int:
    table = opened.loader.table(target)
    if table is None:
        return 0
    sql = f"SELECT COUNT(*) FROM {QUOTING[table.dialect].table(table.id)}"
    with opened.database.connected(f"table {table.id}") as connection:
        return int(run_plain(connection, sql).scalar_one())
