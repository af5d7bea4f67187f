"""What other lanes may still bring to one that waits for them, and what it has in store itself."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping

from cdcbus.consumer.offsets import Lane, TopicLogs
from cdcbus.consumer.records import Record
from cdcbus.consumer.task import LoadTask
from cdcbus.plugins.start import Replay

IN_FLIGHT_SECONDS = 120.0
"""How much later than those of other partitions a record may come into Kafka, as its partition's broker was away, or the fetch task."""


def settled_before(task: LoadTask, lane: Lane, next_offsets: Mapping[Lane, int]) -> int:
    """The offset of a lane before which nothing can be cured by others any more: all of them have been read beyond the time at which its
    records came into Kafka, or to their end IN_FLIGHT_SECONDS later. 0 where the task does not read all of them, as nobody knows
    then. Raises BusError."""
    all_there_ms = int((time.time() - IN_FLIGHT_SECONDS) * 1000)

    def read_up_to_ms(other: Lane) -> int:
        """Records of a partition are in order; of two that came at once the one of the first lane is the earlier one."""
        left = () if is_beyond(task, next_offsets[other]) else logs.records(other, next_offsets[other])
        return next((came_ms + (other > lane) for _, came_ms, _ in left), all_there_ms)

    with TopicLogs(task) as logs:
        others = [(topic, partition) for topic in task.source.topics for partition in logs.partitions(topic) if (topic, partition) != lane]
        end = logs.bounds(lane)[1]
        if not others:
            return end
        if not next_offsets.keys() >= set(others):
            return 0
        found = logs.at_time(lane, min(map(read_up_to_ms, others)))
        return end if found is None else found


def read_on(task: LoadTask, lane: Lane, offset: int) -> Iterator[Record]:
    """The records of a lane from an offset on, up to its present end, or that of a bounded replay. Raises BusError."""
    with TopicLogs(task) as logs:
        for at, _, value in logs.records(lane, offset):
            if is_beyond(task, at):
                return
            yield at, value


def is_beyond(task: LoadTask, offset: int) -> bool:
    """Whether it is behind the end of a bounded replay."""
    return isinstance(task.start, Replay) and offset > task.start.last
