"""What the formats share that are read, and never written."""

from __future__ import annotations

from cdcbus.plugins.errors import ConversionError
from cdcbus.plugins.rowchange import RowChange


class ReadOnly:
    """The writing side of a format that has none. `NAME` is the converter's name."""

    NAME: str

    def to_bytes(self, change: RowChange) -> bytes:
        """Always raises ConversionError."""
        raise ConversionError(
            f"{self.NAME} is only read: a row of {change.table.id} is written as canalRow or "
            "oggJson"
        )
