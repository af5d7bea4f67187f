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
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import chain

from kazoo.client import KazooClient

from cdcbus.consumer.config import LoadTask
from cdcbus.consumer.offsets.topic_logs import TopicLogs
from cdcbus.plugins.contracts import AppliedOffset, TargetTable
from cdcbus.plugins.errors import ConfigError, SourceUnavailable
from cdcbus.plugins.registry import is_added_loader
from cdcbus.plugins.rowchange import TableId
from cdcbus.producer.config import FetchTask
from cdcbus.producer.snapshot.progress import TableProgress, TableState
from cdcbus.tasks.control.beside import refuse, tasks_beside
from cdcbus.tasks.control.bus_settings import BusSettings
from cdcbus.tasks.control.source_of import (
    Feed,
    consumer_task,
    feeds_of,
    further_feeds,
)
from cdcbus.tasks.control.uses import Uses
from cdcbus.tasks.direct.beginning import begin, begin_tables, settle_again
from cdcbus.tasks.direct.checks import (
    check_empty,
    check_further,
    check_kept_rows,
    check_partitions,
    check_tasks,
)
from cdcbus.tasks.direct.chosen import checked_tables
from cdcbus.tasks.direct.chunks.chunk_loader import Work, altered
from cdcbus.tasks.direct.chunks.course import Course
from cdcbus.tasks.direct.chunks.pool import Sourced, load_all
from cdcbus.tasks.direct.counts import Counts, committed
from cdcbus.tasks.direct.given import check_kept, check_progress, given, has_loaded, refusal
from cdcbus.tasks.direct.left_out import LeftOut, check_records, left_out, report_left_out
from cdcbus.tasks.direct.offsets import check_fence, check_held, fence, finish, stored_positions
from cdcbus.tasks.direct.opened import Opened, Source, interrupted, opened_for
from cdcbus.tasks.direct.other_rows import Looks
from cdcbus.tasks.process_restart import RESTARTED_VARIABLE, end_leftovers, restart_process
from cdcbus.tasks.runtime.stop_signals import stop_signals
from cdcbus.tasks.snapshots.direct import (
    DirectLoad,
    begin_direct_load,
    direct_load,
    void_direct_load,
)
from cdcbus.tasks.zookeeper.connection import connected
from cdcbus.tasks.zookeeper.lock import guarded, left_lock, live, without_gone
from cdcbus.tasks.zookeeper.tasks import TaskNodes

LOG = logging.getLogger(__name__)
# Chunks that are read from the source at a time.
READERS = 4
# Set once this process has begun a load: it survives a restart of the process.
BEGUN_VARIABLE = "CDCBUS_DIRECT_LOAD_BEGUN"

OnProgress = Callable[[Mapping[TableId, TableProgress]], None]


def run_direct(
    word: str,
    bus: BusSettings,
    *,
    source: str | None = None,
    readers: int = READERS,
    tables: Sequence[str] = (),
    is_anew: bool = False,
    others_later: bool = False,
    on_progress: OnProgress = lambda _: None,
) -> dict[TableId, TableProgress]:
    """Runs the load, and returns the progress of all tables once the task can be started.
    `on_progress` gets that progress once a second. `is_anew`: discards an earlier, interrupted
    load. `others_later`: tables that are left out get their rows later, whatever Kafka has of them.
    Raises CdcError; Interrupted after SIGINT and SIGTERM."""
    # kazoo's own lines would mix with the progress, and its errors are raised anyway.
    logging.getLogger("kazoo").setLevel(logging.CRITICAL)
    # Before anything else: children of the old process may still write to the target.
    end_leftovers()
    if RESTARTED_VARIABLE not in os.environ:
        os.environ.pop(BEGUN_VARIABLE, None)
    load, feeds, further = _checked_tasks(word, bus, source, tables)
    with stop_signals() as stop, ExitStack() as stack:
        client = stack.enter_context(
            connected(
                bus.zookeeper,
                auth=bus.zookeeper_auth,
                session_seconds=bus.lock_times.session_seconds,
            )
        )
        _refuse_held(client, load.task_id, load.source.topics)
        guard = stack.enter_context(guarded(client, restart_process, bus.lock_times))
        locks = stack.enter_context(guard.locks(load.task_id, load.source.topics, ""))
        # After a restart of the process, the load that it had begun is its own, unlike one that was
        # there before.
        is_anew &= BEGUN_VARIABLE not in os.environ
        if not locks.take(stop, end := stop.part()):
            raise interrupted(load, is_anew=is_anew)
        try:
            with opened_for(load, feeds, further, client, end) as opened:
                return _run(
                    opened,
                    tables,
                    readers,
                    is_anew=is_anew,
                    others_later=others_later,
                    on_progress=on_progress,
                )
        except SourceUnavailable as error:
            # Its connections were ended.
            if not end.is_set():
                raise
            is_anew &= BEGUN_VARIABLE not in os.environ
            raise interrupted(load, is_anew=is_anew) from error
        finally:
            locks.rest()


def _checked_tasks(
    word: str, bus: BusSettings, source: str | None, tables: Sequence[str]
) -> tuple[LoadTask, list[Feed], list[FetchTask]]:
    """The task, the fetch tasks to load from, and further ones that feed it. Raises CdcError where
    they cannot be loaded directly, as far as their files and the topics show."""
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
    return load, feeds, further


def _check_partitions(load: LoadTask) -> None:
    if not load.source.partitions:
        return
    with TopicLogs(load) as logs:
        for topic in load.source.topics:
            check_partitions(load, topic, logs.partitions(topic))


def _refuse_held(client: KazooClient, task_id: str, topics: Collection[str]) -> None:
    """Raises ConfigError where another process runs the task; a lock of no session counts if it is
    one of its topics. The lock of a killed process lasts
    for some seconds, and is waited for; so is this process's own lock after it has restarted
    itself."""
    if RESTARTED_VARIABLE in os.environ:
        return
    held = without_gone(TaskNodes(client).locks(task_id))
    if live(held):
        raise ConfigError(
            f"task {task_id} is running, or being loaded: stop it first (cdcbus task stop "
            f"{task_id}), and start it once the load is done"
        )
    if left := left_lock(task_id, {name: held[name] for name in topics if name in held}):
        raise ConfigError(left)


def _run(
    opened: Opened,
    names: Sequence[str],
    readers: int,
    *,
    is_anew: bool,
    others_later: bool,
    on_progress: OnProgress,
) -> dict[TableId, TableProgress]:
    earlier = _unfinished(opened)
    applied = opened.applier.applied_offsets()
    check_fence(opened)
    found = None if is_anew else _continued(opened, earlier, applied)
    known = _known(opened, found)
    targets = checked_tables(opened, names, known)
    positions = stored_positions(opened, is_fresh=earlier is None, applied=applied)
    others = left_out(opened)
    if found is None:
        _check_new(opened, chain.from_iterable(targets.values()), others, others_later=others_later)
        # If the locks are lost, the load may be another process's by now.
        if opened.stop.is_set():
            raise interrupted(opened.load, is_anew=is_anew)
        found, known = _begun(opened, earlier, readers)
        looks = Looks(opened, found)
    else:
        _prepare_again(opened, found, known, targets)
        looks = Looks(opened, found)
        # The tables may be others since the load was interrupted.
        looks.look()
    guard = fence(opened, found)
    counts = committed(opened)
    check_kept(opened.load.task_id, found.commits, counts)
    courses = _courses(opened, known)
    _load_chunks(opened, courses, guard, looks, readers, on_progress, counts)
    if opened.stop.is_set():
        raise interrupted(opened.load)
    looks.look()
    finish(opened, looks.found, positions, counts)
    # Again, as what was said hours ago is forgotten.
    report_left_out(others)
    return _progress(courses)


def _unfinished(opened: Opened) -> DirectLoad | None:
    """The task's earlier load; None if it has none, or that is done."""
    earlier = direct_load(opened.client, opened.load.task_id)
    return None if earlier is None or earlier.is_done else earlier


def _continued(
    opened: Opened, earlier: DirectLoad | None, applied: Sequence[AppliedOffset]
) -> DirectLoad | None:
    """The load to continue; None without one, and if the task file or the target is another one by
    now, and nothing has been loaded yet. Raises ConfigError if something has."""
    if earlier is None or earlier.is_void:
        return None
    kept = applied if opened.applier.keeps_offsets else None
    reason = refusal(opened.load, earlier, kept)
    if reason and has_loaded(opened.store.load().values()):
        raise ConfigError(reason)
    return None if reason else earlier


def _known(opened: Opened, found: DirectLoad | None) -> Mapping[TableId, TableProgress]:
    """The tables of a load that is continued; none of a new one."""
    if found is None:
        return {}
    known = opened.store.load()
    check_progress(opened.load, found, known)
    return known


def _check_new(
    opened: Opened, targets: Iterable[TargetTable], others: LeftOut, *, others_later: bool
) -> None:
    """Raises ConfigError where a new load would mix rows, or leave some out for good."""
    database = opened.database
    with database.reported("tables"), database.engine.connect() as connection:
        check_empty(connection, targets)
    if others.tables and not others_later:
        with TopicLogs(opened.load) as logs:
            check_records(opened.load, others, logs)
    report_left_out(others)


def _prepare_again(
    opened: Opened,
    found: DirectLoad,
    known: Mapping[TableId, TableProgress],
    targets: Mapping[TableId, Sequence[TargetTable]],
) -> None:
    """Prepares a load to be continued. Raises CdcError where it cannot be."""
    check_held(opened.load, found)
    _check_shapes(opened.sources, known)
    loaded: set[TableId] = set()
    for table, progress in known.items():
        if progress.rows:
            loaded |= {target.id for target in targets[table]}
    with opened.database.connected("tables") as connection:
        check_kept_rows(connection, opened.load, loaded)
    settle_again(opened, found)
    LOG.info("task %s: continuing a direct load", opened.load.task_id)


def _begun(
    opened: Opened, earlier: DirectLoad | None, readers: int
) -> tuple[DirectLoad, Mapping[TableId, TableProgress]]:
    """Begins a load in place of an earlier one, and returns it with its tables."""
    load, client = opened.load, opened.client
    if earlier is not None:
        # Before anything can end this run: the tables were emptied, and the next run must not
        # continue as if they had what was loaded.
        void_direct_load(client, load.task_id, earlier)
    # Early, as it takes seconds.
    opened.spark.start(readers)
    begun = begin(opened)
    tables = begin_tables(opened)
    found = replace(begun, given=given(load), tables=len(tables))
    begin_direct_load(client, opened.store, load.task_id, found, tables)
    os.environ[BEGUN_VARIABLE] = load.task_id
    return found, tables


def _courses(opened: Opened, known: Mapping[TableId, TableProgress]) -> list[Course]:
    """The courses of all tables: by weight within a source, light ones first, as within a batch."""
    courses = []
    for source in opened.sources:
        tables = sorted(source.tables, key=lambda table: (opened.load.weight(table), table))
        for table in tables:
            courses.append(Course(table, known[table]))
    return courses


def _load_chunks(
    opened: Opened,
    courses: Sequence[Course],
    guard: AppliedOffset | None,
    looks: Looks,
    readers: int,
    on_progress: OnProgress,
    counts: Counts,
) -> None:
    """Loads what is left; returns once everything is loaded, or the load is to stop."""

    def report() -> None:
        _store(opened, courses, on_progress, counts, looks)
        looks.look_sometimes()

    if any(course.progress.state is not TableState.DONE for course in courses):
        opened.spark.start(readers)
        load_all(
            opened.load,
            courses,
            _sourced(opened, guard),
            opened.spark,
            readers,
            opened.stop,
            report,
            counts,
        )
    _store(opened, courses, on_progress, counts, looks)


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


def _store(
    opened: Opened, courses: Sequence[Course], on_progress: OnProgress, counts: Counts, looks: Looks
) -> None:
    progress = _progress(courses)
    # Taken after the progress, and noted before it: no chunk may be noted that is not counted.
    if not opened.stop.is_lost:
        looks.note_commits(dict(counts))
    opened.store.save(progress)
    on_progress({course.table: course.shown for course in courses})
