"""Writes a prepared part of a partition to the target: tries transactions until one commits."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from time import perf_counter

from cdcbus.consumer.apply.conflicts import (
    ConflictResolver,
    PartitionSlice,
    RetryWithout,
    SchemaStale,
)
from cdcbus.consumer.apply.deletes import Deletes
from cdcbus.consumer.apply.lookahead import LookAhead
from cdcbus.consumer.apply.prepare import Prepared, Preparer
from cdcbus.consumer.apply.row_order import overtaken_reason
from cdcbus.consumer.apply.scattered import FoundScattered, OlderChanges, ScatteredTables
from cdcbus.consumer.apply.writer import write_net
from cdcbus.consumer.config import LoadTask
from cdcbus.consumer.merge.columnar import NetColumns
from cdcbus.consumer.offsets.held import HeldOffsets
from cdcbus.consumer.records.arrival_clock import ArrivalClock
from cdcbus.consumer.records.batch_report import BatchReport
from cdcbus.consumer.records.dead_letters import DeadLetter
from cdcbus.plugins.contracts import Loader, LoadTransaction
from cdcbus.plugins.errors import (
    DataError,
    RowConflict,
    TargetRejected,
    TargetTableUnfit,
    TargetUnavailable,
)

LOG = logging.getLogger(__name__)


@dataclass(slots=True)
class _Attempt:
    """What former attempts have shown. `refused`: the offsets of refused records, and
    why. `is_sure`: the rows are known to be mapped for the target's tables as they are
    now. `is_checked_at_once`: a constraint that is checked at the commit was violated, so
    all are checked immediately."""

    refused: dict[int, DataError | TargetRejected] = field(default_factory=dict)
    is_sure: bool = False
    is_checked_at_once: bool = False

    @property
    def is_logged(self) -> bool:
        """Whether it has been logged that the net effect is refused."""
        return self.is_sure or bool(self.refused)


class _RefusedAtCommit(Exception):
    """The target has refused at the commit what it had accepted before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempts:
    """Writes prepared changes, with their offset, in one transaction; where the target refuses
    them, the next attempt knows why. Thread-safe."""

    task: LoadTask
    loader: Loader
    held: HeldOffsets
    preparer: Preparer
    scattered: ScatteredTables
    older: OlderChanges
    look_ahead: LookAhead
    deletes: Deletes
    put_dead_letters: Callable[[Sequence[DeadLetter]], None] | None
    is_merging: bool
    arrivals: ArrivalClock

    def write(self, prepared: Prepared, part: PartitionSlice) -> BatchReport:
        """Writes a prepared part, in as many attempts as it takes. Raises Blocked when the
        partition must wait, and as `PartitionApplier.apply`."""
        attempt = _Attempt()
        while True:
            try:
                return self._write_once(prepared, part, attempt)
            except TargetTableUnfit:
                self._look_again(prepared)
                raise
            except SchemaStale:
                self._look_again(prepared)
                attempt.is_sure = True
            except RetryWithout as again:
                attempt.refused |= again.refused
            except _RefusedAtCommit:
                attempt.is_checked_at_once = True
            except FoundScattered:
                self.scattered.look_again(prepared.alone)
                prepared = self._with_versions(prepared, attempt)
            except (DataError, TargetRejected):
                # A change that is older than its row is left out, and not refused.
                if not (prepared.alone and self.scattered.look_again(prepared.alone)):
                    raise
                prepared = self._with_versions(prepared, attempt)
            # The record for which the columns were refused is found row by row.
            if prepared.net:
                prepared = self.preparer.in_rows(prepared)

    def _with_versions(self, prepared: Prepared, attempt: _Attempt) -> Prepared:
        """The same part once tables are known to be scattered: what was refused until now can be
        too old."""
        attempt.refused.clear()
        return self.preparer.in_rows(prepared)

    def _look_again(self, prepared: Prepared) -> None:
        """Raises TargetUnavailable when a table has been altered; then its known definition is
        dropped."""
        for table in prepared.tables().values():
            if self.loader.is_altered(table):
                raise TargetUnavailable(
                    f"target table {table.id} has been altered meanwhile, and is looked at again"
                )

    def _write_once(
        self, prepared: Prepared, part: PartitionSlice, attempt: _Attempt
    ) -> BatchReport:
        """Makes one attempt. Raises SchemaStale, RetryWithout, Blocked when the partition must
        wait, _RefusedAtCommit, and FoundScattered."""
        started = perf_counter()
        is_written = False
        seen = self.held.get(part.partition)
        last = prepared.records.last_before(part.end_offset)
        done = self.held.after(part.partition, part.end_offset, part.position_version, last)
        try:
            with self.loader.transaction() as transaction:
                if attempt.is_checked_at_once:
                    transaction.check_at_once()
                report, dead_letters = self._written(transaction, prepared, part, attempt)
                _check_alone(transaction, prepared)
                # Durable before the offset moves past them: after a kill in between they are put
                # again.
                if dead_letters and self.put_dead_letters:
                    self.put_dead_letters(dead_letters)
                    # Again, as that can take a while.
                    _check_alone(transaction, prepared)
                transaction.store_offset(done, seen)
                applied = perf_counter()
                is_written = True
        except RowConflict as error:
            # A deferred constraint: checked immediately, it names the row that violates it.
            if is_written and not attempt.is_checked_at_once:
                raise _RefusedAtCommit from error
            raise
        self.held.by_partition[part.partition] = done
        report.apply_ms = (applied - started) * 1000
        report.commit_ms = (perf_counter() - applied) * 1000
        return report

    def _written(
        self,
        transaction: LoadTransaction,
        prepared: Prepared,
        part: PartitionSlice,
        attempt: _Attempt,
    ) -> tuple[BatchReport, list[DeadLetter] | None]:
        """Writes the changes; returns the report, and the dead letters that they make."""
        is_logged = attempt.is_logged
        if prepared.net:
            if report := self._columns_written(transaction, prepared, prepared.net):
                return report, prepared.dead_letters
            prepared = self.preparer.in_rows(prepared)
            is_logged = True
        superseded = BatchReport()
        steps = [step for step in prepared.steps if step.offset not in attempt.refused]
        steps, overtaken = self.older.without(transaction, prepared.versions, steps, superseded)
        dead_letters = None if prepared.dead_letters is None else [*prepared.dead_letters]
        resolver = ConflictResolver(
            task=self.task,
            look_ahead=self.look_ahead,
            transaction=transaction,
            part=part,
            steps=steps,
            dead_letters=dead_letters,
            is_merging=self.is_merging,
            is_sure=attempt.is_sure,
            is_logged=is_logged,
        )
        resolver.report.add(prepared.report)
        resolver.report.add(superseded)
        for offset, reason in attempt.refused.items():
            refused = [step for step in prepared.steps if step.offset == offset]
            resolver.send_to_dead_letters(refused, reason)
        if overtaken:
            self.arrivals.saw(prepared.records.kafka_times()[1])
            resolver.resolve_overtaken(overtaken, self.deletes, self.arrivals)
        resolver.resolve()
        return resolver.report, dead_letters

    def _columns_written(
        self, transaction: LoadTransaction, prepared: Prepared, net: NetColumns
    ) -> BatchReport | None:
        """Applies the net effects of columns and steps together. Returns None, with nothing done,
        where the target refuses them."""
        steps = [step for step in prepared.steps if step.plan.target.id not in net.tables]
        report = BatchReport()
        report.add(prepared.report)
        try:
            with transaction.savepoint():
                steps, overtaken = self.older.without(transaction, prepared.versions, steps, report)
                if overtaken:
                    raise overtaken_reason(overtaken[0].step)
                report.add(write_net(self.task, transaction, steps, net.tables))
        except (DataError, TargetRejected) as error:
            LOG.info(
                "task %s: %s is applied row by row: %s",
                self.task.task_id,
                prepared.partition,
                error,
            )
            return None
        report.committed(net.first_commit_ms, net.last_commit_ms)
        return report


def _check_alone(transaction: LoadTransaction, prepared: Prepared) -> None:
    """Raises FoundScattered where another process may have made a version table since this part was
    prepared."""
    if prepared.alone and transaction.has_version_table(prepared.alone):
        raise FoundScattered
