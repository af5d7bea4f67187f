"""Looks, while a task reads, whether its topics are still those that it began with, and whether
what they hold is what it gets."""

from __future__ import annotations

from collections.abc import Mapping
from time import monotonic

from confluent_kafka import KafkaException

from cdcbus.consumer.apply.watermark import is_beyond
from cdcbus.consumer.batch.progress import Progress
from cdcbus.consumer.config import LoadTask
from cdcbus.consumer.landmarks import LogWatch
from cdcbus.consumer.offsets.kafka_admin import ends_of
from cdcbus.consumer.offsets.start_offsets import Lane
from cdcbus.consumer.offsets.topic_identity import TopicIdentity
from cdcbus.plugins.errors import BusUnavailable, CdcError

STALL_SECONDS = 15.0
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
        if refilled := self.logs.look():
            return refilled.error(self._task)
        return self._stall.look()

    def new_lanes(self) -> list[Lane]:
        """Partitions that were added to topics of which the task reads all."""
        if self._task.source.partitions:
            return []
        return sorted(self._identity.lanes - self._progress.next_offsets.keys())


class _Stall:
    """A reader that gets nothing though Kafka has something, as one whose broker stands still."""

    def __init__(self, task: LoadTask, progress: Progress) -> None:
        self._task, self._progress = task, progress
        self._offsets: Mapping[Lane, int] = {}
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
        """Lanes that Kafka has more of, or says nothing of."""
        try:
            ends = ends_of(self._task.source, self._offsets, ANSWER_SECONDS)
        except KafkaException:
            ends = {}
        found = []
        for lane, offset in sorted(self._offsets.items()):
            end = ends.get(lane)
            if (end is None or end.offset > offset) and not is_beyond(self._task, offset):
                found.append(f"{lane[0]}[{lane[1]}] at offset {offset}")
        return found
