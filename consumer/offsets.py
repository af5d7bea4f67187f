"""Where a consumer task starts: ZooKeeper, the task file, the group, in that order; checked against what the topic holds."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from time import monotonic, sleep
from types import TracebackType

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from cdcbus.consumer.task import LoadTask, TopicConfig
from cdcbus.plugins.contracts import AppliedOffset, PositionStore
from cdcbus.plugins.errors import BusError, BusRejected, ConfigError, NoPosition, PositionError, PositionLost
from cdcbus.plugins.kafka_refusal import Refusals
from cdcbus.plugins.position import KafkaPosition, kafka_positions_from_json
from cdcbus.plugins.start import AtTime, Edge, KafkaStart, Replay

LOG = logging.getLogger(__name__)
LIBRARY_LOG = logging.getLogger("cdcbus.librdkafka")
LIBRARY_LOG.setLevel(logging.CRITICAL)
ASK_SECONDS = 10.0
SAMPLE_RECORDS = 100

MOVING = (KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_LOAD_IN_PROGRESS)  # soon another broker, or the same, has the group

Lane = tuple[str, int]  # topic, partition


class TopicLogs:
    """Asks Kafka what its topics hold. A context manager."""

    def __init__(self, task: LoadTask, ask_seconds: float = ASK_SECONDS) -> None:
        source = task.source
        self._servers = source.servers
        self._ask_seconds = ask_seconds
        self._refusals = Refusals()
        try:
            self._consumer = Consumer(
                {
                    **source.look_up_options,
                    "bootstrap.servers": source.servers,
                    "group.id": source.group or f"cdcbus-{task.task_id}",
                    "enable.auto.commit": False,
                    "enable.partition.eof": True,
                    "queued.min.messages": SAMPLE_RECORDS,  # beyond which nothing is fetched ahead
                    "error_cb": self._refusals,
                    "logger": LIBRARY_LOG,
                }
            )
        except KafkaException as error:
            raise ConfigError(f"settings of the Kafka client (kafka.*): {error.args[0].str()}") from error

    def __enter__(self) -> TopicLogs:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._consumer.close()

    def partitions(self, topic: str) -> list[int]:
        """The topic's partition numbers. Raises BusRejected when there is no such topic, BusUnavailable."""
        try:
            found = self._consumer.list_topics(topic, timeout=self._ask_seconds).topics[topic]
        except KafkaException as error:
            raise self._unavailable(error) from error
        if found.error is not None:
            raise BusRejected(f"Kafka topic {topic} at {self._servers}: {found.error.str()}; check consumer.source.topics")
        return sorted(found.partitions)

    def cluster(self) -> str:
        """The id of the brokers' cluster. Raises BusUnavailable."""
        try:
            return str(self._consumer.list_topics(timeout=self._ask_seconds).cluster_id)
        except KafkaException as error:
            raise self._unavailable(error) from error

    def bounds(self, lane: Lane) -> tuple[int, int]:
        """(first offset held, end offset). Raises BusUnavailable."""
        try:
            low, high = self._consumer.get_watermark_offsets(TopicPartition(*lane), timeout=self._ask_seconds)
        except KafkaException as error:
            raise self._unavailable(error) from error
        return low, high

    def at_time(self, lane: Lane, epoch_ms: int) -> int | None:
        """The first offset at or after a time; None when every record is older."""
        try:
            (found,) = self._consumer.offsets_for_times([TopicPartition(*lane, epoch_ms)], timeout=self._ask_seconds)
        except KafkaException as error:
            raise self._unavailable(error) from error
        return found.offset if found.offset >= 0 else None

    def committed(self, lane: Lane) -> int | None:
        """The group's next offset; None when it has none."""
        deadline = monotonic() + self._ask_seconds
        while True:
            try:
                (found,) = self._consumer.committed([TopicPartition(*lane)], timeout=self._ask_seconds)
                return found.offset if found.offset >= 0 else None
            except KafkaException as error:
                code = error.args[0].code()
                if code == KafkaError.COORDINATOR_NOT_AVAILABLE:
                    return None
                if code not in MOVING or monotonic() > deadline:
                    raise self._unavailable(error) from error
                sleep(0.1)

    def newest(self, lanes: Iterable[Lane], count: int) -> list[tuple[Lane, int, bytes | None]]:
        """The records at the last `count` offsets of each lane: lane, offset, value, in order. Those that do not come in time are left out.
        Raises BusError."""
        deadline = monotonic() + self._ask_seconds
        bounds = {lane: self.bounds(lane) for lane in lanes}
        ends = {lane: end for lane, (low, end) in bounds.items() if low < end}
        self._consumer.assign([TopicPartition(*lane, max(bounds[lane][0], end - count)) for lane, end in ends.items()])
        found: list[tuple[Lane, int, bytes | None]] = []
        while ends and (message := self._consumer.poll(max(0, deadline - monotonic()))) is not None:
            lane = str(message.topic()), int(message.partition() or 0)
            error = message.error()
            if error is None:
                found.append((lane, int(message.offset() or 0), message.value()))
            elif error.code() != KafkaError._PARTITION_EOF:
                raise self._unavailable(KafkaException(error))
            if error is not None or found[-1][1] + 1 >= ends.get(lane, 0):
                ends.pop(lane, None)
        self._consumer.unassign()
        return sorted(found, key=lambda record: record[:2])

    def first(self, lane: Lane, offset: int) -> tuple[int, bytes | None] | None:
        """The first record at or after an offset: when it came into Kafka, in epoch milliseconds, and its value. None when none comes in
        time."""
        self._consumer.assign([TopicPartition(*lane, offset)])
        try:
            message = self._consumer.poll(self._ask_seconds)
        finally:
            self._consumer.unassign()
        return None if message is None or message.error() is not None else (message.timestamp()[1], message.value())

    def records(self, lane: Lane, offset: int) -> Iterator[tuple[int, int, bytes | None]]:
        """The records from an offset up to the lane's present end: offset, when it came into Kafka in epoch milliseconds, value. Raises
        BusError."""
        self._consumer.assign([TopicPartition(*lane, offset)])
        try:
            while True:
                message = self._consumer.poll(self._ask_seconds)
                error = KafkaError(KafkaError._TIMED_OUT) if message is None else message.error()
                if error is not None and error.code() == KafkaError._PARTITION_EOF:
                    return
                if message is None or error is not None:
                    raise self._unavailable(KafkaException(error))
                yield int(message.offset() or 0), message.timestamp()[1], message.value()
        finally:
            self._consumer.unassign()

    def ahead(self, offsets: Mapping[Lane, int]) -> tuple[int, int]:
        """How many offsets there are from these on, and the mean length in bytes of the first values in the lane with most of them; 0
        where these are few. Raises BusUnavailable."""
        counts = {lane: self.bounds(lane)[1] - offset for lane, offset in offsets.items()}
        longest = max(counts, key=counts.__getitem__)
        sizes: list[int] = []
        if counts[longest] >= SAMPLE_RECORDS:
            self._consumer.assign([TopicPartition(*longest, offsets[longest])])
            while len(sizes) < SAMPLE_RECORDS and (message := self._consumer.poll(self._ask_seconds)) and message.error() is None:
                sizes.append(len(message.value() or b""))
            self._consumer.unassign()
        return sum(counts.values()), sum(sizes) // max(1, len(sizes))

    def _unavailable(self, error: KafkaException) -> BusError:
        return self._refusals.unanswered(self._consumer, self._servers, error)


def starting_offsets(task: LoadTask, logs: TopicLogs, stores: Mapping[str, PositionStore], applied: list[AppliedOffset]) -> dict[Lane, int]:
    """The first offset to read of each lane. Loads every store.

    A target's applied offset counts only where ZooKeeper still has the node that the batch started from: then the task ended before it
    had written there how far it was. Otherwise ZooKeeper wins, so an operator's edit always holds.
    Raises NoPosition, PositionError, PositionLost with the numbers, ConfigError, BusRejected, BusUnavailable.
    """
    offsets: dict[Lane, int] = {}
    for topic, store in stores.items():
        stored = _stored(topic, store)
        for lane in lanes_of(task, logs, topic):
            position = stored.get(lane[1])
            if position is not None:
                offset = position.next_offset
            elif stored:
                offset = logs.bounds(lane)[0]
                LOG.warning(
                    "task %s: %s names no partition %d of %s; it is read from its beginning", task.task_id, store.path, lane[1], topic
                )
            else:
                offset = _by_rule(task, logs, lane, store.path)
            done = [a.next_offset for a in applied if (a.topic, a.partition) == lane and a.mzxid == store.mzxid]
            offsets[lane] = _held(task, logs, lane, max([offset, *done]))
    return offsets


def lanes_of(task: LoadTask, logs: TopicLogs, topic: str) -> list[Lane]:
    """The partitions of a topic that the task reads. Raises ConfigError when a chosen one does not exist."""
    return [(topic, partition) for partition in chosen_partitions(task.source, topic, logs.partitions(topic))]


def chosen_partitions(source: TopicConfig, topic: str, partitions: Sequence[int]) -> Sequence[int]:
    """Those that are read of the partitions that a topic has. Raises ConfigError when a chosen one does not exist."""
    missing = [str(chosen) for chosen in source.partitions if chosen not in partitions]
    if missing:
        raise ConfigError(f"consumer.source.partition: topic {topic} has no partition {', '.join(missing)}, only 0 to {partitions[-1]}")
    return source.partitions or partitions


def _stored(topic: str, store: PositionStore) -> dict[int, KafkaPosition]:
    text = store.load()
    if text is None:
        return {}
    try:
        positions = kafka_positions_from_json(text)
        wrong = [p.topic for p in positions if p.topic != topic]
        if wrong:
            raise PositionError(f"it names topic {wrong[0]}, the task reads {topic}")
    except PositionError as error:
        raise PositionError(f"{store.path} holds no usable position: {error}. Set it with zkCli and start again") from error
    return {position.partition: position for position in positions}


def _by_rule(task: LoadTask, logs: TopicLogs, lane: Lane, path: str) -> int:
    if task.start is not None:
        return _by_start(task, task.start, logs, lane)
    committed = logs.committed(lane) if task.source.group else None
    if committed is not None:
        return committed
    if task.first_consume_from is not None:
        return _by_start(task, task.first_consume_from, logs, lane)
    raise NoPosition(
        f"task {task.task_id} has no position at {path}, and its file has neither consumer.offset nor consumer.source.firstConsumeFrom; "
        "give one of them, for example consumer.source.firstConsumeFrom=earliest"
    )


def _by_start(task: LoadTask, start: KafkaStart, logs: TopicLogs, lane: Lane) -> int:
    low, high = logs.bounds(lane)
    if start is Edge.EARLIEST:
        return low
    if start is Edge.LATEST:
        return high
    if isinstance(start, AtTime):
        found = logs.at_time(lane, start.epoch_ms)
        return high if found is None else found
    read = lanes_of(task, logs, lane[0])
    if len(read) > 1 and lane == read[0]:
        LOG.warning("consumer.offset is one number; it is used for every partition of %s that the task reads", lane[0])
    return start.first if isinstance(start, Replay) else start.offset + 1


def _held(task: LoadTask, logs: TopicLogs, lane: Lane, offset: int) -> int:
    low, high = logs.bounds(lane)
    if low <= offset <= high:
        return offset
    if task.allow_offset_reset:
        LOG.warning("task %s: offset %d of %s[%d] is not held (%d to %d); reset to %d", task.task_id, offset, *lane, low, high, low)
        return low
    raise PositionLost(
        f"task {task.task_id} wants offset {offset} of {lane[0]}[{lane[1]}], Kafka holds {low} to {high}; "
        "set the position with zkCli, or allow consumer.source.allowOffsetReset=true to go on at the beginning"
    )
