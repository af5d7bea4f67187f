"""Finds tables whose rows have changes in several partitions, and leaves out changes that are too
old.

The target keeps a version table for each of them: see row_order.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa

from cdcbus.consumer.apply.deletes import Deletes
from cdcbus.consumer.apply.lookahead import ReadOn, StepsTo
from cdcbus.consumer.apply.placing import Placing
from cdcbus.consumer.apply.row_order import Overtaken, newest
from cdcbus.consumer.apply.writer import count_superseded
from cdcbus.consumer.config import LoadTask
from cdcbus.consumer.merge.mapped_change import MappedChange
from cdcbus.consumer.offsets.held import HeldOffsets
from cdcbus.consumer.offsets.moves import TableTopics
from cdcbus.consumer.records.batch_report import BatchReport
from cdcbus.plugins.contracts import Converter, Loader, LoadTransaction, TargetTable
from cdcbus.plugins.converters.columnar import RowGroup
from cdcbus.plugins.kafka.key_form import KeyForm, shown
from cdcbus.plugins.positions import TopicPartition
from cdcbus.plugins.rowchange import Op, RowChange, TableId
from cdcbus.plugins.start import Replay
from cdcbus.plugins.transform.plan import Plan

LOG = logging.getLogger(__name__)


class FoundScattered(Exception):
    """Another process has found that rows of a table have changes in several partitions."""


class ScatteredTables:
    """The target tables whose rows have changes in several partitions, as far as known.
    Thread-safe."""

    def __init__(self, task: LoadTask, loader: Loader, converter: Converter) -> None:
        self._task = task
        self._loader = loader
        self._placing = Placing(self._add_rekeyed)
        self._topics = TableTopics(converter, task.converter)
        self.has_topics = len(task.source.topics) > 1
        # The topics known to have several partitions.
        self._shared: set[str] = set()
        self._moved: set[TableId] = set()
        self._tables: set[TableId] = set()
        self.are_all = False
        """Whether rows of any table may have changes in several partitions."""

    def holds(self, table: TargetTable) -> bool:
        """Whether changes of one row can be in several partitions, as far as known. A table with a
        version table stays scattered."""
        return bool(table.key) and (
            self.are_all or table.id in self._tables or self._loader.is_coarse(table)
        )

    def has_shown(self, table: TableId) -> bool:
        """Whether record keys have shown this table, or all, to be scattered."""
        return self.are_all or table in self._tables

    def is_any_shown(self, tables: Iterable[TableId]) -> bool:
        """Whether record keys have shown one of these tables to be scattered."""
        return not self._tables.isdisjoint(tables)

    @property
    def known(self) -> frozenset[TableId | None]:
        """The tables that are known to be scattered; None stands for all."""
        # A copy, as other partitions may add to it.
        return frozenset([*self._tables.copy(), *([None] if self.are_all else [])])

    def add_known(self, known: Iterable[TableId | None]) -> None:
        """Treats as scattered from now on what another process does, whose `known` this is."""
        for table in known:
            if table is None:
                self.are_all = True
            else:
                self._tables.add(table)

    def add_all(self, reason: str) -> None:
        """Treats all tables as scattered from now on. Raises TargetError."""
        if self._loader.scatter():
            LOG.warning(
                "task %s: %s, so records of one row are in several of them: tables cdcbus_row_... "
                "in the target keep the newest version of each row, which takes time. Once the "
                "task has applied all earlier records, stop it, drop these tables, and start it",
                self._task.task_id,
                reason,
            )
        self.are_all = self._loader.is_scattered()

    def look_again(self, tables: Sequence[TargetTable] = ()) -> bool:
        """Looks which of these tables other processes, or former ones, have found scattered, and
        whether all are; returns whether there are any. Raises TargetError."""
        self.are_all = self._loader.is_scattered()
        is_any = False
        for table in tables:
            if self._loader.version_table(table, make=False):
                self._tables.add(table.id)
                is_any = True
        return self.are_all or is_any

    def version_tables(
        self, tables: Mapping[TableId, TargetTable]
    ) -> tuple[dict[TableId, TargetTable], list[TargetTable]]:
        """Returns the version tables of the scattered ones among these tables, and the tables that
        are not known to be scattered. Version tables are created outside the transaction that
        writes them. Raises TargetError."""
        versions: dict[TableId, TargetTable] = {}
        alone: list[TargetTable] = []
        for name, table in tables.items():
            # A row without a key cannot be distinguished from others, so it has no version.
            if not table.key:
                continue
            if not self.holds(table):
                alone.append(table)
                continue
            found = self._loader.version_table(table, make=True)
            if found:
                versions[name] = found
        return versions, alone

    def is_in_order(
        self, group: RowGroup, plan: Plan, keys: pa.Array | None, partition: TopicPartition
    ) -> bool:
        """Whether no other partition has changes of a group's rows. `keys`: the keys of all records
        of the batch, None where there are no other partitions."""
        if keys is None or not plan.target.key:
            return True
        # A record's key is made of the row after the change, or before a delete.
        image = group.before if group.after is None else group.after
        self.note_partitions([partition])
        own, is_shared = keys.take(group.records), self._is_shared(partition)
        if not self._placing.is_by_key(plan, own, image or {}, is_shared=is_shared):
            self._tables.add(plan.target.id)
        return not self.holds(plan.target)

    def note_partitions(self, partitions: Iterable[TopicPartition]) -> None:
        """Notes which topics have several partitions, as far as these show it."""
        for partition in partitions:
            if partition.partition > 0:
                self._shared.add(partition.topic)

    def add(self, tables: Iterable[TargetTable]) -> None:
        """Treats these tables as scattered from now on. Raises TargetError."""
        for table in tables:
            self._tables.add(table.id)
            if table.key:
                # Executors learn it from the version table.
                self._loader.version_table(table, make=True)

    def has_moved(self, source: TableId, topic: str, value: bytes) -> bool:
        """Whether a source table is known to come in several topics from one writer; `value`: one
        of its records in this topic."""
        other = self._topics.other(source, topic, value)
        if other is None:
            return source in self._moved
        self._moved.add(source)
        LOG.warning(
            "task %s: table %s comes in topics %s and %s from one writer, as if it had been moved "
            "from one to the other: a table cdcbus_row_... in the target keeps the newest version "
            "of each of its rows from now on, which takes time. Rows that were applied before have "
            "no version, so an older change can have replaced a newer one: once both topics are "
            "read, compare the table (cdcbus verify %s --repair), or load it again",
            self._task.task_id,
            source,
            other,
            topic,
            self._task.task_id,
        )
        return True

    def _add_rekeyed(self, plan: Plan, before: KeyForm, after: KeyForm) -> None:
        """Treats the table of a plan as scattered from now on, as its records come with two forms
        of their keys. Raises TargetError."""
        target = plan.target
        was_held = self.holds(target)
        self._tables.add(target.id)
        if was_held or not target.key:
            return
        LOG.warning(
            "task %s: records of table %s come with two forms of its key, %s and %s, as after an "
            "ALTER at the source, so changes of one row can be in two partitions: a table "
            "cdcbus_row_... in the target keeps the newest version of each row of target table %s "
            "from now on, which takes time. Rows that were applied before have no version, so an "
            "older change can have replaced a newer one: once all partitions are read beyond the "
            "ALTER, compare the table (cdcbus verify %s --repair), or load it again",
            self._task.task_id,
            plan.source.id,
            shown(before),
            shown(after),
            target.id,
            self._task.task_id,
        )

    def _is_shared(self, partition: TopicPartition) -> bool:
        """Whether the topic is known to have several partitions: of several topics each may have
        one."""
        return not self.has_topics or partition.topic in self._shared

    def look_at_key(
        self,
        key: bytes | None,
        steps: Sequence[tuple[MappedChange, RowChange]],
        partition: TopicPartition,
    ) -> None:
        """Notes the tables of these rows as scattered where the record's key shows that other
        partitions can have changes of them."""
        self.note_partitions([partition])
        is_shared = self._is_shared(partition)
        for step, change in steps:
            target = step.plan.target
            # A truncate is not of a row, so its key does not show where rows are.
            is_open = target.key and change.op is not Op.TRUNCATE and target.id not in self._tables
            placing = self._placing
            if is_open and not placing.is_row_by_key(step.plan, key, change, is_shared=is_shared):
                self._tables.add(target.id)


class OlderChanges:
    """Leaves out changes of scattered tables where the target holds a newer version of the row."""

    def __init__(
        self,
        task: LoadTask,
        tables: ScatteredTables,
        held: HeldOffsets,
        read_on: ReadOn,
        steps_to: StepsTo,
    ) -> None:
        self._task = task
        self._tables = tables
        self._held = held
        # Not the applier's Deletes, as each keeps the rows that it was last asked for.
        self._deletes = Deletes(read_on, steps_to)

    def without(
        self,
        transaction: LoadTransaction,
        versions: Mapping[TableId, TargetTable],
        steps: list[MappedChange],
        report: BatchReport,
    ) -> tuple[list[MappedChange], list[Overtaken]]:
        """Returns the steps that are not too old, and the overtaken ones. Where a row's delete can
        be in another partition, or beyond the end of a bounded replay, its overtaken steps are left
        out as older."""
        if not versions:
            return steps, []
        steps, found = newest(transaction, steps, versions, report, self._is_deleted)
        if found and not self._tables.are_all:
            self._tables.are_all = transaction.has_version_table([])
        # A bounded replay can end before the delete that would make the change obsolete.
        is_bounded = isinstance(self._task.start, Replay)
        overtaken: list[Overtaken] = []
        for each in found:
            if is_bounded or self._tables.has_shown(each.step.plan.target.id):
                count_superseded(report, each.step, each.step.changes)
            else:
                overtaken.append(each)
        return steps, overtaken

    def _is_deleted(self, step: MappedChange, after: str, before: str) -> bool:
        """Whether any partition is known to delete the step's row between two places in the
        source."""
        partitions = self._held.next_offsets()
        # First among the deletes already read, as `find` can read for seconds.
        for partition, offset in partitions:
            if self._deletes.knows(partition, offset, step, after, before):
                return True
        for partition, offset in partitions:
            if self._deletes.find(partition, offset, step, after=after, before=before):
                return True
        return False
