"""What the SQL targets share: quoting of names, the contract of a dialect, and cells as bytes."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple, Protocol

from sqlalchemy import Connection, CursorResult
from sqlalchemy.dialects.mysql.base import MySQLDialect
from sqlalchemy.dialects.oracle.base import OracleDialect
from sqlalchemy.dialects.postgresql.base import PGDialect
from sqlalchemy.engine.interfaces import Dialect

from cdcbus.plugins.contracts import TableBatch, TargetColumn, TargetTable, Writes, ZeroDate
from cdcbus.plugins.errors import TargetError, TargetRejected
from cdcbus.plugins.loaders.catalog import Catalog
from cdcbus.plugins.rowchange import Cell, TableId

Cells = tuple[Cell, ...]


class Quoting:
    """Names as a dialect quotes them: always, so that reserved words, blanks and mixed case
    pass."""

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

    def equal(self, names: Iterable[str], left: str, right: str, separator: str = " AND ") -> str:
        """`t.a = s.a AND t.b = s.b`, where `t.` and `s.` stand before the names."""
        quoted = map(self._quote, names)
        return separator.join(f"{left}{name} = {right}{name}" for name in quoted)

    def delete_all(self, table: TableId) -> str:
        """By DELETE where a TRUNCATE would commit."""
        return f"DELETE FROM {self.table(table)}"


QUOTING: Final = {
    "postgresql": Quoting(PGDialect),
    "mysql": Quoting(MySQLDialect),
    "oracle": Quoting(OracleDialect),
}


class Diagnosis(NamedTuple):
    """A driver's error: which of ours it is, and a text that holds no cell values."""

    error: type[TargetError]
    text: str


class Statement(NamedTuple):
    """A statement with `?` or the driver's own placeholders in place of cells, and how many rows
    it is for."""

    sql: str
    rows: int


class Upserted(NamedTuple):
    """What the target reports of an upsert. `left_out`: rows that it neither updated nor inserted,
    as one of its triggers left them out."""

    inserted: int
    left_out: int = 0


class SqlDialect(Protocol):
    """How one kind of database is written to. No state: one instance serves all connections.

    The methods run inside the connection's transaction, let driver errors pass, and raise
    TargetRejected for a cell that cannot be written.
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

    def delete(
        self, connection: Connection, table: TargetTable, keys: Sequence[tuple[Cell, ...]]
    ) -> int:
        """Deletes by primary key; how many rows were there."""
        ...

    def upsert(self, connection: Connection, table: TargetTable, writes: Writes) -> Upserted:
        """Updates the rows whose key exists, inserts the others; never touches a row with
        another key. How many were inserted, as far as the target reports it, counts only where rows
        are expected to be there."""
        ...

    def update(self, connection: Connection, table: TargetTable, writes: Writes) -> int:
        """Updates only; how many rows were there, changed or not."""
        ...

    def insert(self, connection: Connection, table: TargetTable, writes: Writes) -> int:
        """Adds rows to a table without a key; how many the target has taken."""
        ...

    def swap(
        self,
        connection: Connection,
        table: TargetTable,
        columns: Sequence[str],
        old: Cells,
        new: Cells | None,
    ) -> int:
        """Deletes ONE row that is equal to `old` in these columns, or makes it `new`; how many
        were there, 0 or 1. NULL equals NULL."""
        ...

    def locked(
        self,
        connection: Connection,
        table: TargetTable,
        keys: Sequence[Cells],
        columns: Sequence[str],
    ) -> Iterator[tuple[int, tuple[Any, ...]]]:
        """Locks the rows with these keys: the place of each that is found, and its cells of the
        key and of these columns."""
        ...

    def is_coarse(self, connection: Connection, table: TargetTable) -> bool:
        """Whether the key takes different texts for one."""
        ...

    def spelled(
        self, connection: Connection, table: TargetTable, keys: Sequence[tuple[Cell, ...]]
    ) -> list[tuple[Cell, ...]]:
        """The keys of the rows that are equal to these, as the target has them, as text."""
        ...

    def is_any_alike(
        self, connection: Connection, table: TargetTable, keys: Sequence[tuple[Cell, ...]]
    ) -> bool:
        """Whether two of the keys, all of them different, may be equal to the key's columns. Asked
        where `folded` may not decide it."""
        ...

    def preview(self, batch: TableBatch) -> Iterator[Statement]:
        """The statements that the batch comes to, where its rows are there or not. Pure; never
        raises for what a cell holds."""
        ...

    def widen(self, connection: Connection, table: TargetTable, column: str, type_: str) -> None:
        """Changes a column's type, and nothing else about it."""
        ...

    def diagnose(self, error: BaseException, columns: Collection[str]) -> Diagnosis:
        """What a driver's error means. `columns`: names that may be quoted from the driver's
        text."""
        ...


def run_plain(connection: Connection, sql: str) -> CursorResult[Any]:
    """Runs a statement without parameters: percent signs and colons in it are just these."""
    return connection.exec_driver_sql(sql, execution_options={"no_parameters": True})


def by_column(
    columns: Sequence[str], rows: Iterable[Sequence[Cell]]
) -> Iterator[tuple[str, tuple[Cell, ...]]]:
    """Each column with its cells of all rows."""
    return zip(columns, zip(*rows, strict=True), strict=True)


def assigned(table: TargetTable, columns: Sequence[str]) -> Sequence[str]:
    """The columns that an UPDATE sets: all but the key and those that only an insert gives a
    value; the key itself where there is nothing else, as SQL wants something."""
    names = [name for name in columns if name not in table.key and not table.columns[name].is_fixed]
    return names or table.key


def can_insert(table: TargetTable, columns: Collection[str]) -> bool:
    """Whether an upsert may try to insert first: servers refuse an insert without a required
    column before they see that the row exists."""
    return all(name in columns for name, column in table.columns.items() if column.is_required)


def hexadecimal(
    table: TargetTable, column: TargetColumn, cells: Iterable[Cell]
) -> list[str | None]:
    """Binary cells, one character per byte, as hexadecimal digits."""
    try:
        return [None if cell is None else cell.encode("latin-1").hex() for cell in cells]
    except UnicodeEncodeError:
        raise unfit(table, column, "a character above U+00FF, which is no byte") from None


def unfit(table: TargetTable, column: TargetColumn, what: str) -> TargetRejected:
    """The error for a cell that cannot become what the column holds; `what` never quotes it."""
    return TargetRejected(
        f"target table {table.id}, column {column.name} ({column.type}): a cell has {what}"
    )


ZERO_DATE: Final = re.compile(r"0000-|[0-9]{4}-(?:00-|[0-9]{2}-00)")
EPOCH: Final = "1970-01-01"


def without_zero_dates(
    table: TargetTable, column: TargetColumn, cells: Sequence[Cell], policy: ZeroDate
) -> Sequence[Cell]:
    """Cells of a date column in a target that has neither zero dates nor a year 0. Raises
    TargetRejected where the policy refuses these."""
    # one look at all cells: nearly always there is none
    text = "".join(filter(None, cells))
    if "-00" not in text and "0000-" not in text:
        return cells
    zeros = [cell is not None and ZERO_DATE.match(cell) is not None for cell in cells]
    if policy is ZeroDate.REJECT and any(zeros):
        raise unfit(
            table,
            column,
            "a zero or partly zero date: loader.zeroDate=null or epoch says what becomes of those",
        )
    instead = EPOCH if policy is ZeroDate.EPOCH else None
    return [instead if is_zero else cell for is_zero, cell in zip(zeros, cells, strict=True)]
