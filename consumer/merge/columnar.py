"""Merges a partition's records to net effects by columns, as far as possible: whole tables at a
time, leaving the rest to be merged row by row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import starmap
from operator import attrgetter, itemgetter

import pyarrow as pa
import pyarrow.compute as pc

from cdcbus.consumer.merge.columnar_fold import merge_columns
from cdcbus.consumer.records.batch_report import earliest
from cdcbus.consumer.records.records import Records
from cdcbus.plugins.contracts import Converter, TableBatch
from cdcbus.plugins.converters.columnar import RowGroup, read_columns
from cdcbus.plugins.errors import DataError
from cdcbus.plugins.rowchange import Op, Row, RowChange, Table, TableId
from cdcbus.plugins.transform.plan import Conversion, Plan

# Fewer records are read faster one by one.
MIN_RECORDS = 200
# How many records show whether a format puts many rows into each.
MOST_PROBED = 10

_Kind = tuple[Table, Op, tuple[str, ...], tuple[str, ...]]
"""What the rows of one group have in common: table, operation, and the columns of both images."""


@dataclass(slots=True)
class NetTable:
    """The net effect on one target table. `ops` and `dropped`: the number of changes that it was
    made of, by operation, and of those with columns left out."""

    batch: TableBatch
    ops: Counter[Op]
    dropped: int


@dataclass(slots=True)
class NetColumns:
    """The net effects of a batch. `tables`: the tables whose net effect is known. The records at
    the indexes `row_at_a_time`, ascending, take the row-at-a-time path, as far as their rows are
    for other tables. `first_commit_ms`, `last_commit_ms`: the first and last commit of the rows in
    `tables`, 0 without one."""

    tables: dict[TableId, NetTable] = field(default_factory=dict)
    row_at_a_time: list[int] = field(default_factory=list)
    first_commit_ms: int = 0
    last_commit_ms: int = 0

    def add(self, batch: TableBatch, members: Sequence[tuple[RowGroup, Plan]]) -> None:
        """Adds the net effect of groups on one target table."""
        ops: Counter[Op] = Counter()
        dropped = 0
        firsts: list[int] = []
        for group, plan in members:
            ops[group.op] += len(group.records)
            if plan.dropped:
                dropped += len(group.records)
            # 0 stands for an unknown time.
            known_us = group.commit_us.filter(pc.greater(group.commit_us, 0))
            if len(known_us):
                commits_us = pc.min_max(known_us).as_py()
                firsts.append(commits_us["min"] // 1000)
                self.last_commit_ms = max(self.last_commit_ms, commits_us["max"] // 1000)
        self.first_commit_ms = earliest(self.first_commit_ms, min(firsts, default=0))
        self.tables[batch.table.id] = NetTable(batch, ops, dropped)


def net_columns(
    records: Records,
    reader: Converter,
    plans_of: Callable[[Table, Op], Sequence[Plan] | None],
    targets_of: Callable[[Collection[TableId]], set[TableId]],
    is_in_order: Callable[[RowGroup, Plan], bool] = lambda _group, _plan: True,
) -> NetColumns:
    """Merges records by columns, as far as possible. `reader` reads them.

    `plans_of` returns the plans for rows of a source table and an operation: an empty list when
    they are not applied, None when each row must be looked at. `targets_of` returns the target
    tables of source tables whose records are read one by one: all rows of these take the
    row-at-a-time path, to keep their order. `is_in_order`: whether no other partition has changes
    of a group's rows.
    """
    found = read_columns(records.values, reader)
    if not found.groups and _hold_many_rows(records.take(found.rest[:MOST_PROBED]), reader):
        # They would be decoded here only to be decoded once more.
        return NetColumns(row_at_a_time=found.rest)
    groups: dict[TableId, list[tuple[RowGroup, Plan]]] = {}
    few, others, sources = _few_of_a_kind(records, found.rest, reader)
    row_at_a_time = set(others)
    for group in (*found.groups, *few):
        plans = plans_of(group.table, group.op)
        if plans is None or not _all_by_columns(group, plans, is_in_order):
            sources.add(group.table.id)
            row_at_a_time.update(group.records.to_pylist())
            continue
        for plan in plans:
            groups.setdefault(plan.target.id, []).append((group, plan))
    net = NetColumns()
    # All rows of a table take the same path, as two paths would not keep their order.
    one_by_one = targets_of(sources)
    for target, members in groups.items():
        batch = None
        if target not in one_by_one:
            batch = _merged(members)
        if batch is None:
            for group, _ in members:
                row_at_a_time.update(group.records.to_pylist())
            continue
        net.add(batch, members)
    net.row_at_a_time = sorted(row_at_a_time)
    return net


def _all_by_columns(
    group: RowGroup, plans: Sequence[Plan], is_in_order: Callable[[RowGroup, Plan], bool]
) -> bool:
    """Whether every plan can take the group's rows by columns."""
    return all(not _needs_look(group, plan) and is_in_order(group, plan) for plan in plans)


def _merged(members: Sequence[tuple[RowGroup, Plan]]) -> TableBatch | None:
    """The net effect of groups on one target table; None where columns do not show it, where the
    table was altered for some of them, or where a cell cannot be mapped, whose record only the
    row-at-a-time path names."""
    _, first_plan = members[0]
    if any(plan.target != first_plan.target for _, plan in members):
        return None
    try:
        mapped = list(starmap(_mapped, members))
    except DataError:
        return None
    return merge_columns(mapped, first_plan.target)


def _hold_many_rows(records: Records, reader: Converter) -> bool:
    """Whether each record does, and there is one."""
    for _, value in records:
        try:
            if len(reader.from_bytes(value or b"")) < 2:
                return False
        except DataError:
            return False
    return len(records) > 0


def _few_of_a_kind(
    records: Records, places: Sequence[int], reader: Converter
) -> tuple[list[RowGroup], list[int], set[TableId]]:
    """Groups records that could not be read as columns, because they are too few of their kind or
    their format has no such reader; so they do not force all others of their tables onto the
    row-at-a-time path. Also returns the indexes of records that are not a single row change, and
    the source tables of these."""
    kinds: dict[_Kind, tuple[list[int], list[RowChange]]] = {}
    others: list[int] = []
    sources: set[TableId] = set()
    for place, (_, value) in zip(places, records.take(places), strict=True):
        try:
            changes = reader.from_bytes(value or b"")
        except DataError:
            others.append(place)
            continue
        if len(changes) != 1 or changes[0].op is Op.TRUNCATE:
            others.append(place)
            for change in changes:
                sources.add(change.table.id)
            continue
        [change] = changes
        columns = tuple(change.before or ()), tuple(change.after or ())
        kind = change.table, change.op, *columns
        of_kind_places, of_kind_changes = kinds.setdefault(kind, ([], []))
        of_kind_places.append(place)
        of_kind_changes.append(change)
    return list(starmap(_group, kinds.values())), others, sources


def _group(places: Sequence[int], changes: Sequence[RowChange]) -> RowGroup:
    first = changes[0]
    commits = [change.origin.commit_us for change in changes]
    return RowGroup(
        first.table,
        first.op,
        pa.array(places, pa.int64()),
        _columns(list(map(attrgetter("before"), changes))),
        _columns(list(map(attrgetter("after"), changes))),
        pa.array(commits, pa.int64()),
    )


def _columns(images: Sequence[Row | None]) -> dict[str, pa.Array] | None:
    """The columns of rows that all have the same ones; None without rows."""
    if images[0] is None:
        return None
    # The changes are of one kind, so either all have the image or none has.
    rows = [image for image in images if image is not None]
    columns: dict[str, pa.Array] = {}
    for name in images[0]:
        cells = list(map(itemgetter(name), rows))
        columns[name] = pa.array(cells, pa.string())
    return columns


def _needs_look(group: RowGroup, plan: Plan) -> bool:
    """Whether rows must be mapped one by one, including those with a column that their records do
    not describe, and those whose old row may lack a part of the target's key."""
    if plan.loose and group.op is Op.UPDATE and not plan.source.is_described:
        return True
    return bool(plan.computed or plan.masks) or not (
        plan.describes(group.before) and plan.describes(group.after)
    )


def _mapped(group: RowGroup, plan: Plan) -> RowGroup:
    if plan.is_same:
        return group
    before = _image(group.before, plan)
    after = _image(group.after, plan)
    return replace(group, before=before, after=after)


def _image(image: Mapping[str, pa.Array] | None, plan: Plan) -> dict[str, pa.Array] | None:
    if image is None:
        return None
    mapped: dict[str, pa.Array] = {}
    for column, cells in image.items():
        name = plan.names[column]
        if name is not None:
            conversion = plan.converted.get(column)
            mapped[name] = _converted(cells, conversion) if conversion else cells
    return mapped


def _converted(cells: pa.Array, conversion: Conversion) -> pa.Array:
    """Converts each distinct text once, as rows of a batch share most of their times and labels."""
    known = cells.dictionary_encode()
    texts = known.dictionary.to_pylist()
    return pa.array(list(map(conversion.cell, texts)), pa.string()).take(known.indices)
