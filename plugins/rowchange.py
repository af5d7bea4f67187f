"""The row change: the one type that every part of the bus understands.

A cell is text or NULL: `str | None`. Text is the source's own literal (`12.50`, `2024-02-29
23:59:59.123456`, enum and set labels, JSON text), TIMESTAMP columns in UTC; a binary cell has one
character U+0000..U+00FF per byte, as canal writes it. A column that the source did not send is not
in the mapping at all: missing is not NULL.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Flag, StrEnum, auto
from typing import NamedTuple

Cell = str | None
Row = Mapping[str, Cell]


class Op(StrEnum):
    """A row's operation; the value is canal's wire text."""

    INSERT = "INSERT"
    UPDATE = "UPDATE"
    DELETE = "DELETE"
    TRUNCATE = "TRUNCATE"


class TableId(NamedTuple):
    """A table's name, as the source (or the target) spells it."""

    schema: str
    table: str

    def __str__(self) -> str:
        return f"{self.schema}.{self.table}"


class Unclear(Flag):
    """Ambiguities in cells whose wire format carries no types. TIMES: a date can be written as a
    number of days. BYTES: bytes can be written as base64. BITS: so can a BIT, which is a decimal
    number elsewhere."""

    NOTHING = 0
    TIMES = auto()
    BYTES = auto()
    BITS = auto()


_COMMENT = re.compile(r" /\*[^*]*\*/$")


def type_without_comment(column_type: str) -> str:
    """information_schema's column_type without the comment that MariaDB appends:
    `varbinary(20) /*M!100301 COMPRESSED*/`, `time /* mariadb-5.3 */`."""
    return _COMMENT.sub("", column_type)


@dataclass(frozen=True, slots=True)
class Column:
    """A source column. `mysql_type` is the type as CREATE TABLE spells it, empty where the wire
    format has no types; `sql_type` is its java.sql.Types number; `unclear`: the ways in which its
    cells are ambiguous."""

    name: str
    mysql_type: str = ""
    sql_type: int = 12
    unclear: Unclear = Unclear.NOTHING

    @property
    def is_binary(self) -> bool:
        """Whether cells carry bytes, one character per byte."""
        return self.mysql_type.startswith(BINARY_TYPES)


BINARY_TYPES = (
    "binary",
    "varbinary",
    "tinyblob",
    "blob",
    "mediumblob",
    "longblob",
    "geometry",
    "vector",
)


@dataclass(frozen=True, slots=True)
class Table:
    """A table as it was when the row was written: its columns in order, and the names of its
    primary key's columns (empty: none). `is_described`: these are all of its columns; else those in
    the record, as the wire format names no others. `has_old_rows`: an update's record holds the row
    before; else it holds only those columns of it that differ from the row after, and of a column
    that the source did not log before not even that. `checks_keys_late`: a statement of the source
    can give a row the key of another one that the same statement changes next (Oracle)."""

    id: TableId
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    is_described: bool = True
    has_old_rows: bool = True
    checks_keys_late: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns, in order."""
        return tuple(column.name for column in self.columns)

    def lacking(self, row: Row) -> list[str]:
        """The names of the columns that a row does not hold."""
        return [name for name in self.names if name not in row]


@dataclass(frozen=True, slots=True)
class Origin:
    """Where and when the source wrote a row; shared by the rows of one binlog event. Empty text or
    0 where the wire format does not say.

    `pos` is where the event starts in `file` (for a compressed transaction: the event that holds
    all of it); `commit_us` is the commit time in epoch microseconds on the server that committed
    the transaction first, in whole seconds where that server records no more (MariaDB);
    `server_uuid` is that server's UUID, which MariaDB does not have. `epoch`: the epoch of the
    holder of the swimlane's lock that sends the row (`plugins/epoch.py`). `is_snapshot`: the row
    existed before, and is sent by a snapshot. These two are not read back.
    """

    file: str = ""
    pos: int = 0
    gtid: str = ""
    server_id: int = 0
    commit_us: int = 0
    server_uuid: str = ""
    epoch: str = ""
    is_snapshot: bool = False

    @property
    def commit_ms(self) -> int:
        """The commit time in epoch milliseconds."""
        return self.commit_us // 1000


NO_ORIGIN = Origin()


@dataclass(slots=True)
class RowChange:
    """One row's insert, update or delete, or a table's truncate. Treat as read-only.

    INSERT has `after` only, DELETE `before` only, UPDATE both, TRUNCATE neither. `row` counts the
    rows of a transaction from 0; `is_last` marks the transaction's last one.
    """

    table: Table
    op: Op
    before: Row | None
    after: Row | None
    origin: Origin = NO_ORIGIN
    row: int = 0
    is_last: bool = False


@dataclass(frozen=True, slots=True)
class TableDdl:
    """A statement that changed a table's definition, or emptied it. `kind` is canal's word for it:
    CREATE, ALTER, ERASE (dropped), RENAME, CINDEX, DINDEX or TRUNCATE; `table` is the table's name
    afterwards; `sql` the whole statement."""

    table: TableId
    kind: str
    sql: str
    origin: Origin = NO_ORIGIN
