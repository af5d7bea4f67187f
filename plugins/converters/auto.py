"""auto: chooses the format of each record by its first byte and its keys; read only.

a packet's first byte      canalProtobuf
op_type                    oggJson
opType                     porterJson
database, upper-case type  canalRow, both renderings
database, other type       maxwellJson
anything else              debeziumJson, which reports records that it does not know either
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import tzinfo
from functools import partial
from typing import Any, Final

import orjson

from cdcbus.plugins.converters import canal_row, debezium_json, maxwell_json, ogg_json, porter_json
from cdcbus.plugins.converters.json_cells import parsed
from cdcbus.plugins.converters.protobuf.canal_protobuf import FIRST_BYTES, CanalProtobuf
from cdcbus.plugins.converters.read_only import ReadOnly
from cdcbus.plugins.errors import ConversionError
from cdcbus.plugins.rowchange import RowChange

_DEBEZIUM = debezium_json.DebeziumJson()


class Auto(ReadOnly):
    """The `auto` converter."""

    NAME = "auto"

    def __init__(self, zone: tzinfo | None = None) -> None:
        """`zone`: the zone of times in formats whose times name none."""
        self._zone = zone
        self._read: dict[str, Callable[[Any], list[RowChange]]] = {
            **_READ,
            "canalRow": partial(canal_row.read, zone=zone),
            "oggJson": partial(ogg_json.read, zone=zone),
        }

    def from_bytes(self, value: bytes) -> list[RowChange]:
        """The row changes of a record, read by its own converter. Raises ConversionError, and
        ConfigError where cdcbus was built without that converter's schema."""
        # Debezium's schema is most of a record, so it is not parsed each time.
        if value.startswith(b'{"schema":{'):
            return _DEBEZIUM.from_bytes(value)
        if value.startswith(FIRST_BYTES):
            # Made only here, as topics of JSON must be readable without its schema.
            return CanalProtobuf(self._zone).from_bytes(value)
        try:
            return parsed(value, lambda message: self._read[format_of(message)](message))
        except ValueError as error:
            raise ConversionError("a record that is not JSON") from error


def form_of(value: bytes) -> str:
    """The name of the converter that reads a record. Raises ValueError for a record that is neither
    JSON nor begins like a packet."""
    if value.startswith(FIRST_BYTES):
        return CanalProtobuf.NAME
    return format_of(orjson.loads(value))


def format_of(message: Any) -> str:
    """The name of the converter that reads a parsed record."""
    if isinstance(message, dict):
        if "op_type" in message:
            return "oggJson"
        if "opType" in message:
            return "porterJson"
        if "database" in message and isinstance(kind := message.get("type"), str):
            return "canalRow" if kind.isupper() else "maxwellJson"
    return "debeziumJson"


_READ: Final[dict[str, Callable[[Any], list[RowChange]]]] = {
    "oggJson": ogg_json.read,
    "porterJson": porter_json.read,
    "canalRow": canal_row.read,
    "maxwellJson": maxwell_json.read,
    "debeziumJson": debezium_json.read,
}
