"""The cells of a row change, before and after side by side, as pages show them."""

from __future__ import annotations

from dataclasses import dataclass

from cdcbus.plugins.rowchange import Cell, RowChange
from cdcbus.tasks.config.diagnostics import printable

CELL_CHARACTERS = 1000  # shown of a cell


@dataclass(frozen=True, slots=True)
class FoundCell:
    """A column of a row change; None is NULL; `has_before`, `has_after`: whether it was sent."""

    name: str
    before: Cell
    after: Cell
    has_before: bool
    has_after: bool
    is_key: bool

    @property
    def is_changed(self) -> bool:
        return self.has_before and self.has_after and self.before != self.after


def cells_side_by_side(change: RowChange) -> list[FoundCell]:
    """All columns, those of the key first, each with its cells before and after."""
    before, after = change.before or {}, change.after or {}
    key = change.table.key
    found = []
    for name in dict.fromkeys([*key, *after, *before]):
        if name not in before and name not in after:
            continue  # a key column that was not sent
        cell = FoundCell(
            name=printable(name),
            before=short(before.get(name)),
            after=short(after.get(name)),
            has_before=name in before,
            has_after=name in after,
            is_key=name in key,
        )
        found.append(cell)
    return found


def short(cell: Cell) -> Cell:
    """The part of a cell that a page shows."""
    if cell is None:
        return None
    shown = printable(cell[:CELL_CHARACTERS])
    if len(cell) <= CELL_CHARACTERS:
        return shown
    return f"{shown}… ({len(cell):,} characters)"
