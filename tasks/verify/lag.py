"""Whether everything that the source had committed at a moment has reached the target."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from cdcbus.consumer.config import LoadTask
from cdcbus.consumer.offsets.kafka_admin import bounds_of
from cdcbus.consumer.offsets.topic_logs import (
    ASK_SECONDS,
    TopicLogs,
    chosen_partitions,
    partitions_of,
)
from cdcbus.plugins.errors import ConfigError
from cdcbus.plugins.loaders import offset_table
from cdcbus.plugins.loaders.engine import Database
from cdcbus.plugins.positions import BinlogPosition, TopicPartition, kafka_positions_from_json
from cdcbus.producer.binlog.coordinates import BinlogCoordinates
from cdcbus.producer.server import connection as servers
from cdcbus.producer.source.between import is_nothing_between
from cdcbus.tasks.control.source_of import Feed
from cdcbus.tasks.zookeeper.position.znodes import position_path
from cdcbus.tasks.zookeeper.znode import answer, reported

if TYPE_CHECKING:
    from cdcbus.producer.server.connection import Connection

Ends = Mapping[str, BinlogCoordinates]


@dataclass(slots=True)
class Moment:
    """The ends of the sources at a moment, by the place of their fetch tasks. `topic_ends`: where
    the topics ended once the fetch tasks had published everything up to these; None before."""

    source_ends: Ends
    topic_ends: Mapping[TopicPartition, int] | None = None
    passed: set[TopicPartition] = field(default_factory=set)


class Lag:
    """Compares positions of the sources, ZooKeeper, Kafka and the target."""

    def __init__(
        self,
        task: LoadTask,
        feeds: Sequence[Feed],
        connections: Mapping[str, Connection],
        zookeeper: KazooClient,
        logs: TopicLogs,
        database: Database,
    ) -> None:
        self._task, self._feeds, self._connections = task, feeds, connections
        self._zookeeper, self._logs, self._database = zookeeper, logs, database
        self._offsets = offset_table.find_table(database)
        self._given_up_at: object = None

    def now(self) -> Moment:
        return Moment(self.ends())

    def ends(self) -> Ends:
        """Where the sources' binlogs end now."""
        ends = {}
        for feed in self._feeds:
            end = servers.latest_position(self._connections[feed.place])
            ends[feed.place] = BinlogCoordinates(end.file, end.pos)
        return ends

    def server(self, feed: Feed) -> str:
        """The identity of the source's server, whose rows are compared."""
        return servers.identity(self._connections[feed.place])

    def source_ms(self, feed: Feed) -> int:
        """The time of a source's clock, in epoch milliseconds."""
        [[seconds]] = servers.query(self._connections[feed.place], "SELECT UNIX_TIMESTAMP()")
        return int(seconds) * 1000

    def has_passed(self, moment: Moment) -> bool:
        """Whether the target has everything that was committed then. False also where that is
        unknown: a task has not stored a position, or this one `is_partial`."""
        if self.is_partial:
            return False
        if moment.topic_ends is None:
            if not self.is_published(moment):
                return False
            # Only once everything is published: what was committed then lies before these ends.
            moment.topic_ends = self._topic_ends()
        applied = self._applied()
        for partition, end in moment.topic_ends.items():
            if partition in moment.passed:
                continue
            # Without an offset nothing is applied; only an empty partition has passed then.
            offset = applied.get(partition, self._logs.bounds(partition)[0])
            # Transaction markers, which are not records, may follow the last record.
            if offset < end and self._logs.next_record(partition, offset) is not None:
                return False
            # Offsets only grow, so a partition that has passed is not looked at again.
            moment.passed.add(partition)
        return True

    @cached_property
    def is_partial(self) -> bool:
        """Whether the topics have partitions that the task does not read. Rows there are another
        task's, whose offsets are not known."""
        source = self._task.source
        if not source.partitions:
            return False
        for topic in source.topics:
            numbers = self._logs.partitions(topic)
            if set(numbers) > set(chosen_partitions(source, topic, numbers)):
                return True
        return False

    def _topic_ends(self) -> dict[TopicPartition, int]:
        partitions: list[TopicPartition] = []
        for topic in self._task.source.topics:
            partitions += partitions_of(self._task, self._logs, topic)
        # What the fetch tasks have committed can lie behind somebody's open transaction.
        bounds = bounds_of(self._task.source, partitions, ASK_SECONDS)
        return {partition: end for partition, (_, end) in bounds.items()}

    def give_up(self) -> None:
        """Notes that what was waited for has not come."""
        self._given_up_at = self._reached()

    def is_stuck(self) -> bool:
        """Whether the tasks stand where they stood when a wait was given up: what was committed
        later has not come either, however long it is waited for."""
        return self._given_up_at is not None and self._given_up_at == self._reached()

    def _reached(self) -> object:
        stored = []
        for feed in self._feeds:
            stored.append(_stored(self._zookeeper, feed.fetch.task_id, feed.fetch.swimlane))
        return stored, dict(self._applied())

    def is_published(self, moment: Moment) -> bool:
        """Whether the fetch tasks have published everything that was committed then. Raises
        ConfigError once one of them reads another server."""
        for feed in self._feeds:
            position = fetch_position(self._zookeeper, feed)
            if position is None or not self._has_reached(feed, position, moment):
                return False
        return True

    def _has_reached(self, feed: Feed, position: BinlogPosition, moment: Moment) -> bool:
        connection = self._connections[feed.place]
        # As after a failover. GTIDs could say that the former server's changes are published, but
        # neither that its rows are still those of the source, nor that its locks stop a writer.
        if position.server_uuid not in ("", self.server(feed)):
            raise ConfigError(
                f"fetch task {feed.fetch.task_id} now reads server {position.server_uuid}, and "
                "rows were compared with those of the server that it read before: run it again"
            )
        # Beyond the position while an XA transaction is prepared there.
        published = position.reached
        place = BinlogCoordinates(published.file, published.pos)
        end = moment.source_ends[feed.place]
        # An idle source ends in a new file, to which no transaction moves the stored position.
        return place >= end or is_nothing_between(connection, place, end)

    def _applied(self) -> dict[TopicPartition, int]:
        # Committed with the rows, while ZooKeeper's copy is up to a second older.
        if self._offsets is not None:
            with (
                self._database.reported(f"table {offset_table.TABLE}"),
                self._database.engine.connect() as connection,
            ):
                rows = offset_table.load(connection, self._task.task_id, self._offsets)
            return {row.topic_partition: row.next_offset for row in rows}
        found = dict[TopicPartition, int]()
        for topic in self._task.source.topics:
            if stored := _stored(self._zookeeper, self._task.task_id, topic):
                for each in kafka_positions_from_json(stored):
                    found[TopicPartition(each.topic, each.partition)] = each.next_offset
        return found


def fetch_position(client: KazooClient, feed: Feed) -> BinlogPosition | None:
    """Where a fetch task stands, as it has stored. Raises PositionError."""
    stored = _stored(client, feed.fetch.task_id, feed.fetch.swimlane)
    return BinlogPosition.from_json(stored) if stored else None


def _stored(client: KazooClient, task_id: str, swimlane: str) -> str | None:
    path = position_path(task_id, swimlane)
    # With a limit, as rows may be locked at the source meanwhile.
    with reported(path):
        try:
            data, _ = answer(client.get_async(path))
        except NoNodeError:
            return None
    return data.decode() or None
