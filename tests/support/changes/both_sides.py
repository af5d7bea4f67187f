"""Two schemas of one server that are copied into each other, with the task files for it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pymysql.cursors import Cursor

from cdcbus.ops.stack.addresses import Database
from tests.support.processes.bus import published

SECONDS = 240.0


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


@contextmanager
def open_sides(
    name: str, source: Database, cursor: Cursor, kafka: str, folder: Path, make_topic: Any
) -> Iterator[Sides]:
    """Each side with an empty table `orders`; the second schema is dropped at the end."""
    other = f"{name}_b"
    cursor.execute(f"CREATE DATABASE {other}")
    try:
        for own in (name, other):
            make_topic(own)
            cursor.execute(f"CREATE TABLE {own}.orders (id INT PRIMARY KEY, name VARCHAR(20))")
        yield Sides(name, other, cursor, source, kafka, folder)
    finally:
        cursor.execute(f"DROP DATABASE {other}")


def words(file: Path, zookeeper: str) -> list[str]:
    stores = ["--positions", str(file.with_suffix(".json"))]
    if zookeeper:
        stores = ["--zookeeper", zookeeper]
    return [sys.executable, "-m", "cdcbus", "task", "run", str(file), *stores]


def run(*files: Path, zookeeper: str = "") -> None:
    """Each until it has done what there was. `zookeeper`: where positions are; beside the files, if
    empty."""
    for file in files:
        done = subprocess.run(
            [*words(file, zookeeper), "--until", "now"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        assert done.returncode == 0, done.stdout


@contextmanager
def running(file: Path, zookeeper: str = "") -> Iterator[None]:
    with file.with_suffix(".log").open("ab") as log:
        process = subprocess.Popen(
            words(file, zookeeper), stdout=log, stderr=log, start_new_session=True
        )
    try:
        yield
        process.terminate()
        process.wait(SECONDS)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
