"""Applies a partition's steps to the target, one after the other where it refuses them together.

They are written as their net effect. Where the target refuses that, they are halved, in source
order, until the records that it refuses are separated from the rest: a value that moves between
rows is free when its turn comes. A change that another row blocks is deferred.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from operator import attrgetter
from time import perf_counter
from typing import NamedTuple, NoReturn

from cdcbus.consumer.apply.deletes import Deletes
from cdcbus.consumer.apply.levels import levels, middle_of
from cdcbus.consumer.apply.lookahead import LookAhead, NotYet
from cdcbus.consumer.apply.row_order import Overtaken, overtaken_reason
from cdcbus.consumer.apply.writer import (
    count_applied,
    count_superseded,
    net_of,
    with_unique_emptied,
    write_net,
)
from cdcbus.consumer.config import LoadTask
from cdcbus.consumer.merge.fold import AlikeKeys
from cdcbus.consumer.merge.mapped_change import MappedChange, SameRow, makes_void, target_tables
from cdcbus.consumer.records.arrival_clock import ArrivalClock
from cdcbus.consumer.records.batch_report import BatchReport
from cdcbus.consumer.records.dead_letters import DeadLetter, refuse
from cdcbus.plugins.contracts import LoadTransaction, TableBatch
from cdcbus.plugins.errors import DataError, RowConflict, TargetRejected
from cdcbus.plugins.positions import TopicPartition
from cdcbus.plugins.rowchange import Op

LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PartitionSlice:
    """A partition's records from `begin` to before `end_offset`: see
    `PartitionApplier.apply`. `is_hasty`: the partition waits immediately when another row
    blocks a change, as it is then applied together with others."""

    partition: TopicPartition
    begin: int
    end_offset: int
    position_version: int
    low_watermark: int
    is_hasty: bool = False


class SchemaStale(Exception):
    """A table has refused a record, and may have been altered since the rows were mapped for it."""


class Blocked(Exception):
    """Another row blocks a change, and a change in another partition can unblock it: nothing from
    `offset` on is applied."""

    def __init__(self, offset: int, reason: str) -> None:
        super().__init__(offset, reason)
        self.offset, self.reason = offset, reason


class RetryWithout(Exception):
    """Records are refused after a part of what they bring was written, other rows or a version: the
    transaction is retried without them. `refused`: their offsets, and why."""

    def __init__(self, refused: Mapping[int, DataError | TargetRejected]) -> None:
        super().__init__(refused)
        self.refused = refused


class _Deferred(NamedTuple):
    """A step that another row blocks, or a partial update whose row is missing, and the reason."""

    step: MappedChange
    reason: TargetRejected


@dataclass(slots=True, kw_only=True)
class ConflictResolver:
    """Applies the steps of one part of a partition, in one transaction. Changes blocked by another
    row are deferred, and retried after all others."""

    task: LoadTask
    look_ahead: LookAhead
    transaction: LoadTransaction
    part: PartitionSlice
    steps: list[MappedChange]
    # None where there must be none.
    dead_letters: list[DeadLetter] | None
    # See Loader.
    is_merging: bool
    # The rows are known to be mapped for the target's tables as they are now.
    is_sure: bool
    # It has been logged that the net effect is refused.
    is_logged: bool
    # On everything applied.
    report: BatchReport = field(default_factory=BatchReport)
    # The number of steps applied so far.
    done: int = 0
    deferred: list[_Deferred] = field(default_factory=list)
    same_row: SameRow | None = None
    # Refused records with rows whose version is written -> why.
    versioned: dict[int, DataError | TargetRejected] = field(default_factory=dict)

    def resolve(self) -> None:
        """Applies everything that the target accepts; the rest becomes dead letters, or
        is raised as DataError or TargetRejected where there must be none. Raises Blocked,
        RetryWithout, SchemaStale, and errors that pass with time."""
        if self.is_merging:
            self._resolve_part(0, len(self.steps))
        else:
            begin = 0
            for _, record in groupby(self.steps, attrgetter("offset")):
                end = begin + len(list(record))
                self._resolve_record(begin, end)
                begin = end
        self._resolve_deferred()
        if self.versioned:
            raise RetryWithout(self.versioned)

    def resolve_overtaken(
        self, overtaken: Sequence[Overtaken], deletes: Deletes, arrivals: ArrivalClock
    ) -> None:
        """Leaves out overtaken steps whose rows the partition deletes after the batch.
        Where it does not, two rows of the source have equal keys at the target, unless
        the delete is still on its way. Raises as `resolve`."""
        steps = [step for step, _ in overtaken]
        for step, by in overtaken:
            arrivals.saw(by.came_ms)
            found = deletes.find(self.part.partition, self.part.end_offset, step, steps)
            if not found:
                is_sure = found is not None and arrivals.has_all_before(by.came_ms)
                why = deletes.unshown(self.part.partition, step)
                self._refuse_overtaken(step, why, is_sure=is_sure)
            count_superseded(self.report, step, step.changes)

    def _refuse_overtaken(self, step: MappedChange, why: str, *, is_sure: bool) -> NoReturn:
        """`why`: as for `_blocked_reason`."""
        reason = overtaken_reason(step)
        if not is_sure:
            raise Blocked(step.offset, _blocked_reason(self.part.partition, step, reason, why))
        if not self.is_sure:
            raise SchemaStale from reason
        if self.dead_letters is not None:
            raise RetryWithout({step.offset: reason})
        refuse(None, self.part.partition, step.offset, reason)
        raise reason

    def _resolve_part(self, begin: int, end: int) -> None:
        if begin == end:
            return
        steps = self.steps[begin:end]
        try:
            with self.transaction.savepoint():
                report = write_net(self.task, self.transaction, steps)
        except (DataError, TargetRejected) as error:
            is_whole = len(steps) == len(self.steps)
            # Halves of a long chain of rows that wait for each other would be many.
            may_order = isinstance(error, AlikeKeys) or (
                is_whole and isinstance(error, RowConflict)
            )
            if may_order and self._resolve_levels(begin, end):
                return
            if is_whole and isinstance(error, RowConflict) and self.part.is_hasty:
                reason = _blocked_reason(self.part.partition, steps[0], error)
                raise Blocked(self.part.begin, reason) from None
            middle = middle_of(steps)
            if middle == 0:
                self._resolve_record(begin, end)
                return
            if not self.is_logged:
                LOG.info(
                    "task %s: %s is applied in halves: %s",
                    self.task.task_id,
                    self.part.partition,
                    error,
                )
                self.is_logged = True
            self._resolve_part(begin, begin + middle)
            self._resolve_part(begin + middle, end)
            return
        self.report.add(report)
        self.done = end

    def _resolve_levels(self, begin: int, end: int) -> bool:
        """Applies steps level by level; returns whether the target accepts them. Levels do not
        keep the order of rows that the target's foreign keys change."""
        steps = self.steps[begin:end]
        if any(table.cascades for table in target_tables(steps).values()):
            return False
        parts = levels(steps)
        report = BatchReport()
        if len(parts) < 2:
            return False
        try:
            with self.transaction.savepoint():
                for part in parts:
                    report.add(write_net(self.task, self.transaction, part))
        except (DataError, TargetRejected):
            return False
        self.report.add(report)
        self.done = end
        return True

    def _resolve_record(self, begin: int, end: int) -> None:
        """Applies one record, row by row: all of it or nothing, except changes that other
        rows block. Those are applied with the next change of their row, or after all
        other steps."""
        report = BatchReport()
        blocked: list[tuple[int | None, _Deferred]] = []
        try:
            with self.transaction.savepoint():
                for place in range(begin, end):
                    for each in self._write_row(self.steps[place], report):
                        at = self._next_of_row(place, each.step)
                        if at is not None and at < end:
                            self.steps[at] = self.steps[at].holding(each.step)
                        else:
                            blocked.append((at, each))
        except (DataError, TargetRejected) as error:
            self._give_up(self.steps[begin:end], error)
            self.done = end
            return
        self.report.add(report)
        self.done = end
        for at, each in blocked:
            if at is None:
                self.deferred.append(each)
            else:
                self.steps[at] = self.steps[at].holding(each.step)

    def _write_row(self, step: MappedChange, report: BatchReport) -> list[_Deferred]:
        """Writes one row. Returns the parts of the step that another row blocks and that
        can wait for that row to change; a truncate cannot wait, nor can a row without a
        key.

        Rows block each other when changes come again, after a position was set back or a
        fetch task was killed: the target is ahead of them, and a later change of this row
        follows. Or the other row's change is in another partition. For the same reason an
        update that lacks columns can meet a row that is deleted by now.
        """
        batch = net_of(self.task, [step], report)
        started = perf_counter()
        try:
            with self.transaction.savepoint():
                counts = self.transaction.write(batch)
        except TargetRejected as reason:
            if not isinstance(reason, RowConflict):
                if not self._lacks_row(step, batch):
                    raise
                return [_Deferred(step, reason)]
            if step.held and self._is_void(step, step):
                # The held changes need not be written, as this change sets the whole row.
                count_superseded(report, step, step.changes[:-1])
                return self._write_row(step._replace(held=()), report)
            parts = [*step.parts()]
            if len(parts) > 1:
                left: list[_Deferred] = []
                for part in parts:
                    left += self._write_row(part, report)
                return left
            if len(step.keys) != 1:
                raise
            return [_Deferred(step, reason)]
        report.table(batch.table.id).write_ms += (perf_counter() - started) * 1000
        count_applied(report, [step], counts)
        return []

    def _lacks_row(self, step: MappedChange, batch: TableBatch) -> bool:
        """Whether the step updates a part of a row that the target does not have. To be called
        within a savepoint that is undone."""
        are_updates = all(change.op is Op.UPDATE for change in step.changes)
        if not are_updates or step.is_full or len(step.keys) != 1:
            return False
        writes = [replace(each, may_insert=False) for each in batch.writes]
        try:
            with self.transaction.savepoint():
                return not self.transaction.write(replace(batch, writes=writes)).written
        except TargetRejected:
            return False

    def _resolve_deferred(self) -> None:
        """Retries deferred changes as long as that helps. Then a change is left out where the
        partition has a later one of the same row after the batch; else it waits for other
        partitions, or is refused."""
        while deferred := self.deferred:
            self.deferred = []
            for each in deferred:
                self.deferred += self._retry(each.step)
            is_no_help = _identities(self.deferred) == _identities(deferred)
            if is_no_help and not self._make_room() and not self._leave_out_any():
                self._give_up_deferred(*self.deferred.pop(0))

    def _leave_out_any(self) -> bool:
        """Leaves out a deferred change if possible; returns whether one was left out.
        Other partitions are waited for first where another row blocks it, as the change that
        is needed is often on its way there."""
        first, reason = self.deferred[0]
        begin = self._first_open(first)
        candidates = [*self.deferred]
        if not isinstance(reason, RowConflict):
            candidates = candidates[:1]
        elif begin > self.part.begin and first.offset >= self.part.low_watermark:
            return False
        try:
            return any(self._leave_out(each) for each in candidates)
        except NotYet as not_yet:
            text = _blocked_reason(self.part.partition, first, reason, str(not_yet))
            raise Blocked(begin, text) from None

    def _make_room(self) -> bool:
        """Writes rows that wait for each other by setting their nullable unique columns to NULL in
        between; returns whether that worked."""
        report = BatchReport()
        deferred: list[_Deferred] = []
        others: list[_Deferred] = []
        for each in self.deferred:
            (deferred if isinstance(each.reason, RowConflict) else others).append(each)
        if not deferred:
            return False
        try:
            with self.transaction.savepoint():
                for step, _ in deferred:
                    self.transaction.write(with_unique_emptied(step))
                for step, reason in deferred:
                    if self._write_row(step, report):
                        raise reason
        except (DataError, TargetRejected):
            return False
        self.report.add(report)
        self.deferred = others
        return True

    def _give_up_deferred(self, step: MappedChange, reason: DataError | TargetRejected) -> None:
        of_record = [each.change for each in self.steps if each.offset == step.offset]
        is_alone = of_record == [step.change]
        may_wait = isinstance(reason, RowConflict) and step.offset >= self.part.low_watermark
        makes_dead_letters = self.is_sure and self.dead_letters is not None
        # A dead letter is a whole record, so the parts of it that were applied must be undone.
        if makes_dead_letters and not may_wait and not is_alone:
            raise RetryWithout({step.offset: reason})
        self._give_up([step], reason)

    def _retry(self, step: MappedChange) -> list[_Deferred]:
        report = BatchReport()
        try:
            with self.transaction.savepoint():
                blocked = self._write_row(step, report)
        except (DataError, TargetRejected) as error:
            self._give_up_deferred(step, error)
            return []
        self.report.add(report)
        return blocked

    def _leave_out(self, blocked: _Deferred) -> bool:
        """Leaves out a blocked change if the row has later changes; returns whether it
        was left out. The row is written as the later changes make it, where possible, as
        it may hold values that other rows need. A later full change makes the blocked one
        obsolete even where that is not possible."""
        step = blocked.step
        others = (other.step for other in self.deferred)
        part = self.part
        for later in self.look_ahead.later(part.partition, part.end_offset, step, others):
            is_truncated = later[0].change.op is Op.TRUNCATE
            is_void = self._is_void(step, later[0])
            becoming = later if is_void else [step, *later]
            # Written even where the change is obsolete: the row may hold values that others need.
            if is_truncated or self._becomes(becoming) or is_void:
                self.deferred.remove(blocked)
                count_superseded(self.report, step, step.changes)
                return True
        return False

    def _is_void(self, step: MappedChange, later: MappedChange) -> bool:
        return makes_void(later, step, may_insert=self.task.insert_on_update_error)

    def _becomes(self, later: Sequence[MappedChange]) -> bool:
        try:
            with self.transaction.savepoint():
                self.transaction.write(net_of(self.task, later, BatchReport()))
        except (DataError, TargetRejected):
            return False
        return True

    def _give_up(self, steps: Sequence[MappedChange], error: DataError | TargetRejected) -> None:
        """Gives up steps of one record: raises Blocked or SchemaStale, or makes a dead letter."""
        if isinstance(error, RowConflict) and steps[0].offset >= self.part.low_watermark:
            reason = _blocked_reason(self.part.partition, steps[0], error)
            raise Blocked(self._first_open(steps[0]), reason)
        if isinstance(error, TargetRejected) and not self.is_sure:
            raise SchemaStale from error
        self.send_to_dead_letters(steps, error)
        for step in steps:
            # With the version of a row that is not written, older changes would be left out.
            if step.stands_for_row:
                self.versioned[step.offset] = error
            # Changes of earlier records that this step holds are not to blame, and are retried.
            for held in step.held:
                if held.offset != step.offset:
                    self.deferred.append(_Deferred(held, RowConflict(str(error))))

    def send_to_dead_letters(
        self, steps: Sequence[MappedChange], error: DataError | TargetRejected
    ) -> None:
        """Makes a dead letter of the record with these steps."""
        refuse(self.dead_letters, self.part.partition, steps[0].offset, error)
        for step in steps:
            failed = self.report.table(step.plan.target.id)
            failed.rows += 1
            failed.failed += 1

    def _next_of_row(self, place: int, step: MappedChange) -> int | None:
        """The index of the next step of the same row; None without one."""
        if self.same_row is None:
            self.same_row = SameRow(self.steps)
        return self.same_row.after(place, step)

    def _first_open(self, step: MappedChange) -> int:
        """The offset before which everything is applied, given that this step, the deferred ones
        and those not yet reached are not."""
        offsets = step.offsets
        for deferred, _ in self.deferred:
            offsets |= deferred.offsets
        for later in self.steps[self.done :]:
            for held in later.held:
                offsets |= held.offsets
        return min(offsets)


def _identities(deferred: Sequence[_Deferred]) -> list[int]:
    """What two lists of the same steps have in common: their changes, as a step that has come to
    hold earlier changes is a new object."""
    return [id(each.step.change) for each in deferred]


def _blocked_reason(
    partition: TopicPartition, step: MappedChange, reason: TargetRejected, why: str = ""
) -> str:
    """`why`: why it is not known whether such records follow; empty without a reason."""
    waits = f"record {partition}@{step.offset}: {reason}; it waits for records that may change that"
    return f"{waits}, and {why}" if why else waits
