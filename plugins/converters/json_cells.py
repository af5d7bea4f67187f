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
    """What `read` makes of the JSON value; done once more with exact numbers when it meets a
    float in a cell: a DECIMAL must not pass through one. Raises ValueError for what is no JSON,
    ConversionError for cells nested hundreds of levels deep."""
    message = orjson.loads(value)
    try:
        try:
            return read(message)
        except _Rounded:
            return read(json.loads(value, parse_float=Number))
    except RecursionError:
        raise ConversionError("a cell is nested too deep to be read") from None


def whole_number(message: Mapping[str, Any], key: str) -> int:
    """A number that may be absent or null: then 0. Raises ConversionError for anything else."""
    value = message.get(key) or 0
    if not isinstance(value, int):
        raise ConversionError(f"{key} is not a whole number")
    return value


def cells(fields: Mapping[str, Any]) -> dict[str, Cell]:
    """A JSON object's values as cells: text and null as they are, others as their text. Raises
    ConversionError."""
    # per row: one comprehension is the fastest
    return {
        name: value if value is None or type(value) is str else cell_text(value)
        for name, value in fields.items()
    }


def cell_text(value: Any) -> str:
    """The text of a JSON value that is not null, as `parsed` gives it. Raises ConversionError."""
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
        members = [f"{_json(name)}:{_json(item)}" for name, item in value.items()]
        return "{" + ",".join(members) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_json, value)) + "]"
    return json.dumps(value, ensure_ascii=False)
