"""One micro-batch into other Kafka topics: each Kafka partition is sent on in order, and
acknowledged before its offset counts.

In transactions a partition's records and its offset are committed together. The offset is what the
task's group has committed of the partition, beside the version that the position in ZooKeeper had
then: a start goes on from it unless somebody has set that position. The number behind it is the
partition's epoch: the driver takes over all partitions for a new one, and executors send only in
the epoch that they were told of, from where they were told. So one that was given up long ago finds
that it is, whenever it begins. Then follow Details.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cached_property, partial
from threading import Event, Lock
from time import perf_counter
from typing import NamedTuple

from cdcbus.consumer.config import LoadTask
from cdcbus.consumer.offsets.topic_logs import TopicLogs, partitions_of
from cdcbus.consumer.records.batch_report import BatchReport
from cdcbus.consumer.records.dead_letters import DeadLetter
from cdcbus.consumer.records.records import Header, Records
from cdcbus.consumer.transform.change_filter import ChangeFilter
from cdcbus.plugins.contracts import AppliedOffset, Converter, Counts, Details, Landmark
from cdcbus.plugins.errors import (
    BusError,
    BusRejected,
    BusUnavailable,
    ConfigError,
    DataError,
    OffsetConflict,
    UnreadableEvent,
)
from cdcbus.plugins.kafka.config import PublishConfig
from cdcbus.plugins.kafka.producer import CONNECT_SECONDS, LARGE_REMEDY, KafkaWriter
from cdcbus.plugins.kafka.record_key import Record
from cdcbus.plugins.kafka.topics import named_topics
from cdcbus.plugins.kafka.transactions import Transaction
from cdcbus.plugins.positions import TopicPartition
from cdcbus.plugins.rowchange import Op, TableId
from cdcbus.plugins.transform.mapper import Mapper
from cdcbus.plugins.transform.processor import Processor
from cdcbus.plugins.transform.record_transform import RecordTransform, Written

LOG = logging.getLogger(__name__)
PARTITIONS_AT_ONCE = 16
NO_PARTITION = TopicPartition("", 0)
OURS = "cdcbus"
"""How headers begin that tell of the record that is read, its key and its dead letter: they are
not carried on."""

_Made = tuple[int, Written]  # from the record of which offset, what


class _Large(NamedTuple):
    """A record that may be too large, and of which record it was made."""

    offset: int
    topic: str
    table: TableId
    size_bytes: int


class _WithoutLarge(BusUnavailable):
    """The transaction is to be begun anew without the record that was too large for it."""


class Forwarder:
    """Sends partitions on. Thread-safe: partitions may be sent side by side, each by a client of
    its own. A partition is one process's at a time."""

    is_dry_run = False
    keeps_offsets = False
    """Kafka forgets what was committed after offsets.retention.minutes: that it has nothing says
    nothing."""
    partitions_at_once = PARTITIONS_AT_ONCE

    def __init__(
        self,
        task: LoadTask,
        config: PublishConfig,
        converter: Converter,
        process: Processor | None,
        put_dead_letters: Callable[[Sequence[DeadLetter]], None] | None,
        stop: Event,
    ) -> None:
        """`put_dead_letters` returns when they are durable; None: whatever cannot be sent is
        raised. Brokers are waited for until `stop` is set."""
        self._task, self._config, self._stop = task, config, stop
        self._put_dead_letters = put_dead_letters
        self._wanted = ChangeFilter(task, converter, process)
        self._transform = RecordTransform(
            Mapper(task.rules, task.named_tables, task.excludes), config
        )
        self._outlets: dict[TopicPartition, _Outlet] = {}
        self._opening = Lock()
        self.seen: dict[TopicPartition, AppliedOffset] = {}
        """What was committed last, as far as it is known: of a partition where it is something else
        nothing is sent."""

    def check_targets(self) -> None:
        """Raises BusUnavailable when no broker answers, BusRejected when a topic that the task
        file names is not there, ConfigError when the task reads one of them."""
        self.check_circle(named_topics(self._config))
        with self._looking_outlet():
            pass

    def check_circle(self, topics: Iterable[str]) -> None:
        """Raises ConfigError when the task would read what it writes to these topics."""
        read = sorted({*topics} & {*self._task.source.topics})
        if read and self._is_same_cluster:
            raise ConfigError(
                f"topic {read[0]} is both read and written, so records would go round for ever: "
                "name another to write to"
            )

    def applied_offsets(self) -> list[AppliedOffset]:
        """How far each partition has been committed; empty without transactions. What was sent and
        is not committed is undone, and whoever has run the task before cannot commit any more.
        Raises BusError."""
        if not self._config.transactional_id:
            for outlet in self._outlets.values():
                outlet.start()
            return []
        found = self._offsets(_Outlet.begin_epoch)
        self.seen = {offset.topic_partition: offset for offset in found}
        return found

    def committed_offsets(self) -> list[AppliedOffset]:
        """The same, and changes nothing."""
        return self._offsets(_Outlet.applied) if self._config.transactional_id else []

    def take_over(self, offsets: Sequence[AppliedOffset]) -> None:
        """Commits where partitions go on, unless that is what was committed: else a start after a
        kill would go on from what an edit has replaced. `applied_offsets` has begun a new epoch."""
        if not self._config.transactional_id:
            return

        def take(offset: AppliedOffset) -> None:
            partition = offset.topic_partition
            self.seen[partition] = self._outlet(partition).take(
                offset.next_offset, offset.position_version, offset.details.last
            )

        with ThreadPoolExecutor(PARTITIONS_AT_ONCE) as pool:
            list(pool.map(take, offsets))

    def begin(self, partition: TopicPartition, seen: AppliedOffset | None) -> None:
        """Takes over a partition of the driver's, and looks how far it has been committed
        meanwhile. Raises OffsetConflict where a later epoch has begun, BusError."""
        if self._config.transactional_id:
            outlet = self._outlet(partition)
            outlet.take_over()
            if _epoch(outlet.held) != _epoch(seen):
                raise _conflict(partition)
            self.seen = {partition: outlet.held} if outlet.held else {}

    def scatter(self, _reason: str) -> None:
        """Each record says where its row's change is in the source's order, so whoever reads
        them can tell."""

    def forget_versions(self, _before_ms: int) -> None:
        """None are kept."""

    def let_go(self) -> None:
        """Keeps no partition, so that other processes can have them."""
        self.close()

    def _offsets(self, look: Callable[[_Outlet], AppliedOffset | None]) -> list[AppliedOffset]:
        with TopicLogs(self._task) as logs:
            partitions = [
                partition
                for topic in self._task.source.topics
                for partition in partitions_of(self._task, logs, topic)
            ]
        with ThreadPoolExecutor(PARTITIONS_AT_ONCE) as pool:
            return [
                offset
                for offset in pool.map(lambda partition: look(self._outlet(partition)), partitions)
                if offset
            ]

    def prepare(
        self, partition: TopicPartition, records: Records
    ) -> Callable[[int, int, int, bool], BatchReport]:
        """Nothing comes before the sending."""
        return partial(self.apply, partition, records)

    def apply_together(
        self, _partitions: Sequence[tuple[TopicPartition, Records, int, int]]
    ) -> dict[TopicPartition, tuple[int, BatchReport]]:
        """Never needed."""
        return {}

    def apply(
        self,
        partition: TopicPartition,
        records: Records,
        end_offset: int,
        position_version: int,
        _low_watermark: int = 0,
        _is_hasty: bool = False,
    ) -> BatchReport:
        """Returns once all is acknowledged, and dead letters are put; no partition waits for
        another. In transactions everything or nothing becomes visible.

        Raises DataError, naming the record, unless it becomes a dead letter; OffsetConflict when
        somebody else has sent records of the partition since `seen` was; BusRejected,
        BusUnavailable, ConfigError.
        """
        report, dead_letters = BatchReport(records=len(records)), list[DeadLetter]()
        if not records:
            return report
        started = perf_counter()
        outlet = self._outlet(partition)
        made = list(self._made(partition, records, outlet, report, dead_letters))
        self.check_circle({written.topic for _, written in made})
        decoded = perf_counter()
        self._send(outlet, self.seen.get(partition), made)
        dead_letters += outlet.dead_letters()
        if dead_letters and self._put_dead_letters:
            self._put_dead_letters(dead_letters)  # before the offset moves past them
        applied = perf_counter()
        _count(report, [one for one in made if one[0] not in outlet.too_large])
        last = records.last_before(end_offset)
        # else it does no harm to read the records again
        if (made or dead_letters) and (done := outlet.commit(end_offset, position_version, last)):
            self.seen[partition] = done
        report.decode_ms, report.apply_ms = (decoded - started) * 1000, (applied - decoded) * 1000
        report.commit_ms = (perf_counter() - applied) * 1000
        return report

    def close(self) -> None:
        """Of all clients. May be called twice."""
        while self._outlets:
            _, outlet = self._outlets.popitem()
            outlet.__exit__()

    # Records to records

    def _made(
        self,
        partition: TopicPartition,
        records: Records,
        outlet: _Outlet,
        report: BatchReport,
        dead_letters: list[DeadLetter],
    ) -> Iterator[_Made]:
        times = records.times.to_pylist()
        each = zip(records, records.header_lists(), times, strict=True)
        for (offset, value), headers, came_ms in each:
            if value is None:
                continue
            carried = [header for header in headers if not header[0].startswith(OURS)]
            try:
                # all of it or nothing
                yield from list(self._made_of(offset, value, carried, outlet, report, came_ms or 0))
            except (DataError, UnreadableEvent) as error:
                if self._put_dead_letters is None:
                    raise type(error)(f"record {partition}@{offset}: {error}") from error
                dead_letters.append(DeadLetter(*partition, offset, str(error)))
                report.unread += 1

    def _made_of(
        self,
        offset: int,
        value: bytes,
        carried: list[Header],
        outlet: _Outlet,
        report: BatchReport,
        came_ms: int,
    ) -> Iterator[_Made]:
        for change in self._wanted.changes(value, report, came_ms):
            for written in self._transform.records(change):
                if written.op is Op.TRUNCATE and outlet.partitions(written.topic) > 1:
                    raise DataError(_truncate_refused(change.table.id, written.topic))
                for record in written.records if carried else ():
                    record["headers"] = [*carried, *record.get("headers", {}).items()]
                yield offset, written

    # Partitions to Kafka

    def _send(self, outlet: _Outlet, seen: AppliedOffset | None, made: Sequence[_Made]) -> None:
        while True:
            outlet.begin(seen)
            try:
                return outlet.send([one for one in made if one[0] not in outlet.too_large])
            except _WithoutLarge as error:
                LOG.info("task %s: %s", self._task.task_id, error)

    def _outlet(self, partition: TopicPartition) -> _Outlet:
        with self._opening:
            if partition not in self._outlets:
                self._outlets[partition] = self._new_outlet(partition).__enter__()
            return self._outlets[partition]

    def _new_outlet(self, partition: TopicPartition) -> _Outlet:
        name, keeps_letters = self._config.transactional_id, self._put_dead_letters is not None
        if not name:
            return _Outlet(self._config, partition, self._stop, keeps_letters)
        config = replace(
            self._config, transactional_id=f"{name}-{partition.topic}-{partition.partition}"
        )
        # Only the cluster that is read from has the partition, and can keep an offset of it; any
        # other one keeps the offset at partition 0 of the target's topic, in a group for each.
        group, place = (
            (name, partition)
            if self._is_same_cluster
            else (config.transactional_id, TopicPartition(config.topic, 0))
        )
        return _Outlet(config, partition, self._stop, keeps_letters, group, place)

    @cached_property
    def _is_same_cluster(self) -> bool:
        with TopicLogs(self._task) as logs:
            return logs.cluster() == self._looking_outlet().cluster()

    def _looking_outlet(self) -> _Outlet:
        return _Outlet(replace(self._config, transactional_id=""), NO_PARTITION, self._stop)


class _Outlet(KafkaWriter[_Large]):
    """A partition's way into Kafka. `held`: what was committed last, once the partition has been
    taken over. `too_large`: the offsets of records that are left out, as what they become is not
    taken, and why."""

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
        self._partition, self._keeps_letters = partition, keeps_letters
        self.too_large: dict[int, str] = {}
        self.held: AppliedOffset | None = None
        self._transaction = (
            Transaction(self, config, group, *place) if config.transactional_id else None
        )
        self._is_mine = False

    def __exit__(self, *_: object) -> None:
        """Its threads end at once, not when garbage is collected."""
        super().__exit__()
        del self.client, self._transaction

    def take_over(self) -> None:
        """See Transaction."""
        if self._transaction:
            self._transaction.take_over()
            self.held = self.applied()
        self._is_mine = True

    def begin_epoch(self) -> AppliedOffset | None:
        """Takes the partition over for a new epoch, and tells what was committed last."""
        self.take_over()
        if self._transaction and (held := self.held):
            self._commit(replace(held, epoch=held.epoch + 1))
        return self.held

    def take(
        self, next_offset: int, position_version: int, last: Landmark | None = None
    ) -> AppliedOffset:
        """The partition goes on from there, whatever was committed."""
        if not self._is_mine:
            self.take_over()
        held = self.held
        if held and (held.next_offset, held.details.last) == (next_offset, last):
            return held
        return self._commit(
            AppliedOffset(
                *self._partition,
                next_offset,
                position_version,
                details=Details(last=last),
                epoch=_epoch(held),
            )
        )

    def begin(self, seen: AppliedOffset | None) -> None:
        """Before something is sent. Raises OffsetConflict where something else was committed
        than was seen."""
        if not self._is_mine:
            self.take_over()
        if self.held != seen:
            raise _conflict(self._partition)

    def applied(self) -> AppliedOffset | None:
        """What was committed last."""
        offset, text = self._transaction.committed() if self._transaction else (-1, "")
        position_version, epoch, details, *_ = [*text.split(" ", 2), "", ""]
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
        """That passes: it may have been an executor that began when it was given up already, and
        then finds that it was."""
        name = self._config.transactional_id
        return BusUnavailable(
            f"another process has taken over the Kafka transactions {name}: what it has committed "
            "is looked at"
        )

    def cluster(self) -> str:
        """The id of the brokers' cluster."""
        return str(self._metadata(self._config.topic, CONNECT_SECONDS).cluster_id)

    def partitions(self, topic: str) -> int:
        """How many a topic has, which is made where it is missing and may be made."""
        self._topics.need([topic])
        return len(self._metadata(topic, CONNECT_SECONDS).topics[topic].partitions)

    def send(self, made: Sequence[_Made]) -> None:
        """Returns once all is acknowledged but what is too large. Raises BusRejected,
        BusUnavailable."""
        waiting: dict[str, list[Record]] = {}
        for offset, (topic, table, _, records) in made:
            for record in records:
                if (size_bytes := _size_bytes(record)) > self._batch_bytes:
                    self._watch(record, _Large(offset, topic, table, size_bytes))
            waiting.setdefault(topic, []).extend(records)
        self._topics.need(waiting)
        for topic, records in waiting.items():
            self._produce(topic, records)
        self.flush()

    def dead_letters(self) -> list[DeadLetter]:
        """Of the records that were too large."""
        return [
            DeadLetter(*self._partition, offset, reason)
            for offset, reason in self.too_large.items()
        ]

    def commit(
        self, end_offset: int, position_version: int, last: Landmark | None
    ) -> AppliedOffset | None:
        """Of all that was sent; None without transactions. Raises BusRejected, BusUnavailable."""
        self.too_large.clear()
        if not self._transaction:
            return None
        return self._commit(
            AppliedOffset(
                *self._partition,
                end_offset,
                position_version,
                details=Details(last=last),
                epoch=_epoch(self.held),
            )
        )

    def _commit(self, done: AppliedOffset) -> AppliedOffset:
        assert self._transaction
        details = f" {done.details.to_json()}" if done.details.last else ""
        self._transaction.commit(done.next_offset, f"{done.position_version} {done.epoch}{details}")
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
            self._failure = _WithoutLarge(f"{sentence}; its transaction begins again without it")


def _size_bytes(record: Record) -> int:
    """Of what may be large of a record."""
    size = len(record["value"])
    if headers := record.get("headers"):
        size += sum(
            len(name) + len(value or b"")
            for name, value in (headers.items() if isinstance(headers, dict) else headers)
        )
    return size


def _epoch(held: AppliedOffset | None) -> int:
    return held.epoch if held else 0


def _conflict(partition: TopicPartition) -> OffsetConflict:
    return OffsetConflict(
        f"somebody else has sent records of {partition} meanwhile: positions are read again"
    )


def _count(report: BatchReport, made: Sequence[_Made]) -> None:
    ops: dict[TableId, Counter[Op]] = {}
    for _, written in made:
        ops.setdefault(written.table, Counter())[written.op] += 1
    for table, counted in ops.items():
        report.table(table).add_ops(counted, Counts())


def _truncate_refused(table: TableId, topic: str) -> str:
    return (
        f"TRUNCATE of {table}: rows are spread over the partitions of topic {topic}, and no order "
        "holds between them; empty the table at "
        "the targets, then set the position behind the record; a topic with one partition carries "
        "it"
    )
