"""The connections of a task that reads: they are killed, or have nothing to say; binlog files go
on and are purged behind them."""

from __future__ import annotations

import logging
import select
import socket
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import Any, cast

import pymysql
import pytest
from pymysql.cursors import Cursor

from cdcbus.ops.stack.addresses import Database
from cdcbus.plugins.contracts import AppliedOffset, JdbcTarget, PositionStore
from cdcbus.plugins.loaders import make_loader, open_target
from cdcbus.plugins.rowchange import TableId
from cdcbus.producer.binlog import dump_stream
from cdcbus.producer.config import FetchTask, FilterConfig, SourceConfig
from cdcbus.producer.server import connection as servers
from cdcbus.producer.server.connection import (
    binlog_files,
    in_one_request,
    latest_position,
    status_statement,
)
from cdcbus.producer.snapshot.reader import ChunkReader
from tests.contract.position_store import eventually
from tests.integration.producer.reading import connect, fetch_task, position, source_config
from tests.integration.producer.running import Running, ids
from tests.support.servers.private_mariadb import private_mariadb

pytestmark = [pytest.mark.integration, pytest.mark.source]

Store = Callable[[str], None]
DUMPS = "SELECT id FROM information_schema.processlist WHERE command LIKE 'Binlog Dump%'"


@pytest.fixture
def task(
    source: Database,
    kafka: str,
    name: str,
    make_topic: Callable[..., str],
    source_cursor: Cursor,
    store: Store,
) -> FetchTask:
    """It starts behind the CREATE of `t`."""
    make_topic(name)
    source_cursor.execute("CREATE TABLE t (id INT PRIMARY KEY)")
    store(position(source_cursor).to_json())
    return fetch_task(source, name, servers=kafka)


def found(cursor: Cursor, query: str) -> set[int]:
    cursor.execute(query)
    return {row[0] for row in cursor.fetchall()}


def test_a_limit_of_the_server_cuts_no_answer(name: str) -> None:
    """Neither of its answers on tables, nor of their rows."""
    with private_mariadb() as server:
        at = server.database
        server.execute(
            f"CREATE DATABASE {name}",
            f"CREATE TABLE {name}.t (id INT, name INT)",
            f"CREATE TABLE {name}.u (id INT)",
            f"INSERT INTO {name}.t VALUES (1, 1), (2, 2)",
            "SET GLOBAL sql_select_limit = 1",
            "SET GLOBAL max_join_size = 1",
        )
        config = SourceConfig(((at.host, at.port),), at.user, at.password)
        with closing(servers.connect(config)) as connection:
            found = servers.inspect(connection, config)
        with closing(ChunkReader(config, found)) as reader:
            tables = [TableId(name, "t"), TableId(name, "u")]
            assert set(tables) <= set(reader.tables())
            described = reader.describe(tables[0])
            assert described is not None
            assert len(described.table.columns) == 2
            assert reader.table(described, "").count == 2
        url = f"jdbc:mariadb://{at.host}:{at.port}/{name}"
        with closing(make_loader("JdbcBatch", JdbcTarget(url, at.user, at.password))) as loader:
            offsets = [AppliedOffset("orders", partition, 5, 1) for partition in range(2)]
            with loader.transaction() as transaction:
                for offset in offsets:
                    transaction.store_offset(offset, None)
            assert len(loader.applied_offsets()) == 2


def test_a_connection_is_not_ended_while_nothing_is_asked() -> None:
    """As of the one that reads tables at a DDL, where none comes for hours."""
    with private_mariadb() as server:
        at = server.database
        server.execute("SET GLOBAL wait_timeout = 1")
        config = SourceConfig(((at.host, at.port),), at.user, at.password)
        # Opened later than the first one, so both have said nothing for as long.
        with closing(servers.connect(config)) as idle, closing(connect(at)) as other:
            ended, _, _ = select.select([cast(Any, other)._sock], [], [], 60.0)
            assert ended
            assert servers.query(idle, "SELECT 1")


def test_where_answers_may_take_hours_the_kernel_notices_a_machine_that_is_gone(
    source: Database,
) -> None:
    """As of chunks of a snapshot, and of `verify`."""
    with closing(servers.connect(source_config(source), 3600.0)) as connection:
        found = cast(Any, connection)._sock
        assert found.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        assert found.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 6000


def test_a_moment_of_the_server_shows_no_former_rows(name: str) -> None:
    """Of tables with system versioning, at a source and at a target."""
    with private_mariadb() as server:
        at = server.database
        server.execute(
            f"CREATE DATABASE {name}",
            f"CREATE TABLE {name}.t (id INT PRIMARY KEY) WITH SYSTEM VERSIONING",
            f"INSERT INTO {name}.t VALUES (1)",
            "SET GLOBAL system_versioning_asof = '1999-01-01'",
        )
        config = SourceConfig(((at.host, at.port),), at.user, at.password)
        with closing(servers.connect(config)) as connection:
            assert servers.query(connection, f"SELECT id FROM {name}.t") == ((1,),)
        target = JdbcTarget(f"jdbc:mariadb://{at.host}:{at.port}/{name}", at.user, at.password)
        with open_target(target).engine.connect() as opened:
            assert opened.exec_driver_sql(f"SELECT id FROM {name}.t").all() == [(1,)]


def test_a_table_is_read_whatever_the_sql_mode_of_the_server(name: str) -> None:
    with private_mariadb() as server:
        at = server.database
        server.execute(
            f"CREATE DATABASE {name}",
            f"CREATE TABLE {name}.t (id INT PRIMARY KEY, d DATE, c CHAR(4), e ENUM('ü','😀'))",
            f"INSERT INTO {name}.t VALUES (1, '2024-01-01', '', 'ü')",
            "SET GLOBAL sql_mode = 'ORACLE,EMPTY_STRING_IS_NULL,PAD_CHAR_TO_FULL_LENGTH'",
        )
        config = SourceConfig(((at.host, at.port),), at.user, at.password)
        with closing(servers.connect(config)) as connection:
            found = servers.inspect(connection, config)
        with closing(ChunkReader(config, found)) as reader:
            described = reader.describe(TableId(name, "t"))
            assert described is not None
            types = [column.mysql_type for column in described.table.table.columns]
            assert types == ["int", "date", "char(4)", "enum('ü','😀')"]
            assert reader.chunk(described, None, None, 9, "").count == 1


def insert(cursor: Cursor, number: int) -> None:
    cursor.execute("INSERT INTO t VALUES (%s)", (number,))


def test_a_killed_dump_is_taken_up_again_by_one_other(
    source_cursor: Cursor, task: FetchTask, positions: PositionStore, kafka: str, name: str
) -> None:
    others = found(source_cursor, DUMPS)
    with Running(task, positions) as running:
        for number in range(5):
            insert(source_cursor, number)
            running.until_stored(position(source_cursor))
            (mine,) = found(source_cursor, DUMPS) - others
            source_cursor.execute(f"KILL {mine}")
        insert(source_cursor, 5)
        running.until_stored(position(source_cursor))
        assert eventually(lambda: len(found(source_cursor, DUMPS) - others) == 1, 30.0)
    assert ids(kafka, name) == list(range(6))


@pytest.mark.usefixtures("least_metadata")
def test_when_the_connection_that_asks_for_columns_is_killed_rows_wait_and_none_is_skipped(
    source: Database,
    source_cursor: Cursor,
    task: FetchTask,
    positions: PositionStore,
    kafka: str,
    name: str,
) -> None:
    """All but the dump and this test's own: the next new table needs it."""
    with connect(source) as watching, watching.cursor() as cursor:
        before = found(cursor, "SELECT id FROM information_schema.processlist")
        with Running(task, positions) as running:
            insert(source_cursor, 1)
            running.until_stored(position(source_cursor))
            dumps = found(cursor, DUMPS)
            for number in (
                found(cursor, "SELECT id FROM information_schema.processlist") - before - dumps
            ):
                cursor.execute(f"KILL {number}")
            source_cursor.execute("CREATE TABLE u (id INT PRIMARY KEY)")
            source_cursor.execute("INSERT INTO u VALUES (2)")
            insert(source_cursor, 3)
            running.until_stored(position(source_cursor))
    assert ids(kafka, name) == [1, 2, 3]


def is_purged(cursor: Cursor, last: str) -> bool:
    """Whether all files before that one are; a server keeps those that it still needs for a
    moment."""
    cursor.execute(f"PURGE BINARY LOGS TO '{last}'")
    return binlog_files(cursor.connection)[0][0] == last


def test_logs_that_go_on_and_are_purged_behind_the_reader_cost_nothing(
    source: Database,
    source_cursor: Cursor,
    task: FetchTask,
    positions: PositionStore,
    kafka: str,
    name: str,
) -> None:
    with Running(task, positions) as running:
        for number in range(4):
            insert(source_cursor, 2 * number)
            source_cursor.execute("FLUSH BINARY LOGS")
            insert(source_cursor, 2 * number + 1)
            end = position(source_cursor)
            running.until_stored(end)
            assert eventually(partial(is_purged, source_cursor, end.file), 30.0)
    assert ids(kafka, name) == list(range(8))


def test_an_idle_source_is_not_taken_for_a_dead_one(
    source_cursor: Cursor,
    task: FetchTask,
    positions: PositionStore,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Its heartbeats come ten times a second here, see conftest; each lets the task report."""
    monkeypatch.setattr(dump_stream, "SILENCE_SECONDS", 0.7)
    reports = []
    with (
        caplog.at_level(logging.WARNING),
        Running(task, positions, lambda _: reports.append(1)) as running,
    ):
        running.until(lambda: len(reports) > 1)
        before = found(source_cursor, DUMPS)
        running.until(lambda: len(reports) > 30)
        assert found(source_cursor, DUMPS) == before
    assert [
        record.getMessage() for record in caplog.records if record.name.startswith("cdcbus")
    ] == []


def test_the_text_of_statements_is_not_sent_nor_that_of_tables_left_out(
    source: Database,
    source_cursor: Cursor,
    task: FetchTask,
    positions: PositionStore,
    kafka: str,
    name: str,
    is_mariadb: bool,
) -> None:
    source_cursor.execute("CREATE TABLE secrets (id INT PRIMARY KEY)")
    setting = "binlog_annotate_row_events" if is_mariadb else "binlog_rows_query_log_events"
    with connect(source) as connection, connection.cursor() as cursor:
        cursor.execute(f"USE {name}")
        cursor.execute(f"SET SESSION {setting} = ON")
        for table in ("secrets", "t", "secrets"):
            cursor.execute(f"INSERT INTO {table} VALUES (1)")
            cursor.execute("DELETE FROM secrets")
    without = FilterConfig(
        regexes=task.tables.regexes, excludes=frozenset({f"{name}.SECRETS".upper()})
    )
    with Running(replace(task, tables=without), positions) as running:
        running.until_stored(position(source_cursor))
    assert ids(kafka, name) == [1]


def refuse(*_: object) -> None:
    raise pymysql.OperationalError(1047, "unknown command")


@pytest.mark.parametrize("take_several", [None, refuse, lambda *_: None])
def test_several_statements_are_answered_in_order_also_one_by_one(
    source_cursor: Cursor,
    monkeypatch: pytest.MonkeyPatch,
    take_several: Callable[..., None] | None,
) -> None:
    """As behind a proxy that refuses the option, or forgets it. Afterwards the server takes one."""
    connection = source_cursor.connection
    if take_several is not None:
        monkeypatch.setattr(servers, "_take_several", take_several)
    found = in_one_request(connection, ["SELECT 1", "START TRANSACTION", "SELECT 2 UNION SELECT 3"])
    assert [*map(list, found)] == [[(1,)], [], [(2,), (3,)]]
    with pytest.raises(pymysql.ProgrammingError, match="1064"):
        source_cursor.execute("SELECT 1; SELECT 2")
    assert status_statement(connection) in ("SHOW BINARY LOG STATUS", "SHOW MASTER STATUS")


def test_the_end_of_the_binlog_is_asked_for_in_words_that_the_server_knows(
    source: Database, source_cursor: Cursor
) -> None:
    """MySQL 8.4 knows SHOW MASTER STATUS no more, and MariaDB none of the new words."""
    with closing(connect(source)) as connection:
        before = latest_position(connection)
        source_cursor.execute("CREATE TABLE t (id INT PRIMARY KEY)")
        after = latest_position(connection)
        assert (before.file, before.pos) < (after.file, after.pos)
        assert after.file in dict(binlog_files(connection))
