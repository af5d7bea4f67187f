"""`cdcbus verify`: chooses the tables, opens the connections, and compares one table after the
other."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Final

import pymysql
from kazoo.client import KazooClient
from sqlalchemy import Connection as TargetConnection

from cdcbus.consumer.config import LoadTask
from cdcbus.consumer.offsets.topic_logs import TopicLogs
from cdcbus.plugins.contracts import JdbcTarget
from cdcbus.plugins.errors import CdcError, ConfigError
from cdcbus.plugins.loaders import open_target as open_database
from cdcbus.plugins.loaders.engine import Database
from cdcbus.plugins.loaders.sqlalchemy_loader import JdbcBatch
from cdcbus.plugins.registry import is_added_loader
from cdcbus.plugins.rowchange import TableId
from cdcbus.plugins.transform.processor import make_processor
from cdcbus.producer.config import FetchTask
from cdcbus.producer.schema.schema_reader import SchemaReader
from cdcbus.tasks.control.beside import Beside, Unread, refuse, shown, tasks_beside
from cdcbus.tasks.control.bus_settings import BusSettings
from cdcbus.tasks.control.lock_waits import lock_waits_reported
from cdcbus.tasks.control.source_of import (
    Feed,
    MappedTable,
    consumer_task,
    feeds_of,
    further_feeds,
    mapped_tables,
    unreadable_reason,
    unseen,
    unseen_reason,
)
from cdcbus.tasks.control.uses import Uses
from cdcbus.tasks.lineage.both_ways import bringing_tasks, is_both_ways
from cdcbus.tasks.lineage.case_twins import merged_twins
from cdcbus.tasks.lineage.sharing import may_send, other_writers
from cdcbus.tasks.verify.compare import Comparison, Options
from cdcbus.tasks.verify.dropped import gone_reports
from cdcbus.tasks.verify.lag import Lag, fetch_position
from cdcbus.tasks.verify.report import TableReport
from cdcbus.tasks.verify.sendable import refusal
from cdcbus.tasks.verify.sides import SourceSide, TargetSide, charsets_of, open_source, open_target
from cdcbus.tasks.verify.sql.where import condition
from cdcbus.tasks.verify.subject import SourceTable, Subject, subject_of
from cdcbus.tasks.zookeeper.connection import connected

if TYPE_CHECKING:
    from cdcbus.producer.server.connection import Connection

LOG = logging.getLogger(__name__)
CONNECTIONS: Final = 3
"""One to read rows, one for catalogs and offsets, one to spare."""
_NO_SOURCE: Final = (
    "the source does not show its source tables any more; once they are there again, or the "
    "mapper's rule for them is removed, run it again"
)
EVERY_USE: Final = Uses.READ | Uses.WRITE | Uses.KAFKA

OnProgress = Callable[[str, int, int], None]
"""Called with a table, the number of its source rows that are done, and about how many it has."""


@dataclass(frozen=True, slots=True)
class Opened:
    """A consumer task with everything that the comparison needs. `beside`: the tasks beside it.
    `further`: those of them that feed it, too, and are not compared. `unread_feeds`: those that
    cannot be read, and may feed it; none where the feed is named. `inbound`: by id, the lag of
    those that bring changes of other servers to the sources; `doubt`: see `Comparison`."""

    task: LoadTask
    feeds: Sequence[Feed]
    sources: Mapping[str, Connection]
    database: Database
    target: TargetConnection
    loader: JdbcBatch
    lag: Lag
    beside: Beside
    further: Sequence[FetchTask]
    unread_feeds: Mapping[str, Unread]
    zookeeper: KazooClient
    inbound: Mapping[str, Lag]
    doubt: str


@contextmanager
def opened(
    word: str,
    bus: BusSettings,
    source: str | None,
    *,
    is_repairing: bool = False,
    is_sending: bool = False,
    is_at_rest: bool = False,
) -> Iterator[Opened]:
    """Opens everything for a comparison. `is_repairing`: to repair what differs, or to show how.
    `is_sending`: rows will be published, as the fetch tasks do. `is_at_rest`: an operator knows
    that the target has no changes of its own that are not at the source yet. Raises CdcError where
    a server does not answer, or the task cannot be compared, or not be repaired."""
    # kazoo's own lines would mix with the report, and its errors are raised anyway.
    logging.getLogger("kazoo").setLevel(logging.CRITICAL)
    task = consumer_task(word, bus, EVERY_USE)
    beside = tasks_beside(word, bus)
    feeds = feeds_of(word, task, bus, source, EVERY_USE if is_sending else Uses.READ, beside)
    _refuse_unlike(task, feeds)
    if is_repairing:
        refuse(beside.unread, f"a repair of task {task.task_id}")
    for place, each in beside.unread.items():
        LOG.warning(
            "%s cannot be read, so rows that it sends to the target are not compared: %s",
            place,
            each.reason,
        )
    with ExitStack() as stack:
        zookeeper = stack.enter_context(connected(bus.zookeeper, auth=bus.zookeeper_auth))
        connections, database, lag = _followed(stack, task, feeds, zookeeper)
        for feed in feeds:
            waiting = lock_waits_reported(
                feed.fetch.source, connections[feed.place], lag.server(feed)
            )
            stack.enter_context(waiting)
        connection = stack.enter_context(open_target(database))
        inbound, doubt = _inbound(stack, bus, task, feeds, beside, zookeeper)
        yield Opened(
            task,
            feeds,
            connections,
            database,
            connection,
            JdbcBatch(database, database.target.task_id),
            lag,
            beside,
            further_feeds(task, feeds, beside.tasks.values()),
            beside.unread_feeds if source is None else {},
            zookeeper,
            inbound,
            "" if is_at_rest else doubt,
        )


def _followed(
    stack: ExitStack, task: LoadTask, feeds: Sequence[Feed], zookeeper: KazooClient
) -> tuple[Mapping[str, Connection], Database, Lag]:
    """Connections to the sources, by place, and to the target; and how far the tasks are."""
    assert isinstance(task.target, JdbcTarget)
    # A name of its own, as a start of the task ends other sessions of its name.
    target = replace(
        task.target,
        task_id=f"{task.task_id} verify",
        pool_size=CONNECTIONS,
        min_connections=0,
    )
    database = open_database(target)
    stack.callback(database.engine.dispose)
    connections = {}
    for feed in feeds:
        # The rows of this server go to Kafka, whichever of its addresses answers first.
        position = fetch_position(zookeeper, feed)
        server = position.server_uuid if position else ""
        connections[feed.place] = stack.enter_context(open_source(feed.fetch.source, server))
    logs = stack.enter_context(TopicLogs(task))
    return connections, database, Lag(task, feeds, connections, zookeeper, logs, database)


def _inbound(
    stack: ExitStack,
    bus: BusSettings,
    task: LoadTask,
    feeds: Sequence[Feed],
    beside: Beside,
    zookeeper: KazooClient,
) -> tuple[Mapping[str, Lag], str]:
    """How far the tasks are that bring changes of other servers, the target's own among them, to
    the sources; and why that is not known, else empty."""
    fetches = [feed.fetch for feed in feeds]
    found: dict[str, Lag] = {}
    if not is_both_ways(task, fetches):
        return found, ""
    try:
        for place in bringing_tasks(task, fetches, beside.tasks):
            other = consumer_task(place, bus, EVERY_USE)
            others_feeds = feeds_of(place, other, bus, None, Uses.READ, beside)
            _refuse_unlike(other, others_feeds)
            _, _, lag = _followed(stack, other, others_feeds, zookeeper)
            if lag.is_partial:
                raise ConfigError(
                    f"task {other.task_id} reads some partitions of its topics only "
                    "(consumer.source.partition), so it is not known what the others bring"
                )
            found[other.task_id] = lag
    except CdcError as error:
        return {}, str(error)
    return found, ""


def _refuse_unlike(task: LoadTask, feeds: Sequence[Feed]) -> None:
    """Raises ConfigError for tasks whose target cannot equal the source."""
    if is_added_loader(task.loader):
        raise ConfigError(
            f"task {task.task_id} writes with {task.loader}, a loader from another package: only "
            "targets of the built-in loaders can be compared"
        )
    left_out = [(f"task {task.task_id}", task.skipped_operations)]
    left_out += [(feed.place, feed.fetch.left_out) for feed in feeds]
    for place, operations in left_out:
        if operations:
            raise ConfigError(
                f"{place} leaves out {', '.join(sorted(operations))} (consumer.skippedOperations), "
                "so the target is not meant to equal the source: there is nothing to compare, and "
                "a repair would undo what it keeps"
            )


def verify(
    opened: Opened,
    options: Options,
    tables: Sequence[str] = (),
    where: str = "",
    on_progress: OnProgress = lambda table, rows, of: None,
) -> Iterator[tuple[TableReport, Comparison | None]]:
    """Compares each target table in turn. Yields its report, and its comparison, None where that
    failed. `tables`: only these, by their names at the source or at the target. Raises ConfigError
    for an unknown name."""
    groups, unreadable, unopened = _grouped(opened, tables)
    if not tables:
        # Only where all tables are compared: with --table the others are not expected.
        seen = [*chain(*unreadable.values()), *chain(*map(_source_names, groups.values()))]
        for name in unseen(opened.task, seen):
            yield TableReport(name, [name], error=unseen_reason(name)), None
        # Another feed, which is not compared, may send what the source has no more.
        are_all = not (opened.further or opened.unread_feeds or opened.beside.unread_feeds)
        if are_all and not where:
            for report in gone_reports(opened, seen, {*groups, *unreadable}, _others):
                yield report, None
    for target, sources in unreadable.items():
        error = unreadable_reason(sources, unopened)
        yield TableReport(str(target), list(map(str, sources)), error=error), None
    twins = _merged_twins(opened, groups)
    for target, mapped in groups.items():
        if target in unreadable:
            continue
        if target in twins:
            yield _failed(target, mapped, twins[target]), None
            continue
        try:
            comparison = comparison_of(opened, target, mapped, options, where, on_progress)
        except CdcError as error:
            yield _failed(target, mapped, str(error)), None
            continue
        _run(opened, comparison, mapped)
        _doubt(comparison.report, opened.beside, opened.unread_feeds)
        has_failed = bool(comparison.report.error)
        yield comparison.report, None if has_failed else comparison


def _failed(target: TableId, mapped: FedTables, reason: str) -> TableReport:
    """The report of a table that cannot be compared."""
    return TableReport(str(target), list(map(str, _source_names(mapped))), error=reason)


def _run(opened: Opened, comparison: Comparison, mapped: FedTables) -> None:
    """Compares a table; its report says what went wrong."""
    try:
        for feed, each in mapped:
            SchemaReader(opened.sources[feed.place]).need_columns(each.source.id)
        comparison.run()
    except CdcError as error:
        comparison.report.error = str(error)
    except pymysql.Error as error:
        comparison.report.error = (
            f"source table {', '.join(comparison.report.sources)} cannot be read to its end: "
            f"{_refused_read(error)}"
        )


def _refused_read(error: pymysql.Error) -> str:
    # Without the error's message, which may quote cells.
    [code, *_] = error.args or [type(error).__name__]
    return f"the server has gone away or refuses it ({code}); look at its log, and run it again"


def _doubt(report: TableReport, beside: Beside, feeds: Mapping[str, Unread]) -> None:
    """Makes a report an error if nothing is known to differ, but tasks could not be read: `feeds`
    may send rows that the target lacks, and rows that only the target has may be of any of them."""
    if report.result not in ("equal", "changing"):
        return
    if feeds:
        report.error = (
            f"the {report.source_rows:,} rows at the source equal those at the target, but rows of "
            f"tasks that cannot be read may belong there, too: {shown(feeds)}; correct what is "
            "wrong there, or name the fetch task that feeds the task with --source, and run it "
            "again"
        )
    elif report.of_others and not beside.unread.keys().isdisjoint(report.others):
        report.error = (
            f"{report.of_others:,} rows that only the target has may be of a task that cannot be "
            f"read: {shown(beside.unread)}; correct what is wrong there, and run it again"
        )


def _merged_twins(opened: Opened, groups: Groups) -> dict[TableId, str]:
    found: dict[TableId, str] = {}

    def is_one_table(targets: Collection[TableId]) -> bool:
        try:
            return opened.loader.is_one_table(targets)
        except ConfigError:
            # Where several target tables match a name, the comparison says so.
            return False
        except CdcError as error:
            found.update(dict.fromkeys(targets, str(error)))
            return False

    for feed in opened.feeds:
        pairs = []
        for target, mapped in groups.items():
            pairs += [(each.source.id, target) for of, each in mapped if of is feed]
        found |= merged_twins(pairs, is_one_table)
    return found


FedTables = list[tuple[Feed, MappedTable]]
Groups = dict[TableId, FedTables]
Unreadable = dict[TableId, list[TableId]]
Unopened = dict[TableId, str]


def _grouped(opened: Opened, tables: Sequence[str]) -> tuple[Groups, Unreadable, Unopened]:
    """The source tables of each target table; those that cannot be read apart, and why the source
    cannot open some of these. `tables`: see `verify`."""
    found: Groups = {}
    unreadable: Unreadable = {}
    unopened: Unopened = {}
    for feed in opened.feeds:
        mapped = mapped_tables(feed, opened.sources[feed.place])
        for each in mapped.tables:
            found.setdefault(each.target, []).append((feed, each))
        for source, targets in mapped.unreadable.items():
            for target in targets:
                unreadable.setdefault(target, []).append(source)
        unopened |= mapped.unopened
    if not tables:
        return found, unreadable, unopened
    names: dict[TableId, list[TableId]] = {}
    for target in [*found, *unreadable]:
        sources = _source_names(found.get(target, ()))
        names[target] = [target, *sources, *unreadable.get(target, ())]
    chosen: set[TableId] = set()
    for word in tables:
        matching = {target for target in names if _is_any_named(word, names[target])}
        if not matching:
            raise ConfigError(
                f"--table {word}: task {opened.task.task_id} has no such table; it has "
                f"{', '.join(sorted(map(str, names)))}"
            )
        chosen |= matching
    return (
        {target: mapped for target, mapped in found.items() if target in chosen},
        {target: sources for target, sources in unreadable.items() if target in chosen},
        unopened,
    )


def _source_names(mapped: Sequence[tuple[Feed, MappedTable]]) -> list[TableId]:
    return [each.source.id for _, each in mapped]


def _is_any_named(word: str, tables: Sequence[TableId]) -> bool:
    lower = word.lower()
    return any(lower in (str(table).lower(), table.table.lower()) for table in tables)


def may_belong(opened: Opened, name: str) -> bool:
    """Whether a target table of this name may have rows of the task, although the source shows no
    table for it: neither do the tasks leave it out, nor is it gone. Raises CdcError."""
    target = TableId(*name.split(".", 1)) if name.count(".") == 1 else None
    # A name with more dots is not known to mean this table.
    if target is None:
        return True
    fetches = [*(feed.fetch for feed in opened.feeds), *opened.further]
    # One that cannot be read may send rows to any table.
    if not opened.unread_feeds and not any(
        may_send(target, fetch, opened.task) for fetch in fetches
    ):
        return False
    return opened.loader.table(target) is not None


def uncompared(opened: Opened) -> list[str]:
    """The fetch tasks, by id or place, that feed the task or may do so, and that the named one
    leaves out: without them the reports do not describe the task as a whole."""
    unread = opened.beside.unread_feeds.keys() - opened.unread_feeds.keys()
    return sorted({*(fetch.task_id for fetch in opened.further), *unread})


def comparison_of(
    opened: Opened,
    target: TableId,
    mapped: Sequence[tuple[Feed, MappedTable]],
    options: Options,
    where: str = "",
    on_progress: OnProgress = lambda table, rows, of: None,
) -> Comparison:
    """The comparison of a target table. Raises CdcError where the table cannot be compared."""
    table = opened.loader.table(target)
    if table is None:
        raise ConfigError(f"target table {target} does not exist: cdcbus schema plan shows it")
    # Other databases have one character set for all columns.
    charsets = {}
    if table.dialect == "mysql":
        with opened.database.reported(f"table {table.id}"):
            charsets = charsets_of(opened.target, table.id)
    assert isinstance(opened.task.target, JdbcTarget)
    subject = subject_of(
        opened.task,
        table,
        mapped,
        charsets,
        make_processor(opened.task.processor),
        opened.task.target.zero_date,
    )
    own, theirs = _conditions(subject, where)
    others = _others(opened, target)
    sides = []
    for source, narrowed in zip(subject.sources, own, strict=True):
        connection = opened.sources[source.feed.place]
        sides.append(SourceSide(source, connection, narrowed))
    estimate = sum(side.estimate() for side in sides)
    return Comparison(
        subject,
        sides,
        TargetSide(subject, opened.database, opened.target, theirs, charsets),
        opened.lag,
        options,
        lambda rows: on_progress(subject.name, rows, estimate),
        others,
        is_narrowed=bool(where),
        inbound=opened.inbound,
        doubt=opened.doubt or _doubt_of_others(opened, others),
    )


def repair_refusal(opened: Opened, comparison: Comparison) -> str:
    """The reason why the rows of a table cannot be repaired; empty where they can. Records of a
    source row go to all its target tables, so each of these must bear them."""
    if reason := refusal(comparison):
        return reason
    [source] = comparison.subject.sources
    mapped = source.mapped
    routes = opened.task.mapper.routes(mapped.source.id)
    others = [route.target for route in routes if route.target != mapped.target]
    if not others:
        return ""
    reason = ""
    target = others[0]
    try:
        # The source may have changed since the tables were chosen, hours ago.
        groups, _, _ = _grouped(opened, ())
        for target in others:
            reason = _NO_SOURCE
            if target in groups:
                other = comparison_of(opened, target, groups[target], comparison.options)
                reason = refusal(other)
            if reason:
                break
    except CdcError as error:
        reason = str(error)
    except pymysql.Error as error:
        reason = _refused_read(error)
    if not reason:
        return ""
    return (
        f"rows of {mapped.source.id} go to target table {target}, too, which could not be "
        f"repaired by them: {reason}"
    )


def _doubt_of_others(opened: Opened, others: Sequence[str]) -> str:
    """Where servers are copied into each other, a row can reach the target by other tasks, too."""
    if not (others and opened.inbound):
        return ""
    return (
        f"rows of other tasks ({', '.join(others)}) go to the table, too, and how far these are is "
        "not known"
    )


def _others(opened: Opened, target: TableId) -> list[str]:
    """The ids of the tasks whose rows may be in a target table, too, and where tasks are that could
    not be read."""
    tasks = list(opened.beside.tasks.values())
    others = set(other_writers(target, opened.task, tasks)) | opened.beside.unread.keys()
    for fetch in opened.further:
        if may_send(target, fetch, opened.task):
            others.add(fetch.task_id)
    return sorted(others)


def _conditions(subject: Subject, where: str) -> tuple[list[str], str]:
    """The condition for each source, and for the target. Raises ConfigError where the sources'
    columns do not give one condition at the target."""
    conditions = []
    at_target = set()
    for source in subject.sources:
        own, theirs = _condition(subject, source, where)
        conditions.append(own)
        at_target.add(theirs)
    if len(at_target) > 1:
        raise ConfigError(
            f"--where names columns that map to different columns of target table {subject.name} "
            "for its source tables: leave it out, or use columns that map to one name"
        )
    return conditions, at_target.pop()


def _condition(subject: Subject, source: SourceTable, where: str) -> tuple[str, str]:
    # Their cells differ at the target, so a condition would select other rows.
    changed = source.plan.changed
    names = {}
    for column in source.mapped.schema.columns:
        is_copied = column.name not in changed
        names[column.name] = source.plan.names[column.name] if is_copied else None
    if where and not subject.is_found_by_key:
        raise ConfigError(
            f"--where cannot be used for target table {subject.name}, as its rows cannot be looked "
            "up by key: leave it out"
        )
    return condition(where, source.mapped.source.id, names, subject.target.dialect)
