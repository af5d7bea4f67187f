"""Forwards a micro-batch to other Kafka topics: each Kafka partition is sent in order, and
acknowledged before its offset counts.

In transactions a partition's records and its offset are committed together, see `outlet`. A start
resumes from that offset unless an operator has set the position in ZooKeeper.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from functools import cached_property, partial
from threading import Event, Lock
from time import perf_counter

from cdcbus.consumer.config import LoadTask
from cdcbus.consumer.forward.outlet import (
    NO_PARTITION,
    Made,
    Outlet,
    WithoutLarge,
    conflict,
    epoch_of,
)
from cdcbus.consumer.offsets.held import by_partition
from cdcbus.consumer.offsets.moves import ReadFirst, begins_anew, no_records
from cdcbus.consumer.offsets.topic_logs import TopicLogs, partitions_read
from cdcbus.consumer.records.arrival_clock import ArrivalClock
from cdcbus.consumer.records.batch_report import BatchReport, WritePrepared
from cdcbus.consumer.records.dead_letters import DeadLetter
from cdcbus.consumer.records.late import KnownEpochs
from cdcbus.consumer.records.records import Header, PartitionPart, Records
from cdcbus.consumer.transform.change_filter import ChangeFilter
from cdcbus.plugins.contracts import AppliedOffset, Converter, Counts
from cdcbus.plugins.errors import (
    ConfigError,
    DataError,
    UnreadableEvent,
)
from cdcbus.plugins.kafka.config import PublishConfig
from cdcbus.plugins.kafka.topics import named_topics
from cdcbus.plugins.log_context import TASK_AT_WORK
from cdcbus.plugins.positions import TopicPartition
from cdcbus.plugins.rowchange import Op, TableId
from cdcbus.plugins.task_status import TaskStatus
from cdcbus.plugins.transform.mapper import Mapper
from cdcbus.plugins.transform.processor import Processor
from cdcbus.plugins.transform.record_transform import RecordTransform

LOG = logging.getLogger(__name__)
PARTITIONS_AT_ONCE = 16
# The prefix of our own headers. They describe the record that is read, its key and its dead letter,
# so they are not forwarded.
OURS = "cdcbus"


class Forwarder:
    """Forwards partitions. Thread-safe: partitions can be sent side by side, each by a client of
    its own. A partition belongs to one process at a time."""

    is_dry_run = False
    # Kafka forgets committed offsets after offsets.retention.minutes: a missing one proves nothing.
    keeps_offsets = False
    partitions_at_once = PARTITIONS_AT_ONCE
    scattered: frozenset[TableId | None] = frozenset()

    def __init__(
        self,
        task: LoadTask,
        config: PublishConfig,
        converter: Converter,
        process: Processor | None,
        put_dead_letters: Callable[[Sequence[DeadLetter]], None] | None,
        stop: Event,
        status: TaskStatus | None = None,
        read_first: ReadFirst = no_records,
    ) -> None:
        """`put_dead_letters` returns when they are durable; None: a record that cannot be sent
        raises. Waits for brokers until `stop` is set; `status` is told of it. `read_first` reads
        the records with which a start begins."""
        self._task = task
        self._config = config
        self._stop, self._status = stop, status
        self._put_dead_letters = put_dead_letters
        self._read_first = read_first
        # Where the last attempt of this process began.
        self._starts: dict[TopicPartition, int] = {}
        self._wanted = ChangeFilter(task, converter, process)
        mapper = Mapper(task.rules, task.named_tables, task.excludes)
        self._transform = RecordTransform(mapper, config, forwards=True)
        self._outlets: dict[TopicPartition, Outlet] = {}
        self._opening = Lock()
        # The last commits, as far as known. Nothing is sent for a partition whose last commit is
        # another one.
        self.seen: dict[TopicPartition, AppliedOffset] = {}
        self.arrivals = ArrivalClock()
        self.epochs = KnownEpochs()

    def check_targets(self) -> None:
        """Raises BusUnavailable when no broker answers, BusRejected when a topic of the task file
        does not exist, ConfigError when the task reads one of them."""
        self.check_circle(named_topics(self._config))
        with self._looking_outlet():
            pass

    def check_circle(self, topics: Iterable[str]) -> None:
        """Raises ConfigError when the task would read what it writes to these topics."""
        read = sorted({*topics} & {*self._task.source.topics})
        if read and self._is_same_cluster:
            raise ConfigError(
                f"topic {read[0]} is both read and written, so the task would read its own records "
                "endlessly: write to another topic"
            )

    @property
    def commits_offsets(self) -> bool:
        return bool(self._config.transactional_id)

    def applied_offsets(self) -> list[AppliedOffset]:
        """Fences the task's earlier processes, so that their uncommitted records are undone and
        they can no longer commit, and returns how far each partition has been committed; empty
        without transactions. Raises BusError."""
        if not self._config.transactional_id:
            for outlet in self._outlets.values():
                outlet.start()
            return []
        found = self._offsets(Outlet.begin_epoch)
        self.seen = by_partition(found)
        return found

    def committed_offsets(self) -> list[AppliedOffset]:
        """The same offsets, without fencing."""
        if not self._config.transactional_id:
            return []
        return self._offsets(Outlet.applied)

    def take_over(self, offsets: Sequence[AppliedOffset]) -> None:
        """Commits the offsets at which partitions resume, unless these are committed already:
        otherwise a start after a kill would resume from an offset that an edit has replaced.
        `applied_offsets` has begun a new epoch."""
        self._look_at_starts({each.topic_partition: each.next_offset for each in offsets})
        if not self._config.transactional_id:
            return

        def take(offset: AppliedOffset) -> None:
            partition = offset.topic_partition
            self.seen[partition] = self._outlet(partition).take(
                offset.next_offset, offset.position_version, offset.details.last
            )

        with self._side_by_side(PARTITIONS_AT_ONCE) as pool:
            list(pool.map(take, offsets))

    def _look_at_starts(self, starts: dict[TopicPartition, int]) -> None:
        """Warns where a topic has grown within what is read from now on: changes of one row are in
        two partitions then, and nothing tells which of them is older."""
        known = dict(self._starts)
        for partition, seen in self.seen.items():
            known[partition] = seen.next_offset
        topic = None
        if begins_anew(starts, known):
            topic = self._read_first(starts).grown_topic()
        self._starts = starts
        if topic:
            LOG.warning(
                "task %s: partitions were added to topic %s after its first records, and all of "
                "them are read side by side: of a row that has changed before and after that, an "
                "older change can be sent after a newer one. To keep the order, begin where the "
                "topic had all its partitions (cdcbus offset reset %s --to PLACE)",
                self._task.task_id,
                topic,
                self._task.task_id,
            )

    def begin(
        self, partition: TopicPartition, seen: Mapping[TopicPartition, AppliedOffset]
    ) -> None:
        """Takes a partition over from the driver, and reads how far it has been committed
        meanwhile. Raises OffsetConflict where a later epoch has begun, BusError."""
        if not self._config.transactional_id:
            return
        outlet = self._outlet(partition)
        outlet.take_over()
        if epoch_of(outlet.held) != epoch_of(seen.get(partition)):
            raise conflict(partition)
        self.seen = {partition: outlet.held} if outlet.held else {}

    def compare_offsets(self) -> None:
        """Does nothing: Kafka forgets committed offsets, so a missing one proves nothing."""

    def add_partitions(self, _offsets: Sequence[AppliedOffset], _reason: str) -> None:
        """Does nothing: a partition that was added is read after what can be older, and its offset
        is stored with its first records."""

    def add_scattered(self, _known: Iterable[TableId | None]) -> None:
        """Does nothing: no versions are kept."""

    def forget_versions(self, _before_ms: Callable[[], int]) -> None:
        """Does nothing: no versions are kept."""

    def lost_tables(self) -> list[str]:
        """Returns nothing: a topic that was made anew is refused by those who read it."""
        return []

    def let_go(self) -> None:
        """Releases all partitions, so that other processes can take them."""
        self.close()

    def _offsets(self, look: Callable[[Outlet], AppliedOffset | None]) -> list[AppliedOffset]:
        with TopicLogs(self._task) as logs:
            partitions = partitions_read(self._task, logs)

        def look_at(partition: TopicPartition) -> AppliedOffset | None:
            return look(self._outlet(partition))

        with self._side_by_side(PARTITIONS_AT_ONCE) as pool:
            return list(filter(None, pool.map(look_at, partitions)))

    def _side_by_side(self, threads: int) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(threads, "forward", TASK_AT_WORK.set, (self._task.task_id,))

    def prepare(self, partition: TopicPartition, records: Records) -> WritePrepared:
        """Returns `apply` itself: sending needs no preparation."""
        return partial(self.apply, partition, records)

    def apply_together(
        self, _partitions: Sequence[PartitionPart]
    ) -> dict[TopicPartition, tuple[int, BatchReport]]:
        """Returns nothing, and is never needed: no partition waits for another."""
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
        """Sends records; returns once all are acknowledged and dead letters are put. In
        transactions everything or nothing becomes visible.

        Raises DataError, naming the record, unless it becomes a dead letter; OffsetConflict when
        another process has sent records of the partition since `seen`; BusRejected, BusUnavailable,
        ConfigError.
        """
        report = BatchReport(records=len(records))
        if not (records or self.commits_offsets):
            return report
        started = perf_counter()
        outlet = self._outlet(partition)
        dead_letters: list[DeadLetter] = []
        made = list(self._made(partition, records, outlet, report, dead_letters))
        self.check_circle({each.written.topic for each in made})
        decoded = perf_counter()
        seen = self.seen.get(partition)
        self._send(outlet, seen, made)
        dead_letters += outlet.dead_letters()
        if dead_letters and self._put_dead_letters:
            # Before the offset moves past them.
            self._put_dead_letters(dead_letters)
        applied = perf_counter()
        _count(report, outlet.without_large(made))
        last = records.last_before(end_offset)
        if seen and not last:
            last = seen.details.last  # only transaction markers have come since
        # Also without rows: the stored position moves, and an offset behind it would look like a
        # lost commit.
        done = outlet.commit(end_offset, position_version, last)
        if done:
            self.seen[partition] = done
        report.decode_ms = (decoded - started) * 1000
        report.apply_ms = (applied - decoded) * 1000
        report.commit_ms = (perf_counter() - applied) * 1000
        return report

    def close(self) -> None:
        """Closes all clients, side by side: each waits for Kafka to undo its transaction, also
        where Kafka does not answer. A second call does nothing."""
        outlets: list[Outlet] = []
        while self._outlets:
            _, outlet = self._outlets.popitem()
            outlets.append(outlet)
        closed: list[Outlet] = []

        def end(outlet: Outlet) -> None:
            outlet.__exit__()
            closed.append(outlet)

        if outlets:
            # Raised where this process may have no more threads.
            with suppress(RuntimeError), self._side_by_side(len(outlets)) as pool:
                for outlet in outlets:
                    pool.submit(end, outlet)
        for outlet in outlets:
            if outlet not in closed:
                outlet.__exit__()

    # Records to records

    def _made(
        self,
        partition: TopicPartition,
        records: Records,
        outlet: Outlet,
        report: BatchReport,
        dead_letters: list[DeadLetter],
    ) -> Iterator[Made]:
        """Yields what the records become, in order. A record that cannot be read or sent is added
        to `dead_letters`, or its error raised."""
        times = records.times.to_pylist()
        columns = zip(records, records.header_lists(), times, strict=True)
        for (offset, value), headers, came_ms in columns:
            if value is None:
                continue
            carried = [(name, text) for name, text in headers if not name.startswith(OURS)]
            try:
                # A list, so that no row is sent of a record with an error in its last row.
                made = self._made_of(offset, value, carried, outlet, report, came_ms or 0)
                yield from list(made)
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
        outlet: Outlet,
        report: BatchReport,
        came_ms: int,
    ) -> Iterator[Made]:
        for change in self._wanted.changes(value, report, came_ms):
            for written in self._transform.records(change):
                if written.op is Op.TRUNCATE and outlet.partitions(written.topic) > 1:
                    raise DataError(_truncate_refused(change.table.id, written.topic))
                if carried:
                    for record in written.records:
                        own = record.get("headers", {})
                        record["headers"] = [*carried, *own.items()]
                yield Made(offset, written)

    # Partitions to Kafka

    def _send(self, outlet: Outlet, seen: AppliedOffset | None, made: Sequence[Made]) -> None:
        """Sends all records except those that turn out to be too large: a transaction begins again
        without them."""
        while True:
            try:
                # Another one of the last transaction can turn out to be too large only here.
                outlet.begin(seen)
                outlet.send(outlet.without_large(made))
                return
            except WithoutLarge as error:
                LOG.info("task %s: %s", self._task.task_id, error)

    def _outlet(self, partition: TopicPartition) -> Outlet:
        with self._opening:
            if partition not in self._outlets:
                self._outlets[partition] = self._new_outlet(partition).__enter__()
            return self._outlets[partition]

    def _new_outlet(self, partition: TopicPartition) -> Outlet:
        name = self._config.transactional_id
        outlet = partial(
            Outlet,
            partition=partition,
            stop=self._stop,
            keeps_letters=self._put_dead_letters is not None,
            status=self._status,
        )
        if not name:
            return outlet(self._config)
        own_name = f"{name}-{partition.topic}-{partition.partition}"
        config = replace(self._config, transactional_id=own_name)
        if self._is_same_cluster:
            return outlet(config, group=name, place=partition)
        # Another cluster does not have the partition, so it cannot keep an offset of it: it keeps
        # the offset at partition 0 of the target's topic, in a group for each source partition.
        place = TopicPartition(config.topic, 0)
        return outlet(config, group=own_name, place=place)

    @cached_property
    def _is_same_cluster(self) -> bool:
        with TopicLogs(self._task) as logs:
            return logs.cluster() == self._looking_outlet().cluster()

    def _looking_outlet(self) -> Outlet:
        """An outlet for metadata only."""
        config = replace(self._config, transactional_id="")
        return Outlet(config, NO_PARTITION, self._stop)


def _count(report: BatchReport, made: Sequence[Made]) -> None:
    ops: dict[TableId, Counter[Op]] = {}
    for each in made:
        ops.setdefault(each.written.table, Counter())[each.written.op] += 1
    for table, counted in ops.items():
        report.table(table).add_ops(counted, Counts())


def _truncate_refused(table: TableId, topic: str) -> str:
    return (
        f"TRUNCATE of {table}: rows are spread over the partitions of topic {topic}, and no order "
        "holds between them; empty the table at the targets, then set the position after the "
        "record; a topic with one partition carries it"
    )
