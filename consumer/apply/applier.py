"""One micro-batch into the target: each Kafka partition is applied in order in one target
transaction with its offset.

A partition is written as the net effect of its changes, in columns where its records need no look
of their own, else in steps.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import repeat
from operator import attrgetter, itemgetter
from time import perf_counter

from cdcbus.consumer.apply.conflicts import (
    Blocked,
    ConflictResolver,
    JointConflictResolver,
    PartitionSlice,
    RetryWithout,
    SchemaStale,
    overtaken_reason,
)
from cdcbus.consumer.apply.deletes import Deletes
from cdcbus.consumer.apply.levels import in_source_order
from cdcbus.consumer.apply.lookahead import LookAhead, ReadOn, no_future
from cdcbus.consumer.apply.placing import Placing
from cdcbus.consumer.apply.row_order import Overtaken, newest
from cdcbus.consumer.apply.writer import NOTHING_KNOWN, count_superseded, write_net
from cdcbus.consumer.config import LoadTask, SchemaChange
from cdcbus.consumer.merge.columnar import MIN_RECORDS, NetColumns, net_columns
from cdcbus.consumer.merge.mapped_change import MappedChange
from cdcbus.consumer.records.batch_report import BatchReport
from cdcbus.consumer.records.dead_letters import DeadLetter, refuse
from cdcbus.consumer.records.records import Records
from cdcbus.consumer.transform.change_filter import ChangeFilter
from cdcbus.consumer.transform.mapper import Mapper, Plan, Route
from cdcbus.consumer.transform.processor import Processor
from cdcbus.plugins.contracts import AppliedOffset, Converter, Loader, LoadTransaction, TargetTable
from cdcbus.plugins.converters.columnar import RowGroup
from cdcbus.plugins.errors import (
    ConfigError,
    DataError,
    RowConflict,
    TargetMisconfigured,
    TargetRejected,
    TargetTableUnfit,
    TargetUnavailable,
    UnmappedColumn,
)
from cdcbus.plugins.loaders.schema_evolution import lacking, too_narrow
from cdcbus.plugins.positions import TopicPartition
from cdcbus.plugins.rowchange import Op, RowChange, Table, TableId
from cdcbus.plugins.start import Replay

LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Prepared:
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


@dataclass(slots=True)
class _Attempt:
    """What attempts before have shown. `refused`: offsets of records, and why. `is_sure`: the
    target's tables are known to be what the rows were made for. `is_checked_at_once`: a
    constraint that is checked at the commit has been broken."""

    refused: dict[int, DataError | TargetRejected] = field(default_factory=dict)
    is_sure: bool = False
    is_checked_at_once: bool = False

    @property
    def is_logged(self) -> bool:
        """Whether the log says already that the net effect is refused."""
        return self.is_sure or bool(self.refused)


class _TooLate(Exception):
    """The target has refused at the commit what it took before."""


class _Late(Exception):
    """Another partition has found meanwhile that rows of a table have changes in several
    partitions."""


class PartitionWaits(Exception):
    """A partition has been applied up to `end` only, as told by `report`: another row blocks the
    change there, which a change in another partition can end."""

    def __init__(self, reason: str, end: int, report: BatchReport) -> None:
        super().__init__(reason, end, report)
        self.end, self.report = end, report

    def __str__(self) -> str:
        return str(self.args[0])


class PartitionApplier:
    """Applies partitions to one target. Thread-safe: partitions may be applied side by side."""

    def __init__(
        self,
        task: LoadTask,
        converter: Converter,
        loader: Loader,
        process: Processor | None = None,
        put_dead_letters: Callable[[Sequence[DeadLetter]], None] | None = None,
        partitions_at_once: int = 1,
        read_on: ReadOn = no_future,
    ) -> None:
        """`put_dead_letters` returns when they are durable, and a dry run only says what it
        would put; None: whatever cannot be applied is raised. `partitions_at_once`: the loader's
        connections. `read_on` tells what a partition has behind a batch."""
        self._task = task
        self.partitions_at_once = partitions_at_once
        self._converter = converter
        self._loader = loader
        self._process = process
        self.is_dry_run = loader.is_dry_run
        self.keeps_offsets = False
        self.close = loader.close
        self.seen: dict[TopicPartition, AppliedOffset] = {}
        """The offsets in the target, as far as they are known: each transaction is undone where
        its partition's is another one there."""
        self._put_dead_letters = (
            self._tell_dead_letters if loader.is_dry_run and put_dead_letters else put_dead_letters
        )
        self._mapper = Mapper(task.rules, task.includes, task.excludes)
        self._wanted = ChangeFilter(task, converter, process)
        self._is_merging = task.merge and loader.is_merging
        self._look_ahead = LookAhead(read_on, self._steps_to)
        # apart, as each keeps what it was asked for last
        self._deletes, self._elsewhere = (Deletes(read_on, self._steps_to) for _ in range(2))
        self._placing, self._scattered, self._are_all_scattered = Placing(), set[TableId](), False

    def applied_offsets(self) -> list[AppliedOffset]:
        """The offsets stored by this task, fenced first: whoever has asked before commits
        nothing any more. What an earlier process has open is ended before: it may stand still,
        and hold rows."""
        self._loader.end_other_sessions()
        found = self._loader.fence()
        self.keeps_offsets = found is not None
        return self._see(found or [])

    def _see(self, found: list[AppliedOffset]) -> list[AppliedOffset]:
        self.seen = {offset.topic_partition: offset for offset in found}
        return found

    def begin(self, _partition: TopicPartition, _seen: AppliedOffset | None) -> None:
        """The target tells of all partitions at once, and fences nobody: a partition of the same
        driver may be applied beside this one."""
        self._see(self._loader.applied_offsets())

    def let_go(self) -> None:
        """No connection belongs to a partition."""

    def take_over(self, offsets: Sequence[AppliedOffset]) -> None:
        """One transaction. The epoch is the one that `applied_offsets` has begun."""
        new = sorted({each.topic_partition for each in offsets} - self.seen.keys())
        if grown := [
            partition for partition in new if partition.topic in {topic for topic, _ in self.seen}
        ]:
            self.scatter(f"partitions were added to topic {grown[0][0]}")
        taken = [
            self._taken(offset) for offset in sorted(offsets, key=attrgetter("topic_partition"))
        ]
        with self._loader.transaction() as transaction:
            for offset in taken:
                transaction.store_offset(offset, self.seen.get(offset.topic_partition))
        self.seen = {offset.topic_partition: offset for offset in taken}

    def _taken(self, offset: AppliedOffset) -> AppliedOffset:
        seen = self.seen.get(offset.topic_partition)
        if seen is None:
            return replace(offset, epoch=1)
        topic_id = offset.details.topic_id or seen.details.topic_id
        return replace(
            offset,
            epoch=seen.epoch,
            details=replace(seen.details, topic_id=topic_id, last=offset.details.last),
        )

    def scatter(self, reason: str) -> None:
        if self._loader.scatter():
            LOG.warning(
                "task %s: %s, so records of one row are in several of them: tables cdcbus_row_... "
                "in the target keep which change of a row "
                "is the newest, which takes time. Once the task has applied all records from "
                "before, stop it, drop these tables, start it",
                *(self._task.task_id, reason),
            )
        self._are_all_scattered = self._loader.is_scattered()

    def forget_versions(self, before_ms: int) -> None:
        self._loader.forget_versions(before_ms)

    def apply(
        self,
        partition: TopicPartition,
        records: Records,
        end_offset: int,
        position_version: int,
        low_watermark: int = 0,
        is_hasty: bool = False,
    ) -> BatchReport:
        """Everything or nothing: rows, dead letters, and that the partition has been applied up to
        `end_offset`.

        Raises UnmappedColumn, and what needs no person but time; OffsetConflict when somebody else
        has applied records of the partition since `applied_offsets` was called; DataError and
        TargetRejected, naming the record, unless they become dead letters. Raises PartitionWaits,
        once a part has been applied, for a change that another row blocks, unless it is
        before `low_watermark`, where other partitions cannot help any more. `is_hasty`: at once
        then, with nothing applied.
        """
        return self.prepare(partition, records)(
            end_offset, position_version, low_watermark, is_hasty
        )

    def apply_together(
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
                    self._task.task_id,
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
        return self._steps(partition, records, report, None), report

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
        tables = {
            step.plan.target.id: step.plan.target
            for step in steps
            if self._is_scattered(step.plan.target)
        }
        found = {
            name: self._loader.version_table(table, make=True) for name, table in tables.items()
        }
        return {name: table for name, table in found.items() if table is not None}

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
            self._done(partition, ends[partition], position_version, records)
            for partition, records, _, position_version in sorted(partitions, key=itemgetter(0))
        ]
        report = BatchReport()
        part = PartitionSlice(partitions[0][0], 0, len(steps), 0, 0)
        with self._loader.transaction() as transaction:
            if is_checked:
                transaction.check_at_once()
            steps, overtaken = self._newest(transaction, versions, steps, report)
            for step, _ in overtaken:
                partition = merged[step.offset][0]
                if not self._deletes.find(partition, ends[partition], step):
                    raise Blocked(step.offset, str(overtaken_reason(step)))
                count_superseded(report, step, step.changes)
            resolver = JointConflictResolver(
                self._task,
                LookAhead(no_future, self._steps_to),
                transaction,
                part,
                steps,
                None,
                is_merging=self._is_merging,
                is_sure=True,
                is_logged=False,
            )
            resolver.resolve()
            for offset in done:
                transaction.store_offset(offset, self.seen.get(offset.topic_partition))
        self.seen |= {offset.topic_partition: offset for offset in done}
        resolver.report.add(report)
        return resolver.report

    def _done(
        self, partition: TopicPartition, end_offset: int, position_version: int, records: Records
    ) -> AppliedOffset:
        """What the target is to keep of a partition, under the epoch that holds."""
        seen = self.seen.get(partition) or AppliedOffset(*partition, 0, 0)
        details = replace(seen.details, last=records.last_before(end_offset) or seen.details.last)
        return replace(
            seen, next_offset=end_offset, position_version=position_version, details=details
        )

    def prepare(
        self, partition: TopicPartition, records: Records
    ) -> Callable[[int, int, int, bool], BatchReport]:
        """What needs no transaction: decodes, maps, and merges columns. What it returns does the
        rest, once the records before are applied. Together they are `apply`."""
        return partial(self._write, self._prepared(partition, records))

    def _prepared(self, partition: TopicPartition, records: Records) -> _Prepared:
        started, report, dead_letters = (
            perf_counter(),
            BatchReport(records=len(records)),
            self._dead_letters(),
        )
        net = self._net_columns(records)
        steps = self._steps(
            partition, records.take(net.row_at_a_time) if net else records, report, dead_letters
        )
        report.decode_ms = (perf_counter() - started) * 1000
        if net and not self._scattered.isdisjoint(net.tables):  # which the steps have shown
            return self._in_rows(_Prepared(partition, records, net, steps, report, dead_letters))
        return self._ordered(_Prepared(partition, records, net, steps, report, dead_letters))

    def _in_rows(self, prepared: _Prepared) -> _Prepared:
        """The same without columns."""
        partition, records, dead_letters = (
            prepared.partition,
            prepared.records,
            self._dead_letters(),
        )
        report = BatchReport(records=len(records), decode_ms=prepared.report.decode_ms)
        return self._ordered(
            _Prepared(
                partition,
                records,
                None,
                self._steps(partition, records, report, dead_letters),
                report,
                dead_letters,
            )
        )

    def _ordered(self, prepared: _Prepared) -> _Prepared:
        """With the version tables that it takes; they are made outside of its transaction."""
        if prepared.records.keys is None:
            return prepared
        tables = {
            step.plan.target.id: step.plan.target for step in prepared.steps if step.plan.target.key
        }
        tables |= {
            name: net.batch.table
            for name, net in (prepared.net.tables if prepared.net else NOTHING_KNOWN).items()
        }
        versions = {}
        for name in [name for name, table in tables.items() if self._is_scattered(table)]:
            if found := self._loader.version_table(tables.pop(name), make=True):
                versions[name] = found
        return replace(prepared, versions=versions, alone=[*tables.values()])

    def _is_scattered(self, table: TargetTable) -> bool:
        """Whether changes of one row may be in several partitions, as far as is known. A version
        table says so for good."""
        return bool(table.key) and (
            self._are_all_scattered or table.id in self._scattered or self._loader.is_coarse(table)
        )

    def _dead_letters(self) -> list[DeadLetter] | None:
        return None if self._put_dead_letters is None else []

    def _tell_dead_letters(self, dead_letters: Sequence[DeadLetter]) -> None:
        for dead_letter in dead_letters:
            LOG.warning(
                "task %s: record %s would become a dead letter: %s",
                self._task.task_id,
                dead_letter.record,
                dead_letter.reason,
            )

    def _write(
        self,
        prepared: _Prepared,
        end_offset: int,
        position_version: int,
        low_watermark: int,
        is_hasty: bool,
    ) -> BatchReport:
        end, reason = end_offset, ""
        while True:
            begin = prepared.records.offsets[0].as_py() if len(prepared.records) else end
            try:
                report = self._write_surely(
                    prepared,
                    PartitionSlice(
                        prepared.partition, begin, end, position_version, low_watermark, is_hasty
                    ),
                )
            except Blocked as blocked:
                end, reason = blocked.offset, blocked.reason
                if before := prepared.records.before(end):
                    prepared = self._prepared(prepared.partition, before)
                    continue
                report = BatchReport()
            if reason:
                raise PartitionWaits(reason, end, report)
            return report

    def _write_surely(self, prepared: _Prepared, part: PartitionSlice) -> BatchReport:
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
                attempt.refused[again.offset] = again.reason
            except _TooLate:
                attempt.is_checked_at_once = True
            except _Late:
                self._are_all_scattered = self._loader.is_scattered()
                self._scattered |= {
                    table.id
                    for table in prepared.alone
                    if self._loader.version_table(table, make=False)
                }
                prepared = self._in_rows(prepared)
                continue
            if prepared.net:
                prepared = self._in_rows(prepared)

    def _look_again(self, prepared: _Prepared) -> None:
        """Raises TargetUnavailable when a table has been altered, which is forgotten then."""
        known = {step.plan.target.id: step.plan.target for step in prepared.steps}
        known |= {
            name: net.batch.table
            for name, net in (prepared.net.tables if prepared.net else NOTHING_KNOWN).items()
        }
        for table in known.values():
            if self._loader.is_altered(table):
                raise TargetUnavailable(
                    f"target table {table.id} has been altered meanwhile, and is looked at again"
                )

    def _write_once(
        self, prepared: _Prepared, part: PartitionSlice, attempt: _Attempt
    ) -> BatchReport:
        """Raises SchemaStale, RetryWithout, Blocked when the partition is to wait, and _TooLate."""
        started, is_written, seen = perf_counter(), False, self.seen.get(part.partition)
        done = self._done(part.partition, part.end_offset, part.position_version, prepared.records)
        try:
            with self._loader.transaction() as transaction:
                if attempt.is_checked_at_once:
                    transaction.check_at_once()
                report, dead_letters = self._written(transaction, prepared, part, attempt)
                if dead_letters and self._put_dead_letters:
                    self._put_dead_letters(dead_letters)  # before the offset moves past them
                if prepared.alone and transaction.has_version_table(prepared.alone):
                    raise _Late
                transaction.store_offset(done, seen)
                applied, is_written = perf_counter(), True
        except RowConflict as error:
            if is_written and not attempt.is_checked_at_once:
                raise _TooLate from error
            raise
        self.seen[part.partition] = done
        report.apply_ms, report.commit_ms = (
            (applied - started) * 1000,
            (perf_counter() - applied) * 1000,
        )
        return report

    def _written(
        self,
        transaction: LoadTransaction,
        prepared: _Prepared,
        part: PartitionSlice,
        attempt: _Attempt,
    ) -> tuple[BatchReport, list[DeadLetter] | None]:
        """What was applied, and what could not be."""
        is_logged = attempt.is_logged
        if prepared.net:
            if report := self._columns_written(transaction, prepared, prepared.net):
                return report, prepared.dead_letters
            prepared, is_logged = self._in_rows(prepared), True
        superseded = BatchReport()
        steps = [step for step in prepared.steps if step.offset not in attempt.refused]
        steps, overtaken = self._newest(transaction, prepared.versions, steps, superseded)
        dead_letters = None if prepared.dead_letters is None else [*prepared.dead_letters]
        resolver = ConflictResolver(
            self._task,
            self._look_ahead,
            transaction,
            part,
            steps,
            dead_letters,
            is_merging=self._is_merging,
            is_sure=attempt.is_sure,
            is_logged=is_logged,
        )
        resolver.report.add(prepared.report)
        resolver.report.add(superseded)
        for offset, reason in attempt.refused.items():
            resolver.send_to_dead_letters(
                [step for step in prepared.steps if step.offset == offset], reason
            )
        resolver.resolve_overtaken(overtaken, self._deletes)
        resolver.resolve()
        return resolver.report, dead_letters

    def _newest(
        self,
        transaction: LoadTransaction,
        versions: Mapping[TableId, TargetTable],
        steps: list[MappedChange],
        report: BatchReport,
    ) -> tuple[list[MappedChange], list[Overtaken]]:
        """Where a row's delete may be in another partition, or beyond a bounded replay, what was
        overtaken is left out as older."""
        if not versions:
            return steps, []
        steps, found = newest(transaction, steps, versions, report, self._is_deleted)
        if found and not self._are_all_scattered:
            self._are_all_scattered = transaction.has_version_table([])
        overtaken: list[Overtaken] = []
        for each in found:
            if (
                self._are_all_scattered
                or each.step.plan.target.id in self._scattered
                or isinstance(self._task.start, Replay)
            ):
                count_superseded(report, each.step, each.step.changes)
            else:
                overtaken.append(each)
        return steps, overtaken

    def _is_deleted(self, step: MappedChange, after: str, before: str) -> bool:
        """In any partition, as far as that is known."""
        partitions = [(partition, seen.next_offset) for partition, seen in [*self.seen.items()]]
        return any(self._elsewhere.knows(*each, step, after, before) for each in partitions) or any(
            self._elsewhere.find(*each, step, after=after, before=before) for each in partitions
        )

    # Columns: many records at once, where each needs no look of its own

    def _net_columns(self, records: Records) -> NetColumns | None:
        task = self._task
        if (
            len(records) < MIN_RECORDS
            or not self._is_merging
            or self._process is not None
            or not task.insert_on_update_error
        ):
            return None
        keys = records.keys

        def is_in_order(group: RowGroup, plan: Plan) -> bool:
            if keys is None or not plan.target.key:
                return True
            image = group.before if group.after is None else group.after
            if not self._placing.is_by_key(plan, keys.take(group.records), image or {}):
                self._scattered.add(plan.target.id)
            return not self._is_scattered(plan.target)

        net = net_columns(records, self._converter, self._column_plans, self._targets, is_in_order)
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
                sources.update(
                    change.table.id for change in self._converter.from_bytes(value or b"")
                )
        return {route.target for source in sources for route in self._mapper.routes(source)}

    def _columns_written(
        self, transaction: LoadTransaction, prepared: _Prepared, net: NetColumns
    ) -> BatchReport | None:
        """Applies the net effects of columns and steps together; None, with nothing done, where
        the target does not take them."""
        steps = [step for step in prepared.steps if step.plan.target.id not in net.tables]
        report = BatchReport()
        report.add(prepared.report)
        try:
            with transaction.savepoint():
                steps, overtaken = self._newest(transaction, prepared.versions, steps, report)
                if overtaken:
                    raise overtaken_reason(overtaken[0].step)
                report.add(write_net(self._task, transaction, steps, net.tables))
        except (DataError, TargetRejected) as error:
            LOG.info(
                "task %s: %s is applied row by row: %s",
                self._task.task_id,
                prepared.partition,
                error,
            )
            return None
        report.committed(net.first_commit_ms, net.last_commit_ms)
        return report

    def check_targets(self) -> None:
        """Raises UnmappedColumn when a table that the task file includes by name has no target."""
        for name in sorted(self._task.includes):
            schema, _, table = name.partition(".")
            for route in self._mapper.routes(TableId(schema, table)):
                self._target(route)

    # Records to steps

    def _steps(
        self,
        partition: TopicPartition,
        records: Records,
        report: BatchReport,
        dead_letters: list[DeadLetter] | None,
    ) -> list[MappedChange]:
        """The row changes that the task wants, under the target's names, in order."""
        steps: list[MappedChange] = []
        known: dict[int, tuple[Table, list[Plan]]] = {}  # by identity, see Route.plan
        is_alone, keys = (
            records.keys is None,
            repeat(None) if records.keys is None else records.keys.to_pylist(),
        )
        for (offset, value), key, came_ms in zip(
            records, keys, records.times.to_pylist(), strict=False
        ):
            if value is None:  # a tombstone, for log compaction: its delete came before it
                continue
            try:
                of_record = self._steps_of(offset, value, known, report, came_ms or 0)
                if not is_alone:
                    self._look_at_key(key, of_record)
                steps += [step for step, _ in of_record]
            except UnmappedColumn:
                raise
            except DataError as error:
                refuse(dead_letters, partition, offset, error)
                report.unread += 1
        return steps

    def _steps_of(
        self,
        offset: int,
        value: bytes,
        known: dict[int, tuple[Table, list[Plan]]],
        report: BatchReport,
        came_ms: int,
    ) -> list[tuple[MappedChange, RowChange]]:
        """With the row changes that they were made of."""
        steps: list[tuple[MappedChange, RowChange]] = []
        for change in self._wanted.changes(value, report):
            table = change.table
            if id(table) not in known:
                known[id(table)] = (
                    table,
                    [self._plan(route, table) for route in self._mapper.routes(table.id)],
                )
            steps += [
                (MappedChange(offset, plan, plan.map(change), (), came_ms), change)
                for plan in known[id(table)][1]
            ]
        return steps

    def _look_at_key(
        self, key: bytes | None, steps: Sequence[tuple[MappedChange, RowChange]]
    ) -> None:
        """Whether other partitions may have changes of these rows."""
        for step, change in steps:
            target = step.plan.target
            is_open = (
                target.key and change.op is not Op.TRUNCATE and target.id not in self._scattered
            )
            if is_open and not self._placing.is_row_by_key(step.plan, key, change):
                self._scattered.add(target.id)

    def _steps_to(self, target: TableId, offset: int, value: bytes) -> list[MappedChange]:
        """What a record brings to a target table; nothing where it cannot be read, which is for
        its own batch to say."""
        wanted, steps = str(target).lower(), list[MappedChange]()
        with suppress(DataError, ConfigError):
            for change in self._wanted.changes(value, BatchReport()):
                for route in self._mapper.routes(change.table.id):
                    if str(route.target).lower() == wanted:
                        plan = route.passing_plan(change.table, self._target(route))
                        steps.append(MappedChange(offset, plan, plan.map(change)))
            return steps
        return []

    def _plan(self, route: Route, table: Table) -> Plan:
        target = self._target(route)
        if plan := route.known_plan(table, target):
            return plan
        change, columns = self._task.schema_change, route.columns(table)
        is_dropping = change is SchemaChange.IGNORE
        try:
            if (
                change is SchemaChange.EVOLVE
                and route.rule.force_matched
                and (lacking(target, columns) or too_narrow(target, columns))
            ):
                target = self._loader.evolve(target, columns)
                is_dropping = self.is_dry_run  # which has only said what it would do
            plan = route.plan(table, target, is_dropping)
        except UnmappedColumn:
            # somebody may add the column: the next attempt looks again
            self._loader.refresh(route.target)
            raise
        if plan.dropped:
            LOG.warning(
                "task %s: %s lacks columns of %s: %s are dropped",
                self._task.task_id,
                target.id,
                table.id,
                ", ".join(plan.dropped),
            )
        return plan

    def _target(self, route: Route) -> TargetTable:
        table = self._loader.table(route.target)
        if table is None:
            raise UnmappedColumn(
                f"the target has no table {route.target} for {route.source}: create it, or map it "
                "with mapper[i].schema and mapper[i].table"
            )
        if table.unsafe:
            self._loader.refresh(route.target)  # the next attempt looks again
            raise TargetMisconfigured(table.unsafe)
        return table
