"""What each error of a target is about: a row, the table, or the server. Only the first may
become a dead letter."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import pytest

from cdcbus.ops.stack.addresses import Database
from cdcbus.plugins.contracts import Counts, Loader, TableBatch, TargetTable, Writes
from cdcbus.plugins.errors import (
    RowConflict,
    TargetError,
    TargetMisconfigured,
    TargetRejected,
    TargetTableUnfit,
    TargetUnavailable,
)
from cdcbus.plugins.loaders import make_loader
from cdcbus.plugins.rowchange import TableId
from tests.support.servers.target_servers import MysqlServer, PostgresqlServer

pytestmark = pytest.mark.integration


@pytest.fixture
def postgresql(postgresql: Database, name: str) -> Iterator[PostgresqlServer]:
    server = PostgresqlServer(postgresql, name)
    server.execute("CREATE SCHEMA {schema}")
    yield server
    server.execute("DROP SCHEMA {schema} CASCADE")


@pytest.fixture
def mysql(mariadb: Database, name: str) -> Iterator[MysqlServer]:
    server = MysqlServer(mariadb, name)
    server.execute("CREATE DATABASE {schema}")
    yield server
    server.execute("DROP DATABASE {schema}")


def table_of(loader: Loader, schema: str) -> TargetTable:
    table = loader.table(TableId(schema, "t"))
    assert table is not None
    return table


def write(
    server: PostgresqlServer | MysqlServer,
    *rows: tuple[str | None, ...],
    columns: tuple[str, ...] = ("id", "v"),
) -> Counts:
    loader = make_loader("JdbcBatch", server.target())
    try:
        with loader.transaction() as transaction:
            return transaction.write(
                TableBatch(table_of(loader, server.schema), writes=[Writes(columns, rows)])
            )
    finally:
        loader.close()


def refusal(server: PostgresqlServer | MysqlServer, *rows: tuple[str | None, ...]) -> TargetError:
    with pytest.raises(TargetError) as refused:
        write(server, *rows)
    assert "SECRET" not in str(refused.value)
    return refused.value


RAISES = """
    CREATE FUNCTION {schema}.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'SECRET' USING ERRCODE = '%s'; END $$;
    CREATE TRIGGER refuse BEFORE INSERT ON {schema}.t FOR EACH ROW EXECUTE FUNCTION {schema}.refuse()"""


@pytest.mark.parametrize(
    ("state", "kind"),
    [
        ("P0001", TargetError),
        ("XX000", TargetError),
        ("38001", TargetError),
        ("53100", TargetUnavailable),
        ("53200", TargetUnavailable),
        ("57P01", TargetUnavailable),
        ("58030", TargetUnavailable),
        ("42501", TargetMisconfigured),
        ("42703", TargetTableUnfit),
        ("23514", TargetRejected),
        ("22023", TargetRejected),
        ("23505", RowConflict),
    ],
)
def test_postgresql_s_errors_are_told_apart_by_their_state(
    postgresql: PostgresqlServer, state: str, kind: type[TargetError]
) -> None:
    """Raised by a trigger, as most of them cannot be had otherwise."""
    postgresql.execute("CREATE TABLE {schema}.t (id int primary key, v text)")
    postgresql.execute(RAISES % state)
    assert type(refusal(postgresql, ("1", "a"))) is kind


@pytest.mark.parametrize(
    ("number", "kind"),
    [
        (1644, TargetError),
        (1194, TargetError),
        (3, TargetUnavailable),
        (23, TargetUnavailable),
        (1114, TargetUnavailable),
        (1021, TargetUnavailable),
        (1206, TargetUnavailable),
        (1290, TargetUnavailable),
        (1053, TargetUnavailable),
        (1135, TargetUnavailable),
        (9001, TargetUnavailable),
        (1142, TargetMisconfigured),
        (1054, TargetTableUnfit),
        (4025, TargetRejected),
        (1452, RowConflict),
    ],
)
def test_mysql_s_errors_are_told_apart_by_their_number(
    mysql: MysqlServer, number: int, kind: type[TargetError]
) -> None:
    """Signalled by a trigger, as most of them cannot be had otherwise."""
    mysql.execute("CREATE TABLE {schema}.t (id int primary key, v text)")
    signal = f"SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = {number}, MESSAGE_TEXT = 'of a trigger'"
    mysql.execute(
        f"CREATE TRIGGER {{schema}}.refuse BEFORE INSERT ON {{schema}}.t FOR EACH ROW {signal}"
    )
    assert type(refusal(mysql, ("1", "a"))) is kind


@pytest.mark.parametrize("value", ["x" * 11, None], ids=["too long", "NULL"])
def test_what_a_cell_holds_is_about_its_row(
    postgresql: PostgresqlServer, mysql: MysqlServer, value: str | None
) -> None:
    for server in (postgresql, mysql):
        server.execute("CREATE TABLE {schema}.t (id int primary key, v varchar(10) NOT NULL)")
        assert type(refusal(server, ("1", value))) is TargetRejected


def test_a_table_that_is_full_is_waited_for(mysql: MysqlServer) -> None:
    """A quota of MariaDB's own: MEMORY has no transactions, so the loader is asked for the error
    alone."""
    mysql.execute(
        "CREATE TABLE {schema}.small (id int primary key, v char(200)) ENGINE=MEMORY MAX_ROWS=1"
    )
    mysql.execute("CREATE TABLE {schema}.t (id int primary key, v text)")
    many = (
        "WITH RECURSIVE n AS (SELECT 1 i UNION ALL SELECT i + 1 FROM n WHERE i < 900) SELECT i "
        "+ NEW.id * 1000, 'x' FROM n"
    )
    mysql.execute(
        "CREATE TRIGGER {schema}.fill AFTER INSERT ON {schema}.t FOR EACH ROW "
        f"BEGIN SET @@max_recursive_iterations = 1000; INSERT INTO {{schema}}.small {many}; END"
    )
    error = refusal(mysql, *((str(number), "a") for number in range(100)))
    assert type(error) is TargetUnavailable
    assert "errno 1114" in str(error)


def test_postgresql_that_ends_an_idle_transaction_is_a_lost_connection(
    postgresql: PostgresqlServer,
) -> None:
    postgresql.execute("CREATE TABLE {schema}.t (id int primary key, v text)")
    loader = make_loader("JdbcBatch", postgresql.target())
    table = table_of(loader, postgresql.schema)
    with pytest.raises(TargetUnavailable), loader.transaction() as transaction:
        transaction.write(TableBatch(table, writes=[Writes(("id", "v"), [("1", "a")])]))
        for _ in range(3):  # whatever comes next: each finds the connection lost
            postgresql.kill_connections()
            with suppress(TargetUnavailable), transaction.savepoint():
                transaction.write(TableBatch(table, writes=[Writes(("id", "v"), [("2", "b")])]))
        transaction.write(TableBatch(table, writes=[Writes(("id", "v"), [("3", "c")])]))
    loader.close()
    assert postgresql.rows("SELECT id FROM {schema}.t") == []


# MySQL: engines and packets


@pytest.mark.parametrize("engine", ["MyISAM", "Aria", "MEMORY"])
@pytest.mark.parametrize("key", ["", "PRIMARY KEY"])
def test_an_engine_without_transactions_is_named_with_its_remedy(
    mysql: MysqlServer, engine: str, key: str
) -> None:
    mysql.execute(f"CREATE TABLE {{schema}}.t (id int {key}, v varchar(10)) ENGINE={engine}")
    loader = make_loader("JdbcBatch", mysql.target())
    assert (
        f"has the engine {engine}, which knows no transactions"
        in table_of(loader, mysql.schema).unsafe
    )
    mysql.execute("ALTER TABLE {schema}.t ENGINE=InnoDB")
    loader.refresh(TableId(mysql.schema, "t"))
    assert table_of(loader, mysql.schema).unsafe == ""
    loader.close()


def test_offsets_are_not_kept_in_a_table_without_transactions(mysql: MysqlServer) -> None:
    loader = make_loader("JdbcBatch", mysql.target())
    assert loader.applied_offsets() == []
    loader.close()
    mysql.execute("ALTER TABLE {schema}.cdcbus_position ENGINE=Aria")
    again = make_loader("JdbcBatch", mysql.target())
    with pytest.raises(
        TargetMisconfigured, match=r"cdcbus_position has the engine Aria.*ENGINE=InnoDB"
    ):
        again.applied_offsets()
    again.close()


@pytest.fixture
def small_packets(mysql: MysqlServer) -> Iterator[MysqlServer]:
    """A server that takes no more than a megabyte."""
    [(before,)] = mysql.rows("SELECT @@GLOBAL.max_allowed_packet")
    mysql.execute("SET GLOBAL max_allowed_packet = 1048576")
    yield mysql
    mysql.execute(f"SET GLOBAL max_allowed_packet = {before}")


def test_many_texts_of_several_bytes_a_character_fit_the_packets_of_the_server(
    small_packets: MysqlServer,
) -> None:
    server = small_packets
    server.execute(
        "CREATE TABLE {schema}.t (id varchar(700) primary key, v text, u int unique) CHARACTER "
        "SET utf8mb4"
    )
    rows = [("漢" * 600 + str(number), "字" * 1000, str(number)) for number in range(500)]
    assert write(server, *rows, columns=("id", "v", "u")).written == 500
    loader = make_loader("JdbcBatch", server.target())
    with loader.transaction() as transaction:
        deleted = transaction.write(
            TableBatch(table_of(loader, server.schema), deletes=[row[:1] for row in rows])
        )
    loader.close()
    assert deleted.deleted == 500


def test_a_row_larger_than_a_packet_is_refused_with_both_numbers(
    small_packets: MysqlServer,
) -> None:
    small_packets.execute(
        "CREATE TABLE {schema}.t (id int primary key, v longtext) CHARACTER SET utf8mb4"
    )
    error = refusal(small_packets, ("1", "a"), ("2", "漢" * 400_000))
    assert type(error) is TargetRejected
    assert "a row takes 1200" in str(error)
    assert "max_allowed_packet is 1048576" in str(error)
