"""The two sides of a comparison: rows and checksums of a part of a table, from each database."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from pymysql.cursors import SSCursor
from sqlalchemy import Connection as TargetConnection

from cdcbus.plugins.contracts import TargetColumn
from cdcbus.plugins.loaders.dialects.mysql.catalog import hold
from cdcbus.plugins.loaders.engine import Database
from cdcbus.producer.config import SourceConfig
from cdcbus.producer.ddl.table_schema import TableColumn
from cdcbus.producer.server import connection as servers
from cdcbus.producer.snapshot.chunks import with_history
from cdcbus.tasks.control.source_of import source_connection
from cdcbus.tasks.verify.sql.checksums import (
    Digest,
    Sums,
    bucket_sql,
    bucket_sums_sql,
    digest_sql,
    sums_sql,
)
from cdcbus.tasks.verify.sql.keys import EVERYTHING, among, beyond, key_literals, up_to
from cdcbus.tasks.verify.sql.pairs import Pair, source_terms, target_terms
from cdcbus.tasks.verify.sql.source_cells import LONG_GROUPS, SESSION, selection
from cdcbus.tasks.verify.sql.text import (
    POSTGRESQL_SESSION,
    compared_column,
    mysql_literal,
    oracle_selected,
    postgresql_selected,
    quoted,
    quoted_table,
    target_literal,
)
from cdcbus.tasks.verify.subject import Cells, SourceTable, Subject

if TYPE_CHECKING:
    from cdcbus.producer.server.connection import Connection

ANSWER_SECONDS: Final = 6 * 3600.0
"""The read timeout: a checksum of a whole table may take that long."""


@contextmanager
def open_source(config: SourceConfig, server: str = "") -> Iterator[Connection]:
    """A connection that returns cells as text and bytes. `server`: see `source_connection`."""
    with source_connection(config, ANSWER_SECONDS, server) as connection:
        with connection.cursor() as cursor:
            cursor.execute(SESSION)
            cursor.execute(LONG_GROUPS)
        # Without decoders the driver returns what the server sends, which is closest to the binlog.
        connection.decoders = {}
        yield connection


class SourceSide:
    """One source table. `where`: which of its rows are compared, as SQL of the source."""

    def __init__(self, table: SourceTable, connection: Connection, where: str) -> None:
        self.table = table
        self._connection = connection
        self._name = quoted_table("mysql", table.mapped.source.id)
        if table.mapped.schema.times:
            self._name = with_history(self._name)
        self._where = where
        self._select, self._read = selection(table.mapped.schema.columns)
        self._key = [quoted("mysql", column.name) for column in table.key_columns]

    def rows(self, where: str = EVERYTHING, *, is_narrowed: bool = True) -> Iterator[Cells]:
        """The rows, with cells as in the binlog. `is_narrowed`: only those that are compared."""
        narrowed = f"({self._where}) AND " if is_narrowed else ""
        sql = f"SELECT {self._select} FROM {self._name} WHERE {narrowed}{where}"
        # Rows are streamed, as a table need not fit into memory.
        with SSCursor(self._connection) as cursor:
            cursor.execute(sql)
            for row in cursor:
                yield self._read(row)

    def sums(self, pairs: Sequence[Pair], where: str) -> Sums:
        narrowed = f"({self._where}) AND {where}"
        [row] = self._ask(sums_sql("mysql", self._name, source_terms(pairs), narrowed))
        return Sums(*map(int, row))

    def digest(self, pairs: Sequence[Pair], where: str, most: int) -> Digest:
        terms = source_terms(pairs)
        narrowed = f"({self._where}) AND {where}"
        [row] = self._ask(digest_sql("mysql", self._name, terms, self._key, narrowed, most))
        return _digest(row)

    def bucket_sums(
        self, pairs: Sequence[Pair], key: Sequence[Pair], where: str
    ) -> Iterator[tuple[int, Sums]]:
        sql = bucket_sums_sql(
            "mysql",
            self._name,
            source_terms(pairs),
            source_terms(key),
            f"({self._where}) AND {where}",
        )
        for bucket, *row in self._ask(sql):
            yield int(bucket), Sums(*map(int, row))

    def in_buckets(self, buckets: Sequence[int]) -> str:
        number = bucket_sql("mysql", source_terms(self.table.key_pairs or ()))
        return f"{number} IN ({', '.join(map(str, buckets))})"

    def bound(self, last: Cells | None, rows: int) -> Cells | None:
        """The key of the row that is `rows` rows after `last`; None where there are fewer."""
        # Without --where: its rows may be rare, and finding the bound would scan the table.
        where = EVERYTHING if last is None else self.beyond(last)
        names = ", ".join(self._key)
        columns, read = selection(self.table.key_columns)
        sql = (
            f"SELECT {columns} FROM {self._name} WHERE {where} ORDER BY {names} "
            f"LIMIT 1 OFFSET {rows - 1}"
        )
        found = self._ask(sql)
        if not found:
            return None
        return read(found[0])

    def beyond(self, key: Cells) -> str:
        return beyond(self._key, self._literals(key))

    def up_to(self, key: Cells) -> str:
        return up_to(self._key, self._literals(key))

    def among(self, keys: Sequence[Cells]) -> str:
        """The condition for rows with these keys, and perhaps some whose keys are equal only to
        the column's collation."""
        charsets = [column.charset for column in self.table.key_columns]
        return among(self._key, charsets, keys, self._known_literals)

    def can_spell(self, keys: Sequence[Cells]) -> bool:
        """Whether `among` finds all rows with these keys."""
        return None not in map(self._known_literals, keys)

    def _literals(self, key: Cells) -> list[str]:
        found = self._known_literals(key)
        assert found is not None, "a key of the source's own"
        return found

    def _known_literals(self, key: Cells) -> list[str] | None:
        def literal(column: TableColumn, cell: str) -> str | None:
            return mysql_literal(column.data_type, cell)

        return key_literals(self.table.key_columns, key, literal)

    def estimate(self) -> int:
        """The approximate number of rows."""
        return self._estimated("table_rows")

    def row_bytes(self) -> int:
        """The approximate size of a row in bytes; 0 where that is unknown."""
        return self._estimated("avg_row_length")

    def _estimated(self, what: str) -> int:
        sql = (
            f"SELECT {what} FROM information_schema.tables WHERE table_schema = %s AND "
            "table_name = %s"
        )
        found = servers.query(self._connection, sql, self.table.mapped.source.id)
        if not found:
            return 0
        # NULL for views, and for tables whose statistics the server has not made yet.
        return int(found[0][0] or 0)

    def _ask(self, sql: str) -> Sequence[tuple[Any, ...]]:
        with self._connection.cursor() as cursor:
            cursor.execute(sql)
            return cursor.fetchall()


class TargetSide:
    """The target table. `where`: which of its rows are compared, as SQL of the target."""

    def __init__(
        self,
        subject: Subject,
        database: Database,
        connection: TargetConnection,
        where: str,
        charsets: Mapping[str, str],
    ) -> None:
        self._subject, self._database, self._connection = subject, database, connection
        self._where = where
        table = subject.target
        self._dialect = table.dialect
        self._name = quoted_table(table.dialect, table.id)
        columns = [table.columns[name] for name in subject.columns]
        self._key_columns: list[TargetColumn] = []
        self._key: list[str] = []
        self._charsets: list[str] = []
        for name in subject.key_names:
            column = table.columns[name]
            self._key_columns.append(column)
            self._key.append(compared_column(table.dialect, column))
            self._charsets.append(charsets.get(column.name, ""))
        self._read: Callable[[Any], Cells]
        if table.dialect == "postgresql":
            self._select = ", ".join(map(postgresql_selected, columns))
            self._read = _as_it_is
        elif table.dialect == "oracle":
            self._select = ", ".join(map(oracle_selected, columns))
            self._read = _as_text
        else:
            declared = []
            for column in columns:
                charset = charsets.get(column.name, "")
                declared.append(TableColumn(column.name, column.declared, charset))
            # A target in MySQL is read as a source is, so that both sides give one form.
            self._select, self._read = selection(declared)

    def rows(
        self, where: str = EVERYTHING, *, is_narrowed: bool = True
    ) -> Generator[Cells, None, None]:
        """The rows, in the form that is compared. `is_narrowed`: only those that are compared."""
        narrowed = f"({self._where}) AND " if is_narrowed else ""
        sql = f"SELECT {self._select} FROM {self._name} WHERE {narrowed}{where}"
        actual = self._subject.actual
        with self._asked(sql, is_streamed=True) as found:
            for row in found:
                yield actual(self._read(row))

    def sums(self, pairs: Sequence[Pair], where: str) -> Sums:
        narrowed = f"({self._where}) AND {where}"
        sql = sums_sql(self._dialect, self._name, target_terms(pairs), narrowed)
        with self._asked(sql) as found:
            [row] = found
        return Sums(*map(int, row))

    def digest(self, pairs: Sequence[Pair], where: str, most: int) -> Digest:
        terms = target_terms(pairs)
        narrowed = f"({self._where}) AND {where}"
        sql = digest_sql(self._dialect, self._name, terms, self._key, narrowed, most)
        with self._asked(sql) as found:
            [row] = found
        return _digest(row)

    def bucket_sums(
        self, pairs: Sequence[Pair], key: Sequence[Pair], where: str
    ) -> Iterator[tuple[int, Sums]]:
        sql = bucket_sums_sql(
            self._dialect,
            self._name,
            target_terms(pairs),
            target_terms(key),
            f"({self._where}) AND {where}",
        )
        with self._asked(sql) as found:
            for bucket, *row in found:
                yield int(bucket), Sums(*map(int, row))

    def in_buckets(self, buckets: Sequence[int]) -> str:
        pairs = self._subject.sources[0].key_pairs or ()
        number = bucket_sql(self._dialect, target_terms(pairs))
        return f"{number} IN ({', '.join(map(str, buckets))})"

    def beyond(self, key: Cells) -> str:
        return beyond(self._key, self._literals(key))

    def up_to(self, key: Cells) -> str:
        return up_to(self._key, self._literals(key))

    def among(self, keys: Sequence[Cells]) -> str:
        return among(self._key, self._charsets, keys, self._known_literals)

    def can_spell(self, keys: Sequence[Cells]) -> bool:
        """Whether `among` finds all rows with these keys: not those with NULL, NaN, infinity and
        the like, which only the target can have."""
        return None not in map(self._known_literals, keys)

    def _literals(self, key: Cells) -> list[str]:
        found = self._known_literals(key)
        assert found is not None, "numbers and bytes are known to every target"
        return found

    def _known_literals(self, key: Cells) -> list[str] | None:
        def literal(column: TargetColumn, cell: str) -> str | None:
            return target_literal(self._dialect, column, cell)

        return key_literals(self._key_columns, key, literal)

    @contextmanager
    def _asked(self, sql: str, *, is_streamed: bool = False) -> Iterator[Any]:
        # One transaction for each request: an open one would keep old row versions for hours.
        with (
            self._database.reported(f"table {self._subject.target.id}"),
            self._connection.begin(),
        ):
            if self._dialect == "postgresql":
                # SET LOCAL ends with the transaction, so each one sets them again.
                for setting in POSTGRESQL_SESSION.split("; "):
                    self._connection.exec_driver_sql(setting)
            # Without parameters, a % in a literal stays as it is.
            options = {"no_parameters": True, "stream_results": is_streamed}
            result = self._connection.exec_driver_sql(sql, execution_options=options)
            try:
                yield result
            finally:
                result.close()


def _digest(row: Sequence[Any]) -> Digest:
    rows, digest = row
    if isinstance(digest, bytes):
        digest = digest.decode()
    return Digest(int(rows), digest)


def _as_it_is(row: Sequence[Any]) -> Cells:
    return tuple(row)


def _as_text(row: Sequence[Any]) -> Cells:
    """A driver's row as texts: it may hold bytes, floats, LOBs and durations."""
    return tuple([None if cell is None else _text(cell) for cell in row])


def _text(cell: Any) -> str:
    if hasattr(cell, "read"):
        cell = cell.read()
    if isinstance(cell, bytes):
        return cell.decode("latin-1")
    # In seconds, without the rounding of a float.
    if isinstance(cell, timedelta):
        return str(Decimal(cell // timedelta(microseconds=1)).scaleb(-6))
    if isinstance(cell, float):
        return repr(cell)
    return str(cell)


@contextmanager
def open_target(database: Database) -> Iterator[TargetConnection]:
    """A separate connection that returns cells as text and bytes."""
    with database.reported("connection"), database.engine.connect() as connection:
        if database.url.dialect == "mysql":
            driver: Any = connection.connection.driver_connection
            driver.decoders = {}
            # The pool must not give it to anyone else.
            connection.detach()
        # Ends the transaction that the first statement began, as each request begins its own.
        connection.rollback()
        yield connection


def charsets_of(connection: TargetConnection, subject_table: Any) -> dict[str, str]:
    """The character sets of a table's columns in MySQL and MariaDB."""
    from sqlalchemy import text

    sql = (
        "SELECT column_name, character_set_name FROM information_schema.columns WHERE "
        "table_schema = :schema AND table_name = :table AND character_set_name IS NOT NULL"
    )
    charsets = {}
    with connection.begin():
        hold(connection, subject_table)
        for name, charset in connection.execute(text(sql), subject_table._asdict()):
            charsets[str(name)] = str(charset)
    return charsets
