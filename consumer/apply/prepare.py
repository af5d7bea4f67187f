"""Prepares a partition's part of a batch for its transaction: decodes, maps, and merges it by
columns where no record needs a look of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from time import perf_counter

from cdcbus.consumer.apply.decode import Decoder
from cdcbus.consumer.apply.scattered import ScatteredTables
from cdcbus.consumer.merge.columnar import MIN_RECORDS, NetColumns, net_columns
from cdcbus.consumer.merge.mapped_change import MappedChange, target_tables
from cdcbus.consumer.records.batch_report import BatchReport
from cdcbus.consumer.records.dead_letters import DeadLetter
from cdcbus.consumer.records.records import Records
from cdcbus.plugins.contracts import Converter, TargetTable
from cdcbus.plugins.converters.columnar import RowGroup
from cdcbus.plugins.positions import TopicPartition
from cdcbus.plugins.rowchange import Op, TableId
from cdcbus.plugins.transform.plan import Plan


@dataclass(frozen=True, slots=True)
class Prepared:
    """A partition's part of a batch, decoded. `steps`: the changes in records that are not in
    `net`. `versions`: the version tables of the target tables whose rows have changes in other
    partitions; `alone`: the other target tables, empty if the task reads only one partition."""

    partition: TopicPartition
    records: Records
    net: NetColumns | None
    steps: Sequence[MappedChange]
    report: BatchReport
    dead_letters: list[DeadLetter] | None
    versions: Mapping[TableId, TargetTable] = field(default_factory=dict)
    alone: Sequence[TargetTable] = ()

    def tables(self) -> dict[TableId, TargetTable]:
        """The target tables as the rows were mapped for them."""
        found = target_tables(self.steps)
        if self.net:
            for name, net in self.net.tables.items():
                found[name] = net.batch.table
        return found

    def mixes_cascades(self) -> bool:
        """Whether some changes of tables with cascading keys are merged by columns, and others are
        not: between these there would be no order."""
        if self.net is None:
            return False
        merged = [net.batch.table for net in self.net.tables.values()]
        if not any(table.cascades for table in merged):
            return False
        return any(table.cascades for table in target_tables(self.steps).values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Preparer:
    """Does the part of applying a partition that needs no transaction. Thread-safe."""

    converter: Converter
    decoder: Decoder
    scattered: ScatteredTables
    # Whether a large number of records can be merged by columns.
    is_by_columns: bool
    has_dead_letters: bool

    def prepared(self, partition: TopicPartition, records: Records) -> Prepared:
        """Prepares records. Raises DataError for a record that cannot be read, unless it becomes a
        dead letter; UnmappedColumn, and errors that pass with time."""
        prepared = self._decoded(partition, records, are_cascading_merged=True)
        if prepared.mixes_cascades():
            prepared = self._decoded(partition, records, are_cascading_merged=False)
        # The steps can show that rows of a table are scattered, unlike the columns.
        if prepared.net and self.scattered.is_any_shown(prepared.net.tables):
            return self.in_rows(prepared)
        return self._ordered(prepared)

    def _decoded(
        self, partition: TopicPartition, records: Records, *, are_cascading_merged: bool
    ) -> Prepared:
        """Decodes records. `are_cascading_merged`: inserts of tables with cascading keys are merged
        by columns, too."""
        started = perf_counter()
        report = BatchReport(records=len(records))
        dead_letters = self._dead_letters()
        net = self._net_columns(partition, records, are_cascading_merged)
        one_by_one = records.take(net.row_at_a_time) if net else records
        steps = self.decoder.steps(partition, one_by_one, report, dead_letters)
        report.decode_ms = (perf_counter() - started) * 1000
        return Prepared(partition, records, net, steps, report, dead_letters)

    def in_rows(self, prepared: Prepared) -> Prepared:
        """Prepares the same records again, row by row instead of by columns."""
        partition = prepared.partition
        records = prepared.records
        # With a new report and new dead letters, as all records are decoded again.
        report = BatchReport(records=len(records), decode_ms=prepared.report.decode_ms)
        dead_letters = self._dead_letters()
        steps = self.decoder.steps(partition, records, report, dead_letters)
        return self._ordered(Prepared(partition, records, None, steps, report, dead_letters))

    def _ordered(self, prepared: Prepared) -> Prepared:
        """Adds the version tables needed, which are created outside the transaction."""
        # Without keys there are no other partitions.
        if prepared.records.keys is None:
            return prepared
        versions, alone = self.scattered.version_tables(prepared.tables())
        return replace(prepared, versions=versions, alone=alone)

    def _net_columns(
        self, partition: TopicPartition, records: Records, are_cascading_merged: bool
    ) -> NetColumns | None:
        if len(records) < MIN_RECORDS or not self.is_by_columns:
            return None
        keys = records.keys

        def is_in_order(group: RowGroup, plan: Plan) -> bool:
            # Inserts alone delete and change no other rows.
            is_insert = are_cascading_merged and group.op is Op.INSERT
            if plan.target.cascades and not is_insert:
                return False
            if self.scattered.has_topics:
                first = records.values[group.records[0].as_py()].as_py()
                if self.scattered.has_moved(group.table.id, partition.topic, first):
                    self.scattered.add([plan.target])
            return self.scattered.is_in_order(group, plan, keys, partition)

        decoder = self.decoder
        net = net_columns(
            records,
            self.converter,
            decoder.column_plans,
            decoder.targets,
            is_in_order,
        )
        return net if net.tables else None

    def _dead_letters(self) -> list[DeadLetter] | None:
        return [] if self.has_dead_letters else None
