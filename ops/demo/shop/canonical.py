"""One text for one value, whichever database it comes from: what rows are compared by. Pure.

Drivers return the same value in different forms: a PostgreSQL `bit(8)` is text of 0 and 1, a
MariaDB one bytes; `jsonb` forgets the order of keys; numbers come with and without trailing zeros.
Two values are equal when their canonical texts are; NULL stays None.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

from cdcbus.ops.demo.shop.schema import Kind


def canonical(kind: Kind, value: Any) -> str | None:
    """The text of a driver's value of a column of this kind. Raises ValueError or TypeError for a
    value of another kind."""
    if value is None:
        return None
    return _TEXTS[kind](value)


def _text(value: str) -> str:
    if not isinstance(value, str):
        raise TypeError(f"not text: {type(value).__name__}")
    return value


def _whole(value: Any) -> str:
    whole = int(value)
    if whole != value:
        raise ValueError("not a whole number")
    return str(whole)


def _exact(value: Any) -> str:
    number = Decimal(value)
    if not number:
        return "0"  # without a sign
    # `f`: without the exponent that `normalize` gives to large numbers.
    return format(number.normalize(), "f")


def _float(value: Any) -> str:
    """The stored value: servers print 4-byte floats with different numbers of digits."""
    return _double(struct.unpack("<f", struct.pack("<f", float(value)))[0])


def _double(value: Any) -> str:
    return repr(float(value) + 0.0)  # without a negative zero


def _bytes(value: Any) -> str:
    return bytes(value).hex()


def _bits(value: str | bytes) -> str:
    if isinstance(value, str):
        return str(int(value, 2))
    return str(int.from_bytes(value, "big"))


def _truth(value: Any) -> str:
    return "true" if value else "false"


def _document(text: str) -> str:
    # Decimals, as databases write the same number in different forms.
    return repr(_ordered(json.loads(text, parse_int=Decimal, parse_float=Decimal)))


def _ordered(node: Any) -> Any:
    if isinstance(node, dict):
        return {key: _ordered(node[key]) for key in sorted(node)}
    if isinstance(node, list):
        return list(map(_ordered, node))
    if isinstance(node, Decimal):
        return node.normalize()
    return node


def _moment(value: datetime) -> str:
    if value.tzinfo:
        value = value.astimezone(UTC).replace(tzinfo=None)
    return value.isoformat(" ", "microseconds")


def _day(value: date) -> str:
    return value.isoformat()


def _clock(value: time | timedelta) -> str:
    # PostgreSQL's driver returns a time, MariaDB's a duration.
    if isinstance(value, time):
        value = timedelta(
            hours=value.hour,
            minutes=value.minute,
            seconds=value.second,
            microseconds=value.microsecond,
        )
    return str(value // timedelta(microseconds=1))


_TEXTS: dict[Kind, Callable[[Any], str]] = {
    Kind.TEXT: _text,
    Kind.WHOLE: _whole,
    Kind.EXACT: _exact,
    Kind.FLOAT: _float,
    Kind.DOUBLE: _double,
    Kind.BYTES: _bytes,
    Kind.BITS: _bits,
    Kind.TRUTH: _truth,
    Kind.JSON: _document,
    Kind.MOMENT: _moment,
    Kind.DAY: _day,
    Kind.CLOCK: _clock,
}
