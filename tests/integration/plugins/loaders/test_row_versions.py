"""The tables of versions, on real targets: they follow an altered key, and forget nothing."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import count
from typing import Any

import pytest
from sqlalchemy import Engine, event

from cdcbus.ops.stack.addresses import Database
from cdcbus.plugins.contracts import VERSION, Loader, RowVersion, TableBatch, TargetTable, Writes
from cdcbus.plugins.errors import TargetMisconfigured, TargetTableUnfit
from cdcbus.plugins.loaders import make_loader, row_versions
from cdcbus.plugins.loaders.row_versions import former_name_of, name_of
from cdcbus.plugins.rowchange import TableId
from tests.contract.target_server import TargetServer
from tests.support.servers.target_servers import MysqlServer, PostgresqlServer
from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration


@pytest.fixture
def mariadb_server(mariadb: Database, name: str) -> Iterator[TargetServer]:
    server = MysqlServer(mariadb, name)
    server.execute("CREATE SCHEMA {schema}")
    yield server
    server.execute("DROP SCHEMA {schema}")


@pytest.fixture(params=["postgresql", "mariadb"])
def server(request: pytest.FixtureRequest) -> TargetServer:
    found: TargetServer = request.getfixturevalue(f"{request.param}_server")
    return found


def loader_of(server: TargetServer) -> Loader:
    return make_loader("JdbcBatch", server.target())


def versions_of(
    server: TargetServer, loader: Loader, target: str = "t"
) -> tuple[TargetTable, TargetTable]:
    """The target table as it is now, and the table with its versions."""
    name = TableId(server.schema, target)
    loader.refresh(name)
    table = loader.table(name)
    assert table is not None
    versions = loader.version_table(table, make=True)
    assert versions is not None
    return table, versions


def remember(loader: Loader, versions: TargetTable, *key: str) -> None:
    row = Writes((*versions.key, *VERSION), [(*key, "77", "1:4")])
    with loader.transaction() as transaction:
        transaction.write(TableBatch(versions, writes=[row]))


def recalled(loader: Loader, versions: TargetTable, *key: str) -> RowVersion:
    with loader.transaction() as transaction:
        [known] = transaction.row_versions(versions, [key])
    return known.version


def altered(server: TargetServer, type_: str) -> None:
    change = f"MODIFY k {type_} NOT NULL"
    if isinstance(server, PostgresqlServer):
        change = f"ALTER COLUMN k TYPE {type_} USING k::{type_}"
    server.execute(f"ALTER TABLE {{schema}}.t {change}")


@pytest.mark.parametrize(
    ("target", "old", "new", "before", "after"),
    [
        ("postgresql", "VARCHAR(36)", "UUID", f"{1:032x}", f"{1:032x}"),
        ("postgresql", "VARCHAR(9)", "INT", "017", "17"),
        ("postgresql", 'VARCHAR(9) COLLATE "C"', "VARCHAR(9)", "a", "a"),
        ("postgresql", "CHAR(3)", "VARCHAR(9)", "a", "a"),
        ("postgresql", "DATE", "TIMESTAMP(3)", "2024-02-29", "2024-02-29 00:00:00"),
        ("postgresql", "BIGINT", "INT", "5", "5"),
        ("mariadb", "VARCHAR(9)", "INT", "017", "17"),
        ("mariadb", "INT", "BIGINT UNSIGNED AUTO_INCREMENT", "5", "5"),
        ("mariadb", "VARCHAR(9)", "VARCHAR(9) COLLATE utf8mb4_nopad_bin", "a", "a"),
        ("mariadb", "VARCHAR(9) CHARACTER SET latin1", "VARCHAR(20)", "ä", "ä"),
        ("mariadb", "ENUM('a','it''s')", "ENUM('it''s','a','b')", "it's", "it's"),
        ("mariadb", "DATETIME", "TIMESTAMP(3)", "2024-02-29 01:02:03", "2024-02-29 01:02:03"),
    ],
)
def test_versions_stay_where_the_key_is_altered(
    request: pytest.FixtureRequest, target: str, old: str, new: str, before: str, after: str
) -> None:
    server: TargetServer = request.getfixturevalue(f"{target}_server")
    server.execute(f"CREATE TABLE {{schema}}.t (k {old} PRIMARY KEY)")
    loader = loader_of(server)
    _, versions = versions_of(server, loader)
    remember(loader, versions, before)
    altered(server, new)
    table, versions = versions_of(server, loader)
    assert recalled(loader, versions, after) == RowVersion(77, "1:4")
    remember(loader, versions, after)  # no key changes with its version
    assert server.rows(f"SELECT COUNT(*) FROM {{schema}}.{versions.id.table}") == [(1,)]
    [key] = table.key_columns
    [kept] = versions.key_columns
    assert (kept.type, kept.length, kept.is_folding) == (key.type, key.length, key.is_folding)
    loader.close()


def test_tables_of_versions_are_made_where_each_table_needs_a_primary_key(
    mysql_9: Database, name: str
) -> None:
    server = MysqlServer(mysql_9, name)
    server.execute("CREATE SCHEMA {schema}")
    server.execute("CREATE TABLE {schema}.t (k VARCHAR(9) PRIMARY KEY)")
    target = server.target()
    address = f"{target.url}?sessionVariables=sql_require_primary_key=ON"
    loader = make_loader("JdbcBatch", replace(target, url=address))
    assert [loader.scatter(), loader.scatter(), loader.is_scattered()] == [True, False, True]
    _, versions = versions_of(server, loader)
    remember(loader, versions, "a")
    loader.close()
    server.execute("DROP SCHEMA {schema}")


@pytest.mark.parametrize("seconds", [60.0, 0.0])
def test_old_versions_are_forgotten_in_small_transactions(
    server: TargetServer, monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    server.execute("CREATE TABLE {schema}.t (k INT PRIMARY KEY)")
    loader = loader_of(server)
    _, versions = versions_of(server, loader)
    rows = [(str(key), "77", "1:4") for key in range(9)]
    with loader.transaction() as transaction:
        writes = Writes((*versions.key, *VERSION), [*rows, ("9", "78", "1:4")])
        transaction.write(TableBatch(versions, writes=[writes]))
    deletes: list[str] = []

    def note(_: Any, __: Any, statement: str, *___: Any) -> None:
        if statement.startswith("DELETE FROM"):
            deletes.append(statement)

    monkeypatch.setattr(row_versions, "PRUNED_ROWS", 4)
    monkeypatch.setattr(row_versions, "PRUNE_SECONDS", seconds)
    event.listen(Engine, "before_cursor_execute", note)
    loader.forget_versions(lambda: 78)
    event.remove(Engine, "before_cursor_execute", note)
    left = server.rows(f"SELECT COUNT(*) FROM {{schema}}.{versions.id.table}")
    assert (len(deletes), left) == ((3, [(1,)]) if seconds else (0, [(10,)]))
    loader.close()


def test_versions_of_no_table_wait_for_all_those_of_another(
    server: TargetServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    loader = loader_of(server)
    kept = []
    for target in "tu":
        server.execute(f"CREATE TABLE {{schema}}.{target} (k INT PRIMARY KEY)")
        _, versions = versions_of(server, loader, target)
        kept.append(f"SELECT COUNT(*) FROM {{schema}}.{versions.id.table}")
        with loader.transaction() as transaction:
            rows = [(str(key), "77", "1:4") for key in range(20)]
            writes = Writes((*versions.key, *VERSION), rows)
            transaction.write(TableBatch(versions, writes=[writes]))
    monkeypatch.setattr(row_versions, "PRUNED_ROWS", 4)
    # Each call has time for one statement.
    clock = count(0, row_versions.PRUNE_SECONDS * 0.6)
    monkeypatch.setattr(row_versions, "monotonic", lambda: next(clock))
    for _ in range(4):
        loader.forget_versions(lambda: 78)
    assert [server.rows(each) for each in kept] == [[(12,)], [(12,)]]
    monkeypatch.undo()
    loader.forget_versions(lambda: 78)
    assert [server.rows(each) for each in kept] == [[(0,)], [(0,)]]
    loader.close()


TYPES = {
    "postgresql": 'INT|NUMERIC(5,2)|CHAR(4)|BIT(3)|TEXT COLLATE "C"|TIMESTAMPTZ(3)|SERIAL|BYTEA',
    "mariadb": "INT(5) ZEROFILL|DECIMAL(5,2)|CHAR(4) CHARACTER SET latin1|BIT(3)|YEAR|TIMESTAMP(3)"
    "|ENUM('a','it''s')|VARBINARY(9)|BIGINT UNSIGNED AUTO_INCREMENT|UUID|DATETIME(6)|DOUBLE",
}


def test_a_key_that_is_as_it_was_is_left_alone(
    server: TargetServer, request: pytest.FixtureRequest, caplog: pytest.LogCaptureFixture
) -> None:
    columns = []
    for number, type_ in enumerate(TYPES[request.node.callspec.params["server"]].split("|")):
        columns.append(f"k{number} {type_}")
    names = ", ".join(column.split()[0] for column in columns)
    keyed = ", UNIQUE (k8)" if len(columns) > 8 else ""
    server.execute(
        f"CREATE TABLE {{schema}}.t ({', '.join(columns)}, PRIMARY KEY ({names}){keyed})"
    )
    for _ in range(2):
        loader = loader_of(server)
        _, versions = versions_of(server, loader)
        loader.close()
        assert len(versions.key) == len(columns)
    assert "has been altered" not in caplog.text


@pytest.mark.parametrize(
    ("number", "said"),
    [(1786, "GTID consistency"), (1105, "prohibits use of CREATE TABLE AS SELECT")],
)
def test_a_server_that_makes_no_table_from_a_query_gets_the_columns_types(
    mariadb_server: TargetServer, monkeypatch: pytest.MonkeyPatch, number: int, said: str
) -> None:
    """As MySQL before 8.0.21 with enforce_gtid_consistency, or Percona XtraDB Cluster."""
    types = TYPES["mariadb"].split("|")
    columns = [f"k{place} {type_}" for place, type_ in enumerate(types)]
    names = ", ".join(column.split()[0] for column in columns)
    mariadb_server.execute(
        f"CREATE TABLE {{schema}}.t ({', '.join(columns)}, PRIMARY KEY ({names}), UNIQUE (k8))"
    )
    loader = loader_of(mariadb_server)
    table, made = versions_of(mariadb_server, loader)
    mariadb_server.execute(f"DROP TABLE {{schema}}.{made.id.table}")
    loader.refresh(made.id)
    refused = f"SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = {number}, MESSAGE_TEXT = '{said}'"
    monkeypatch.setattr(row_versions, "create_sqls", lambda *_: [refused])
    again = loader.version_table(table, make=True)
    assert again is not None
    assert (again.id, again.key) == (made.id, made.key)
    for name, column in made.columns.items():
        assert replace(again.columns[name], is_required=column.is_required) == column
    loader.close()


def test_versions_under_the_name_of_earlier_days_are_kept(server: TargetServer) -> None:
    server.execute("CREATE TABLE {schema}.t (k INT PRIMARY KEY)")
    loader = loader_of(server)
    table, versions = versions_of(server, loader)
    remember(loader, versions, "5")
    task_id = server.target().task_id
    former = former_name_of(task_id, table)
    place = former
    if isinstance(server, MysqlServer):
        place = f"{{schema}}.{former}"
    server.execute(f"ALTER TABLE {{schema}}.{versions.id.table} RENAME TO {place}")
    loader.close()
    loader = loader_of(server)
    with loader.transaction() as transaction:
        assert transaction.has_version_table([table])
    found = loader.version_table(table, make=False)
    assert found is not None
    assert found.id.table == former
    with ThreadPoolExecutor() as threads:
        loaders = [loader, loader_of(server), loader_of(server)]
        both = list(threads.map(lambda each: versions_of(server, each)[1], loaders))
    assert {each.id.table for each in both} == {name_of(task_id, table)}
    assert recalled(loader, versions, "5") == RowVersion(77, "1:4")
    for each in loaders:
        each.close()


def test_processes_that_find_a_key_altered_at_once_continue_with_one_table(
    server: TargetServer,
) -> None:
    server.execute("CREATE TABLE {schema}.t (k INT PRIMARY KEY)")
    loaders = [loader_of(server) for _ in range(4)]
    _, versions = versions_of(server, loaders[0])
    remember(loaders[0], versions, "5")
    altered(server, "BIGINT")
    with ThreadPoolExecutor() as threads:
        found = list(threads.map(lambda each: versions_of(server, each)[1], loaders))
    assert len(set(map(repr, found))) == 1
    # one that has not yet seen it writes to the same
    remember(loaders[0], versions, "6")
    for number in ("5", "6"):
        assert recalled(loaders[1], found[1], number) == RowVersion(77, "1:4")
    for each in loaders:
        each.close()


def test_a_version_that_another_transaction_inserts_is_waited_for_and_found(
    server: TargetServer,
) -> None:
    server.execute("CREATE TABLE {schema}.t (k INT PRIMARY KEY)")
    loaders = [loader_of(server) for _ in range(2)]
    first, second = loaders
    _, versions = versions_of(server, first)
    with ThreadPoolExecutor() as threads:
        with first.transaction() as transaction:
            transaction.row_versions(versions, [("5",)])
            row = Writes((*versions.key, *VERSION), [("5", "77", "1:4")])
            transaction.write(TableBatch(versions, writes=[row]))
            found = threads.submit(recalled, second, versions, "5")
            wait_until(lambda: is_waiting(server), "the second one waits")
        assert found.result() == RowVersion(77, "1:4")
    for each in loaders:
        each.close()


def is_waiting(server: TargetServer) -> bool:
    """Whether a transaction waits for another one."""
    if isinstance(server, PostgresqlServer):
        return bool(server.rows("SELECT 1 FROM pg_locks WHERE NOT granted"))
    # Not innodb_trx: it shows an old state while it is asked more often than each 100 ms.
    [(_, count)] = server.rows("SHOW GLOBAL STATUS LIKE 'Innodb_row_lock_current_waits'")
    return count != "0"


def test_a_key_that_would_be_shortened_stops_the_task(server: TargetServer) -> None:
    server.execute("CREATE TABLE {schema}.t (k VARCHAR(9) PRIMARY KEY)")
    loader = loader_of(server)
    _, versions = versions_of(server, loader)
    remember(loader, versions, "abcdef")
    altered(server, "VARCHAR(3)")
    for _ in range(2):
        with pytest.raises(TargetMisconfigured, match=r"run ALTER TABLE .*cdcbus_row_") as raised:
            versions_of(server, loader)
        assert "abcdef" not in str(raised.value)
    altered(server, "VARCHAR(12)")
    _, versions = versions_of(server, loader)
    assert recalled(loader, versions, "abcdef") == RowVersion(77, "1:4")
    loader.close()


def test_a_key_of_other_columns_stops_the_task_and_one_in_another_order_does_not(
    server: TargetServer,
) -> None:
    server.execute("CREATE TABLE {schema}.t (a INT, b INT, c INT NOT NULL, PRIMARY KEY (a, b))")
    loader = loader_of(server)
    _, versions = versions_of(server, loader)
    remember(loader, versions, "1", "2")
    drop = "DROP PRIMARY KEY"
    if isinstance(server, PostgresqlServer):
        drop = "DROP CONSTRAINT t_pkey"
    server.execute(f"ALTER TABLE {{schema}}.t {drop}, ADD PRIMARY KEY (b, a)")
    _, versions = versions_of(server, loader)
    assert recalled(loader, versions, "2", "1") == RowVersion(77, "1:4")
    server.execute(f"ALTER TABLE {{schema}}.t {drop}, ADD PRIMARY KEY (b, c)")
    with pytest.raises(TargetMisconfigured, match=r"drop table .*cdcbus_row_"):
        versions_of(server, loader)
    server.execute(f"DROP TABLE {{schema}}.{versions.id.table}")
    _, versions = versions_of(server, loader)
    assert versions.key == ("b", "c")
    loader.close()


def test_versions_dropped_meanwhile_are_kept_again(server: TargetServer) -> None:
    server.execute("CREATE TABLE {schema}.t (k INT PRIMARY KEY, v INT)")
    loader = loader_of(server)
    table, versions = versions_of(server, loader)
    remember(loader, versions, "1")
    server.execute(f"DROP TABLE {{schema}}.{versions.id.table}")
    with pytest.raises(TargetTableUnfit):
        recalled(loader, versions, "1")
    again = loader.version_table(table, make=True)
    assert again == versions
    assert recalled(loader, versions, "1") == RowVersion()
    remember(loader, versions, "1")
    assert recalled(loader, versions, "1") == RowVersion(77, "1:4")
    loader.close()
