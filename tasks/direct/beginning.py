"""The beginning of a direct load: the ends of the topics, and sources that show everything before
these."""

from __future__ import annotations

import logging

import orjson
from kazoo.client import KazooClient

from cdcbus.consumer.offsets.topic_identity import topic_ids
from cdcbus.consumer.offsets.topic_logs import TopicLogs, partitions_of
from cdcbus.plugins.errors import ConfigError
from cdcbus.plugins.positions import BinlogPosition
from cdcbus.plugins.rowchange import TableId
from cdcbus.producer.binlog.coordinates import BinlogCoordinates
from cdcbus.producer.server import connection as servers
from cdcbus.producer.snapshot.progress import TableProgress, TableState
from cdcbus.producer.snapshot.reader import VisibilityUnknown
from cdcbus.producer.source.between import is_nothing_between
from cdcbus.tasks.direct.chunks.course import now_ms
from cdcbus.tasks.direct.given import ANEW
from cdcbus.tasks.direct.opened import Opened, Source, interrupted, read_from
from cdcbus.tasks.snapshots.direct import DirectLoad
from cdcbus.tasks.verify.lag import fetch_position
from cdcbus.tasks.zookeeper.lock import left_lock
from cdcbus.tasks.zookeeper.position.znodes import position_path
from cdcbus.tasks.zookeeper.tasks import TaskNodes
from cdcbus.tasks.zookeeper.znode import get_node

LOG = logging.getLogger(__name__)
LOOK_SECONDS = 0.2


def begin(opened: Opened) -> DirectLoad:
    """Notes where the topics end, and waits until the sources show all changes before that. Raises
    ConfigError where a fetch task is not running or cannot be compared, and Interrupted."""
    load = opened.load
    with TopicLogs(load) as logs:
        # First of all: whatever is older than these ends must be visible in what is read next.
        offsets = {}
        for topic in load.source.topics:
            for partition in partitions_of(load, logs, topic):
                _, offsets[partition] = logs.bounds(partition)
    seen = {}
    for source in opened.sources:
        seen[source.feed.fetch.task_id] = _settled(opened, source)
    return DirectLoad(offsets, topic_ids(load.source), seen)


def _settled(opened: Opened, source: Source) -> BinlogPosition:
    """The place up to which the fetch task has published, once it has passed the current end of the
    binlog, and therefore all that is in Kafka. On return, other sessions at the source see
    everything before it."""
    fetch = source.feed.fetch
    end = servers.latest_position(source.connection)
    target = BinlogCoordinates(end.file, end.pos)
    server = source.server.identity
    is_logged = False
    while not opened.stop.is_set():
        # Not where it would resume: that stays before an XA transaction while it is prepared.
        position = _fetched(opened.client, source).reached
        here = BinlogCoordinates(position.file, position.pos)
        if position.server_uuid not in ("", server):
            raise ConfigError(
                f"fetch task {fetch.task_id} reads server {position.server_uuid} by now, and the "
                f"direct load began at {server}: start the load again"
            )
        # An idle source may end in a new file to which no transaction moves the position.
        is_there = here >= target or is_nothing_between(source.connection, here, target)
        # A position that names no server may be in another one's binlog.
        if is_there and position.server_uuid == server:
            _wait_until_seen(opened, source, position)
            return position
        # Otherwise this would wait forever.
        # One of a former swimlane does not keep it from running.
        locks = TaskNodes(opened.client).locks(fetch.task_id)
        locks = {name: lock for name, lock in locks.items() if name == fetch.swimlane}
        if left := left_lock(fetch.task_id, locks):
            raise ConfigError(
                f"fetch task {fetch.task_id} has not reached the end of its source's binlog "
                f"({target}): {left}, and start the task"
            )
        if not locks:
            raise ConfigError(
                f"fetch task {fetch.task_id} is not running, and has not reached the end of its "
                f"source's binlog ({target}): start it, so that all changes from now on reach Kafka"
            )
        if not is_logged:
            is_logged = True
            LOG.info("waiting until fetch task %s has reached %s", fetch.task_id, target)
        opened.stop.wait(LOOK_SECONDS)
    raise interrupted(opened.load)


def _fetched(client: KazooClient, source: Source) -> BinlogPosition:
    fetch = source.feed.fetch
    node = get_node(client, position_path(fetch.task_id, fetch.swimlane))
    if node is None or not node.fields:
        raise ConfigError(
            f"fetch task {fetch.task_id} ({source.feed.place}) has never run: start it first, so "
            "that all changes from now on reach Kafka"
        )
    return BinlogPosition.from_json(orjson.dumps(node.fields))


def _wait_until_seen(opened: Opened, source: Source, position: BinlogPosition) -> None:
    with read_from(opened, source) as reader:
        try:
            reader.settle(position, opened.stop.is_set)
        except VisibilityUnknown as error:
            raise ConfigError(f"{source.feed.place}: {error}") from error
        if not opened.stop.is_set():
            reader.end()


def settle_again(opened: Opened, found: DirectLoad) -> None:
    """Waits again for a load that is continued. Raises ConfigError where its chunks would come from
    another server than before."""
    for source in opened.sources:
        position = found.seen.get(source.feed.fetch.task_id)
        if position is None:
            raise ConfigError(
                f"the direct load of task {opened.load.task_id} was begun with another fetch task "
                f"than {source.feed.fetch.task_id}: name that one with --source, or start again "
                "with --anew"
            )
        server = source.server.identity
        if position.server_uuid != server:
            now = fetch_position(opened.client, source.feed)
            if now is not None and now.server_uuid == server:
                raise other_server(source, position.server_uuid, _fetched_from(server))
            raise other_server(
                source,
                position.server_uuid,
                f"its address leads to {server}: once it leads to the former one again, the same "
                "command goes on",
            )
        _wait_until_seen(opened, source, position)


def check_server(opened: Opened, source: Source) -> None:
    """Raises ConfigError where the fetch task reads another server by now than the load."""
    position = fetch_position(opened.client, source.feed)
    server = source.server.identity
    if position is not None and position.server_uuid not in ("", server):
        raise other_server(source, server, _fetched_from(position.server_uuid))


def _fetched_from(server: str) -> str:
    return f"the fetch task reads {server} by now"


def other_server(source: Source, before: str, what: str) -> ConfigError:
    # Not even GTIDs tell what a chunk had that was read just before the first server was lost.
    return ConfigError(
        f"{source.feed.place}: the direct load has read from server {before}, and {what}. Rows "
        "that only the former server had may be at the target, and no change would ever delete "
        f"them. If it is lost: {ANEW}"
    )


def begin_tables(opened: Opened) -> dict[TableId, TableProgress]:
    found = {}
    for source in opened.sources:
        with read_from(opened, source) as reader:
            for table, selected in source.tables.items():
                # Rows that are inserted later reach the target through the topic.
                until = reader.greatest(selected, "")
                found[table] = TableProgress(
                    TableState.RUNNING,
                    estimated_rows=reader.estimate(table)[0],
                    key=selected.key_order,
                    shape=selected.shape_digest,
                    until=until,
                    started_ms=now_ms(),
                    updated_ms=now_ms(),
                )
    return found
