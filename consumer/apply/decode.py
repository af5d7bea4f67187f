"""Decodes records to steps: the row changes that the task applies, under the target's names."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from contextlib import suppress
from itertools import repeat
from typing import Final

from cdcbus.consumer.apply.scattered import ScatteredTables
from cdcbus.consumer.config import LoadTask
from cdcbus.consumer.merge.mapped_change import MappedChange, are_of_one_definition
from cdcbus.consumer.offsets.topic_logs import LogRecord
from cdcbus.consumer.records.batch_report import BatchReport
from cdcbus.consumer.records.dead_letters import DeadLetter, refuse
from cdcbus.consumer.records.records import Records
from cdcbus.consumer.transform.change_filter import ChangeFilter
from cdcbus.consumer.transform.target_plans import TargetPlans
from cdcbus.plugins.contracts import Converter
from cdcbus.plugins.errors import ConfigError, DataError, TargetUnavailable, UnmappedColumn
from cdcbus.plugins.positions import TopicPartition
from cdcbus.plugins.rowchange import Op, RowChange, Table, TableId
from cdcbus.plugins.transform.plan import Plan
from cdcbus.plugins.transform.processor import Processor

# How often records are mapped before the task gives up for now: once more after it has altered a
# target table, and again where another process does.
ATTEMPTS: Final = 3


class Decoder:
    """Decodes, filters and maps records, one by one. Thread-safe."""

    def __init__(
        self,
        task: LoadTask,
        converter: Converter,
        process: Processor | None,
        plans: TargetPlans,
        scattered: ScatteredTables,
    ) -> None:
        self._task = task
        self._plans = plans
        self._scattered = scattered
        self._wanted = ChangeFilter(task, converter, process)

    def steps(
        self,
        partition: TopicPartition,
        records: Records,
        report: BatchReport,
        dead_letters: list[DeadLetter] | None,
    ) -> list[MappedChange]:
        """The row changes that the task applies, under the target's names, in order; those to
        one target table are mapped for the same definition of it. A record that cannot be
        read becomes a dead letter, or raises DataError without a list for these. Raises
        UnmappedColumn."""
        for _ in range(ATTEMPTS):
            own = BatchReport()
            letters: list[DeadLetter] | None = None if dead_letters is None else []
            steps = self._decoded(partition, records, own, letters)
            # A table was altered for some of the rows: by now its other rows are mapped for that.
            if are_of_one_definition(steps):
                break
        else:
            raise TargetUnavailable(
                "target tables are altered all the time; they are looked at again"
            )
        report.add(own)
        if dead_letters is not None and letters:
            dead_letters += letters
        return steps

    def _decoded(
        self,
        partition: TopicPartition,
        records: Records,
        report: BatchReport,
        dead_letters: list[DeadLetter] | None,
    ) -> list[MappedChange]:
        steps: list[MappedChange] = []
        # By the table's identity, see Route.plan.
        known: dict[int, tuple[Table, list[Plan]]] = {}
        is_alone = records.keys is None
        topic = partition.topic if self._scattered.has_topics else ""
        keys = repeat(None) if records.keys is None else records.keys.to_pylist()
        times = records.times.to_pylist()
        for (offset, value), key, came_ms in zip(records, keys, times, strict=False):
            # A tombstone, for log compaction: its delete came before it.
            if value is None:
                continue
            try:
                of_record = self._steps_of(offset, value, known, report, came_ms or 0, topic)
                if not is_alone:
                    self._scattered.look_at_key(key, of_record, partition)
                steps += [step for step, _ in of_record]
            except UnmappedColumn:
                # The table is at fault, not the record, so it does not become a dead letter.
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
        topic: str,
    ) -> list[tuple[MappedChange, RowChange]]:
        """The steps of a record, each with the row change that it was mapped from. `topic`: its
        topic, empty if the task reads only one."""
        steps: list[tuple[MappedChange, RowChange]] = []
        for change in self._wanted.changes(value, report, came_ms):
            table = change.table
            if id(table) not in known:
                found = self._plans.of(table)
                known[id(table)] = table, found
                if topic and self._scattered.has_moved(table.id, topic, value):
                    self._scattered.add(plan.target for plan in found)
            _, plans = known[id(table)]
            for plan in plans:
                step = MappedChange(offset, plan, plan.map(change), (), came_ms)
                steps.append((step, change))
        return steps

    def steps_to(self, target: TableId, offset: int, value: bytes) -> list[MappedChange]:
        """The steps of a record to one target table; none where it cannot be read, which its own
        batch will report."""
        wanted = str(target).lower()
        steps: list[MappedChange] = []
        with suppress(DataError, ConfigError):
            for change in self._wanted.changes(value, BatchReport()):
                for route in self._plans.routes(change.table.id):
                    if str(route.target).lower() == wanted:
                        plan = route.passing_plan(change.table, self._plans.target(route))
                        steps.append(MappedChange(offset, plan, plan.map(change)))
            return steps
        return []

    def look_at_topics(self, records: Iterable[LogRecord]) -> None:
        """Looks which tables of these records, of several topics, have been moved from one to
        another. Raises UnmappedColumn, TargetMisconfigured, TargetError."""
        for record in records:
            for source in self._sources(record.value):
                if self._scattered.has_moved(source, record.partition.topic, record.value or b""):
                    self._scattered.add(map(self._plans.target, self._plans.routes(source)))

    def _sources(self, value: bytes | None) -> set[TableId]:
        """The source tables of a record's rows that are applied; none where it cannot be read."""
        found: set[TableId] = set()
        with suppress(DataError):
            for change in self._wanted.changes(value or b"", BatchReport()):
                found.add(change.table.id)
        return found

    def column_plans(self, table: Table, op: Op) -> list[Plan] | None:
        """The plans for a table's rows of an operation, empty if they are not applied; None for
        heartbeats, whose cells must be read."""
        if not self._wanted.table(table.id):
            return None if self._task.is_heartbeat(table.id) else []
        # Rows that are left out need no target.
        return [] if op in self._task.skipped_operations else self._plans.of(table)

    def targets(self, sources: Collection[TableId]) -> set[TableId]:
        """The target tables of those source tables that are applied, as the target names them."""
        targets: set[TableId] = set()
        for source in sources:
            if self._wanted.table(source):
                targets.update(map(self._plans.target_id, self._plans.routes(source)))
        return targets
