"""`merge` on columns: the net effect of many changes of a table, where the last change of each key
determines it. Pure.

That holds for inserts, for updates with whole rows that keep their key, and for deletes. Other
changes are not handled here, and take the row-at-a-time path. Both paths give the same batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter

import pyarrow as pa
import pyarrow.compute as pc

from cdcbus.consumer.merge.whole_row import holds_less_of_key, in_order, looked_at, width_of
from cdcbus.plugins.contracts import TableBatch, TargetTable, Writes
from cdcbus.plugins.converters.columnar import RowGroup
from cdcbus.plugins.loaders.cells.arrow_rows import ColumnRows
from cdcbus.plugins.loaders.cells.canonical import folded, held_column, is_rounded
from cdcbus.plugins.rowchange import Op


def merge_columns(groups: Sequence[RowGroup], table: TargetTable) -> TableBatch | None:
    """The net effect of the groups, whose rows are mapped (target names) and all of this table; an
    update of a row that the target lacks inserts it. None when the last change of each key does not
    determine it."""
    if not table.key:
        return None
    held: list[RowGroup] = []
    for group in groups:
        with_held_key = _with_held_key(group, table)
        if with_held_key is None:
            return None
        held.append(with_held_key)
    names = _columns_written(held, table)
    if names is None:
        return None
    for name in table.key:
        if table.columns[name].is_folding and _may_be_equal(held, name):
            return None
    last, passing, expected = _last_of_each_key(held, table, names)
    is_delete = last.column("is_delete")
    deleted = _matches(last, is_delete)
    kept = _matches(last, pc.invert(is_delete))
    deletes = _cells_of(deleted, map(names.index, table.key))
    writes: list[Writes] = []
    if len(kept):
        rows = _cells_of(kept, range(len(names)))
        are_new = _ops_of(held) == {Op.INSERT}
        writes.append(Writes(names, rows, expected=expected, are_new=are_new))
    return TableBatch(table, deletes=deletes, writes=writes, passing=passing)


def _with_held_key(group: RowGroup, table: TargetTable) -> RowGroup | None:
    """The group with its key as the target holds it; None where rows lack a part of their key or
    change it, or where the target rounds it: rows whose rounded keys are equal can only be
    distinguished row by row."""
    if not _has_key(group, table):
        return None
    before = _with_held(group.before, table)
    after = _with_held(group.after, table)
    if _may_round(group, after, table):
        return None
    if group.op is Op.UPDATE:
        # Without its before image an update may have moved the row.
        if before is None or after is None:
            return None
        for name in table.key:
            if not before[name].equals(after[name]):
                return None
    return replace(group, before=before, after=after)


def _has_key(group: RowGroup, table: TargetTable) -> bool:
    """Whether all images present have the whole key."""
    for image in (group.before, group.after):
        if image is None:
            continue
        for name in table.key:
            if name not in image or image[name].null_count:
                return False
    return True


def _may_round(group: RowGroup, held: Mapping[str, pa.Array] | None, table: TargetTable) -> bool:
    """Whether the target holds less of a key than the source."""
    if group.after is None or held is None:
        return False
    # First by the types alone, which needs no look at the cells.
    if holds_less_of_key(table, group.table):
        return True
    for name in looked_at(table, group.table):
        cells = group.after[name]
        if held[name] is not cells and is_rounded(table.columns[name], cells):
            return True
    return False


def _with_held(
    image: Mapping[str, pa.Array] | None, table: TargetTable
) -> Mapping[str, pa.Array] | None:
    """An image with its key as the target holds it."""
    if image is None:
        return None
    held = dict(image)
    for name in table.key:
        held[name] = held_column(table.columns[name], image[name])
    return held


def _columns_written(groups: Sequence[RowGroup], table: TargetTable) -> tuple[str, ...] | None:
    """The columns of all rows that are written, in the table's order; of the key, where all are
    deleted. None where they differ, or leave open what a former row may have filled."""
    written: set[frozenset[str]] = set()
    for group in groups:
        if group.after is not None:
            written.add(frozenset(group.after))
    if not written:
        return in_order(table, table.key)
    # Rows with different columns would have to be merged cell by cell, not by their last change.
    if len(written) > 1:
        return None
    names = in_order(table, *written)
    # A row that was deleted and inserted again gets the target's defaults in open columns.
    if Op.DELETE in _ops_of(groups) and len(names) < width_of(table):
        return None
    return names


def _ops_of(groups: Sequence[RowGroup]) -> set[Op]:
    return set(map(attrgetter("op"), groups))


def _may_be_equal(groups: Sequence[RowGroup], name: str) -> bool:
    """Whether different texts in this column can be equal at the target."""
    columns: list[pa.Array] = []
    for group in groups:
        for image in (group.before, group.after):
            if image is not None:
                columns.append(image[name])
    cells = pc.unique(pa.concat_arrays(columns)).to_pylist()
    return len(set(map(folded, cells))) < len(cells)


def _last_of_each_key(
    groups: Sequence[RowGroup], table: TargetTable, names: Sequence[str]
) -> tuple[pa.Table, int, int]:
    """The last change of each key, whether it is a delete, and its cells, numbered as in `names`; a
    delete has those of the key only. Also returns how many keys begin with an insert and end with a
    delete, and how many do neither."""
    rows = pa.concat_tables([_numbered(group, table, names) for group in groups])
    key = [str(names.index(name)) for name in table.key]
    by_key = rows.group_by(key, use_threads=False)
    ops = _ops_of(groups)
    if len(ops) == 1:
        # Only inserts, only updates or only deletes: no key begins in one way and ends in another.
        lasts = by_key.aggregate([("place", "max")]).column("place_max")
        passing = 0
        expected = len(lasts) if Op.UPDATE in ops else 0
    else:
        places = by_key.aggregate([("place", "max"), ("place", "min")])
        lasts = places.column("place_max")
        starts_with_insert = _is_of(places.column("place_min"), groups, Op.INSERT)
        ends_with_delete = _is_of(lasts, groups, Op.DELETE)
        # Keys inserted and deleted within the batch never reach the target; keys that do neither
        # must already be there.
        transient = pc.and_(starts_with_insert, ends_with_delete)
        preexisting = pc.invert(pc.or_(starts_with_insert, ends_with_delete))
        passing = pc.sum(transient).as_py() or 0
        expected = pc.sum(preexisting).as_py() or 0
    is_last = pc.is_in(rows.column("place"), value_set=lasts.combine_chunks())
    return _matches(rows, is_last), passing, expected


def _numbered(group: RowGroup, table: TargetTable, names: Sequence[str]) -> pa.Table:
    """A group as a table of places, whether they are deletes, and cells by the number of their
    column, so that no column of the target can have the name of one of the first two."""
    count = len(group.records)
    is_delete = pa.repeat(pa.scalar(group.after is None, pa.bool_()), count)
    cells: list[pa.Array] = []
    if group.after is not None:
        cells += map(group.after.__getitem__, names)
    else:
        key = group.before or {}
        no_cells = pa.nulls(count, pa.string())
        for name in names:
            cells.append(key[name] if name in table.key else no_cells)
    numbers = map(str, range(len(names)))
    return pa.table([group.records, is_delete, *cells], ["place", "is_delete", *numbers])


def _cells_of(rows: pa.Table, places: Iterable[int]) -> ColumnRows:
    """The rows' columns with these numbers."""
    return ColumnRows([rows.column(str(place)).combine_chunks() for place in places])


def _matches(rows: pa.Table, are_chosen: pa.ChunkedArray) -> pa.Table:
    """The chosen rows; not copied if all are chosen."""
    return rows if pc.all(are_chosen).as_py() else rows.filter(are_chosen)


def _is_of(places: pa.ChunkedArray, groups: Sequence[RowGroup], op: Op) -> pa.ChunkedArray:
    """Whether the change at each place is of this operation."""
    of_op = [group.records for group in groups if group.op is op]
    # The empty array provides the type where no group is of this operation.
    return pc.is_in(places, value_set=pa.concat_arrays([pa.array([], places.type), *of_op]))
