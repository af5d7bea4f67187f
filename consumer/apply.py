"""One micro-batch into the target: each Kafka partition is a lane, applied in order in one target transaction with its offset."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from cdcbus.consumer.mapper import Mapper
from cdcbus.consumer.merge import merge
from cdcbus.consumer.offsets import Lane
from cdcbus.consumer.task import LoadTask
from cdcbus.plugins.contracts import AppliedOffset, Converter, Counts, Loader, LoadTransaction, TableBatch, TargetTable
from cdcbus.plugins.errors import ConversionError, UniqueViolation, UnmappedColumn
from cdcbus.plugins.rowchange import RowChange, TableId

LOG = logging.getLogger(__name__)

Record = tuple[int, bytes | None]  # offset, value


@dataclass(slots=True)
class LaneResult:
    """What applying a lane's part of a batch did. `last_commit_ms` is the source's commit time of its last row change, 0 without one."""

    records: int = 0
    counts: dict[TableId, Counts] = field(default_factory=dict)
    last_commit_ms: int = 0


class LaneApplier:
    """Applies lanes to one target. Thread-safe: lanes may be applied side by side."""

    def __init__(self, task: LoadTask, converter: Converter, loader: Loader) -> None:
        self._task = task
        self._converter = converter
        self._loader = loader
        self._mapper = Mapper(task.rules)

    def apply(self, lane: Lane, records: Sequence[Record], end_offset: int, mzxid: int) -> LaneResult:
        """Everything or nothing: rows, and that the lane has been applied up to `end_offset`.

        Raises ConversionError naming the record, UnmappedColumn, TargetError.
        """
        result = LaneResult(records=len(records))
        tables = self._changes(lane, records, result)
        with self._loader.transaction() as transaction:
            for table, changes in tables:
                self._write_table(transaction, table, changes, result)
            transaction.store_offset(AppliedOffset(*lane, end_offset, mzxid))
        return result

    def _write_table(self, transaction: LoadTransaction, table: TargetTable, changes: Sequence[RowChange], result: LaneResult) -> None:
        """A table's changes as one merged batch; where a unique key refuses that, row by row.

        A value of another unique key may move from one row to the next inside the batch: only the original order frees it in time.
        """
        try:
            with transaction.savepoint():
                self._write(transaction, self._merged(table, changes), result)
        except UniqueViolation:
            LOG.info("task %s: %d changes of %s reuse a unique value; applying them row by row", self._task.task_id, len(changes), table.id)
            for change in changes:
                self._write_row(transaction, self._merged(table, [change]), result)

    def _write_row(self, transaction: LoadTransaction, batch: TableBatch, result: LaneResult) -> None:
        """One row. Another one that still holds a unique value which the source has given to this one makes way.

        That happens when changes come again, from a position set back or a fetch task that was killed: the target is ahead of them. The row
        that makes way has changed at the source too, as both cannot hold the value, so its own change is among those that follow and
        brings it back whole; where updates may not insert, it could not, and the violation stops the task.
        """
        try:
            with transaction.savepoint():
                self._write(transaction, batch, result)
        except UniqueViolation:
            if not self._task.insert_on_update_error or not transaction.displace(batch):
                raise
            self._write(transaction, batch, result)

    def check_targets(self) -> None:
        """Raises UnmappedColumn when a table that the task file includes by name has no target."""
        for name in sorted(self._task.includes):
            schema, _, table = name.partition(".")
            self._target(TableId(schema, table))

    def _changes(self, lane: Lane, records: Iterable[Record], result: LaneResult) -> list[tuple[TargetTable, list[RowChange]]]:
        """The row changes that the task wants, under the target's names, in order; tables in the order of their first change."""
        tables: dict[TableId, tuple[TargetTable, list[RowChange]]] = {}
        for offset, value in records:
            if value is None:  # a tombstone, for log compaction: its delete came before it
                continue
            try:
                decoded = self._converter.from_bytes(value)
            except ConversionError as error:
                raise ConversionError(f"record {lane[0]}[{lane[1]}]@{offset}: {error}") from error
            for change in decoded:
                result.last_commit_ms = max(result.last_commit_ms, change.origin.commit_ms)
                if self._is_wanted(change.table.id):
                    target = self._target(change.table.id)
                    tables.setdefault(target.id, (target, []))[1].append(self._mapper.map(change, target))
        return list(tables.values())

    def _is_wanted(self, table: TableId) -> bool:
        name = str(table).upper()
        return name in self._task.includes if self._task.includes else name not in self._task.excludes

    def _target(self, source: TableId) -> TargetTable:
        name = self._mapper.target(source)
        table = self._loader.table(name)
        if table is None:
            raise UnmappedColumn(
                f"the target has no table {name} for {source}: create it, or map it with mapper[i].schema and mapper[i].table"
            )
        return table

    def _merged(self, table: TargetTable, changes: Sequence[RowChange]) -> TableBatch:
        return merge(changes, table, insert_on_update=self._task.insert_on_update_error)

    def _write(self, transaction: LoadTransaction, batch: TableBatch, result: LaneResult) -> None:
        result.counts.setdefault(batch.table.id, Counts()).add(transaction.write(batch))
