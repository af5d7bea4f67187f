"""One micro-batch into the target: each Kafka partition is a lane, applied in order in one target transaction with its offset.

A lane is written as the net effect of its changes. Where the target refuses that, the lane is halved, in source order, until what it takes
and the records that it refuses are apart: a value that moves between rows is free when its turn comes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby
from operator import attrgetter
from time import perf_counter
from typing import NamedTuple

from cdcbus.consumer.dead_letters import DeadLetter
from cdcbus.consumer.look_ahead import LookAhead, NotYet, ReadOn, no_future
from cdcbus.consumer.mapper import Mapper, Plan, Route
from cdcbus.consumer.merge import merge
from cdcbus.consumer.net_columns import MIN_RECORDS, NetColumns, NetTable, net_columns
from cdcbus.consumer.offsets import Lane
from cdcbus.consumer.processor import Processor
from cdcbus.consumer.records import Records
from cdcbus.consumer.report import BatchReport
from cdcbus.consumer.steps import SameRow, Step
from cdcbus.consumer.task import LoadTask, SchemaChange
from cdcbus.consumer.wanted import Wanted
from cdcbus.plugins.contracts import AppliedOffset, Converter, Counts, Loader, LoadTransaction, TableBatch, TargetTable, Writes
from cdcbus.plugins.errors import DataError, RowConflict, TargetRejected, TargetUnavailable, UnmappedColumn
from cdcbus.plugins.loaders.widen import lacking, too_narrow
from cdcbus.plugins.rowchange import Op, RowChange, Table, TableId

LOG = logging.getLogger(__name__)
NOTHING_KNOWN: Mapping[TableId, NetTable] = {}


@dataclass(frozen=True, slots=True)
class _Prepared:
    """A lane's part of a batch, decoded. `steps`: of the records that are not in `net`."""

    lane: Lane
    records: Records
    net: NetColumns | None
    steps: Sequence[Step]
    report: BatchReport
    letters: list[DeadLetter]


@dataclass(frozen=True, slots=True)
class _Goal:
    """Up to where a lane is to be applied: see `LaneApplier.apply`."""

    end_offset: int
    mzxid: int
    settled_before: int


@dataclass(slots=True)
class _Work:
    """A lane's part of a batch on its way, which begins at offset `begin`. `is_sure`: the target's tables are known to be what the rows
    were made for. So many steps are `done`, but for those `put_off`: what another row has forbidden, and is tried again behind all others.
    """

    lane: Lane
    begin: int
    goal: _Goal
    transaction: LoadTransaction
    report: BatchReport
    letters: list[DeadLetter]
    steps: list[Step]
    is_sure: bool
    is_halved: bool = False
    done: int = 0
    put_off: list[_Forbidden] = field(default_factory=list)
    _same_row: SameRow | None = None

    def next_of_row(self, place: int, step: Step) -> int | None:
        """The place of the next step of the same row."""
        if self._same_row is None:
            self._same_row = SameRow(self.steps)
        return self._same_row.after(place, step)

    def first_open(self, step: Step) -> int:
        """The offset before which all is applied, though this step, those put off and those to come are not."""
        waiting = (step, *(other for other, _ in self.put_off), *(held for each in self.steps[self.done :] for held in each.held))
        return min(offset for each in waiting for offset in each.offsets)


class _Doubt(Exception):
    """A record was refused by a table that may have been altered since its rows were made for it."""


class _Forbidden(NamedTuple):
    """A step, and why another row forbids it."""

    step: Step
    reason: RowConflict


class _Wait(Exception):
    """Another row forbids a change, and another lane may cure that: nothing from an offset on is applied."""

    def __init__(self, offset: int, reason: str) -> None:
        super().__init__(offset, reason)
        self.offset, self.reason = offset, reason


class _Again(Exception):
    """A record is refused of which other rows are applied already."""

    def __init__(self, offset: int, reason: DataError | TargetRejected) -> None:
        super().__init__(offset, reason)
        self.offset, self.reason = offset, reason


class LaneWaits(Exception):
    """A lane has been applied up to `end` only, as told by `report`: another row forbids the change there, which another lane may cure."""

    def __init__(self, reason: str, end: int, report: BatchReport) -> None:
        super().__init__(reason, end, report)
        self.end, self.report = end, report

    def __str__(self) -> str:
        return str(self.args[0])


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
        read_on: ReadOn = no_future,
    ) -> None:
        """`put_dead_letters` returns when they are durable; None: whatever cannot be applied is raised, as in a dry run. `lanes_at_once`:
        the loader's connections. `read_on` tells what a lane has behind a batch."""
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
        self._look_ahead = LookAhead(read_on, self._steps_to)

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

    def apply(self, lane: Lane, records: Records, end_offset: int, mzxid: int, settled_before: int = 0) -> BatchReport:
        """Everything or nothing: rows, dead letters, and that the lane has been applied up to `end_offset`.

        Raises UnmappedColumn, and what needs no person but time; OffsetConflict when somebody else has applied records of the lane since
        `applied_offsets` was called; DataError and TargetRejected, naming the record, unless they become dead letters. Raises LaneWaits,
        once a part has been applied, for a change that another row forbids, unless it is `settled_before` which offset other lanes
        cannot cure that.
        """
        return self.prepare(lane, records)(end_offset, mzxid, settled_before)

    def prepare(self, lane: Lane, records: Records) -> Callable[[int, int, int], BatchReport]:
        """What needs no transaction: decodes, maps, and merges columns. What it returns does the rest, once the records before are applied.
        Together they are `apply`."""
        return partial(self._write, self._prepared(lane, records))

    def _prepared(self, lane: Lane, records: Records) -> _Prepared:
        report, letters = BatchReport(records=len(records)), list[DeadLetter]()
        started = perf_counter()
        net = self._net_columns(records)
        steps = self._steps(lane, records.take(net.plain), report, letters) if net else self._steps(lane, records, report, letters)
        report.decode_ms = (perf_counter() - started) * 1000
        return _Prepared(lane, records, net, steps, report, letters)

    def _write(self, prepared: _Prepared, end_offset: int, mzxid: int, settled_before: int) -> BatchReport:
        end, reason = end_offset, ""
        while True:
            try:
                report = self._write_surely(prepared, _Goal(end, mzxid, settled_before))
            except _Wait as wait:
                end, reason = wait.offset, wait.reason
                if before := prepared.records.before(end):
                    prepared = self._prepared(prepared.lane, before)
                    continue
                report = BatchReport()
            if reason:
                raise LaneWaits(reason, end, report)
            return report

    def _write_surely(self, prepared: _Prepared, goal: _Goal) -> BatchReport:
        is_sure, refused = False, dict[int, DataError | TargetRejected]()
        while True:
            try:
                return self._write_once(prepared, goal, refused, is_sure=is_sure)
            except _Doubt:
                self._look_again(prepared)
                is_sure = True
            except _Again as again:
                refused[again.offset] = again.reason
            if prepared.net:  # row by row, then
                lane, records, letters = prepared.lane, prepared.records, list[DeadLetter]()
                report = BatchReport(records=len(records), decode_ms=prepared.report.decode_ms)
                prepared = _Prepared(lane, records, None, self._steps(lane, records, report, letters), report, letters)

    def _look_again(self, prepared: _Prepared) -> None:
        """Raises TargetUnavailable when a table has been altered, which is forgotten then."""
        known = {step.plan.target.id: step.plan.target for step in prepared.steps}
        known |= {name: net.batch.table for name, net in (prepared.net.tables if prepared.net else NOTHING_KNOWN).items()}
        for table in known.values():
            if self._loader.is_altered(table):
                raise TargetUnavailable(f"target table {table.id} has been altered meanwhile, and is looked at again")

    def _write_once(
        self, prepared: _Prepared, goal: _Goal, refused: Mapping[int, DataError | TargetRejected], *, is_sure: bool
    ) -> BatchReport:
        """`refused`: offsets of records that are, and why. Raises _Doubt when another one is and not `is_sure`, _Again when it is not only
        that one's row, _Wait when the lane is to wait."""
        lane, net, letters, started = prepared.lane, prepared.net, [*prepared.letters], perf_counter()
        with self._loader.transaction() as transaction:
            steps = [step for step in prepared.steps if step.offset not in refused]
            begin = prepared.records.offsets[0].as_py() if len(prepared.records) else goal.end_offset
            is_told = is_sure or bool(refused)
            work = _Work(lane, begin, goal, transaction, BatchReport(), letters, steps, is_sure, is_halved=is_told)
            for offset, reason in refused.items():
                self._bury(work, [step for step in prepared.steps if step.offset == offset], reason)
            work.report.add(prepared.report)
            if net is None or not self._settle_columns(work, net):
                if net is not None:
                    letters.clear()
                    work.report = BatchReport(records=len(prepared.records), decode_ms=prepared.report.decode_ms)
                    work.steps = self._steps(lane, prepared.records, work.report, letters)
                self._settle(work)
            if letters and self._put_dead_letters:
                self._put_dead_letters(letters)  # before the offset moves past them
            transaction.store_offset(done := AppliedOffset(*lane, goal.end_offset, goal.mzxid), self.seen.get(lane))
            applied = perf_counter()
        self.seen[lane] = done
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

    def _settle_columns(self, work: _Work, net: NetColumns) -> bool:
        """Applies the net effects of columns and steps together; False, with nothing done, where the target does not take them."""
        steps = [step for step in work.steps if step.plan.target.id not in net.tables]
        try:
            with work.transaction.savepoint():
                report = self._write_merged(work.transaction, steps, net.tables)
        except (DataError, TargetRejected) as error:
            LOG.info("task %s: %s[%d] is applied row by row: %s", self._task.task_id, *work.lane, error)
            work.is_halved = True
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

    def _steps_to(self, target: TableId, offset: int, value: bytes) -> list[Step]:
        """What a record brings to a target table; nothing where it cannot be read, which is for its own batch to say."""
        wanted, steps = str(target).lower(), list[Step]()
        with suppress(DataError):
            for change in self._wanted.changes(value, BatchReport()):
                for route in self._mapper.routes(change.table.id):
                    if str(route.target).lower() == wanted:
                        plan = route.passing_plan(change.table, self._target(route))
                        steps.append(Step(offset, plan, plan.map(change)))
            return steps
        return []

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

    def _settle(self, work: _Work) -> None:
        """Applies all that the target takes; the rest is raised or becomes dead letters."""
        if self._is_merging:
            self._settle_part(work, 0, len(work.steps))
        else:
            begin = 0
            for _, record in groupby(work.steps, attrgetter("offset")):
                end = begin + len(list(record))
                self._settle_record(work, begin, end)
                begin = end
        self._settle_put_off(work)

    def _settle_part(self, work: _Work, begin: int, end: int) -> None:
        if begin == end:
            return
        steps = work.steps[begin:end]
        try:
            with work.transaction.savepoint():
                report = self._write_merged(work.transaction, steps)
        except (DataError, TargetRejected) as error:
            middle = _middle(steps)
            if middle == 0:
                self._settle_record(work, begin, end)
                return
            if not work.is_halved:
                LOG.info("task %s: %s[%d] is applied in halves: %s", self._task.task_id, *work.lane, error)
                work.is_halved = True
            self._settle_part(work, begin, begin + middle)
            self._settle_part(work, begin + middle, end)
            return
        work.report.add(report)
        work.done = end

    def _settle_record(self, work: _Work, begin: int, end: int) -> None:
        """One record, row by row: all of it or nothing, but for what other rows forbid. That is done with the next change of its row, or
        behind all other steps."""
        report, forbidden = BatchReport(), list[tuple[int | None, _Forbidden]]()
        try:
            with work.transaction.savepoint():
                for place in range(begin, end):
                    for each in self._write_row(work, work.steps[place], report):
                        at = work.next_of_row(place, each.step)
                        if at is not None and at < end:
                            work.steps[at] = work.steps[at].holding(each.step)
                        else:
                            forbidden.append((at, each))
        except (DataError, TargetRejected) as error:
            self._give_up(work, work.steps[begin:end], error)
            work.done = end
            return
        work.report.add(report)
        work.done = end
        for at, each in forbidden:
            if at is None:
                work.put_off.append(each)
            else:
                work.steps[at] = work.steps[at].holding(each.step)

    def _write_row(self, work: _Work, step: Step, report: BatchReport) -> list[_Forbidden]:
        """One row. What of it another row forbids, where it can wait for that one to change: a truncate cannot, nor a row without a key.

        That happens when changes come again, from a position set back or a fetch task that was killed: the target is ahead of them, and
        then a later change of this row follows. Or the other row's change is in another lane.
        """
        batch = self._merged([step], report)
        started = perf_counter()
        try:
            with work.transaction.savepoint():
                counts = work.transaction.write(batch)
        except RowConflict as reason:
            if step.held and self._makes_void(step, step):
                _count_superseded(report, step, step.changes[:-1])
                return self._write_row(work, step._replace(held=()), report)
            parts = [*step.parts()]
            if len(parts) > 1:
                return [left for part in parts for left in self._write_row(work, part, report)]
            if len(step.keys) != 1:
                raise
            return [_Forbidden(step, reason)]
        report.table(batch.table.id).write_ms += (perf_counter() - started) * 1000
        _count(report, [step], counts)
        return []

    def _settle_put_off(self, work: _Work) -> None:
        """What other rows have forbidden, again and again until it helps no more. Then a change is left out where the lane has a later one
        of the same row behind the batch; else it waits for other lanes, or is refused."""
        while put_off := work.put_off:
            work.put_off = []
            for each in put_off:
                work.put_off += self._retry(work, each.step)
            before, now = ([id(each.step.change) for each in steps] for steps in (put_off, work.put_off))
            if now == before and not self._make_room(work) and not self._leave_out_any(work):
                self._give_up_put_off(work, *work.put_off.pop(0))

    def _leave_out_any(self, work: _Work) -> bool:
        """Not before other lanes have had their time: often all that is needed is on its way there."""
        first, reason = work.put_off[0]
        begin = work.first_open(first)
        if begin > work.begin and first.offset >= work.goal.settled_before:
            return False
        try:
            return any(self._leave_out(work, each) for each in [*work.put_off])
        except NotYet:
            raise _Wait(begin, _waits(work, first, reason)) from None

    def _make_room(self, work: _Work) -> bool:
        """Whether rows that wait for each other could be written: what must be unique of them is NULL for a moment, where it may be."""
        report, put_off = BatchReport(), work.put_off
        try:
            with work.transaction.savepoint():
                for step, _ in put_off:
                    work.transaction.write(_without_unique(step))
                for step, reason in put_off:
                    if self._write_row(work, step, report):
                        raise reason
        except (DataError, TargetRejected):
            return False
        work.report.add(report)
        work.put_off = []
        return True

    def _give_up_put_off(self, work: _Work, step: Step, reason: DataError | TargetRejected) -> None:
        is_alone = [each.change for each in work.steps if each.offset == step.offset] == [step.change]
        is_curable = isinstance(reason, RowConflict) and step.offset >= work.goal.settled_before
        if work.is_sure and self._put_dead_letters and not is_curable and not is_alone:
            raise _Again(step.offset, reason)
        self._give_up(work, [step], reason)

    def _retry(self, work: _Work, step: Step) -> list[_Forbidden]:
        report = BatchReport()
        try:
            with work.transaction.savepoint():
                forbidden = self._write_row(work, step, report)
        except (DataError, TargetRejected) as error:
            self._give_up_put_off(work, step, error)
            return []
        work.report.add(report)
        return forbidden

    def _leave_out(self, work: _Work, forbidden: _Forbidden) -> bool:
        """Whether that is right: the row becomes what later changes make of it, if that is possible, as it may hold what other rows need.
        A full one makes this change void even where it is not."""
        step = forbidden.step
        for later in self._look_ahead.later(work.lane, work.goal.end_offset, step, (other.step for other in work.put_off)):
            is_void = self._makes_void(later[0], step)
            if later[0].change.op is Op.TRUNCATE or self._becomes(work, later if is_void else [step, *later]) or is_void:
                work.put_off.remove(forbidden)
                _count_superseded(work.report, step, step.changes)
                return True
        return False

    def _makes_void(self, later: Step, step: Step) -> bool:
        """Whether a row is as it should be after its later change, whatever was there before."""
        if later.change.after is None:
            return True
        brought = {name for change in step.changes for name in change.after or ()}
        may_bring = self._task.insert_on_update_error or later.change.op is not Op.UPDATE or not step.has_insert
        return later.is_full and brought <= later.change.after.keys() and may_bring

    def _becomes(self, work: _Work, later: Sequence[Step]) -> bool:
        try:
            with work.transaction.savepoint():
                work.transaction.write(self._merged(later, BatchReport()))
        except (DataError, TargetRejected):
            return False
        return True

    def _give_up(self, work: _Work, steps: Sequence[Step], error: DataError | TargetRejected) -> None:
        """Steps of one record."""
        if isinstance(error, RowConflict) and steps[0].offset >= work.goal.settled_before:
            raise _Wait(work.first_open(steps[0]), _waits(work, steps[0], error))
        if isinstance(error, TargetRejected) and not work.is_sure:
            raise _Doubt from error
        self._bury(work, steps, error)
        held = (each for step in steps for each in step.held if each.offset != step.offset)  # which are not to blame
        work.put_off += [_Forbidden(each, RowConflict(str(error))) for each in held]

    def _bury(self, work: _Work, steps: Sequence[Step], error: DataError | TargetRejected) -> None:
        self._refuse(work.lane, steps[0].offset, error, work.letters)
        for step in steps:
            failed = work.report.table(step.plan.target.id)
            failed.rows, failed.failed = failed.rows + 1, failed.failed + 1

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
        changes = [change for step in steps for change in step.changes]
        batch = merge(changes, table, insert_on_update=self._task.insert_on_update_error)
        told = report.table(table.id)
        told.missed, told.merge_ms = told.missed + batch.left_out, told.merge_ms + (perf_counter() - started) * 1000
        return batch


def _waits(work: _Work, step: Step, reason: RowConflict) -> str:
    return f"record {work.lane[0]}[{work.lane[1]}]@{step.offset}: {reason}; it waits for records that may change that"


def _without_unique(step: Step) -> TableBatch:
    """The step's row with NULL for each nullable column of a unique key that the step brings anew."""
    table, after = step.plan.target, step.change.after or {}
    nullable = (name for unique in table.unique_keys for name in unique if name in table.columns and table.columns[name].is_nullable)
    emptied = tuple(dict.fromkeys(name for name in nullable if name in after and name not in table.key))
    if not emptied or len(step.keys) != 1:
        return TableBatch(table)
    return TableBatch(table, writes=[Writes((*table.key, *emptied), [(*step.keys[0], *[None] * len(emptied))], may_insert=False)])


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


def _count_superseded(report: BatchReport, step: Step, changes: Sequence[RowChange]) -> None:
    table = report.table(step.plan.target.id)
    table.add_applied(changes, Counts())
    table.superseded += len(changes)


def _count(report: BatchReport, steps: Sequence[Step], counts: Counts) -> None:
    table = report.table(steps[0].plan.target.id)
    table.add_applied((change for step in steps for change in step.changes), counts)
    table.dropped += sum(len(step.changes) for step in steps if step.plan.dropped)
