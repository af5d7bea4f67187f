"""Checks that a log still holds the records that were read from it. A log that lost its end, as
after an unclean leader election, and was filled again has other records at the same offsets, under
the same topic id.

The last record read reveals it: the record now at its offset arrived in Kafka at another time, or
another record follows it before the end of what was read. A record that Kafka no longer holds
reveals nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cdcbus.consumer.config import LoadTask
from cdcbus.consumer.offsets.start_offsets import Starts
from cdcbus.consumer.offsets.topic_logs import TopicLogs
from cdcbus.plugins.contracts import Landmark
from cdcbus.plugins.dates import utc_text
from cdcbus.plugins.errors import LogRefilled
from cdcbus.plugins.positions import TopicPartition


@dataclass(frozen=True, slots=True)
class Refilled:
    """A partition that was read up to offset `end`; `last` was its last record, and `found` is in
    its place now."""

    partition: TopicPartition
    last: Landmark
    end: int
    found: Landmark

    def error(self, task: LoadTask) -> LogRefilled:
        topic, number = self.partition
        return LogRefilled(
            f"task {task.task_id}: partition {number} of topic {topic} was read to before "
            f"offset {self.end}, and its log was cut off before that and filled again, as after an "
            f"unclean leader election: {self._difference()}; what came between was never read. Say "
            f"where to begin: cdcbus offset reset {task.task_id} --to PLACE --topic {topic} "
            f"--partition {number}"
        )

    def _difference(self) -> str:
        last, found = self.last, self.found
        if found.offset == last.offset:
            return (
                f"the record at offset {last.offset} came into Kafka at {_at(last)}, "
                f"and there is one of {_at(found)} now"
            )
        return (
            f"the last record before it was at offset {last.offset}, of {_at(last)}, "
            f"and now there is one at offset {found.offset}, of {_at(found)}"
        )


def _at(landmark: Landmark) -> str:
    return utc_text(landmark.came_ms, "milliseconds", zone="+00:00")


def refilled(
    logs: TopicLogs, last: Mapping[TopicPartition, Landmark], ends: Mapping[TopicPartition, int]
) -> Refilled | None:
    """Returns the first partition whose log was filled again. `last`: the last record read before
    `ends`; partitions without an end are left out. Raises BusError."""
    begins: dict[TopicPartition, int] = {}
    for partition, landmark in last.items():
        if partition in ends:
            begins[partition] = landmark.offset
    if not begins:
        return None
    for partition, found in logs.landmarks(begins, ends):
        if found != last[partition]:
            return Refilled(partition, last[partition], ends[partition], found)
    return None


def same_logs(task: LoadTask, logs: TopicLogs, starts: Starts) -> None:
    """Raises LogRefilled where a log that the task continues to read was filled again since;
    BusError."""
    found = refilled(logs, starts.last, starts.offsets)
    if found:
        raise found.error(task)
