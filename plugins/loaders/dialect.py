"""Shared code of the SQL targets: quoting of names, the contract of a dialect, cells as bytes."""

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
from cdcbus.plugins.errors import RowConflict, TargetError, TargetRejected, TargetUnavailable
from cdcbus.plugins.loaders.catalog import (
    Catalog,
    cascading_keys,
    folds_names,
    key_of,
    keys_of,
    with_hidden,
)
from cdcbus.plugins.rowchange import Cell, TableId

Cells = tuple[Cell, ...]


class Quoting:
    """Quotes names for a dialect: always, so that reserved words, blanks and mixed case are
    accepted."""

    def __init__(self, dialect: Callable[..., Dialect], paramstyle: str = "named") -> None:
        """`paramstyle`: pyformat doubles percent signs, for statements that have %s parameters."""
        self._quote = dialect(paramstyle=paramstyle).identifier_preparer.quote_identifier

    def name(self, name: str) -> str:
        return self._quote(name)

    def names(self, names: Iterable[str], prefix: str = "") -> str:
        """Comma-separated names, each after `prefix`."""
        quoted = map(self._quote, names)
        return ", ".join(prefix + name for name in quoted)

    def table(self, table: TableId) -> str:
        """SCHEMA.TABLE, or TABLE without a schema."""
        parts = filter(None, table)
        return ".".join(map(self._quote, parts))

    def equal(self, names: Iterable[str], left: str, right: str, separator: str = " AND ") -> str:
        """`t.a = s.a AND t.b = s.b`, with `left` = `t.` and `right` = `s.`."""
        quoted = map(self._quote, names)
        return separator.join(f"{left}{name} = {right}{name}" for name in quoted)

    def delete_all(self, table: TableId) -> str:
        """DELETE of all rows, for targets where TRUNCATE would commit."""
        return f"DELETE FROM {self.table(table)}"

    def has_rows(self, table: TableId) -> str:
        return f"SELECT EXISTS (SELECT 1 FROM {self.table(table)})"


QUOTING: Final = {
    "postgresql": Quoting(PGDialect),
    "mysql": Quoting(MySQLDialect),
    "oracle": Quoting(OracleDialect),
}


class Diagnosis(NamedTuple):
    """A driver's error: our class for it, and a text without cell values."""

    error: type[TargetError]
    text: str


class Statement(NamedTuple):
    """A statement with `?` or the driver's own placeholders in place of cells, and its number of
    rows."""

    sql: str
    rows: int


class Upserted(NamedTuple):
    """The target's report of an upsert. `left_out`: the number of rows that it neither updated nor
    inserted, as one of its triggers left them out."""

    inserted: int
    left_out: int = 0


class SqlDialect(Protocol):
    """Writes to one kind of database. Stateless: one instance serves all connections.

    The methods run inside the connection's transaction, pass on driver errors, and raise
    TargetRejected for a cell that cannot be written.
    """

    @property
    def name(self) -> str:
        """SQLAlchemy's name for it, a key of QUOTING."""
        ...

    @property
    def catalog(self) -> Catalog: ...

    def truncate(self, connection: Connection, table: TargetTable) -> None:
        """Deletes all rows in such a way that a rollback restores them. Raises RowConflict where
        foreign keys that are known would then change rows of other tables."""
        ...

    def delete(
        self, connection: Connection, table: TargetTable, keys: Sequence[tuple[Cell, ...]]
    ) -> int:
        """Deletes by primary key; returns the number of rows that existed."""
        ...

    def upsert(self, connection: Connection, table: TargetTable, writes: Writes) -> Upserted:
        """Updates the rows whose key exists, inserts the others; never touches a row with another
        key. The number of inserted rows, as far as the target reports it, is meaningful only if
        rows are expected to exist."""
        ...

    def update(self, connection: Connection, table: TargetTable, writes: Writes) -> int:
        """Updates only; returns the number of rows that existed, changed or not."""
        ...

    def insert(self, connection: Connection, table: TargetTable, writes: Writes) -> int:
        """Adds rows to a table without a key; returns the number that the target accepted."""
        ...

    def swap(
        self,
        connection: Connection,
        table: TargetTable,
        columns: Sequence[str],
        old: Cells,
        new: Cells | None,
    ) -> int:
        """Deletes ONE row that equals `old` in these columns, or changes it to `new`; returns the
        number of rows found, 0 or 1. NULL equals NULL."""
        ...

    def locked(
        self,
        connection: Connection,
        table: TargetTable,
        keys: Sequence[Cells],
        columns: Sequence[str],
    ) -> Iterator[tuple[int, tuple[Any, ...]]]:
        """Locks the rows with these keys; yields, for each row found, the index of its key, and its
        cells of the key and of these columns."""
        ...

    def is_coarse(self, connection: Connection, table: TargetTable) -> bool:
        """Whether the key treats different texts as equal."""
        ...

    def spelled(
        self, connection: Connection, table: TargetTable, keys: Sequence[tuple[Cell, ...]]
    ) -> list[tuple[Cell, ...]]:
        """The keys of the rows that equal these, as the target spells them, as text."""
        ...

    def is_any_alike(
        self, connection: Connection, table: TargetTable, keys: Sequence[tuple[Cell, ...]]
    ) -> bool:
        """Whether two of the keys, all different, may be equal to the key's columns. Called if
        `folded` cannot decide it."""
        ...

    def preview(self, batch: TableBatch) -> Iterator[Statement]:
        """Yields the statements for the batch, whether its rows exist or not. Pure; never raises
        because of a cell."""
        ...

    def widen(self, connection: Connection, table: TargetTable, column: str, type_: str) -> None:
        """Changes a column's type, and nothing else about it."""
        ...

    def diagnose(self, error: BaseException, columns: Collection[str]) -> Diagnosis:
        """Classifies a driver's error. `columns`: names that may be quoted from the driver's
        text."""
        ...

    def is_read_only(self, error: BaseException) -> bool:
        """Whether a driver's error says that the server, or the session, takes no writes."""
        ...


def run_plain(connection: Connection, sql: str) -> CursorResult[Any]:
    """Runs a statement without parameters: its percent signs and colons are literal."""
    return connection.exec_driver_sql(sql, execution_options={"no_parameters": True})


def refuse_orphans(
    connection: Connection, catalog: Catalog, table: TargetTable, are_acting: str
) -> None:
    """Raises RowConflict where a DELETE of all rows would change rows of other tables: a TRUNCATE
    of the source leaves these alone, also those that refer to the table. Foreign keys are read
    anew, as one that came since the table was read would act, too. `are_acting`: selects whether
    they do anything in the session."""
    quoting = QUOTING[table.dialect]
    if not run_plain(connection, are_acting).scalar():
        return
    if not run_plain(connection, quoting.has_rows(table.id)).scalar():
        return
    found = with_hidden(connection, catalog, cascading_keys(connection, catalog), table.cascades)
    for key in keys_of(table.id, found, is_folding=folds_names(connection, catalog)):
        if not key.on_delete or key.child == table.id:
            continue
        if run_plain(connection, quoting.has_rows(key.child)).scalar():
            raise RowConflict(
                f"target table {table.id} cannot be emptied while {key.child} has rows: its "
                f"foreign key to the table (ON DELETE {key.on_delete}) would delete or change "
                "these, which a TRUNCATE at the source does not. Empty that table at the "
                "target, or make the key NO ACTION there"
            )


def by_column(
    columns: Sequence[str], rows: Iterable[Sequence[Cell]]
) -> Iterator[tuple[str, tuple[Cell, ...]]]:
    """Yields each column with its cells of all rows."""
    return zip(columns, zip(*rows, strict=True), strict=True)


def nulls_of(columns: Sequence[str], row: Sequence[object]) -> list[str]:
    """The columns in which the row is NULL."""
    return [name for name, cell in zip(columns, row, strict=True) if cell is None]


def assigned(table: TargetTable, columns: Sequence[str]) -> Sequence[str]:
    """The columns that an UPDATE sets: all except the key and those that only an INSERT can set;
    the key itself if nothing else is left, as SQL requires an assignment. None if only an INSERT
    can set the key."""
    names = [name for name in columns if not table.columns[name].is_fixed]
    others = [name for name in names if name not in table.key]
    return others or [name for name in table.key if name in names]


def can_insert(table: TargetTable, columns: Collection[str]) -> bool:
    """Whether an upsert may try to insert first: servers refuse an INSERT without a required
    column before they notice that the row exists."""
    return all(name in columns for name, column in table.columns.items() if column.is_required)


def check_key(connection: Connection, catalog: Catalog, table: TargetTable) -> None:
    """Raises TargetUnavailable where the target table has a key of other columns than the known
    one. Called in a transaction that has changed or locked its rows, so nobody alters it
    meanwhile."""
    if set(key_of(connection, catalog, table.id) or ()) != set(table.key):
        raise TargetUnavailable(
            f"target table {table.id} has another key meanwhile, and is looked at again"
        )


def check_hits(
    connection: Connection, catalog: Catalog, table: TargetTable, hit: int, expected: int
) -> None:
    """Checks the key where other rows were hit than one for each key that should be there: it can
    have got another column. Also where fewer were hit, as a key without a row hides the second row
    of another one; only as many of these as of those remain unseen. Tables that inherit from one in
    PostgreSQL can have rows of equal keys, too."""
    if hit > 1 and hit != expected:
        check_key(connection, catalog, table)


def hexadecimal(
    table: TargetTable, column: TargetColumn, cells: Iterable[Cell]
) -> list[str | None]:
    """Binary cells, one character per byte, as hexadecimal digits."""
    try:
        return [None if cell is None else cell.encode("latin-1").hex() for cell in cells]
    except UnicodeEncodeError:
        raise unfit(table, column, "a character above U+00FF, which is no byte") from None


def unfit(table: TargetTable, column: TargetColumn, what: str) -> TargetRejected:
    """The error for a cell that does not fit the column's type; `what` never quotes the cell."""
    return TargetRejected(
        f"target table {table.id}, column {column.name} ({column.type}): a cell has {what}"
    )


ZERO_DATE: Final = re.compile(r"0000-|[0-9]{4}-(?:00-|[0-9]{2}-00)")
ZERO_DATE_REFUSED: Final = (
    "a zero or partly zero date: loader.zeroDate=null or epoch says what becomes of those"
)
ZERO_KEY_REFUSED: Final = (
    "a zero or partly zero date in the key: by loader.zeroDate several rows would have one key"
)
INSTEAD: Final = {ZeroDate.NULL: None, ZeroDate.EPOCH: "1970-01-01"}
"""What is written in place of a zero date."""


def without_zero_dates(
    table: TargetTable, column: TargetColumn, cells: Sequence[Cell], policy: ZeroDate
) -> Sequence[Cell]:
    """The cells of a date column for a target without zero dates and year 0. Raises TargetRejected
    if the policy refuses these, or in a key: other rows can have the key that one would get."""
    # one check of all cells: there is almost never one
    text = "".join(filter(None, cells))
    if "-00" not in text and "0000-" not in text:
        return cells
    written: list[Cell] = []
    for cell in cells:
        if cell is None or not ZERO_DATE.match(cell):
            written.append(cell)
        elif policy is ZeroDate.REJECT:
            raise unfit(table, column, ZERO_DATE_REFUSED)
        elif column.name in table.key:
            raise unfit(table, column, ZERO_KEY_REFUSED)
        else:
            written.append(INSTEAD[policy])
    return written
