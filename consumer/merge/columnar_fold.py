"""`merge` on columns: the net effect of many changes of a table, where the last change of a key
says it all. Pure.

That is so for inserts, for updates that hold whole rows and keep their key, and for deletes; of
everything else nothing is said here, and the changes take the row-at-a-time path. Both give the
same batch.
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
    """The net effect of the groups, whose rows are mapped (target names) and all of this table;
    an update of a row that the target lacks inserts it. None when it cannot be told from the
    last change of each key."""
    if not table.key or not all(
        name in image
        for group in groups
        for image in (group.before, group.after)
        if image
        for name in table.key
    ):
        return None
    if any(_may_round(group, table) for group in groups):
        return None  # whether the row is another one, only a look at each tells
    if any(hold_of(table.columns[name]) for name in table.key):
        groups = [
            replace(group, before=_held(group.before, table), after=_held(group.after, table))
            for group in groups
        ]
    if not all(_keeps_key(group, table) for group in groups):
        return None
    written = {frozenset(group.after) for group in groups if group.after is not None}
    if len(written) > 1:
        return None
    names = tuple(name for name in table.columns if name in next(iter(written), table.key))
    has_open_columns = len(names) < sum(
        not column.is_generated for column in table.columns.values()
    )
    if has_open_columns and written and any(group.after is None for group in groups):
        return None  # a row that comes back gets the target's defaults there
    if any(_may_be_equal(groups, name) for name in table.key if table.columns[name].is_folding):
        return None
    last, passing, expected = _last_of_each_key(groups, table, names)
    is_delete = last.column("is_delete")
    gone, kept = _matches(last, is_delete), _matches(last, pc.invert(is_delete))
    deletes = ColumnRows(
        [gone.column(str(names.index(name))).combine_chunks() for name in table.key]
    )
    writes = ColumnRows([kept.column(str(i)).combine_chunks() for i in range(len(names))])
    are_new = all(group.op is Op.INSERT for group in groups)
    parts = [Writes(names, writes, expected=expected, are_new=are_new)] if len(writes) else []
    return TableBatch(table, deletes=deletes, writes=parts, passing=passing)


def _may_round(group: RowGroup, table: TargetTable) -> bool:
    """Whether the target holds less of a key than the source says."""
    sources = {column.name: column.mysql_type for column in group.table.columns}
    columns = [table.columns[name] for name in table.key]
    if group.after is None or not any(map(exact_of, columns)):
        return False
    after = group.after
    return any(
        holds_less(column, sources.get(column.name, "")) or is_rounded(column, after[column.name])
        for column in columns
    )


def _held(image: Mapping[str, pa.Array] | None, table: TargetTable) -> dict[str, pa.Array] | None:
    """With the key as the target holds it."""
    return (
        None
        if image is None
        else {
            **image,
            **{name: held_column(table.columns[name], image[name]) for name in table.key},
        }
    )


def _may_be_equal(groups: Sequence[RowGroup], name: str) -> bool:
    """Whether texts that differ in this column may be equal at the target."""
    images = [image for group in groups for image in (group.before, group.after) if image]
    cells = pc.unique(pa.concat_arrays([image[name] for image in images])).to_pylist()
    return len({folded(cell) for cell in cells}) < len(cells)


def _keeps_key(group: RowGroup, table: TargetTable) -> bool:
    """Whether its rows have the whole key, and keep it."""
    images = [image for image in (group.before, group.after) if image is not None]
    if not all(
        name in image and not image[name].null_count for image in images for name in table.key
    ):
        return False
    return group.op is not Op.UPDATE or (
        len(images) == 2 and all(images[0][name].equals(images[1][name]) for name in table.key)
    )


def _last_of_each_key(
    groups: Sequence[RowGroup], table: TargetTable, names: Sequence[str]
) -> tuple[pa.Table, int, int]:
    """Whether it is a delete, and the cells, numbered as in `names`, of the last change of each
    key; a delete has the key's only. And how many keys begin with an insert and end with a
    delete, and how many do neither."""
    parts = []
    for group in groups:
        image = (group.before if group.after is None else group.after) or {}
        count = len(group.records)
        cells = [
            image[name]
            if group.after is not None or name in table.key
            else pa.nulls(count, pa.string())
            for name in names
        ]
        is_delete = pa.repeat(pa.scalar(group.after is None, pa.bool_()), count)
        parts.append(
            pa.table(
                [group.records, is_delete, *cells],
                ["place", "is_delete", *map(str, range(len(names)))],
            )
        )
    rows = pa.concat_tables(parts)
    by_key = rows.group_by([str(names.index(name)) for name in table.key], use_threads=False)
    if all(group.op is groups[0].op for group in groups):
        lasts = by_key.aggregate([("place", "max")]).column("place_max")
        passing, expected = 0, len(lasts) if groups[0].op is Op.UPDATE else 0
    else:
        places = by_key.aggregate([("place", "max"), ("place", "min")])
        lasts = places.column("place_max")
        starts_with_insert = _is_of(places.column("place_min"), groups, Op.INSERT)
        ends_with_delete = _is_of(lasts, groups, Op.DELETE)
        # Keys inserted and deleted within the batch never reach the target; keys that do neither
        # must already be there.
        transient = pc.and_(starts_with_insert, ends_with_delete)
        preexisting = pc.invert(pc.or_(starts_with_insert, ends_with_delete))
        passing, expected = pc.sum(transient).as_py() or 0, pc.sum(preexisting).as_py() or 0
    return (
        _matches(rows, pc.is_in(rows.column("place"), value_set=lasts.combine_chunks())),
        passing,
        expected,
    )


def _matches(rows: pa.Table, are_chosen: pa.ChunkedArray) -> pa.Table:
    """The chosen rows; all of them are not copied."""
    return rows if pc.all(are_chosen).as_py() else rows.filter(are_chosen)


def _is_of(places: pa.ChunkedArray, groups: Sequence[RowGroup], op: Op) -> pa.ChunkedArray:
    """Whether a change is of that operation, by its place."""
    return pc.is_in(
        places,
        value_set=pa.concat_arrays(
            [pa.array([], places.type), *(group.records for group in groups if group.op is op)]
        ),
    )
