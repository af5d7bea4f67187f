"""JSON to cells, without losing a digit of a number."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import orjson

from cdcbus.plugins.errors import ConversionError
from cdcbus.plugins.rowchange import Cell

T = TypeVar("T")


class Number(str):
    """A JSON number with a fraction or an exponent, in the digits that it was written with."""

    __slots__ = ()


class _Rounded(Exception):
    """A cell is a float: digits may be lost."""


def parsed(value: bytes, read: Callable[[Any], T]) -> T:
    """What `read` makes of the JSON value; done once more with exact numbers when it meets a float in a cell: a DECIMAL must not pass
    through one. Raises ValueError for what is no JSON."""
    message = orjson.loads(value)
    try:
        return read(message)
    except _Rounded:
        return read(json.loads(value, parse_float=Number))


def cells(fields: Mapping[str, Any]) -> dict[str, Cell]:
    """A JSON object's values as cells: text and null as they are, others as their text. Raises ConversionError."""
    return {name: value if value is None or type(value) is str else _text(value) for name, value in fields.items()}


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "1" if value else "0"
    if isinstance(value, dict | list | int | float | str):
        return _json(value)
    raise ConversionError(f"a value of JSON type {type(value).__name__} is not a cell")


def _json(value: Any) -> str:
    if isinstance(value, float):
        raise _Rounded
    if isinstance(value, Number):
        return str(value)
    if isinstance(value, dict):
        return "{" + ",".join(f"{_json(name)}:{_json(item)}" for name, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_json, value)) + "]"
    return json.dumps(value, ensure_ascii=False)
