"""Applies a micro-batch to the target: each Kafka partition in order, in one target transaction
with its offset.

A partition is written as the net effect of its changes: by columns where no record needs a look of
its own, else row by row.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from operator import attrgetter

from cdcbus.consumer.apply.attempts import Attempts
from cdcbus.consumer.apply.conflicts import Blocked, PartitionSlice
from cdcbus.consumer.apply.decode import Decoder
from cdcbus.consumer.apply.deletes import Deletes
from cdcbus.consumer.apply.lookahead import LookAhead, ReadOn, no_future
from cdcbus.consumer.apply.prepare import Prepared, Preparer
from cdcbus.consumer.apply.scattered import OlderChanges, ScatteredTables
from cdcbus.consumer.apply.together import Together
from cdcbus.consumer.apply.watermark import ReadBeside
from cdcbus.consumer.config import LoadTask
from cdcbus.consumer.merge.mapped_change import target_tables
from cdcbus.consumer.offsets.held import HeldOffsets, by_partition
from cdcbus.consumer.offsets.moves import ReadFirst, begins_anew, no_records
from cdcbus.consumer.records.arrival_clock import ArrivalClock
from cdcbus.consumer.records.batch_report import BatchReport, WritePrepared
from cdcbus.consumer.records.dead_letters import DeadLetter
from cdcbus.consumer.records.late import KnownEpochs
from cdcbus.consumer.records.records import PartitionPart, Records
from cdcbus.consumer.transform.target_plans import TargetPlans
from cdcbus.plugins.contracts import AppliedOffset, Converter, Loader
from cdcbus.plugins.errors import OffsetConflict
from cdcbus.plugins.positions import TopicPartition
from cdcbus.plugins.rowchange import TableId
from cdcbus.plugins.transform.processor import Processor

LOG = logging.getLogger(__name__)


class PartitionWaits(Exception):
    """A partition has been applied only up to `end`, with `report`: another row blocks the change
    there, and a change in another partition can unblock it."""

    def __init__(self, reason: str, end: int, report: BatchReport) -> None:
        super().__init__(reason, end, report)
        self.end = end
        self.report = report

    def __str__(self) -> str:
        return str(self.args[0])


class PartitionApplier:
    """Applies partitions to one target. Thread-safe: partitions can be applied side by side."""

    def __init__(
        self,
        task: LoadTask,
        converter: Converter,
        loader: Loader,
        process: Processor | None = None,
        put_dead_letters: Callable[[Sequence[DeadLetter]], None] | None = None,
        partitions_at_once: int = 1,
        read_on: ReadOn = no_future,
        read_first: ReadFirst = no_records,
        read_beside: ReadBeside = lambda _, __: (),
        epochs: KnownEpochs | None = None,
    ) -> None:
        """`put_dead_letters` returns when they are durable; a dry run only logs what it
        would put; None: changes that cannot be applied raise. `partitions_at_once`: the
        number of the loader's connections. `read_on` reads a partition's records after a
        batch, `read_first` those with which a start begins, `read_beside` those that came
        since partitions were added. `epochs`: those by which `read_on` skips late records."""
        self._task = task
        self.partitions_at_once = partitions_at_once
        self._loader = loader
        self.is_dry_run = loader.is_dry_run
        self.keeps_offsets = False
        self.close = loader.close
        if loader.is_dry_run and put_dead_letters:
            put_dead_letters = self._log_dead_letters
        is_merging = task.merge and loader.is_merging
        self._plans = TargetPlans(task, loader)
        self._held = HeldOffsets()
        self.arrivals = ArrivalClock()
        self.epochs = epochs or KnownEpochs()
        self._scattered = ScatteredTables(task, loader, converter)
        self._read_first = read_first
        self._read_beside = read_beside
        self._has_taken_over = False
        # Added partitions, before whose records others were applied without versions.
        self._not_caught_up: Sequence[TopicPartition] = ()
        self._decoder = decoder = Decoder(task, converter, process, self._plans, self._scattered)
        older = OlderChanges(task, self._scattered, self._held, read_on, decoder.steps_to)
        self._older = older
        deletes = Deletes(read_on, decoder.steps_to)
        self._preparer = Preparer(
            converter=converter,
            decoder=decoder,
            scattered=self._scattered,
            # By columns, no processor sees the rows, and an update always inserts a missing row.
            is_by_columns=is_merging and process is None and task.insert_on_update_error,
            has_dead_letters=put_dead_letters is not None,
        )
        self._attempts = Attempts(
            task=task,
            loader=loader,
            held=self._held,
            preparer=self._preparer,
            scattered=self._scattered,
            older=older,
            look_ahead=LookAhead(read_on, decoder.steps_to),
            deletes=deletes,
            put_dead_letters=put_dead_letters,
            is_merging=is_merging,
            arrivals=self.arrivals,
        )
        self._together = Together(
            task=task,
            loader=loader,
            held=self._held,
            decoder=decoder,
            scattered=self._scattered,
            older=older,
            deletes=deletes,
            is_merging=is_merging,
        )

    @property
    def seen(self) -> dict[TopicPartition, AppliedOffset]:
        """The offsets in the target, as far as known."""
        return self._held.by_partition

    @seen.setter
    def seen(self, seen: dict[TopicPartition, AppliedOffset]) -> None:
        self._held.by_partition = seen

    @property
    def commits_offsets(self) -> bool:
        return self.keeps_offsets

    def applied_offsets(self) -> list[AppliedOffset]:
        """Fences the task's earlier processes, so that they can no longer commit, and
        returns the offsets stored by the task. Ends their open sessions first, as a
        process that stands still can hold row locks."""
        self._loader.end_other_sessions()
        found = self._loader.fence()
        self.keeps_offsets = found is not None
        self._held.set(found or [])
        self._scattered.look_again()
        return found or []

    def begin(
        self, partition: TopicPartition, seen: Mapping[TopicPartition, AppliedOffset]
    ) -> None:
        """Reads the partition's offset, and fences nobody: another partition of the same driver may
        be applied at the same time."""
        others = {each: offset for each, offset in seen.items() if each != partition}
        self.seen = {**others, **by_partition(self._loader.applied_offsets(partition))}
        self._scattered.note_partitions([partition, *others])
        self._scattered.look_again()
        self._plans.look_again()

    @property
    def scattered(self) -> frozenset[TableId | None]:
        return self._scattered.known

    def add_scattered(self, known: Iterable[TableId | None]) -> None:
        self._scattered.add_known(known)

    def let_go(self) -> None:
        """Expects others to delete rows; no connection belongs to a partition."""
        self._loader.forget_rows()

    def take_over(self, offsets: Sequence[AppliedOffset]) -> None:
        """Stores all offsets in one transaction, in the epoch that `applied_offsets` has begun."""
        in_order = sorted(offsets, key=attrgetter("topic_partition"))
        self._scattered.note_partitions(map(attrgetter("topic_partition"), in_order))
        known_topics = set(map(attrgetter("topic"), self.seen))
        for offset in in_order:
            is_new = offset.topic_partition not in self.seen and offset.topic in known_topics
            if is_new or self._is_added_again(offset):
                # A key's partition depends on the number of partitions, so a row's later changes
                # may be in another one.
                self.scatter(f"partitions were added to topic {offset.topic}")
                break
        else:
            self._look_at_starts(in_order)
        self._catch_up_versions()
        if self._is_set_back(in_order):
            self._loader.accept_tables()
        self._has_taken_over = True
        taken = list(map(self._held.taken_over, in_order))
        with self._loader.transaction() as transaction:
            for offset in taken:
                transaction.store_offset(offset, self.seen.get(offset.topic_partition))
        self._held.set(taken)

    def _is_added_again(self, offset: AppliedOffset) -> bool:
        """Whether the target's offset of a partition is of a former topic, while others are of the
        present one: the topic was made anew with fewer partitions, and this one was added since."""
        seen, topic_id = self.seen.get(offset.topic_partition), offset.details.topic_id
        if seen is None or not topic_id or seen.details.topic_id in ("", topic_id):
            return False
        return any(
            partition.topic == offset.topic and held.details.topic_id == topic_id
            for partition, held in self.seen.items()
        )

    def compare_offsets(self) -> None:
        """Compares partitions without a commit since the last call: others were compared
        by their commits. So it makes no difference if reads are answered by a replica
        that lags a little."""
        # A dry run stores none of the offsets that it holds.
        if self.is_dry_run or not self.keeps_offsets:
            return
        quiet = self._held.quiet()
        if not quiet:
            return
        found = by_partition(self._loader.applied_offsets())
        for partition, held in sorted(quiet.items()):
            there = found.get(partition)
            if there is None or not there.is_same_commit(held):
                raise OffsetConflict(
                    f"the target of task {self._task.task_id} no longer holds offset "
                    f"{held.next_offset} of {partition}, but "
                    f"{'none' if there is None else there.next_offset}: it was restored, another "
                    "server that lacks commits has taken its place, or another process has applied "
                    "records; resuming from what it holds"
                )

    def lost_tables(self) -> list[str]:
        self._plans.look_again()
        return self._loader.lost_tables()

    def _is_set_back(self, offsets: Sequence[AppliedOffset]) -> bool:
        """Whether the task begins, or an operator has it apply rows again: into tables that were
        made anew for that, maybe."""
        # Of a target that keeps none, only the first look of this process.
        if not self.seen:
            return not self._has_taken_over
        for offset in offsets:
            seen = self.seen.get(offset.topic_partition)
            # A partition without one was added, which says nothing about the tables.
            if seen is None or self._is_added_again(offset):
                continue
            if offset.next_offset < seen.next_offset:
                return True
        return False

    def _look_at_starts(self, offsets: Sequence[AppliedOffset]) -> None:
        """Looks whether rows have changes in several partitions from before the task knew them,
        where it begins to read a partition, or goes back in one."""
        starts = {offset.topic_partition: offset.next_offset for offset in offsets}
        if not begins_anew(starts, dict(self._held.next_offsets())):
            return
        first = self._read_first(starts)
        if topic := first.grown_topic():
            self.scatter(f"partitions were added to topic {topic} after its first records")
        elif self._scattered.has_topics:
            self._decoder.look_at_topics(first.records)

    def add_partitions(self, offsets: Sequence[AppliedOffset], reason: str) -> None:
        self.scatter(reason)
        if self.is_dry_run:
            return
        # Until it is done: an error in between is followed by another take-over.
        self._not_caught_up = [offset.topic_partition for offset in offsets]
        self._catch_up_versions()
        if not self.keeps_offsets:
            return
        added: list[AppliedOffset] = []
        for offset in offsets:
            topic_id = ""
            for partition, held in self.seen.items():
                if partition.topic == offset.topic:
                    topic_id = held.details.topic_id
            details = replace(offset.details, topic_id=topic_id)
            added.append(self._held.taken_over(replace(offset, details=details)))
        with self._loader.transaction() as transaction:
            for offset in added:
                transaction.store_offset(offset, self.seen.get(offset.topic_partition))
        self._held.set([*self.seen.values(), *added])

    def _catch_up_versions(self) -> None:
        """Stores the versions of what was applied since added partitions have had records, where a
        single one was read until now: without record keys, and so without versions."""
        added = self._not_caught_up
        if not added or len(self.seen) != 1:
            return
        for partition, records in self._read_beside(added, dict(self._held.next_offsets())):
            # Unreadable records have been refused already.
            steps = self._decoder.steps(partition, records, BatchReport(), [])
            versions, _ = self._scattered.version_tables(target_tables(steps))
            with self._loader.transaction() as transaction:
                self._older.without(transaction, versions, steps, BatchReport())
        self._not_caught_up = ()

    def scatter(self, reason: str) -> None:
        """From now on expects records of any row in several partitions."""
        self._scattered.add_all(reason)

    def check_targets(self) -> None:
        """Raises UnmappedColumn when a table that the task file includes by name has no target."""
        self._plans.check()

    def forget_versions(self, before_ms: Callable[[], int]) -> None:
        self._loader.forget_versions(before_ms)

    def apply(
        self,
        partition: TopicPartition,
        records: Records,
        end_offset: int,
        position_version: int,
        low_watermark: int = 0,
        is_hasty: bool = False,
    ) -> BatchReport:
        """Applies everything or nothing: rows, dead letters, and the partition's offset
        `end_offset`.

        Raises UnmappedColumn, and errors that pass with time; OffsetConflict when another
        process has applied records of the partition since `applied_offsets` was called;
        DataError and TargetRejected, naming the record, unless it becomes a dead letter.
        Raises PartitionWaits for a change that another row blocks, after applying the
        part before it, unless the change is before `low_watermark`, where other
        partitions can no longer help. `is_hasty`: it raises that immediately, with
        nothing applied.
        """
        return self.prepare(partition, records)(
            end_offset, position_version, low_watermark, is_hasty
        )

    def prepare(self, partition: TopicPartition, records: Records) -> WritePrepared:
        """Does what needs no transaction: decodes, maps, and merges columns. The function
        returned does the rest, once the records before these are applied. Both together
        are `apply`."""
        return partial(self._write, self._preparer.prepared(partition, records))

    def apply_together(
        self, partitions: Sequence[PartitionPart]
    ) -> dict[TopicPartition, tuple[int, BatchReport]]:
        """See `Together.apply`."""
        return self._together.apply(partitions)

    def _write(
        self,
        prepared: Prepared,
        end_offset: int,
        position_version: int,
        low_watermark: int,
        is_hasty: bool,
    ) -> BatchReport:
        """Applies everything prepared; or applies the part before a blocked change, and raises
        PartitionWaits."""
        partition = prepared.partition
        end = end_offset
        reason = ""
        while True:
            begin = prepared.records.offsets[0].as_py() if len(prepared.records) else end
            part = PartitionSlice(partition, begin, end, position_version, low_watermark, is_hasty)
            try:
                report = self._attempts.write(prepared, part)
            except Blocked as blocked:
                end = blocked.offset
                reason = blocked.reason
                before = prepared.records.before(end)
                if before:
                    # Prepared again, as the merged changes include the blocked one.
                    prepared = self._preparer.prepared(partition, before)
                    continue
                report = BatchReport()
                # Nothing is applied, so the target is not beyond markers before the change either.
                if held := self._held.get(partition):
                    end = min(end, held.next_offset)
            report.altered += self._plans.take_altered()
            if reason:
                raise PartitionWaits(reason, end, report)
            return report

    def _log_dead_letters(self, dead_letters: Sequence[DeadLetter]) -> None:
        for dead_letter in dead_letters:
            LOG.warning(
                "task %s: record %s would become a dead letter: %s",
                self._task.task_id,
                dead_letter.record,
                dead_letter.reason,
            )
