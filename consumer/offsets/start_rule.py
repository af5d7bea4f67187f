"""Finds where a task begins to read at its very first start."""

from __future__ import annotations

import logging

from cdcbus.consumer.config import LoadTask
from cdcbus.consumer.offsets.topic_logs import TopicLogs, partitions_of
from cdcbus.plugins.contracts import PositionStore
from cdcbus.plugins.errors import NoPosition
from cdcbus.plugins.positions import TopicPartition
from cdcbus.plugins.start import AtTime, Edge, KafkaStart, Replay

LOG = logging.getLogger(__name__)


def first_offset(
    task: LoadTask, logs: TopicLogs, partition: TopicPartition, store: PositionStore
) -> int:
    """The first offset to read: by `consumer.offset`, else the group's committed offset, else
    `firstConsumeFrom`. Raises NoPosition where none of them is given, or where the task has run
    before; BusError."""
    if store.trace:
        raise NoPosition(
            f"task {task.task_id} has run before, as {store.trace} shows, and has no position at "
            f"{store.path}; a start rule is for the first start only: set a position by cdcbus "
            f"offset reset {task.task_id} --to PLACE --topic {partition.topic}"
        )
    if task.start is not None:
        return _by_start(task, task.start, logs, partition)
    if task.source.group:
        committed = logs.committed(partition)
        if committed is not None:
            return committed
    if task.first_consume_from is not None:
        return _by_start(task, task.first_consume_from, logs, partition)
    raise NoPosition(
        f"task {task.task_id} has no position at {store.path}, and its file has neither "
        "consumer.offset nor consumer.source.firstConsumeFrom; give one of them, for example "
        "consumer.source.firstConsumeFrom=earliest"
    )


def _by_start(task: LoadTask, start: KafkaStart, logs: TopicLogs, partition: TopicPartition) -> int:
    low, high = logs.bounds(partition)
    match start:
        case Edge.EARLIEST:
            return low
        case Edge.LATEST:
            return high
        case AtTime(epoch_ms):
            found = logs.at_time(partition, epoch_ms)
            return high if found is None else found
    _warn_of_one_number(task, logs, partition)
    if isinstance(start, Replay):
        return start.first
    # As in porter, the offset is that of the last record read.
    return start.offset + 1


def _warn_of_one_number(task: LoadTask, logs: TopicLogs, partition: TopicPartition) -> None:
    """Warns once for each topic, at its first partition, that one offset counts for several
    partitions."""
    read = partitions_of(task, logs, partition.topic)
    if len(read) > 1 and partition == read[0]:
        LOG.warning(
            "consumer.offset is one number; it is used for every partition of %s that the task "
            "reads",
            partition.topic,
        )
