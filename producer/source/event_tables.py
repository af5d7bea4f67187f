"""Maps the table numbers of row events to tables and the decoding of their rows."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from cdcbus.plugins.rowchange import TableId
from cdcbus.producer.binlog.coordinates import BinlogCoordinates
from cdcbus.producer.ddl.table_schema import SEQUENCE_COLUMNS
from cdcbus.producer.decoding.column_types import is_open
from cdcbus.producer.decoding.table import DecodableTable, decodable
from cdcbus.producer.decoding.table_map import TableMap, parse, table_id, table_name
from cdcbus.producer.schema.history import SchemaHistory
from cdcbus.producer.server.connection import Server
from cdcbus.producer.table_filter import TableFilter

LOG = logging.getLogger(__name__)
MARKS = "cdcbus_mark_"
OWN_TABLES = ("cdcbus_position", "cdcbus_row_", "cdcbus_tables", MARKS)
# Each transaction states again which tables its numbers refer to. A server with many tables assigns
# new numbers each time.
_NUMBERS_KEPT = 1_000


class EventTables:
    """The tables of one stream, from its table maps. `by_number`: None for a table whose rows are
    not wanted. `marks`: names of the tables that mark transactions from elsewhere."""

    def __init__(
        self, server: Server, tables: TableFilter, schema: SchemaHistory, marks: Iterable[str]
    ) -> None:
        self.by_number: dict[int, DecodableTable | None] = {}
        self._server = server
        self._filter = tables
        self._schema = schema
        self._mark_tables = {f"{MARKS}{mark}" for mark in marks}
        self._mark_definitions: set[bytes] = set()
        # Table maps come with each transaction, and mostly repeat earlier ones.
        self._by_definition: dict[bytes, DecodableTable | None] = {}
        self._logged: set[TableId] = set()  # of which something is left out
        self._other_marks: set[str] = set()  # those logged already

    def take(self, body: bytes, place: Callable[[], BinlogCoordinates]) -> bool:
        """Takes a table map; `place` returns where it starts, and is rarely called. Returns whether
        the table is a mark."""
        number = table_id(body)
        definition = body[8:]
        if definition not in self._by_definition:
            name = table_name(body)
            if name.table in self._mark_tables:
                self._mark_definitions.add(definition)
            elif self._mark_tables and name.table.startswith(MARKS):
                self._warn_of_other_mark(name.table.removeprefix(MARKS), place())
            if self._is_wanted(name):
                self._by_definition[definition] = self._decodable(body, place())
        self.by_number[number] = self._by_definition.get(definition)
        return definition in self._mark_definitions

    def forget_definitions(self) -> None:
        """To be called after a DDL: tables may be different from here on."""
        self._by_definition.clear()

    def forget_numbers(self) -> None:
        self.by_number.clear()

    def transaction_ended(self) -> None:
        """Table numbers are valid for one transaction; they are kept while there are few."""
        if len(self.by_number) > _NUMBERS_KEPT:
            self.by_number.clear()

    def _warn_of_other_mark(self, mark: str, place: BinlogCoordinates) -> None:
        """Warns once of a mark that is not left out: it may be one that was renamed."""
        if mark not in self._other_marks:
            self._other_marks.add(mark)
            LOG.warning(
                "%s: transactions with the mark %s are sent, as consumer.source.excludeMarks does "
                "not name it: if they came from the side that gets what this task sends, they go "
                "round endlessly",
                place,
                mark,
            )

    def _is_wanted(self, name: TableId) -> bool:
        if self._mark_tables and is_own_table(name):
            return False
        return self._filter.accepts(name)

    def _decodable(self, body: bytes, place: BinlogCoordinates) -> DecodableTable | None:
        found = parse(body, self._server.charsets, is_mariadb=self._server.is_mariadb)
        table_map = self._described(found, place)
        if self._is_sequence(table_map):
            return None
        if table_map.columns[-1].is_hidden:
            self._log_once(
                table_map.table,
                "%s has unique keys that MariaDB keeps by a hash: the columns of these, "
                "DB_ROW_HASH_1 and so on, are left out",
            )
        return decodable(table_map)

    def _described(self, table_map: TableMap, place: BinlogCoordinates) -> TableMap:
        """Completes a table map that leaves something open from the schema history."""
        if not table_map.is_complete:
            return self._schema.complete(table_map, place)
        if self._server.is_mariadb and any(map(is_open, table_map.columns)):
            return self._schema.typed(table_map, place)
        return table_map

    def _is_sequence(self, table_map: TableMap) -> bool:
        """Whether it is a SEQUENCE of MariaDB, whose state is in the binlog as a row: not a table,
        which is logged once."""
        if not self._server.is_mariadb or table_map.key:
            return False
        if tuple(column.name for column in table_map.columns) != SEQUENCE_COLUMNS:
            return False
        table = table_map.table
        self._log_once(table, "%s is a SEQUENCE, not a table: the rows of its state are left out")
        return True

    def _log_once(self, table: TableId, sentence: str) -> None:
        if table not in self._logged:
            self._logged.add(table)
            LOG.info(sentence, table)


def is_own_table(name: TableId) -> bool:
    """Whether it is a table that tasks keep at a target for their own use."""
    return name.table.lower().startswith(OWN_TABLES)
