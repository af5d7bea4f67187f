"""A partition's way into Kafka: one client, its transactions and what is too large for it.

A transaction commits a partition's records together with its offset: as the offset that the task's
group has committed of the partition. Its metadata is a text: the version that the position in
ZooKeeper had, the partition's epoch, and Details as JSON. The driver takes over all partitions for
a new epoch, and executors send only in the epoch that the driver gave them, from the offset that it
gave them. So an executor that was given up notices it, however late it begins.
"""

from __future__ import annotations

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
from cdcbus.plugins.transform.record_transform import Written

NO_PARTITION = TopicPartition("", 0)


class Made(NamedTuple):
    """What a source record became under one name."""

    # Of the source record.
    offset: int
    written: Written


class _Large(NamedTuple):
    """A record that may be too large."""

    # Of the record that it was made of.
    offset: int
    topic: str
    table: TableId
    size_bytes: int


class WithoutLarge(BusUnavailable):
    """The transaction begins again without the record that was too large for it."""


class Outlet(KafkaWriter[_Large]):
    """A partition's way into Kafka."""

    def __init__(
        self,
        config: PublishConfig,
        partition: TopicPartition,
        stop: Event,
        keeps_letters: bool = False,
        group: str = "",
        place: TopicPartition = NO_PARTITION,
    ) -> None:
        """`group` and `place`: of the offset that transactions keep."""
        super().__init__(config, stop)
        self._partition = partition
        self._keeps_letters = keeps_letters
        # By the offset of a source record, why Kafka refuses what it became: it is left out.
        self.too_large: dict[int, str] = {}
        # What was committed last, once the partition has been taken over.
        self.held: AppliedOffset | None = None
        self._transaction: Transaction | None = None
        if config.transactional_id:
            self._transaction = Transaction(self, config, group, *place)
        # Whether the partition has been taken over, and its transaction can go on.
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
        """Takes the partition over for a new epoch, and returns what was committed last."""
        self.take_over()
        if self._transaction and self.held:
            self._commit(replace(self.held, epoch=self.held.epoch + 1))
        return self.held

    def take(
        self, next_offset: int, position_version: int, last: Landmark | None = None
    ) -> AppliedOffset:
        """Makes the partition go on from there, whatever was committed."""
        if not self._is_mine:
            self.take_over()
        held = self.held
        if held and (held.next_offset, held.details.last) == (next_offset, last):
            return held
        return self._commit(self._offset(next_offset, position_version, last))

    def begin(self, seen: AppliedOffset | None) -> None:
        """To be called before something is sent. Raises OffsetConflict where the last commit is
        not the one that was seen."""
        if not self._is_mine:
            self.take_over()
        if self.held != seen:
            raise conflict(self._partition)

    def applied(self) -> AppliedOffset | None:
        """What was committed last."""
        if not self._transaction:
            return None
        offset, text = self._transaction.committed()
        position_version, _, rest = text.partition(" ")
        epoch, _, details = rest.partition(" ")
        # An empty or foreign text: somebody else has committed an offset for the group.
        if offset < 0 or not position_version.isdecimal():
            return None
        return AppliedOffset(
            *self._partition,
            offset,
            int(position_version),
            details=Details.from_json(details),
            epoch=int(epoch or 0),
        )

    def fenced(self) -> BusError:
        """An error that passes: this may be an executor that was given up before it began, which
        then notices it."""
        name = self._config.transactional_id
        return BusUnavailable(
            f"another process has taken over the Kafka transactions {name}: what it has committed "
            "is looked at"
        )

    def cluster(self) -> str:
        """The id of the brokers' cluster."""
        return str(self._metadata(self._config.topic, CONNECT_SECONDS).cluster_id)

    def partitions(self, topic: str) -> int:
        """How many partitions a topic has; a missing one is created where the task may do so."""
        self._topics.need([topic])
        return len(self._metadata(topic, CONNECT_SECONDS).topics[topic].partitions)

    def send(self, made: Sequence[Made]) -> None:
        """Returns once all records are acknowledged but those that are too large. Raises
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
        """All but what is known to be too large."""
        if not self.too_large:
            return made
        return [each for each in made if each.offset not in self.too_large]

    def dead_letters(self) -> list[DeadLetter]:
        """The letters of records that were too large."""
        return [
            DeadLetter(*self._partition, offset, reason)
            for offset, reason in self.too_large.items()
        ]

    def commit(
        self, end_offset: int, position_version: int, last: Landmark | None
    ) -> AppliedOffset | None:
        """Commits all that was sent; None without transactions. Raises BusRejected,
        BusUnavailable."""
        self.too_large.clear()
        if not self._transaction:
            return None
        return self._commit(self._offset(end_offset, position_version, last))

    def _offset(
        self, next_offset: int, position_version: int, last: Landmark | None
    ) -> AppliedOffset:
        """In the epoch that the partition has."""
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
    """The bytes of a record's value and headers: no other part may be large."""
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
