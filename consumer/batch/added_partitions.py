"""When partitions that were added to the topics of a running task are read."""

from __future__ import annotations

import logging
from time import monotonic

from cdcbus.consumer.batch.progress import Progress
from cdcbus.consumer.batch.topic_watch import TopicWatch
from cdcbus.consumer.config import LoadTask
from cdcbus.consumer.offsets.kafka_admin import bounds_of
from cdcbus.plugins.errors import BusUnavailable
from cdcbus.plugins.kafka.config import PublishConfig
from cdcbus.plugins.positions import TopicPartition

LOG = logging.getLogger(__name__)
ANSWER_SECONDS = 10.0
PAUSE_SECONDS = 30.0


class AddedPartitions:
    """Partitions that were added to a task's topics. A database keeps versions of rows, so its task
    reads them at once. A task that sends records on has nothing to tell the older of two changes
    by: it reads an added partition once it has read all that the others held when there were
    records in that one, as a writer that uses it has sent its earlier records before; one after
    the other, as a topic may have grown twice."""

    def __init__(self, task: LoadTask, watch: TopicWatch, progress: Progress) -> None:
        self._task, self._watch, self._progress = task, watch, progress
        # The first offsets of those that are read next, and where the others must be by then.
        self._next: dict[TopicPartition, int] = {}
        self._ends: dict[TopicPartition, int] = {}
        self._look_at = 0.0

    def due(self) -> dict[TopicPartition, int]:
        """Those that are to be read from now on -> their first offsets. Must be called about every
        second; where Kafka does not answer for them, it is asked again later."""
        new = self._watch.new_partitions()
        if not isinstance(self._task.target, PublishConfig):
            return dict.fromkeys(new, 0)
        reached = self._progress.next_offsets
        if self._next:
            if any(reached.get(partition, 0) < end for partition, end in self._ends.items()):
                return {}
            due, self._next = self._next, {}
            return due
        if new and monotonic() >= self._look_at:
            try:
                self._look(new)
            except BusUnavailable as error:
                # As one that has no leader: the others are read on.
                self._next = {}
                self._look_at = monotonic() + PAUSE_SECONDS
                LOG.warning(
                    "task %s: %s added and not read yet: %s",
                    self._task.task_id,
                    ", ".join(map(str, new)),
                    error,
                )
        return {}

    def _look(self, new: list[TopicPartition]) -> None:
        source = self._task.source
        taken = set[str]()
        for partition, (first, end) in sorted(bounds_of(source, new, ANSWER_SECONDS).items()):
            # One of each topic: a row can have come to a second one later, from the first.
            if not end or partition.topic in taken:
                continue
            taken.add(partition.topic)
            self._next[partition] = first
            if first:
                LOG.warning(
                    "task %s: %s was added, and holds nothing before offset %d any more; what "
                    "came before that was never read",
                    self._task.task_id,
                    partition,
                    first,
                )
        if not self._next:
            return
        # After that, so that whatever was sent before their first records is before these ends.
        known = list(self._progress.next_offsets)
        bounds = bounds_of(source, known, ANSWER_SECONDS)
        self._ends = {partition: end for partition, (_, end) in bounds.items()}
        LOG.info(
            "task %s: %s added; read once the others are read up to their present ends",
            self._task.task_id,
            ", ".join(map(str, sorted(self._next))),
        )
