"""The compiled writer of records (`native.c`): whether it is available, and its description of a
table.

It is not used if it is not built or `CDCBUS_PURE_PYTHON` is set; then `codegen.py` does the work,
slower.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import lru_cache
from json.encoder import encode_basestring as json_string
from typing import NamedTuple, Protocol

from pymysqlreplication.constants import FIELD_TYPE as TYPE

from cdcbus.plugins.converters.record_template import Placeholder
from cdcbus.plugins.kafka.record_key import Record
from cdcbus.plugins.rowchange import Op
from cdcbus.producer.decoding.charsets import BYTES_PER_CHARACTER, decoder
from cdcbus.producer.decoding.column_types import BINARY, BinlogColumn, Reader
from cdcbus.producer.decoding.decimals import decimal_size
from cdcbus.producer.publish.mapped_columns import Computed

try:
    from cdcbus.producer.publish import _native as built
except ImportError:
    built = None  # type: ignore[assignment]

INTERFACE = 3
"""The version of the values passed to the compiled part and returned by it."""


class CellPlan(NamedTuple):
    """How a column is read and written, like `Column` in native.c. Without `member` it is not
    written."""

    kind: int
    size: int = 0
    digits: int = 0
    scale: int = 0
    is_signed: bool = False
    member: bytes = b""
    json_texts: bytes | tuple[bytes, ...] = b""
    texts: bytes | tuple[bytes, ...] = b""
    read: Reader | None = None


class Plan(Protocol):
    """Converts the rows of one table and operation to records."""

    def write(
        self,
        body: bytes,
        at: int,
        row: int,
        is_last: bool,
        texts: tuple[str, ...],
        records: list[Record],
        /,
    ) -> tuple[int, int]:
        """Appends the records of the rows from `at` on, up to the first row that must take the
        row-at-a-time path. Returns index and number of the row after the last. Raises what a reader
        raises."""
        ...

    def join(
        self,
        body: bytes,
        at: int,
        row: int,
        is_last: bool,
        texts: tuple[str, ...],
        partitions: int,
        most_rows: int,
        most_bytes: int,
        /,
    ) -> tuple[list[Record], int] | None:
        """Returns the records of all rows from `at` on as `many_rows` makes them, and the number of
        the row after the last; None if one of the rows must take the row-at-a-time path, or needs a
        record of its own. Raises what a reader raises."""
        ...


class MakePlan(Protocol):
    """Makes a plan."""

    def __call__(
        self,
        cells: tuple[CellPlan, ...],
        first: tuple[int, ...],
        second: tuple[int, ...],
        is_update: bool,
        same: tuple[int, ...],
        key: tuple[int, ...],
        key_text: bytes,
        placeholders: tuple[int, ...],
        constants: bytes,
        /,
    ) -> Plan:
        """`first`, `second`: the columns in the images. `same`: the columns whose change is a
        change of the key. `key`: the record key's columns; `key_text` stands before them.
        `constants`: members appended to each image."""
        ...


compiled: MakePlan | None = (
    built.Plan if built is not None and built.INTERFACE == INTERFACE else None
)
"""None if it is not built, or was built from another version."""
_IS_WANTED = not os.environ.get("CDCBUS_PURE_PYTHON")
make_plan = compiled if _IS_WANTED else None
"""Like `compiled`, but also None if the compiled part must not be used."""


def without() -> str:
    """The reason why the compiled part is not used, for an operator; empty if it is."""
    if not _IS_WANTED:
        return "CDCBUS_PURE_PYTHON is set"
    if compiled is not None:
        return ""
    if built is None:
        return "it is not built"
    return "it was built from another version of cdcbus"


def placeholders(template: Sequence[Placeholder], op: Op) -> tuple[int, ...]:
    """The numbers of a template's placeholders."""
    numbers = {
        Placeholder.BEFORE: built.FIRST,
        Placeholder.AFTER: built.FIRST if op is Op.INSERT else built.SECOND,
        Placeholder.OLD: built.OLD,
        Placeholder.ROW: built.ROW,
        Placeholder.IS_LAST: built.IS_LAST,
    }
    return tuple(numbers[placeholder] for placeholder in template)


def constants(computed: Sequence[Computed]) -> bytes:
    """The members of computed columns with the same value in every row."""
    # They need no column, so that an empty row gives what every row has.
    return ",".join(
        f"{json_string(each.name)}:{json_string(each.cell({}) or '')}" for each in computed
    ).encode()


def cell(column: BinlogColumn, read: Reader, name: str | None) -> CellPlan:
    """Describes a column to the compiled part. `name`: its name in records, None = it is left
    out."""
    make = _CELLS.get(column.type)
    made = make(column) if make is not None else None
    return (made or CellPlan(built.READ, read=read))._replace(
        member=b"" if name is None else f"{json_string(name)}:".encode()
    )


def _integer(size: int) -> Callable[[BinlogColumn], CellPlan | None]:
    return lambda column: CellPlan(built.INTEGER, size, is_signed=not column.unsigned)


def _fixed(kind: str, size: int) -> Callable[[BinlogColumn], CellPlan | None]:
    return lambda column: CellPlan(getattr(built, kind), size)


def _with_fraction(kind: str, size: int) -> Callable[[BinlogColumn], CellPlan | None]:
    return lambda column: CellPlan(
        getattr(built, kind), size + (column.meta[0] + 1) // 2, column.meta[0]
    )


def _decimal(column: BinlogColumn) -> CellPlan | None:
    return CellPlan(built.DECIMAL, decimal_size(*column.meta), *column.meta)


def _enum(column: BinlogColumn) -> CellPlan | None:
    # Number 0 is the empty text, which MySQL stores for a value that was not valid.
    labels = ("", *column.labels)
    return CellPlan(
        built.ENUM,
        column.meta[0],
        json_texts=tuple(json_string(label)[1:-1].encode() for label in labels),
        texts=tuple(label.encode() for label in labels),
    )


def _text(column: BinlogColumn, length_bytes: int) -> CellPlan | None:
    charset = column.charset
    if charset in ("utf8mb4", "utf8mb3", "utf8"):
        return CellPlan(built.UTF8, length_bytes)
    # Characters of several bytes are left to the reader.
    if charset in BYTES_PER_CHARACTER:
        return None
    json_texts, texts = _characters(charset)
    return CellPlan(built.BYTES, length_bytes, json_texts=json_texts, texts=texts)


@lru_cache
def _characters(charset: str) -> tuple[bytes, bytes]:
    """The character of each byte in a single-byte character set, as JSON and as plain text: 256
    entries of its length and up to 7 bytes."""
    decode = decoder(charset, "")
    # JSON without its quotes, as the characters of a cell stand side by side in one text.
    texts = [decode(bytes((byte,))) for byte in range(256)]
    return b"".join(_entry(json_string(text)[1:-1]) for text in texts), b"".join(map(_entry, texts))


def _entry(text: str) -> bytes:
    raw = text.encode()
    return bytes((len(raw),)) + raw.ljust(7, b"\0")


def _varchar(column: BinlogColumn) -> CellPlan | None:
    return _text(column, 1 if column.meta[0] < 256 else 2)


def _char(column: BinlogColumn) -> CellPlan | None:
    """BINARY is padded, and MariaDB has types that look like it: left to the reader."""
    return None if column.charset == BINARY else _varchar(column)


def _blob(column: BinlogColumn) -> CellPlan | None:
    return _text(column, column.meta[0])


_CELLS: dict[int, Callable[[BinlogColumn], CellPlan | None]] = {
    TYPE.TINY: _integer(1),
    TYPE.SHORT: _integer(2),
    TYPE.INT24: _integer(3),
    TYPE.LONG: _integer(4),
    TYPE.LONGLONG: _integer(8),
    TYPE.DOUBLE: _fixed("DOUBLE", 8),
    TYPE.NEWDECIMAL: _decimal,
    TYPE.YEAR: _fixed("YEAR", 1),
    TYPE.DATE: _fixed("DATE", 3),
    TYPE.TIME2: _with_fraction("TIME", 3),
    TYPE.DATETIME2: _with_fraction("DATETIME", 5),
    TYPE.TIMESTAMP2: _with_fraction("TIMESTAMP", 4),
    TYPE.VARCHAR: _varchar,
    TYPE.VAR_STRING: _varchar,
    TYPE.STRING: _char,
    TYPE.BLOB: _blob,
    TYPE.ENUM: _enum,
}
