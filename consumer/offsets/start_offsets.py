"""Where a consumer task starts: an operator's edit, the target, ZooKeeper, and at its first
start the task file and the group; checked against what the topic holds."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from time import monotonic, sleep
from types import TracebackType

import confluent_kafka
from confluent_kafka import Consumer, KafkaError, KafkaException

from cdcbus.consumer.config import LoadTask, TopicConfig
from cdcbus.plugins.contracts import NO_MARK, AppliedOffset, Landmark, Mark, PositionStore
from cdcbus.plugins.errors import (
    BusError,
    BusUnavailable,
    ConfigError,
    NoPosition,
    PositionError,
    PositionLost,
    TargetReplaced,
    TopicRemade,
)
from cdcbus.plugins.kafka.client_errors import PASSING, RIGHTS, Refusals, denied
from cdcbus.plugins.positions import TopicPartition, kafka_positions_from_json
from cdcbus.plugins.start import AtTime, Edge, KafkaStart, Replay

LOG = logging.getLogger(__name__)
LIBRARY_LOG = logging.getLogger("cdcbus.librdkafka")
LIBRARY_LOG.setLevel(logging.CRITICAL)
ASK_SECONDS = 10.0
FETCH_WAIT_MS = 5  # for what is not there: the end of a partition is told no sooner
SAMPLE_RECORDS = 100

# soon another broker, or the same, has the group
MOVING = (KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_LOAD_IN_PROGRESS)

NO_IDS: Mapping[str, str] = {}
NOWHERE: Mapping[TopicPartition, int] = {}
NOTHING_PASSED: Mapping[TopicPartition, Landmark] = {}


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of where a partition goes on: next offsets by who says so, None: nothing.
    `written`: what the task has written into ZooKeeper last, and `mark`, what it has noted
    there; `passed` and `noted`: the last record before `reached` and before `written`. `is_own`:
    nobody has set the node since; `is_noted`: the target names the node as it is;
    `is_set_again`: somebody has set it to the very same."""

    node: int | None = None
    written: int | None = None
    target: AppliedOffset | None = None
    reached: int | None = None
    mark: Mark = NO_MARK
    passed: Landmark | None = None
    noted: Landmark | None = None
    is_own: bool = True
    is_noted: bool = False
    is_set_again: bool = False

    @property
    def is_edited(self) -> bool:
        """What a command sets it takes out of what was written."""
        return (
            self.node is not None
            and not self.is_noted
            and (self.node != self.written or self.is_set_again)
        )

    @property
    def offset(self) -> int | None:
        """An edit holds, else the target knows best, then this process, then ZooKeeper."""
        if self.is_edited:
            return self.node
        if self.target is not None:
            return self.target.next_offset
        return self.in_zookeeper if self.reached is None else self.reached

    @property
    def last(self) -> Landmark | None:
        """The last record before `offset`, as far as who says that knows. Of an edit: who sets a
        place accepts the log as it is."""
        if self.is_edited:
            return None
        if self.target is not None:
            return self.target.details.last
        if self.reached is not None:
            return self.passed
        return self.noted if self.in_zookeeper == self.written else None

    @property
    def in_zookeeper(self) -> int | None:
        return self.written if self.node is None else self.node

    @property
    def lost(self) -> tuple[int, int] | None:
        """The offsets of target and ZooKeeper where the target is behind what the task knows to
        have committed there."""
        if (
            self.target is None
            or self.written is None
            or self.is_edited
            or self.target.next_offset >= self.written
        ):
            return None
        return self.target.next_offset, self.written

    @property
    def is_replaced(self) -> bool:
        return (
            self.mark.is_kept
            and self.written is not None
            and self.target is None
            and not self.is_edited
        )

    def is_remade(self, topic_id: str) -> bool:
        """Whether what holds is of a topic with another id. One who sets a node knows which
        topic there is."""
        ids = {
            self.mark.topic_id if self.written is not None else "",
            self.target.details.topic_id if self.target else "",
        }
        is_set = self.is_edited or (self.node is not None and not (self.is_own or self.is_noted))
        return bool(topic_id) and not is_set and bool(ids - {"", topic_id})


@dataclass(slots=True)
class Starts:
    """Where a task goes on: the first offset to read of each partition. `unread`: what ZooKeeper
    says of partitions that it does not read; `lost`: of which partitions the target lacks what it
    had, and what it and ZooKeeper say; `last`: the last record before where a partition was left,
    also of those that are not read."""

    offsets: dict[TopicPartition, int] = field(default_factory=dict)
    unread: dict[TopicPartition, int] = field(default_factory=dict)
    lost: dict[TopicPartition, tuple[int, int]] = field(default_factory=dict)
    topic_ids: dict[str, str] = field(default_factory=dict)
    last: dict[TopicPartition, Landmark] = field(default_factory=dict)


def lost_commits(partition: TopicPartition, there: int, written: int) -> str:
    """For people."""
    return (
        f"the target has lost commits, as after a restore: it has {partition} up to "
        f"offset {there}, ZooKeeper knows that it had "
        f"it up to {written}; going on from {there}"
    )


class TopicLogs:
    """Asks Kafka what its topics hold. A context manager."""

    def __init__(self, task: LoadTask, ask_seconds: float = ASK_SECONDS) -> None:
        source = task.source
        self._servers, self._topics = source.servers, source.topics
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
                    "fetch.wait.max.ms": FETCH_WAIT_MS,
                    "queued.min.messages": SAMPLE_RECORDS,  # beyond which nothing is fetched ahead
                    "fetch.queue.backoff.ms": FETCH_WAIT_MS,  # until it looks whether that is so
                    "error_cb": self._refusals,
                    "logger": LIBRARY_LOG,
                }
            )
        except KafkaException as error:
            raise ConfigError(
                f"settings of the Kafka client (kafka.*): {error.args[0].str()}"
            ) from error

    def __enter__(self) -> TopicLogs:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._consumer.close()

    def partitions(self, topic: str) -> list[int]:
        """The topic's partition numbers. Raises BusError when there is no such topic,
        BusUnavailable."""
        try:
            found = self._consumer.list_topics(topic, timeout=self._ask_seconds).topics[topic]
        except KafkaException as error:
            raise self._unavailable(error) from error
        if found.error is not None:
            if found.error.code() in RIGHTS:
                reason = f"topic {topic}: {found.error.str()}"
                raise denied(self._servers, reason, found.error.code())
            told = f"Kafka topic {topic} at {self._servers}: {found.error.str()}"
            if found.error.code() in PASSING:
                raise BusUnavailable(told)
            # the task that writes it may make it later
            raise BusError(f"{told}; check consumer.source.topics")
        return sorted(found.partitions)

    def all_partitions(self) -> list[TopicPartition]:
        """Every partition of every topic of the task, read or not. Raises BusError."""
        return [
            TopicPartition(topic, number)
            for topic in self._topics
            for number in self.partitions(topic)
        ]

    def cluster(self) -> str:
        """The id of the brokers' cluster. Raises BusUnavailable."""
        try:
            return str(self._consumer.list_topics(timeout=self._ask_seconds).cluster_id)
        except KafkaException as error:
            raise self._unavailable(error) from error

    def bounds(self, partition: TopicPartition) -> tuple[int, int]:
        """(first offset held, end offset). Raises BusUnavailable."""
        try:
            low, high = self._consumer.get_watermark_offsets(
                confluent_kafka.TopicPartition(*partition), timeout=self._ask_seconds
            )
        except KafkaException as error:
            raise self._unavailable(error) from error
        return low, high

    def at_time(self, partition: TopicPartition, epoch_ms: int) -> int | None:
        """The first offset at or after a time; None when every record is older."""
        try:
            (found,) = self._consumer.offsets_for_times(
                [confluent_kafka.TopicPartition(*partition, epoch_ms)], timeout=self._ask_seconds
            )
        except KafkaException as error:
            raise self._unavailable(error) from error
        return found.offset if found.offset >= 0 else None

    def committed(self, partition: TopicPartition) -> int | None:
        """The group's next offset; None when it has none."""
        deadline = monotonic() + self._ask_seconds
        while True:
            try:
                (found,) = self._consumer.committed(
                    [confluent_kafka.TopicPartition(*partition)], timeout=self._ask_seconds
                )
                return found.offset if found.offset >= 0 else None
            except KafkaException as error:
                code = error.args[0].code()
                if code == KafkaError.COORDINATOR_NOT_AVAILABLE:
                    return None
                if code not in MOVING or monotonic() > deadline:
                    raise self._unavailable(error) from error
                sleep(0.1)

    def newest(
        self, partitions: Iterable[TopicPartition], count: int
    ) -> list[tuple[TopicPartition, int, bytes | None, int]]:
        """The records at the last `count` offsets of each partition, in order: partition, offset,
        value, and when it came into Kafka in epoch milliseconds. Those that do not come in time
        are left out. Raises BusError."""
        bounds = {partition: self.bounds(partition) for partition in partitions}
        ends = {partition: end for partition, (low, end) in bounds.items() if low < end}
        return self._read(
            {partition: max(bounds[partition][0], end - count) for partition, end in ends.items()},
            ends,
        )

    def _between(
        self, begins: Mapping[TopicPartition, int], ends: dict[TopicPartition, int]
    ) -> list[tuple[TopicPartition, int, bytes | None]]:
        return [
            (partition, offset, value) for partition, offset, value, _ in self._read(begins, ends)
        ]

    def landmarks(
        self, begins: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
    ) -> list[tuple[TopicPartition, Landmark]]:
        """The records from an offset to before another one of each partition that are held, in
        order. Raises BusUnavailable when they do not come in time."""
        left = {partition: ends[partition] for partition in begins}
        found = self._read(begins, left)
        if left:
            raise self._unavailable(KafkaException(KafkaError(KafkaError._TIMED_OUT)))
        return [
            (partition, Landmark(offset, came_ms))
            for partition, offset, _, came_ms in found
            if begins[partition] <= offset < ends[partition]
        ]

    def _read(
        self, begins: Mapping[TopicPartition, int], ends: dict[TopicPartition, int]
    ) -> list[tuple[TopicPartition, int, bytes | None, int]]:
        """What is left in `ends` was not reached in time."""
        deadline = monotonic() + self._ask_seconds
        self._consumer.assign(
            [
                confluent_kafka.TopicPartition(*partition, begin)
                for partition, begin in begins.items()
            ]
        )
        found: list[tuple[TopicPartition, int, bytes | None, int]] = []
        while ends and (message := self._consumer.poll(max(0, deadline - monotonic()))) is not None:
            partition = TopicPartition(str(message.topic()), message.partition() or 0)
            error = message.error()
            if error is None:
                found.append(
                    (partition, int(message.offset() or 0), message.value(), message.timestamp()[1])
                )
            elif error.code() != KafkaError._PARTITION_EOF:
                raise self._unavailable(KafkaException(error))
            if error is not None or found[-1][1] + 1 >= ends.get(partition, 0):
                ends.pop(partition, None)
        self._consumer.unassign()
        return sorted(found, key=lambda record: record[:2])

    def before(
        self, offsets: Mapping[TopicPartition, int], count: int
    ) -> list[tuple[TopicPartition, int, bytes | None]]:
        """Records at the `count` offsets before these: partition, offset, value, in order. Those
        that do not come in time are left out. Raises BusError."""
        begins = {
            partition: max(self.bounds(partition)[0], offset - count)
            for partition, offset in offsets.items()
            if offset > 0
        }
        ends = {
            partition: offsets[partition]
            for partition, begin in begins.items()
            if begin < min(offsets[partition], self.bounds(partition)[1])
        }
        return self._between({partition: begins[partition] for partition in ends}, ends)

    def first(self, partition: TopicPartition, offset: int) -> tuple[int, bytes | None] | None:
        """The first record at or after an offset: when it came into Kafka, in epoch
        milliseconds, and its value. None when none comes in time."""
        self._consumer.assign([confluent_kafka.TopicPartition(*partition, offset)])
        try:
            message = self._consumer.poll(self._ask_seconds)
        finally:
            self._consumer.unassign()
        return (
            None
            if message is None or message.error() is not None
            else (message.timestamp()[1], message.value())
        )

    def records(
        self, partition: TopicPartition, offset: int
    ) -> Iterator[tuple[int, int, bytes | None]]:
        """The records from an offset up to the partition's present end: offset, when it came into
        Kafka in epoch milliseconds, value. Raises BusError."""
        self._consumer.assign([confluent_kafka.TopicPartition(*partition, offset)])
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

    def ahead(self, offsets: Mapping[TopicPartition, int]) -> tuple[int, int]:
        """How many offsets there are from these on, and the mean length in bytes of the first
        values in the partition with most of them; 0 where these are few. Raises BusUnavailable."""
        counts = {
            partition: self.bounds(partition)[1] - offset for partition, offset in offsets.items()
        }
        longest = max(counts, key=counts.__getitem__)
        sizes: list[int] = []
        if counts[longest] >= SAMPLE_RECORDS:
            self._consumer.assign([confluent_kafka.TopicPartition(*longest, offsets[longest])])
            while (
                len(sizes) < SAMPLE_RECORDS
                and (message := self._consumer.poll(self._ask_seconds))
                and message.error() is None
            ):
                sizes.append(len(message.value() or b""))
            self._consumer.unassign()
        return sum(counts.values()), sum(sizes) // max(1, len(sizes))

    def _unavailable(self, error: KafkaException) -> BusError:
        return self._refusals.unanswered(self._consumer, self._servers, error)


def starting_offsets(
    task: LoadTask,
    logs: TopicLogs,
    stores: Mapping[str, PositionStore],
    applied: Iterable[AppliedOffset],
    topic_ids: Mapping[str, str] = NO_IDS,
    reached: Mapping[TopicPartition, int] = NOWHERE,
    passed: Mapping[TopicPartition, Landmark] = NOTHING_PASSED,
) -> Starts:
    """Where to go on. Loads every store.

    `applied`: what the target knows, which is the truth; `topic_ids`: as far as they are known;
    `reached`: how far this process has come, and `passed`: the last record before that. Raises
    NoPosition, TargetReplaced, TopicRemade, PositionError, PositionLost with the numbers,
    ConfigError, BusRejected, BusUnavailable.
    """
    starts, targets = (
        Starts(topic_ids={**topic_ids}),
        {offset.topic_partition: offset for offset in applied},
    )
    for topic, store in stores.items():
        # once: an edit that comes behind it is noticed when the position is written
        text = store.load()
        known = _known(topic, text, store, targets, reached, passed)
        if topic not in topic_ids and store.written is not None and store.written.mark.topic_id:
            # not told just now: what is known is kept
            starts.topic_ids[topic] = store.written.mark.topic_id
        partitions = partitions_of(task, logs, topic)
        starts.unread |= {
            partition: of
            for partition, each in known.items()
            if partition not in partitions and (of := each.in_zookeeper) is not None
        }
        if text is None and known:
            LOG.warning(
                "task %s: %s is gone; the task goes on from where it knows to be, not by a start "
                "rule",
                task.task_id,
                store.path,
            )
        for partition in partitions:
            offset = _offset(task, logs, partition, known, store, topic_ids.get(topic, ""))
            starts.offsets[partition] = _held(task, logs, partition, offset)
        starts.last |= {
            partition: last
            for partition, of in known.items()
            if (last := of.last) and of.offset == starts.offsets.get(partition, of.offset)
        }
        starts.lost |= {
            partition: lost
            for partition in partitions
            if partition in known and (lost := known[partition].lost)
        }
    return starts


def _known(
    topic: str,
    text: str | None,
    store: PositionStore,
    targets: Mapping[TopicPartition, AppliedOffset],
    reached: Mapping[TopicPartition, int],
    passed: Mapping[TopicPartition, Landmark],
) -> dict[TopicPartition, Known]:
    """What anybody knows of the topic's partitions. `text`: as loaded from the store."""
    node, written = _stored(topic, text, store.path), store.written
    before = _stored(topic, written.position if written else None, store.path)
    is_set_again = (
        not store.is_own
        and written is not None
        and all(before.get(each) == offset for each, offset in node.items())
    )
    partitions = {partition for partition in (*targets, *reached) if partition.topic == topic} | {
        TopicPartition(topic, number) for number in (*node, *before)
    }
    return {
        partition: Known(
            node.get(partition.partition),
            before.get(partition.partition),
            targets.get(partition),
            reached.get(partition),
            written.mark if written else NO_MARK,
            passed.get(partition),
            written.mark.last.get(partition.partition) if written else None,
            is_own=store.is_own,
            is_noted=partition in targets
            and targets[partition].position_version == store.position_version,
            is_set_again=is_set_again,
        )
        for partition in partitions
    }


def _offset(
    task: LoadTask,
    logs: TopicLogs,
    partition: TopicPartition,
    known: Mapping[TopicPartition, Known],
    store: PositionStore,
    topic_id: str,
) -> int:
    if not known:
        return _by_rule(task, logs, partition, store)
    if partition not in known:
        LOG.warning(
            "task %s: nobody knows partition %d of %s; it is read from its beginning",
            task.task_id,
            partition.partition,
            partition.topic,
        )
        return logs.bounds(partition)[0]
    of, reset = (
        known[partition],
        f"cdcbus offset reset {task.task_id} --to PLACE --topic {partition.topic}",
    )
    # Of one that nothing was read of, the beginning is the same place, whichever it is.
    if of.offset and of.is_remade(topic_id):
        raise TopicRemade(
            f"task {task.task_id}: topic {partition.topic} was deleted and made anew (its id is "
            f"{topic_id} now) since it was read up to offset "
            f"{of.offset} of partition {partition.partition}, so offsets mean other records; say "
            f"where to begin: {reset}"
        )
    if of.is_replaced:
        raise TargetReplaced(
            f"task {task.task_id}: the target has no offset of {partition}, though "
            f"{store.path} says, as the task has written it, "
            f"that it has committed up to {of.written} there: the target, or its table "
            "cdcbus_position, is another one; say from where its "
            f"rows are to come: {reset}"
        )
    assert of.offset is not None
    return of.offset


def partitions_of(task: LoadTask, logs: TopicLogs, topic: str) -> list[TopicPartition]:
    """The partitions of a topic that the task reads. Raises ConfigError when a chosen one does
    not exist."""
    return [
        TopicPartition(topic, number)
        for number in chosen_partitions(task.source, topic, logs.partitions(topic))
    ]


def chosen_partitions(source: TopicConfig, topic: str, partitions: Sequence[int]) -> Sequence[int]:
    """Those that are read of the partitions that a topic has. Raises ConfigError when a chosen
    one does not exist."""
    missing = [str(chosen) for chosen in source.partitions if chosen not in partitions]
    if missing:
        raise ConfigError(
            f"consumer.source.partition: topic {topic} has no partition {', '.join(missing)}, "
            f"only 0 to {partitions[-1]}"
        )
    return source.partitions or partitions


def _stored(topic: str, text: str | None, path: str) -> dict[int, int]:
    """The next offsets by partition."""
    if text is None or text == "[]":
        return {}
    try:
        positions = kafka_positions_from_json(text)
        wrong = [p.topic for p in positions if p.topic != topic]
        if wrong:
            raise PositionError(f"it names topic {wrong[0]}, the task reads {topic}")
    except PositionError as error:
        raise PositionError(
            f"{path} holds no usable position: {error}. Set it (cdcbus offset reset ID --to PLACE) "
            "and start again"
        ) from error
    return {position.partition: position.next_offset for position in positions}


def _by_rule(
    task: LoadTask, logs: TopicLogs, partition: TopicPartition, store: PositionStore
) -> int:
    """At a task's first start."""
    if store.trace:
        raise NoPosition(
            f"task {task.task_id} has run before, as {store.trace} tells, and has no position at "
            f"{store.path}; a start rule is for the "
            f"first start only: set a position by cdcbus offset reset {task.task_id} --to PLACE "
            f"--topic {partition.topic}"
        )
    if task.start is not None:
        return _by_start(task, task.start, logs, partition)
    committed = logs.committed(partition) if task.source.group else None
    if committed is not None:
        return committed
    if task.first_consume_from is not None:
        return _by_start(task, task.first_consume_from, logs, partition)
    raise NoPosition(
        f"task {task.task_id} has no position at {store.path}, and its file has neither "
        "consumer.offset nor "
        "consumer.source.firstConsumeFrom; "
        "give one of them, for example consumer.source.firstConsumeFrom=earliest"
    )


def _by_start(task: LoadTask, start: KafkaStart, logs: TopicLogs, partition: TopicPartition) -> int:
    low, high = logs.bounds(partition)
    if start is Edge.EARLIEST:
        return low
    if start is Edge.LATEST:
        return high
    if isinstance(start, AtTime):
        found = logs.at_time(partition, start.epoch_ms)
        return high if found is None else found
    read = partitions_of(task, logs, partition.topic)
    if len(read) > 1 and partition == read[0]:
        LOG.warning(
            "consumer.offset is one number; it is used for every partition of %s that the task "
            "reads",
            partition.topic,
        )
    return start.first if isinstance(start, Replay) else start.offset + 1


def _held(task: LoadTask, logs: TopicLogs, partition: TopicPartition, offset: int) -> int:
    low, high = logs.bounds(partition)
    if low <= offset <= high:
        return offset
    if task.allow_offset_reset:
        LOG.warning(
            "task %s: offset %d of %s is not held (%d to %d); reset to %d",
            task.task_id,
            offset,
            partition,
            low,
            high,
            low,
        )
        return low
    raise PositionLost(
        f"task {task.task_id} wants offset {offset} of {partition}, Kafka holds {low} to "
        f"{high}; "
        f"set the position (cdcbus offset reset {task.task_id} --to PLACE), or allow "
        "consumer.source.allowOffsetReset=true to go on at the beginning"
    )
