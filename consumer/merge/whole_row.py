"""Columns and cells of a row: which of them an image has, and which it lacks to be a whole row.
Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from math import inf
from operator import itemgetter

from cdcbus.plugins.contracts import TargetTable
from cdcbus.plugins.errors import TargetUnavailable
from cdcbus.plugins.loaders.cells.canonical import holds_less, is_kept
from cdcbus.plugins.rowchange import Cell, Row, RowChange, Table

Key = tuple[Cell, ...]


def columns_missing(change: RowChange, target: TargetTable, row: Row) -> list[str]:
    """The columns that a row of a mapped change lacks to be whole: of the source's columns, or,
    where records do not describe all of them, of the target's writable columns."""
    if change.table.is_described:
        return change.table.lacking(row)
    return [
        name
        for name, column in target.columns.items()
        if not column.is_generated and name not in row
    ]


def in_order(target: TargetTable, names: Collection[str]) -> tuple[str, ...]:
    """The columns with these names in the target's order. Raises TargetUnavailable where the
    target, as it is known, lacks one, whose cells would be left out without a word."""
    found = tuple(name for name in target.columns if name in names)
    if len(found) < len(names):
        raise TargetUnavailable(
            f"target table {target.id} has been altered meanwhile, and is looked at again"
        )
    return found


def width_of(target: TargetTable) -> float:
    """How many columns a row must bring so that an update leaves nothing of the row before: all
    that are writable. Infinite where only an insert can set one outside the key."""
    if any(column.is_fixed and name not in target.key for name, column in target.columns.items()):
        return inf
    return sum(not column.is_generated for column in target.columns.values())


def cells_of(columns: Sequence[str]) -> Callable[[Row], Key]:
    """A function that returns these columns' cells of a row, as a tuple even for a single column.
    It raises KeyError for a column that the row lacks."""
    if len(columns) == 1:
        [only] = columns
        return lambda row: (row[only],)
    return itemgetter(*columns)


def holds_less_of_key(target: TargetTable, source: Table) -> bool:
    """Whether the target holds less of a key than the types of the source, under the target's
    names, can express; False where only cells can tell, see `looked_at`."""
    for column in source.columns:
        name = column.name
        if name in target.key and holds_less(target.columns[name], column.own_type):
            return True
    return False


def keeps_key(target: TargetTable, source: Table) -> bool:
    """Whether the types alone, the source's under the target's names, show that different keys stay
    different at the target."""
    types = _types(source)
    return all(is_kept(column, types.get(column.name, "")) for column in target.key_columns)


def looked_at(target: TargetTable, source: Table) -> frozenset[str]:
    """The columns of the key whose cells show whether the target holds less of them than the
    source: not a BINARY of a source column whose type is unknown, as zero bytes may be left off."""
    types = _types(source)
    names: set[str] = set()
    for column in target.key_columns:
        type_ = types.get(column.name, "")
        if (type_ or column.type != "binary") and not is_kept(column, type_):
            names.add(column.name)
    return frozenset(names)


def _types(source: Table) -> dict[str, str]:
    """What the source's columns hold at most, by the target's names."""
    return {column.name: column.mysql_type for column in source.columns}
