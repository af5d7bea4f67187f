"""What Kafka transactions cost a fetch task: wide rows, each its own transaction at the source,
with and without, in one run.

    .venv/bin/python -m tests.bench.transactions [--rows 50000] [--width 2000] [--rounds 3] [--home
    STACK]

The whole task runs, with its checkpoints; the ratio is of the rates.
"""

from __future__ import annotations

import tempfile
import time
from dataclasses import replace
from pathlib import Path
from threading import Event

import click
import pymysql
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from rich.console import Console

from cdcbus.ops.stack.addresses import Addresses, Database
from cdcbus.ops.stack.stack import down, up
from cdcbus.plugins.positions import BinlogPosition
from cdcbus.plugins.task_status import TaskStatus
from cdcbus.producer.progress import Progress
from cdcbus.producer.run import run
from cdcbus.producer.schema.table_versions import MemorySchemas
from cdcbus.producer.server.connection import latest_position
from cdcbus.tasks.local.memory import MemoryPositions
from tests.bench.backlog import SCHEMA
from tests.bench.figures import tell
from tests.bench.producer import fetch_task


def write(source: Database, rows: int, width: int) -> tuple[BinlogPosition, BinlogPosition]:
    """Writes rows. Returns the positions before and after them."""
    connection = pymysql.connect(
        host=source.host,
        port=source.port,
        user=source.user,
        password=source.password,
        autocommit=True,
    )
    with connection, connection.cursor() as cursor:
        cursor.execute("SET GLOBAL sync_binlog = 0")
        cursor.execute("SET GLOBAL innodb_flush_log_at_trx_commit = 0")
        cursor.execute(f"CREATE DATABASE IF NOT EXISTS {SCHEMA}")
        cursor.execute(f"DROP TABLE IF EXISTS {SCHEMA}.wide")
        cursor.execute(f"CREATE TABLE {SCHEMA}.wide (id INT PRIMARY KEY, v VARCHAR({width}))")
        cursor.execute("FLUSH BINARY LOGS")
        start = latest_position(connection)
        cursor.execute(f"DROP PROCEDURE IF EXISTS {SCHEMA}.widen")
        loop = (
            f"FOR i IN 1..{rows} DO INSERT INTO {SCHEMA}.wide VALUES (i, REPEAT(CHAR(97 + "
            f"MOD(i, 26)), {width})); END FOR"
        )
        cursor.execute(f"CREATE PROCEDURE {SCHEMA}.widen() BEGIN {loop}; END")
        cursor.execute(f"CALL {SCHEMA}.widen()")
        return start, latest_position(connection)


def rate(
    addresses: Addresses,
    start: BinlogPosition,
    end: BinlogPosition,
    rows: int,
    *,
    transactional: bool,
) -> float:
    """Rows per second until the position after them is stored."""
    topic = f"bench-{time.time_ns()}"
    admin = AdminClient({"bootstrap.servers": addresses.kafka})
    for future in admin.create_topics([NewTopic(topic, 1, 1)]).values():
        future.result()
    task = fetch_task(addresses.source, addresses.kafka, topic, "canalRow")
    if transactional:
        task = replace(task, publish=replace(task.publish, transactional_id=topic))
    stop = Event()

    def report(progress: Progress) -> None:
        position = progress.position
        if position is not None and (position.file, position.pos) >= (end.file, end.pos):
            stop.set()

    begun = time.perf_counter()
    run(
        replace(task, start=start, position_interval_seconds=0.5),
        MemoryPositions(),
        MemorySchemas(),
        stop,
        TaskStatus(task.task_id),
        report,
    )
    return rows / (time.perf_counter() - begun)


@click.command()
@click.option("--rows", default=50_000, show_default=True)
@click.option("--width", default=2_000, show_default=True)
@click.option("--rounds", default=3, show_default=True)
@click.option("--home", type=click.Path(path_type=Path), help="Use the stack in this folder.")
def main(rows: int, width: int, rounds: int, home: Path | None) -> None:
    """Prints both rates and their ratio; each takes turns at being first."""
    place = home or Path(tempfile.mkdtemp(prefix="cdcbus-bench-"))
    place.chmod(0o755)
    try:
        addresses = up(place, Console(quiet=True))
        start, end = write(addresses.source, rows, width)
        for number in range(rounds):
            order = (True, False) if number % 2 else (False, True)
            found = {}
            for is_in_them in order:
                found[is_in_them] = rate(addresses, start, end, rows, transactional=is_in_them)
            tell("rate with Kafka transactions, of that without", found[True] / found[False])
            click.echo(
                f"{found[False]:,.0f} rows/s without, {found[True]:,.0f} with transactions: "
                f"{found[True] / found[False]:.2f}"
            )
    finally:
        if home is None:
            down(place, purge=True, console=Console(quiet=True))


if __name__ == "__main__":
    main()
