"""Merges many changes of a table without a key to their net effect: the rows that it loses and
gains. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from cdcbus.consumer.merge.whole_row import Key, columns_missing, in_order
from cdcbus.plugins.contracts import Swaps, TableBatch, TargetTable
from cdcbus.plugins.errors import DataError
from cdcbus.plugins.loaders.cells.canonical import holding
from cdcbus.plugins.rowchange import Op, Row, RowChange


def merge_keyless(
    changes: Sequence[RowChange], table: TargetTable, *, insert_on_update: bool
) -> TableBatch:
    """The net effect of `changes` on `table`, where rows that are equal in all columns are
    interchangeable.

    Not for changes that come twice, as their rows would be inserted twice. Raises DataError for a
    delete or update without its whole old row.
    """
    truncate = False
    runs: list[_Run] = []
    for change in changes:
        if change.op is Op.TRUNCATE:
            truncate = True
            runs.clear()
            continue
        before = None if change.op is Op.INSERT else _whole(change, table)
        after = None
        if change.op is not Op.DELETE:
            after = {**(before or {}), **(change.after or {})}
        columns = in_order(table, after or before or {})
        if not runs or runs[-1].columns != columns:
            runs.append(_Run(columns, table))
        runs[-1].add(before, after)
    return TableBatch(table, truncate, swaps=[run.swaps(insert_on_update) for run in runs])


def _whole(change: RowChange, table: TargetTable) -> Row:
    before = change.before or {}
    missing = change.table.lacking(before)
    if change.op is Op.UPDATE and not change.table.has_old_rows:
        # What the source did not log is in neither image: by the rest another row would be found.
        missing = columns_missing(change, table, before)
    if missing:
        raise DataError(
            f"table {table.id}: it has no key, and {change.op} comes without column "
            f"{', '.join(missing)} of the old row: "
            "give it a primary key, or let the source log full row images"
        )
    return before


class _Run:
    """Consecutive changes with the same columns."""

    def __init__(self, columns: tuple[str, ...], table: TargetTable) -> None:
        self.columns = columns
        self._hold = holding(table, columns)
        # Each pair is the row to delete and the row to insert.
        self._pairs: list[list[Key | None]] = []
        # Pairs by the row that they insert: a later change of an equal row takes one of them.
        self._ending: dict[Key, list[list[Key | None]]] = defaultdict(list)

    def add(self, before: Row | None, after: Row | None) -> None:
        """Adds a change from one row to another. The old row is one that an earlier change has
        inserted, if there is one; else the target's."""
        old = self._cells(before)
        new = self._cells(after)
        if old is not None and self._ending[old]:
            pair = self._ending[old].pop()
        else:
            pair = [old, None]
            self._pairs.append(pair)
        pair[1] = new
        if new is not None:
            self._ending[new].append(pair)

    def _cells(self, row: Row | None) -> Key | None:
        """A row's cells as the target holds them, so that its row is found."""
        return None if row is None else self._hold(tuple(row[name] for name in self.columns))

    def swaps(self, insert_on_update: bool) -> Swaps:
        return Swaps(
            self.columns,
            [(old, new) for old, new in self._pairs if (old, new) != (None, None)],
            insert_on_update,
        )
