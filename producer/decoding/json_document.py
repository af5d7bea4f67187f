"""MySQL's binary JSON to exactly the text that MySQL itself prints.

Layout: `json_binary.h` of the server: a type byte, then objects and arrays as a count, a size,
entries with offsets from their own start, keys, values. Small documents use 2-byte offsets, large
ones 4.
"""

from __future__ import annotations

import base64
import json
import struct
from functools import partial

from cdcbus.plugins.errors import UnreadableEvent
from cdcbus.producer.decoding.decimals import decimal_text

_SMALL_OBJECT, _LARGE_OBJECT, _SMALL_ARRAY, _LARGE_ARRAY, _LITERAL = range(5)
_NUMBERS = {
    0x05: struct.Struct("<h"),
    0x06: struct.Struct("<H"),
    0x07: struct.Struct("<i"),
    0x08: struct.Struct("<I"),
    0x09: struct.Struct("<q"),
    0x0A: struct.Struct("<Q"),
}
_SMALL_OFFSET, _LARGE_OFFSET = struct.Struct("<H"), struct.Struct("<I")
_double = struct.Struct("<d").unpack_from
_DOUBLE, _STRING, _OPAQUE = 0x0B, 0x0C, 0x0F
_LITERALS = {0: "null", 1: "true", 2: "false"}
_INLINE = {_LITERAL, 0x05, 0x06}
_INLINE_LARGE = _INLINE | {0x07, 0x08}
_DECIMAL, _DATE, _TIME, _DATETIME, _TIMESTAMP = 246, 10, 11, 12, 7

_quoted = partial(json.dumps, ensure_ascii=False)


def json_text(document: bytes) -> str:
    """The text of a stored document, with MySQL's spacing; a zero-length document (an invalid
    default) is `null`, as MySQL shows it."""
    return _value(document[0], document, 1) if document else "null"


def _value(kind: int, data: bytes, at: int) -> str:
    if kind in _NUMBERS:
        return str(_NUMBERS[kind].unpack_from(data, at)[0])
    if kind == _DOUBLE:
        return double_text(_double(data, at)[0])
    if kind == _STRING:
        length, start = _length(data, at)
        return _quoted(data[start : start + length].decode("utf-8", "backslashreplace"))
    if kind in (_SMALL_OBJECT, _LARGE_OBJECT, _SMALL_ARRAY, _LARGE_ARRAY):
        return _container(kind, data, at)
    if kind == _LITERAL and data[at] in _LITERALS:
        return _LITERALS[data[at]]
    if kind == _OPAQUE:
        length, start = _length(data, at + 1)
        return _opaque(data[at], data[start : start + length])
    raise UnreadableEvent(f"a JSON document holds a value of unknown type {kind}")


def double_text(value: float) -> str:
    """The shortest digits that read back as `value`, in the server's notation: plain from 1e-15
    to below 1e15 and for numbers with a fraction, else with an exponent without plus sign and
    leading zeros; always with a point or an exponent."""
    mantissa, _, exponent = repr(value).partition("e")
    sign = ""
    if mantissa[0] == "-":
        sign = "-"
        mantissa = mantissa[1:]
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    # where the point is: 0.digits * 10 ** point
    point = len(whole) + int(exponent or 0) - (len(whole + fraction) - len(digits))
    digits = digits.rstrip("0")
    if not digits:
        return sign + "0.0"
    if -15 < point <= 15 or len(digits) > point > 0:
        if point <= 0:
            return f"{sign}0.{'0' * -point}{digits}"
        return f"{sign}{digits[:point]:0<{point}}.{digits[point:] or '0'}"
    return f"{sign}{digits[0]}{'.' * (len(digits) > 1)}{digits[1:]}e{point - 1}"


def _container(kind: int, data: bytes, at: int) -> str:
    """The text of an object or array. Layout: count and size, then an entry per name (offset,
    length), then one per value (type, offset or the value itself). Offsets are from the
    container's beginning."""
    is_large = kind in (_LARGE_OBJECT, _LARGE_ARRAY)
    is_object = kind in (_SMALL_OBJECT, _LARGE_OBJECT)
    offset, inline = _SMALL_OFFSET, _INLINE
    if is_large:
        offset, inline = _LARGE_OFFSET, _INLINE_LARGE
    width = offset.size
    (count,) = offset.unpack_from(data, at)
    entry = at + 2 * width
    keys = []
    if is_object:
        for _ in range(count):
            start = at + offset.unpack_from(data, entry)[0]
            length = int.from_bytes(data[entry + width : entry + width + 2], "little")
            keys.append(_quoted(data[start : start + length].decode("utf-8", "backslashreplace")))
            entry += width + 2
    values = []
    for _ in range(count):
        child = data[entry]
        # Small values are in the place of their own offset.
        place = entry + 1 if child in inline else at + offset.unpack_from(data, entry + 1)[0]
        values.append(_value(child, data, place))
        entry += 1 + width
    if not is_object:
        return "[" + ", ".join(values) + "]"
    members = [f"{key}: {value}" for key, value in zip(keys, values, strict=True)]
    return "{" + ", ".join(members) + "}"


def _length(data: bytes, at: int) -> tuple[int, int]:
    """Returns a length in seven-bit groups, lowest first, and the index after it."""
    length = shift = 0
    while True:
        byte = data[at]
        length |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return length, at


def _opaque(kind: int, raw: bytes) -> str:
    if kind == _DECIMAL:
        return decimal_text(raw[2:], raw[0], raw[1])
    if kind in (_DATE, _TIME, _DATETIME, _TIMESTAMP):
        return _quoted(_packed_time(kind, int.from_bytes(raw, "little", signed=True)))
    # in lines of 76 characters, like the server's
    return _quoted(f"base64:type{kind}:{base64.encodebytes(raw).decode().rstrip()}")


def _packed_time(kind: int, packed: int) -> str:
    magnitude = abs(packed)
    clock, micros = magnitude >> 24, magnitude & 0xFFFFFF
    hours = clock >> 12 & (0x3FF if kind == _TIME else 0x1F)
    hms = f"{hours:02d}:{clock >> 6 & 63:02d}:{clock & 63:02d}.{micros:06d}"
    if kind == _TIME:
        return "-" + hms if packed < 0 else hms
    day = clock >> 17
    # Stored as year * 13 + month, as a month can be 0.
    year, month = divmod(day >> 5, 13)
    text = f"{year:04d}-{month:02d}-{day & 31:02d}"
    return text if kind == _DATE else f"{text} {hms}"
