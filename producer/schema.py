"""Tables as the binlog's rows need them: from the table map alone where it is complete, else completed from information_schema.

information_schema shows the table as it is now, the row as it was: columns are taken from there only while count and types agree.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pymysqlreplication.constants import FIELD_TYPE as TYPE

from cdcbus.plugins.errors import UnreadableEvent
from cdcbus.plugins.rowchange import Column, Table, TableId
from cdcbus.producer.columns import VECTOR, BinlogColumn, Reader, reader
from cdcbus.producer.table_map import TableMap
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
    "varchar": {TYPE.VARCHAR, TYPE.VAR_STRING},
    "varbinary": {TYPE.VARCHAR, TYPE.VAR_STRING},
    "json": {TYPE.JSON},
    "enum": {TYPE.ENUM},
    "set": {TYPE.SET},
    "vector": {VECTOR},
    **{kind: {TYPE.STRING} for kind in ("inet4", "inet6", "uuid")},  # MariaDB's: bytes
    **{prefix + kind: {TYPE.BLOB} for prefix in ("tiny", "", "medium", "long") for kind in ("text", "blob")},
    **{kind: {TYPE.GEOMETRY} for kind in _GEOMETRIES},
}


@dataclass(frozen=True, slots=True)
class DecodableTable:
    """A table with a reader for each column, in row image order."""

    table: Table
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
    return DecodableTable(Table(table_map.table, tuple(columns), table_map.key), tuple(readers))


class SchemaReader:
    """Completes table maps from information_schema, through one connection of its own."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def complete(self, table_map: TableMap) -> TableMap:
        """The table map with names, key, signedness, character sets and labels of the table as it is now.
        Raises UnreadableEvent with both shapes when they do not fit."""
        rows = self._columns(table_map.table)
        shape = [column.type for column in table_map.columns]
        if len(rows) != len(shape) or any(code not in _CODES.get(row["data_type"], ()) for code, row in zip(shape, rows, strict=True)):
            now = ", ".join(f"{row['name']} {row['column_type']}" for row in rows) or "no such table"
            raise UnreadableEvent(
                f"table {table_map.table}: the row has {len(shape)} columns of types {shape}, the table now has {len(rows)}: {now}. "
                "It was altered after the row was written; set binlog_row_metadata=FULL on the server so that rows carry their columns"
            )
        columns = tuple(_completed(column, row) for column, row in zip(table_map.columns, rows, strict=True))
        key = self._key(table_map.table)
        return replace(table_map, columns=columns, key=key, is_complete=True)

    def _columns(self, table: TableId) -> Sequence[Mapping[str, str]]:
        query = (
            "SELECT column_name, LOWER(data_type), column_type, character_set_name FROM information_schema.columns"
            " WHERE table_schema = %s AND table_name = %s ORDER BY ordinal_position"
        )
        with self._connection.cursor() as cursor:
            cursor.execute(query, tuple(table))
            names = ("name", "data_type", "column_type", "charset")
            return [dict(zip(names, (value or "" for value in row), strict=True)) for row in cursor.fetchall()]

    def _key(self, table: TableId) -> tuple[str, ...]:
        """What full metadata would name: the primary key, else the first unique key whose columns are whole and never NULL."""
        quoted = (name.replace("`", "``") for name in (table.table, table.schema))
        with self._connection.cursor() as cursor:
            cursor.execute("SHOW INDEX FROM `{}` FROM `{}`".format(*quoted))  # the server's own order, primary key first
            rows = cursor.fetchall()
        keys: dict[str, list[str]] = {}
        unfit = set()
        for _, non_unique, index, _, column, _, _, prefix, _, nullable, *_ in rows:
            keys.setdefault(index, []).append(column)
            if non_unique or (index != "PRIMARY" and (nullable == "YES" or prefix is not None)):
                unfit.add(index)
        return next((tuple(columns) for index, columns in keys.items() if index not in unfit), ())


# A label as the servers print it in column_type: quotes doubled, some characters escaped.
_LABEL = re.compile(r"'((?:[^'\\]|''|\\.)*)'", re.DOTALL)
_ESCAPED = re.compile(r"''|\\.", re.DOTALL)
_CHARACTERS = {"''": "'", r"\0": "\0", r"\n": "\n", r"\r": "\r"}


def _labels(column_type: str) -> tuple[str, ...]:
    return tuple(_ESCAPED.sub(lambda found: _CHARACTERS.get(found[0], found[0][1]), label) for label in _LABEL.findall(column_type))


def _completed(column: BinlogColumn, row: Mapping[str, str]) -> BinlogColumn:
    labels = _labels(row["column_type"]) if column.type in (TYPE.ENUM, TYPE.SET) else ()
    return replace(column, name=row["name"], unsigned="unsigned" in row["column_type"], charset=row["charset"] or "binary", labels=labels)
