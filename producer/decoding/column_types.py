"""Binlog column values to text: one reader per column type, the plain reference of how a row image
is decoded.

A reader takes a row image and the index where a value starts, and returns the text and the index
after the value. Layouts: MySQL Internals "Binary Log Event", `log_event.cc` and `my_time` of the
servers. docs/values.md has the text of each type.
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, timedelta
from functools import lru_cache
from uuid import UUID

from pymysqlreplication.constants import FIELD_TYPE as TYPE

from cdcbus.plugins.errors import UnreadableEvent
from cdcbus.producer.decoding.charsets import decoder
from cdcbus.producer.decoding.decimals import decimal_size, decimal_text
from cdcbus.producer.decoding.json_document import json_text

Reader = Callable[[bytes, int], tuple[str, int]]

VECTOR = 242  # MySQL 9
BLOB_COMPRESSED, VARCHAR_COMPRESSED = 140, 141  # MariaDB
BINARY = "binary"


@dataclass(frozen=True, slots=True)
class BinlogColumn:
    """A column as the table map describes it: type code, its metadata bytes as a pair of numbers,
    and the additions of the optional metadata or the schema. `charset` is the server's name
    (`binary` for bytes); `labels` are those of ENUM or SET; `data_type` is information_schema's if
    the table map leaves the type open (`is_open`), or BOOL if that is known. `is_hidden`: the table
    does not show the column, which is read and left out."""

    name: str
    type: int
    meta: tuple[int, int] = (0, 0)
    unsigned: bool = False
    charset: str = ""
    labels: tuple[str, ...] = ()
    data_type: str = ""
    is_hidden: bool = False


OLD_TEMPORAL = {TYPE.TIME, TYPE.DATETIME, TYPE.TIMESTAMP}
BOOL = "tinyint(1)"
"""The only display width of a number that matters to readers."""
OWN_TYPES = {"uuid": 16, "inet6": 16, "inet4": 4}
"""MariaDB's own fixed-length types, with their bytes."""


def is_open(column: BinlogColumn) -> bool:
    """Whether a table map of MariaDB, even a full one, leaves the type open: its own types look
    like BINARY of their size, and times in its old format do not say their fractional digits."""
    return column.type in OLD_TEMPORAL or (
        column.type == TYPE.STRING
        and column.charset == BINARY
        and column.meta[0] in OWN_TYPES.values()
    )


def reader(column: BinlogColumn) -> Reader:
    """Returns the reader for a column. Raises UnreadableEvent, naming the column, if its type is
    not supported."""
    make = _READERS.get(column.type)
    if make is None:
        raise UnreadableEvent(
            f"column {column.name} has type {column.type}, which this release cannot decode"
        )
    return make(column)


def _integer(signed: str, unsigned: str) -> Callable[[BinlogColumn], Reader]:
    def make(column: BinlogColumn) -> Reader:
        layout = struct.Struct("<" + (unsigned if column.unsigned else signed))
        unpack, size = layout.unpack_from, layout.size
        return lambda image, at: (str(unpack(image, at)[0]), at + size)

    return make


def _int24(column: BinlogColumn) -> Reader:
    signed = not column.unsigned
    return lambda image, at: (
        str(int.from_bytes(image[at : at + 3], "little", signed=signed)),
        at + 3,
    )


def _float(column: BinlogColumn) -> Reader:
    unpack = struct.Struct("<f").unpack_from
    return lambda image, at: (_shortest_float(unpack(image, at)[0]), at + 4)


_SMALLEST_NORMAL = 2.0**-126


def _shortest_float(value: float) -> str:
    """The shortest text that reads back as the same 4-byte float: nine digits always do, and at
    least six are significant, except for numbers below the smallest normal one."""
    for digits in range(6 if abs(value) >= _SMALLEST_NORMAL else 1, 9):
        text = f"{value:.{digits}g}"
        if struct.pack("<f", float(text)) == struct.pack("<f", value):
            return repr(float(text))
    return repr(float(f"{value:.9g}"))


def _double(column: BinlogColumn) -> Reader:
    unpack = struct.Struct("<d").unpack_from
    return lambda image, at: (repr(unpack(image, at)[0]), at + 8)


def _decimal(column: BinlogColumn) -> Reader:
    precision, scale = column.meta
    size = decimal_size(precision, scale)
    return lambda image, at: (decimal_text(image[at : at + size], precision, scale), at + size)


def _bit(column: BinlogColumn) -> Reader:
    size = (column.meta[0] + 7) // 8
    return lambda image, at: (str(int.from_bytes(image[at : at + size], "big")), at + size)


def _year(column: BinlogColumn) -> Reader:
    return lambda image, at: (str(1900 + image[at]) if image[at] else "0000", at + 1)


def _date(column: BinlogColumn) -> Reader:
    def read(image: bytes, at: int) -> tuple[str, int]:
        packed = int.from_bytes(image[at : at + 3], "little")
        return f"{packed >> 9:04d}-{packed >> 5 & 15:02d}-{packed & 31:02d}", at + 3

    return read


def _fraction_bytes(digits: int) -> int:
    return (digits + 1) // 2


def fraction_text(raw: int, digits: int) -> str:
    """`.` and exactly `digits` digits of a stored fraction (hundredths, ten-thousandths or
    millionths); empty for no digits."""
    return "." + f"{raw:0{_fraction_bytes(digits) * 2}d}"[:digits] if digits else ""


def _time(column: BinlogColumn) -> Reader:
    digits = column.meta[0]
    extra = _fraction_bytes(digits)
    size, zero, mask = 3 + extra, 0x800000 << (8 * extra), (1 << (8 * extra)) - 1

    def read(image: bytes, at: int) -> tuple[str, int]:
        # Stored with an offset, so that negative times sort before others as bytes.
        packed = int.from_bytes(image[at : at + size], "big") - zero
        magnitude = abs(packed)
        clock = magnitude >> (8 * extra)
        fraction = fraction_text(magnitude & mask, digits)
        text = f"{clock >> 12 & 0x3FF:02d}:{clock >> 6 & 63:02d}:{clock & 63:02d}{fraction}"
        return ("-" + text if packed < 0 else text), at + size

    return read


def _datetime(column: BinlogColumn) -> Reader:
    digits = column.meta[0]
    extra = _fraction_bytes(digits)

    def read(image: bytes, at: int) -> tuple[str, int]:
        packed = int.from_bytes(image[at : at + 5], "big") - 0x8000000000
        day, clock = packed >> 17, packed & 0x1FFFF
        # Stored as year * 13 + month, as a month can be 0.
        year, month = divmod(day >> 5, 13)
        fraction = fraction_text(int.from_bytes(image[at + 5 : at + 5 + extra], "big"), digits)
        text = (
            f"{year:04d}-{month:02d}-{day & 31:02d} "
            f"{clock >> 12:02d}:{clock >> 6 & 63:02d}:{clock & 63:02d}{fraction}"
        )
        return text, at + 5 + extra

    return read


@lru_cache(maxsize=4096)
def _day_text(days: int) -> str:
    return (date(1970, 1, 1) + timedelta(days=days)).isoformat()


def timestamp_text(seconds: int, fraction: str) -> str:
    """UTC text of a TIMESTAMP; second 0 is MySQL's zero timestamp."""
    if seconds == 0:
        return "0000-00-00 00:00:00" + fraction
    days, rest = divmod(seconds, 86400)
    return f"{_day_text(days)} {rest // 3600:02d}:{rest // 60 % 60:02d}:{rest % 60:02d}{fraction}"


def _timestamp(column: BinlogColumn) -> Reader:
    digits = column.meta[0]
    extra = _fraction_bytes(digits)

    def read(image: bytes, at: int) -> tuple[str, int]:
        fraction = fraction_text(int.from_bytes(image[at + 4 : at + 4 + extra], "big"), digits)
        return timestamp_text(int.from_bytes(image[at : at + 4], "big"), fraction), at + 4 + extra

    return read


def _in_whole_seconds(make: Callable[[BinlogColumn], Reader]) -> Callable[[BinlogColumn], Reader]:
    """Wraps a reader of an old format, which has no fractions: MariaDB's variants with fractions
    share its type codes, and raise UnreadableEvent."""

    def checked(column: BinlogColumn) -> Reader:
        if column.meta[0]:
            raise UnreadableEvent(
                f"column {column.name} has fractions of a second in MariaDB's old format "
                "(mysql56_temporal_format=OFF, or before 10.1), "
                "which this release cannot decode; set that variable to ON and run ALTER TABLE "
                "... FORCE on the table"
            )
        return make(column)

    return checked


def _old_timestamp(column: BinlogColumn) -> Reader:
    return lambda image, at: (
        timestamp_text(int.from_bytes(image[at : at + 4], "little"), ""),
        at + 4,
    )


def _old_time(column: BinlogColumn) -> Reader:
    def read(image: bytes, at: int) -> tuple[str, int]:
        value = int.from_bytes(image[at : at + 3], "little", signed=True)
        digits = abs(value)
        sign = "-" * (value < 0)
        hours, minutes, seconds = digits // 10000, digits // 100 % 100, digits % 100
        return f"{sign}{hours:02d}:{minutes:02d}:{seconds:02d}", at + 3

    return read


def _old_datetime(column: BinlogColumn) -> Reader:
    def read(image: bytes, at: int) -> tuple[str, int]:
        digits = f"{int.from_bytes(image[at : at + 8], 'little'):014d}"
        return (
            f"{digits[:4]}-{digits[4:6]}-{digits[6:8]} "
            f"{digits[8:10]}:{digits[10:12]}:{digits[12:]}",
            at + 8,
        )

    return read


def _text(column: BinlogColumn, length_bytes: int) -> Reader:
    decode = decoder(column.charset, column.name)

    def read(image: bytes, at: int) -> tuple[str, int]:
        start = at + length_bytes
        end = start + int.from_bytes(image[at:start], "little")
        return decode(image[start:end]), end

    return read


def _varchar(column: BinlogColumn) -> Reader:
    return _text(column, 1 if column.meta[0] < 256 else 2)


def _char(column: BinlogColumn) -> Reader:
    """CHAR and BINARY; `meta` is (length in bytes, 0). The row omits the padding of BINARY."""
    size = column.meta[0]
    read = _text(column, 1 if size < 256 else 2)
    if column.charset != BINARY:
        return read
    shown = _OWN_TEXTS.get(column.data_type, str)

    def padded(image: bytes, at: int) -> tuple[str, int]:
        text, end = read(image, at)
        return shown(text.ljust(size, "\0")), end

    return padded


def _uuid_text(characters: str) -> str:
    return str(UUID(bytes=characters.encode("latin-1")))


def _inet4_text(characters: str) -> str:
    return ".".join(str(ord(character)) for character in characters)


def _inet6_text(characters: str) -> str:
    """MariaDB's form: the first of the longest runs of zeros is `::`, even a single zero;
    IPv4-compatible and -mapped addresses end in dotted form."""
    raw = characters.encode("latin-1")
    words = [f"{raw[i] << 8 | raw[i + 1]:x}" for i in range(0, 16, 2)]
    zeros = max(
        re.finditer(r"0+", "".join("0" if word == "0" else "1" for word in words)),
        key=lambda run: len(run[0]),
        default=None,
    )
    if zeros is None:
        return ":".join(words)
    start, end = zeros.span()
    if start == 0 and (end == 6 or (end == 5 and words[5] == "ffff")):
        return f"::{'ffff:' * (end == 5)}{_inet4_text(characters[12:])}"
    return f"{':'.join(words[:start])}::{':'.join(words[end:])}"


_OWN_TEXTS = {"uuid": _uuid_text, "inet4": _inet4_text, "inet6": _inet6_text}


def _blob(column: BinlogColumn) -> Reader:
    return _text(column, column.meta[0])


def _compressed(column: BinlogColumn) -> Reader:
    """MariaDB's COMPRESSED columns (`Field_longstr::compress`): nothing for the empty text, else
    a method byte, then the value. That byte is 0 for an uncompressed value; 8 in its upper half
    is zlib, its lower half is the size of the length that follows, plus 8 for deflate without
    zlib's header."""
    length_bytes = 1 if column.meta[0] < 256 else 2
    if column.type == BLOB_COMPRESSED:
        length_bytes = column.meta[0]
    decode = decoder(column.charset, column.name)

    def read(image: bytes, at: int) -> tuple[str, int]:
        start = at + length_bytes
        end = start + int.from_bytes(image[at:start], "little")
        return decode(_decompressed(image[start:end], column)), end

    return read


def _decompressed(stored: bytes, column: BinlogColumn) -> bytes:
    if not stored or not stored[0]:
        return stored[1:]
    if stored[0] >> 4 != 8:
        raise UnreadableEvent(
            f"column {column.name} is compressed by method {stored[0] >> 4}, which this release "
            "does not know"
        )
    try:
        window_bits = zlib.MAX_WBITS
        if stored[0] & 8:
            window_bits = -window_bits  # zlib's sign for data without its header
        return zlib.decompress(stored[1 + (stored[0] & 7) :], window_bits)
    except zlib.error as error:
        raise UnreadableEvent(
            f"column {column.name} is compressed, but not as it says ({error})"
        ) from error


def _bytes(column: BinlogColumn) -> Reader:
    """GEOMETRY and VECTOR: bytes, regardless of the column's charset."""
    return _text(
        BinlogColumn(column.name, column.type, column.meta, charset=BINARY), column.meta[0]
    )


def _json(column: BinlogColumn) -> Reader:
    length_bytes = column.meta[0]

    def read(image: bytes, at: int) -> tuple[str, int]:
        start = at + length_bytes
        end = start + int.from_bytes(image[at:start], "little")
        return json_text(image[start:end]), end

    return read


def _enum(column: BinlogColumn) -> Reader:
    """The label; the empty text for index 0, MySQL's mark for a value that was not valid."""
    size, labels = column.meta[0], ("", *column.labels)

    def read(image: bytes, at: int) -> tuple[str, int]:
        index = int.from_bytes(image[at : at + size], "little")
        if index >= len(labels):
            raise UnreadableEvent(
                f"enum column {column.name} has {len(labels) - 1} labels, the row holds number "
                f"{index}"
            )
        return labels[index], at + size

    return read


def _set(column: BinlogColumn) -> Reader:
    size, labels = column.meta[0], column.labels

    def read(image: bytes, at: int) -> tuple[str, int]:
        bits = int.from_bytes(image[at : at + size], "little")
        if bits >> len(labels):
            raise UnreadableEvent(
                f"set column {column.name} has {len(labels)} labels, the row holds number {bits}"
            )
        return ",".join(label for i, label in enumerate(labels) if bits >> i & 1), at + size

    return read


_READERS: dict[int, Callable[[BinlogColumn], Reader]] = {
    TYPE.TINY: _integer("b", "B"),
    TYPE.SHORT: _integer("h", "H"),
    TYPE.INT24: _int24,
    TYPE.LONG: _integer("i", "I"),
    TYPE.LONGLONG: _integer("q", "Q"),
    TYPE.FLOAT: _float,
    TYPE.DOUBLE: _double,
    TYPE.NEWDECIMAL: _decimal,
    TYPE.BIT: _bit,
    TYPE.YEAR: _year,
    TYPE.DATE: _date,
    TYPE.NEWDATE: _date,
    TYPE.TIME: _in_whole_seconds(_old_time),
    TYPE.TIME2: _time,
    TYPE.DATETIME: _in_whole_seconds(_old_datetime),
    TYPE.DATETIME2: _datetime,
    TYPE.TIMESTAMP: _in_whole_seconds(_old_timestamp),
    TYPE.TIMESTAMP2: _timestamp,
    TYPE.VARCHAR: _varchar,
    TYPE.VAR_STRING: _varchar,
    TYPE.STRING: _char,
    TYPE.BLOB: _blob,
    BLOB_COMPRESSED: _compressed,
    VARCHAR_COMPRESSED: _compressed,
    TYPE.GEOMETRY: _bytes,
    VECTOR: _bytes,
    TYPE.JSON: _json,
    TYPE.ENUM: _enum,
    TYPE.SET: _set,
}
