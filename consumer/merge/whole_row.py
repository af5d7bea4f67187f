"""Finds which columns an image lacks to be a whole row. Pure."""

from __future__ import annotations

from cdcbus.plugins.contracts import TargetTable
from cdcbus.plugins.rowchange import Row, RowChange


def columns_missing(change: RowChange, target: TargetTable, row: Row) -> list[str]:
    """The columns that a row of a mapped change lacks to be whole: of the source's columns, or,
    where records do not describe all of them, of the target's writable columns."""
    if change.table.is_described:
        return [column.name for column in change.table.columns if column.name not in row]
    return [
        name
        for name, column in target.columns.items()
        if not column.is_generated and name not in row
    ]
