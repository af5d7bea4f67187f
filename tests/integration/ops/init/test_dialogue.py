"""`cdcbus init` as a person meets it: questions, typos, Ctrl-C, and the next call."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from pymysql.cursors import Cursor

from cdcbus.ops.stack.addresses import Addresses
from cdcbus.ops.stack.demo_tasks import leftovers
from cdcbus.plugins.mysql.connection import MysqlConnection
from tests.integration.ops.init.dialogue import Dialogue, dialogue
from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration


@pytest.fixture
def copied(name: str, stack: Addresses) -> Iterator[Cursor]:
    """A cursor at the MariaDB to write to, where database `name` is dropped at the end."""
    server = stack.mariadb
    with (
        MysqlConnection(
            host=server.host,
            port=server.port,
            user=server.user,
            password=server.password,
            autocommit=True,
        ) as connection,
        connection.cursor() as cursor,
    ):
        try:
            yield cursor
        finally:
            cursor.execute(f"DROP DATABASE IF EXISTS {name}")


def environ(stack: Addresses) -> dict[str, str]:
    variables = {**os.environ, "CDCBUS_ZOOKEEPER": stack.zookeeper}
    for secret in ("SOURCE_PASSWORD", "TARGET_PASSWORD"):
        variables.pop(secret, None)
    return variables


def answer_all(person: Dialogue, stack: Addresses, schema: str) -> None:
    """Up to the question whether to begin; the first password is wrong."""
    source, target = stack.source, stack.mariadb
    person.answer("server to read, HOST:PORT", f"{source.host}:{source.port}")
    person.answer("User there", source.user)
    person.answer(f"Password of {source.user} (not shown)", "wrong-" + source.password)
    person.answer("Try again, or Ctrl-C:")
    person.answer("User there")
    person.answer(f"Password of {source.user} (not shown)", source.password)
    person.answer("Schema to copy", schema)
    person.answer("Tables, separated by commas")
    person.answer("Kafka brokers", stack.kafka)
    person.answer("Write to", "mysql")
    person.answer("server to write to", f"{target.host}:{target.port}")
    person.answer("User there", target.user)
    person.answer("Database there")
    person.answer(f"Password of {target.user} (not shown)", target.password)


def test_ctrl_c_or_a_kill_at_any_step_leaves_what_the_next_call_goes_on_with(
    name: str,
    stack: Addresses,
    source_cursor: Cursor,
    copied: Cursor,
    tmp_path: Path,
) -> None:
    """Some 20 s: five calls, three of which start tasks."""
    source_cursor.execute("CREATE TABLE a (id INT PRIMARY KEY, n VARCHAR(9))")
    source_cursor.execute("INSERT INTO a VALUES (1, 'x'), (2, NULL)")
    source_cursor.execute("CREATE TABLE log (n INT)")
    source_cursor.execute("INSERT INTO log VALUES (7), (7)")
    variables = environ(stack)
    with dialogue(["init"], tmp_path, variables) as person:
        person.wait_for("server to read")
        person.interrupt()
        assert person.end() == 130, person.said
        assert "nothing was made" in person.said
    with dialogue(["init", "--zookeeper", stack.zookeeper], tmp_path, variables) as person:
        answer_all(person, stack, name)
        person.wait_for(f"without primary key: {name}.log")
        person.wait_for("Begin?")
        person.interrupt()
        assert person.end() == 130, person.said
        assert stack.source.password not in person.said
        assert "nothing was made" in person.said
    assert list(tmp_path.iterdir()) == []
    with dialogue(["init", "--zookeeper", stack.zookeeper], tmp_path, variables) as person:
        answer_all(person, stack, name)
        person.answer("Begin?")
        person.wait_for(f"task {name}-to-mysql is started")
        person.interrupt(at_prompt=False)
        assert person.end() == 130, person.said
        assert f"cdcbus init --name {name} continues" in person.said
    assert (tmp_path / f"{name}.passwords").stat().st_mode & 0o777 == 0o600
    with dialogue(["init", "--zookeeper", stack.zookeeper], tmp_path, variables) as person:
        person.answer(f"{name}-to-mysql.properties are here: continue with them?")
        person.wait_for(f"task {name}-to-mysql is started")
        person.kill()
    with dialogue(["init", "--zookeeper", stack.zookeeper], tmp_path, variables) as person:
        person.answer(f"{name}-to-mysql.properties are here: continue with them?")
        person.wait_for("all 2 target tables exist")
        person.wait_for(f"task {name}-to-kafka is started")
        person.wait_for(f"task {name}-to-mysql is started")
        person.wait_for(f"{name}.a: equal, 2 rows")
        person.wait_for(f"{name}.log: equal, 2 rows")
        person.answer("Let both tasks keep running here, until Ctrl-C?", "y")
        source_cursor.execute("UPDATE a SET n = 'y' WHERE id = 2")

        def has_changed() -> bool:
            copied.execute(f"SELECT n FROM {name}.a WHERE id = 2")
            return copied.fetchall() == (("y",),)

        wait_until(has_changed, "the change at the target")
        person.interrupt(at_prompt=False)
        assert person.end() == 0, person.said
        assert f"cdcbus task start {name}-to-kafka {name}-to-mysql" in person.said


def test_ctrl_c_again_and_again_kills_the_tasks_and_leaves_no_temporary_file(
    name: str,
    stack: Addresses,
    source_cursor: Cursor,
    copied: Cursor,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    source_cursor.execute("CREATE TABLE a (id INT PRIMARY KEY)")
    temporary = tmp_path_factory.mktemp("temporary")
    variables = {**environ(stack), "TMPDIR": str(temporary)}
    variables |= {
        "SOURCE_PASSWORD": stack.source.password,
        "TARGET_PASSWORD": stack.mariadb.password,
    }
    words = ["init", "--yes", "--kafka", stack.kafka, "--folder", str(tmp_path)]
    for side, server in (("--source", stack.source), ("--target", stack.mariadb)):
        words += [side, f"mysql://{server.user}@{server.host}:{server.port}/{name}"]
    copied.execute(f"CREATE DATABASE {name}")
    with dialogue(words, tmp_path, variables) as person:
        person.wait_for(f"task {name}-to-mysql is started")
        # a process that has just been started shows no words yet for a moment
        wait_until(lambda: len(leftovers(tmp_path)) == 2, "both tasks")
        tasks = leftovers(tmp_path)
        for task in tasks:  # so that they do not obey
            os.kill(task, signal.SIGSTOP)
        person.interrupt(at_prompt=False)
        person.wait_for("stopping the tasks")
        person.interrupt(at_prompt=False)
        person.interrupt(at_prompt=False)
        # A shell shows 130, too, of a process that SIGINT has ended, as the last one can do.
        assert person.end() in (130, -signal.SIGINT), person.said
        assert "Traceback" not in person.said
    assert leftovers(tmp_path) == []
    assert list(temporary.iterdir()) == []


def test_a_wrong_broker_and_a_wrong_database_are_asked_for_again(
    name: str, stack: Addresses, source_cursor: Cursor, tmp_path: Path
) -> None:
    source_cursor.execute("CREATE TABLE a (id INT PRIMARY KEY)")
    target = stack.postgresql
    variables = {
        **environ(stack),
        "SOURCE_PASSWORD": stack.source.password,
        "TARGET_PASSWORD": target.password,
    }
    with dialogue(["init"], tmp_path, variables) as person:
        person.answer("server to read, HOST:PORT", f"{stack.source.host}:{stack.source.port}")
        person.answer("User there", stack.source.user)
        person.answer("Schema to copy", name)
        person.answer("Tables, separated by commas")
        person.answer("Kafka brokers", "127.0.0.1:1")
        person.wait_for("Connection refused")
        person.answer("Kafka brokers", stack.kafka)
        person.answer("Write to", "postgresql")
        person.answer("server to write to", f"{target.host}:{target.port}")
        person.answer("User there", target.user)
        person.answer("Database there", f"{name}_missing")
        person.wait_for("does not exist; check loader.source.url")
        person.answer("server to write to")
        person.answer("User there")
        person.answer(f"Database there [{name}_missing]", target.database)
        person.answer(f"Password of {target.user} (not shown)", target.password)
        person.wait_for(f"target {target.host}:{target.port} lets {target.user} in")
        person.wait_for("Schema of the tables there")
        person.interrupt()
        assert person.end() == 130, person.said
        # librdkafka's own log lines
        assert "rdkafka" not in person.said
