"""What `cdcbus init` says where a copy cannot begin: what, where, why and what to do; and that
nothing is made then."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest
from click.testing import CliRunner, Result
from pymysql.cursors import Cursor

from cdcbus.ops.cli.main import main
from cdcbus.ops.stack.addresses import Addresses, Database, free_port
from cdcbus.plugins.mysql.connection import MysqlConnection
from tests.support.topics.kafka_producer import kafka_producer

pytestmark = pytest.mark.integration

Init = Callable[..., Result]


@pytest.fixture
def init(
    name: str,
    stack: Addresses,
    source_cursor: Cursor,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Init:
    """Calls it for a schema with one table, into PostgreSQL; options replace its own. Starts
    nothing."""
    source_cursor.execute("CREATE TABLE a (id INT PRIMARY KEY, n VARCHAR(9))")
    monkeypatch.setenv("SOURCE_PASSWORD", stack.source.password)
    monkeypatch.setenv("TARGET_PASSWORD", stack.postgresql.password)
    monkeypatch.chdir(tmp_path)

    def call(*more: str, **options: str) -> Result:
        given = {
            "source": url("mysql", stack.source, name),
            "target": url("postgresql", stack.postgresql, stack.postgresql.database),
            "kafka": stack.kafka,
            "zookeeper": stack.zookeeper,
            "target_schema": name,
            **options,
        }
        words = [
            word for key, value in given.items() for word in (f"--{key.replace('_', '-')}", value)
        ]
        return CliRunner().invoke(main, ["init", "--yes", "--no-run", *words, *more])

    return call


def url(kind: str, server: Database, database: str) -> str:
    return f"{kind}://{server.user}@{server.host}:{server.port}/{database}"


@pytest.fixture
def nowhere() -> str:
    """An address at which nobody listens."""
    return f"127.0.0.1:{free_port(())}"


def refused(result: Result, *words: str) -> None:
    """It has ended with a sentence that has these words, and has written nothing."""
    assert result.exit_code == 1, result.output
    for each in words:
        assert each in result.output, result.output
    assert "Traceback" not in result.output
    assert list(Path().iterdir()) == []


def test_a_source_that_cannot_be_reached(init: Init, nowhere: str) -> None:
    refused(init(source=f"mysql://cdc@{nowhere}/shop"), nowhere)


def test_a_kafka_that_cannot_be_reached(init: Init, nowhere: str) -> None:
    refused(init(kafka=nowhere), f"no Kafka broker answers at {nowhere}", "--kafka")


def test_a_zookeeper_that_cannot_be_reached(init: Init, nowhere: str) -> None:
    refused(init(zookeeper=nowhere), nowhere)


def test_a_target_that_cannot_be_reached(init: Init, nowhere: str) -> None:
    refused(init(target=f"postgresql://cdc@{nowhere}/copy"), nowhere)


def test_passwords_that_are_wrong(
    init: Init, stack: Addresses, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TARGET_PASSWORD", "not-this-one")
    refused(init(), "password authentication failed")
    monkeypatch.setenv("SOURCE_PASSWORD", "not-this-one")
    result = init()
    refused(result, f"refuses user {stack.source.user}", "check consumer.source.username")
    assert "not-this-one" not in result.output


def test_a_schema_or_a_table_that_is_not_there(init: Init, name: str, stack: Addresses) -> None:
    refused(
        init(source=url("mysql", stack.source, f"{name}x")),
        f"no table of schema {name}x",
        "those with tables: ",
    )
    refused(init(tables=f"{name}.b"), f"no table {name}.b; there are: a")


def test_a_database_that_is_not_at_the_target(init: Init, name: str, stack: Addresses) -> None:
    refused(init(target=url("postgresql", stack.postgresql, f"{name}x")), f"{name}x", "not exist")


def test_a_source_without_a_row_binlog(init: Init, name: str, stack: Addresses) -> None:
    """The MariaDB to write to has none."""
    server = stack.mariadb
    with (
        MysqlConnection(
            host=server.host, port=server.port, user=server.user, password=server.password
        ) as connection,
        connection.cursor() as cursor,
    ):
        cursor.execute(f"CREATE DATABASE {name}")
        try:
            cursor.execute(f"CREATE TABLE {name}.a (id INT PRIMARY KEY)")
            refused(
                init(source=url("mysql", server, name)),
                "log_bin: OFF, must be ON",
                "Set log_bin=ON in the server's [mysqld] section.",
                "nothing was made",
            )
        finally:
            cursor.execute(f"DROP DATABASE {name}")


def test_target_tables_and_topics_of_others(
    init: Init, name: str, stack: Addresses, make_topic: Callable[..., str]
) -> None:
    server = stack.postgresql
    login = f"postgresql://{server.user}:{server.password}@{server.host}:{server.port}"
    with psycopg.connect(f"{login}/{server.database}", autocommit=True) as target:
        target.execute(f"CREATE SCHEMA {name}".encode())
        try:
            target.execute(f"CREATE TABLE {name}.a (id INT PRIMARY KEY)".encode())
            refused(init(), f"target table {name}.a: exists, and column n", "ALTER TABLE")
            target.execute(f"ALTER TABLE {name}.a ADD n TEXT".encode())
            target.execute(f"INSERT INTO {name}.a VALUES (1, 'theirs')".encode())
            make_topic(name)
            producer = kafka_producer(stack.kafka)
            producer.produce(name, b"{}")
            assert producer.flush(60) == 0
            refused(
                init(),
                f"target table {name}.a has rows already",
                f"topic {name} has records already",
                "--existing",
            )
            assert init("--existing").exit_code == 0
            assert target.execute(f"SELECT n FROM {name}.a".encode()).fetchall() == [("theirs",)]
        finally:
            target.execute(f"DROP SCHEMA {name} CASCADE".encode())


def test_called_again_it_keeps_what_is_there_and_overwrites_nothing_unasked(
    init: Init, name: str, stack: Addresses
) -> None:
    server = stack.postgresql
    login = f"postgresql://{server.user}:{server.password}@{server.host}:{server.port}"
    fetch = Path(f"{name}-to-kafka.properties")
    with psycopg.connect(f"{login}/{server.database}", autocommit=True) as target:
        try:
            first = init()
            assert first.exit_code == 0, first.output
            assert f'table "{name}"."a" is created' in first.output
            again = init()
            assert again.exit_code == 0, again.output
            assert f"{fetch} exists already" in again.output
            assert "all 1 target tables exist" in again.output
            kept = fetch.read_text(encoding="utf-8")
            other = init(partitions="2")
            assert other.exit_code == 1
            assert f"{fetch} exists, and differs (loader.source.createTopic)" in other.output
            assert fetch.read_text(encoding="utf-8") == kept
            forced = init("--force", "--json", partitions="2")
            assert forced.exit_code == 0
            fields = json.loads(forced.stdout)
            assert (fields["fetchTask"]["file"], fields["equal"]) == (str(fetch), None)
            assert "createTopic=2:1" in fetch.read_text(encoding="utf-8")
        finally:
            target.execute(f"DROP SCHEMA IF EXISTS {name} CASCADE".encode())
