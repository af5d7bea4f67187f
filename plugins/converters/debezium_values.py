"""Converts values of Debezium's JSON to cells, by the Kafka Connect schema of their column.

A type is the pair of the schema's `name` (Debezium's or Connect's semantic type) and `type`.
Source: the data type mappings of Debezium's MySQL connector.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta
from functools import partial
from typing import Any, NamedTuple

from cdcbus.plugins.converters.json_cells import Number, cell_text
from cdcbus.plugins.rowchange import Cell, Unclear

# Raises ValueError, TypeError, KeyError or OverflowError for a value that is not of the type.
Decode = Callable[[Any], Cell]
MAX_SCALE = 1_000
_EPOCH_DAY = date(1970, 1, 1)
_COMMA = "\\,"
_LABEL_END = re.compile(r"(?<!\\),")
_ZONED = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)(\.\d{1,9})?(Z|[+-]\d\d:\d\d)")


class FieldType(NamedTuple):
    """What a field's schema says of its column. `mysql_type`: as close as the schema allows;
    `is_bound`: the column's own may hold less, as a VARCHAR and a CHAR have one schema, and so have
    DATETIME(0) and DATETIME(3); but at least what `least` does, if that is known. `decode` reads
    its values."""

    mysql_type: str
    decode: Decode
    is_bound: bool = False
    least: str = ""
    unclear: Unclear = Unclear.NOTHING


def column_type(field: Mapping[str, Any]) -> FieldType:
    """The type of a field. Raises KeyError or ValueError for an unknown one."""
    name, kind = field.get("name"), field["type"]
    parameters = field.get("parameters") or {}
    if name == "org.apache.kafka.connect.data.Decimal":
        scale = int(parameters["scale"])
        precision = int(parameters.get("connect.decimal.precision") or 0)
        type_ = f"decimal({precision or 65},{scale})"
        return FieldType(type_, partial(_decimal, scale=scale), not precision)
    if name == "io.debezium.data.Bits":
        length = int(parameters.get("length") or 0)
        return FieldType(f"bit({length or 64})", _bits, not length)
    if name == "io.debezium.data.Enum":
        labels = _LABEL_END.split(str(parameters.get("allowed") or ""))
        escaped = frozenset(label for label in labels if _COMMA in label)
        return FieldType("longtext", partial(_label, escaped=escaped), is_bound=True)
    if name:
        return _NAMED[name]
    return _PLAIN[kind]


def _label(value: Any, escaped: frozenset[str]) -> str:
    """An ENUM's label. Debezium separates labels by commas in the schema, and escapes commas in
    labels with a backslash, in cells as well."""
    text = _text(value)
    if text not in escaped:
        return text
    return text.replace(_COMMA, ",")


def _decimal(value: Any, scale: int) -> str:
    """A DECIMAL, from base64 of the unscaled number, or from a JSON number where the JsonConverter
    has `decimal.format=NUMERIC`."""
    if type(value) is str:
        return _scaled(b64decode(value, validate=True), scale)
    return cell_text(value)


def _scaled(unscaled: bytes, scale: int) -> str:
    if abs(scale) > MAX_SCALE:
        raise ValueError
    number = int.from_bytes(unscaled, "big", signed=True)
    sign, digits = ("-" if number < 0 else ""), str(abs(number)).rjust(scale + 1, "0")
    if scale <= 0:
        return str(number * 10**-scale)
    return f"{sign}{digits[:-scale]}.{digits[-scale:]}"


def _variable_scale(value: Any) -> str:
    return _scaled(b64decode(value["value"], validate=True), _whole(value["scale"]))


def _bits(value: Any) -> str:
    return str(int.from_bytes(b64decode(value, validate=True), "little"))


def _bytes(value: Any) -> str:
    return b64decode(value, validate=True).decode("latin-1")


def geometry(value: Any) -> str:
    """MySQL's own form of a {srid, wkb} pair: the SRID in four bytes, least significant first, then
    the WKB."""
    srid = _whole(value.get("srid") or 0).to_bytes(4, "little")
    wkb = b64decode(value["wkb"], validate=True)
    return (srid + wkb).decode("latin-1")


def _whole(value: Any) -> int:
    if type(value) is not int:
        raise TypeError
    return value


def _integer(value: Any) -> str:
    return str(_whole(value))


def _year(value: Any) -> str:
    return f"{_whole(value):04d}"


def _boolean(value: Any) -> str:
    return {True: "1", False: "0"}[value]


def _float(value: Any) -> str:
    if type(value) is float:
        return repr(value)
    if type(value) not in (int, Number):
        raise TypeError
    return cell_text(value)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _date(value: Any) -> str:
    return (_EPOCH_DAY + timedelta(days=_whole(value))).isoformat()


def _clock(value: int, per_second: int) -> str:
    """A time of day or a duration, with the digits of its fraction unless that is zero."""
    seconds, fraction = divmod(abs(value), per_second)
    sign = "-" if value < 0 else ""
    text = f"{sign}{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    if not fraction:
        return text
    digits = len(str(per_second)) - 1
    return f"{text}.{fraction:0{digits}d}"


def _time(value: Any, per_second: int) -> str:
    return _clock(_whole(value), per_second)


def _timestamp(value: Any, per_second: int) -> str:
    days, rest = divmod(_whole(value), 86_400 * per_second)
    return f"{_date(days)} {_clock(rest, per_second)}"


def _zoned(value: Any) -> str:
    """ISO 8601 with an offset, as UTC."""
    found = _ZONED.fullmatch(value)
    if found is None:
        raise ValueError
    day, clock, fraction, offset = found.groups()
    if offset != "Z":
        moment = datetime.fromisoformat(f"{day}T{clock}{offset}").astimezone(UTC)
        day, clock = moment.strftime("%Y-%m-%d %H:%M:%S").split()
    return f"{day} {clock}{fraction or ''}"


def _iso(value: Any) -> str:
    """Text of `time.precision.mode=isostring`."""
    return _text(value).removesuffix("Z").replace("T", " ")


_MILLIS, _MICROS, _NANOS = 10**3, 10**6, 10**9
_PLAIN: dict[str, FieldType] = {
    "int8": FieldType("tinyint", _integer, is_bound=True),
    "int16": FieldType("smallint", _integer, is_bound=True),
    # Also a SMALLINT UNSIGNED, and an INT UNSIGNED.
    "int32": FieldType("int", _integer, is_bound=True, least="smallint unsigned"),
    "int64": FieldType("bigint", _integer, is_bound=True, least="int unsigned"),
    "float": FieldType("float", _float),
    "float32": FieldType("float", _float),
    # Also a FLOAT(7,2), and a DECIMAL with decimal.handling.mode=double.
    "double": FieldType("double", _float, is_bound=True),
    "float64": FieldType("double", _float, is_bound=True),
    # Also a BIT(1), and a TINYINT(1) UNSIGNED.
    "boolean": FieldType("tinyint(1)", _boolean, is_bound=True),
    # Also bytes, with any binary.handling.mode but its default.
    "string": FieldType("longtext", _text, is_bound=True, unclear=Unclear.BYTES),
    "bytes": FieldType("longblob", _bytes, is_bound=True),
}
_MILLI_TIME = FieldType("time(3)", partial(_time, per_second=_MILLIS), is_bound=True)
_MILLI_STAMP = FieldType(
    "datetime(3)", partial(_timestamp, per_second=_MILLIS), is_bound=True, least="datetime"
)
_NAMED: dict[str, FieldType] = {
    "io.debezium.data.EnumSet": FieldType("longtext", _text, is_bound=True),
    "io.debezium.data.Json": FieldType("json", _text),
    "io.debezium.data.Uuid": FieldType("uuid", _text),
    "io.debezium.data.Xml": FieldType("longtext", _text, is_bound=True),
    "io.debezium.data.VariableScaleDecimal": FieldType(
        "decimal(65,30)", _variable_scale, is_bound=True
    ),
    "io.debezium.data.geometry.Geometry": FieldType("geometry", geometry),
    "io.debezium.data.geometry.Point": FieldType("geometry", geometry),
    "io.debezium.time.Year": FieldType("year", _year),
    "io.debezium.time.Date": FieldType("date", _date),
    "org.apache.kafka.connect.data.Date": FieldType("date", _date),
    "io.debezium.time.Time": _MILLI_TIME,
    "org.apache.kafka.connect.data.Time": _MILLI_TIME,
    "io.debezium.time.MicroTime": FieldType(
        "time(6)", partial(_time, per_second=_MICROS), is_bound=True
    ),
    "io.debezium.time.NanoTime": FieldType(
        "time(6)", partial(_time, per_second=_NANOS), is_bound=True
    ),
    "io.debezium.time.Timestamp": _MILLI_STAMP,
    "org.apache.kafka.connect.data.Timestamp": _MILLI_STAMP,
    # By default fewer digits come as Timestamp.
    "io.debezium.time.MicroTimestamp": FieldType(
        "datetime(6)", partial(_timestamp, per_second=_MICROS), is_bound=True, least="datetime(4)"
    ),
    "io.debezium.time.NanoTimestamp": FieldType(
        "datetime(6)", partial(_timestamp, per_second=_NANOS), is_bound=True, least="datetime"
    ),
    "io.debezium.time.ZonedTimestamp": FieldType(
        "timestamp(6)", _zoned, is_bound=True, least="timestamp"
    ),
    "io.debezium.time.IsoDate": FieldType("date", _iso),
    "io.debezium.time.IsoTime": FieldType("time(6)", _iso, is_bound=True),
    "io.debezium.time.IsoTimestamp": FieldType(
        "datetime(6)", _iso, is_bound=True, least="datetime"
    ),
}
