"""The common part of formats that are only read."""

from __future__ import annotations

from cdcbus.plugins.errors import ConversionError
from cdcbus.plugins.rowchange import RowChange


class ReadOnly:
    """The base of a converter that cannot write. `NAME` is the converter's name."""

    NAME: str

    def to_bytes(self, change: RowChange) -> bytes:
        """Always raises ConversionError."""
        raise ConversionError(
            f"{self.NAME} is only read: a row of {change.table.id} is written as canalRow or "
            "oggJson"
        )
