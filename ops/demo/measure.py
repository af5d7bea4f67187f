"""Measurements while the demo runs, all taken from outside, where an operator would look too."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

import confluent_kafka
from confluent_kafka import Consumer, KafkaException
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from cdcbus.ops.demo.fresh import PARTITIONS, TOPIC
from cdcbus.ops.demo.lag import HeartbeatWatch
from cdcbus.ops.demo.shop.load import Load
from cdcbus.ops.demo.shop.schema import SCHEMA
from cdcbus.ops.demo.task_files import FETCH, Target
from cdcbus.ops.stack import sql
from cdcbus.ops.stack.addresses import Addresses
from cdcbus.plugins.errors import BusUnavailable
from cdcbus.plugins.positions import BinlogPosition, kafka_positions_from_json
from cdcbus.producer.server.connection import latest_position
from cdcbus.tasks.zookeeper.position.znodes import position_path

RATE_SECONDS = 3.0  # the time over which rates are averaged
ANSWER_SECONDS = 10.0

Offsets = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Consumed:
    """How far a consumer task is: the next offset of each partition, and its lag by the
    heartbeat."""

    next_offsets: Offsets = ()
    lag_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Sample:
    """The measurements of one moment. `fetched` is None before the fetch task has stored a
    position."""

    at: float
    rows_changed: int
    binlog_end: BinlogPosition
    fetched: BinlogPosition | None
    ends: Offsets
    consumed: Mapping[str, Consumed] = field(default_factory=dict)

    @property
    def is_fetched(self) -> bool:
        """Whether the fetch task has read all of the binlog."""
        return self.fetched is not None and is_at_least(self.fetched, self.binlog_end)

    def lag_records(self, task_id: str) -> int:
        """Records of the topic that a consumer task has not applied."""
        return sum(self.ends) - sum(self.consumed[task_id].next_offsets)

    def position_of(self, task_id: str) -> BinlogPosition | Offsets | None:
        """A task's stored position."""
        if task_id == FETCH:
            return self.fetched
        return self.consumed[task_id].next_offsets

    def is_done(self, task_id: str) -> bool:
        """Whether a task has nothing left to do at this moment."""
        if task_id == FETCH:
            return self.is_fetched
        return self.consumed[task_id].next_offsets == self.ends

    @property
    def counts(self) -> dict[str, int]:
        """The counts that rates are computed from: rows at the source, records in Kafka, records
        applied by each task."""
        counts = {"source": self.rows_changed, "kafka": sum(self.ends)}
        for task_id, consumed in self.consumed.items():
            counts[task_id] = sum(consumed.next_offsets)
        return counts


def is_at_least(position: BinlogPosition, other: BinlogPosition) -> bool:
    """Whether one position in a server's binlog equals another or comes after it."""
    return _sortable(position) >= _sortable(other)


def _sortable(position: BinlogPosition) -> tuple[int, str, int]:
    """File names end with a number that grows, in time also by a digit."""
    return len(position.file), position.file, position.pos


class Meter:
    """Takes samples. A context manager: it keeps connections to all servers."""

    def __init__(
        self, addresses: Addresses, zookeeper: KazooClient, load: Load, targets: Sequence[Target]
    ) -> None:
        self._addresses = addresses
        self._zookeeper = zookeeper
        self._load = load
        self._targets = targets
        self._open = ExitStack()

    def __enter__(self) -> Meter:
        self._source = self._open.enter_context(sql.connect("source", self._addresses.source))
        self._kafka = Consumer(
            # librdkafka needs a group, although only ends are asked for.
            {"bootstrap.servers": self._addresses.kafka, "group.id": "demo", "log_level": 0}
        )
        self._open.callback(self._kafka.close)
        self._watches = {}
        for target in self._targets:
            database = target.database(self._addresses)
            watch = HeartbeatWatch(target.server, database, lambda: self._load.last_beat)
            self._watches[target.task_id] = self._open.enter_context(watch)
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def sample(self) -> Sample:
        """The current measurements."""
        # Positions are read before the ends that they are compared with, so no lag is too small.
        fetched = None
        if stored := self._stored(FETCH, SCHEMA):
            fetched = BinlogPosition.from_json(stored)
        consumed = {}
        for task_id, watch in self._watches.items():
            consumed[task_id] = Consumed(self._next_offsets(task_id), watch.lag_seconds())
        return Sample(
            at=time.monotonic(),
            rows_changed=self._load.rows,
            binlog_end=latest_position(self._source),
            fetched=fetched,
            ends=self._ends(),
            consumed=consumed,
        )

    def _stored(self, task_id: str, swimlane: str) -> bytes:
        try:
            return bytes(self._zookeeper.get(position_path(task_id, swimlane))[0])
        except NoNodeError:
            return b""

    def _next_offsets(self, task_id: str) -> Offsets:
        stored = self._stored(task_id, TOPIC)
        next_offsets = [0] * PARTITIONS
        if stored:
            for position in kafka_positions_from_json(stored):
                next_offsets[position.partition] = position.next_offset
        return tuple(next_offsets)

    def _ends(self) -> Offsets:
        ends = []
        try:
            for number in range(PARTITIONS):
                partition = confluent_kafka.TopicPartition(TOPIC, number)
                _, end = self._kafka.get_watermark_offsets(partition, ANSWER_SECONDS)
                ends.append(end)
            return tuple(ends)
        except KafkaException as error:
            raise BusUnavailable(
                f"Kafka does not return the end of topic {TOPIC}: {error.args[0].str()}"
            ) from error


class Rates:
    """Counts per second, over the last RATE_SECONDS."""

    def __init__(self) -> None:
        self._samples: deque[tuple[float, dict[str, int]]] = deque()

    def add(self, at: float, counts: dict[str, int]) -> None:
        """Adds the counts of a moment."""
        self._samples.append((at, counts))
        while self._samples[0][0] < at - RATE_SECONDS:
            self._samples.popleft()

    def per_second(self, name: str) -> float:
        """The rate of one of the counts; 0 before there are two samples."""
        first_at, first = self._samples[0]
        last_at, last = self._samples[-1]
        if last_at <= first_at:
            return 0.0
        return (last[name] - first[name]) / (last_at - first_at)
