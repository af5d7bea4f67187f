"""A table with everything that decoding its rows requires."""

from __future__ import annotations

from dataclasses import dataclass

from cdcbus.plugins.errors import UnreadableEvent
from cdcbus.plugins.rowchange import Column, Table
from cdcbus.producer.decoding.column_types import BinlogColumn, Reader, reader
from cdcbus.producer.decoding.sql_types import type_names
from cdcbus.producer.decoding.table_map import TableMap


@dataclass(frozen=True, slots=True, eq=False)
class DecodableTable:
    """A table with its columns as the binlog describes them, hidden ones included, and a reader for
    each, in row image order. Compared by identity, so that it is a fast key of caches."""

    table: Table
    columns: tuple[BinlogColumn, ...]
    readers: tuple[Reader, ...]


def decodable(table_map: TableMap) -> DecodableTable:
    """Converts a complete table map. Raises UnreadableEvent, naming the table."""
    columns = []
    readers = []
    for column in table_map.columns:
        try:
            readers.append(reader(column))
        except UnreadableEvent as error:
            raise UnreadableEvent(f"table {table_map.table}: {error}") from error
        if not column.is_hidden:
            mysql_type, sql_type = type_names(column)
            columns.append(Column(column.name, mysql_type, sql_type))
    return DecodableTable(
        Table(table_map.table, tuple(columns), table_map.key), table_map.columns, tuple(readers)
    )
