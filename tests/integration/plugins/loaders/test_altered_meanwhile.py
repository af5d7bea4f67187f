"""Target tables whose files DDL renames again and again: MariaDB leaves them out in its
information_schema for a moment, but they are there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread

import pytest

from cdcbus.ops.stack.addresses import Database
from cdcbus.plugins.loaders import make_loader, open_target
from cdcbus.plugins.rowchange import TableId
from cdcbus.tasks.verify.sides import charsets_of
from tests.contract.target_server import TargetServer
from tests.support.servers.target_servers import MysqlServer

pytestmark = pytest.mark.integration
TIMES = 200


@pytest.fixture
def server(mariadb: Database, name: str) -> Iterator[TargetServer]:
    server = MysqlServer(mariadb, name)
    server.execute("CREATE SCHEMA {schema}")
    yield server
    server.execute("DROP SCHEMA {schema}")


@contextmanager
def altered(server: TargetServer, table: str) -> Iterator[None]:
    """Alters a table's key again and again, which copies the table and then renames it."""
    is_over = Event()

    def alter() -> None:
        while not is_over.is_set():
            for type_ in ("BIGINT", "INT"):
                server.execute(f"ALTER TABLE {{schema}}.{table} MODIFY k {type_} NOT NULL")

    thread = Thread(target=alter)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def test_a_target_table_is_found(server: TargetServer) -> None:
    server.execute("CREATE TABLE {schema}.t (k INT PRIMARY KEY)")
    loader = make_loader("JdbcBatch", server.target())
    missing = 0
    with altered(server, "t"):
        for _ in range(TIMES):
            name = TableId(server.schema, "t")
            loader.refresh(name)
            missing += loader.table(name) is None
    assert missing == 0
    loader.close()


def test_versions_of_rows_are_found_beside_a_lock_on_another_table(server: TargetServer) -> None:
    for name in ("t", "u"):
        server.execute(f"CREATE TABLE {{schema}}.{name} (k INT PRIMARY KEY)")
    loader = make_loader("JdbcBatch", server.target())
    tables = [loader.table(TableId(server.schema, name)) for name in ("t", "u")]
    assert tables[0] is not None
    assert tables[1] is not None
    versions = loader.version_table(tables[0], make=True)
    others = loader.version_table(tables[1], make=True)
    assert versions is not None
    assert others is not None
    missing = 0
    with altered(server, versions.id.table):
        for _ in range(TIMES):
            with loader.transaction() as transaction:
                # beside a lock the server does not wait for the ALTER
                transaction.row_versions(others, [("5",)])
                missing += not transaction.has_version_table([tables[0]])
    assert missing == 0
    loader.close()


def test_character_sets_for_a_comparison_are_found(server: TargetServer) -> None:
    server.execute("CREATE TABLE {schema}.t (k INT PRIMARY KEY, v VARCHAR(9) CHARSET latin1)")
    found = set()
    database = open_target(server.target())
    with altered(server, "t"), database.engine.connect() as connection:
        for _ in range(TIMES):
            found.add(tuple(charsets_of(connection, TableId(server.schema, "t")).items()))
    database.engine.dispose()
    assert found == {(("v", "latin1"),)}
