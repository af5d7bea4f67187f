"""The pool keys of a task file, each seen at work on real servers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from time import monotonic

import psycopg
import pymysql
import pytest

from cdcbus.consumer.config import LoadTask
from cdcbus.ops.stack.addresses import Addresses, Database, free_port
from cdcbus.plugins.contracts import JdbcTarget, Loader
from cdcbus.plugins.errors import TargetMisconfigured, TargetUnavailable
from cdcbus.plugins.loaders import engine, make_loader
from cdcbus.plugins.mysql import connection as mysql_connection
from cdcbus.plugins.mysql.connection import MysqlConnection
from cdcbus.tasks.config.read_task import read_task

pytestmark = pytest.mark.integration


class Server:
    """A target, and a task file for it."""

    def __init__(self, kind: str, at: Database, task_id: str, folder: Path) -> None:
        self.kind, self.at, self.task_id, self.file = kind, at, task_id, folder / "task.properties"
        self.database = at.database if kind == "postgresql" else task_id

    def url(self, port: int) -> str:
        return f"jdbc:{self.kind}://{self.at.host}:{port}/{self.database}"

    def target(self, **keys: str | int) -> JdbcTarget:
        lines = {
            "taskId": self.task_id,
            "consumer.consumerName": "KafkaFetch",
            "consumer.source.servers": "k:1",
            "consumer.source.topics": "t",
            "loader.loaderName": "JdbcBatch",
            "loader.source.url": self.url(self.at.port),
            "loader.source.userName": self.at.user,
            "loader.source.password": self.at.password,
            **{f"loader.source.{name}": value for name, value in keys.items()},
        }
        self.file.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
        task = read_task(self.file).task
        assert isinstance(task, LoadTask)
        assert isinstance(task.target, JdbcTarget)
        return task.target

    def connections(self) -> list[int]:
        """Those of the task: PostgreSQL knows them by the task's name, MariaDB by its database."""
        if self.kind == "postgresql":
            sql = (
                f"SELECT pid FROM pg_stat_activity WHERE application_name = 'cdcbus {self.task_id}'"
            )
        else:
            sql = f"SELECT id FROM information_schema.processlist WHERE db = '{self.database}'"
        return [number for (number,) in self.query(sql)]

    def kill(self, number: int) -> None:
        if self.kind == "postgresql":
            self.query(f"SELECT pg_terminate_backend({number}, 5000)")
        else:
            self.query(f"KILL {number}")

    def query(self, sql: str) -> list[tuple[int, ...]]:
        at = self.at
        if self.kind == "postgresql":
            with psycopg.connect(
                host=at.host,
                port=at.port,
                user=at.user,
                password=at.password,
                dbname=at.database,
                autocommit=True,
            ) as connection:
                found = connection.execute(sql.encode())
                return found.fetchall() if found.description else []
        with (
            MysqlConnection(host=at.host, port=at.port, user=at.user, password=at.password) as old,
            old.cursor() as cursor,
        ):
            cursor.execute(sql)
            return list(cursor.fetchall())


@pytest.fixture(params=["postgresql", "mysql"])
def server(
    request: pytest.FixtureRequest, stack: Addresses, name: str, tmp_path: Path
) -> Iterator[Server]:
    if request.param == "postgresql":
        yield Server("postgresql", stack.postgresql, name, tmp_path)
        return
    server = Server("mysql", stack.mariadb, name, tmp_path)
    server.query(f"CREATE DATABASE {name}")
    yield server
    server.query(f"DROP DATABASE {name}")


def opened(server: Server, **keys: str | int) -> Loader:
    return make_loader("JdbcBatch", server.target(**keys))


def test_the_third_of_two_connections_is_waited_for_as_long_as_max_wait_says(
    server: Server,
) -> None:
    with closing(opened(server, maxPoolSize=2, maxWait=500)) as loader, ExitStack() as partitions:
        partitions.enter_context(loader.transaction())
        partitions.enter_context(loader.transaction())
        began = monotonic()
        sentence = (
            r"all 2 connections stayed busy for 0\.5 s \(loader\.source\.maxWait\); raise "
            r"loader\.source\.maxPoolSize$"
        )
        with pytest.raises(TargetUnavailable, match=sentence):
            partitions.enter_context(loader.transaction())
        assert 0.5 <= monotonic() - began < 30  # the default is a minute
        assert len(server.connections()) == 2


@pytest.mark.parametrize("key", ["minPoolSize", "initialPoolSize"])
def test_the_first_use_opens_as_many_connections_as_are_to_be_kept(
    server: Server, key: str
) -> None:
    with closing(opened(server, **{key: 3})) as loader:
        assert server.connections() == []
        loader.applied_offsets()
        assert len(server.connections()) == 3
    assert server.connections() == []


def test_without_a_least_number_connections_are_opened_when_they_are_needed(server: Server) -> None:
    with closing(opened(server)) as loader:
        loader.applied_offsets()
        assert len(server.connections()) == 1


def test_fewer_connections_than_wanted_are_a_warning(
    server: Server, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    if server.kind == "postgresql":
        server.query(f"CREATE ROLE {server.task_id} LOGIN PASSWORD 'few' CONNECTION LIMIT 2")
    else:
        server.query(
            f"CREATE USER {server.task_id}@127.0.0.1 IDENTIFIED BY 'few' WITH "
            "MAX_USER_CONNECTIONS 2"
        )
        server.query(f"GRANT ALL ON {server.database}.* TO {server.task_id}@127.0.0.1")
    try:
        few = server.target(
            minPoolSize=4, connectionErrorRetryAttempts=0, userName=server.task_id, password="few"
        )
        # it may not read the table of offsets
        with closing(make_loader("JdbcBatch", few)) as loader, suppress(TargetMisconfigured):
            loader.applied_offsets()
        assert re.search(
            r"continues with 2 connections: .*connection 3 of 4 \(loader\.source\.minPoolSize\): ",
            caplog.text,
        )
    finally:
        if server.kind == "postgresql":
            server.query(f"DROP ROLE {server.task_id}")
        else:
            server.query(f"DROP USER {server.task_id}@127.0.0.1")


@pytest.mark.parametrize("retries", [0, 2])
def test_an_unreachable_server_is_tried_again_as_often_as_the_key_says(
    server: Server, monkeypatch: pytest.MonkeyPatch, retries: int
) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(engine, "sleep", pauses.append)
    closed = server.target(url=server.url(free_port(())), connectionErrorRetryAttempts=retries)
    with closing(make_loader("JdbcBatch", closed)) as loader, pytest.raises(TargetUnavailable):
        loader.applied_offsets()
    assert pauses == [0.5] * retries


def test_a_server_that_comes_back_between_two_attempts_is_used(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(opened(server, connectionErrorRetryAttempts=1)) as loader:
        holder, driver = (
            (psycopg, "connect")
            if server.kind == "postgresql"
            else (mysql_connection, "MysqlConnection")
        )
        real = getattr(holder, driver)
        errors = [
            psycopg.OperationalError("connection refused"),
            pymysql.err.OperationalError(2003, "connection refused"),
        ]
        left = [errors[server.kind != "postgresql"]]

        def connect(*arguments: object, **options: object) -> object:
            if left:
                raise left.pop()
            return real(*arguments, **options)

        monkeypatch.setattr(holder, driver, connect)
        loader.applied_offsets()
        assert not left


def test_a_refused_login_is_not_tried_again(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "sleep", lambda _: pytest.fail("tried again"))
    with (
        closing(opened(server, password="wrong", connectionErrorRetryAttempts=5)) as loader,
        pytest.raises(TargetMisconfigured),
    ):
        loader.applied_offsets()


@pytest.mark.parametrize("is_tested", [True, False])
def test_a_connection_that_died_while_idle_is_found_out_by_the_test_before_use(
    server: Server, is_tested: bool
) -> None:
    with closing(opened(server, testOnBorrow=str(is_tested).lower())) as loader:
        loader.applied_offsets()
        (number,) = server.connections()
        server.kill(number)
        if is_tested:
            loader.applied_offsets()
        else:
            with pytest.raises(TargetUnavailable):
                loader.applied_offsets()
        loader.applied_offsets()  # the dead one is given up in both cases
