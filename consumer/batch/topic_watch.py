"""Looks, while a task reads, whether its topics are still those that it began with, and whether
what they hold is what it gets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from itertools import zip_longest
from time import monotonic

from confluent_kafka import KafkaException

from cdcbus.consumer.apply.watermark import is_beyond
from cdcbus.consumer.batch.progress import Passed, Progress
from cdcbus.consumer.config import LoadTask, TopicConfig
from cdcbus.consumer.offsets.kafka_admin import ends_of
from cdcbus.consumer.offsets.landmarks import Refilled, refilled
from cdcbus.consumer.offsets.topic_identity import TopicIdentity
from cdcbus.consumer.offsets.topic_logs import TopicLogs
from cdcbus.plugins.errors import BusUnavailable, CdcError
from cdcbus.plugins.positions import TopicPartition

LOG_LOOK_SECONDS = 1.0
EPOCH_SECONDS = 1.0
UNDER_WAY = 4
"""Batches that may have been read before a change of leader and are applied behind it: one at
work, and what the client has fetched ahead."""

STALL_SECONDS = 30.0
ANSWER_SECONDS = 10.0


class TopicWatch:
    """Of one task. `look` is to be called every second or so."""

    def __init__(self, task: LoadTask, topic_ids: Mapping[str, str], progress: Progress) -> None:
        self._task, self._progress = task, progress
        self._identity = TopicIdentity(task, topic_ids)
        self.logs = LogWatch(task, progress)
        self._stall = _Stall(task, progress)

    def look(self) -> CdcError | None:
        """What is wrong. Each thing is asked of Kafka as seldom as it may be. Raises BusError."""
        if remade := self._identity.look():
            return remade
        if found := self.logs.look():
            return found.error(self._task)
        return self._stall.look()

    def new_partitions(self) -> list[TopicPartition]:
        """Partitions that were added to topics of which the task reads all."""
        if self._task.source.partitions:
            return []
        return sorted(self._identity.partitions - self._progress.next_offsets.keys())


class _Stall:
    """A reader that gets nothing though Kafka has something, as one whose broker stands still."""

    def __init__(self, task: LoadTask, progress: Progress) -> None:
        self._task, self._progress = task, progress
        self._offsets: Mapping[TopicPartition, int] = {}
        self._since = self._looked_at = monotonic()
        self._is_suspect = False

    def look(self) -> BusUnavailable | None:
        """Twice in a row, STALL_SECONDS apart, with no record read in between."""
        now = monotonic()
        if self._offsets != self._progress.next_offsets or self._progress.batch_since:
            self._offsets, self._since, self._is_suspect = self._progress.next_offsets, now, False
        if now - max(self._since, self._looked_at) < STALL_SECONDS:
            return None
        self._looked_at = now
        was_suspect = self._is_suspect
        behind = self._behind()
        self._is_suspect = bool(behind)
        if not (behind and was_suspect):
            return None
        return BusUnavailable(
            f"Kafka at {self._task.source.servers} gives no records of {behind[0]}, though it has "
            f"some, or does not tell, for {STALL_SECONDS:g} s"
        )

    def _behind(self) -> list[str]:
        """Partitions that Kafka has more of, or says nothing of."""
        try:
            ends = ends_of(self._task.source, self._offsets, ANSWER_SECONDS)
        except KafkaException:
            ends = {}
        found = []
        for partition, offset in sorted(self._offsets.items()):
            end = ends.get(partition)
            if (end is None or end.offset > offset) and not is_beyond(self._task, offset):
                found.append(f"{partition} at offset {offset}")
        return found


def leader_epochs(
    source: TopicConfig, partitions: Collection[TopicPartition]
) -> dict[TopicPartition, int]:
    """How often each partition has had a new leader; of those only that Kafka tells: before 2.1 it
    does not."""
    with suppress(KafkaException):
        ends = ends_of(source, partitions, EPOCH_SECONDS)
        return {
            partition: end.leader_epoch
            for partition, end in ends.items()
            if end.leader_epoch is not None and end.leader_epoch >= 0
        }
    return {}


class LogWatch:
    """Looks, while a task runs, whether the logs are still those that were read. A log is cut
    off only where its leader changes, so what was read is compared then: batch by batch, which
    takes seconds where these are small and many, and holds the task up."""

    def __init__(self, task: LoadTask, progress: Progress) -> None:
        self._task, self._progress = task, progress
        self._epochs = dict(progress.leader_epochs)
        self._passed = {
            partition: [Passed(partition, last, progress.next_offsets[partition])]
            for partition, last in progress.last.items()
            if partition in progress.next_offsets
        }
        self._under_way = dict[TopicPartition, int]()
        self._new = Counter[TopicPartition]()
        self._looked_at = monotonic()
        self.found: Refilled | None = None

    def look(self) -> Refilled | None:
        """What is wrong. Asks every LOG_LOOK_SECONDS, and only of partitions of which something was
        read since; again, where Kafka does not tell. Raises BusError."""
        is_something_new = self._progress.passed or self._new
        if not is_something_new or monotonic() - self._looked_at < LOG_LOOK_SECONDS:
            return None
        self._looked_at = monotonic()
        while self._progress.passed:
            one = self._progress.passed.popleft()
            self._passed.setdefault(one.partition, []).append(one)
            self._new[one.partition] += 1
        epochs = leader_epochs(self._task.source, self._new)
        self._under_way.update(
            (partition, UNDER_WAY)
            for partition, epoch in epochs.items()
            if epoch != self._epochs.get(partition)
        )
        self.found = self._compared(
            [self._passed[partition] for partition in epochs if self._under_way.get(partition)]
        )
        for partition in epochs:
            count, is_new_leader = (
                self._new.pop(partition),
                epochs[partition] != self._epochs.get(partition),
            )
            self._under_way[partition] = (
                UNDER_WAY if is_new_leader else max(0, self._under_way.get(partition, 0) - count)
            )
            del self._passed[partition][:-1]
        self._epochs |= epochs
        return self.found

    def _compared(self, passed: Iterable[Iterable[Passed]]) -> Refilled | None:
        """One record of each partition at a time, as a client reads a partition from one place
        only."""
        rounds = [[one for one in of_partitions if one] for of_partitions in zip_longest(*passed)]
        if not rounds:
            return None
        with TopicLogs(self._task) as logs:
            for some in rounds:
                if found := refilled(
                    logs,
                    {one.partition: one.last for one in some},
                    {one.partition: one.end for one in some},
                ):
                    return found
        return None
