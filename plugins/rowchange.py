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
    """Ambiguities in cells whose wire format carries no types."""

    NOTHING = 0
    # A date can be written as a number of days.
    TIMES = auto()
    # Bytes can be written as base64.
    BYTES = auto()
    # So can a BIT, which is a decimal number elsewhere.
    BITS = auto()


_COMMENT = re.compile(r" /\*[^*]*\*/$")


def type_without_comment(column_type: str) -> str:
    """information_schema's column_type without the comment that MariaDB appends:
    `varbinary(20) /*M!100301 COMPRESSED*/`, `time /* mariadb-5.3 */`."""
    return _COMMENT.sub("", column_type)


@dataclass(frozen=True, slots=True)
class Column:
    """A source column."""

    name: str
    # As CREATE TABLE spells it; empty where the wire format has no types.
    mysql_type: str = ""
    # Its java.sql.Types number.
    sql_type: int = 12
    # The ways in which its cells are ambiguous.
    unclear: Unclear = Unclear.NOTHING
    # The type is only one that holds all of the source's, whose own the wire format does not name.
    is_bound: bool = False
    # The source's own then holds at least what this type does; empty where that is not known.
    least: str = ""

    @property
    def own_type(self) -> str:
        """The type that it has at the source; empty where the wire format does not name it."""
        return "" if self.is_bound else self.mysql_type

    @property
    def least_type(self) -> str:
        """A type that holds no more than the one at the source; empty where none is known."""
        return self.least if self.is_bound else self.mysql_type

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
    """A table as it was when the row was written."""

    id: TableId
    # In order.
    columns: tuple[Column, ...]
    # The names of its primary key's columns; empty: none.
    key: tuple[str, ...]
    # These are all of its columns; else those in the record, as the wire format names no others.
    is_described: bool = True
    # An update's record holds the row before; else it holds only those columns of it that differ
    # from the row after, and of a column that the source did not log before not even that.
    has_old_rows: bool = True
    # A statement of the source can give a row the key of another one that the same statement
    # changes next (Oracle).
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
    0 where the wire format does not say."""

    file: str = ""
    # Where the event starts in the file; for a compressed transaction: the event that holds it.
    pos: int = 0
    gtid: str = ""
    server_id: int = 0
    # The commit time in epoch microseconds on the server that committed the transaction first, in
    # whole seconds where that server records no more (MariaDB).
    commit_us: int = 0
    # That server's UUID, which MariaDB does not have.
    server_uuid: str = ""
    # The epoch of the holder of the swimlane's lock that sends the row (`plugins/epoch.py`); not
    # read back.
    epoch: str = ""
    # The row existed before, and is sent by a snapshot; not read back.
    is_snapshot: bool = False

    @property
    def commit_ms(self) -> int:
        """The commit time in epoch milliseconds."""
        return self.commit_us // 1000


NO_ORIGIN = Origin()


@dataclass(slots=True)
class RowChange:
    """One row's insert, update or delete, or a table's truncate. Treat as read-only.

    INSERT has `after` only, DELETE `before` only, UPDATE both, TRUNCATE neither.
    """

    table: Table
    op: Op
    before: Row | None
    after: Row | None
    origin: Origin = NO_ORIGIN
    # Its number in its transaction, from 0.
    row: int = 0
    # Whether it is the transaction's last one.
    is_last: bool = False


@dataclass(frozen=True, slots=True)
class TableDdl:
    """A statement that changed a table's definition, or emptied it."""

    # Its name afterwards.
    table: TableId
    # canal's word: CREATE, ALTER, ERASE (dropped), RENAME, CINDEX, DINDEX or TRUNCATE.
    kind: str
    # The whole statement.
    sql: str
    origin: Origin = NO_ORIGIN
