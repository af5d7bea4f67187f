"""Tables as the binlog's rows need them: from the table map alone where it is complete, else completed by what is known of the table."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pymysql
from pymysqlreplication.constants import FIELD_TYPE as TYPE

from cdcbus.plugins.errors import UnreadableEvent
from cdcbus.plugins.rowchange import Column, Table, TableId
from cdcbus.producer.columns import BINARY, BLOB_COMPRESSED, VARCHAR_COMPRESSED, VECTOR, BinlogColumn, Reader, reader
from cdcbus.producer.place import Place
from cdcbus.producer.server import binlog_files, latest_position
from cdcbus.producer.table_map import TableMap
from cdcbus.producer.table_schema import TableColumn, TableSchema, UniqueKey
from cdcbus.producer.type_names import type_names

if TYPE_CHECKING:
    from cdcbus.producer.server import Connection

_GEOMETRIES = (
    *("geometry", "point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon"),
    *("geomcollection", "geometrycollection"),
)

# information_schema's data_type -> the type codes that a table map may show for it.
_CODES: dict[str, set[int]] = {
    "tinyint": {TYPE.TINY},
    "smallint": {TYPE.SHORT},
    "mediumint": {TYPE.INT24},
    "int": {TYPE.LONG},
    "bigint": {TYPE.LONGLONG},
    "float": {TYPE.FLOAT},
    "double": {TYPE.DOUBLE},
    "decimal": {TYPE.NEWDECIMAL},
    "bit": {TYPE.BIT},
    "year": {TYPE.YEAR},
    "date": {TYPE.DATE, TYPE.NEWDATE},
    "time": {TYPE.TIME, TYPE.TIME2},
    "datetime": {TYPE.DATETIME, TYPE.DATETIME2},
    "timestamp": {TYPE.TIMESTAMP, TYPE.TIMESTAMP2},
    "char": {TYPE.STRING},
    "binary": {TYPE.STRING},
    "varchar": {TYPE.VARCHAR, TYPE.VAR_STRING, VARCHAR_COMPRESSED},
    "varbinary": {TYPE.VARCHAR, TYPE.VAR_STRING, VARCHAR_COMPRESSED},
    "json": {TYPE.JSON, TYPE.BLOB},  # MariaDB's is a text
    "enum": {TYPE.ENUM},
    "set": {TYPE.SET},
    "vector": {VECTOR},
    **{kind: {TYPE.STRING} for kind in ("inet4", "inet6", "uuid")},  # MariaDB's: bytes
    **{prefix + kind: {TYPE.BLOB, BLOB_COMPRESSED} for prefix in ("tiny", "", "medium", "long") for kind in ("text", "blob")},
    **{kind: {TYPE.GEOMETRY} for kind in _GEOMETRIES},
}
_NAMES = {code: kind for kind, codes in reversed(_CODES.items()) for code in codes}


@dataclass(frozen=True, slots=True, eq=False)
class DecodableTable:
    """A table with its columns as the binlog describes them and a reader for each, in row image order. Two are never equal: what is made
    for one is looked up by it quickly."""

    table: Table
    columns: tuple[BinlogColumn, ...]
    readers: tuple[Reader, ...]


def decodable(table_map: TableMap) -> DecodableTable:
    """From a complete table map. Raises UnreadableEvent, naming the table."""
    columns = []
    readers = []
    for column in table_map.columns:
        mysql_type, sql_type = type_names(column)
        columns.append(Column(column.name, mysql_type, sql_type))
        try:
            readers.append(reader(column))
        except UnreadableEvent as error:
            raise UnreadableEvent(f"table {table_map.table}: {error}") from error
    return DecodableTable(Table(table_map.table, tuple(columns), table_map.key), table_map.columns, tuple(readers))


class SchemaReader:
    """The tables of a server as they are, through a connection that serves one question at a time."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        # With the default level, a transaction would see the tables as they were when it began.
        self._ask("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")

    @property
    def folds_names(self) -> bool:
        """Whether the server takes table names in any case."""
        return bool(self._ask("SELECT @@lower_case_table_names")[0][0])

    def end(self) -> Place:
        """The end of the binlog now."""
        position = latest_position(self._connection)
        return Place(position.file, position.pos)

    def start(self) -> Place:
        """Where the oldest binlog file that the server has starts."""
        return Place(binlog_files(self._connection)[0][0], 4)

    def tables(self) -> list[TableId]:
        """All tables that the user may see, but for the server's own."""
        rows = self._ask(
            "SELECT table_schema, table_name FROM information_schema.tables WHERE table_type IN ('BASE TABLE', 'SYSTEM VERSIONED')"
            " AND table_schema NOT IN ('information_schema', 'mysql', 'performance_schema', 'sys')"
        )
        return [TableId(*row) for row in rows]

    def read(self, table: TableId) -> tuple[TableSchema | None, Place]:
        """The table, and a place in the binlog where it is as it was read: no DDL of it is under way then. None when there is no such table
        or the user may not read it."""
        self._ask("BEGIN")
        try:
            self._ask(f"SELECT 1 FROM {_quoted(table.schema)}.{_quoted(table.table)} LIMIT 0")  # takes a lock that DDL waits for
            schema: TableSchema | None = TableSchema(self._columns(table), self._uniques(table), self._charset(table))
        except pymysql.Error as error:
            if error.args[0] not in _NOT_THERE:
                raise
            schema = None
        finally:
            end = self.end()
            self._ask("ROLLBACK")
        return schema, end

    def default_charset(self, schema: str) -> str:
        """What a schema's new tables have; empty where it is not known."""
        rows = self._ask("SELECT default_character_set_name FROM information_schema.schemata WHERE schema_name = %s", schema)
        return str(rows[0][0]) if rows else ""

    def _ask(self, query: str, *arguments: str) -> Sequence[Sequence[Any]]:
        with self._connection.cursor() as cursor:
            cursor.execute(query, arguments or None)
            return cursor.fetchall()

    def _columns(self, table: TableId) -> tuple[TableColumn, ...]:
        rows = self._ask(
            "SELECT column_name, column_type, character_set_name, is_nullable FROM information_schema.columns"
            " WHERE table_schema = %s AND table_name = %s ORDER BY ordinal_position",
            *table,
        )
        return tuple(TableColumn(name, type_, charset or "", nullable == "YES") for name, type_, charset, nullable in rows)

    def _uniques(self, table: TableId) -> tuple[UniqueKey, ...]:
        """In the server's own order, primary key first."""
        keys: dict[str, UniqueKey] = {}
        for row in self._ask(f"SHOW INDEX FROM {_quoted(table.table)} FROM {_quoted(table.schema)}"):
            _, non_unique, index, _, column, _, _, prefix, *_ = row
            if not non_unique:
                key = keys.get(index, UniqueKey(index, ()))
                names = (*key.columns, column) if column else key.columns
                keys[index] = UniqueKey(index, names, key.is_whole and prefix is None and column is not None)
        return tuple(keys.values())

    def _charset(self, table: TableId) -> str:
        rows = self._ask("SELECT table_collation FROM information_schema.tables WHERE table_schema = %s AND table_name = %s", *table)
        return str(rows[0][0] or "").partition("_")[0] if rows else ""


_NOT_THERE = {1146, 1049, 1142, 1143, 1044}  # no such table or schema; no right to read it


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def completed(table_map: TableMap, schema: TableSchema) -> TableMap:
    """The table map with names, key, signedness, character sets and labels. Raises UnreadableEvent with both shapes when they do not
    fit."""
    if not fits(table_map, schema):
        raise UnreadableEvent(f"{shape(table_map)}, but the table, as far as is known, has {len(schema.columns)}: {schema}")
    columns = tuple(_completed(column, known) for column, known in zip(table_map.columns, schema.columns, strict=True))
    return replace(table_map, columns=columns, key=schema.key, is_complete=True)


def fits(table_map: TableMap, schema: TableSchema) -> bool:
    """Whether columns may be those that a table map describes: as many, of types that it may show so, unsigned where it says so."""
    return len(schema.columns) == len(table_map.columns) and all(
        column.type in _CODES.get(known.data_type, ()) and (not column.unsigned or "unsigned" in known.type)
        for column, known in zip(table_map.columns, schema.columns, strict=True)
    )


def shape(table_map: TableMap) -> str:
    """The beginning of a sentence on what a row's table map says."""
    types = ", ".join(_NAMES.get(column.type, str(column.type)) for column in table_map.columns)
    return f"table {table_map.table}: the row has {len(table_map.columns)} columns of types {types}"


# A label as the servers print it in column_type: quotes doubled, some characters escaped.
_LABEL = re.compile(r"'((?:[^'\\]|''|\\.)*)'", re.DOTALL)
_ESCAPED = re.compile(r"''|\\.", re.DOTALL)
_CHARACTERS = {"''": "'", r"\0": "\0", r"\n": "\n", r"\r": "\r"}


def _labels(column_type: str) -> tuple[str, ...]:
    return tuple(_ESCAPED.sub(lambda found: _CHARACTERS.get(found[0], found[0][1]), label) for label in _LABEL.findall(column_type))


def _completed(column: BinlogColumn, known: TableColumn) -> BinlogColumn:
    labels = _labels(known.type) if column.type in (TYPE.ENUM, TYPE.SET) else ()
    charset = column.charset or known.charset or BINARY
    return replace(column, name=known.name, unsigned="unsigned" in known.type, charset=charset, labels=labels)
