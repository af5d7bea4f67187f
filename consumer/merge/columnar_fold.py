"""`merge` on columns: the net effect of many changes of a table, where the last change of each key
determines it. Pure.

That holds for inserts, for updates with whole rows that keep their key, and for deletes. Other
changes are not handled here, and take the row-at-a-time path. Both paths give the same batch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from cdcbus.plugins.contracts import TableBatch, TargetTable, Writes
from cdcbus.plugins.converters.columnar import RowGroup
from cdcbus.plugins.loaders.cells.arrow_rows import ColumnRows
from cdcbus.plugins.loaders.cells.canonical import (
    exact_of,
    folded,
    held_column,
    hold_of,
    holds_less,
    is_rounded,
)
from cdcbus.plugins.rowchange import Op


def merge_columns(groups: Sequence[RowGroup], table: TargetTable) -> TableBatch | None:
    """The net effect of the groups, whose rows are mapped (target names) and all of this table; an
    update of a row that the target lacks inserts it. None when the last change of each key does not
    determine it."""
    if not table.key or not _have_key(groups, table):
        return None
    # Rows whose rounded keys are equal can only be distinguished row by row.
    if any(_may_round(group, table) for group in groups):
        return None
    if any(hold_of(table.columns[name]) for name in table.key):
        groups = [_as_held(group, table) for group in groups]
    if not all(_keeps_key(group, table) for group in groups):
        return None
    # Rows with different columns would have to be merged cell by cell, not by their last change.
    written = {frozenset(group.after) for group in groups if group.after is not None}
    if len(written) > 1:
        return None
    brought = next(iter(written), table.key)
    names = tuple(name for name in table.columns if name in brought)
    # A row that was deleted and inserted again gets the target's defaults in open columns.
    has_deletes = any(group.after is None for group in groups)
    width = sum(not column.is_generated for column in table.columns.values())
    if written and has_deletes and len(names) < width:
        return None
    folding = [name for name in table.key if table.columns[name].is_folding]
    if any(_may_be_equal(groups, name) for name in folding):
        return None
    last, passing, expected = _last_of_each_key(groups, table, names)
    is_delete = last.column("is_delete")
    deleted = _matches(last, is_delete)
    kept = _matches(last, pc.invert(is_delete))
    deletes = _cells_of(deleted, [names.index(name) for name in table.key])
    writes = _cells_of(kept, range(len(names)))
    are_new = all(group.op is Op.INSERT for group in groups)
    parts = [Writes(names, writes, expected=expected, are_new=are_new)] if len(writes) else []
    return TableBatch(table, deletes=deletes, writes=parts, passing=passing)


def _have_key(groups: Sequence[RowGroup], table: TargetTable) -> bool:
    """Whether all images present have the whole key."""
    key = set(table.key)
    for group in groups:
        for image in (group.before, group.after):
            if image and not key <= image.keys():
                return False
    return True


def _cells_of(rows: pa.Table, places: Sequence[int]) -> ColumnRows:
    """The rows' columns with these numbers, as in `_last_of_each_key`."""
    return ColumnRows([rows.column(str(place)).combine_chunks() for place in places])


def _may_round(group: RowGroup, table: TargetTable) -> bool:
    """Whether the target holds less of a key than the source."""
    sources = {column.name: column.mysql_type for column in group.table.columns}
    columns = [table.columns[name] for name in table.key]
    if group.after is None or not any(map(exact_of, columns)):
        return False
    for column in columns:
        # First by the types alone, which needs no look at the cells.
        if holds_less(column, sources.get(column.name, "")):
            return True
        if is_rounded(column, group.after[column.name]):
            return True
    return False


def _as_held(group: RowGroup, table: TargetTable) -> RowGroup:
    """The group with its key as the target holds it."""
    return replace(group, before=_held(group.before, table), after=_held(group.after, table))


def _held(image: Mapping[str, pa.Array] | None, table: TargetTable) -> dict[str, pa.Array] | None:
    if image is None:
        return None
    key = {name: held_column(table.columns[name], image[name]) for name in table.key}
    return {**image, **key}


def _may_be_equal(groups: Sequence[RowGroup], name: str) -> bool:
    """Whether different texts in this column can be equal at the target."""
    columns: list[pa.Array] = []
    for group in groups:
        columns += [image[name] for image in (group.before, group.after) if image]
    cells = pc.unique(pa.concat_arrays(columns)).to_pylist()
    return len({folded(cell) for cell in cells}) < len(cells)


def _keeps_key(group: RowGroup, table: TargetTable) -> bool:
    """Whether its rows have the whole key, and keep it."""
    before = group.before
    after = group.after
    for image in (before, after):
        if image is None:
            continue
        for name in table.key:
            if name not in image or image[name].null_count:
                return False
    if group.op is not Op.UPDATE:
        return True
    # Without its before image an update may have moved the row.
    if before is None or after is None:
        return False
    return all(before[name].equals(after[name]) for name in table.key)


def _last_of_each_key(
    groups: Sequence[RowGroup], table: TargetTable, names: Sequence[str]
) -> tuple[pa.Table, int, int]:
    """The last change of each key, whether it is a delete, and its cells, numbered as in `names`; a
    delete has those of the key only. Also returns how many keys begin with an insert and end with a
    delete, and how many do neither."""
    rows = pa.concat_tables([_numbered(group, table, names) for group in groups])
    by_key = rows.group_by([str(names.index(name)) for name in table.key], use_threads=False)
    if all(group.op is groups[0].op for group in groups):
        # Only inserts, only updates or only deletes: no key begins in one way and ends in another.
        lasts = by_key.aggregate([("place", "max")]).column("place_max")
        passing = 0
        expected = len(lasts) if groups[0].op is Op.UPDATE else 0
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
    if group.after is not None:
        cells = [group.after[name] for name in names]
    else:
        key = group.before or {}
        no_cells = pa.nulls(count, pa.string())
        cells = [key[name] if name in table.key else no_cells for name in names]
    is_delete = pa.repeat(pa.scalar(group.after is None, pa.bool_()), count)
    numbers = [str(place) for place in range(len(names))]
    return pa.table([group.records, is_delete, *cells], ["place", "is_delete", *numbers])


def _matches(rows: pa.Table, are_chosen: pa.ChunkedArray) -> pa.Table:
    """The chosen rows; not copied if all are chosen."""
    return rows if pc.all(are_chosen).as_py() else rows.filter(are_chosen)


def _is_of(places: pa.ChunkedArray, groups: Sequence[RowGroup], op: Op) -> pa.ChunkedArray:
    """Whether the change at each place is of this operation."""
    of_op = [group.records for group in groups if group.op is op]
    # The empty array provides the type where no group is of this operation.
    return pc.is_in(places, value_set=pa.concat_arrays([pa.array([], places.type), *of_op]))
