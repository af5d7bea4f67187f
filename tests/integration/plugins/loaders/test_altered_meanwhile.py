"""Target tables that are altered meanwhile. MariaDB leaves those whose files DDL renames out in its
information_schema for a moment, but they are there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from threading import Event, Thread

import pytest

from cdcbus.ops.stack.addresses import Database
from cdcbus.plugins.loaders import make_loader, open_target, sqlalchemy_loader
from cdcbus.plugins.rowchange import TableId
from cdcbus.tasks.verify.sides import charsets_of
from tests.contract.target_server import TargetServer
from tests.support.servers.target_servers import MysqlServer, PostgresqlServer

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


@pytest.fixture(params=["postgresql", "mariadb"])
def either(request: pytest.FixtureRequest, name: str) -> Iterator[TargetServer]:
    at: Database = request.getfixturevalue(request.param)
    server = PostgresqlServer(at, name) if request.param == "postgresql" else MysqlServer(at, name)
    server.execute("CREATE SCHEMA {schema}")
    yield server
    server.execute("DROP SCHEMA {schema}" + (" CASCADE" if request.param == "postgresql" else ""))


def test_a_foreign_key_that_comes_meanwhile_is_seen(
    either: TargetServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for each in ("parents", "others"):
        either.execute(f"CREATE TABLE {{schema}}.{each} (id INT PRIMARY KEY)")
    parents, others = (TableId(either.schema, each) for each in ("parents", "others"))
    with closing(make_loader("JdbcBatch", either.target())) as loader:
        known = [loader.table(each) for each in (parents, others)]
        assert all(each is not None and not each.cascades for each in known)
        either.execute(
            "CREATE TABLE {schema}.children (id INT PRIMARY KEY, FOREIGN KEY (id) "
            "REFERENCES {schema}.parents (id) ON DELETE CASCADE)"
        )
        # A moment later they are not read again, which can take a server long.
        assert known[1] is not None
        assert not loader.is_altered(known[1])
        assert loader.table(parents) is known[0]
        monkeypatch.setattr(sqlalchemy_loader, "KEYS_EACH_SECONDS", 0.0)
        monkeypatch.setattr(sqlalchemy_loader, "KEYS_SHARE", 0)
        loader.refresh(parents)
        either.execute("DROP TABLE {schema}.children")
        parent = loader.table(parents)
        assert parent is not None
        assert not parent.cascades
        either.execute(
            "CREATE TABLE {schema}.children (id INT PRIMARY KEY, FOREIGN KEY (id) "
            "REFERENCES {schema}.parents (id) ON DELETE CASCADE)"
        )
        child = loader.table(TableId(either.schema, "children"))
        assert child is not None
        [key] = child.cascades
        found = loader.table(parents)
        assert found is not None
        assert found.cascades == (key,)
        either.execute("DROP TABLE {schema}.children")
        assert loader.is_altered(found)
        assert not loader.is_altered(known[1])


def test_a_foreign_key_of_an_altered_table_is_seen_at_its_parent(either: TargetServer) -> None:
    """Its reading is the first after another one was asked for, so nothing else compares it."""
    for each in ("parents", "children"):
        either.execute(f"CREATE TABLE {{schema}}.{each} (id INT PRIMARY KEY)")
    parents, children = (TableId(either.schema, each) for each in ("parents", "children"))
    with closing(make_loader("JdbcBatch", either.target())) as loader:
        known = [loader.table(each) for each in (parents, children)]
        assert all(each is not None and not each.cascades for each in known)
        either.execute(
            "ALTER TABLE {schema}.children ADD v INT, "
            "ADD FOREIGN KEY (id) REFERENCES {schema}.parents (id) ON DELETE CASCADE"
        )
        assert known[1] is not None
        assert loader.is_altered(known[1])
        child, parent = loader.table(children), loader.table(parents)
        assert child is not None
        assert parent is not None
        assert len(child.cascades) == 1
        assert parent.cascades == child.cascades


def test_a_foreign_key_of_a_table_that_is_altered_just_then_does_not_count_as_gone(
    server: TargetServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlalchemy_loader, "KEYS_EACH_SECONDS", 0.0)
    monkeypatch.setattr(sqlalchemy_loader, "KEYS_SHARE", 0)
    server.execute("CREATE TABLE {schema}.parents (id INT PRIMARY KEY)")
    server.execute(
        "CREATE TABLE {schema}.children (k INT PRIMARY KEY, parent INT, FOREIGN KEY (parent) "
        "REFERENCES {schema}.parents (id) ON DELETE CASCADE)"
    )
    with closing(make_loader("JdbcBatch", server.target())) as loader:
        parent = loader.table(TableId(server.schema, "parents"))
        assert parent is not None
        assert len(parent.cascades) == 1
        with altered(server, "children"):
            # Each reads all keys, which opens each table of the server.
            assert [loader.is_altered(parent) for _ in range(TIMES // 4)].count(True) == 0
        server.execute("DROP TABLE {schema}.children")
        assert loader.is_altered(parent)


def test_a_lock_on_a_table_whose_foreign_key_is_gone_holds_up_no_other_table(
    server: TargetServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether it is gone cannot be said while others have locked the table, so it stays."""
    monkeypatch.setattr(sqlalchemy_loader, "KEYS_EACH_SECONDS", 0.0)
    monkeypatch.setattr(sqlalchemy_loader, "KEYS_SHARE", 0)
    for each in ("parents", "others"):
        server.execute(f"CREATE TABLE {{schema}}.{each} (id INT PRIMARY KEY)")
    server.execute(
        "CREATE TABLE {schema}.children (id INT PRIMARY KEY, CONSTRAINT c FOREIGN KEY (id) "
        "REFERENCES {schema}.parents (id) ON DELETE CASCADE)"
    )
    with closing(make_loader("JdbcBatch", server.target())) as loader:
        parent = loader.table(TableId(server.schema, "parents"))
        assert parent is not None
        server.execute("ALTER TABLE {schema}.children DROP FOREIGN KEY c")
        locking = contextmanager(server.hold)("LOCK TABLES {schema}.children WRITE")
        with locking:
            assert loader.table(TableId(server.schema, "others")) is not None
            assert not loader.is_altered(parent)
        assert loader.is_altered(parent)
