"""Applies partitions that wait for each other in one transaction."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter

from cdcbus.consumer.apply.conflicts import (
    Blocked,
    ConflictResolver,
    PartitionSlice,
)
from cdcbus.consumer.apply.decode import Decoder
from cdcbus.consumer.apply.deletes import Deletes
from cdcbus.consumer.apply.levels import in_source_order
from cdcbus.consumer.apply.lookahead import LookAhead, no_future
from cdcbus.consumer.apply.row_order import overtaken_reason
from cdcbus.consumer.apply.scattered import FoundScattered, OlderChanges, ScatteredTables
from cdcbus.consumer.apply.writer import count_superseded
from cdcbus.consumer.config import LoadTask
from cdcbus.consumer.merge.mapped_change import (
    MappedChange,
    are_of_one_definition,
    target_tables,
)
from cdcbus.consumer.offsets.held import HeldOffsets, by_partition
from cdcbus.consumer.records.batch_report import BatchReport
from cdcbus.consumer.records.records import PartitionPart, Records
from cdcbus.plugins.contracts import AppliedOffset, Loader, TargetTable
from cdcbus.plugins.errors import DataError, RowConflict, TargetRejected, UnmappedColumn
from cdcbus.plugins.positions import TopicPartition
from cdcbus.plugins.rowchange import TableId

LOG = logging.getLogger(__name__)


class _JointConflictResolver(ConflictResolver):
    """Applies steps of several partitions, whose offsets are their indexes in source order. A
    refused step, and everything after it, is left to its own partition."""

    def _give_up(self, steps: Sequence[MappedChange], error: DataError | TargetRejected) -> None:
        raise Blocked(self._first_open(steps[0]), str(error))


def _cut(
    merged: Sequence[tuple[TopicPartition, MappedChange]],
    index: int,
    ends: dict[TopicPartition, int],
) -> list[tuple[TopicPartition, MappedChange]]:
    """The changes before an index; moves the ends of partitions there."""
    # Backwards, so that each partition ends before its first change that is cut off.
    for partition, step in reversed(merged[index:]):
        ends[partition] = step.offset
    kept: list[tuple[TopicPartition, MappedChange]] = []
    for partition, step in merged[:index]:
        # Without a cut record's changes before the cut: a record is never torn.
        if step.offset < ends[partition]:
            kept.append((partition, step))
    return kept


@dataclass(frozen=True, slots=True, kw_only=True)
class Together:
    """Applies several partitions in source order. Thread-safe."""

    task: LoadTask
    loader: Loader
    held: HeldOffsets
    decoder: Decoder
    scattered: ScatteredTables
    older: OlderChanges
    deletes: Deletes
    is_merging: bool

    def apply(
        self, partitions: Sequence[PartitionPart]
    ) -> dict[TopicPartition, tuple[int, BatchReport]]:
        """Applies partitions, each with its records, end and position_version, in source order and
        in one transaction, as far as the target accepts them.

        Returns the end that each has reached, with its report; nothing where that does not help,
        so that `PartitionApplier.apply` has to report why. Raises as that does, except DataError,
        TargetRejected and PartitionWaits."""
        ends = {partition: end for partition, _, end, _ in partitions}
        reports: list[BatchReport] = []
        try:
            merged = self._merged(partitions, reports)
        except UnmappedColumn:
            raise
        except DataError:
            return {}
        # One partition has altered a target table for its rows, after another was mapped for it.
        if not are_of_one_definition(map(itemgetter(1), merged)):
            return {}
        tables = target_tables(map(itemgetter(1), merged))
        # First as it is, then with constraints checked immediately, then cut where that attempt was
        # blocked.
        for is_checked_at_once in (False, True, True):
            try:
                report = self._write_together(partitions, merged, ends, tables, is_checked_at_once)
            except Blocked as blocked:
                LOG.info(
                    "task %s: partitions are applied together up to where one waits: %s",
                    self.task.task_id,
                    blocked.reason,
                )
                merged = _cut(merged, blocked.offset, ends)
                if not merged:
                    return {}
            except (DataError, RowConflict, TargetRejected):
                continue
            else:
                return self._reports_together(partitions, reports, ends, report)
        return {}

    def _merged(
        self, partitions: Sequence[PartitionPart], reports: list[BatchReport]
    ) -> list[tuple[TopicPartition, MappedChange]]:
        """The steps of all partitions in source order; adds the report of each one's decoding."""
        decoded: list[tuple[TopicPartition, list[MappedChange]]] = []
        for partition, records, _, _ in partitions:
            steps, decoding = self._decoded(partition, records)
            decoded.append((partition, steps))
            reports.append(decoding)
        return in_source_order(decoded)

    def _decoded(
        self, partition: TopicPartition, records: Records
    ) -> tuple[list[MappedChange], BatchReport]:
        report = BatchReport()
        return self.decoder.steps(partition, records, report, None), report

    def _reports_together(
        self,
        partitions: Sequence[PartitionPart],
        decoded: Sequence[BatchReport],
        ends: dict[TopicPartition, int],
        report: BatchReport,
    ) -> dict[TopicPartition, tuple[int, BatchReport]]:
        """The end and report of each partition. `decoded`: the reports of its decoding; the counts
        of everything written are in the first partition's report."""
        found: dict[TopicPartition, tuple[int, BatchReport]] = {}
        for (partition, records, end, _), of_partition in zip(partitions, decoded, strict=True):
            applied = records.before(ends[partition])
            if ends[partition] < end:
                # Counted again, without the records after the end, which come again.
                _, of_partition = self._decoded(partition, applied)
            of_partition.records = len(applied)
            if not found:
                of_partition.add(report)
            found[partition] = ends[partition], of_partition
        return found

    def _write_together(
        self,
        partitions: Sequence[PartitionPart],
        merged: Sequence[tuple[TopicPartition, MappedChange]],
        ends: dict[TopicPartition, int],
        tables: Mapping[TableId, TargetTable],
        is_checked: bool,
    ) -> BatchReport:
        """Writes all steps in one transaction, again with versions where another process has found
        tables to be scattered. Raises Blocked with the index in `merged` before which all can be
        applied."""
        while True:
            versions, alone = self.scattered.version_tables(tables)
            try:
                return self._write_once(partitions, merged, ends, versions, alone, is_checked)
            except FoundScattered:
                self.scattered.look_again(alone)

    def _write_once(
        self,
        partitions: Sequence[PartitionPart],
        merged: Sequence[tuple[TopicPartition, MappedChange]],
        ends: dict[TopicPartition, int],
        versions: Mapping[TableId, TargetTable],
        alone: Sequence[TargetTable],
        is_checked: bool,
    ) -> BatchReport:
        """Makes one attempt; raises FoundScattered as well."""
        # Offsets of several partitions have no common order, so the index of a record's first
        # change stands in for its offset.
        places: dict[tuple[TopicPartition, int], int] = {}
        steps: list[MappedChange] = []
        for at, (partition, step) in enumerate(merged):
            place = places.setdefault((partition, step.offset), at)
            steps.append(step._replace(offset=place))
        done: list[AppliedOffset] = []
        # In the order of partitions, in which every transaction locks their offsets.
        for partition, records, _, position_version in sorted(partitions, key=itemgetter(0)):
            end = ends[partition]
            last = records.last_before(end)
            done.append(self.held.after(partition, end, position_version, last))
        report = BatchReport()
        part = PartitionSlice(partitions[0][0], 0, len(steps), 0, 0)
        with self.loader.transaction() as transaction:
            if is_checked:
                transaction.check_at_once()
            steps, overtaken = self.older.without(transaction, versions, steps, report)
            for step, _ in overtaken:
                partition = merged[step.offset][0]
                if not self.deletes.find(partition, ends[partition], step):
                    raise Blocked(step.offset, str(overtaken_reason(step)))
                count_superseded(report, step, step.changes)
            resolver = _JointConflictResolver(
                task=self.task,
                look_ahead=LookAhead(no_future, self.decoder.steps_to),
                transaction=transaction,
                part=part,
                steps=steps,
                dead_letters=None,
                is_merging=self.is_merging,
                is_sure=True,
                is_logged=False,
            )
            resolver.resolve()
            if alone and transaction.has_version_table(alone):
                raise FoundScattered
            for offset in done:
                transaction.store_offset(offset, self.held.get(offset.topic_partition))
        self.held.by_partition |= by_partition(done)
        resolver.report.add(report)
        return resolver.report
