"""Finds where a consumer task starts: from an operator's edit, the target, ZooKeeper, and at its
first start from the task file and the group; checked against the offsets that the topic holds."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from cdcbus.consumer.config import LoadTask
from cdcbus.consumer.offsets.held import by_partition
from cdcbus.consumer.offsets.known import (
    NOTHING_PASSED,
    NOWHERE,
    Known,
    known_partitions,
    without_former,
)
from cdcbus.consumer.offsets.start_rule import first_offset
from cdcbus.consumer.offsets.topic_logs import TopicLogs, partitions_of
from cdcbus.plugins.contracts import AppliedOffset, Landmark, PositionStore
from cdcbus.plugins.errors import (
    ConfigError,
    PositionError,
    PositionLost,
    PositionUnusable,
    TargetReplaced,
    TopicRemade,
)
from cdcbus.plugins.kafka.config import PublishConfig
from cdcbus.plugins.loaders import target_kind
from cdcbus.plugins.positions import TopicPartition
from cdcbus.plugins.start import Replay

LOG = logging.getLogger(__name__)
NO_IDS: Mapping[str, str] = {}


@dataclass(slots=True)
class Starts:
    """The offsets at which a task resumes, and what is known about them."""

    # The first offset to read of each partition.
    offsets: dict[TopicPartition, int] = field(default_factory=dict)
    # The offsets in ZooKeeper of partitions that the task does not read.
    unread: dict[TopicPartition, int] = field(default_factory=dict)
    # What the task itself had written of these.
    unread_written: dict[TopicPartition, int | None] = field(default_factory=dict)
    # Partitions where the target has lost commits -> the offsets of target and ZooKeeper.
    lost: dict[TopicPartition, tuple[int, int]] = field(default_factory=dict)
    # The first offsets held of partitions that begin by a start rule, as nothing is known of their
    # topic.
    by_rule: dict[TopicPartition, int] = field(default_factory=dict)
    topic_ids: dict[str, str] = field(default_factory=dict)
    # The last record before each partition's position, including partitions that are not read.
    last: dict[TopicPartition, Landmark] = field(default_factory=dict)
    # As in Mark.
    target_kind: str = ""


def lost_commits(partition: TopicPartition, there: int, had: int) -> str:
    """The warning about lost commits, for operators."""
    return (
        f"the target has lost commits, as after a restore: it has {partition} up to "
        f"offset {there}, the task knows that it had it up to {had}; going on from {there}"
    )


def starting_offsets(
    task: LoadTask,
    logs: TopicLogs,
    stores: Mapping[str, PositionStore],
    applied: Iterable[AppliedOffset],
    topic_ids: Mapping[str, str] = NO_IDS,
    reached: Mapping[TopicPartition, int] = NOWHERE,
    passed: Mapping[TopicPartition, Landmark] = NOTHING_PASSED,
) -> Starts:
    """Returns where to resume. Loads every store.

    `applied`: the target's offsets, which are the truth; `topic_ids`: as far as they are known;
    `reached`: how far this process has read, and `passed`: the last record before that. Raises
    NoPosition, TargetReplaced, TopicRemade, PositionError, PositionLost with the offsets,
    ConfigError, BusRejected, BusUnavailable.
    """
    kind = kind_of_target(task)
    starts = Starts(topic_ids={**topic_ids}, target_kind=kind)
    targets = by_partition(applied)
    for topic, store in stores.items():
        # Loaded once: a later edit is noticed when the position is written.
        text = store.load()
        try:
            known = known_partitions(topic, text, store, targets, reached, passed, kind)
            known = without_former(known, topic_ids.get(topic, ""))
            numbers = logs.partitions(topic)
            _refuse_missing(store, known, numbers)
        except PositionError as error:
            raise PositionUnusable(
                f"{error}; set it: cdcbus offset reset {task.task_id} --to PLACE"
            ) from error
        if topic not in topic_ids and store.written is not None and store.written.mark.topic_id:
            # Kafka did not return the id this time, so the known one is kept.
            starts.topic_ids[topic] = store.written.mark.topic_id
        if text is None and known:
            LOG.warning(
                "task %s: %s was deleted; the task resumes where it was, not by a start rule",
                task.task_id,
                store.path,
            )
        if any(each.is_of_other and each.target for each in known.values()):
            LOG.warning(
                "task %s: %s is of a target of another kind; %s resumes where this one is",
                task.task_id,
                store.path,
                topic,
            )
        partitions = partitions_of(task, logs, topic)
        for partition in partitions:
            if _comes_later(task, partition, known):
                continue
            offset = _offset(task, logs, partition, known, store, topic_ids.get(topic, ""))
            starts.offsets[partition] = _held(task, logs, partition, offset)
            if not known:
                starts.by_rule[partition] = logs.bounds(partition)[0]
        _note(starts, known, numbers)
    return starts


def _refuse_missing(
    store: PositionStore, known: Mapping[TopicPartition, Known], numbers: Sequence[int]
) -> None:
    """Raises PositionError where an edit names a partition that the topic lacks. If it is added
    later, the task would skip its first records, and the edit was for another one."""
    for partition, each in known.items():
        if each.is_edited and partition.partition not in numbers:
            raise PositionError(
                f"{store.path} holds no usable position: it names {partition}, and the topic has "
                f"only partitions 0 to {numbers[-1]}"
            )


def kind_of_target(task: LoadTask) -> str:
    """What kind of target a task writes to, as in Mark."""
    if isinstance(task.target, PublishConfig):
        return "kafka"
    return target_kind(task.loader, task.target)


def _comes_later(
    task: LoadTask, partition: TopicPartition, known: Mapping[TopicPartition, Known]
) -> bool:
    """Whether a partition was added to the topic of a task that sends records on, which reads it
    only after the others, see `AddedPartitions`."""
    is_forwarding = isinstance(task.target, PublishConfig) and not isinstance(task.start, Replay)
    return is_forwarding and not task.source.partitions and bool(known) and partition not in known


def _note(starts: Starts, known: Mapping[TopicPartition, Known], numbers: Sequence[int]) -> None:
    """Adds to `starts` what is known of a topic's partitions besides the offsets to read from. Not
    of those that the topic had before it was made anew with fewer: they are gone."""
    for partition, each in known.items():
        if partition.partition not in numbers:
            continue
        is_read = partition in starts.offsets
        if not is_read and each.in_zookeeper is not None:
            starts.unread[partition] = each.in_zookeeper
            starts.unread_written[partition] = each.written
        if is_read and each.lost:
            starts.lost[partition] = each.lost
        # After a reset to the first offset held, the last record no longer precedes the start.
        is_moved = is_read and starts.offsets[partition] != each.offset
        if each.last and not is_moved:
            starts.last[partition] = each.last


def _offset(
    task: LoadTask,
    logs: TopicLogs,
    partition: TopicPartition,
    known: Mapping[TopicPartition, Known],
    store: PositionStore,
    topic_id: str,
) -> int:
    """The offset at which a partition resumes, not yet checked against what Kafka holds."""
    if not known:
        return first_offset(task, logs, partition, store)
    if partition not in known and isinstance(task.start, Replay):
        return task.start.first
    # One that is not known may be new in the new topic, in place of those that were read.
    for place in [partition] if partition in known else known:
        _refuse_remade(task, place, known[place], topic_id, partition)
    if partition not in known:
        low, _ = logs.bounds(partition)
        gone = ""
        if low:
            gone = f", offset {low}: what came before that is not held any more, and was never read"
        LOG.warning(
            "task %s: nothing is known of partition %d of %s; it is read from its beginning%s",
            task.task_id,
            partition.partition,
            partition.topic,
            gone,
        )
        return low
    found = known[partition]
    _refuse_half_loaded(task, partition, found)
    _refuse_replaced(task, partition, found, store)
    assert found.offset is not None
    if isinstance(task.start, Replay) and not task.start.is_at(found.offset):
        raise PositionError(
            f"task {task.task_id} is to replay {task.start} of {partition}, and resumes at "
            f"{found.offset} there: it has run before, and would apply other records, or none. "
            "Give the replay a taskId of its own, or set the position to the offset before its "
            f"first record: {_reset(task, partition)}"
        )
    return found.offset


def _refuse_remade(
    task: LoadTask, place: TopicPartition, known: Known, topic_id: str, partition: TopicPartition
) -> None:
    """Raises TopicRemade where what is known of `place` is of a former topic of its name, so that
    `partition` cannot be read."""
    # Also at offset 0: records that were there, and not read, are gone with the former topic.
    if known.is_remade(topic_id):
        raise TopicRemade(
            f"task {task.task_id}: topic {place.topic} was deleted and created again (its id "
            f"is {topic_id} now) since it was read up to offset {known.offset} of "
            f"partition {place.partition}, so offsets mean other records, and those of the "
            f"former topic that were not read are lost; say where to begin: "
            f"{_reset(task, partition)}"
        )


def _refuse_half_loaded(task: LoadTask, partition: TopicPartition, found: Known) -> None:
    """Raises ConfigError where the target's offset is that of a direct load which is not finished,
    whatever ZooKeeper knows of it: no record brings the rows that the target tables lack."""
    if found.is_edited or found.target is None or not found.target.is_loading:
        return
    raise ConfigError(
        f"task {task.task_id}: a direct load was begun at offset {found.target.next_offset} of "
        f"{partition} and is not finished, as the target's table cdcbus_position says, so its "
        "tables lack rows, which no record brings. Finish it: cdcbus snapshot run "
        f"{task.task_id} --direct; if that says that a table has rows already, ZooKeeper does not "
        "know the load any more: empty the target tables and run it again. To start without these "
        f"rows, set the position: {_reset(task, partition)}"
    )


def _refuse_replaced(
    task: LoadTask, partition: TopicPartition, found: Known, store: PositionStore
) -> None:
    """Raises TargetReplaced where the target lacks an offset that it, or another one, has had."""
    if not found.is_replaced:
        return
    reset = _reset(task, partition)
    if found.is_of_other:
        raise TargetReplaced(
            f"task {task.task_id}: the target is of another kind ({kind_of_target(task)}) than the "
            f"one that has what comes before offset {found.written} of {partition} "
            f"({found.mark.target}, by {store.path}), and has no offset there; say where to begin: "
            f"{reset}"
        )
    raise TargetReplaced(
        f"task {task.task_id}: the target has no offset of {partition}, although {store.path}, "
        f"as written by the task, says that it has committed up to {found.written} there: the "
        "target, or its table cdcbus_position, has been replaced, or is looked for in another "
        "schema, as the default one of the address or its user (search_path) is another one "
        f"now: set that back, or say where to begin: {reset}"
    )


def _reset(task: LoadTask, partition: TopicPartition) -> str:
    """The command that says where to begin."""
    return f"cdcbus offset reset {task.task_id} --to PLACE --topic {partition.topic}"


def _held(task: LoadTask, logs: TopicLogs, partition: TopicPartition, offset: int) -> int:
    """The offset if Kafka holds it; otherwise the first one held, where the task allows that, else
    raises PositionLost."""
    low, high = logs.bounds(partition)
    if low <= offset <= high:
        return offset
    if task.allow_offset_reset:
        LOG.warning(
            "task %s: offset %d of %s is not held (%d to %d); reset to %d",
            *(task.task_id, offset, partition, low, high, low),
        )
        return low
    raise PositionLost(
        f"task {task.task_id} wants offset {offset} of {partition}, Kafka holds {low} to {high}; "
        f"set the position (cdcbus offset reset {task.task_id} --to PLACE), or allow "
        "consumer.source.allowOffsetReset=true to resume at the beginning"
    )
