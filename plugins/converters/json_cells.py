"""Reads cells from JSON without losing a digit of a number."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import orjson

from cdcbus.plugins.dates import dated_us
from cdcbus.plugins.errors import ConversionError
from cdcbus.plugins.rowchange import Cell

T = TypeVar("T")


class Number(str):
    """A JSON number with a fraction or an exponent, in the digits that it was written with."""

    __slots__ = ()


class _Rounded(Exception):
    """A cell is a float, so digits could be lost."""


def parsed(value: bytes, read: Callable[[Any], T]) -> T:
    """The result of `read` for the JSON value. When it meets a float in a cell, it is called again
    with exact numbers, as a DECIMAL must not pass through a float. Raises ValueError for a value
    that is not JSON, ConversionError for cells nested hundreds of levels deep."""
    message = orjson.loads(value)
    try:
        try:
            return read(message)
        except _Rounded:
            return read(json.loads(value, parse_float=Number))
    except RecursionError:
        raise ConversionError("a cell is nested too deep to be read") from None


def whole_number(message: Mapping[str, Any], key: str) -> int:
    """A whole number, 0 if it is absent or null. Raises ConversionError for anything else."""
    value = message.get(key) or 0
    if not isinstance(value, int):
        raise ConversionError(f"{key} is not a whole number")
    return value


def time_us(message: Mapping[str, Any], key: str, unit_us: int) -> int:
    """A whole number of units as epoch microseconds; 0 where it is absent, null, or too large for a
    date, as where the writer counts in another unit. Raises ConversionError for anything else."""
    return dated_us(whole_number(message, key) * unit_us)


def are_names(value: Any) -> bool:
    """Whether a JSON value is a list of names."""
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


def cells(fields: Mapping[str, Any]) -> dict[str, Cell]:
    """A JSON object's values as cells: text and null unchanged, others as their text. Raises
    ConversionError."""
    # Runs for each row: one comprehension is fastest.
    return {
        name: value if value is None or type(value) is str else cell_text(value)
        for name, value in fields.items()
    }


def cell_text(value: Any) -> str:
    """The text of a JSON value from `parsed` that is not null. Raises ConversionError."""
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
