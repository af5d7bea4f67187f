"""A change of a row's key that brings only some of its columns: the row stays, and gets the key.
Pure."""

from __future__ import annotations

from cdcbus.consumer.merge.whole_row import (
    Key,
    cells_of,
    columns_missing,
    holds_less_of_key,
    in_order,
)
from cdcbus.plugins.contracts import Moves, TableBatch, TargetTable, Writes
from cdcbus.plugins.loaders.cells.canonical import (
    DOUBLE,
    SPELLINGS,
    WHOLE,
    exactly,
    holding,
    may_round,
)
from cdcbus.plugins.loaders.cells.equal_keys import folds
from cdcbus.plugins.loaders.cells.numbers import SCALED
from cdcbus.plugins.rowchange import Op, RowChange


def moved(change: RowChange, table: TargetTable, *, insert_on_update: bool) -> TableBatch | None:
    """The change as a move of the row to its new key, and then an update of the row there: columns
    that the change lacks stay as the target has them, also where the row already exists under the
    new key, as changes came again. `insert_on_update`: a row that the target lacks is inserted.

    None for any other change, for a table whose loader moves no rows, and for a key that only an
    insert may give, of which the target has a text of its own, or that it checks later: by such a
    key the row might not be found, or another one.
    """
    if change.op is not Op.UPDATE or not table.key or not table.can_move:
        return None
    before = change.before or {}
    after = change.after or {}
    row = {**before, **after}
    if not columns_missing(change, table, row):
        return None
    is_fixed = any(table.columns[name].is_fixed for name in table.key)
    # A value that is only spelled in another way is found.
    found = {*SPELLINGS, *WHOLE, *DOUBLE, *SCALED}
    is_losing = holds_less_of_key(table, change.table) or any(
        may_round(column) and column.type not in found for column in table.key_columns
    )
    if is_fixed or table.is_key_deferrable or folds(table) or is_losing:
        return None
    hold = holding(table, table.key)
    key_of = cells_of(table.key)
    try:
        # What an image lacks of the key has not changed.
        own_old, own_new = key_of({**after, **before}), key_of(row)
    except KeyError:
        return None
    old, new = hold(own_old), hold(own_new)
    if old == new or None in old or None in new:
        return None
    # Types need not be known: only cells show then that a number is held with all its digits.
    if not (_is_whole(table, own_old, old) and _is_whole(table, own_new, new)):
        return None
    brought = {**row, **dict(zip(table.key, new, strict=True))}
    columns = in_order(table, brought)
    cells = cells_of(columns)(brought)
    # A source that checks each row at once, as MySQL and MariaDB do, can never give a row the key
    # of another one. Others, as Oracle, check at the statement's end: there a row under the new key
    # may be one that gets a new key next.
    moves = Moves([(old, new)], may_repeat=not change.table.checks_keys_late)
    writes = Writes(columns, [cells], insert_on_update, expected=1)
    return TableBatch(table, moves=moves, writes=[writes])


def _is_whole(table: TargetTable, own: Key, held: Key) -> bool:
    """Whether the target holds all of a key, beyond its spelling."""
    say = exactly(table, table.key)
    for each, other, column in zip(say(own), say(held), table.key_columns, strict=True):
        if each != other and column.type not in SPELLINGS:
            return False
    return True
