"""Two schemas that are copied into each other, with writes on both sides: what came from the other
side does not go back, so it ends."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pymysql.cursors import Cursor

from cdcbus.ops.stack.addresses import Database
from tests.support.processes.bus import published
from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration
of_the_source = pytest.mark.source  # the others ask nothing that servers answer differently
SECONDS = 90.0


@dataclass(slots=True)
class Sides:
    """Schemas `a` and `b` of one server, and a topic for the changes of each. `marks`: whether
    tasks mark what they write."""

    a: str
    b: str
    cursor: Cursor
    source: Database
    kafka: str
    folder: Path
    marks: bool = True

    def files(self) -> list[Path]:
        """Fetch tasks first."""
        files = []
        for kind in (self._fetch, self._load):
            files += [self._file(kind, self.a, self.b), self._file(kind, self.b, self.a)]
        return files

    def _file(self, kind: Callable[[str, str], dict[str, str]], own: str, other: str) -> Path:
        keys = kind(own, other)
        file = self.folder / f"{keys['taskId']}.properties"
        file.write_text("".join(f"{key}={value}\n" for key, value in keys.items()))
        return file

    def _fetch(self, own: str, other: str) -> dict[str, str]:
        mark = {"consumer.source.excludeMarks": f"from_{other}"}
        return {
            "taskId": f"{own}-fetch",
            "consumer.consumerName": "CanalFetch",
            "consumer.source.address": f"{self.source.host}:{self.source.port}",
            "consumer.source.username": self.source.user,
            "consumer.source.password": self.source.password,
            "consumer.source.filter": f"{own}\\\\.{'.*' if self.marks else 'orders'}",
            "consumer.offset": "latest",
            "loader.loaderName": "KAFKA_SYNC",
            "loader.source.servers": self.kafka,
            "loader.source.topic": own,
            "loader.source.oggJson": "false",
            **(mark if self.marks else {}),
        }

    def _load(self, own: str, other: str) -> dict[str, str]:
        """What `own` publishes, into the other one."""
        return {
            "taskId": f"{own}-load",
            "consumer.consumerName": "KafkaFetch",
            "consumer.converter": "canalRow",
            "consumer.source.servers": self.kafka,
            "consumer.source.topics": own,
            "consumer.source.firstConsumeFrom": "earliest",
            "mapper[0].schema": f"{own},{other}",
            "loader.loaderName": "JdbcBatch",
            "loader.source.url": f"jdbc:mysql://{self.source.host}:{self.source.port}/{other}",
            "loader.source.userName": self.source.user,
            "loader.source.password": self.source.password,
            **({"loader.mark": f"from_{own}"} if self.marks else {}),
        }

    def sent(self, own: str) -> list[tuple[str, str]]:
        """Table and operation of each row change in a topic."""
        found = []
        for record in published(self.kafka, own):
            found += [(record["table"], record["type"])] * len(record["data"] or ())
        return found

    def rows(self, own: str) -> dict[int, str]:
        self.cursor.execute(f"SELECT id, name FROM {own}.orders")
        return {int(number): str(name) for number, name in self.cursor.fetchall()}


@pytest.fixture
def sides(
    name: str, source: Database, source_cursor: Cursor, kafka: str, tmp_path: Path, make_topic: Any
) -> Iterator[Sides]:
    other = f"{name}_b"
    source_cursor.execute(f"CREATE DATABASE {other}")
    try:
        for own in (name, other):
            make_topic(own)
            source_cursor.execute(
                f"CREATE TABLE {own}.orders (id INT PRIMARY KEY, name VARCHAR(20))"
            )
        yield Sides(name, other, source_cursor, source, kafka, tmp_path)
    finally:
        source_cursor.execute(f"DROP DATABASE {other}")


def words(file: Path) -> list[str]:
    positions = str(file.with_suffix(".json"))
    return [sys.executable, "-m", "cdcbus", "task", "run", str(file), "--positions", positions]


def run(*files: Path) -> None:
    """Each until it has done what there was."""
    for file in files:
        done = subprocess.run(
            [*words(file), "--until", "now"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        assert done.returncode == 0, done.stdout


@contextmanager
def running(file: Path) -> Iterator[None]:
    with file.with_suffix(".log").open("ab") as log:
        process = subprocess.Popen(words(file), stdout=log, stderr=log, start_new_session=True)
    try:
        yield
        process.terminate()
        process.wait(SECONDS)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@of_the_source
def test_writes_on_both_sides_meet_and_none_goes_round(sides: Sides) -> None:
    """More than 20 s: twelve processes of tasks."""
    fetches, loads = sides.files()[:2], sides.files()[2:]
    run(*fetches)
    execute = sides.cursor.execute
    with ExitStack() as tasks:
        for file in (*fetches, *loads):
            tasks.enter_context(running(file))
        for number in range(60):
            own, first = ((sides.a, 0), (sides.b, 1000))[number % 2]
            execute(f"INSERT INTO {own}.orders VALUES ({first + number}, 'new')")
            execute(f"UPDATE {own}.orders SET name = 'changed' WHERE id = {first + number}")
        execute(f"DELETE FROM {sides.a}.orders WHERE id = 0")
        wait_until(
            lambda: sides.rows(sides.a) == sides.rows(sides.b) and len(sides.rows(sides.a)) == 59,
            "equal sides",
            SECONDS,
        )
    run(*fetches, *loads, *fetches)
    written = [("orders", "INSERT")] * 30 + [("orders", "UPDATE")] * 30
    assert sorted(sides.sent(sides.a)) == sorted([*written, ("orders", "DELETE")])
    assert sorted(sides.sent(sides.b)) == sorted(written)
    execute(f"SELECT COUNT(*) FROM {sides.b}.cdcbus_mark_from_{sides.a}")
    assert sides.cursor.fetchall() == ((0,),)


def test_rows_that_both_sides_change_at_once_are_the_only_ones_that_differ(sides: Sides) -> None:
    """More than 20 s: fourteen processes of tasks, one after the other."""
    fetches, loads = sides.files()[:2], sides.files()[2:]
    run(*fetches)
    for number in range(10):
        sides.cursor.execute(f"INSERT INTO {sides.a}.orders VALUES ({number}, 'new')")
    run(*fetches, *loads)
    for number in range(3):  # before either of them has seen the other's
        for own in (sides.a, sides.b):
            sides.cursor.execute(f"UPDATE {own}.orders SET name = '{own[-2:]}' WHERE id = {number}")
    run(*fetches, *loads, *fetches, *loads)
    there, here = sides.rows(sides.a), sides.rows(sides.b)
    assert there.keys() == here.keys()
    assert [number for number in there if there[number] != here[number]] == [0, 1, 2]
    assert (len(sides.sent(sides.a)), len(sides.sent(sides.b))) == (13, 3)


def test_without_marks_rows_go_round(sides: Sides) -> None:
    """What the marks are for: else the tests above would show nothing."""
    sides.marks = False
    fetches, loads = sides.files()[:2], sides.files()[2:]
    run(*fetches)
    sides.cursor.execute(f"INSERT INTO {sides.a}.orders VALUES (1, 'new')")
    run(*fetches, loads[0], *fetches)
    assert sides.sent(sides.b) == [("orders", "INSERT")]


@of_the_source
def test_changes_of_another_server_and_gtid_source_are_left_out(sides: Sides) -> None:
    """The server's own id stands for another one's."""
    sides.cursor.execute("SELECT @@GLOBAL.server_id, VERSION()")
    ((server_id, version),) = sides.cursor.fetchall()
    source = f"0-{server_id}"
    if "MariaDB" not in version:
        sides.cursor.execute("SELECT @@GLOBAL.server_uuid")
        ((source,),) = sides.cursor.fetchall()
    plain = sides.files()[0]
    text = plain.read_text()
    run(plain)
    for key, value in (("excludeServerIds", f"7,{server_id}"), ("excludeGtidSources", source)):
        sides.cursor.execute(f"INSERT INTO {sides.a}.orders VALUES (1, 'new')")
        sides.cursor.execute(f"TRUNCATE TABLE {sides.a}.orders")
        plain.write_text(f"{text}consumer.source.{key}={value}\n")
        run(plain)
        assert sides.sent(sides.a) == []
    plain.write_text(f"{text}consumer.source.excludeServerIds=7\n")
    sides.cursor.execute(f"INSERT INTO {sides.a}.orders VALUES (2, 'new')")
    run(plain)
    assert sides.sent(sides.a) == [("orders", "INSERT")]
