"""Foreign keys of a source whose actions its binlog does not have."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pymysql
import pytest
from pymysql.connections import Connection
from pymysql.cursors import Cursor

from cdcbus.ops.stack.addresses import Database
from cdcbus.plugins.rowchange import TableId
from cdcbus.producer.server.foreign_keys import unlogged_actions
from tests.integration.producer.reading import (
    changes_of,
    connect,
    fetch_task,
    position,
    read_batches,
)
from tests.support.servers.few_rights import PASSWORD, user_with

pytestmark = pytest.mark.integration
TABLES = (
    "parent (id INT PRIMARY KEY, code INT NOT NULL UNIQUE)",
    "deleted (id INT PRIMARY KEY, up INT COMMENT 'it''s', CONSTRAINT `the (key` FOREIGN KEY (up) "
    "REFERENCES parent (id) ON DELETE CASCADE, KEY (up), CHECK (id > 0))",
    "emptied (id INT PRIMARY KEY, up INT, FOREIGN KEY (up) REFERENCES parent (id) ON DELETE SET "
    "NULL ON UPDATE NO ACTION)",
    "`re``named` (id INT PRIMARY KEY, up INT, FOREIGN KEY (up) REFERENCES parent (code) ON UPDATE "
    "CASCADE)",
    "kept (id INT PRIMARY KEY, up INT COMMENT ') ON DELETE CASCADE', FOREIGN KEY (up) REFERENCES "
    "parent (id) ON DELETE NO ACTION ON UPDATE RESTRICT)",
    "alone (id INT PRIMARY KEY, up INT)",
)


@pytest.fixture
def tables(source_cursor: Cursor, name: str) -> Iterator[list[TableId]]:
    for table in TABLES:
        source_cursor.execute(f"CREATE TABLE {table}")
    source_cursor.execute("SHOW TABLES")
    yield [TableId(name, table) for (table,) in source_cursor.fetchall()]


def test_those_are_named_whose_rows_change_without_an_event(
    source: Database, source_cursor: Cursor, name: str, tables: list[TableId]
) -> None:
    source_cursor.execute("INSERT INTO parent VALUES (1, 1), (2, 2)")
    for table in ("deleted", "emptied"):
        source_cursor.execute(f"INSERT INTO {table} VALUES (1, 1)")
    source_cursor.execute("INSERT INTO `re``named` VALUES (1, 2)")
    start = position(source_cursor)
    source_cursor.execute("DELETE FROM parent WHERE id = 1")
    source_cursor.execute("UPDATE parent SET code = 3 WHERE id = 2")
    changes = changes_of(read_batches(fetch_task(source, name), start, position(source_cursor)))
    logged = {change.table.id for change in changes}
    changed = {TableId(name, table) for table in ("deleted", "emptied", "re`named")}
    found = unlogged_actions(source_cursor.connection, tables)
    assert found == sorted(changed - logged)
    assert logged - changed == {TableId(name, "parent")}


def test_a_broken_table_is_left_out(source_cursor: Cursor, name: str) -> None:
    """A check of all tables would end with it."""
    source_cursor.execute("CREATE TABLE part (id INT) ENGINE=MyISAM")
    source_cursor.execute("CREATE TABLE broken (id INT) ENGINE=MERGE UNION=(part)")
    source_cursor.execute("DROP TABLE part")
    with pytest.raises(pymysql.MySQLError):
        source_cursor.execute("SHOW CREATE TABLE broken")
    assert unlogged_actions(source_cursor.connection, [TableId(name, "broken")]) == []


def test_select_is_enough_and_what_cannot_be_seen_is_left_out(
    source: Database, source_cursor: Cursor, name: str, tables: list[TableId]
) -> None:
    def of(connection: Connection[Cursor]) -> list[TableId]:
        return unlogged_actions(connection, [*tables, TableId(name, "gone")])

    everything = of(source_cursor.connection)
    reader = Database(source.host, source.port, name, PASSWORD, name)
    with user_with(source_cursor, name, f"SELECT ON {name}.*"), closing(connect(reader)) as there:
        assert of(there) == everything
    one = user_with(source_cursor, name, f"SELECT ON {name}.emptied")
    with one, closing(connect(reader)) as there:
        assert of(there) == [each for each in everything if each.table == "emptied"]
