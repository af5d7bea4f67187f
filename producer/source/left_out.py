"""Operations that a task leaves out: an archive without DELETE keeps deleted rows."""

from __future__ import annotations

from cdcbus.plugins.rowchange import Op, TableId
from cdcbus.producer.decoding.row_image import OPS
from cdcbus.producer.source.row_events import Batch, Part, Rows


class LeftOut:
    """Removes row events of some operations from batches, except those of `heartbeats`. Takes the
    batches of one attempt, in order."""

    def __init__(self, operations: frozenset[Op], heartbeats: TableId | None = None) -> None:
        self._operations = operations
        self._heartbeats = str(heartbeats or "").upper()
        self._is_first = False  # a removed part began the transaction

    def take(self, batch: Batch) -> None:
        """Removes the parts. The rest of a transaction keeps the marks of its first and last part;
        but no part is marked as the last if the last one left is in an earlier batch."""
        if self._operations:
            for parts in (batch.closed, batch.opened):
                parts[:] = self._kept(parts)

    def _kept(self, parts: list[Part]) -> list[Part]:
        kept: list[Part] = []
        for part in parts:
            if not isinstance(part, Rows):
                kept.append(part)
            elif self._is_left_out(part):
                self._is_first |= part.is_first
                if part.is_last:
                    if not self._is_first and kept and isinstance(kept[-1], Rows):
                        kept[-1].is_last = True
                    self._is_first = False
            else:
                part.is_first |= self._is_first
                self._is_first = False
                kept.append(part)
        return kept

    def _is_left_out(self, rows: Rows) -> bool:
        return (
            OPS[rows.kind] in self._operations
            and str(rows.table.table.id).upper() != self._heartbeats
        )
