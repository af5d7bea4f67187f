"""What large things cost a fetch task: time until the first record, time in all, peak memory, time
to stop.

    .venv/bin/python -m tests.bench.large [--home STACK] [--only wide] [--scale 1.0]

    wide         60 row changes of 16 MB
    tables       10,000 tables, a row each; the task starts, is stopped, and starts again, without
                 and with the columns in the rows
    backlog      the task has run and is stopped; then 2,000 tables have rows, an ALTER, and rows
    transaction  one of 1.5 GB

The task runs as users run it, by `cdcbus task run`, on the stack's MariaDB. Time in all ends when
the position after everything is stored.
"""

from __future__ import annotations

import base64
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click
import pymysql
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from pymysql.cursors import Cursor
from rich.console import Console

from cdcbus.ops.stack.addresses import Addresses, Database
from cdcbus.ops.stack.stack import down, up
from cdcbus.plugins.positions import BinlogPosition
from cdcbus.producer.server.connection import latest_position
from cdcbus.tasks.zookeeper.connection import connect as zookeeper
from tests.bench.figures import tell
from tests.support.topics.new_topics import create_topics

if TYPE_CHECKING:
    from cdcbus.producer.server.connection import Connection

SCHEMA = "large"
ROW_BYTES = 16_000_000
GIVEN_UP_SECONDS = 300.0
TASK = """\
taskId={topic}
consumer.consumerName=CanalFetch
consumer.source.address={source.host}:{source.port}
consumer.source.username={source.user}
consumer.source.password=${{env:SOURCE_PASSWORD}}
consumer.source.database={schema}
consumer.source.filter={schema}\\\\..*
consumer.offset={start}
loader.loaderName=KAFKA_SYNC
loader.source.servers={kafka}
loader.source.topic={topic}
loader.source.oggJson=false
"""


@dataclass(frozen=True, slots=True)
class Cost:
    """In seconds and MB."""

    what: str
    first: float
    all: float
    stop: float
    peak: float

    def __str__(self) -> str:
        return (
            f"{self.what}: first record {self.first:6.1f} s, all {self.all:6.1f} s, stopped in "
            f"{self.stop:4.1f} s, peak {self.peak:4.0f} MB"
        )


class Bench:
    """One topic, and the task that fills it."""

    def __init__(self, addresses: Addresses, folder: Path) -> None:
        self._at, self._folder = addresses, folder
        self.topic = f"large-{time.time_ns()}"
        config = {"max.message.bytes": "100000000"}
        self._admin = AdminClient({"bootstrap.servers": addresses.kafka})
        create_topics(self._admin, NewTopic(self.topic, 1, 1, config=config))
        self._consumer = Consumer({"bootstrap.servers": addresses.kafka, "group.id": self.topic})
        self._nodes = zookeeper(addresses.zookeeper)

    def close(self) -> None:
        self._consumer.close()
        self._nodes.stop()
        self._nodes.close()
        self._admin.delete_topics([self.topic])[self.topic].result()

    def run(self, what: str, start: BinlogPosition, end: BinlogPosition) -> Cost:
        """Runs the task from `start`, or where it stopped before, until the position at `end` is
        stored."""
        text = TASK.format(
            topic=self.topic,
            source=self._at.source,
            kafka=self._at.kafka,
            schema=SCHEMA,
            start=f"{start.file}:{start.pos}",
        )
        file = self._folder / "large.properties"
        file.write_text(text, encoding="utf-8")
        environment = {
            "SOURCE_PASSWORD": self._at.source.password,
            "CDCBUS_ZOOKEEPER": self._at.zookeeper,
            "CDCBUS_HTTP_BIND": "off",
        }
        command = [sys.executable, "-m", "cdcbus", "task", "run", str(file)]
        before, begun, first, peak = self._records(), time.perf_counter(), 0.0, 0.0
        with (self._folder / "large.log").open("ab") as log:
            task = subprocess.Popen(
                command, env={**os.environ, **environment}, cwd=self._folder, stdout=log, stderr=log
            )
        try:
            while not self._is_behind(end):
                if task.poll() is not None or time.perf_counter() - begun > GIVEN_UP_SECONDS:
                    said = (self._folder / "large.log").read_text(encoding="utf-8")[-2_000:]
                    raise click.ClickException(
                        f"the task ended with {task.poll()}, or was given up: {said}"
                    )
                peak = max(peak, _peak_mb(task.pid))
                if not first and self._records() > before:
                    first = time.perf_counter() - begun
                time.sleep(0.05)
            everything, peak = time.perf_counter() - begun, max(peak, _peak_mb(task.pid))
            task.terminate()
            task.wait()
            return Cost(what, first, everything, time.perf_counter() - begun - everything, peak)
        finally:
            task.kill()
            task.wait()

    def _records(self) -> int:
        return int(self._consumer.get_watermark_offsets(TopicPartition(self.topic, 0))[1])

    def _is_behind(self, end: BinlogPosition) -> bool:
        path = f"/datas/task/{self.topic}/position/{SCHEMA}"
        if self._nodes.exists(path) is None:
            return False
        position = BinlogPosition.from_json(self._nodes.get(path)[0].decode())
        return (position.file, position.pos) >= (end.file, end.pos)


def _peak_mb(pid: int) -> float:
    """The peak memory of a process."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    except FileNotFoundError:
        return 0.0
    for line in status.splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) / 1024
    return 0.0


def _end(cursor: Cursor, connection: Connection) -> BinlogPosition:
    """The end after a last small transaction: a large one may have ended its file, so that the end
    of the binlog is in a file in which no transaction ends."""
    cursor.execute(f"CREATE OR REPLACE TABLE {SCHEMA}.last (id INT)")
    return latest_position(connection)


def _looped(cursor: Cursor, count: int, statement: str) -> None:
    """Runs `statement` on the server itself, for i from 1 on, each time in a transaction of its
    own."""
    cursor.execute(f"DROP PROCEDURE IF EXISTS {SCHEMA}.loops")
    cursor.execute(
        f"CREATE PROCEDURE {SCHEMA}.loops() BEGIN FOR i IN 1..{count} DO {statement}; END FOR; END"
    )
    cursor.execute(f"CALL {SCHEMA}.loops()")


def _tables(cursor: Cursor, count: int) -> None:
    columns = (
        "id INT PRIMARY KEY, name VARCHAR(40) NOT NULL, amount DECIMAL(10,2), created "
        "DATETIME(3), UNIQUE KEY (name)"
    )
    _looped(
        cursor, count, f"EXECUTE IMMEDIATE CONCAT('CREATE TABLE {SCHEMA}.t', i, ' ({columns})')"
    )


def _row_each(cursor: Cursor, count: int, key: int) -> None:
    row = f"({key}, ''name {key}'', 1.5, NOW(3))"
    _looped(
        cursor,
        count,
        f"EXECUTE IMMEDIATE CONCAT('INSERT INTO {SCHEMA}.t', i, ' (id, name, amount, created) "
        f"VALUES {row}')",
    )


def wide(bench: Bench, cursor: Cursor, connection: Connection, scale: float) -> Iterator[Cost]:
    count = max(1, int(20 * scale))
    cursor.execute(
        f"CREATE TABLE {SCHEMA}.wide (id INT PRIMARY KEY, note LONGTEXT, data LONGBLOB) CHARACTER "
        "SET utf8mb4"
    )
    start = latest_position(connection)
    for key in range(count):
        data = random.randbytes(ROW_BYTES)
        note = base64.b64encode(data[: ROW_BYTES * 3 // 4]).decode()
        cursor.execute(f"INSERT INTO {SCHEMA}.wide VALUES (%s, %s, NULL)", (key, note))
        cursor.execute(
            f"INSERT INTO {SCHEMA}.wide VALUES (%s, NULL, _binary %s)", (key + count, data)
        )
    cursor.execute(f"UPDATE {SCHEMA}.wide SET note = CONCAT(note, '.') WHERE id < {count}")
    yield bench.run(f"{3 * count} row changes of 16 MB", start, _end(cursor, connection))


def tables(bench: Bench, cursor: Cursor, connection: Connection, scale: float) -> Iterator[Cost]:
    count = int(10_000 * scale)
    _tables(cursor, count)
    for key, metadata in enumerate(("NO_LOG", "NO_LOG", "FULL")):
        cursor.execute(f"SET GLOBAL binlog_row_metadata = {metadata}")
        cursor.execute("FLUSH BINARY LOGS")
        start = latest_position(connection)
        _row_each(cursor, count, key)
        name = (
            f"{count} tables, {'first' if not key else 'next'} start, "
            f"binlog_row_metadata={metadata}"
        )
        yield bench.run(name, start, _end(cursor, connection))


def backlog(bench: Bench, cursor: Cursor, connection: Connection, scale: float) -> Iterator[Cost]:
    count = int(2_000 * scale)
    _tables(cursor, count)
    cursor.execute("SET GLOBAL binlog_row_metadata = NO_LOG")
    cursor.execute("FLUSH BINARY LOGS")
    start = latest_position(connection)
    bench.run("", start, start)
    _row_each(cursor, count, 1)
    _looped(
        cursor,
        count,
        f"EXECUTE IMMEDIATE CONCAT('ALTER TABLE {SCHEMA}.t', i, ' ADD more VARCHAR(20) AFTER id')",
    )
    _row_each(cursor, count, 2)
    yield bench.run(f"{count} altered tables in the backlog", start, _end(cursor, connection))


def transaction(
    bench: Bench, cursor: Cursor, connection: Connection, scale: float
) -> Iterator[Cost]:
    count, width = int(750_000 * scale), 2_000
    cursor.execute(f"CREATE TABLE {SCHEMA}.one (id INT PRIMARY KEY, v VARCHAR({width}))")
    cursor.execute("FLUSH BINARY LOGS")
    start = latest_position(connection)
    cursor.execute(
        f"INSERT INTO {SCHEMA}.one SELECT seq, REPEAT(CHAR(97 + MOD(seq, 26)), {width}) FROM "
        f"seq_1_to_{count}"
    )
    cursor.execute("SHOW BINARY LOGS")
    size = next(row[1] for row in cursor.fetchall() if row[0] == start.file)
    yield bench.run(
        f"a transaction of {size / 1e9:.2f} GB, {count} rows", start, _end(cursor, connection)
    )


CASES = {case.__name__: case for case in (wide, tables, backlog, transaction)}


@contextmanager
def empty_schema(source: Database) -> Iterator[Connection]:
    """An empty schema, on a server that need not survive a power loss; dropped at the end."""
    connection = pymysql.connect(
        host=source.host,
        port=source.port,
        user=source.user,
        password=source.password,
        charset="utf8mb4",
        autocommit=True,
    )
    with connection, connection.cursor() as cursor:
        cursor.execute("SET GLOBAL sync_binlog = 0")
        cursor.execute("SET GLOBAL innodb_flush_log_at_trx_commit = 0")
        cursor.execute(f"DROP DATABASE IF EXISTS {SCHEMA}")
        cursor.execute(f"CREATE DATABASE {SCHEMA}")
        connection.select_db(SCHEMA)
        cursor.execute("FLUSH BINARY LOGS")
        try:
            yield connection
        finally:
            cursor.execute("SET GLOBAL binlog_row_metadata = FULL")
            cursor.execute(f"DROP DATABASE {SCHEMA}")


@click.command()
@click.option("--home", type=click.Path(path_type=Path), help="Use the stack in this folder.")
@click.option(
    "--only",
    type=click.Choice([*CASES]),
    multiple=True,
    help="Of the cases; may be given several times.",
)
@click.option("--scale", default=1.0, show_default=True, help="Of the sizes.")
def main(home: Path | None, only: tuple[str, ...], scale: float) -> None:
    """Prints times and memory."""
    place = home or Path(tempfile.mkdtemp(prefix="cdcbus-bench-"))
    place.chmod(0o755)
    try:
        addresses = up(place, Console(quiet=True))
        for name in only or CASES:
            with (
                tempfile.TemporaryDirectory() as folder,
                empty_schema(addresses.source) as connection,
                connection.cursor() as cursor,
            ):
                bench = Bench(addresses, Path(folder))
                try:
                    for cost in CASES[name](bench, cursor, connection, scale):
                        tell(f"{cost.what}: in all", cost.all, "s", is_less_better=True)
                        tell(f"{cost.what}: memory", cost.peak, "MB", is_less_better=True)
                        click.echo(cost)
                finally:
                    bench.close()
    finally:
        if home is None:
            down(place, purge=True, console=Console(quiet=True))


if __name__ == "__main__":
    main()
