"""The text that a record has for a value of a column, whatever the value's own spelling: what the
readers of binlog rows give for it. Pure.

tests/integration/tasks/verify/test_key_texts.py compares it with a fetch task's records.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from decimal import Context, Decimal, InvalidOperation
from ipaddress import ip_address
from typing import Final
from uuid import UUID

from pymysqlreplication.constants import FIELD_TYPE as TYPE

from cdcbus.producer.ddl.table_schema import TableColumn
from cdcbus.producer.ddl.type_names import labels_in
from cdcbus.producer.decoding.charsets import encoded
from cdcbus.producer.decoding.column_types import BINARY, OWN_TYPES, BinlogColumn, reader

Text = Callable[[TableColumn, str], str | None]

ALL_DIGITS: Final = Context(prec=200)
INTEGER_BYTES: Final = {"tinyint": 1, "smallint": 2, "mediumint": 3, "int": 4, "bigint": 8}
LONGEST: Final = {"tiny": 0xFF, "": 0xFFFF, "medium": 0xFFFFFF, "long": 0xFFFFFFFF}
"""How many bytes a TEXT or BLOB of each size holds."""
MOST_SECONDS: Final = 838 * 3600 + 59 * 60 + 59
"""In a TIME."""
FIRST_TIMESTAMP: Final = "1970-01-01 00:00:01"
LAST_TIMESTAMP: Final = "2106-02-07 06:28:15.999999"
"""Of MariaDB since 11.5; other servers end in 2038."""
ZERO: Final = "0000-00-00 00:00:00"
DAY: Final = r"[0-9]{4}-(?:0[0-9]|1[0-2])-(?:[0-2][0-9]|3[01])"
DATE: Final = re.compile(DAY)
MOMENT: Final = re.compile(rf"({DAY} (?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9])(?:\.([0-9]+))?")
CLOCK: Final = re.compile(r"(-?([0-9]{2,3}):([0-5][0-9]):([0-5][0-9]))(?:\.([0-9]+))?")


def cell_text(column: TableColumn, value: str) -> str | None:
    """The text that records have for this value of a column; None where the column cannot hold
    it, and where that is not known. The value is spelled in any way that its type reads."""
    text = TEXT_OF.get(column.data_type)
    return text and text(column, value)


def _numbers(column: TableColumn) -> list[int]:
    """The numbers in a type's parentheses."""
    inner = column.type.partition("(")[2].partition(")")[0]
    return [int(number) for number in inner.split(",") if number.strip().isdecimal()]


def _is_unsigned(column: TableColumn) -> bool:
    return "unsigned" in column.type


def _number(value: str) -> Decimal | None:
    try:
        number = Decimal(value)
    except InvalidOperation:
        return None
    return number if number.is_finite() else None


def _whole(value: str, least: int, most: int) -> int | None:
    """A whole number between these; None for any other value."""
    number = _number(value)
    if number is None or not least <= number <= most or number != int(number):
        return None
    return int(number)


def _integer(column: TableColumn, value: str) -> str | None:
    size = 1 << (8 * INTEGER_BYTES[column.data_type])
    least = 0 if _is_unsigned(column) else -size // 2
    # As PostgreSQL shows a boolean.
    whole = _whole({"true": "1", "false": "0"}.get(value, value), least, least + size - 1)
    return None if whole is None else str(whole)


def _bit(column: TableColumn, value: str) -> str | None:
    [width] = _numbers(column) or [1]
    whole = _whole(value, 0, (1 << width) - 1)
    return None if whole is None else str(whole)


def _year(column: TableColumn, value: str) -> str | None:
    year = _whole(value, 0, 2155)
    if year is None or 0 < year < 1901:
        return None
    stored = bytes((year - 1900 if year else 0,))
    return reader(BinlogColumn(column.name, TYPE.YEAR))(stored, 0)[0]


def _decimal(column: TableColumn, value: str) -> str | None:
    number = _number(value)
    precision, scale = [*_numbers(column), 0][:2]
    if number is None or (number < 0 and _is_unsigned(column)):
        return None
    if abs(number) >= Decimal(10) ** (precision - scale):
        return None
    exact = number.quantize(Decimal(1).scaleb(-scale), context=ALL_DIGITS)
    if exact != number:
        return None
    return format(exact if exact else abs(exact), "f")


def _float(column: TableColumn, value: str) -> str | None:
    return _floating(column, value, "<f", TYPE.FLOAT)


def _double(column: TableColumn, value: str) -> str | None:
    return _floating(column, value, "<d", TYPE.DOUBLE)


def _floating(column: TableColumn, value: str, layout: str, code: int) -> str | None:
    number = _number(value)
    if number is None or (number < 0 and _is_unsigned(column)):
        return None
    try:
        stored = struct.pack(layout, float(number))
    except OverflowError:
        return None
    return reader(BinlogColumn(column.name, code))(stored, 0)[0]


def _date(_: TableColumn, value: str) -> str | None:
    return value if DATE.fullmatch(value) else None


def _datetime(column: TableColumn, value: str) -> str | None:
    found = MOMENT.fullmatch(value)
    return found and _with_fraction(column, found[1], found[2])


def _timestamp(column: TableColumn, value: str) -> str | None:
    text = _datetime(column, value)
    if text is None or text.startswith(ZERO) or FIRST_TIMESTAMP <= text <= LAST_TIMESTAMP:
        return text
    return None


def _time(column: TableColumn, value: str) -> str | None:
    found = CLOCK.fullmatch(value)
    if found is None:
        return None
    clock, hours, minutes, seconds, fraction = found.groups()
    whole = int(hours) * 3600 + int(minutes) * 60 + int(seconds)
    if whole > MOST_SECONDS or (whole == MOST_SECONDS and (fraction or "").strip("0")):
        return None
    return _with_fraction(column, clock, fraction)


def _with_fraction(column: TableColumn, seconds: str, fraction: str | None) -> str | None:
    """A time with exactly the column's digits; None where it has more than these."""
    digits = (fraction or "").rstrip("0")
    [most] = _numbers(column) or [0]
    if len(digits) > most:
        return None
    return f"{seconds}.{digits.ljust(most, '0')}" if most else seconds


def _char(column: TableColumn, value: str) -> str | None:
    # A CHAR loses them when it is read.
    if value.endswith(" "):
        return None
    return _varchar(column, value)


def _varchar(column: TableColumn, value: str) -> str | None:
    if len(value) > column.size or encoded(column.charset, value) is None:
        return None
    return value


def _text(column: TableColumn, value: str) -> str | None:
    raw = encoded(column.charset, value)
    if raw is None or len(raw) > LONGEST[column.data_type.removesuffix("text")]:
        return None
    return value


def _binary(column: TableColumn, value: str) -> str | None:
    # It is filled up with zero bytes, so that it has no other length.
    return _bytes(value, column.size, column.size)


def _varbinary(column: TableColumn, value: str) -> str | None:
    return _bytes(value, 0, column.size)


def _blob(column: TableColumn, value: str) -> str | None:
    return _bytes(value, 0, LONGEST[column.data_type.removesuffix("blob")])


def _bytes(value: str, least: int, most: int) -> str | None:
    """Bytes as a text of one character each."""
    if not least <= len(value) <= most or max(value, default="") > "\xff":
        return None
    return value


def _enum(column: TableColumn, value: str) -> str | None:
    # The empty text stands for a value that was not valid.
    return value if value in ("", *labels_in(column.type)) else None


def _set(column: TableColumn, value: str) -> str | None:
    chosen = value.split(",") if value else []
    in_order = [label for label in labels_in(column.type) if label in chosen]
    return value if in_order == chosen else None


def _own(column: TableColumn, value: str) -> str | None:
    """MariaDB's UUID, INET4 and INET6."""
    kind = column.data_type
    try:
        stored = UUID(value).bytes if kind == "uuid" else ip_address(value).packed
    except ValueError:
        return None
    if len(stored) != OWN_TYPES[kind]:
        return None
    known = BinlogColumn(
        column.name, TYPE.STRING, (OWN_TYPES[kind], 0), charset=BINARY, data_type=kind
    )
    # A row has the length before the bytes.
    return reader(known)(bytes((len(stored),)) + stored, 0)[0]


TEXT_OF: Final[dict[str, Text]] = {
    **dict.fromkeys(INTEGER_BYTES, _integer),
    "bit": _bit,
    "year": _year,
    "decimal": _decimal,
    "float": _float,
    "double": _double,
    "date": _date,
    "datetime": _datetime,
    "timestamp": _timestamp,
    "time": _time,
    "char": _char,
    "varchar": _varchar,
    **{f"{size}text": _text for size in LONGEST},
    "binary": _binary,
    "varbinary": _varbinary,
    **{f"{size}blob": _blob for size in LONGEST},
    "enum": _enum,
    "set": _set,
    **dict.fromkeys(OWN_TYPES, _own),
}
"""By type; other types are no part of a key."""
