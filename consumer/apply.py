"""One micro-batch into the target: each Kafka partition is a lane, applied in order in one target transaction with its offset.

A lane is written as the net effect of its changes. Where the target refuses that, the lane is halved, in source order, until what it takes
and the records that it refuses are apart: a value that moves between rows is free when its turn comes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from operator import attrgetter
from time import perf_counter
from typing import NamedTuple

from cdcbus.consumer.dead_letters import DeadLetter
from cdcbus.consumer.mapper import Mapper, Plan, Route
from cdcbus.consumer.merge import merge
from cdcbus.consumer.net_columns import MIN_RECORDS, NetColumns, NetTable, net_columns
from cdcbus.consumer.offsets import Lane
from cdcbus.consumer.processor import Processor
from cdcbus.consumer.records import Records
from cdcbus.consumer.report import BatchReport
from cdcbus.consumer.task import LoadTask, SchemaChange
from cdcbus.consumer.wanted import Wanted
from cdcbus.plugins.contracts import AppliedOffset, Converter, Counts, Loader, LoadTransaction, TableBatch, TargetTable
from cdcbus.plugins.errors import DataError, TargetRejected, TargetUnavailable, UniqueViolation, UnmappedColumn
from cdcbus.plugins.loaders.widen import lacking, too_narrow
from cdcbus.plugins.rowchange import RowChange, Table, TableId

LOG = logging.getLogger(__name__)
NOTHING_KNOWN: Mapping[TableId, NetTable] = {}
DISPLACED = (
    "task %s: %s[%d]: %d rows of %s held unique values that the source has given to others, and were deleted; changes of their own that "
    "follow bring them back, but not those that came before in another partition: compare the table with its source, and keep rows that "
    "share unique values in one partition"
)


class Step(NamedTuple):
    """A mapped row change, the plan that mapped it, and the offset of its record."""

    offset: int
    plan: Plan
    change: RowChange


@dataclass(frozen=True, slots=True)
class _Prepared:
    """A lane's part of a batch, decoded. `steps`: of the records that are not in `net`."""

    lane: Lane
    records: Records
    net: NetColumns | None
    steps: Sequence[Step]
    report: BatchReport
    letters: list[DeadLetter]


@dataclass(slots=True)
class _Work:
    """A lane's part of a batch on its way. `is_sure`: the target's tables are known to be what the rows were made for."""

    lane: Lane
    transaction: LoadTransaction
    report: BatchReport
    letters: list[DeadLetter]
    is_sure: bool
    is_halved: bool = False


class _Doubt(Exception):
    """A record was refused by a table that may have been altered since its rows were made for it."""


class LaneApplier:
    """Applies lanes to one target. Thread-safe: lanes may be applied side by side."""

    def __init__(
        self,
        task: LoadTask,
        converter: Converter,
        loader: Loader,
        process: Processor | None = None,
        put_dead_letters: Callable[[Sequence[DeadLetter]], None] | None = None,
        lanes_at_once: int = 1,
    ) -> None:
        """`put_dead_letters` returns when they are durable; None: whatever cannot be applied is raised, as in a dry run. `lanes_at_once`:
        the loader's connections."""
        self._task = task
        self.lanes_at_once = lanes_at_once
        self._converter = converter
        self._loader = loader
        self._process = process
        self.is_dry_run = loader.is_dry_run
        self.close = loader.close
        self.seen: dict[Lane, AppliedOffset] = {}
        """The offsets in the target, as far as they are known: each transaction is undone where its lane's is another one there."""
        self._put_dead_letters = None if loader.is_dry_run else put_dead_letters
        self._mapper = Mapper(task.rules)
        self._wanted = Wanted(task, converter, process)
        self._is_merging = task.merge and loader.is_merging

    def applied_offsets(self) -> list[AppliedOffset]:
        """The offsets stored by this task; `apply` expects that nobody else moves them after the last call."""
        found = self._loader.applied_offsets()
        self.seen = {(offset.topic, offset.partition): offset for offset in found}
        return found

    def begin(self, _lane: Lane, _seen: AppliedOffset | None) -> None:
        """The target tells of all lanes at once."""
        self.applied_offsets()

    def let_go(self) -> None:
        """Connections are no lane's."""

    def take_over(self, offsets: Sequence[AppliedOffset]) -> None:
        """One transaction."""
        with self._loader.transaction() as transaction:
            for offset in sorted(offsets, key=attrgetter("topic", "partition")):
                transaction.store_offset(offset, self.seen.get((offset.topic, offset.partition)))
        self.seen = {(offset.topic, offset.partition): offset for offset in offsets}

    def apply(self, lane: Lane, records: Records, end_offset: int, mzxid: int) -> BatchReport:
        """Everything or nothing: rows, dead letters, and that the lane has been applied up to `end_offset`.

        Raises UnmappedColumn, and what needs no person but time; OffsetConflict when somebody else has applied records of the lane since
        `applied_offsets` was called; DataError and TargetRejected, naming the record, unless they become dead letters.
        """
        return self.prepare(lane, records)(end_offset, mzxid)

    def prepare(self, lane: Lane, records: Records) -> Callable[[int, int], BatchReport]:
        """What needs no transaction: decodes, maps, and merges columns. What it returns does the rest, once the records before are applied.
        Together they are `apply`."""
        report, letters = BatchReport(records=len(records)), list[DeadLetter]()
        started = perf_counter()
        net = self._net_columns(records)
        steps = self._steps(lane, records.take(net.plain), report, letters) if net else self._steps(lane, records, report, letters)
        report.decode_ms = (perf_counter() - started) * 1000
        return partial(self._write, _Prepared(lane, records, net, steps, report, letters))

    def _write(self, prepared: _Prepared, end_offset: int, mzxid: int) -> BatchReport:
        try:
            return self._write_once(prepared, end_offset, mzxid, is_sure=False)
        except _Doubt:
            self._look_again(prepared)
        if prepared.net:  # row by row, then
            lane, records, letters = prepared.lane, prepared.records, list[DeadLetter]()
            report = BatchReport(records=len(records), decode_ms=prepared.report.decode_ms)
            prepared = _Prepared(lane, records, None, self._steps(lane, records, report, letters), report, letters)
        return self._write_once(prepared, end_offset, mzxid, is_sure=True)

    def _look_again(self, prepared: _Prepared) -> None:
        """Raises TargetUnavailable when a table has been altered, which is forgotten then."""
        known = {step.plan.target.id: step.plan.target for step in prepared.steps}
        known |= {name: net.batch.table for name, net in (prepared.net.tables if prepared.net else NOTHING_KNOWN).items()}
        for table in known.values():
            if self._loader.is_altered(table):
                raise TargetUnavailable(f"target table {table.id} has been altered meanwhile, and is looked at again")

    def _write_once(self, prepared: _Prepared, end_offset: int, mzxid: int, *, is_sure: bool) -> BatchReport:
        """Raises _Doubt when a record is refused and not `is_sure`."""
        lane, net, letters, started = prepared.lane, prepared.net, [*prepared.letters], perf_counter()
        with self._loader.transaction() as transaction:
            work = _Work(lane, transaction, BatchReport(), letters, is_sure, is_halved=is_sure)  # which was told the first time
            work.report.add(prepared.report)
            if net is None or not self._settle_columns(work, prepared.steps, net):
                steps = prepared.steps
                if net is not None:
                    letters.clear()
                    work.report = BatchReport(records=len(prepared.records), decode_ms=prepared.report.decode_ms)
                    steps = self._steps(lane, prepared.records, work.report, letters)
                self._settle(work, steps)
            if letters and self._put_dead_letters:
                self._put_dead_letters(letters)  # before the offset moves past them
            transaction.store_offset(done := AppliedOffset(*lane, end_offset, mzxid), self.seen.get(lane))
            applied = perf_counter()
        self.seen[lane] = done
        for table, counted in work.report.tables.items():
            if counted.displaced:
                LOG.warning(DISPLACED, self._task.task_id, *lane, counted.displaced, table)
        work.report.apply_ms, work.report.commit_ms = (applied - started) * 1000, (perf_counter() - applied) * 1000
        return work.report

    # Columns: many records at once, where each needs no look of its own

    def _net_columns(self, records: Records) -> NetColumns | None:
        task = self._task
        if len(records) < MIN_RECORDS or not self._is_merging or self._process is not None or not task.insert_on_update_error:
            return None
        net = net_columns(records, task.converter, self._converter, self._column_plans, self._targets)
        return net if net.tables else None

    def _column_plans(self, table: Table) -> list[Plan] | None:
        """None for heartbeats, whose cells tell the time."""
        if self._wanted.table(table.id):
            return [self._plan(route, table) for route in self._mapper.routes(table.id)]
        return None if self._task.is_heartbeat(table.id) else []

    def _targets(self, records: Records) -> set[TableId]:
        """The target tables of the records' rows; what cannot be read has none."""
        sources: set[TableId] = set()
        for _, value in records:
            with suppress(DataError):
                sources.update(change.table.id for change in self._converter.from_bytes(value or b""))
        return {route.target for source in sources for route in self._mapper.routes(source)}

    def _settle_columns(self, work: _Work, steps: Sequence[Step], net: NetColumns) -> bool:
        """Applies the net effects of columns and steps together; False, with nothing done, where the target does not take them."""
        steps = [step for step in steps if step.plan.target.id not in net.tables]
        try:
            with work.transaction.savepoint():
                report = self._write_merged(work.transaction, steps, net.tables)
        except (DataError, TargetRejected) as error:
            LOG.info("task %s: %s[%d] is applied row by row: %s", self._task.task_id, *work.lane, error)
            return False
        work.report.add(report)
        work.report.committed(net.first_commit_ms, net.last_commit_ms)
        return True

    def check_targets(self) -> None:
        """Raises UnmappedColumn when a table that the task file includes by name has no target."""
        for name in sorted(self._task.includes):
            schema, _, table = name.partition(".")
            for route in self._mapper.routes(TableId(schema, table)):
                self._target(route)

    # Records to steps

    def _steps(self, lane: Lane, records: Records, report: BatchReport, letters: list[DeadLetter]) -> list[Step]:
        """The row changes that the task wants, under the target's names, in order."""
        steps: list[Step] = []
        known: dict[int, tuple[Table, list[Plan]]] = {}  # by identity, see Route.plan
        for offset, value in records:
            if value is None:  # a tombstone, for log compaction: its delete came before it
                continue
            try:
                steps += self._steps_of(offset, value, known, report)
            except UnmappedColumn:
                raise
            except DataError as error:
                self._refuse(lane, offset, error, letters)
                report.unread += 1
        return steps

    def _steps_of(self, offset: int, value: bytes, known: dict[int, tuple[Table, list[Plan]]], report: BatchReport) -> list[Step]:
        steps: list[Step] = []
        for change in self._wanted.changes(value, report):
            table = change.table
            if id(table) not in known:
                known[id(table)] = table, [self._plan(route, table) for route in self._mapper.routes(table.id)]
            steps += [Step(offset, plan, plan.map(change)) for plan in known[id(table)][1]]
        return steps

    def _plan(self, route: Route, table: Table) -> Plan:
        target = self._target(route)
        if plan := route.known_plan(table, target):
            return plan
        change, columns = self._task.schema_change, route.columns(table)
        is_dropping = change is SchemaChange.IGNORE
        try:
            if change is SchemaChange.EVOLVE and route.rule.force_matched and (lacking(target, columns) or too_narrow(target, columns)):
                target = self._loader.evolve(target, columns)
                is_dropping = self.is_dry_run  # which has only said what it would do
            plan = route.plan(table, target, is_dropping)
        except UnmappedColumn:
            self._loader.refresh(route.target)  # somebody may add the column: the next attempt looks again
            raise
        if plan.dropped:
            LOG.warning("task %s: %s lacks columns of %s: %s are dropped", self._task.task_id, target.id, table.id, ", ".join(plan.dropped))
        return plan

    def _target(self, route: Route) -> TargetTable:
        table = self._loader.table(route.target)
        if table is None:
            raise UnmappedColumn(
                f"the target has no table {route.target} for {route.source}: create it, or map it with mapper[i].schema and mapper[i].table"
            )
        return table

    # Steps to the target

    def _settle(self, work: _Work, steps: Sequence[Step]) -> None:
        """Applies all that the target takes; the rest is raised or becomes dead letters."""
        if not steps:
            return
        if not self._is_merging:
            for _, record in groupby(steps, attrgetter("offset")):
                self._settle_record(work, list(record))
            return
        try:
            with work.transaction.savepoint():
                report = self._write_merged(work.transaction, steps)
        except (DataError, TargetRejected) as error:
            middle = _middle(steps)
            if middle == 0:
                self._settle_record(work, steps)
                return
            if not work.is_halved:
                LOG.info("task %s: %s[%d] is applied in halves: %s", self._task.task_id, *work.lane, error)
                work.is_halved = True
            self._settle(work, steps[:middle])
            self._settle(work, steps[middle:])
            return
        work.report.add(report)

    def _settle_record(self, work: _Work, steps: Sequence[Step]) -> None:
        """One record, row by row: all of it or nothing."""
        report = BatchReport()
        try:
            with work.transaction.savepoint():
                for step in steps:
                    self._write_row(work, step, report)
        except (DataError, TargetRejected) as error:
            if isinstance(error, TargetRejected) and not work.is_sure:
                raise _Doubt from error
            self._refuse(work.lane, steps[0].offset, error, work.letters)
            report = BatchReport()
            for step in steps:
                failed = report.table(step.plan.target.id)
                failed.rows, failed.failed = failed.rows + 1, failed.failed + 1
        work.report.add(report)

    def _refuse(self, lane: Lane, offset: int, error: DataError | TargetRejected, letters: list[DeadLetter]) -> None:
        if self._put_dead_letters is None:
            raise type(error)(f"record {lane[0]}[{lane[1]}]@{offset}: {error}") from error
        letters.append(DeadLetter(*lane, offset, str(error)))

    def _write_merged(
        self, transaction: LoadTransaction, steps: Sequence[Step], known: Mapping[TableId, NetTable] = NOTHING_KNOWN
    ) -> BatchReport:
        """The net effect, with that which is known of other tables. Tables in the order of their weight, then of their first change; rows
        are deleted in the opposite order."""
        report = BatchReport()
        tables: dict[TableId, list[Step]] = {}
        for step in steps:
            tables.setdefault(step.plan.target.id, []).append(step)
        merged = [self._merged(table_steps, report) for table_steps in tables.values()]
        batches = sorted((*(net.batch for net in known.values()), *merged), key=lambda batch: self._task.weight(batch.table.id))
        counts = {batch.table.id: Counts() for batch in batches}
        for batch in _phases(batches):
            started = perf_counter()
            counts[batch.table.id].add(transaction.write(batch))
            report.table(batch.table.id).write_ms += (perf_counter() - started) * 1000
        for table, table_steps in tables.items():
            _count(report, table_steps, counts[table])
        for table, net in known.items():
            report.table(table).add_ops(net.ops, counts[table])
            report.table(table).dropped += net.dropped
        return report

    def _merged(self, steps: Sequence[Step], report: BatchReport) -> TableBatch:
        started, table = perf_counter(), steps[-1].plan.target
        batch = merge([step.change for step in steps], table, insert_on_update=self._task.insert_on_update_error)
        report.table(table.id).merge_ms += (perf_counter() - started) * 1000
        return batch

    def _write_row(self, work: _Work, step: Step, report: BatchReport) -> None:
        """One row. Another one that still holds a unique value which the source has given to this one makes way, and is counted.

        That happens when changes come again, from a position set back or a fetch task that was killed: the target is ahead of them. The row
        that makes way has changed at the source too, as both cannot hold the value, so its own change is among those that follow and
        brings it back whole; where updates may not insert, it could not, and the violation stops the task. It does not follow where it was
        in another partition, which was ahead, nor where the unique key is the target's only: so an operator is told.
        """
        batch, transaction = self._merged([step], report), work.transaction
        started = perf_counter()
        try:
            with transaction.savepoint():
                counts = transaction.write(batch)
        except UniqueViolation:
            if not self._task.insert_on_update_error or not (displaced := transaction.displace(batch)):
                raise
            report.table(batch.table.id).displaced += displaced
            counts = transaction.write(batch)
        report.table(batch.table.id).write_ms += (perf_counter() - started) * 1000
        _count(report, [step], counts)


def _middle(steps: Sequence[Step]) -> int:
    """Where a record begins, as near to the middle as can be; 0 for a single record."""
    edges = (at for at in range(1, len(steps)) if steps[at].offset != steps[at - 1].offset)
    return min(edges, key=lambda at: abs(at - len(steps) // 2), default=0)


def _phases(batches: Sequence[TableBatch]) -> Iterator[TableBatch]:
    """What goes first, what comes after: children are deleted before their parents, and written after them."""
    if len(batches) == 1:
        yield from batches
        return
    for batch in reversed(batches):
        if batch.truncate or batch.deletes:
            yield replace(batch, writes=(), swaps=())
    for batch in batches:
        if batch.writes or batch.swaps:
            yield replace(batch, truncate=False, deletes=())


def _count(report: BatchReport, steps: Sequence[Step], counts: Counts) -> None:
    table = report.table(steps[0].plan.target.id)
    table.add_applied((step.change for step in steps), counts)
    table.dropped += sum(bool(step.plan.dropped) for step in steps)
