"""Asks a server for the schemas of its tables as they are now."""

from __future__ import annotations

import logging
import re
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pymysql

from cdcbus.plugins.errors import SourceMisconfigured, SourceUnavailable
from cdcbus.plugins.rowchange import TableId, type_without_comment
from cdcbus.producer.binlog.coordinates import FIRST_EVENT, BinlogCoordinates
from cdcbus.producer.ddl.table_changes import lower_case
from cdcbus.producer.ddl.table_schema import (
    NAMED,
    PRIMARY,
    ROW_TIMES,
    TableColumn,
    TableSchema,
    UniqueKey,
    with_row_times,
)
from cdcbus.producer.ddl.type_names import labels_in, spelled_labels
from cdcbus.producer.schema.hidden_labels import has_hidden_labels, labels_query, shown_labels
from cdcbus.producer.server.connection import binlog_files, latest_position
from cdcbus.producer.server.errors import passes

if TYPE_CHECKING:
    from cdcbus.producer.server.connection import Connection

LOG = logging.getLogger(__name__)
_NO_TABLE = {1146, 1049}  # or no such schema
# or no right to read it; a view of what is not there, or of nobody's
_NOT_THERE = _NO_TABLE | {1142, 1143, 1044, 1356, 1449}
# A column in SHOW CREATE TABLE; with double quotation marks in the mode ANSI_QUOTES.
_COLUMN = re.compile(r'^  (`(?:[^`]|``)+`|"(?:[^"]|"")+") ', re.MULTILINE)
_HIDDEN = {1142, 1143}  # no right to read the table, or one of its columns
_NO_SUCH_COLUMN = 1054
# A server that is shut down, and one that has ended the connection.
_ENDED = {1053, 1927, 4031}
_HASH = "HASH"
_HASHING = {"MEMORY", "ndbcluster"}
"""Engines that have indexes of this type."""
MORE_LOOKS, LOOK_SECONDS = 2, 0.05
"""How often a list of tables that may lack some is read again, and how long after the last time."""
_SHOWS_HIDDEN_KEYS = "show_gipk_in_create_table_and_information_schema"


class HiddenColumns(SourceMisconfigured):
    """The user may not SELECT all columns of a table: the others do not seem to exist."""


class UnopenedTable(SourceUnavailable):
    """The server cannot open a table, as one that is damaged, until somebody mends it."""


class SchemaReader:
    """The current tables of a server, through a connection that serves one query at a time.
    `folds_names`: table names are case-insensitive at the server."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        # With the default level, a transaction would see the tables as they were when it began.
        self._ask("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
        # MySQL can hide the key that it generated for a table without one, although it is in the
        # rows.
        if self._ask("SHOW VARIABLES LIKE %s", _SHOWS_HIDDEN_KEYS):
            self._ask(f"SET SESSION {_SHOWS_HIDDEN_KEYS} = ON")
        # Unquoted names would not be told from keys.
        self._ask("SET SESSION sql_quote_show_create = ON")
        [[folds_names, version]] = self._ask("SELECT @@lower_case_table_names, VERSION()")
        # As text where a reader takes cells as they come.
        self.folds_names = int(folds_names) != 0
        self._is_mariadb = "mariadb" in str(version).lower()
        self._has_dictionary = not self._is_mariadb and not str(version).startswith("5.")

    def end(self) -> BinlogCoordinates:
        """The current end of the binlog."""
        position = latest_position(self._connection)
        return BinlogCoordinates(position.file, position.pos)

    def start(self) -> BinlogCoordinates:
        """The start of the server's oldest binlog file."""
        return self.files()[0]

    def files(self) -> list[BinlogCoordinates]:
        """The start of each of the server's binlog files, oldest first."""
        return [BinlogCoordinates(file, FIRST_EVENT) for file, *_ in binlog_files(self._connection)]

    def still_there(self, place: BinlogCoordinates) -> BinlogCoordinates:
        """The place; if the server has lost the end of its file, the start of the next one."""
        for (file, size), (following, _) in pairwise(binlog_files(self._connection)):
            # 0: the server could not open it just then
            if file == place.file and 0 < size < place.pos:
                return BinlogCoordinates(following, FIRST_EVENT)
        return place

    def tables(self) -> list[TableId]:
        """All tables that the user may see, except the server's own. Of those that are dropped
        meanwhile, it can have some."""
        found = dict.fromkeys(self._listed())
        if not self._has_dictionary:
            for _ in range(MORE_LOOKS):
                time.sleep(LOOK_SECONDS)
                found.update(dict.fromkeys(self._listed()))
        return list(found)

    def _listed(self) -> list[TableId]:
        """As `tables`, but MariaDB and MySQL 5.7 leave out those whose files DDL renames just
        then."""
        rows = self._ask(
            "SELECT table_schema, table_name FROM information_schema.tables WHERE table_type IN "
            "('BASE TABLE', 'SYSTEM VERSIONED')"
            " AND table_schema NOT IN ('information_schema', 'mysql', 'performance_schema', 'sys')"
        )
        return [TableId(*row) for row in rows]

    def lacks(self, table: TableId) -> bool:
        """Whether the server has no such table; False also where it does not tell the user, who has
        no right to it."""
        try:
            self._selects("1", table, set())
        except pymysql.Error as error:
            if _is_lost(error):
                raise
            return error.args[0] in _NO_TABLE
        return False

    def read(self, table: TableId) -> tuple[TableSchema | None, BinlogCoordinates]:
        """Returns the table, None if it does not exist or the user may not read it, and the place.
        Raises UnopenedTable."""
        found, unopened, place = self._read_all([table])
        if unopened:
            raise UnopenedTable(unopened[table])
        return found.get(table), place

    def read_whole(self, table: TableId) -> TableSchema | None:
        """As `read`, without the place. Raises HiddenColumns."""
        with self.held([table]) as there:
            if there:
                self.need_columns(table)
            return self._schemas(there).get(table)

    def need_columns(self, table: TableId) -> None:
        """Raises HiddenColumns."""
        name = f"{_quoted(table.schema)}.{_quoted(table.table)}"
        is_whole = self._answers(f"SELECT * FROM {name} LIMIT 0", _HIDDEN)
        if is_whole and self._has_dictionary:
            is_whole = self._may_select_invisible(name)
        if not is_whole:
            raise HiddenColumns(
                f"source table {table}: the user may SELECT only some of its columns, or each by "
                "its name, which leaves open whether there are invisible ones; they would be "
                f"missing without a word; GRANT SELECT ON {name} TO that user"
            )

    def _may_select_invisible(self, name: str) -> bool:
        """For MySQL, whose * stands for visible columns only, with or without a right to others.
        Its statement names all; it is refused where no right is to the table itself."""
        try:
            [[_, statement, *_]] = self._ask(f"SHOW CREATE TABLE {name}")
        except pymysql.Error as error:
            if error.args[0] not in _HIDDEN:
                raise
            return False
        columns = ", ".join(_COLUMN.findall(str(statement)))
        return self._answers(f"SELECT {columns} FROM {name} LIMIT 0", _HIDDEN)

    def read_all(
        self, tables: Sequence[TableId]
    ) -> tuple[dict[TableId, TableSchema], BinlogCoordinates]:
        """Returns the tables that exist and that the user may read, and a place in the binlog at
        which they are as read: no DDL on them is in progress there. Warns of tables that the server
        cannot open."""
        found, unopened, place = self._read_all(tables)
        _warn(unopened)
        return found, place

    def _read_all(
        self, tables: Iterable[TableId]
    ) -> tuple[dict[TableId, TableSchema], dict[TableId, str], BinlogCoordinates]:
        unopened: dict[TableId, str] = {}
        with self.held(tables, unopened) as there:
            found = self._schemas(there)
            # While the locks are held, so that no DDL comes between reading and this place.
            return found, unopened, self.end()

    def schemas(
        self, tables: Iterable[TableId]
    ) -> tuple[dict[TableId, TableSchema], dict[TableId, str]]:
        """Returns the tables that exist and that the user may read, and those that the server
        cannot open, each with a sentence that says why, of which it warns."""
        unopened: dict[TableId, str] = {}
        with self.held(tables, unopened) as there:
            found = self._schemas(there)
        _warn(unopened)
        return found, unopened

    @contextmanager
    def held(
        self, tables: Iterable[TableId], unopened: dict[TableId, str] | None = None
    ) -> Iterator[list[TableId]]:
        """Locks the tables against DDL, without which MariaDB and MySQL 5.7 may leave out in
        information_schema what is there. Yields those that exist and that the user may read.
        `unopened` takes those that the server cannot open; without it, its error is raised."""
        self._ask("BEGIN")
        try:
            # in the order in which the server itself locks the tables of a RENAME
            yield [table for table in sorted(set(tables)) if self._is_there(table, unopened)]
        finally:
            # else the lost connection would hide what it was lost by
            if self._connection.open:
                self._ask("ROLLBACK")

    def _is_there(self, table: TableId, unopened: dict[TableId, str] | None) -> bool:
        try:
            return self._selects("1", table, _NOT_THERE)
        except pymysql.Error as error:
            if unopened is None or passes(error):
                raise
            said = " ".join(" ".join(map(str, error.args)).split())
            unopened[table] = (
                f"source table {table} cannot be opened, so its columns are not known: the server "
                f"says {said}; repair or drop it, or leave it out of the task's tables"
            )
            return False

    def default_charset(self, schema: str) -> str:
        """The character set of a schema's new tables; empty if unknown."""
        rows = self._ask(
            "SELECT default_character_set_name FROM information_schema.schemata WHERE schema_name "
            "= %s",
            schema,
        )
        if not rows:
            return ""
        return str(rows[0][0])

    def _ask(self, query: str, *arguments: object) -> Sequence[Sequence[Any]]:
        with self._connection.cursor() as cursor:
            cursor.execute(query, arguments or None)
            return cursor.fetchall()

    def _selects(self, columns: str, table: TableId, refusals: Set[int]) -> bool:
        """Whether the columns can be selected from the table; see `_answers`."""
        name = f"{_quoted(table.schema)}.{_quoted(table.table)}"
        return self._answers(f"SELECT {columns} FROM {name} LIMIT 0", refusals)

    def _answers(self, query: str, refusals: Set[int]) -> bool:
        """Whether the server takes a query; False if it answers with one of the `refusals`, raises
        its other errors."""
        try:
            self._ask(query)
        except pymysql.Error as error:
            if error.args[0] not in refusals:
                raise
            return False
        return True

    def _schemas(self, tables: Sequence[TableId]) -> dict[TableId, TableSchema]:
        """The schemas of locked tables; takes three queries, however many tables there are."""
        if not tables:
            return {}  # an empty list is no SQL
        columns = self._columns(tables)
        uniques = self._uniques(tables)
        found = {}
        rows = self._rows_of(tables, "table_collation, table_type, engine", "tables")
        for table, collation, kind, engine in rows:
            # Rows have the name of no view: a table has it, or had it before.
            if not columns[table] or kind == "VIEW":
                continue
            # a collation's name begins with that of its character set
            charset = (collation or "").partition("_")[0]
            keys = tuple(uniques[table].values())
            if engine in _HASHING:
                keys = tuple(replace(unique, is_hashed=False) for unique in keys)
            schema = TableSchema(tuple(columns[table]), keys, charset)
            if kind == "SYSTEM VERSIONED":
                schema = self._with_times(table, schema)
            found[table] = schema
        return found

    def _with_times(self, table: TableId, schema: TableSchema) -> TableSchema:
        """Completes a table WITH SYSTEM VERSIONING. Hidden times are in no list of columns, but can
        be selected."""
        is_named = not set(ROW_TIMES).isdisjoint(schema.names)
        if not is_named and self._selects(", ".join(ROW_TIMES), table, {_NO_SUCH_COLUMN}):
            return with_row_times(schema)
        return replace(schema, times=NAMED)

    def _columns(self, tables: Sequence[TableId]) -> defaultdict[TableId, list[TableColumn]]:
        found = defaultdict[TableId, list[TableColumn]](list)
        wanted = "column_name, column_type, character_set_name, is_nullable, collation_name"
        rows = self._rows_of(tables, wanted, "columns", "ORDER BY ordinal_position")
        for table, name, type_, charset, nullable, collation in rows:
            column_type = type_without_comment(type_)
            is_nullable = nullable == "YES"
            column = TableColumn(name, column_type, charset or "", is_nullable, collation or "")
            found[table].append(column)
        for table, columns in found.items():
            columns[:] = [self._with_labels(table, column) for column in columns]
        return found

    def _with_labels(self, table: TableId, column: TableColumn) -> TableColumn:
        """The column with the labels that information_schema cannot show."""
        if not has_hidden_labels(column):
            return column
        labels = labels_in(column.type)
        names = f"{_quoted(table.schema)}.{_quoted(table.table)}", _quoted(column.name)
        query = labels_query(*names, column, labels, is_mariadb=self._is_mariadb)
        shown = None
        try:
            shown = shown_labels(labels, self._ask(query))
        except pymysql.err.MySQLError as error:
            # Others refuse it, as does an older release, or a proxy.
            if _is_lost(error):
                raise
        if shown is None:
            LOG.warning(
                "%s: a `?` in the labels of column %s may stand for another character, which this "
                "server shows only with its rows: set binlog_row_metadata=FULL",
                table,
                column.name,
            )
            return column
        return replace(column, type=f"{column.data_type}({spelled_labels(shown)})")

    def _uniques(self, tables: Sequence[TableId]) -> defaultdict[TableId, dict[str, UniqueKey]]:
        """The unique keys of each table, in the server's own order, primary key first."""
        found = defaultdict[TableId, dict[str, UniqueKey]](dict)
        rows = self._rows_of(
            tables,
            "index_name, column_name, sub_part, index_type",
            "statistics",
            "AND non_unique = 0 ORDER BY seq_in_index",
        )
        for table, index, column, prefix, kind in rows:
            key = found[table].get(index, UniqueKey(index, ()))
            names = key.columns
            if column:
                names = (*names, column)
            # no column: an expression
            is_whole = key.is_whole and prefix is None and column is not None
            found[table][index] = UniqueKey(index, names, is_whole, kind == _HASH)
        for table, keys in found.items():
            order = sorted(keys, key=lambda name: name != PRIMARY)
            # information_schema does not keep the order, and to ask for it takes a query a table.
            if len(keys.keys() - {PRIMARY}) > 1:
                order = self._index_order(table)
            found[table] = {name: keys[name] for name in order if name in keys}
        return found

    def _index_order(self, table: TableId) -> list[str]:
        """The names of a table's indexes in the server's order, which it gives only for one table
        at a time."""
        name = f"{_quoted(table.table)} FROM {_quoted(table.schema)}"
        return [row[2] for row in self._ask(f"SHOW INDEX FROM {name}")]

    def _rows_of(
        self, tables: Sequence[TableId], columns: str, view: str, rest: str = ""
    ) -> Iterator[tuple[Any, ...]]:
        """Yields information_schema's rows on the tables: (table, columns...)."""
        asked = {self._folded(table): table for table in tables}
        schemas = {table.schema for table in tables}
        names = {table.table for table in tables}
        # MariaDB takes a list of names that differ in case only for one name.
        for some in (schemas, names):
            if len(some) > 1:
                some.add("")
        where = f"WHERE table_schema IN %s AND table_name IN %s {rest}"
        query = f"SELECT table_schema, table_name, {columns} FROM information_schema.{view} {where}"
        for schema, name, *row in self._ask(query, schemas, names):
            if table := asked.get(self._folded(TableId(schema, name))):
                yield table, *row

    def _folded(self, table: TableId) -> TableId:
        if not self.folds_names:
            return table
        return lower_case(table)


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _is_lost(error: pymysql.err.MySQLError) -> bool:
    """Whether the connection is lost, so that the question may be answered later."""
    code = error.args[0] if error.args else None
    # From 2000 to 2999 are the client's own errors.
    return not isinstance(code, int) or 2000 <= code < 3000 or code in _ENDED


def _warn(unopened: Mapping[TableId, str]) -> None:
    for sentence in unopened.values():
        LOG.warning("%s", sentence)
