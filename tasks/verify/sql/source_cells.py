"""Cells of selected source rows, in the form of the binlog's rows. Pure."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from typing import Final

from pymysqlreplication.constants import FIELD_TYPE as TYPE

from cdcbus.plugins.rowchange import Cell
from cdcbus.producer.ddl.table_schema import TableColumn
from cdcbus.producer.decoding.charsets import decoder
from cdcbus.producer.decoding.column_types import BinlogColumn, reader
from cdcbus.tasks.verify.sql.pairs import TEXTS
from cdcbus.tasks.verify.sql.text import quoted

Read = Callable[[str | bytes], str]
ReadRow = Callable[[tuple[str | bytes | None, ...]], tuple[Cell, ...]]

SESSION: Final = (
    "SET SESSION time_zone = '+00:00', sql_mode = 'NO_BACKSLASH_ESCAPES', net_write_timeout = 3600"
)
"""The settings of the session that selects: as in the binlog, in UTC and with CHAR as stored. The
server must not time out while the other side of a comparison is read."""
LONG_GROUPS: Final = "SET SESSION group_concat_max_len = 67108864"
"""For the texts of a chunk. A server also limits them to its packet size."""


def selection(columns: Iterable[TableColumn]) -> tuple[str, ReadRow]:
    """The SQL that selects the columns, and a function from a row of the driver to its cells."""
    parts = []
    reads = []
    for column in columns:
        sql, read = selected(column, quoted("mysql", column.name))
        parts.append(sql)
        reads.append(read)
    return ", ".join(parts), reading(reads)


def selected(column: TableColumn, name: str) -> tuple[str, Read]:
    """The SQL that selects a column, and a function that reads the result. `name`: the column's
    name as SQL. The driver returns text, or bytes where there is no character set."""
    kind = column.data_type
    if kind == "float":
        # The binlog's own reader, so that a FLOAT has the digits that records have.
        single = reader(BinlogColumn(column.name, TYPE.FLOAT))
        # with all digits, and the sign of a zero, which + 0 would drop
        return f"{name} * 1e0", lambda raw: single(struct.pack("<f", float(raw)), 0)[0]
    if kind == "double":
        # Also of a DOUBLE(20,5), which would be rounded.
        return f"{name} * 1e0", lambda raw: repr(float(raw))
    # + 0 makes a number of the bits, and takes the padding off.
    if kind == "bit" or column.has_zerofill:
        return f"{name} + 0", _plain
    if kind in TEXTS:
        decode = decoder(column.charset or "utf8mb4", column.name)

        def decoded(raw: str | bytes) -> str:
            if isinstance(raw, str):
                raw = raw.encode()
            return decode(raw)

        # As stored bytes: a conversion by the server would replace what it cannot convert.
        return f"CAST({name} AS BINARY)", decoded
    # The driver takes it for a number.
    if kind == "vector":
        return f"HEX({name})", lambda raw: bytes.fromhex(_plain(raw)).decode("latin-1")
    return name, _plain


def _plain(raw: str | bytes) -> str:
    return raw.decode("latin-1") if isinstance(raw, bytes) else raw


def reading(reads: list[Read]) -> ReadRow:
    """A function from a row of the driver to its cells."""
    return lambda row: tuple(
        [None if raw is None else read(raw) for read, raw in zip(reads, row, strict=True)]
    )
