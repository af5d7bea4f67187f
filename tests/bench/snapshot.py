"""How long the rows of a table take into Kafka by a snapshot, with a record for each row and with
many rows in a record, beside the server's own dump of them and beside the binlog of the same rows,
in turns within one run.

    .venv/bin/python -m tests.bench.snapshot [--rows 300000] [--rounds 3] [--per-record 100]
                                             [--dump PROGRAM] [--home STACK]

The dump goes to a file; `--dump` names MariaDB's program for it. Times of tasks are those of a
whole run, with its start and its end; beside them the processor time of the task's process, or of
the dump program, which other programs on the machine do not change much.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import NamedTuple

import click
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from rich.console import Console

from cdcbus.ops.stack.addresses import Addresses, Database
from cdcbus.ops.stack.stack import down, up
from cdcbus.plugins.positions import BinlogPosition
from cdcbus.plugins.start import Edge
from cdcbus.plugins.task_status import TaskStatus
from cdcbus.producer.config import FetchTask, SnapshotMode
from cdcbus.producer.progress import Progress
from cdcbus.producer.run import run
from cdcbus.producer.schema.table_versions import MemorySchemas
from cdcbus.producer.server.connection import latest_position
from cdcbus.tasks.zookeeper.connection import connect as connect_zookeeper
from cdcbus.tasks.zookeeper.position.store import ZooKeeperPositions
from tests.bench.figures import tell
from tests.integration.producer.reading import connect, fetch_task
from tests.support.topics.new_topics import create_topics

SNAPSHOT, MANY = "snapshot", "snapshot, many rows in a record"
COLUMNS = (
    "id BIGINT PRIMARY KEY, user_id INT, status VARCHAR(20), amount DECIMAL(12,2), created "
    "DATETIME(3), note VARCHAR(100), flag TINYINT, ts TIMESTAMP"
)
FILLED = (
    "SELECT seq, seq % 1000, ELT(1 + seq % 3, 'new', 'paid', 'sent'), seq / 7, '2024-01-01' + "
    "INTERVAL seq SECOND, REPEAT('x', seq % 60), seq % 2, '2024-05-05 05:05:05' FROM seq_1_to_"
)


@contextmanager
def filled(source: Database, name: str, rows: int) -> Iterator[tuple[BinlogPosition, int]]:
    """A table with this number of rows; where its binlog begins, and its size in bytes."""
    with connect(source) as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {name}")
        cursor.execute(f"USE {name}")
        try:
            cursor.execute(f"CREATE TABLE {name}.t ({COLUMNS})")
            begin = latest_position(connection)
            cursor.execute(f"INSERT INTO {name}.t {FILLED}{rows}")
            yield begin, latest_position(connection).pos
        finally:
            cursor.execute(f"DROP DATABASE {name}")


class Took(NamedTuple):
    """Seconds: of the clock, and of the processor, here and in programs that were run."""

    clock: float
    processor: float

    def __str__(self) -> str:
        return f"{self.clock:.2f} s (processor {self.processor:.2f} s)"


def said(took: dict[str, Took]) -> str:
    """What each took, on one line."""
    return "  ".join(f"{what} {each}" for what, each in took.items())


def seconds(do: Callable[[], None]) -> Took:
    begun, used = time.monotonic(), sum(os.times()[:4])
    do()
    return Took(time.monotonic() - begun, sum(os.times()[:4]) - used)


def dump(program: str, source: Database, name: str) -> None:
    with tempfile.TemporaryFile() as file:
        subprocess.run(
            [
                *(program, "--no-defaults", "-h", source.host, "-P", str(source.port)),
                *("-u", source.user, "--skip-ssl", "--single-transaction", name, "t"),
            ],
            env={**os.environ, "MYSQL_PWD": source.password},
            stdout=file,
            check=True,
        )


def fetched(stack: Addresses, task: FetchTask, end: int) -> None:
    """Runs the task with a topic and a position of its own: to its end, or up to `end` in the
    binlog."""
    topic, stop = "bench" + uuid.uuid4().hex[:8], Event()
    admin = AdminClient({"bootstrap.servers": stack.kafka})
    create_topics(admin, NewTopic(topic, 3, 1))
    client = connect_zookeeper(stack.zookeeper)

    def look(progress: Progress) -> None:
        if progress.position is not None and end and progress.position.pos >= end:
            stop.set()

    try:
        run(
            replace(task, publish=replace(task.publish, topic=topic)),
            ZooKeeperPositions(client, topic, topic),
            *(MemorySchemas(), stop, TaskStatus(topic), look),
        )
    finally:
        client.stop()
        client.close()


@click.command()
@click.option("--rows", default=300_000, help="Of the table.")
@click.option("--rounds", default=3, help="Of each.")
@click.option("--per-record", default=100, help="loader.source.rowsPerRecord of the second.")
@click.option("--dump", "program", default=shutil.which("mariadb-dump"), help="The dump program.")
@click.option("--home", type=click.Path(path_type=Path), help="A stack that runs.")
def main(rows: int, rounds: int, per_record: int, program: str | None, home: Path | None) -> None:
    where = home or Path(tempfile.mkdtemp(prefix="cdcbus-bench-"))
    where.chmod(0o755)
    stack = up(where, Console(quiet=True))
    name = "bench" + uuid.uuid4().hex[:8]
    try:
        with filled(stack.source, name, rows) as (begin, end):
            task = fetch_task(stack.source, name, servers=stack.kafka)
            live = replace(task, start=begin)
            once = replace(task, start=Edge.LATEST, snapshot=SnapshotMode.ONLY)
            many = replace(once, rows_per_record=per_record)
            for _ in range(rounds):
                took = {
                    SNAPSHOT: seconds(lambda: fetched(stack, once, 0)),
                    MANY: seconds(lambda: fetched(stack, many, 0)),
                    "binlog": seconds(lambda: fetched(stack, live, end)),
                }
                if program:
                    took["dump"] = seconds(lambda: dump(program, stack.source, name))
                for what in ("dump", "binlog") if program else ("binlog",):
                    for each in (SNAPSHOT, MANY):
                        tell(f"{each}, of a {what}", took[what].clock / took[each].clock)
                click.echo(said(took))
    finally:
        if home is None:
            down(where, purge=True, console=Console(quiet=True))


if __name__ == "__main__":
    main()
