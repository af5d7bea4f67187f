"""The net effect of a batch on one target table, and the counts of what it did."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import itemgetter

from cdcbus.plugins.contracts.target_table import TargetTable
from cdcbus.plugins.rowchange import Cell


@dataclass(frozen=True, slots=True)
class Writes:
    """Rows of one table with the same columns."""

    columns: tuple[str, ...]
    rows: Sequence[tuple[Cell, ...]]
    # A row that the target lacks is inserted, else left out.
    may_insert: bool = True
    # The number of rows that the target should hold: the batch's first change of them is not an
    # insert.
    expected: int = 0
    # The source has only inserted these rows, so the target rarely holds them; after a replay it
    # can.
    are_new: bool = field(default=False, compare=False)

    def rows_of(self, columns: Sequence[str]) -> list[tuple[Cell, ...]]:
        """The rows with only these of their columns, at least one, in this order."""
        places = list(map(self.columns.index, columns))
        if len(places) == 1:
            # for a single place, itemgetter would return the cell without a tuple
            return [(row[places[0]],) for row in self.rows]
        return list(map(itemgetter(*places), self.rows))

    def missed(self, inserted: int) -> int:
        """The number of rows that the target should have held but lacked, given how many were
        inserted."""
        return max(0, inserted + self.expected - len(self.rows))


@dataclass(frozen=True, slots=True)
class Swaps:
    """Rows of a table without a key, with the same columns: pairs of an old row and a new one.

    Without an old row a pair is an insert, without a new one a delete. The old row stands for any
    ONE row that is equal in all `columns`.
    """

    columns: tuple[str, ...]
    rows: Sequence[tuple[tuple[Cell, ...] | None, tuple[Cell, ...] | None]]
    # Where the target lacks the old row, which counts as missed, the new one is inserted, else
    # left out.
    may_insert: bool = True


@dataclass(frozen=True, slots=True)
class Moves:
    """Rows that get another key and keep all other columns: pairs of an old key and a new one, in
    `table.key` order. A row that the target lacks is left out.

    `may_repeat`: a row that exists under the new key is the same one, as changes came again, so the
    one under the old key is deleted. Else the target refuses such a row.
    """

    rows: Sequence[tuple[tuple[Cell, ...], tuple[Cell, ...]]]
    may_repeat: bool


@dataclass(frozen=True, slots=True)
class TableBatch:
    """The net effect on one target table: empty it if `truncate`, then apply `deletes` (key cells,
    in `table.key` order), then `moves`, then `writes`; for a table without a key, `swaps` instead
    of these three. Only tables with `can_move` get moves.

    Merged: a key is at most once in `deletes` and once in `writes`, so the order inside each part
    is free. A key in both is a row that is inserted again with columns left open, which get the
    target's defaults. Column names are the target's; every `columns` holds the key columns.
    """

    table: TargetTable
    truncate: bool = False
    deletes: Sequence[tuple[Cell, ...]] = ()
    writes: Sequence[Writes] = ()
    swaps: Sequence[Swaps] = ()
    moves: Moves | None = None
    # The number of keys in `deletes` that the batch has inserted first, so that the target rarely
    # holds them; after a replay it can.
    passing: int = 0
    # The number of updates of rows that the batch itself has deleted, where an update must not
    # insert.
    left_out: int = 0
    # Keys of new rows of which the target's columns hold less than the source: if the target holds
    # such a row already, it is another one, or the record came twice.
    fresh: Sequence[tuple[Cell, ...]] = ()
    # The writes also give the target's rows the new spelling of their keys.
    respells: bool = False

    def missed(self, deleted: int) -> int:
        """The number of deletes that should have matched a row but did not, given how many rows
        were deleted."""
        return max(0, len(self.deletes) - deleted - self.passing)


@dataclass(slots=True)
class Counts:
    """What a batch did to one table, in rows."""

    written: int = 0
    deleted: int = 0
    # Deletes and updates that should have matched a row but did not.
    missed: int = 0

    def add(self, other: Counts) -> None:
        self.written += other.written
        self.deleted += other.deleted
        self.missed += other.missed
