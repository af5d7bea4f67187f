"""Partitions that wait for each other, in one transaction."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter

from cdcbus.consumer.apply.conflicts import (
    Blocked,
    JointConflictResolver,
    PartitionSlice,
    overtaken_reason,
)
from cdcbus.consumer.apply.decode import Decoder
from cdcbus.consumer.apply.deletes import Deletes
from cdcbus.consumer.apply.levels import in_source_order
from cdcbus.consumer.apply.lookahead import LookAhead, no_future
from cdcbus.consumer.apply.scattered import OlderChanges, ScatteredTables
from cdcbus.consumer.apply.writer import count_superseded
from cdcbus.consumer.config import LoadTask
from cdcbus.consumer.merge.mapped_change import MappedChange
from cdcbus.consumer.offsets.held import HeldOffsets
from cdcbus.consumer.records.batch_report import BatchReport
from cdcbus.consumer.records.records import Records
from cdcbus.plugins.contracts import Loader, TargetTable
from cdcbus.plugins.errors import DataError, RowConflict, TargetRejected, UnmappedColumn
from cdcbus.plugins.positions import TopicPartition
from cdcbus.plugins.rowchange import TableId

LOG = logging.getLogger(__name__)


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
        self, partitions: Sequence[tuple[TopicPartition, Records, int, int]]
    ) -> dict[TopicPartition, tuple[int, BatchReport]]:
        """Partitions, each with its records, its end and its position_version, in source order and
        one transaction, as far as the target takes them. Up to where each is applied, with its
        report; nothing where that does not help, and `apply` is to say why. Raises as it does, but
        for DataError, TargetRejected and PartitionWaits."""
        try:
            decoded = [self._decoded(partition, records) for partition, records, _, _ in partitions]
        except DataError as error:
            if isinstance(error, UnmappedColumn):
                raise
            return {}
        merged = in_source_order(
            [
                (partition, steps)
                for (partition, *_), (steps, _) in zip(partitions, decoded, strict=True)
            ]
        )
        ends, versions = (
            {partition: end for partition, _, end, _ in partitions},
            self._versions([step for _, step in merged]),
        )
        for is_checked_at_once in (False, True, True):
            try:
                report = self._write_together(
                    partitions, merged, ends, versions, is_checked_at_once
                )
            except Blocked as blocked:
                LOG.info(
                    "task %s: partitions are applied together up to where one waits: %s",
                    self.task.task_id,
                    blocked.reason,
                )
                for partition, step in reversed(merged[blocked.offset :]):
                    ends[partition] = step.offset
                merged = [
                    (partition, step)
                    for partition, step in merged[: blocked.offset]
                    if step.offset < ends[partition]
                ]
                if not merged:
                    return {}
            except (DataError, RowConflict, TargetRejected):
                continue
            else:
                return self._reports_together(partitions, decoded, ends, report)
        return {}

    def _decoded(
        self, partition: TopicPartition, records: Records
    ) -> tuple[list[MappedChange], BatchReport]:
        report = BatchReport()
        return self.decoder.steps(partition, records, report, None), report

    def _reports_together(
        self,
        partitions: Sequence[tuple[TopicPartition, Records, int, int]],
        decoded: Sequence[tuple[list[MappedChange], BatchReport]],
        ends: dict[TopicPartition, int],
        report: BatchReport,
    ) -> dict[TopicPartition, tuple[int, BatchReport]]:
        """What was written stands in the first partition's report."""
        found: dict[TopicPartition, tuple[int, BatchReport]] = {}
        for (partition, records, end, _), (_, of_partition) in zip(
            partitions, decoded, strict=True
        ):
            if ends[partition] < end:  # what was decoded behind it comes again
                of_partition = self._decoded(partition, records.before(ends[partition]))[1]
            of_partition.records = len(records.before(ends[partition]))
            if not found:
                of_partition.add(report)
            found[partition] = ends[partition], of_partition
        return found

    def _versions(self, steps: Sequence[MappedChange]) -> dict[TableId, TargetTable]:
        """The version tables of the steps' target tables that have one."""
        return self.scattered.version_tables(
            {step.plan.target.id: step.plan.target for step in steps}
        )[0]

    def _write_together(
        self,
        partitions: Sequence[tuple[TopicPartition, Records, int, int]],
        merged: Sequence[tuple[TopicPartition, MappedChange]],
        ends: dict[TopicPartition, int],
        versions: dict[TableId, TargetTable],
        is_checked: bool,
    ) -> BatchReport:
        """Raises Blocked with the place in `merged` before which all can be applied."""
        places: dict[tuple[TopicPartition, int], int] = {}
        steps = [
            step._replace(offset=places.setdefault((partition, step.offset), at))
            for at, (partition, step) in enumerate(merged)
        ]
        done = [
            self.held.after(
                partition,
                ends[partition],
                position_version,
                records.last_before(ends[partition]),
            )
            for partition, records, _, position_version in sorted(partitions, key=itemgetter(0))
        ]
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
            resolver = JointConflictResolver(
                self.task,
                LookAhead(no_future, self.decoder.steps_to),
                transaction,
                part,
                steps,
                None,
                is_merging=self.is_merging,
                is_sure=True,
                is_logged=False,
            )
            resolver.resolve()
            for offset in done:
                transaction.store_offset(offset, self.held.get(offset.topic_partition))
        self.held.by_partition |= {offset.topic_partition: offset for offset in done}
        resolver.report.add(report)
        return resolver.report
