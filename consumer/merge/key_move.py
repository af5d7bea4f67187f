"""A change of a row's key that brings only some of its columns: the row stays, and gets the key.
Pure."""

from __future__ import annotations

from cdcbus.consumer.merge.whole_row import columns_missing
from cdcbus.plugins.contracts import Swaps, TableBatch, TargetTable, Writes
from cdcbus.plugins.loaders.cells.canonical import exactly, holding
from cdcbus.plugins.loaders.cells.equal_keys import folds
from cdcbus.plugins.rowchange import Op, RowChange


def moved(change: RowChange, table: TargetTable) -> TableBatch | None:
    """The change as an update of the row under its old key, and then of that key: whatever the
    change does not bring stays as the target has it, and so does a row that is there under the new
    key already, as changes came again. None for any other change, and for a key that only an insert
    may give, of which the target has a text of its own, or that it checks later: by such a one the
    row might not be found, or another one."""
    if change.op is not Op.UPDATE or not table.key:
        return None
    before = change.before or {}
    after = change.after or {}
    row = {**before, **after}
    if not columns_missing(change, table, row):
        return None
    is_fixed = any(table.columns[name].is_fixed for name in table.key)
    if is_fixed or table.is_key_deferrable or folds(table) or exactly(table, table.key):
        return None
    hold = holding(table, table.key)
    try:
        # What an image lacks of the key has not changed.
        old = hold(tuple({**after, **before}[name] for name in table.key))
        new = hold(tuple(row[name] for name in table.key))
    except KeyError:
        return None
    if old == new or None in old or None in new:
        return None
    brought = {**after, **dict(zip(table.key, old, strict=True))}
    columns = tuple(name for name in table.columns if name in brought)
    writes = []
    if len(columns) > len(table.key):
        cells = tuple(brought[name] for name in columns)
        writes.append(Writes(columns, [cells], may_insert=False))
    keys = Swaps(table.key, [(old, new)], may_insert=False)
    return TableBatch(table, writes=writes, swaps=[keys])
