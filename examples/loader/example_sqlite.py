"""exampleSqlite: a loader that writes to an SQLite file.

    loader.loaderName=exampleSqlite
    loader.source.url=sqlite:/data/shop.db

The file is one schema: `shop.orders` goes to its table `orders`. Rows are written one by one; the
applied offsets are in the same file, `cdcbus_position`, and commit with the rows.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from cdcbus import (
    AppliedOffset,
    Cell,
    Column,
    ConfigError,
    Counts,
    Details,
    JdbcTarget,
    KnownRow,
    OffsetConflict,
    OffsetTable,
    RowConflict,
    Swaps,
    TableBatch,
    TableId,
    TargetColumn,
    TargetMisconfigured,
    TargetRejected,
    TargetTable,
    TargetUnavailable,
    Writes,
)

BUSY_SECONDS = 20.0
OFFSETS = "cdcbus_position"
CREATE = f"""CREATE TABLE IF NOT EXISTS {OFFSETS} (
    task TEXT, topic TEXT, "partition" INTEGER, next_offset INTEGER NOT NULL,
    position_version INTEGER NOT NULL, epoch INTEGER NOT NULL, details TEXT NOT NULL,
    PRIMARY KEY (task, topic, "partition"))"""
TAKEN = {
    "SQLITE_CONSTRAINT_UNIQUE",
    "SQLITE_CONSTRAINT_PRIMARYKEY",
    "SQLITE_CONSTRAINT_ROWID",
    "SQLITE_CONSTRAINT_FOREIGNKEY",
}
Cells = tuple[Cell, ...]


@dataclass
class ExampleSqlite:
    """The `exampleSqlite` loader. Each transaction has a connection of its own, so it serves many
    threads; SQLite lets one of them write at a time."""

    target: JdbcTarget
    is_merging: bool = True
    is_dry_run: bool = False
    _tables: dict[TableId, TargetTable] = field(default_factory=dict)

    def __post_init__(self) -> None:
        scheme, _, self._path = self.target.url.partition(":")
        if scheme != "sqlite" or not self._path:
            raise ConfigError("loader.source.url is no file of SQLite; expected sqlite:/data/a.db")

    @contextmanager
    def _connected(self, begin: str = "") -> Iterator[sqlite3.Connection]:
        with _reported(self._path):
            connection = sqlite3.connect(
                f"file:{self._path}?mode=rw", BUSY_SECONDS, isolation_level=None, uri=True
            )
        try:
            with _reported(self._path):
                connection.execute("PRAGMA foreign_keys = ON")
                connection.execute(begin)
            yield connection
        finally:
            connection.close()

    def table(self, name: TableId) -> TargetTable | None:
        """The table of that name, which SQLite matches without regard to case."""
        if name not in self._tables:
            with self._connected() as connection, _reported(self._path):
                found = _reflected(connection, name)
            if found is None:
                return None
            self._tables[name] = found
        return self._tables[name]

    def refresh(self, name: TableId) -> None:
        self._tables.pop(name, None)

    def is_altered(self, table: TargetTable) -> bool:
        self.refresh(table.id)
        return self.table(table.id) != table

    def evolve(self, table: TargetTable, columns: Sequence[Column]) -> TargetTable:
        raise TargetMisconfigured(f"exampleSqlite alters no table: add what {table.id} lacks")

    def is_coarse(self, table: TargetTable) -> bool:
        return False  # tables with such keys are not written to, see _reflected

    def version_table(self, table: TargetTable, *, make: bool) -> TargetTable | None:
        if make:
            self.scatter()
        return None

    def scatter(self) -> bool:
        raise TargetMisconfigured(
            "exampleSqlite keeps no versions of rows, which changes of one row in two partitions "
            "need: give the topic the target's key as its partition key"
        )

    def is_scattered(self) -> bool:
        return False

    def lost_tables(self) -> list[str]:
        """Returns nothing: SQLite does not tell a table from another one of its name."""
        return []

    def accept_tables(self) -> None:
        """Nothing is known of the tables."""

    def forget_rows(self) -> None:
        """No rows are known."""

    def forget_versions(self, before_ms: Callable[[], int]) -> None:
        """No versions are kept."""

    @contextmanager
    def transaction(self) -> Iterator[ExampleTransaction]:
        with self._connected("BEGIN IMMEDIATE") as connection:
            yield ExampleTransaction(connection, self.target.task_id, self._path)
            with _reported(self._path):
                connection.execute("COMMIT")

    def applied_offsets(self, partition: tuple[str, int] | None = None) -> list[AppliedOffset]:
        applied = self.offset_table().applied
        return [each for each in applied if partition in (None, each.topic_partition)]

    def fence(self) -> list[AppliedOffset] | None:
        with self._connected("BEGIN IMMEDIATE") as connection, _reported(self._path):
            connection.execute(CREATE)
            connection.execute(
                f"UPDATE {OFFSETS} SET epoch = epoch + 1 WHERE task = ?", (self.target.task_id,)
            )
            found = _offsets(connection, self.target.task_id)
            connection.execute("COMMIT")
        return found

    def offset_table(self) -> OffsetTable:
        with self._connected() as connection, _reported(self._path):
            if not connection.execute(f"PRAGMA table_info({OFFSETS})").fetchall():
                return OffsetTable(False, True)
            return OffsetTable(True, True, _offsets(connection, self.target.task_id))

    def end_other_sessions(self) -> None:
        """The locks of a process end with it."""

    def close(self) -> None:
        """No connection outlives its transaction."""


@dataclass
class ExampleTransaction:
    connection: sqlite3.Connection
    task_id: str
    path: str

    @contextmanager
    def savepoint(self) -> Iterator[None]:
        self._do("SAVEPOINT s")
        try:
            yield
        except BaseException:
            self._do("ROLLBACK TO s")
            raise
        finally:
            self._do("RELEASE s")

    def check_at_once(self) -> None:
        """SQLite always checks deferred foreign keys at the commit, so nothing can be changed."""

    def may_be_freed(self, tables: Collection[TableId]) -> None:
        """Only an equal key takes a key's place, so no row can be mistaken for another."""

    def row_versions(self, versions: TargetTable, keys: Sequence[Cells]) -> list[KnownRow]:
        raise TargetMisconfigured("exampleSqlite keeps no versions of rows")

    def has_version_table(self, tables: Sequence[TargetTable]) -> bool:
        return False

    def write(self, batch: TableBatch) -> Counts:
        table, counts = batch.table, Counts()
        name = _quoted(table.id.table)
        if batch.truncate:
            self._do(f"DELETE FROM {name}")
        for key in batch.deletes:
            counts.deleted += self._do(f"DELETE FROM {name} WHERE {_where(table.key)}", key)
        counts.missed += batch.missed(counts.deleted)
        for key in batch.fresh:
            if self._has(table, key):
                raise TargetRejected(f"table {table.id}: a row is there that the key rounds to")
        for writes in batch.writes:
            self._write(table, writes, counts)
        for swaps in batch.swaps:
            self._swap(table, swaps, counts)
        return counts

    def _write(self, table: TargetTable, writes: Writes, counts: Counts) -> None:
        name, inserted = _quoted(table.id.table), 0
        places = [writes.columns.index(column) for column in table.key]
        assigned = ", ".join(f"{_quoted(column)} = ?" for column in writes.columns)
        for row in writes.rows:
            values = _values(table, writes.columns, row)
            key = tuple(values[place] for place in places)
            if self._has(table, key):
                self._do(f"UPDATE {name} SET {assigned} WHERE {_where(table.key)}", values + key)
                counts.written += 1
            elif writes.may_insert:
                self._do(_insert(name, writes.columns), values)
                inserted += 1
                counts.written += 1
            else:
                counts.missed += 1
        if writes.may_insert:
            counts.missed += writes.missed(inserted)

    def _swap(self, table: TargetTable, swaps: Swaps, counts: Counts) -> None:
        name = _quoted(table.id.table)
        one = f"SELECT rowid FROM {name} WHERE {_where(swaps.columns)} LIMIT 1"
        for gone, came in swaps.rows:
            is_there = gone is not None and self._do(
                f"DELETE FROM {name} WHERE rowid = ({one})", _values(table, swaps.columns, gone)
            )
            counts.missed += gone is not None and not is_there
            counts.deleted += bool(is_there and came is None)
            if came is not None and (gone is None or is_there or swaps.may_insert):
                values = _values(table, swaps.columns, came)
                counts.written += self._do(_insert(name, swaps.columns), values)

    def store_offset(self, offset: AppliedOffset, seen: AppliedOffset | None) -> None:
        self._do(CREATE)
        here = {each.topic_partition: each for each in _offsets(self.connection, self.task_id)}
        if here.get(offset.topic_partition) != seen:
            raise OffsetConflict(f"somebody else has applied records of {offset.topic_partition}")
        row = (
            *(self.task_id, offset.topic, offset.partition, offset.next_offset),
            *(offset.position_version, offset.epoch, offset.details.to_json()),
        )
        self._do(f"INSERT OR REPLACE INTO {OFFSETS} VALUES (?, ?, ?, ?, ?, ?, ?)", row)

    def _has(self, table: TargetTable, key: Sequence[object]) -> bool:
        found = f"SELECT 1 FROM {_quoted(table.id.table)} WHERE {_where(table.key)}"
        with _reported(self.path):
            return self.connection.execute(found, key).fetchone() is not None

    def _do(self, sql: str, values: Sequence[object] = ()) -> int:
        with _reported(self.path):
            return self.connection.execute(sql, values).rowcount


@contextmanager
def _reported(path: str) -> Iterator[None]:
    """SQLite's errors as those of the contract. Its texts name tables and columns, no values."""
    try:
        yield
    except sqlite3.IntegrityError as error:
        if error.sqlite_errorname in TAKEN:
            raise RowConflict(f"{path}: {error}") from error
        raise TargetRejected(f"{path}: {error}") from error
    except sqlite3.DataError as error:
        raise TargetRejected(f"{path}: {error}") from error
    except sqlite3.OperationalError as error:
        if "no such" in str(error):  # makes the task read the table's definition again
            raise TargetRejected(f"{path}: {error}") from error
        raise TargetUnavailable(f"{path}: {error}") from error
    except sqlite3.DatabaseError as error:
        raise TargetMisconfigured(f"{path}: {error}") from error


def _offsets(connection: sqlite3.Connection, task_id: str) -> list[AppliedOffset]:
    rows = connection.execute(
        f'SELECT topic, "partition", next_offset, position_version, epoch, details FROM {OFFSETS} '
        "WHERE task = ?",
        (task_id,),
    )
    return [AppliedOffset(*row[:5], Details.from_json(row[5])) for row in rows]


def _reflected(connection: sqlite3.Connection, name: TableId) -> TargetTable | None:
    columns: dict[str, TargetColumn] = {}
    keys: dict[int, str] = {}
    table = _quoted(name.table)
    for _, column, kind, is_required, default, place, hidden in connection.execute(
        f"PRAGMA table_xinfo({table})"
    ):
        columns[column] = TargetColumn(
            column,
            kind.lower(),
            is_nullable=not is_required,
            is_generated=hidden in (2, 3),
            is_required=bool(is_required) and default is None,
        )
        if place:
            keys[place] = column
    if not columns:
        return None
    unique: list[tuple[str, ...]] = []
    unsafe = ""
    for _, index, is_unique, _, is_partial in connection.execute(f"PRAGMA index_list({table})"):
        parts = [
            part for part in connection.execute(f"PRAGMA index_xinfo({_quoted(index)})") if part[5]
        ]
        if is_unique:
            is_whole = not is_partial and all(part[2] for part in parts)
            unique.append(tuple(part[2] for part in parts) if is_whole else ())
            if any(part[4] != "BINARY" for part in parts):
                unsafe = f"a key of {name} takes different texts for one: use COLLATE BINARY"
    key = tuple(keys[place] for place in sorted(keys))
    if not key:
        whole = (own for own in unique if own and not any(columns[c].is_nullable for c in own))
        key = next(whole, ())
    others = tuple(own for own in unique if own != key)
    return TargetTable(name, columns, key, others, "sqlite", unsafe)


def _values(table: TargetTable, columns: Sequence[str], row: Cells) -> tuple[object, ...]:
    """The row's values for SQLite: of a BLOB column, each character is one byte."""
    return tuple(
        cell.encode("latin-1")
        if cell is not None and "blob" in table.columns[column].type
        else cell
        for column, cell in zip(columns, row, strict=True)
    )


def _insert(name: str, columns: Sequence[str]) -> str:
    marks = ", ".join("?" * len(columns))
    return f"INSERT INTO {name} ({', '.join(map(_quoted, columns))}) VALUES ({marks})"


def _where(columns: Sequence[str]) -> str:
    return " AND ".join(f"{_quoted(column)} IS ?" for column in columns)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
