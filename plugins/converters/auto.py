"""auto: chooses the format of each record by the keys it has, read only.

op_type                    oggJson
opType                     porterJson
database, upper-case type  canalRow, both renderings
database, other type       maxwellJson
anything else              debeziumJson, which answers what it does not know either
"""

from __future__ import annotations

from typing import Any

from cdcbus.plugins.converters import canal_row, debezium_json, maxwell_json, ogg_json, porter_json
from cdcbus.plugins.converters.cells import parsed
from cdcbus.plugins.converters.read_only import ReadOnly
from cdcbus.plugins.errors import ConversionError
from cdcbus.plugins.rowchange import RowChange

_DEBEZIUM = debezium_json.DebeziumJson()


class Auto(ReadOnly):
    """The `auto` converter."""

    NAME = "auto"

    def from_bytes(self, value: bytes) -> list[RowChange]:
        """What the record's own converter reads. Raises ConversionError."""
        if value.startswith(b'{"schema":{'):  # Debezium's, and most of its bytes: not parsed each time
            return _DEBEZIUM.from_bytes(value)
        try:
            return parsed(value, _read)
        except ValueError as error:
            raise ConversionError("a record that is not JSON") from error


def _read(message: Any) -> list[RowChange]:
    if isinstance(message, dict):
        if "op_type" in message:
            return ogg_json.read(message)
        if "opType" in message:
            return porter_json.read(message)
        if "database" in message and isinstance(kind := message.get("type"), str):
            return canal_row.read(message) if kind.isupper() else maxwell_json.read(message)
    return debezium_json.read(message)
