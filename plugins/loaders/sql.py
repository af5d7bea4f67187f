"""What the SQL targets share: quoting of names, the promises of a dialect, and cells as bytes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final, NamedTuple, Protocol

from sqlalchemy import Connection
from sqlalchemy.dialects.mysql.base import MySQLDialect
from sqlalchemy.dialects.oracle.base import OracleDialect
from sqlalchemy.dialects.postgresql.base import PGDialect
from sqlalchemy.engine.interfaces import Dialect

from cdcbus.plugins.contracts import TargetColumn, TargetTable, Writes
from cdcbus.plugins.errors import TargetError, TargetRejected
from cdcbus.plugins.loaders.reflect import Catalog
from cdcbus.plugins.rowchange import Cell, TableId


class Quoting:
    """Names as a dialect quotes them: always, so that reserved words, blanks and mixed case pass."""

    def __init__(self, dialect: Callable[..., Dialect], paramstyle: str = "named") -> None:
        """`paramstyle`: pyformat doubles percent signs, for statements that have %s parameters."""
        self._quote = dialect(paramstyle=paramstyle).identifier_preparer.quote_identifier

    def name(self, name: str) -> str:
        return self._quote(name)

    def names(self, names: Iterable[str], prefix: str = "") -> str:
        """Comma-separated, each with `prefix` before it."""
        return ", ".join(prefix + self._quote(name) for name in names)

    def table(self, table: TableId) -> str:
        """SCHEMA.TABLE; a table without a schema stands alone."""
        return ".".join(self._quote(part) for part in table if part)


QUOTING: Final = {
    "postgresql": Quoting(PGDialect),
    "mysql": Quoting(MySQLDialect),
    "oracle": Quoting(OracleDialect),
}


class Diagnosis(NamedTuple):
    """A driver's error: which of ours it is, and a text that holds no cell values."""

    error: type[TargetError]
    text: str


class SqlDialect(Protocol):
    """How one kind of database is written to. No state: one instance serves all connections.

    The methods run inside the connection's transaction, let driver errors pass, and raise TargetRejected for a cell that cannot be written.
    """

    @property
    def name(self) -> str:
        """SQLAlchemy's name of it: a key of QUOTING."""
        ...

    @property
    def catalog(self) -> Catalog: ...

    def truncate(self, connection: Connection, table: TargetTable) -> None:
        """Deletes all rows, so that a rollback brings them back."""
        ...

    def delete(self, connection: Connection, table: TargetTable, keys: Sequence[tuple[Cell, ...]]) -> int:
        """Deletes by primary key; how many rows were there."""
        ...

    def upsert(self, connection: Connection, table: TargetTable, writes: Writes) -> None:
        """Updates the rows whose key exists, inserts the others; never touches a row with another key."""
        ...

    def displace(self, connection: Connection, table: TargetTable, writes: Writes, unique_key: Sequence[str]) -> int:
        """Deletes the rows that hold a value of this unique key that one of `writes` has under another primary key; how many."""
        ...

    def update(self, connection: Connection, table: TargetTable, writes: Writes) -> int:
        """Updates only; how many rows were there, changed or not."""
        ...

    def diagnose(self, error: BaseException, columns: Collection[str]) -> Diagnosis:
        """Tells what a driver's error means. `columns`: names that may be told from the driver's text."""
        ...


def assigned(table: TargetTable, columns: Sequence[str]) -> Sequence[str]:
    """The columns that an UPDATE sets: all but the key; the key itself where there is nothing else, as SQL wants something."""
    return [name for name in columns if name not in table.key] or table.key


def can_insert(table: TargetTable, columns: Collection[str]) -> bool:
    """Whether an upsert may try to insert first: servers refuse an insert without a required column before they see that the row exists."""
    return all(name in columns for name, column in table.columns.items() if column.is_required)


def hexadecimal(table: TargetTable, column: TargetColumn, cells: Iterable[Cell]) -> list[str | None]:
    """Binary cells, one character per byte, as hexadecimal digits."""
    try:
        return [None if cell is None else cell.encode("latin-1").hex() for cell in cells]
    except UnicodeEncodeError:
        raise unfit(table, column, "a character above U+00FF, which is no byte") from None


def unfit(table: TargetTable, column: TargetColumn, what: str) -> TargetRejected:
    """The error for a cell that cannot become what the column holds; `what` never quotes it."""
    return TargetRejected(f"target table {table.id}, column {column.name} ({column.type}): a cell has {what}")
