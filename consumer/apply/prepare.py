"""A partition's part of a batch, made ready for its transaction: decoded, mapped, and merged by
columns where its records need no look of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from time import perf_counter

from cdcbus.consumer.apply.decode import Decoder
from cdcbus.consumer.apply.scattered import ScatteredTables
from cdcbus.consumer.merge.columnar import MIN_RECORDS, NetColumns, net_columns
from cdcbus.consumer.merge.mapped_change import MappedChange
from cdcbus.consumer.records.batch_report import BatchReport
from cdcbus.consumer.records.dead_letters import DeadLetter
from cdcbus.consumer.records.records import Records
from cdcbus.plugins.contracts import Converter, TargetTable
from cdcbus.plugins.converters.columnar import RowGroup
from cdcbus.plugins.positions import TopicPartition
from cdcbus.plugins.rowchange import TableId
from cdcbus.plugins.transform.plan import Plan


@dataclass(frozen=True, slots=True)
class Prepared:
    """A partition's part of a batch, decoded. `steps`: of the records that are not in `net`.
    `versions`: the version tables of the target tables whose rows have changes in other partitions;
    `alone`: the others, as far as there are other partitions."""

    partition: TopicPartition
    records: Records
    net: NetColumns | None
    steps: Sequence[MappedChange]
    report: BatchReport
    dead_letters: list[DeadLetter] | None
    versions: Mapping[TableId, TargetTable] = field(default_factory=dict)
    alone: Sequence[TargetTable] = ()

    def tables(self) -> dict[TableId, TargetTable]:
        """The target tables, as the rows were made for them."""
        found = {step.plan.target.id: step.plan.target for step in self.steps}
        if self.net:
            for name, net in self.net.tables.items():
                found[name] = net.batch.table
        return found


class Preparer:
    """What of applying a partition needs no transaction. Thread-safe."""

    def __init__(
        self,
        converter: Converter,
        decoder: Decoder,
        scattered: ScatteredTables,
        *,
        is_by_columns: bool,
        has_dead_letters: bool,
    ) -> None:
        """`is_by_columns`: many records may be merged by columns."""
        self._converter = converter
        self._decoder = decoder
        self._scattered = scattered
        self._is_by_columns = is_by_columns
        self._has_dead_letters = has_dead_letters

    def prepared(self, partition: TopicPartition, records: Records) -> Prepared:
        """Raises DataError for a record that cannot be read, unless it becomes a dead letter;
        UnmappedColumn, and what needs no person but time."""
        started = perf_counter()
        report = BatchReport(records=len(records))
        dead_letters = self._dead_letters()
        net = self._net_columns(records)
        one_by_one = records.take(net.row_at_a_time) if net else records
        steps = self._decoder.steps(partition, one_by_one, report, dead_letters)
        report.decode_ms = (perf_counter() - started) * 1000
        prepared = Prepared(partition, records, net, steps, report, dead_letters)
        # The steps may show that rows of a table are scattered which the columns took for alone.
        if net and self._scattered.is_any_shown(net.tables):
            return self.in_rows(prepared)
        return self._ordered(prepared)

    def in_rows(self, prepared: Prepared) -> Prepared:
        """The same without columns."""
        partition = prepared.partition
        records = prepared.records
        # Report and dead letters begin anew: all records are decoded once more.
        report = BatchReport(records=len(records), decode_ms=prepared.report.decode_ms)
        dead_letters = self._dead_letters()
        steps = self._decoder.steps(partition, records, report, dead_letters)
        return self._ordered(Prepared(partition, records, None, steps, report, dead_letters))

    def _ordered(self, prepared: Prepared) -> Prepared:
        """With the version tables that it takes; they are made outside of its transaction."""
        if prepared.records.keys is None:  # there are no other partitions
            return prepared
        # A row without a key cannot be told from others, so it has no version.
        tables = {name: table for name, table in prepared.tables().items() if table.key}
        versions, alone = self._scattered.version_tables(tables)
        return replace(prepared, versions=versions, alone=alone)

    def _net_columns(self, records: Records) -> NetColumns | None:
        if len(records) < MIN_RECORDS or not self._is_by_columns:
            return None
        keys = records.keys

        def is_in_order(group: RowGroup, plan: Plan) -> bool:
            return self._scattered.is_in_order(group, plan, keys)

        decoder = self._decoder
        net = net_columns(
            records,
            self._converter,
            decoder.column_plans,
            decoder.targets,
            is_in_order,
            decoder.skipped_operations,
        )
        return net if net.tables else None

    def _dead_letters(self) -> list[DeadLetter] | None:
        return [] if self._has_dead_letters else None
