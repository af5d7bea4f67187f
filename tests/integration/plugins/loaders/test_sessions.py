"""What sessions with a target are like, and what becomes of those that stand still."""

from __future__ import annotations

import os
import pickle
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from time import monotonic

import psycopg
import pyarrow as pa
import pytest

from cdcbus.ops.stack.addresses import Database, free_port
from cdcbus.plugins.contracts import (
    AppliedOffset,
    JdbcTarget,
    Loader,
    Swaps,
    TableBatch,
    TargetTable,
    Writes,
)
from cdcbus.plugins.errors import TargetMisconfigured, TargetRejected, TargetUnavailable
from cdcbus.plugins.loaders import make_loader
from cdcbus.plugins.loaders.cells.arrow_rows import ColumnRows
from cdcbus.plugins.rowchange import TableId
from tests.contract.target_server import TargetServer
from tests.support.servers.private_mariadb import private_mariadb
from tests.support.servers.target_servers import (
    ForeignMysqlServer,
    MysqlServer,
    PostgresqlServer,
    schema_on,
)
from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration
NO_MYSQL = "the stack has no MySQL: CDCBUS_TEST_SOURCE names one"
ON_MYSQL = pytest.param(
    "mysql",
    marks=[
        pytest.mark.source,
        pytest.mark.skipif("CDCBUS_TEST_SOURCE" not in os.environ, reason=NO_MYSQL),
    ],
)


@pytest.fixture
def pg(postgresql: Database, name: str) -> Iterator[PostgresqlServer]:
    server = PostgresqlServer(postgresql, name)
    server.execute("CREATE SCHEMA {schema}")
    yield server
    server.execute("DROP SCHEMA {schema} CASCADE")


@pytest.fixture
def maria(mariadb: Database, name: str) -> Iterator[MysqlServer]:
    yield from schema_on(MysqlServer(mariadb, name))


@pytest.fixture
def mysql(source: Database, name: str) -> Iterator[MysqlServer]:
    yield from schema_on(ForeignMysqlServer(source, name))


@pytest.fixture(params=["pg", "maria", ON_MYSQL])
def server(request: pytest.FixtureRequest) -> TargetServer:
    found: TargetServer = request.getfixturevalue(request.param)
    return found


def table_of(loader: Loader, server: TargetServer) -> TargetTable:
    table = loader.table(TableId(server.schema, "t"))
    assert table is not None
    return table


def write(loader: Loader, table: TargetTable, *rows: tuple[str, str]) -> None:
    with loader.transaction() as transaction:
        transaction.write(TableBatch(table, writes=[Writes(("id", "v"), rows)]))


# Transactions that are ended in the middle


def test_a_transaction_that_the_server_ends_as_idle_is_tried_again(
    pg: PostgresqlServer, name: str
) -> None:
    pg.execute("CREATE TABLE {schema}.t (id int primary key, v text)")
    target = pg.target(task_id=name)
    target = replace(
        target, url=f"{target.url}&options=-c%20idle_in_transaction_session_timeout=100"
    )
    gone = (
        f"SELECT 1 FROM pg_stat_activity WHERE application_name = 'cdcbus {name}' AND state "
        "LIKE 'idle in%'"
    )
    with closing(make_loader("JdbcBatch", target)) as loader:
        table = table_of(loader, pg)
        with pytest.raises(TargetUnavailable), loader.transaction() as transaction:
            transaction.write(TableBatch(table, writes=[Writes(("id", "v"), [("1", "a")])]))
            wait_until(lambda: not pg.rows(gone), "the end of the session")
            with transaction.savepoint():
                transaction.write(TableBatch(table, writes=[Writes(("id", "v"), [("2", "a")])]))
        with pytest.raises(TargetUnavailable), loader.transaction() as transaction:
            transaction.write(TableBatch(table, writes=[Writes(("id", "v"), [("1", "a")])]))
            wait_until(lambda: not pg.rows(gone), "the end of the session")
        with (
            pytest.raises(TargetUnavailable),
            loader.transaction() as transaction,
            transaction.savepoint(),
        ):
            transaction.write(TableBatch(table, writes=[Writes(("id", "v"), [("1", "a")])]))
            wait_until(lambda: not pg.rows(gone), "the end of the session")
        with pytest.raises(TargetUnavailable), loader.transaction() as transaction:
            wait_until(lambda: not pg.rows(gone), "the end of the session")
            transaction.store_offset(AppliedOffset("t", 0, 1, 1), None)
            wait_until(lambda: not pg.rows(gone), "the end of the session")
        write(loader, table, ("1", "a"))
    assert pg.rows("SELECT id FROM {schema}.t") == [(1,)]


def test_no_batch_is_refused_where_the_server_guards_against_careless_statements(name: str) -> None:
    """Nor where its temporary tables hold no TEXT by default."""
    with private_mariadb("--max-join-size=10", "--default-tmp-storage-engine=MEMORY") as server:
        server.execute("SET GLOBAL sql_safe_updates = 1")
        maria = MysqlServer(server.database, name)
        maria.execute("CREATE DATABASE {schema}")
        maria.execute("CREATE TABLE {schema}.t (id int primary key, v text, u int unique)")
        numbers = [str(number) for number in range(6_000)]
        with closing(make_loader("JdbcBatch", maria.target())) as loader:
            table = table_of(loader, maria)
            for text, expected in (("a", 0), ("b", len(numbers))):
                rows = [(number, text) for number in numbers]
                writes = Writes(("id", "v"), rows, may_insert=True, expected=expected)
                with loader.transaction() as transaction:
                    transaction.write(TableBatch(table, writes=[writes]))
            with loader.transaction() as transaction:
                transaction.write(TableBatch(table, deletes=[(number,) for number in numbers[5:]]))
        assert maria.rows("SELECT id, v FROM {schema}.t ORDER BY id") == [
            (number, "b") for number in range(5)
        ]


ODD_SETTINGS = (
    "array_nulls = off",
    "standard_conforming_strings = off",
    "bytea_output = 'escape'",
    "DateStyle = 'German'",
    "IntervalStyle = 'iso_8601'",
    "extra_float_digits = -5",
    "client_encoding = 'LATIN1'",
    "search_path = ''",
    "quote_all_identifiers = on",
    "xmloption = 'document'",
)


@pytest.mark.parametrize("count", [3, 6_000])
def test_settings_of_a_database_change_nothing_of_what_arrives(
    postgresql: Database, name: str, count: int
) -> None:
    at = replace(postgresql, database=name)
    admin = PostgresqlServer(postgresql, name)
    admin.execute(f"CREATE DATABASE {name}")
    for setting in ODD_SETTINGS:
        admin.execute(f"ALTER DATABASE {name} SET {setting}")
    try:
        arrive(PostgresqlServer(at, name), count)
    finally:
        admin.execute(f"DROP DATABASE {name} WITH (FORCE)")


def test_a_session_without_a_schema_is_told_what_gives_it_one(pg: PostgresqlServer) -> None:
    pg.execute("CREATE TABLE {schema}.t (id int primary key)")
    url = f"jdbc:postgresql://{pg.at.host}:{pg.at.port}/{pg.at.database}?currentSchema=gone"
    with closing(make_loader("JdbcBatch", pg.target(url=url))) as loader:
        table = table_of(loader, pg)
        with pytest.raises(
            TargetMisconfigured, match=r"no place for the versions .*currentSchema="
        ):
            loader.version_table(table, make=True)


SHOWN_FIRST = ("a\\'b", None, "2024-03-04 05:06:07", 43200, "00ff", True, "a<b/>")
SHOWN_SECOND = (None, "1.50", None, None, None, None, None)


def arrive(server: PostgresqlServer, count: int) -> None:
    """Rows that are new, and then the same with other cells."""
    server.execute("CREATE SCHEMA {schema}")
    server.execute(
        "CREATE TABLE {schema}.t (id int primary key, v text, n numeric, d timestamp, i interval, "
        "b bytea, f float8, x xml)"
    )
    names = ("id", "v", "n", "d", "i", "b", "f", "x")
    first = ("a\\'b", None, "2024-03-04 05:06:07", "12:00:00", "\x00\xff", "0.1", "a<b/>")
    second = (None, "1.50", None, None, None, None, None)
    with closing(make_loader("JdbcBatch", server.target())) as loader:
        table = table_of(loader, server)
        for cells, expected in ((first, 0), (second, count), (first, count)):
            rows = [(str(number), *cells) for number in range(count)]
            with loader.transaction() as transaction:
                writes = Writes(names, rows, may_insert=True, expected=expected)
                transaction.write(TableBatch(table, writes=[writes]))
            read = (
                "SELECT DISTINCT v, n::text, to_char(d, 'YYYY-MM-DD HH24:MI:SS'), "
                "extract(epoch FROM i)::int, encode(b, 'hex'), f = 0.1, x::text FROM {schema}.t"
            )
            is_first = cells is first
            assert server.rows(read) == [SHOWN_FIRST if is_first else SHOWN_SECOND]


MONEY = (("de_DE", "12.50", "12.50"), ("ja_JP", "1250", "1250"), ("ar_KW", "1.125", "1.125"))
"""Locales with a comma, without cents, and with three digits of them; a cell, and what it is there."""


@pytest.mark.parametrize(("locale", "cell", "number"), MONEY)
@pytest.mark.parametrize("count", [3, 600, 6_000])
def test_money_is_as_many_cents_as_the_database_has(
    postgresql: Database, name: str, locale: str, cell: str, number: str, count: int
) -> None:
    """A few rows, many new ones, and so many that they come through a temporary table."""
    server = PostgresqlServer(replace(postgresql, database=name), name)
    admin = PostgresqlServer(postgresql, name)
    admin.execute(f"CREATE DATABASE {name}")
    try:
        try:
            admin.execute(f"ALTER DATABASE {name} SET lc_monetary = '{locale}.utf8'")
        except psycopg.errors.InvalidParameterValue:
            pytest.skip(f"the machine has no locale {locale}")
        write_money(server, cell, number, count)
    finally:
        admin.execute(f"DROP DATABASE {name} WITH (FORCE)")


def write_money(server: PostgresqlServer, cell: str, number: str, count: int) -> None:
    server.execute("CREATE SCHEMA {schema}")
    server.execute("CREATE TABLE {schema}.t (id int PRIMARY KEY, m money, a money[])")
    server.execute("CREATE TABLE {schema}.by_money (m money PRIMARY KEY, v int)")
    server.execute("CREATE TABLE {schema}.keyless (m money, v int)")
    ids = [str(at) for at in range(count)]
    new = ColumnRows(list(map(pa.array, (ids, [cell] * count, ["{" + cell + ",NULL}"] * count))))
    with closing(make_loader("JdbcBatch", server.target())) as loader:
        table, by_money, keyless = (
            loader.table(TableId(server.schema, each)) for each in ("t", "by_money", "keyless")
        )
        assert table and by_money and keyless
        for are_new, expected in ((True, 0), (False, count)):
            with loader.transaction() as transaction:
                writes = Writes(("id", "m", "a"), new, expected=expected, are_new=are_new)
                transaction.write(TableBatch(table, writes=[writes]))
            read = "SELECT DISTINCT m::numeric::text, a[1]::numeric::text, a[2] FROM {schema}.t"
            assert server.rows(read) == [(number, number, None)]
        names = ("m", "v")
        first = [(cell, "1"), ("7", "1")]
        with loader.transaction() as transaction:
            transaction.write(TableBatch(by_money, writes=[Writes(names, first)]))
            swaps = [Swaps(names, [(None, each) for each in first])]
            transaction.write(TableBatch(keyless, swaps=swaps))
        with loader.transaction() as transaction:
            transaction.write(TableBatch(by_money, deletes=[(cell,)]))
            swaps = [Swaps(names, [((cell, "1"), ("8", "2"))])]
            transaction.write(TableBatch(keyless, swaps=swaps))
    read = "SELECT m::numeric::int, v FROM {schema}."
    assert server.rows(read + "by_money") == [(7, 1)]
    assert server.rows(read + "keyless ORDER BY 1") == [(7, 1), (8, 2)]


# Processes that stand still

STOPPED = """
import os, pickle, signal, sys
from cdcbus.plugins.contracts import TableBatch, Writes
from cdcbus.plugins.loaders import make_loader
from cdcbus.plugins.loaders.cells.arrow_rows import ColumnRows
from cdcbus.plugins.rowchange import TableId
target, schema = pickle.load(sys.stdin.buffer)
loader = make_loader("JdbcBatch", target)
with loader.transaction() as transaction:
    transaction.write(TableBatch(loader.table(TableId(schema, "t")), writes=[Writes(("id", "v"), [("1", "theirs")])]))
    print("holds", flush=True)
    os.kill(os.getpid(), signal.SIGSTOP)
"""


@contextmanager
def stopped(target: JdbcTarget, schema: str) -> Iterator[None]:
    """A process that has written row 1 of table `t`, and stands still before its commit."""
    with subprocess.Popen(
        [sys.executable, "-c", STOPPED], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(pickle.dumps((target, schema)))
        process.stdin.close()
        assert process.stdout.readline() == b"holds\n"
        os.waitpid(process.pid, os.WUNTRACED)
        try:
            yield
        finally:
            os.kill(process.pid, signal.SIGKILL)


def test_what_a_process_that_stands_still_holds_is_free_for_its_successor(
    server: TargetServer, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    server.execute("CREATE TABLE {schema}.t (id int primary key, v varchar(9))")
    target = server.target(task_id=name)
    with stopped(target, server.schema), closing(make_loader("JdbcBatch", target)) as loader:
        table, began = table_of(loader, server), monotonic()
        loader.end_other_sessions()
        write(loader, table, ("1", "ours"))
        assert monotonic() - began < 6
    assert server.rows("SELECT * FROM {schema}.t") == [(1, "ours")]
    assert re.search(
        f"task {name} has ended [12] sessions of an earlier process of it", caplog.text
    )


def test_sessions_of_other_tasks_and_its_own_are_left_alone(
    server: TargetServer, name: str
) -> None:
    server.execute("CREATE TABLE {schema}.t (id int primary key, v varchar(9))")
    with (
        closing(make_loader("JdbcBatch", server.target(task_id=f"{name}-other"))) as other,
        closing(make_loader("JdbcBatch", server.target(task_id=name))) as loader,
    ):
        table = table_of(loader, server)
        loader.applied_offsets()
        with other.transaction() as transaction:
            transaction.write(TableBatch(table, writes=[Writes(("id", "v"), [("1", "theirs")])]))
            loader.end_other_sessions()
        write(loader, table, ("2", "ours"))
    assert server.rows("SELECT id FROM {schema}.t ORDER BY 1") == [(1,), (2,)]


def test_a_lock_that_another_program_holds_is_waited_for_for_a_while_only(
    server: TargetServer, name: str
) -> None:
    """20 s, as that is how long each wait is."""
    server.execute("CREATE TABLE {schema}.t (id int primary key, v varchar(9))")
    server.execute("INSERT INTO {schema}.t VALUES (1, 'a')")
    with closing(make_loader("JdbcBatch", server.target(task_id=name))) as loader:
        table = table_of(loader, server)
        held = server.hold("UPDATE {schema}.t SET v = 'b'")
        next(held)
        began = monotonic()
        with pytest.raises(TargetUnavailable, match=r"[Ll]ock"):
            write(loader, table, ("1", "c"))
        assert monotonic() - began < 30
        held.close()  # type: ignore[attr-defined]


# Statements as long as the server takes


@pytest.fixture
def impatient_loader(maria: MysqlServer) -> Iterator[Loader]:
    """Its connection may send 1 MB; others are hardly ever opened meanwhile."""
    [(before,)] = maria.rows("SELECT @@GLOBAL.max_allowed_packet")
    with closing(make_loader("JdbcBatch", maria.target(pool_size=1))) as loader:
        maria.execute("SET GLOBAL max_allowed_packet = 1048576")
        try:
            loader.applied_offsets()
        finally:
            maria.execute(f"SET GLOBAL max_allowed_packet = {before}")
        yield loader


@pytest.mark.parametrize("unique", ["", ", UNIQUE (u)"])
def test_many_texts_of_many_bytes_are_sent_in_statements_that_the_server_takes(
    maria: MysqlServer, impatient_loader: Loader, unique: str
) -> None:
    maria.execute(
        f"CREATE TABLE {{schema}}.t (id VARCHAR(190) PRIMARY KEY, v LONGTEXT, u INT{unique})"
    )
    table, count = table_of(impatient_loader, maria), 1500
    keys = [("😀" * 180 + f"{number:05}",) for number in range(count)]
    for _ in range(2):
        with impatient_loader.transaction() as transaction:
            transaction.write(
                TableBatch(
                    table, writes=[Writes(("id", "v"), [(key, "漢" * 700) for (key,) in keys])]
                )
            )
    assert maria.rows("SELECT COUNT(*), MIN(CHAR_LENGTH(v)) FROM {schema}.t") == [(count, 700)]
    with impatient_loader.transaction() as transaction:
        assert transaction.write(TableBatch(table, deletes=keys)).deleted == count


def test_one_row_that_is_too_large_is_refused_with_both_numbers(
    maria: MysqlServer, impatient_loader: Loader
) -> None:
    maria.execute("CREATE TABLE {schema}.t (id INT PRIMARY KEY, v LONGTEXT)")
    with pytest.raises(
        TargetRejected, match=r"a row takes 1[0-9]{6} bytes, but max_allowed_packet is 1048576"
    ):
        write(impatient_loader, table_of(impatient_loader, maria), ("1", "😀" * 270_000))
    write(impatient_loader, table_of(impatient_loader, maria), ("1", "😀" * 200_000))


# Poolers


@pytest.fixture
def pooler(postgresql: Database, tmp_path: Path, name: str) -> Iterator[Database]:
    """PgBouncer in transaction mode, with two connections, which drops what sessions start with."""
    program, port = shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin"), free_port([])
    if program is None:
        pytest.skip("there is no PgBouncer: apt-get install pgbouncer")
    at, users, config = postgresql, tmp_path / "users", tmp_path / "pgbouncer.ini"
    users.write_text(f'"{at.user}" ""\n')
    config.write_text(
        f"[databases]\n{at.database} = host={at.host} port={at.port} user={at.user} "
        f"password={at.password}\n"
        f"[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nauth_type = any\nauth_file "
        f"= {users}\npool_mode = transaction\n"
        "default_pool_size = 2\nignore_startup_parameters = options\nunix_socket_dir "
        "=\nserver_round_robin = 1\n"
    )
    for path in (tmp_path, *tmp_path.parents):
        if path.stat().st_uid == os.getuid() and path != Path("/"):
            path.chmod(path.stat().st_mode | 0o755)
    as_user = ["-u", "nobody"] if os.getuid() == 0 else []
    with subprocess.Popen([program, "-q", *as_user, config], stderr=subprocess.DEVNULL) as process:
        try:
            wait_until(lambda: _answers(replace(at, port=port)), "PgBouncer")
            yield replace(at, port=port)
        finally:
            process.terminate()


def _answers(at: Database) -> bool:
    try:
        psycopg.connect(host=at.host, port=at.port, user=at.user, dbname=at.database).close()
    except psycopg.OperationalError:
        return False
    return True


def test_behind_a_pooler_instants_and_schemas_are_right_whatever_the_role_s_are(
    pg: PostgresqlServer, pooler: Database, name: str
) -> None:
    pg.execute("CREATE TABLE {schema}.t (id int primary key, v timestamptz)")
    with psycopg.connect(
        host=pg.at.host, port=pooler.port, user=pg.at.user, dbname=pg.at.database, autocommit=True
    ) as other:
        other.execute("SET TimeZone = 'Asia/Tokyo'")
        with closing(
            make_loader("JdbcBatch", replace(pg, at=pooler).target(task_id=name))
        ) as loader:
            table = table_of(loader, pg)
            for number in range(1, 13):  # a statement that is done often would be prepared
                other.execute("SELECT 1")  # which takes turns
                write(loader, table, (str(number), "2024-06-01 12:00:00"))
                with loader.transaction() as transaction:
                    seen = None if number == 1 else AppliedOffset("shop", 0, number - 1, 1)
                    transaction.store_offset(AppliedOffset("shop", 0, number, 1), seen)
            assert [each.next_offset for each in loader.applied_offsets()] == [12]
    instants = pg.rows("SELECT DISTINCT to_char(v AT TIME ZONE 'UTC', 'HH24:MI') FROM {schema}.t")
    assert instants == [("12:00",)]
    assert pg.rows("SELECT COUNT(*) FROM {schema}.cdcbus_position") == [(1,)]


def test_behind_a_pooler_what_follows_a_part_that_is_taken_back_has_the_settings_of_the_task(
    pg: PostgresqlServer, pooler: Database, name: str
) -> None:
    """A transaction that began anew would have those of whoever had the connection before."""
    pg.execute("CREATE TABLE {schema}.t (id int primary key, v timestamptz)")
    with (
        psycopg.connect(
            host=pg.at.host, port=pooler.port, user=pg.at.user, dbname=pg.at.database
        ) as other,
        closing(make_loader("JdbcBatch", replace(pg, at=pooler).target(task_id=name))) as loader,
    ):
        other.autocommit = True
        table = table_of(loader, pg)
        for _ in range(4):  # both connections of the pool
            other.execute("SET TimeZone = 'Asia/Tokyo'")
        with loader.transaction() as transaction:
            with suppress(KeyError), transaction.savepoint():
                raise KeyError
            row = ("1", "2024-06-01 12:00:00")
            transaction.write(TableBatch(table, writes=[Writes(("id", "v"), [row])]))
            transaction.store_offset(AppliedOffset("shop", 0, 1, 1), None)
    instants = pg.rows("SELECT to_char(v AT TIME ZONE 'UTC', 'HH24:MI') FROM {schema}.t")
    assert instants == [("12:00",)]
    assert pg.rows("SELECT COUNT(*) FROM {schema}.cdcbus_position") == [(1,)]
