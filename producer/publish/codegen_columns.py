"""Source text for generated code that reads a column and writes its value, for the most frequent
types.

It produces the same text as the type's reader in `cdcbus.producer.decoding.column_types`; that
reader reads a column without such code.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from json.encoder import encode_basestring as json_string
from typing import Any

from pymysqlreplication.constants import FIELD_TYPE as TYPE

from cdcbus.producer.decoding.charsets import decoder
from cdcbus.producer.decoding.column_types import BINARY, BinlogColumn, Reader, reader
from cdcbus.producer.decoding.decimals import decimal_size, decimal_text

_UTF8 = {"utf8mb4", "utf8mb3", "utf8"}
_MEMO_SIZE = 1 << 16


class Memo(dict[Any, str]):
    """Caches texts by their raw values: rows that arrive together share most of their dates.
    Drops everything when it is full."""

    def __init__(self, make: Callable[[Any], str]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, raw: Any) -> str:
        if len(self) >= _MEMO_SIZE:
            self.clear()
        text = self[raw] = self._make(raw)
        return text


@dataclass(frozen=True, slots=True)
class CellCode:
    """Source text that reads and writes one column.

    `fields`: struct codes of the value, or of its length if `has_length`, one variable each; empty
    if a reader reads it. `text` and `json` are parts of an f-string: the value as plain text and
    as JSON, with `$0` and `$1` for its variables. Equal variables mean equal texts. If different
    ones can mean equal texts, too, `decode` names the function that decides. `names` are the
    objects that all these refer to.
    """

    fields: tuple[str, ...]
    text: str
    json: str
    has_length: bool = False
    decode: str = ""
    names: dict[str, Any] = field(default_factory=dict)

    @property
    def variables(self) -> int:
        """The number of variables that hold the value."""
        return 1 if self.has_length else max(1, len(self.fields))


def cell_code(column: BinlogColumn, number: int, read: Reader) -> CellCode:
    """The code for the column with this number in its table; the names that it defines end in the
    number."""
    make = _CODES.get(column.type)
    code = make(column, number) if make is not None else None
    return code or CellCode((), "{$0}", "{json_string($0)}", names={f"read{number}": read})


def _integer(signed: str, unsigned: str) -> Callable[[BinlogColumn, int], CellCode | None]:
    def make(column: BinlogColumn, number: int) -> CellCode:
        return _digits((unsigned if column.unsigned else signed,), "{$0}")

    return make


def _digits(fields: tuple[str, ...], text: str, **names: Any) -> CellCode:
    """The code for texts that need no escapes."""
    return CellCode(fields, text, f'"{text}"', names=names)


def _memo(fields: str, number: int, make: Callable[[Any], str]) -> CellCode:
    return _digits((fields,), f"{{memo{number}[$0]}}", **{f"memo{number}": Memo(make)})


def _read_by(column: BinlogColumn) -> Callable[[bytes], str]:
    read = reader(column)
    return lambda raw: read(raw, 0)[0]


def _fixed(size: int) -> Callable[[BinlogColumn, int], CellCode | None]:
    """The code for a type of fixed size whose values repeat."""
    return lambda column, number: _memo(f"{size}s", number, _read_by(column))


def _with_fraction(size: int) -> Callable[[BinlogColumn, int], CellCode | None]:
    """DATETIME and TIMESTAMP: the seconds repeat, the fraction does not."""

    def make(column: BinlogColumn, number: int) -> CellCode:
        digits = column.meta[0]
        seconds = _read_by(BinlogColumn(column.name, column.type, (0, 0)))
        if not digits:
            return _memo(f"{size}s", number, seconds)
        # stored with an even number of digits
        fraction = f"{{from_bytes($1, 'big'){'//10' if digits % 2 else ''}:0{digits}d}}"
        fields = (f"{size}s", f"{(digits + 1) // 2}s")
        return _digits(
            fields, f"{{memo{number}[$0]}}.{fraction}", **{f"memo{number}": Memo(seconds)}
        )

    return make


def _double(column: BinlogColumn, number: int) -> CellCode | None:
    """Compared as bytes: 0.0 and -0.0 are equal numbers."""
    return _digits(("8s",), "{double($0)[0]!r}", double=struct.Struct("<d").unpack)


def _decimal(column: BinlogColumn, number: int) -> CellCode | None:
    precision, scale = column.meta
    name = f"decimal{number}"
    return _digits(
        (f"{decimal_size(precision, scale)}s",),
        f"{{{name}($0)}}",
        **{name: _decimal_text(precision, scale)},
    )


def _decimal_text(precision: int, scale: int) -> Callable[[bytes], str]:
    """`decimal_text`, faster for positive values with at most 18 digits before the point and 9
    after it."""
    whole_bytes, fraction_bytes = decimal_size(precision - scale, 0), decimal_size(scale, scale)
    if whole_bytes == 0 or whole_bytes > 8 or scale > 9:
        return lambda raw: decimal_text(raw, precision, scale)
    sign = 1 << (8 * (whole_bytes + fraction_bytes) - 1)
    shift, mask = 8 * fraction_bytes, (1 << 8 * fraction_bytes) - 1
    is_long = whole_bytes > 4

    def text(raw: bytes) -> str:
        number = int.from_bytes(raw, "big") ^ sign
        if number & sign:
            return decimal_text(raw, precision, scale)
        whole = number >> shift
        if is_long:
            whole = (whole >> 32) * 1_000_000_000 + (whole & 0xFFFFFFFF)
        return f"{whole}.{number & mask:0{scale}d}" if scale else str(whole)

    return text


def _enum(column: BinlogColumn, number: int) -> CellCode | None:
    """An index beyond the labels raises IndexError: the reader then says what is wrong."""
    labels = ["", *column.labels]
    decode = f"label{number}"  # a label can be empty, like the text of an invalid value
    names = {
        f"labels{number}": labels,
        f"json_labels{number}": [json_string(label) for label in labels],
        decode: labels.__getitem__,
    }
    code = {1: "B", 2: "H"}[column.meta[0]]
    return CellCode(
        (code,),
        f"{{labels{number}[$0]}}",
        f"{{json_labels{number}[$0]}}",
        decode=decode,
        names=names,
    )


def _text(column: BinlogColumn, number: int, length_bytes: int) -> CellCode | None:
    length = {1: "B", 2: "H", 4: "I"}.get(length_bytes)
    if length is None:
        return None
    if column.charset in _UTF8:
        return CellCode((length,), "{$0.decode()}", "{json_string($0.decode())}", has_length=True)
    name = f"decode{number}"
    names = {name: decoder(column.charset, column.name)}
    return CellCode(
        (length,),
        f"{{{name}($0)}}",
        f"{{json_string({name}($0))}}",
        has_length=True,
        decode=name,
        names=names,
    )


def _varchar(column: BinlogColumn, number: int) -> CellCode | None:
    return _text(column, number, 1 if column.meta[0] < 256 else 2)


def _char(column: BinlogColumn, number: int) -> CellCode | None:
    """BINARY is padded, and MariaDB has types that look like it: left to the reader."""
    return None if column.charset == BINARY else _varchar(column, number)


def _blob(column: BinlogColumn, number: int) -> CellCode | None:
    return _text(column, number, column.meta[0])


_CODES: dict[int, Callable[[BinlogColumn, int], CellCode | None]] = {
    TYPE.TINY: _integer("b", "B"),
    TYPE.SHORT: _integer("h", "H"),
    TYPE.INT24: _fixed(3),
    TYPE.LONG: _integer("i", "I"),
    TYPE.LONGLONG: _integer("q", "Q"),
    TYPE.DOUBLE: _double,
    TYPE.NEWDECIMAL: _decimal,
    TYPE.YEAR: _fixed(1),
    TYPE.DATE: _fixed(3),
    TYPE.DATETIME2: _with_fraction(5),
    TYPE.TIMESTAMP2: _with_fraction(4),
    TYPE.VARCHAR: _varchar,
    TYPE.VAR_STRING: _varchar,
    TYPE.STRING: _char,
    TYPE.BLOB: _blob,
    TYPE.ENUM: _enum,
}
