"""The resources of a running direct load: target, sources, Spark, and the store of its progress."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from kazoo.client import KazooClient

from cdcbus.consumer.batch.sink import Applier, make_applier
from cdcbus.consumer.batch.spark_beside import SparkBeside
from cdcbus.consumer.config import LoadTask
from cdcbus.plugins.contracts import JdbcTarget
from cdcbus.plugins.errors import CdcError, ConfigError
from cdcbus.plugins.loaders import open_target
from cdcbus.plugins.loaders.engine import Database
from cdcbus.plugins.loaders.sqlalchemy_loader import JdbcBatch
from cdcbus.plugins.rowchange import TableId
from cdcbus.producer.config import FetchTask
from cdcbus.producer.server import connection as servers
from cdcbus.producer.snapshot.columns import SelectedTable
from cdcbus.producer.snapshot.reader import ChunkReader
from cdcbus.tasks.control.source_of import Feed, source_connection
from cdcbus.tasks.direct.watch import Watch
from cdcbus.tasks.snapshots.direct import NAME
from cdcbus.tasks.snapshots.store import ZooKeeperSnapshots
from cdcbus.tasks.verify.lag import fetch_position
from cdcbus.tasks.zookeeper.lock import Stop

if TYPE_CHECKING:
    from cdcbus.producer.server.connection import Connection, Server

READ_SECONDS = 3600.0
"""As of a chunk: the first look at a table may wait for a lock, too."""


@dataclass(slots=True)
class Source:
    """A fetch task's server, at the one address that the load reads. `tables`: those to load;
    `others`: tables that are not wanted -> their topic."""

    feed: Feed
    server: Server
    connection: Connection
    tables: dict[TableId, SelectedTable] = field(default_factory=dict)
    others: dict[TableId, str] = field(default_factory=dict)


@dataclass(slots=True)
class Opened:
    """Everything that one run needs. `further`: fetch tasks that feed the task, too, and that are
    not loaded from. `watch` ends what waits for a source once `stop` is set."""

    load: LoadTask
    client: KazooClient
    stop: Stop
    spark: SparkBeside
    applier: Applier
    database: Database
    loader: JdbcBatch
    sources: list[Source]
    store: ZooKeeperSnapshots
    further: Sequence[FetchTask]
    watch: Watch


class Interrupted(CdcError):
    """The load is not finished; running it again continues it."""


def interrupted(load: LoadTask, *, is_anew: bool = False) -> Interrupted:
    """`is_anew`: --anew was given, and has not taken effect yet."""
    if is_anew:
        return Interrupted(
            f"the direct load of task {load.task_id} is not begun anew yet: the same command, with "
            "--anew, begins it"
        )
    return Interrupted(
        f"the direct load of task {load.task_id} is not finished: the same command, without "
        "--anew, continues with what is left"
    )


@contextmanager
def opened_for(
    load: LoadTask,
    feeds: Sequence[Feed],
    further: Sequence[FetchTask],
    client: KazooClient,
    stop: Stop,
) -> Iterator[Opened]:
    assert isinstance(load.target, JdbcTarget)
    with ExitStack() as stack:
        watch = stack.enter_context(Watch(stop))
        applier = stack.enter_context(closing(make_applier(load, stop)))
        if applier.is_dry_run:
            raise ConfigError(
                f"task {load.task_id} is a dry run ({load.loader}), which writes nothing"
            )
        # A name of its own, as the applier ends other sessions of the task's name.
        target = replace(
            load.target, task_id=f"{load.task_id} direct", pool_size=1, min_connections=0
        )
        database = open_target(target)
        stack.callback(database.engine.dispose)
        sources = []
        for feed in feeds:
            # The server whose binlog the fetch task reads: only there can their places be compared.
            position = fetch_position(client, feed)
            server = position.server_uuid if position else ""
            connection = stack.enter_context(
                source_connection(feed.fetch.source, READ_SECONDS, server)
            )
            # All reads go to one server: another one may lag behind it.
            address = (str(connection.host), int(connection.port))
            config = replace(feed.fetch.source, addresses=(address,))
            stack.enter_context(watch.ending(partial(servers.interrupt, connection)))
            watch.add(config)
            at_address = replace(feed, fetch=replace(feed.fetch, source=config))
            sources.append(Source(at_address, servers.inspect(connection, config), connection))
        yield Opened(
            load,
            client,
            stop,
            stack.enter_context(SparkBeside(_with_daemon(load), None, stop)),
            applier,
            database,
            JdbcBatch(database, target.task_id),
            sources,
            ZooKeeperSnapshots(client, load.task_id, NAME, lambda: stop.is_lost),
            further,
            watch,
        )


@contextmanager
def read_from(opened: Opened, source: Source) -> Iterator[ChunkReader]:
    """A reader for the main thread. Raises SourceUnavailable also once the load is to stop."""
    config = source.feed.fetch.source
    with (
        servers.reported(config),
        closing(ChunkReader(config, source.server)) as reader,
        opened.watch.ending(reader.interrupt),
    ):
        yield reader


def _with_daemon(load: LoadTask) -> LoadTask:
    """The task with a daemon whose Python workers start with everything loaded that a chunk needs,
    if Spark runs on this machine."""
    from cdcbus.consumer.spark.settings import is_cluster

    if is_cluster(load.spark_master):
        return load
    daemon = {"spark.python.daemon.module": "cdcbus.tasks.direct.chunks.python_daemon"}
    return replace(load, spark_options={**daemon, **load.spark_options})
