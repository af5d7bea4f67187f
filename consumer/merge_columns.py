"""`merge` on columns: the net effect of many changes of a table, where the last change of a key says it all. Pure.

That is so for inserts, for updates that hold whole rows and keep their key, and for deletes; of everything else nothing is said here, and
the changes take the plain way, one by one. Both give the same batch.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from cdcbus.plugins.column_rows import ColumnRows
from cdcbus.plugins.columnar import RowGroup
from cdcbus.plugins.contracts import TableBatch, TargetTable, Writes
from cdcbus.plugins.rowchange import Op


def merge_columns(groups: Sequence[RowGroup], table: TargetTable) -> TableBatch | None:
    """The net effect of the groups, whose rows are mapped (target names) and all of this table; an update of a row that the target lacks
    inserts it. None when it cannot be told from the last change of each key."""
    if not table.key or not all(_keeps_key(group, table) for group in groups):
        return None
    written = {frozenset(group.after) for group in groups if group.after is not None}
    if len(written) > 1:
        return None
    names = tuple(name for name in table.columns if name in next(iter(written), table.key))
    has_open_columns = len(names) < sum(not column.is_generated for column in table.columns.values())
    if has_open_columns and written and any(group.after is None for group in groups):
        return None  # a row that comes back gets the target's defaults there
    last, passing = _last_of_each_key(groups, table, names)
    is_delete = last.column("is_delete")
    gone, kept = last.filter(is_delete), last.filter(pc.invert(is_delete))
    deletes = ColumnRows([gone.column(str(names.index(name))).combine_chunks() for name in table.key])
    writes = ColumnRows([kept.column(str(i)).combine_chunks() for i in range(len(names))])
    are_new = all(group.op is Op.INSERT for group in groups)
    return TableBatch(table, deletes=deletes, writes=[Writes(names, writes, are_new=are_new)] if len(writes) else [], passing=passing)


def _keeps_key(group: RowGroup, table: TargetTable) -> bool:
    """Whether its rows have the whole key, and keep it."""
    images = [image for image in (group.before, group.after) if image is not None]
    if not all(name in image and not image[name].null_count for image in images for name in table.key):
        return False
    return group.op is not Op.UPDATE or (len(images) == 2 and all(images[0][name].equals(images[1][name]) for name in table.key))


def _last_of_each_key(groups: Sequence[RowGroup], table: TargetTable, names: Sequence[str]) -> tuple[pa.Table, int]:
    """Whether it is a delete, and the cells, numbered as in `names`, of the last change of each key; a delete has the key's only. And how
    many keys begin with an insert and end with a delete."""
    parts = []
    for group in groups:
        image = (group.before if group.after is None else group.after) or {}
        count = len(group.records)
        cells = [image[name] if group.after is not None or name in table.key else pa.nulls(count, pa.string()) for name in names]
        is_delete = pa.repeat(group.after is None, count)
        parts.append(pa.table([group.records, is_delete, *cells], ["place", "is_delete", *map(str, range(len(names)))]))
    rows = pa.concat_tables(parts)
    by_key = rows.group_by([str(names.index(name)) for name in table.key], use_threads=False)
    inserts, gone = ([group.records for group in groups if group.op is op] for op in (Op.INSERT, Op.DELETE))
    may_pass = bool(inserts and gone)
    places = by_key.aggregate([("place", "max"), ("place", "min")] if may_pass else [("place", "max")])
    passing = _count_in(places.column("place_min"), inserts, places.column("place_max"), gone) if may_pass else 0
    return rows.filter(pc.is_in(rows.column("place"), value_set=places.column("place_max").combine_chunks())), passing


def _count_in(firsts: pa.ChunkedArray, inserts: Sequence[pa.Array], lasts: pa.ChunkedArray, deletes: Sequence[pa.Array]) -> int:
    """How many of the pairs of a first and a last place are an insert and a delete."""
    is_born, is_gone = (pc.is_in(places, value_set=pa.concat_arrays(of_op)) for places, of_op in ((firsts, inserts), (lasts, deletes)))
    return int(pc.sum(pc.and_(is_born, is_gone)).as_py() or 0)
