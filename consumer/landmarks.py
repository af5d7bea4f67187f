"""Whether a log still holds what was read of it: one that lost its end, as after an unclean leader
election, and was filled again has other records at the same offsets, and its topic id is the same.

Told by the last record that was read: it came into Kafka at another moment than the one that is at
its offset now, or there is one behind it where none was. A record that is held no more tells
nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import zip_longest
from time import monotonic

from confluent_kafka import KafkaException

from cdcbus.consumer.batch.progress import Passed, Progress
from cdcbus.consumer.config import LoadTask, TopicConfig
from cdcbus.consumer.offsets.kafka_admin import ends_of
from cdcbus.consumer.offsets.start_offsets import Lane, Starts, TopicLogs
from cdcbus.plugins.contracts import Landmark
from cdcbus.plugins.errors import LogRefilled

LOOK_SECONDS = 1.0
ANSWER_SECONDS = 1.0
UNDER_WAY = 2
"""Batches that may have been read before a change of leader and are applied behind it: one at
work, one that waits."""


@dataclass(frozen=True, slots=True)
class Refilled:
    """A lane that was read to before offset `end`, whose last record was `last`; now there is
    `found`."""

    lane: Lane
    last: Landmark
    end: int
    found: Landmark

    def error(self, task: LoadTask) -> LogRefilled:
        topic, partition = self.lane
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
            f"task {task.task_id}: partition {partition} of topic {topic} was read to before "
            f"offset {self.end}, and its log was cut off "
            f"before that and filled again, as after an unclean leader election: {what}; what "
            "came between was never read. Say where "
            f"to begin: cdcbus offset reset {task.task_id} --to PLACE --topic {topic} --partition "
            f"{partition}"
        )


def _at(landmark: Landmark) -> str:
    return datetime.fromtimestamp(landmark.came_ms / 1000, UTC).isoformat(
        sep=" ", timespec="milliseconds"
    )


def refilled(
    logs: TopicLogs, last: Mapping[Lane, Landmark], ends: Mapping[Lane, int]
) -> Refilled | None:
    """The first lane whose log is another one. `last`: the last record that was read before
    `ends`. Raises BusError."""
    begins = {lane: landmark.offset for lane, landmark in last.items()}
    for lane, found in logs.landmarks(begins, ends) if begins else ():
        if found != last[lane]:
            return Refilled(lane, last[lane], ends[lane], found)
    return None


def same_logs(task: LoadTask, logs: TopicLogs, starts: Starts) -> None:
    """Raises LogRefilled where a log that a task is to go on with is another one than was read,
    BusError."""
    last = {lane: landmark for lane, landmark in starts.last.items() if lane in starts.offsets}
    if found := refilled(logs, last, starts.offsets):
        raise found.error(task)


def leader_epochs(source: TopicConfig, lanes: Collection[Lane]) -> dict[Lane, int]:
    """How often each lane has had a new leader; of those only that Kafka tells: before 2.1 it
    does not."""
    with suppress(KafkaException):
        ends = ends_of(source, lanes, ANSWER_SECONDS)
        return {
            lane: end.leader_epoch
            for lane, end in ends.items()
            if end.leader_epoch is not None and end.leader_epoch >= 0
        }
    return {}


class LogWatch:
    """Looks, while a task runs, whether the logs are still those that were read. A log is cut
    off only where its leader changes, so what was read is compared then."""

    def __init__(self, task: LoadTask, progress: Progress) -> None:
        self._task, self._progress = task, progress
        self._epochs = dict[Lane, int]()
        self._passed = {
            lane: [Passed(lane, last, progress.next_offsets[lane])]
            for lane, last in progress.last.items()
            if lane in progress.next_offsets
        }
        self._under_way = dict[Lane, int]()
        self._new = Counter[Lane]()
        self._looked_at = monotonic()
        self.found: Refilled | None = None

    def look(self) -> Refilled | None:
        """What is wrong. Asks every LOOK_SECONDS, and only of lanes of which something was read
        since; again, where Kafka does not tell. Raises BusError."""
        if monotonic() - self._looked_at < LOOK_SECONDS or not (self._progress.passed or self._new):
            return None
        self._looked_at = monotonic()
        while self._progress.passed:
            one = self._progress.passed.popleft()
            self._passed.setdefault(one.lane, []).append(one)
            self._new[one.lane] += 1
        epochs = leader_epochs(self._task.source, self._new)
        self._under_way.update(
            (lane, UNDER_WAY) for lane, epoch in epochs.items() if epoch != self._epochs.get(lane)
        )
        self.found = self._compared(
            [self._passed[lane] for lane in epochs if self._under_way[lane]]
        )
        for lane in epochs:
            count, is_new_leader = self._new.pop(lane), epochs[lane] != self._epochs.get(lane)
            self._under_way[lane] = (
                UNDER_WAY if is_new_leader else max(0, self._under_way[lane] - count)
            )
            del self._passed[lane][:-1]
        self._epochs |= epochs
        return self.found

    def _compared(self, passed: Iterable[Iterable[Passed]]) -> Refilled | None:
        """One record of each lane at a time, as a client reads a lane from one place only."""
        rounds = [[one for one in of_lanes if one] for of_lanes in zip_longest(*passed)]
        if not rounds:
            return None
        with TopicLogs(self._task) as logs:
            for some in rounds:
                if found := refilled(
                    logs, {one.lane: one.last for one in some}, {one.lane: one.end for one in some}
                ):
                    return found
        return None
