"""`cdcbus snapshot run --direct`: a first copy of a consumer task's tables, and from where the task
follows.

    the topics' ends O are noted     before anything is read of the source
        -> the source is settled     until a reader there sees all that is in Kafka before O
        -> chunks, by Spark          each read, mapped, and committed at the target; how far all of
                                     them are goes to ZooKeeper
        -> O is the position         of the target, then of ZooKeeper: the task applies again what
                                     came meanwhile, and ends at what the source has

Whenever it dies, the next run goes on with what is left, from the same O.
"""

from __future__ import annotations

import logging
import os
import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import orjson
from kazoo.client import KazooClient

from cdcbus.consumer.batch.progress import shown
from cdcbus.consumer.batch.sink import Applier, make_applier
from cdcbus.consumer.batch.spark_beside import SparkBeside
from cdcbus.consumer.config import LoadTask
from cdcbus.consumer.offsets.checkpoint import StoredPositions
from cdcbus.consumer.offsets.start_offsets import Starts, TopicLogs, partitions_of
from cdcbus.consumer.offsets.topic_identity import topic_ids
from cdcbus.consumer.take_over import take_over
from cdcbus.plugins.contracts import AppliedOffset, Details, JdbcTarget, TargetTable
from cdcbus.plugins.errors import CdcError, ConfigError, PositionLost
from cdcbus.plugins.loaders import open_target
from cdcbus.plugins.loaders.engine import Database
from cdcbus.plugins.loaders.sqlalchemy_loader import JdbcBatch
from cdcbus.plugins.positions import BinlogPosition, TopicPartition
from cdcbus.plugins.registry import is_added_loader
from cdcbus.plugins.rowchange import TableId
from cdcbus.producer.binlog.coordinates import BinlogCoordinates
from cdcbus.producer.server import connection as servers
from cdcbus.producer.snapshot.columns import SelectedTable
from cdcbus.producer.snapshot.progress import TableProgress, TableState
from cdcbus.producer.snapshot.reader import CannotTell, ChunkReader
from cdcbus.tasks.control.bus_settings import BusSettings
from cdcbus.tasks.control.source_of import (
    Feed,
    consumer_task,
    feeds_of,
    mapped_tables,
    source_connection,
)
from cdcbus.tasks.direct.checks import check_empty, check_table, check_tasks
from cdcbus.tasks.direct.chunk_loader import Work
from cdcbus.tasks.direct.course import Course, now_ms
from cdcbus.tasks.direct.pool import Sourced, load_all
from cdcbus.tasks.process_identity import is_gone
from cdcbus.tasks.runtime.runner import stop_signals
from cdcbus.tasks.snapshots.direct import (
    NAME,
    DirectLoad,
    direct_load,
    forget_direct_load,
    put_direct_load,
)
from cdcbus.tasks.snapshots.store import ZooKeeperSnapshots
from cdcbus.tasks.zookeeper.lock import (
    RESTARTED_VARIABLE,
    Stop,
    end_leftovers,
    guarded,
    restart_process,
)
from cdcbus.tasks.zookeeper.positions import ZooKeeperPositions, connect, position_path
from cdcbus.tasks.zookeeper.tasks import TaskNodes
from cdcbus.tasks.zookeeper.znode import get_node

if TYPE_CHECKING:
    from cdcbus.producer.server.connection import Connection, Server

LOG = logging.getLogger(__name__)
READERS = 4
LOOK_SECONDS = 0.2
READ_SECONDS = 60.0

Told = Callable[[Mapping[TableId, TableProgress]], None]


class Interrupted(CdcError):
    """The load is not finished, and goes on when it is run again."""


@dataclass(slots=True)
class _Source:
    """A fetch task's server, at the one address that is read."""

    feed: Feed
    server: Server
    connection: Connection
    tables: dict[TableId, SelectedTable] = field(default_factory=dict)
    seen: BinlogPosition | None = None


@dataclass(slots=True)
class _Load:
    """All that one run needs."""

    load: LoadTask
    client: KazooClient
    stop: Stop
    spark: SparkBeside
    applier: Applier
    database: Database
    loader: JdbcBatch
    sources: list[_Source]
    store: ZooKeeperSnapshots


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
    """Returns once the task can be started, and follows. `told` is given the progress of all
    tables once a second. `is_anew`: an earlier load that was interrupted is forgotten. Raises
    CdcError; Interrupted after SIGINT and SIGTERM."""
    logging.getLogger("kazoo").setLevel(logging.CRITICAL)
    end_leftovers()
    load = consumer_task(word, bus)
    feeds = feeds_of(word, load, bus, source)
    check_tasks(load, feeds)
    if is_added_loader(load.loader):
        raise ConfigError(
            f"task {load.task_id} writes by {load.loader}, which is of another package: only "
            "targets of the built-in loaders can be loaded directly"
        )
    with stop_signals() as stop, ExitStack() as stack:
        client = connect(
            bus.zookeeper,
            auth=bus.zookeeper_auth,
            session_seconds=bus.lock_times.session_seconds,
        )
        stack.callback(client.close)
        stack.callback(client.stop)
        if _is_held(client, load.task_id):
            raise ConfigError(
                f"task {load.task_id} runs, or somebody loads it: stop it first (cdcbus task stop "
                f"{load.task_id}); it is started once the load is done"
            )
        guard = stack.enter_context(guarded(client, restart_process, bus.lock_times))
        locks = stack.enter_context(guard.locks(load.task_id, load.source.topics, ""))
        if not locks.take(stop, end := stop.part()):
            raise _interrupted(load)
        try:
            with _opened(load, feeds, client, end) as opened:
                # after a start anew, what was done before is its own
                is_anew &= RESTARTED_VARIABLE not in os.environ
                return _run(opened, tables, readers, is_anew=is_anew, told=told)
        finally:
            locks.rest()


def _is_held(client: KazooClient, task_id: str) -> bool:
    """Whether somebody runs the task. The lock of a process that was killed lasts for some seconds,
    and is waited for; so is its own, after a start anew."""
    if RESTARTED_VARIABLE in os.environ:
        return False
    return any(not is_gone(node.fields) for node in TaskNodes(client).locks(task_id).values())


@contextmanager
def _opened(
    load: LoadTask, feeds: Sequence[Feed], client: KazooClient, stop: Stop
) -> Iterator[_Load]:
    assert isinstance(load.target, JdbcTarget)
    with ExitStack() as stack:
        applier = stack.enter_context(closing(make_applier(load, stop)))
        if applier.is_dry_run:
            raise ConfigError(
                f"task {load.task_id} is a dry run ({load.loader}), which writes nothing"
            )
        # a name of its own: the applier ends what others of the task's name have open
        target = replace(
            load.target, task_id=f"{load.task_id} direct", pool_size=1, min_connections=0
        )
        database = open_target(target)
        stack.callback(database.engine.dispose)
        sources = []
        for feed in feeds:
            connection = stack.enter_context(source_connection(feed.fetch.source, READ_SECONDS))
            address = (str(connection.host), int(connection.port))
            config = replace(feed.fetch.source, addresses=(address,))
            at_address = replace(feed, fetch=replace(feed.fetch, source=config))
            sources.append(_Source(at_address, servers.inspect(connection, config), connection))
        yield _Load(
            load,
            client,
            stop,
            stack.enter_context(SparkBeside(_with_daemon(load), None, stop)),
            applier,
            database,
            JdbcBatch(database, target.task_id),
            sources,
            ZooKeeperSnapshots(client, load.task_id, NAME, lambda: stop.is_lost),
        )


def _with_daemon(load: LoadTask) -> LoadTask:
    """On this machine, Python workers begin with all loaded that a chunk needs."""
    from cdcbus.consumer.spark.session import is_cluster

    if is_cluster(load.spark_options.get("spark.master", "local")):
        return load
    daemon = {"spark.python.daemon.module": "cdcbus.tasks.direct.python_daemon"}
    return replace(load, spark_options={**daemon, **load.spark_options})


def _run(
    opened: _Load, names: Sequence[str], readers: int, *, is_anew: bool, told: Told
) -> dict[TableId, TableProgress]:
    load, client = opened.load, opened.client
    found = direct_load(client, load.task_id)
    was_begun = found is not None and not found.is_done
    if is_anew or not was_begun:
        found = None
    known = opened.store.load() if found else {}
    targets = _checked_tables(opened, names, known)
    applied = opened.applier.applied_offsets()
    positions = _positions(opened, is_fresh=not was_begun, applied=applied)
    if found is None:
        _check_empty(opened, targets)
        opened.spark.start(readers)  # which takes seconds
        found = _begin(opened)
        known = _begin_tables(opened)
        forget_direct_load(client, load.task_id)
        opened.store.save(known)
        put_direct_load(client, load.task_id, found)  # the last, as from now on it counts
    else:
        _check_held(load, found)
        _settle_again(opened, found)
        LOG.info("task %s: a direct load goes on", load.task_id)
    guard = _guard(opened, found)
    courses = [
        Course(table, known[table])
        for source in opened.sources
        for table in _in_order(opened, source)
    ]
    sourced = {}
    for source in opened.sources:
        fetch = source.feed.fetch
        work = pickle.dumps(Work(load, fetch, source.server, guard))
        for table, selected in source.tables.items():
            sourced[table] = Sourced(fetch.source, source.server, selected, work)
    if not all(course.progress.state is TableState.DONE for course in courses):
        opened.spark.start(readers)
        load_all(
            load,
            courses,
            sourced,
            opened.spark,
            readers,
            opened.stop,
            lambda: _store(opened, courses, told),
        )
    _store(opened, courses, told)
    if opened.stop.is_set():
        raise _interrupted(load)
    _finish(opened, found, positions)
    return {course.table: course.progress for course in courses}


def _interrupted(load: LoadTask) -> Interrupted:
    return Interrupted(
        f"the direct load of task {load.task_id} is not finished: the same command goes on with "
        "what is left"
    )


def _checked_tables(
    opened: _Load, names: Sequence[str], known: Mapping[TableId, TableProgress]
) -> list[TargetTable]:
    """The target tables; what is selected of each source table is noted. `known`: the tables of a
    load that goes on, which are these."""
    targets: dict[TableId, TargetTable] = {}
    wanted = {name.lower() for name in names}
    for source in opened.sources:
        reader = ChunkReader(source.feed.fetch.source, source.server)
        with servers.reported(source.feed.fetch.source), closing(reader):
            for mapped in mapped_tables(source.feed, source.connection):
                table = mapped.source.id
                words = {str(table).lower(), table.table.lower(), str(mapped.target).lower()}
                is_wanted = table in known if known else not names or bool(wanted & words)
                if not is_wanted:
                    continue
                selected = source.tables.get(table) or reader.describe(table)
                if selected is None:
                    raise ConfigError(f"table {table} is no longer there to be read")
                target = opened.loader.table(mapped.target)
                check_table(mapped, selected, target)
                assert target is not None
                targets[target.id] = target
                source.tables[table] = selected
    chosen = {table for source in opened.sources for table in source.tables}
    unknown = [
        name
        for name in names
        if not any(name.lower() in (str(each).lower(), each.table.lower()) for each in chosen)
        and not any(name.lower() == str(each).lower() for each in targets)
    ]
    if unknown:
        raise ConfigError(
            f"--table {', '.join(unknown)}: task {opened.load.task_id} has no such table"
            + ", or its load was begun without it" * bool(known)
        )
    if gone := sorted(str(table) for table in known.keys() - chosen):
        raise ConfigError(
            f"table {', '.join(gone)}, whose load was begun, is none of task {opened.load.task_id} "
            "any more: put it back, or begin anew with --anew"
        )
    return list(targets.values())


def _check_empty(opened: _Load, targets: Sequence[TargetTable]) -> None:
    database = opened.database
    with database.reported("tables"), database.engine.connect() as connection:
        check_empty(connection, targets)


def _positions(
    opened: _Load, *, is_fresh: bool, applied: Sequence[AppliedOffset]
) -> StoredPositions:
    """Raises ConfigError where the task has run before: then it has a position, and what is before
    that does not come again."""
    stores = {
        topic: ZooKeeperPositions(
            opened.client, opened.load.task_id, topic, is_lost=lambda: opened.stop.is_lost
        )
        for topic in opened.load.source.topics
    }
    stored = [topic for topic, store in stores.items() if store.load() is not None]
    if is_fresh and (applied or stored):
        raise ConfigError(
            f"task {opened.load.task_id} has run already, and has a position: a direct load is a "
            "task's beginning. Take the snapshot of single tables through Kafka "
            "(docs/snapshot.md), or give the task another id"
        )
    return StoredPositions(stores)


def _begin(opened: _Load) -> DirectLoad:
    """Notes where the topics end, and waits until the source shows all that is before that."""
    load = opened.load
    with TopicLogs(load) as logs:
        offsets = {
            partition: logs.bounds(partition)[1]
            for topic in load.source.topics
            for partition in partitions_of(load, logs, topic)
        }
    seen = {source.feed.fetch.task_id: _settled(opened, source) for source in opened.sources}
    return DirectLoad(offsets, topic_ids(load.source), seen)


def _settled(opened: _Load, source: _Source) -> BinlogPosition:
    """The fetch task's position once it is beyond the end of the binlog as it is now, so beyond all
    that is in Kafka; and by then others at the source see what is before it."""
    fetch = source.feed.fetch
    end = servers.latest_position(source.connection)
    target = BinlogCoordinates(end.file, end.pos)
    is_logged = False
    while not opened.stop.is_set():
        position = _fetched(opened.client, source)
        is_there = BinlogCoordinates(position.file, position.pos) >= target
        if is_there and position.server_uuid == source.server.identity:
            _wait_until_seen(opened, source, position)
            return position
        if not TaskNodes(opened.client).locks(fetch.task_id):
            raise ConfigError(
                f"fetch task {fetch.task_id} does not run, and has not reached the end of its "
                f"source's binlog ({target}): start it, so that all that is written from now on "
                "comes into Kafka"
            )
        if not is_logged:
            is_logged = True
            LOG.info("waiting until fetch task %s has reached %s", fetch.task_id, target)
        opened.stop.wait(LOOK_SECONDS)
    raise _interrupted(opened.load)


def _fetched(client: KazooClient, source: _Source) -> BinlogPosition:
    fetch = source.feed.fetch
    node = get_node(client, position_path(fetch.task_id, fetch.swimlane))
    if node is None or not node.fields:
        raise ConfigError(
            f"fetch task {fetch.task_id} ({source.feed.place}) has never run: start it first, so "
            "that all that is written from now on comes into Kafka"
        )
    return BinlogPosition.from_json(orjson.dumps(node.fields))


def _wait_until_seen(opened: _Load, source: _Source, position: BinlogPosition) -> None:
    config = source.feed.fetch.source
    with servers.reported(config), closing(ChunkReader(config, source.server)) as reader:
        try:
            reader.settle(position, opened.stop.is_set)
        except CannotTell as error:
            raise ConfigError(f"{source.feed.place}: {error}") from error
        if not opened.stop.is_set():
            reader.end()
    source.seen = position


def _settle_again(opened: _Load, found: DirectLoad) -> None:
    """Chunks may come from another server than before where that is known to have as much."""
    for source in opened.sources:
        position = found.seen.get(source.feed.fetch.task_id)
        if position is None:
            raise ConfigError(
                f"the direct load of task {opened.load.task_id} was begun with another fetch task "
                f"than {source.feed.fetch.task_id}: name that by --source, or begin anew with "
                "--anew"
            )
        has_gtids = source.server.has_gtids and not source.server.is_mariadb and position.gtid
        if position.server_uuid != source.server.identity and not has_gtids:
            raise ConfigError(
                f"{source.feed.place}: the direct load was begun at server {position.server_uuid}, "
                f"and its address leads to {source.server.identity}, which does not tell whether "
                "it has as much. Begin anew with --anew"
            )
        _wait_until_seen(opened, source, position)


def _begin_tables(opened: _Load) -> dict[TableId, TableProgress]:
    found = {}
    for source in opened.sources:
        config = source.feed.fetch.source
        with servers.reported(config), closing(ChunkReader(config, source.server)) as reader:
            for table, selected in source.tables.items():
                until = reader.greatest(selected, "")
                found[table] = TableProgress(
                    TableState.RUNNING,
                    estimated_rows=reader.estimate(table)[0],
                    until=until,
                    started_ms=now_ms(),
                    updated_ms=now_ms(),
                )
    return found


def _in_order(opened: _Load, source: _Source) -> list[TableId]:
    """Light tables first, as inside a batch."""
    return sorted(source.tables, key=lambda table: (opened.load.weight(table), table))


def _guard(opened: _Load, found: DirectLoad) -> AppliedOffset | None:
    """An offset in the target by which a process that is no longer the one is known there. None
    where the target keeps none."""
    opened.applier.take_over(
        [
            AppliedOffset(*partition, offset, 0, details=Details(_id(found, partition)))
            for partition, offset in found.offsets.items()
        ]
    )
    if not opened.applier.keeps_offsets:
        return None
    return min(opened.applier.seen.values(), key=lambda each: each.topic_partition)


def _id(found: DirectLoad, partition: TopicPartition) -> str:
    return found.topic_ids.get(partition.topic, "")


def _store(opened: _Load, courses: Sequence[Course], told: Told) -> None:
    opened.store.save({course.table: course.progress for course in courses})
    told({course.table: course.shown for course in courses})


def _finish(opened: _Load, found: DirectLoad, positions: StoredPositions) -> None:
    """The task goes on from the offsets, and is free to. Raises PositionLost where Kafka holds them
    no longer."""
    _check_held(opened.load, found)
    opened.applier.applied_offsets()  # whoever writes chunks still is fenced
    starts = Starts(dict(found.offsets), topic_ids=dict(found.topic_ids))
    take_over(opened.applier, positions, starts)
    put_direct_load(opened.client, opened.load.task_id, replace(found, is_done=True))
    LOG.info(
        "task %s: all is loaded; it follows from %s", opened.load.task_id, shown(found.offsets)
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
                    "and begin anew with --anew"
                )
        if (ids := topic_ids(load.source)) != dict(found.topic_ids) and ids and found.topic_ids:
            raise PositionLost(
                f"the topics of task {load.task_id} were made anew while it was loaded: empty the "
                "target tables, and begin anew with --anew"
            )
