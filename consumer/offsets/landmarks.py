"""Whether a log still holds what was read of it: one that lost its end, as after an unclean leader
election, and was filled again has other records at the same offsets, and its topic id is the same.

Told by the last record that was read: it came into Kafka at another moment than the one that is at
its offset now, or there is one behind it where none was. A record that is held no more tells
nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from cdcbus.consumer.config import LoadTask
from cdcbus.consumer.offsets.start_offsets import Starts, TopicLogs
from cdcbus.plugins.contracts import Landmark
from cdcbus.plugins.errors import LogRefilled
from cdcbus.plugins.positions import TopicPartition


@dataclass(frozen=True, slots=True)
class Refilled:
    """A partition that was read to before offset `end`, whose last record was `last`; now there is
    `found`."""

    partition: TopicPartition
    last: Landmark
    end: int
    found: Landmark

    def error(self, task: LoadTask) -> LogRefilled:
        topic, number = self.partition
        if self.found.offset == self.last.offset:
            what = (
                f"the record at offset {self.last.offset} came into Kafka at {_at(self.last)}, "
                f"and there is one of {_at(self.found)} now"
            )
        else:
            what = (
                f"the last record before it was at offset {self.last.offset}, of "
                f"{_at(self.last)}, and now there is one at offset "
                f"{self.found.offset}, of {_at(self.found)}"
            )
        return LogRefilled(
            f"task {task.task_id}: partition {number} of topic {topic} was read to before "
            f"offset {self.end}, and its log was cut off "
            f"before that and filled again, as after an unclean leader election: {what}; what "
            "came between was never read. Say where "
            f"to begin: cdcbus offset reset {task.task_id} --to PLACE --topic {topic} --partition "
            f"{number}"
        )


def _at(landmark: Landmark) -> str:
    return datetime.fromtimestamp(landmark.came_ms / 1000, UTC).isoformat(
        sep=" ", timespec="milliseconds"
    )


def refilled(
    logs: TopicLogs, last: Mapping[TopicPartition, Landmark], ends: Mapping[TopicPartition, int]
) -> Refilled | None:
    """The first partition whose log is another one. `last`: the last record that was read before
    `ends`. Raises BusError."""
    begins = {partition: landmark.offset for partition, landmark in last.items()}
    for partition, found in logs.landmarks(begins, ends) if begins else ():
        if found != last[partition]:
            return Refilled(partition, last[partition], ends[partition], found)
    return None


def same_logs(task: LoadTask, logs: TopicLogs, starts: Starts) -> None:
    """Raises LogRefilled where a log that a task is to go on with is another one than was read,
    BusError."""
    last = {
        partition: landmark
        for partition, landmark in starts.last.items()
        if partition in starts.offsets
    }
    if found := refilled(logs, last, starts.offsets):
        raise found.error(task)
