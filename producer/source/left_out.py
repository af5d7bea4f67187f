"""Operations that a task leaves out: an archive without DELETE keeps deleted rows."""

from __future__ import annotations

from collections.abc import Callable

from cdcbus.plugins.rowchange import Op, TableId
from cdcbus.producer.decoding.row_image import OPS
from cdcbus.producer.source.row_events import Batch, Part, Rows


class Removal:
    """Removes row events from the parts of one attempt, which it is given in order. `is_first`: a
    removed part began the transaction that continues."""

    def __init__(self) -> None:
        self.is_first = False

    def kept(self, parts: list[Part], is_removed: Callable[[Rows], bool]) -> list[Part]:
        """The parts that remain. The rest of a transaction keeps the marks of its first and last
        part; but no part is marked as the last if the last one left was given earlier."""
        kept: list[Part] = []
        for part in parts:
            if not isinstance(part, Rows):
                kept.append(part)
            elif is_removed(part):
                self.is_first |= part.is_first
                if part.is_last:
                    if not self.is_first and kept and isinstance(kept[-1], Rows):
                        kept[-1].is_last = True
                    self.is_first = False
            else:
                part.is_first |= self.is_first
                self.is_first = False
                kept.append(part)
        return kept


class LeftOut:
    """Removes row events of some operations from batches, except those of `heartbeats`. Takes the
    batches of one attempt, in order."""

    def __init__(self, operations: frozenset[Op], heartbeats: TableId | None = None) -> None:
        self._operations = operations
        self._heartbeats = str(heartbeats or "").upper()
        self._removal = Removal()

    def take(self, batch: Batch) -> None:
        """Removes the parts, as `Removal` does."""
        if self._operations:
            for parts in (batch.closed, batch.opened):
                parts[:] = self._removal.kept(parts, self._is_left_out)

    def _is_left_out(self, rows: Rows) -> bool:
        return (
            OPS[rows.kind] in self._operations
            and str(rows.table.table.id).upper() != self._heartbeats
        )
