"""A partition's steps on their way into the target, one after the other where it does not take them
at once.

They are written as their net effect. Where the target refuses that, they are halved, in source
order, until what it takes and the records that it refuses are apart: a value that moves between
rows is free when its turn comes. A change that another row blocks is deferred.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from time import perf_counter
from typing import NamedTuple, NoReturn

from cdcbus.consumer.apply.deletes import Deletes
from cdcbus.consumer.apply.levels import levels, middle_of
from cdcbus.consumer.apply.lookahead import LookAhead, NotYet
from cdcbus.consumer.apply.row_order import Overtaken, overtaken_reason
from cdcbus.consumer.apply.watermark import are_all_there
from cdcbus.consumer.apply.writer import (
    count_applied,
    count_superseded,
    net_of,
    with_unique_emptied,
    write_net,
)
from cdcbus.consumer.config import LoadTask
from cdcbus.consumer.merge.mapped_change import MappedChange, SameRow, makes_void
from cdcbus.consumer.records.batch_report import BatchReport
from cdcbus.consumer.records.dead_letters import DeadLetter, refuse
from cdcbus.plugins.contracts import LoadTransaction
from cdcbus.plugins.errors import DataError, RowConflict, TargetRejected
from cdcbus.plugins.positions import TopicPartition
from cdcbus.plugins.rowchange import Op

LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PartitionSlice:
    """A partition's records from `begin` to before `end_offset`: see `PartitionApplier.apply`.
    `is_hasty`: the partition waits at once when another row blocks a change, as it is then applied
    together with others."""

    partition: TopicPartition
    begin: int
    end_offset: int
    position_version: int
    low_watermark: int
    is_hasty: bool = False


class SchemaStale(Exception):
    """A record was refused by a table that may have been altered since its rows were made for
    it."""


class Blocked(Exception):
    """Another row blocks a change, and a change in another partition can end that: nothing from an
    offset on is applied."""

    def __init__(self, offset: int, reason: str) -> None:
        super().__init__(offset, reason)
        self.offset, self.reason = offset, reason


class RetryWithout(Exception):
    """A record is refused of which other rows are applied already: the transaction is tried again
    without it."""

    def __init__(self, offset: int, reason: DataError | TargetRejected) -> None:
        super().__init__(offset, reason)
        self.offset, self.reason = offset, reason


class _Deferred(NamedTuple):
    """A step, and why another row blocks it."""

    step: MappedChange
    reason: RowConflict


class ConflictResolver:
    """Applies the steps of one part of a partition, in one transaction. `_done` counts the steps
    applied so far. Changes blocked by another row are deferred, and retried after all others."""

    def __init__(
        self,
        task: LoadTask,
        look_ahead: LookAhead,
        transaction: LoadTransaction,
        part: PartitionSlice,
        steps: list[MappedChange],
        dead_letters: list[DeadLetter] | None,
        *,
        is_merging: bool,
        is_sure: bool,
        is_logged: bool,
    ) -> None:
        """`dead_letters`: None where there are to be none. `is_merging`: see Loader. `is_sure`:
        the target's tables are known to be what the rows were made for. `is_logged`: the log says
        already that the net effect is refused."""
        self._task = task
        self._look_ahead = look_ahead
        self._transaction = transaction
        self._part = part
        self._steps = steps
        self._dead_letters = dead_letters
        self._is_merging = is_merging
        self._is_sure = is_sure
        self._is_logged = is_logged
        self._done = 0
        self._deferred: list[_Deferred] = []
        self._same_row: SameRow | None = None
        self.report = BatchReport()
        """Of all that is applied."""

    def resolve(self) -> None:
        """Applies all that the target takes; the rest becomes dead letters, or is raised as
        DataError or TargetRejected where there are to be none. Raises Blocked, RetryWithout,
        SchemaStale, and what needs no person but time."""
        if self._is_merging:
            self._resolve_part(0, len(self._steps))
        else:
            begin = 0
            for _, record in groupby(self._steps, attrgetter("offset")):
                end = begin + len(list(record))
                self._resolve_record(begin, end)
                begin = end
        self._resolve_deferred()

    def resolve_overtaken(self, overtaken: Sequence[Overtaken], deletes: Deletes) -> None:
        """Leaves out those whose rows the partition deletes behind the batch. Where it does not,
        two rows of the source are one to the target; but the delete may be on its way. Raises as
        `resolve`."""
        steps = [step for step, _ in overtaken]
        for step, by in overtaken:
            found = deletes.find(self._part.partition, self._part.end_offset, step, steps)
            if not found:
                self._refuse_overtaken(
                    step, is_sure=found is not None and are_all_there(by.came_ms)
                )
            count_superseded(self.report, step, step.changes)

    def _refuse_overtaken(self, step: MappedChange, *, is_sure: bool) -> NoReturn:
        reason = overtaken_reason(step)
        if not is_sure:
            raise Blocked(step.offset, _blocked_reason(self._part.partition, step, reason))
        if not self._is_sure:
            raise SchemaStale from reason
        if self._dead_letters is not None:
            raise RetryWithout(step.offset, reason)
        refuse(None, self._part.partition, step.offset, reason)
        raise reason

    def _resolve_part(self, begin: int, end: int) -> None:
        if begin == end:
            return
        steps = self._steps[begin:end]
        try:
            with self._transaction.savepoint():
                report = write_net(self._task, self._transaction, steps)
        except (DataError, TargetRejected) as error:
            is_whole = len(steps) == len(self._steps)
            if is_whole and isinstance(error, RowConflict):
                # Halves of a long chain of rows that wait for each other would be many.
                if self._resolve_levels():
                    return
                if self._part.is_hasty:
                    reason = _blocked_reason(self._part.partition, steps[0], error)
                    raise Blocked(self._part.begin, reason) from None
            middle = middle_of(steps)
            if middle == 0:
                self._resolve_record(begin, end)
                return
            if not self._is_logged:
                LOG.info(
                    "task %s: %s is applied in halves: %s",
                    self._task.task_id,
                    self._part.partition,
                    error,
                )
                self._is_logged = True
            self._resolve_part(begin, begin + middle)
            self._resolve_part(begin + middle, end)
            return
        self.report.add(report)
        self._done = end

    def _resolve_levels(self) -> bool:
        """Whether the target takes all steps level by level."""
        parts = levels(self._steps)
        report = BatchReport()
        if len(parts) < 2:
            return False
        try:
            with self._transaction.savepoint():
                for part in parts:
                    report.add(write_net(self._task, self._transaction, part))
        except (DataError, TargetRejected):
            return False
        self.report.add(report)
        self._done = len(self._steps)
        return True

    def _resolve_record(self, begin: int, end: int) -> None:
        """One record, row by row: all of it or nothing, but for what other rows block. That is
        done with the next change of its row, or after all other steps."""
        report = BatchReport()
        blocked: list[tuple[int | None, _Deferred]] = []
        try:
            with self._transaction.savepoint():
                for place in range(begin, end):
                    for each in self._write_row(self._steps[place], report):
                        at = self._next_of_row(place, each.step)
                        if at is not None and at < end:
                            self._steps[at] = self._steps[at].holding(each.step)
                        else:
                            blocked.append((at, each))
        except (DataError, TargetRejected) as error:
            self._give_up(self._steps[begin:end], error)
            self._done = end
            return
        self.report.add(report)
        self._done = end
        for at, each in blocked:
            if at is None:
                self._deferred.append(each)
            else:
                self._steps[at] = self._steps[at].holding(each.step)

    def _write_row(self, step: MappedChange, report: BatchReport) -> list[_Deferred]:
        """One row. Returns what of it another row blocks, where it can wait for that one to change:
        a truncate cannot, nor a row without a key.

        That happens when changes come again, from a position set back or a fetch task that was
        killed: the target is ahead of them, and then a later change of this row follows. Or the
        other row's change is in another partition.
        """
        batch = net_of(self._task, [step], report)
        started = perf_counter()
        try:
            with self._transaction.savepoint():
                counts = self._transaction.write(batch)
        except RowConflict as reason:
            if step.held and self._is_void(step, step):
                # What is held need not be written at all: this change says all of the row.
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

    def _resolve_deferred(self) -> None:
        """Retries deferred changes until that helps no more. Then a change is left out where the
        partition has a later one of the same row behind the batch; else it waits for other
        partitions, or is refused."""
        while deferred := self._deferred:
            self._deferred = []
            for each in deferred:
                self._deferred += self._retry(each.step)
            # By identity of the change: a step is another one once it holds earlier changes.
            before = [id(each.step.change) for each in deferred]
            now = [id(each.step.change) for each in self._deferred]
            if now == before and not self._make_room() and not self._leave_out_any():
                self._give_up_deferred(*self._deferred.pop(0))

    def _leave_out_any(self) -> bool:
        """Not before other partitions have had their time: often all that is needed is on its way
        there."""
        first, reason = self._deferred[0]
        begin = self._first_open(first)
        if begin > self._part.begin and first.offset >= self._part.low_watermark:
            return False
        try:
            return any(self._leave_out(each) for each in [*self._deferred])
        except NotYet:
            raise Blocked(begin, _blocked_reason(self._part.partition, first, reason)) from None

    def _make_room(self) -> bool:
        """Whether rows that wait for each other could be written: what must be unique of them is
        NULL for a moment, where it may be."""
        report = BatchReport()
        deferred = self._deferred
        try:
            with self._transaction.savepoint():
                for step, _ in deferred:
                    self._transaction.write(with_unique_emptied(step))
                for step, reason in deferred:
                    if self._write_row(step, report):
                        raise reason
        except (DataError, TargetRejected):
            return False
        self.report.add(report)
        self._deferred = []
        return True

    def _give_up_deferred(self, step: MappedChange, reason: DataError | TargetRejected) -> None:
        of_record = [each.change for each in self._steps if each.offset == step.offset]
        is_alone = of_record == [step.change]
        may_wait = isinstance(reason, RowConflict) and step.offset >= self._part.low_watermark
        makes_dead_letters = self._is_sure and self._dead_letters is not None
        # A record is a dead letter as a whole, so what is applied of it must be undone.
        if makes_dead_letters and not may_wait and not is_alone:
            raise RetryWithout(step.offset, reason)
        self._give_up([step], reason)

    def _retry(self, step: MappedChange) -> list[_Deferred]:
        report = BatchReport()
        try:
            with self._transaction.savepoint():
                blocked = self._write_row(step, report)
        except (DataError, TargetRejected) as error:
            self._give_up_deferred(step, error)
            return []
        self.report.add(report)
        return blocked

    def _leave_out(self, blocked: _Deferred) -> bool:
        """Whether that is right: the row becomes what later changes make of it, if that is
        possible, as it may hold what other rows need. A full one makes this change void even
        where it is not."""
        step = blocked.step
        others = (other.step for other in self._deferred)
        part = self._part
        for later in self._look_ahead.later(part.partition, part.end_offset, step, others):
            is_truncated = later[0].change.op is Op.TRUNCATE
            is_void = self._is_void(step, later[0])
            becoming = later if is_void else [step, *later]
            # Written also where the change is void anyway: the row may hold what others need.
            if is_truncated or self._becomes(becoming) or is_void:
                self._deferred.remove(blocked)
                count_superseded(self.report, step, step.changes)
                return True
        return False

    def _is_void(self, step: MappedChange, later: MappedChange) -> bool:
        return makes_void(later, step, may_insert=self._task.insert_on_update_error)

    def _becomes(self, later: Sequence[MappedChange]) -> bool:
        try:
            with self._transaction.savepoint():
                self._transaction.write(net_of(self._task, later, BatchReport()))
        except (DataError, TargetRejected):
            return False
        return True

    def _give_up(self, steps: Sequence[MappedChange], error: DataError | TargetRejected) -> None:
        """Steps of one record."""
        if isinstance(error, RowConflict) and steps[0].offset >= self._part.low_watermark:
            reason = _blocked_reason(self._part.partition, steps[0], error)
            raise Blocked(self._first_open(steps[0]), reason)
        if isinstance(error, TargetRejected) and not self._is_sure:
            raise SchemaStale from error
        self.send_to_dead_letters(steps, error)
        for step in steps:
            # Changes of earlier records that wait for this one are not to blame.
            others = [each for each in step.held if each.offset != step.offset]
            self._deferred += [_Deferred(each, RowConflict(str(error))) for each in others]

    def send_to_dead_letters(
        self, steps: Sequence[MappedChange], error: DataError | TargetRejected
    ) -> None:
        """Makes a dead letter of a record, of these steps."""
        refuse(self._dead_letters, self._part.partition, steps[0].offset, error)
        for step in steps:
            failed = self.report.table(step.plan.target.id)
            failed.rows += 1
            failed.failed += 1

    def _next_of_row(self, place: int, step: MappedChange) -> int | None:
        """The place of the next step of the same row."""
        if self._same_row is None:
            self._same_row = SameRow(self._steps)
        return self._same_row.after(place, step)

    def _first_open(self, step: MappedChange) -> int:
        """The offset before which all is applied, though this step, the deferred ones and those to
        come are not."""
        waiting = [step, *(other for other, _ in self._deferred)]
        for each in self._steps[self._done :]:
            waiting += each.held
        return min(min(each.offsets) for each in waiting)


def _blocked_reason(partition: TopicPartition, step: MappedChange, reason: RowConflict) -> str:
    return f"record {partition}@{step.offset}: {reason}; it waits for records that may change that"
