"""Sends a partition to Kafka: one client, its transactions, and records that are too large for it.

A transaction commits a partition's records together with its offset, as the partition's committed
offset of the task's group. The metadata of that is a text: the version that the position in
ZooKeeper had, the partition's epoch, and Details as JSON. The driver takes over all partitions for
a new epoch, and executors send only in the epoch and from the offset that the driver gave them. So
an executor that was presumed lost notices it, however late it begins.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from threading import Event
from typing import NamedTuple

from cdcbus.consumer.records.dead_letters import DeadLetter
from cdcbus.plugins.contracts import AppliedOffset, Details, Landmark
from cdcbus.plugins.errors import (
    BusError,
    BusRejected,
    BusUnavailable,
    OffsetConflict,
)
from cdcbus.plugins.kafka.config import PublishConfig
from cdcbus.plugins.kafka.producer import CONNECT_SECONDS, LARGE_REMEDY, KafkaWriter
from cdcbus.plugins.kafka.record_key import Record
from cdcbus.plugins.kafka.transactions import Transaction
from cdcbus.plugins.positions import TopicPartition
from cdcbus.plugins.rowchange import TableId
from cdcbus.plugins.task_status import TaskStatus
from cdcbus.plugins.transform.record_transform import Written

NO_PARTITION = TopicPartition("", 0)
_COMMITTED = re.compile(r"(\d+)(?: (\d+)(?: (\{.*\}))?)?")


class Made(NamedTuple):
    """Records made of a source record under one target name."""

    # The source record's offset.
    offset: int
    written: Written


class _Large(NamedTuple):
    """A record that can be too large."""

    # The offset of the source record.
    offset: int
    topic: str
    table: TableId
    size_bytes: int


class WithoutLarge(BusUnavailable):
    """The transaction begins again without the record that was too large for it."""


class Outlet(KafkaWriter[_Large]):
    """Sends one partition to Kafka. Not thread-safe."""

    def __init__(
        self,
        config: PublishConfig,
        partition: TopicPartition,
        stop: Event,
        keeps_letters: bool = False,
        group: str = "",
        place: TopicPartition = NO_PARTITION,
        status: TaskStatus | None = None,
    ) -> None:
        """`group` and `place`: the group and partition of the offset that transactions commit.
        `status` is told while Kafka acknowledges nothing."""
        super().__init__(config, stop, status=status)
        self._partition = partition
        self._keeps_letters = keeps_letters
        # The offset of a source record -> why Kafka refuses the records made of it; these are left
        # out.
        self.too_large: dict[int, str] = {}
        # The last commit, once the partition has been taken over.
        self.held: AppliedOffset | None = None
        self._transaction: Transaction | None = None
        if config.transactional_id:
            self._transaction = Transaction(self, config, group, *place)
        # Whether the partition has been taken over, and its transaction can continue.
        self._is_mine = False

    def __exit__(self, *_: object) -> None:
        """Ends the client's threads immediately, not when garbage is collected."""
        super().__exit__()
        del self.client, self._transaction

    def take_over(self) -> None:
        """Fences the partition's earlier holder, see Transaction. Without transactions there is
        none."""
        if self._transaction:
            self._transaction.take_over()
            self.held = self.applied()
        self._is_mine = True

    def begin_epoch(self) -> AppliedOffset | None:
        """Takes the partition over for a new epoch, and returns the last commit."""
        self.take_over()
        if self._transaction and self.held:
            self._commit(replace(self.held, epoch=self.held.epoch + 1))
        return self.held

    def take(
        self, next_offset: int, position_version: int, last: Landmark | None = None
    ) -> AppliedOffset:
        """Makes the partition resume at this offset, whatever was committed."""
        if not self._is_mine:
            self.take_over()
        held = self.held
        if held and (held.next_offset, held.details.last) == (next_offset, last):
            return held
        return self._commit(self._offset(next_offset, position_version, last))

    def begin(self, seen: AppliedOffset | None) -> None:
        """Must be called before records are sent. Raises OffsetConflict where the last commit is
        not the one in `seen`."""
        if not self._is_mine:
            self.take_over()
        if self.held != seen:
            raise conflict(self._partition)

    def applied(self) -> AppliedOffset | None:
        """The last commit; None without one, or without transactions. Raises PositionUnusable for
        that of a task of another kind."""
        if not self._transaction:
            return None
        offset, text = self._transaction.committed()
        # As of an operator's tool, which has set the offset of the group.
        if offset < 0 or not text[:1].isdecimal():
            return None
        found = _COMMITTED.fullmatch(text)
        if found is None:
            raise self._transaction.foreign("a task from Kafka to Kafka")
        position_version, epoch, details = found.groups()
        return AppliedOffset(
            *self._partition,
            offset,
            int(position_version),
            details=Details.from_json(details),
            epoch=int(epoch or 0),
        )

    def fenced(self) -> BusError:
        """The error for a fenced client, one that is retried: this may be an executor that was
        presumed lost before it began, which then notices it."""
        name = self._config.transactional_id
        return BusUnavailable(
            f"another process has taken over the Kafka transactions {name}: its commits are read "
            "next"
        )

    def cluster(self) -> str:
        """The id of the brokers' cluster."""
        return str(self._metadata(self._config.topic, CONNECT_SECONDS).cluster_id)

    def partitions(self, topic: str) -> int:
        """The number of a topic's partitions; a missing topic is created where the task allows
        that."""
        return self._topics.partitions(topic)

    def send(self, made: Sequence[Made]) -> None:
        """Sends records; returns once all are acknowledged except those that are too large. Raises
        BusRejected, BusUnavailable."""
        waiting: dict[str, list[Record]] = {}
        for offset, (topic, table, _, records) in made:
            for record in records:
                size_bytes = size_of(record)
                if size_bytes > self._batch_bytes:
                    self._watch(record, _Large(offset, topic, table, size_bytes))
            waiting.setdefault(topic, []).extend(records)
        self._topics.need(waiting)
        for topic, records in waiting.items():
            self._produce(topic, records)
        self.flush()

    def without_large(self, made: Sequence[Made]) -> Sequence[Made]:
        """All records except those known to be too large."""
        if not self.too_large:
            return made
        return [each for each in made if each.offset not in self.too_large]

    def dead_letters(self) -> list[DeadLetter]:
        """The letters of records that were too large."""
        letters: list[DeadLetter] = []
        for offset, reason in self.too_large.items():
            letters.append(DeadLetter(*self._partition, offset, reason))
        return letters

    def commit(
        self, end_offset: int, position_version: int, last: Landmark | None
    ) -> AppliedOffset | None:
        """Commits everything sent; returns None without transactions. Raises BusRejected,
        BusUnavailable."""
        self.too_large.clear()
        if not self._transaction:
            return None
        return self._commit(self._offset(end_offset, position_version, last))

    def _offset(
        self, next_offset: int, position_version: int, last: Landmark | None
    ) -> AppliedOffset:
        """An offset of the partition, in its present epoch."""
        return AppliedOffset(
            *self._partition,
            next_offset,
            position_version,
            epoch=epoch_of(self.held),
            details=Details(last=last),
        )

    def _commit(self, done: AppliedOffset) -> AppliedOffset:
        assert self._transaction
        text = f"{done.position_version} {done.epoch}"
        if done.details.last:
            text += f" {done.details.to_json()}"
        self._transaction.commit(done.next_offset, text)
        self.held = done
        return done

    def _on_too_large(self, refused: _Large) -> None:
        what = f"table {refused.table}, made of record {self._partition}@{refused.offset}"
        sentence = self._refusal(refused.topic, refused.size_bytes, what)
        if not self._keeps_letters:
            self._failure = BusRejected(f"{sentence}; {LARGE_REMEDY}")
            return
        self.too_large[refused.offset] = sentence
        if self._transaction:
            self._is_mine = False
            self._failure = WithoutLarge(f"{sentence}; its transaction begins again without it")


def size_of(record: Record) -> int:
    """The size in bytes of a record's value and headers; no other part can be large."""
    size: int = len(record["value"])
    headers = record.get("headers") or ()
    if isinstance(headers, dict):
        headers = headers.items()
    for name, value in headers:
        size += len(name) + len(value or b"")
    return size


def epoch_of(held: AppliedOffset | None) -> int:
    return held.epoch if held else 0


def conflict(partition: TopicPartition) -> OffsetConflict:
    return OffsetConflict(
        f"somebody else has sent records of {partition} meanwhile: positions are read again"
    )
