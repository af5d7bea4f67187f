"""Checks, while a task reads, that its topics are still the ones that it began with, and that it
receives what they hold."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from itertools import zip_longest
from threading import Event
from time import monotonic

from confluent_kafka import KafkaException

from cdcbus.consumer.apply.watermark import is_beyond
from cdcbus.consumer.batch.progress import Passed, Progress
from cdcbus.consumer.config import LoadTask, TopicConfig
from cdcbus.consumer.offsets.kafka_admin import ends_of
from cdcbus.consumer.offsets.landmarks import Refilled, refilled
from cdcbus.consumer.offsets.topic_identity import TopicIdentity
from cdcbus.consumer.offsets.topic_logs import TopicLogs
from cdcbus.plugins.contracts import Landmark
from cdcbus.plugins.errors import BusUnavailable, CdcError
from cdcbus.plugins.positions import TopicPartition
from cdcbus.plugins.task_status import State, TaskStatus

LOG = logging.getLogger(__name__)
LOG_LOOK_SECONDS = 1.0
EPOCH_SECONDS = 1.0
# The number of batches that can be read before a change of leader and applied after it: the one in
# progress, and those that the client has fetched ahead.
UNDER_WAY = 4
# The epoch of every leader before Kafka 2.1, as clients write it.
NO_EPOCH = -1
# The number of ends that are kept of a partition while Kafka does not answer about it.
MOST_ENDS = 10_000
STALL_SECONDS = 30.0
ANSWER_SECONDS = 10.0


class TopicWatch:
    """Watches the topics of one task. `look` must be called about every second."""

    def __init__(
        self,
        task: LoadTask,
        topic_ids: Mapping[str, str],
        progress: Progress,
        status: TaskStatus,
        stop: Event,
    ) -> None:
        self._task = task
        self._progress = progress
        self._identity = TopicIdentity(task, topic_ids)
        self.logs = LogWatch(task, progress, stop)
        self._stall = _Stall(task, progress, status)

    def look(self) -> CdcError | None:
        """Returns the error where something is wrong. Each check queries Kafka at its own interval.
        Raises BusError."""
        remade = self._identity.look()
        if remade:
            return remade
        found = self.logs.look()
        if found:
            return found.error(self._task)
        return self._stall.look()

    def new_partitions(self) -> list[TopicPartition]:
        """Partitions that were added to the task's topics; none if the task reads listed partitions
        only."""
        if self._task.source.partitions:
            return []
        return sorted(self._identity.partitions - self._progress.next_offsets.keys())


class _Stall:
    """Detects a partition of which nothing is received although Kafka holds records, as when its
    broker hangs. Each partition counts by itself: others can go on."""

    def __init__(self, task: LoadTask, progress: Progress, status: TaskStatus) -> None:
        self._task = task
        self._progress = progress
        self._status = status
        self._offsets: dict[TopicPartition, int] = {}
        # Of partitions about which Kafka does not answer while others are read, as reported.
        self._silent: dict[TopicPartition, int] = {}
        # When each partition last moved, and when Kafka was last queried.
        self._since: dict[TopicPartition, float] = {}
        self._looked_at = monotonic()
        # Partitions of which Kafka held more at the last look.
        self._suspects = frozenset[TopicPartition]()

    def look(self) -> BusUnavailable | None:
        """Returns the error where Kafka held more of a partition twice in a row, STALL_SECONDS
        apart, and nothing was received of it in between."""
        now = monotonic()
        self._note_moves(now)
        still = {
            partition: offset
            for partition, offset in self._offsets.items()
            if now - self._since[partition] >= STALL_SECONDS
        }
        asked = still.keys() | self._silent.keys()
        if not asked or now - self._looked_at < STALL_SECONDS:
            return None
        self._looked_at = now
        ends = self._ends(asked)
        self._note_answers(ends)
        behind = [partition for partition in sorted(still) if self._is_behind(partition, ends)]
        stalled = [partition for partition in behind if partition in self._suspects]
        self._suspects = frozenset(behind)
        if not stalled:
            return None
        first = stalled[0]
        error = BusUnavailable(
            f"Kafka at {self._task.source.servers} gives no records of {first} at offset "
            f"{still[first]}, although it has some, or does not answer, for {STALL_SECONDS:g} s"
        )
        can_go_on = ends or len(still) < len(self._offsets)
        if ends.keys().isdisjoint(stalled) and can_go_on:
            # A new attempt needs an answer about each partition: as long as Kafka gives none about
            # these, as without a leader, only the others would stop. Others that have no new
            # records just now count, too, where Kafka answers about them.
            # Also again: what waits in the other gear may have said that it goes on.
            if not self._silent or self._status.now[0] is State.WORKING:
                self._status.waiting(
                    f"for Kafka at {self._task.source.servers}, which gives no records of {first} "
                    f"at offset {still[first]} and does not answer; other partitions are read"
                )
            self._silent |= {partition: still[partition] for partition in stalled}
            return None
        return error

    def _note_answers(self, ends: Collection[TopicPartition]) -> None:
        """Reports that Kafka answers again about all partitions, or has given their records."""
        if not self._silent:
            return
        for partition, offset in list(self._silent.items()):
            if partition in ends or self._offsets.get(partition) != offset:
                del self._silent[partition]
        if not self._silent:
            self._status.resumed("Kafka answers again about all partitions")

    def _note_moves(self, now: float) -> None:
        offsets = self._progress.next_offsets
        moved = set()
        for partition, offset in offsets.items():
            # Records that wait for another partition are received again and again, at the same
            # offset. A batch in progress can be any partition's.
            is_received = self._progress.batch_since or partition in self._progress.received
            if is_received or self._offsets.get(partition) != offset:
                moved.add(partition)
        self._progress.received.clear()
        self._offsets = dict(offsets)
        self._since.update(dict.fromkeys(moved, now))
        self._suspects -= moved

    def _ends(self, still: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Where partitions end; those about which Kafka does not answer are missing."""
        with suppress(KafkaException):
            found = ends_of(self._task.source, still, ANSWER_SECONDS)
            return {partition: end.offset for partition, end in found.items()}
        return {}

    def _is_behind(self, partition: TopicPartition, ends: Mapping[TopicPartition, int]) -> bool:
        """Whether Kafka holds more of a partition, or does not say."""
        offset = self._offsets[partition]
        is_end = partition in ends and ends[partition] <= offset
        return not is_end and not is_beyond(self._task, offset)


def leader_epochs(
    source: TopicConfig, partitions: Collection[TopicPartition]
) -> dict[TopicPartition, int]:
    """The leader epoch of each partition, NO_EPOCH from a broker that has none. Partitions about
    which Kafka does not answer are missing."""
    found: dict[TopicPartition, int] = {}
    with suppress(KafkaException):
        for partition, end in ends_of(source, partitions, EPOCH_SECONDS).items():
            found[partition] = NO_EPOCH if end.leader_epoch is None else end.leader_epoch
    return found


class LogWatch:
    """Checks, while a task runs, that the logs are still the ones that were read. A log is cut off
    only when its leader changes, so the ends of batches are compared only then, one by one: with
    many small batches that takes seconds and delays the task."""

    def __init__(self, task: LoadTask, progress: Progress, stop: Event) -> None:
        self._task = task
        self._stop = stop
        self._progress = progress
        self._epochs = dict(progress.leader_epochs)
        # Where batches of each partition have ended since its last comparison, and the last end
        # before that.
        self._passed: dict[TopicPartition, list[Passed]] = {}
        for partition, last in progress.last.items():
            if partition in progress.next_offsets:
                end = progress.next_offsets[partition]
                self._passed[partition] = [Passed(partition, last, end)]
        # Partitions with a new leader -> how many more of their batches are compared.
        self._under_way: dict[TopicPartition, int] = {}
        # How many ends of each partition the last look has not covered.
        self._new = Counter[TopicPartition]()
        self._looked_at = monotonic()
        self.found: Refilled | None = None

    def look(self) -> Refilled | None:
        """Returns a log that was filled again. Queries Kafka at most once in LOG_LOOK_SECONDS, and
        only about partitions read since; about a partition without an answer, again. Raises
        BusError."""
        is_something_new = self._progress.passed or self._new
        if not is_something_new or monotonic() - self._looked_at < LOG_LOOK_SECONDS:
            return None
        self._looked_at = monotonic()
        while self._progress.passed:
            passed = self._progress.passed.popleft()
            ends = self._passed.setdefault(passed.partition, [])
            ends.append(passed)
            if len(ends) > MOST_ENDS:
                del ends[1:-1:2]  # every second: the older, the fewer
            self._new[passed.partition] += 1
        epochs = leader_epochs(self._task.source, self._new)
        compared: list[list[Passed]] = []
        for partition, epoch in epochs.items():
            is_new_leader = epoch != self._epochs.get(partition)
            if is_new_leader or self._under_way.get(partition):
                compared.append(self._passed[partition])
        self.found = self._compared(compared)
        # Only now, so that a comparison that fails is repeated as a whole.
        for partition, epoch in epochs.items():
            self._settle(partition, epoch)
        self._epochs |= epochs
        return self.found

    def _settle(self, partition: TopicPartition, epoch: int) -> None:
        """Drops the partition's ends, which have been compared or need not be, except the last,
        which the next comparison needs."""
        count = self._new.pop(partition)
        if epoch != self._epochs.get(partition):
            self._under_way[partition] = UNDER_WAY
        else:
            self._under_way[partition] = max(0, self._under_way.get(partition, 0) - count)
        del self._passed[partition][:-1]

    def _compared(self, passed: Iterable[Iterable[Passed]]) -> Refilled | None:
        """Returns the first difference. Compares one record of each partition at a time, as a
        client reads a partition from one offset only."""
        rounds = list(zip_longest(*passed))
        if not rounds:
            return None
        with TopicLogs(self._task, stop=self._stop) as logs:
            for of_partitions in rounds:
                last: dict[TopicPartition, Landmark] = {}
                ends: dict[TopicPartition, int] = {}
                for one in of_partitions:
                    # None: this partition has fewer of them.
                    if one is not None:
                        last[one.partition] = one.last
                        ends[one.partition] = one.end
                found = refilled(logs, last, ends)
                if found:
                    return found
        return None
