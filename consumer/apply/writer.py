"""Writes the net effect of steps in one transaction of the target, and counts it in the report."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, groupby
from operator import attrgetter
from time import perf_counter

from cdcbus.consumer.config import LoadTask
from cdcbus.consumer.merge.columnar import NetTable
from cdcbus.consumer.merge.fold import merge
from cdcbus.consumer.merge.mapped_change import MappedChange
from cdcbus.consumer.records.batch_report import BatchReport
from cdcbus.plugins.contracts import Counts, LoadTransaction, TableBatch, Writes
from cdcbus.plugins.rowchange import Op, RowChange, TableId

NOTHING_KNOWN: Mapping[TableId, NetTable] = {}


def write_net(
    task: LoadTask,
    transaction: LoadTransaction,
    steps: Sequence[MappedChange],
    known: Mapping[TableId, NetTable] = NOTHING_KNOWN,
) -> BatchReport:
    """Writes the net effect of the steps, and the `known` net effects of other tables. Tables are
    written in the order of their weights, then of their first changes; rows are deleted in reverse
    order. Where a foreign key of the target changes rows on its own, the changes keep the source's
    order: see `_runs`."""
    report = BatchReport()
    tables: dict[TableId, list[MappedChange]] = {}
    for step in steps:
        tables.setdefault(step.plan.target.id, []).append(step)
    # Tables of the same weight stay in the order of their first change.
    ranks: dict[TableId, tuple[int, int]] = {}
    for number, table in enumerate([*known, *tables]):
        ranks[table] = task.weight(table), number
    batches = [net.batch for net in known.values()]
    cascading = set[TableId]()
    for table, table_steps in tables.items():
        if table_steps[0].plan.target.cascades:
            cascading.add(table)
        else:
            batches.append(net_of(task, table_steps, report))
    batches.sort(key=lambda batch: ranks[batch.table.id])
    runs: list[TableBatch] = []
    before = len(batches)
    if cascading:
        in_order = [step for step in steps if step.plan.target.id in cascading]
        runs = [net_of(task, run, report) for run in _runs(in_order)]
        first = min(ranks[table] for table in cascading)
        before = sum(ranks[batch.table.id] < first for batch in batches)
    counts: defaultdict[TableId, Counts] = defaultdict(Counts)
    for batch in _phases(batches, runs, before):
        started = perf_counter()
        counts[batch.table.id].add(transaction.write(batch))
        report.table(batch.table.id).write_ms += (perf_counter() - started) * 1000
    for table, table_steps in tables.items():
        count_applied(report, table_steps, counts[table])
    for table, net in known.items():
        report.table(table).add_ops(net.ops, counts[table])
        report.table(table).dropped += net.dropped
    return report


def net_of(task: LoadTask, steps: Sequence[MappedChange], report: BatchReport) -> TableBatch:
    """The net effect of steps to one table; adds counts and times to the report."""
    started = perf_counter()
    table = steps[-1].plan.target
    changes = list(_changes_of(steps))
    # Only of tables whose rows have changes in several partitions.
    is_scattered = any(step.stands_for_row for step in steps)
    may_insert = task.insert_on_update_error or is_scattered
    batch = merge(changes, table, insert_on_update=may_insert, may_move=not is_scattered)
    table_report = report.table(table.id)
    table_report.missed += batch.left_out
    table_report.merge_ms += (perf_counter() - started) * 1000
    return batch


def _changes_of(steps: Iterable[MappedChange]) -> Iterator[RowChange]:
    """All changes of the steps, in order."""
    return chain.from_iterable(map(attrgetter("changes"), steps))


def with_unique_emptied(step: MappedChange) -> TableBatch:
    """A write of the step's row with NULL in each nullable column of a unique key that the step
    sets."""
    table = step.plan.target
    after = step.change.after or {}
    # A dict used as an ordered set: a column can be in several unique keys.
    emptied: dict[str, None] = {}
    for unique in table.unique_keys:
        for name in unique:
            may_be_null = name in table.columns and table.columns[name].is_nullable
            if may_be_null and name in after and name not in table.key:
                emptied[name] = None
    if not emptied or len(step.keys) != 1:
        return TableBatch(table)
    row = (*step.keys[0], *[None] * len(emptied))
    return TableBatch(table, writes=[Writes((*table.key, *emptied), [row], may_insert=False)])


def _runs(steps: Sequence[MappedChange]) -> Iterator[list[MappedChange]]:
    """Cuts steps in source order into runs of one table, in which rows are either deleted or
    written: the net effect of each run, one after the other, has the same effect on rows of other
    tables as the steps one by one. A step that does both is a run of its own."""

    def kind(numbered: tuple[int, MappedChange]) -> tuple[TableId, bool, int]:
        number, step = numbered
        op = step.change.op
        is_alone = op is Op.TRUNCATE or step.held or (op is Op.UPDATE and len(step.keys) != 1)
        return step.plan.target.id, op is Op.DELETE, number if is_alone else -1

    for _, run in groupby(enumerate(steps), kind):
        yield [step for _, step in run]


def _phases(
    batches: Sequence[TableBatch], runs: Sequence[TableBatch], before: int
) -> Iterator[TableBatch]:
    """Yields the deletes of all tables, then the writes: children are deleted before their parents,
    and written after them. The runs come as they are, after the writes of the first `before`
    tables."""
    if len(batches) + len(runs) == 1:
        yield from (*batches, *runs)
        return
    for batch in reversed(batches):
        if batch.truncate or batch.deletes:
            yield replace(batch, moves=None, writes=(), swaps=())
    for batch in batches[:before]:
        yield from _writes_of(batch)
    yield from runs
    for batch in batches[before:]:
        yield from _writes_of(batch)


def _writes_of(batch: TableBatch) -> Iterator[TableBatch]:
    if batch.moves or batch.writes or batch.swaps:
        yield replace(batch, truncate=False, deletes=())


def count_superseded(report: BatchReport, step: MappedChange, changes: Sequence[RowChange]) -> None:
    """Counts changes of a step that were left out."""
    table = report.table(step.plan.target.id)
    table.add_applied(changes, Counts())
    table.superseded += len(changes)


def count_applied(report: BatchReport, steps: Sequence[MappedChange], counts: Counts) -> None:
    """Counts steps to one table that were written, with the target's counts of them."""
    table = report.table(steps[0].plan.target.id)
    table.add_applied(_changes_of(steps), counts)
    table.dropped += sum(len(step.changes) for step in steps if step.plan.dropped)
