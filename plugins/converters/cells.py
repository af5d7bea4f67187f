"""JSON values to cells."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from cdcbus.plugins.errors import ConversionError
from cdcbus.plugins.rowchange import Cell


def cells(fields: Mapping[str, Any]) -> dict[str, Cell]:
    """A JSON object's values as cells: text and null as they are, others as their text. Raises ConversionError."""
    return {name: value if value is None or type(value) is str else _text(value) for name, value in fields.items()}


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "1" if value else "0"
    if isinstance(value, int | float):
        return str(value)
    if isinstance(value, dict | list):
        return orjson.dumps(value).decode()
    raise ConversionError(f"a value of JSON type {type(value).__name__} is not a cell")
