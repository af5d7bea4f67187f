"""Reports a Kafka that does not answer while executors read a batch: they wait for its records for
minutes, without a word."""

from __future__ import annotations

from contextlib import suppress
from time import monotonic

from confluent_kafka import KafkaException

from cdcbus.consumer.batch.progress import Progress
from cdcbus.consumer.config import LoadTask
from cdcbus.consumer.offsets.kafka_admin import ends_of
from cdcbus.plugins.positions import TopicPartition
from cdcbus.plugins.task_status import TaskStatus

PATIENCE_SECONDS = 30.0
ANSWER_SECONDS = 5.0


class SilentKafka:
    """Watches the batches of one query."""

    def __init__(self, task: LoadTask, progress: Progress, status: TaskStatus) -> None:
        self._task, self._progress, self._status = task, progress, status
        self._asked_at = 0.0
        # When the batch began for which it was told; 0 where Kafka answers.
        self._reported_batch = 0.0

    def look(self) -> None:
        """Asks Kafka once in PATIENCE_SECONDS, from then on that a batch has taken that long, and
        reports what it does not answer, and then that it does. Must be called about every
        second."""
        begun = self._progress.batch_since
        if begun != self._reported_batch:
            # That batch is over: its records have come, or its error tells why not.
            self._answered()
        if begun and monotonic() - max(begun, self._asked_at) >= PATIENCE_SECONDS:
            unanswered = self._unanswered()
            self._asked_at = monotonic()
            if not unanswered:
                self._answered()
            elif not self._reported_batch:
                self._reported_batch = begun
                self._status.waiting(
                    f"for Kafka at {self._task.source.servers}, which says nothing about "
                    f"{unanswered[0]}: executors wait for its records"
                )

    def _unanswered(self) -> list[TopicPartition]:
        partitions = self._progress.goals.keys()
        answered = set[TopicPartition]()
        with suppress(KafkaException):
            answered.update(ends_of(self._task.source, partitions, ANSWER_SECONDS))
        return sorted(partitions - answered)

    def _answered(self) -> None:
        if self._reported_batch:
            self._reported_batch = 0.0
            self._status.resumed("Kafka answers again")
