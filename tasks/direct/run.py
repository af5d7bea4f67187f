"""`cdcbus snapshot run --direct`: a first copy of a consumer task's tables, and the position from
which the task then follows.

    note O, the topics' ends         before anything is read from the source
        -> settle the source         wait until readers there see all that is in Kafka before O
        -> load chunks with Spark    read, map, and commit each at the target; progress goes to
                                     ZooKeeper
        -> make O the position       of the target, then of ZooKeeper: the task applies again what
                                     came meanwhile, and arrives at the source's state

If it dies at any point, the next run continues with what is left, from the same O.
"""

from __future__ import annotations

import logging
import os
import pickle
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace

from kazoo.client import KazooClient

from cdcbus.consumer.batch.progress import shown
from cdcbus.consumer.config import LoadTask
from cdcbus.consumer.offsets.checkpoint import StoredPositions
from cdcbus.consumer.offsets.start_offsets import Starts, kind_of_target
from cdcbus.consumer.offsets.topic_identity import topic_ids
from cdcbus.consumer.offsets.topic_logs import TopicLogs
from cdcbus.consumer.take_over import take_over
from cdcbus.plugins.contracts import AppliedOffset, Details, TargetTable
from cdcbus.plugins.errors import ConfigError, PositionLost
from cdcbus.plugins.registry import is_added_loader
from cdcbus.plugins.rowchange import TableId
from cdcbus.producer.server import connection as servers
from cdcbus.producer.snapshot.progress import TableProgress, TableState
from cdcbus.producer.snapshot.reader import ChunkReader
from cdcbus.tasks.control.beside import refuse, tasks_beside
from cdcbus.tasks.control.bus_settings import BusSettings
from cdcbus.tasks.control.source_of import (
    consumer_task,
    feeds_of,
    further_feeds,
    mapped_tables,
    unreadable_reason,
    unseen,
    unseen_reason,
)
from cdcbus.tasks.control.uses import Uses
from cdcbus.tasks.direct.beginning import begin, begin_tables, settle_again
from cdcbus.tasks.direct.checks import (
    THROUGH_KAFKA,
    check_alone,
    check_empty,
    check_further,
    check_partitions,
    check_table,
    check_tasks,
)
from cdcbus.tasks.direct.chunk_loader import Work, altered
from cdcbus.tasks.direct.course import Course
from cdcbus.tasks.direct.given import check_progress, given, has_loaded, refusal
from cdcbus.tasks.direct.opened import Opened, Source, interrupted, opened_for
from cdcbus.tasks.direct.pool import Sourced, load_all
from cdcbus.tasks.lineage.case_twins import merged_twins
from cdcbus.tasks.process_identity import is_gone
from cdcbus.tasks.process_restart import RESTARTED_VARIABLE, end_leftovers, restart_process
from cdcbus.tasks.runtime.stop_signals import stop_signals
from cdcbus.tasks.snapshots.direct import (
    DirectLoad,
    begin_direct_load,
    direct_load,
    put_direct_load,
    void_direct_load,
)
from cdcbus.tasks.zookeeper.connection import connected
from cdcbus.tasks.zookeeper.lock import guarded
from cdcbus.tasks.zookeeper.position.store import ZooKeeperPositions
from cdcbus.tasks.zookeeper.tasks import TaskNodes

LOG = logging.getLogger(__name__)
# Chunks that are read from the source at a time.
READERS = 4
# Set once this process has begun a load: it survives a restart of the process.
BEGUN_VARIABLE = "CDCBUS_DIRECT_LOAD_BEGUN"

Told = Callable[[Mapping[TableId, TableProgress]], None]


def run_direct(
    word: str,
    bus: BusSettings,
    *,
    source: str | None = None,
    readers: int = READERS,
    tables: Sequence[str] = (),
    is_anew: bool = False,
    told: Told = lambda _: None,
) -> dict[TableId, TableProgress]:
    """Runs the load, and returns the progress of all tables once the task can be started. `told`
    gets that progress once a second. `is_anew`: discards an earlier, interrupted load. Raises
    CdcError; Interrupted after SIGINT and SIGTERM."""
    # kazoo's own lines would mix with the progress, and its errors are raised anyway.
    logging.getLogger("kazoo").setLevel(logging.CRITICAL)
    # Before anything else: children of the old process may still write to the target.
    end_leftovers()
    if RESTARTED_VARIABLE not in os.environ:
        os.environ.pop(BEGUN_VARIABLE, None)
    load = consumer_task(word, bus, Uses.READ | Uses.WRITE | Uses.KAFKA)
    # Once for all, so that a task that can be read only the next time is not overlooked.
    beside = tasks_beside(word, bus)
    feeds = feeds_of(word, load, bus, source, beside=beside)
    check_tasks(load, feeds)
    _check_partitions(load)
    refuse(beside.unread_feeds, f"a direct load of task {load.task_id}")
    further = further_feeds(load, feeds, beside.tasks.values()) if source else []
    if not tables:
        check_further(load, further)
    if is_added_loader(load.loader):
        raise ConfigError(
            f"task {load.task_id} writes with {load.loader}, a loader from another package: only "
            "targets of the built-in loaders can be loaded directly"
        )
    with stop_signals() as stop, ExitStack() as stack:
        client = stack.enter_context(
            connected(
                bus.zookeeper,
                auth=bus.zookeeper_auth,
                session_seconds=bus.lock_times.session_seconds,
            )
        )
        if _is_held(client, load.task_id):
            raise ConfigError(
                f"task {load.task_id} is running, or being loaded: stop it first (cdcbus task stop "
                f"{load.task_id}), and start it once the load is done"
            )
        guard = stack.enter_context(guarded(client, restart_process, bus.lock_times))
        locks = stack.enter_context(guard.locks(load.task_id, load.source.topics, ""))
        # After a restart of the process, the load that it had begun is its own, unlike one that was
        # there before.
        is_anew &= BEGUN_VARIABLE not in os.environ
        if not locks.take(stop, end := stop.part()):
            raise interrupted(load, is_anew=is_anew)
        try:
            with opened_for(load, feeds, further, client, end) as opened:
                return _run(opened, tables, readers, is_anew=is_anew, told=told)
        finally:
            locks.rest()


def _check_partitions(load: LoadTask) -> None:
    if not load.source.partitions:
        return
    with TopicLogs(load) as logs:
        for topic in load.source.topics:
            check_partitions(load, topic, logs.partitions(topic))


def _is_held(client: KazooClient, task_id: str) -> bool:
    """Whether another process runs the task. The lock of a killed process lasts for some seconds,
    and is waited for; so is this process's own lock after it has restarted itself."""
    if RESTARTED_VARIABLE in os.environ:
        return False
    return any(not is_gone(node.fields) for node in TaskNodes(client).locks(task_id).values())


def _run(
    opened: Opened, names: Sequence[str], readers: int, *, is_anew: bool, told: Told
) -> dict[TableId, TableProgress]:
    load, client = opened.load, opened.client
    earlier = direct_load(client, load.task_id)
    if earlier is not None and earlier.is_done:
        earlier = None
    found = earlier
    if found is not None and (is_anew or found.is_void):
        found = None
    applied = opened.applier.applied_offsets()
    if found is not None:
        found = _continued(opened, found, applied)
    known: Mapping[TableId, TableProgress] = {}
    if found is not None:
        known = opened.store.load()
        check_progress(load, found, known)
    targets = _checked_tables(opened, names, known)
    positions = _positions(opened, is_fresh=earlier is None, applied=applied)
    if found is None:
        _check_empty(opened, targets)
        # If the locks are lost, the load may be another process's by now.
        if opened.stop.is_set():
            raise interrupted(load, is_anew=is_anew)
        if earlier is not None:
            # Before anything can end this run: the tables were emptied, and the next run must not
            # continue as if they had what was loaded.
            void_direct_load(client, load.task_id, earlier)
        # Early, as it takes seconds.
        opened.spark.start(readers)
        begun = begin(opened)
        known = begin_tables(opened)
        found = replace(begun, given=given(load), tables=len(known))
        begin_direct_load(client, opened.store, load.task_id, found, known)
        os.environ[BEGUN_VARIABLE] = load.task_id
    else:
        _check_held(load, found)
        _check_shapes(opened.sources, known)
        settle_again(opened, found)
        LOG.info("task %s: continuing a direct load", load.task_id)
    guard = _guard(opened, found)
    courses = []
    for source in opened.sources:
        for table in _in_order(opened, source):
            courses.append(Course(table, known[table]))
    if any(course.progress.state is not TableState.DONE for course in courses):
        opened.spark.start(readers)
        load_all(
            load,
            courses,
            _sourced(opened, guard),
            opened.spark,
            readers,
            opened.stop,
            lambda: _store(opened, courses, told),
        )
    _store(opened, courses, told)
    if opened.stop.is_set():
        raise interrupted(load)
    _finish(opened, found, positions)
    return _progress(courses)


def _continued(
    opened: Opened, found: DirectLoad, applied: Sequence[AppliedOffset]
) -> DirectLoad | None:
    """The load that was begun; None if the task file or the target is another one by now, and
    nothing has been loaded yet. Raises ConfigError if something has."""
    kept = applied if opened.applier.keeps_offsets else None
    reason = refusal(opened.load, found, kept)
    if reason and has_loaded(opened.store.load().values()):
        raise ConfigError(reason)
    return None if reason else found


def _sourced(opened: Opened, guard: AppliedOffset | None) -> dict[TableId, Sourced]:
    sourced = {}
    for source in opened.sources:
        fetch = source.feed.fetch
        work = pickle.dumps(Work(opened.load, fetch, source.server, guard))
        for table, selected in source.tables.items():
            sourced[table] = Sourced(fetch.source, source.server, selected, work)
    return sourced


def _progress(courses: Sequence[Course]) -> dict[TableId, TableProgress]:
    return {course.table: course.progress for course in courses}


def _checked_tables(
    opened: Opened, names: Sequence[str], known: Mapping[TableId, TableProgress]
) -> list[TargetTable]:
    """The checked target tables; notes in `opened` what is selected from each source table.
    `known`: the tables of a load that is continued, which replace `names`."""
    load = opened.load
    targets: dict[TableId, TargetTable] = {}
    seen: list[TableId] = []
    for source in opened.sources:
        reader = ChunkReader(source.feed.fetch.source, source.server)
        with servers.reported(source.feed.fetch.source), closing(reader):
            both = mapped_tables(source.feed, source.connection)
            pairs = []
            unreadable = []
            for table, its in both.unreadable.items():
                seen.append(table)
                if _is_wanted(table, its, names, known):
                    unreadable.append(table)
            if unreadable:
                raise ConfigError(unreadable_reason(unreadable))
            for mapped in both.tables:
                table = mapped.source.id
                seen.append(table)
                if not _is_wanted(table, [mapped.target], names, known):
                    continue
                _refuse_second(opened, source, table)
                pairs.append((table, mapped.target))
                selected = source.tables.get(table) or reader.describe(table)
                if selected is None:
                    raise ConfigError(f"table {table} no longer exists, or cannot be read")
                check_alone(load, mapped.target, opened.further)
                target = opened.loader.table(mapped.target)
                check_table(mapped, selected, target)
                assert target is not None
                targets[target.id] = target
                source.tables[table] = selected
            for why in merged_twins(pairs, opened.loader.is_one_table).values():
                raise ConfigError(why)
    if not names and not known and (missing := unseen(load, seen)):
        raise ConfigError(unseen_reason(", ".join(missing)))
    chosen: set[TableId] = set()
    for source in opened.sources:
        chosen |= source.tables.keys()
    _refuse_unknown(opened, names, chosen, targets, is_begun=bool(known))
    if gone := sorted(str(table) for table in known.keys() - chosen):
        raise ConfigError(
            f"table {', '.join(gone)}, whose load was begun, no longer belongs to task "
            f"{load.task_id}: put it back, or start again with --anew"
        )
    return list(targets.values())


def _is_wanted(
    table: TableId,
    targets: Iterable[TableId],
    names: Sequence[str],
    known: Mapping[TableId, TableProgress],
) -> bool:
    """Whether a table is to be loaded. A load that is continued keeps its tables."""
    if known:
        return table in known
    words = {*_words(table), *(str(target).lower() for target in targets)}
    return not names or any(name.lower() in words for name in names)


def _refuse_second(opened: Opened, source: Source, table: TableId) -> None:
    """Raises ConfigError for a table of a name that another source has, too: progress and chunks go
    by the name, so only the rows of one source would be loaded."""
    for other in opened.sources:
        if other is not source and table in other.tables:
            raise ConfigError(
                f"table {table} comes from {other.feed.place} and from {source.feed.place}, and a "
                f"direct load tells tables apart by their names: {THROUGH_KAFKA}, and load the "
                "others with --table"
            )


def _check_shapes(sources: Sequence[Source], known: Mapping[TableId, TableProgress]) -> None:
    """Raises CdcError for a table that is not done, and whose stored bounds are of another key or
    whose chunks so far were read by other columns."""
    for source in sources:
        for table, selected in source.tables.items():
            progress = known[table]
            if progress.state is TableState.DONE:
                continue
            is_same = progress.shape in ("", selected.shape_digest)
            if not is_same or not progress.is_by(selected.key_order):
                raise altered(table)


def _words(table: TableId) -> set[str]:
    """What --table may call a source table."""
    return {str(table).lower(), table.table.lower()}


def _refuse_unknown(
    opened: Opened,
    names: Sequence[str],
    chosen: Iterable[TableId],
    targets: Iterable[TableId],
    *,
    is_begun: bool,
) -> None:
    known = {str(each).lower() for each in targets}
    for table in chosen:
        known |= _words(table)
    unknown = [name for name in names if name.lower() not in known]
    if unknown:
        raise ConfigError(
            f"--table {', '.join(unknown)}: task {opened.load.task_id} has no such table"
            + ", or its load was begun without it" * is_begun
        )


def _check_empty(opened: Opened, targets: Sequence[TargetTable]) -> None:
    database = opened.database
    with database.reported("tables"), database.engine.connect() as connection:
        check_empty(connection, targets)


def _positions(
    opened: Opened, *, is_fresh: bool, applied: Sequence[AppliedOffset]
) -> StoredPositions:
    """The stored positions. Raises ConfigError if the task has run before: it has a position then,
    and records before that do not come again."""
    stores = {}
    has_run = bool(applied)
    for topic in opened.load.source.topics:
        stores[topic] = ZooKeeperPositions(
            opened.client, opened.load.task_id, topic, is_lost=lambda: opened.stop.is_lost
        )
        has_run |= stores[topic].load() is not None
    if is_fresh and has_run:
        raise ConfigError(
            f"task {opened.load.task_id} has run already, and has a position: a direct load must "
            "come before a task's first start. Take the snapshot of single tables through Kafka "
            "(docs/snapshot.md), or give the task another id"
        )
    return StoredPositions(stores)


def _in_order(opened: Opened, source: Source) -> list[TableId]:
    """The source's tables by weight, light ones first, as within a batch."""
    return sorted(source.tables, key=lambda table: (opened.load.weight(table), table))


def _guard(opened: Opened, found: DirectLoad) -> AppliedOffset | None:
    """Takes the target over, and returns an offset there that fences off processes that were
    replaced; None where the target keeps no offsets."""
    offsets = []
    for partition, offset in found.offsets.items():
        details = Details(found.topic_ids.get(partition.topic, ""))
        offsets.append(AppliedOffset(*partition, offset, 0, details=details))
    opened.applier.take_over(offsets)
    if not opened.applier.keeps_offsets:
        return None
    # One is enough, as a take-over changes all of them.
    return min(opened.applier.seen.values(), key=lambda each: each.topic_partition)


def _store(opened: Opened, courses: Sequence[Course], told: Told) -> None:
    opened.store.save(_progress(courses))
    told({course.table: course.shown for course in courses})


def _finish(opened: Opened, found: DirectLoad, positions: StoredPositions) -> None:
    """Sets the task's position to the offsets, and releases the task. Raises PositionLost if Kafka
    no longer holds them."""
    _check_held(opened.load, found)
    # Fences any process that still writes chunks.
    opened.applier.applied_offsets()
    starts = Starts(
        dict(found.offsets),
        topic_ids=dict(found.topic_ids),
        target_kind=kind_of_target(opened.load),
    )
    # Target first, then ZooKeeper; only after both the load is done, and the task may start.
    take_over(opened.applier, positions, starts)
    put_direct_load(opened.client, opened.load.task_id, replace(found, is_done=True))
    LOG.info(
        "task %s: everything is loaded; it follows from %s",
        opened.load.task_id,
        shown(found.offsets),
    )


def _check_held(load: LoadTask, found: DirectLoad) -> None:
    with TopicLogs(load) as logs:
        for partition, offset in found.offsets.items():
            first, end = logs.bounds(partition)
            if not first <= offset <= end:
                raise PositionLost(
                    f"{partition} has the offsets {first} to {end}, and the direct load of task "
                    f"{load.task_id} was begun at {offset}: what was written meanwhile is lost. "
                    "Have Kafka keep records for longer (retention.ms), empty the target tables, "
                    "and start again with --anew"
                )
        ids = topic_ids(load.source)
        # Kafka may leave out one that it does not know at the moment.
        if any(ids.get(topic, known) != known for topic, known in found.topic_ids.items()):
            raise PositionLost(
                f"the topics of task {load.task_id} were recreated while it was loaded: empty the "
                "target tables, and start again with --anew"
            )
