"""What a table was at a place of the binlog, searched without a server."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import pytest

from cdcbus.plugins.rowchange import TableId
from cdcbus.producer.binlog.coordinates import BinlogCoordinates
from cdcbus.producer.ddl.table_schema import TableColumn, TableSchema
from cdcbus.producer.schema.ddl_scanner import DdlScan, Statement
from cdcbus.producer.schema.schema_reader import SchemaReader, UnopenedTable
from cdcbus.producer.schema.table_search import TableSearch
from cdcbus.producer.schema.table_versions import MemorySchemas, TableVersions

TABLE, RENAMED = TableId("s", "t"), TableId("s", "u")
NOW = TableSchema((TableColumn("id", "int", "", False),), (), "utf8mb4")
READS = 5  # more than any search takes


def at(pos: int) -> BinlogCoordinates:
    return BinlogCoordinates("mysql-bin.000001", pos)


class BusyReader:
    """A server whose binlog is longer each time it is asked for anything. `ddl`: which of its
    reads is preceded by which statement."""

    folds_names = False

    def __init__(self, ddl: dict[int, str]) -> None:
        self.ddl = ddl
        self.statements: list[Statement] = []
        self.read_tables: list[TableId] = []
        self.pos = 1000
        self.tables = {TABLE: NOW, RENAMED: NOW}
        self.unopened: set[TableId] = set()

    def end(self) -> BinlogCoordinates:
        self.pos += 100
        return at(self.pos)

    def read(self, table: TableId) -> tuple[TableSchema | None, BinlogCoordinates]:
        self.read_tables.append(table)
        assert len(self.read_tables) <= READS, "the search does not end"
        if text := self.ddl.get(len(self.read_tables)):
            self.statements.append(Statement(self.end(), 1, "s", text.encode()))
        if table in self.unopened:
            raise UnopenedTable("the server says 1194")
        return self.tables.get(table), self.end()

    def between(self, after: BinlogCoordinates, until: BinlogCoordinates) -> Sequence[Statement]:
        return [one for one in self.statements if after < one.end <= until]


def known(reader: BusyReader) -> TableSchema | None:
    scan, schemas = cast(DdlScan, reader), cast(SchemaReader, reader)
    return TableSearch(schemas, scan, TableVersions(MemorySchemas())).known(TABLE, at(4))


def test_a_server_that_commits_all_the_time_is_read_once() -> None:
    reader = BusyReader({})
    assert known(reader) == NOW
    assert reader.read_tables == [TABLE]


def test_ddl_that_comes_before_the_table_is_read_is_found() -> None:
    reader = BusyReader({1: "ALTER TABLE t ADD c INT"})
    assert known(reader) is None
    assert reader.read_tables == [TABLE]


def test_a_table_renamed_before_it_is_read_is_read_again_by_its_new_name() -> None:
    reader = BusyReader({1: "RENAME TABLE t TO u"})
    reader.tables = {RENAMED: NOW}
    assert known(reader) == NOW
    assert reader.read_tables == [TABLE, TABLE, RENAMED]


def test_a_table_that_is_there_after_its_renaming_was_not_renamed() -> None:
    """A temporary table of its name was, in a session of MariaDB."""
    assert known(BusyReader({1: "RENAME TABLE t TO u"})) is None
    again = BusyReader({1: "RENAME TABLE t TO u", 2: "ALTER TABLE t ADD c INT"})
    again.tables = {RENAMED: NOW}
    assert known(again) is None


@pytest.mark.parametrize(
    "statements",
    [
        {1: "RENAME TABLE t TO u, n TO t"},
        {1: "RENAME TABLE t TO u", 2: "CREATE TABLE t (id INT)"},
        {1: "RENAME TABLE t TO u", 2: "DROP TABLE IF EXISTS t"},
    ],
)
def test_a_table_may_be_created_again_after_its_renaming(statements: dict[int, str]) -> None:
    reader = BusyReader(statements)
    assert known(reader) == NOW
    assert reader.read_tables[-1] == RENAMED


def test_a_table_that_was_made_again_by_its_renaming_need_not_be_opened() -> None:
    """As by a swap, whose new table is damaged."""
    reader = BusyReader({})
    reader.statements = [Statement(at(500), 1, "s", b"RENAME TABLE t TO u, n TO t")]
    reader.unopened = {TABLE}
    assert known(reader) == NOW
    assert reader.read_tables == [RENAMED]


def test_a_table_that_cannot_be_opened_after_its_renaming_is_there() -> None:
    reader = BusyReader({})
    reader.statements = [Statement(at(500), 1, "s", b"RENAME TABLE t TO u")]
    reader.unopened = {TABLE}
    assert known(reader) is None
