"""What other lanes may still bring to one that waits for them, and what it has in store itself."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping

from cdcbus.consumer.config import LoadTask
from cdcbus.consumer.offsets.start_offsets import Lane, TopicLogs
from cdcbus.consumer.records.late import begun_before, is_late
from cdcbus.consumer.records.records import Record
from cdcbus.plugins.start import Replay

IN_FLIGHT_SECONDS = 120.0
"""How much later than those of other partitions a record may come into Kafka, as its partition's
broker was away, or the fetch task."""


def settled_before(task: LoadTask, lane: Lane, next_offsets: Mapping[Lane, int]) -> int:
    """The offset of a lane before which nothing can be cured by others any more: all of them
    have been read beyond the time at which its records came into Kafka, or to their end
    IN_FLIGHT_SECONDS later. 0 where the task does not read all of them, as nobody knows then.
    Raises BusError."""
    all_there_ms = int((time.time() - IN_FLIGHT_SECONDS) * 1000)

    def read_up_to_ms(other: Lane) -> int:
        """Records of a partition are in order; of two that came at once the one of the first
        lane is the earlier one."""
        came_ms = _came_next_ms(task, logs, other, next_offsets[other])
        return all_there_ms if came_ms is None else came_ms + (other > lane)

    with TopicLogs(task) as logs:
        others = [
            (topic, partition)
            for topic in task.source.topics
            for partition in logs.partitions(topic)
            if (topic, partition) != lane
        ]
        end = logs.bounds(lane)[1]
        if not others:
            return end
        if not next_offsets.keys() >= set(others):
            return 0
        found = logs.at_time(lane, min(map(read_up_to_ms, others)))
        return end if found is None else found


def read_before_ms(task: LoadTask, next_offsets: Mapping[Lane, int]) -> int:
    """The time before which no record came into Kafka that is still to be read, as far as
    IN_FLIGHT_SECONDS say; 0 where the task does not read all partitions. Raises BusError."""
    all_there_ms = int(time.time() * 1000)
    with TopicLogs(task) as logs:
        lanes = [
            (topic, partition)
            for topic in task.source.topics
            for partition in logs.partitions(topic)
        ]
        if not next_offsets.keys() >= set(lanes):
            return 0
        came_ms = [_came_next_ms(task, logs, lane, next_offsets[lane]) for lane in lanes]
    return min([all_there_ms, *(each for each in came_ms if each is not None)]) - int(
        IN_FLIGHT_SECONDS * 1000
    )


def _came_next_ms(task: LoadTask, logs: TopicLogs, lane: Lane, offset: int) -> int | None:
    """When the next record of a lane came into Kafka; None behind the last one."""
    left = () if is_beyond(task, offset) else logs.records(lane, offset)
    return next((came_ms for _, came_ms, _ in left), None)


def read_on(task: LoadTask, lane: Lane, offset: int) -> Iterator[Record]:
    """The records of a lane from an offset on, up to its present end, or that of a bounded
    replay, without those that came too late: they will be left out, so they make no earlier
    change needless. Raises BusError."""
    with TopicLogs(task) as logs:
        begun = begun_before(logs, {lane: offset}, task.converter).get(lane, {})
        for at, _, value in logs.records(lane, offset):
            if is_beyond(task, at):
                return
            if not is_late(begun, at, value, task.converter):
                yield at, value


def is_beyond(task: LoadTask, offset: int) -> bool:
    """Whether it is behind the end of a bounded replay."""
    return isinstance(task.start, Replay) and offset > task.start.last
