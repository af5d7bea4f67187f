"""How fast a topic is applied to tables, beside what the bare database driver needs for the same
net rows: in one run, as ratios.

    .venv/bin/python -m tests.bench.consumer [--inserts 400000] [--home STACK] [--partitions 1]
    [--spark-master 'local[*]']

The topic holds the producer benchmark's backlog as canalRow. A task's rate is taken from where it
begins to read to the end of its last batch: the start of Spark and of its Python workers, beside
which the tail gear reads, is part of it. A second rate is taken from the first
transaction that the target holds to the last one, by its offsets, which are looked at ten times a
second. Beside them stands the bare driver: per 50,000 changes, the net rows written with COPY and a
merge (PostgreSQL) or with multi-row REPLACE (MariaDB), and deletes by key. Each task runs in a
process of its own.
"""

from __future__ import annotations

import io
import json
import math
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from threading import Event
from typing import Any

import click
import orjson
import psycopg
import pymysql
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from rich.console import Console
from rich.table import Table

from cdcbus.consumer.batch.progress import Progress
from cdcbus.consumer.config import LoadTask
from cdcbus.consumer.run import run
from cdcbus.ops.stack.addresses import Addresses
from cdcbus.ops.stack.stack import down, up
from cdcbus.plugins.contracts import JdbcTarget
from cdcbus.plugins.loaders import make_loader
from cdcbus.plugins.task_status import TaskStatus
from cdcbus.tasks.config.read_task import read_task
from cdcbus.tasks.local.memory import MemoryPositions
from tests.bench import backlog as backlogs
from tests.bench.figures import tell
from tests.bench.processes import cpu_seconds
from tests.bench.producer import fetch_task, publish
from tests.support.properties import properties

BATCH = 50_000
POSTGRESQL_COLUMNS = """
    id bigint PRIMARY KEY, customer_id int NOT NULL, product_id bigint NOT NULL, state varchar(20) NOT NULL,
    amount numeric(12,2) NOT NULL, quantity smallint NOT NULL, note varchar(200), address varchar(200) NOT NULL,
    created timestamp(3) NOT NULL, updated timestamp NOT NULL"""

Row = dict[str, str | None]


def postgresql(addresses: Addresses) -> Any:
    target = addresses.postgresql
    return psycopg.connect(
        host=target.host,
        port=target.port,
        user=target.user,
        password=target.password,
        dbname=target.database,
    )


def _mariadb(addresses: Addresses) -> Any:
    target = addresses.mariadb
    return pymysql.connect(
        host=target.host,
        port=target.port,
        user=target.user,
        password=target.password,
        charset="utf8mb4",
    )


def emptied(addresses: Addresses, target: str) -> None:
    """Creates the target table, new and empty, with nothing left to write from before."""
    with postgresql(addresses) if target == "postgresql" else _mariadb(addresses) as connection:
        cursor = connection.cursor()
        if target == "postgresql":
            cursor.execute(f"CREATE SCHEMA IF NOT EXISTS {backlogs.SCHEMA}")
            cursor.execute(f"DROP TABLE IF EXISTS {backlogs.TABLE}")
            cursor.execute(f"CREATE TABLE {backlogs.TABLE} ({POSTGRESQL_COLUMNS})")
        else:
            cursor.execute(f"CREATE DATABASE IF NOT EXISTS {backlogs.SCHEMA}")
            cursor.execute(f"DROP TABLE IF EXISTS {backlogs.TABLE}")
            cursor.execute(
                f"CREATE TABLE {backlogs.TABLE} ({backlogs.COLUMNS}) CHARACTER SET utf8mb4"
            )
        connection.commit()
        if target == "postgresql":
            connection.autocommit = True
            cursor.execute("CHECKPOINT")
    os.sync()


def _net_batches(
    kafka: str, topic: str, partitions: int
) -> Iterator[tuple[int, dict[str, Row | None]]]:
    """Per BATCH records: their number, and the last row of each key, None for a deleted one."""
    consumer = Consumer(
        {"bootstrap.servers": kafka, "group.id": "bench", "enable.auto.commit": False}
    )
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
    rows: dict[str, Row | None] = {}
    count = 0
    while messages := consumer.consume(BATCH - count, timeout=5):
        for message in messages:
            record = orjson.loads(message.value() or b"")
            row = record["data"][0]
            rows[row["id"]] = None if record["type"] == "DELETE" else row
        count += len(messages)
        if count == BATCH:
            yield count, rows
            count = 0
            rows = {}
    consumer.close()
    if count:
        yield count, rows


def _bare_postgresql(connection: Any, rows: dict[str, Row | None]) -> None:
    kept = [row for row in rows.values() if row is not None]
    gone = [key for key, row in rows.items() if row is None]
    names = list(kept[0]) if kept else []
    text = io.StringIO()
    # Measured, so cells are not passed to a function: a slow bare driver would flatter cdcbus.
    for row in kept:
        text.write(
            "\t".join(
                "\\N" if cell is None else cell.replace("\\", "\\\\") for cell in row.values()
            )
            + "\n"
        )
    with connection.cursor() as cursor:
        if kept:
            cursor.execute(f"CREATE TEMP TABLE stage (LIKE {backlogs.TABLE}) ON COMMIT DROP")
            with cursor.copy("COPY stage FROM STDIN") as copy:
                copy.write(text.getvalue())
            changes = ", ".join(f"{name} = EXCLUDED.{name}" for name in names[1:])
            cursor.execute(
                f"INSERT INTO {backlogs.TABLE} SELECT * FROM stage ON CONFLICT (id) DO UPDATE SET "
                f"{changes}"
            )
        if gone:
            cursor.execute(f"DELETE FROM {backlogs.TABLE} WHERE id = ANY(%s::bigint[])", (gone,))
    connection.commit()


def _bare_mariadb(connection: Any, rows: dict[str, Row | None]) -> None:
    kept = [row for row in rows.values() if row is not None]
    gone = [key for key, row in rows.items() if row is None]
    with connection.cursor() as cursor:
        for start in range(0, len(kept), 1000):
            values = ",".join(
                "("
                + ",".join(
                    "NULL" if cell is None else "'" + cell.replace("'", "''") + "'"
                    for cell in row.values()
                )
                + ")"
                for row in kept[start : start + 1000]
            )
            cursor.execute(f"REPLACE INTO {backlogs.TABLE} VALUES {values}")
        for start in range(0, len(gone), 500):
            cursor.execute(
                f"DELETE FROM {backlogs.TABLE} WHERE id IN ({','.join(gone[start : start + 500])})"
            )
    connection.commit()


def _bare(addresses: Addresses, target: str, topic: str, partitions: int) -> float:
    """Changes per second of the bare driver; computing the net rows does not count."""
    emptied(addresses, target)
    connect, write = (
        (postgresql, _bare_postgresql) if target == "postgresql" else (_mariadb, _bare_mariadb)
    )
    changes, seconds = 0, 0.0
    with connect(addresses) as connection:
        for count, rows in _net_batches(addresses.kafka, topic, partitions):
            start = time.perf_counter()
            write(connection, rows)
            seconds += time.perf_counter() - start
            changes += count
    return changes / seconds


def load_task(
    addresses: Addresses, target: str, topic: str, file: Path, master: str, **more: str
) -> LoadTask:
    """The task as written to `file`; `more`: additional or changed keys."""
    database = getattr(addresses, target)
    kind, name = "mysql", backlogs.SCHEMA
    if target == "postgresql":
        kind, name = "postgresql", database.database
    keys = {
        "taskId": f"bench-{target}-{topic}",
        "consumer.consumerName": "KafkaFetch",
        "consumer.converter": "canalRow",
        "consumer.source.servers": addresses.kafka,
        "consumer.source.topics": topic,
        "consumer.source.group": topic,
        "consumer.source.firstConsumeFrom": "earliest",
        "loader.loaderName": "JdbcBatch",
        "loader.source.url": f"jdbc:{kind}://{database.host}:{database.port}/{name}",
        "loader.source.userName": database.user,
        "loader.source.password": database.password,
        "spark.master": master,
        **more,
    }
    file.write_text(properties(keys))
    task = read_task(file).task
    assert isinstance(task, LoadTask)
    return task


def _measured(task: LoadTask, changes: int) -> dict[str, float]:
    """Runs the task in this process until it has applied all changes."""
    stop = Event()
    reports: list[tuple[float, int]] = []

    def note(progress: Progress) -> None:
        reports.append((time.perf_counter(), progress.done))
        if progress.done >= changes:
            stop.set()

    run(
        task,
        {topic: MemoryPositions() for topic in task.source.topics},
        stop,
        TaskStatus(task.task_id),
        note,
    )
    begun = reports[0][0]
    last, done = reports[-1]
    return {
        "rate": done / (last - begun),
        "batches": sum(count > 0 for _, count in reports),
        "cpu": cpu_seconds([os.getpid()]),
        "rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def in_a_process(file: Path, changes: int, target: JdbcTarget) -> dict[str, float]:
    """What `_measured` returns, and the rate `later`, from the target's offsets."""
    command = [
        sys.executable,
        "-m",
        "tests.bench.consumer",
        "--measure",
        json.dumps([str(file), changes]),
    ]
    curve: list[tuple[float, int]] = []
    with (
        closing(make_loader("JdbcBatch", target)) as loader,
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process,
    ):
        is_over = False
        while not is_over:
            time.sleep(0.1)
            # Before the look: the last one sees all.
            is_over = process.poll() is not None
            at = time.perf_counter()
            done = sum(offset.next_offset for offset in loader.applied_offsets())
            curve.append((at, done))
        output = process.communicate()[0]
    if process.returncode:
        raise click.ClickException(f"the task has ended with exit code {process.returncode}")
    found: dict[str, float] = json.loads(output.splitlines()[-1])
    first, before = next((at, done) for at, done in curve if done)
    _, whole = curve[-1]
    last, after = next((at, done) for at, done in curve if done == whole)
    found["later"] = math.nan
    # Else so few changes were there at once.
    if last > first:
        found["later"] = (after - before) / (last - first)
    return found


def checked(addresses: Addresses, target: str) -> None:
    """Raises when source and target do not hold the same numbers of rows and the same sums."""
    query = f"SELECT COUNT(*), SUM(id), SUM(amount), COUNT(note) FROM {backlogs.TABLE}"
    found = []
    source = addresses.source
    connections = (
        pymysql.connect(
            host=source.host, port=source.port, user=source.user, password=source.password
        ),
        postgresql(addresses) if target == "postgresql" else _mariadb(addresses),
    )
    for connection in connections:
        with connection, connection.cursor() as cursor:
            cursor.execute(query)
            found.append(list(map(str, cursor.fetchall()[0])))
    if found[0] != found[1]:
        raise click.ClickException(f"{target} differs from the source: {found[1]}, not {found[0]}")


def _bench(
    addresses: Addresses,
    changes: int,
    topic: str,
    partitions: int,
    folder: Path,
    master: str,
    console: Console,
) -> None:
    columns = (
        "what",
        "changes/s",
        "ratio to bare",
        "after the first rows",
        "ratio",
        "batches",
        "RSS MB",
    )
    table = Table(*columns, title=f"{changes:,} canalRow records, {partitions} partition(s)")
    for target in ("postgresql", "mariadb"):
        bare = _bare(addresses, target, topic, partitions)
        table.add_row(f"bare driver into {target}", f"{bare:,.0f}", "1.00", "", "", "", "")
        emptied(addresses, target)
        file = folder / f"{target}.properties"
        task = load_task(addresses, target, topic, file, master)
        assert isinstance(task.target, JdbcTarget)
        found = in_a_process(file, changes, task.target)
        checked(addresses, target)
        bare_name = "bare COPY and merge" if target == "postgresql" else "bare REPLACE"
        tell(f"{target}, of {bare_name}", found["rate"] / bare)
        tell(f"memory of a load into {target}", found["rss_mb"], "MB", is_less_better=True)
        name = f"processor of a load into {target}, 1,000,000 changes"
        tell(name, found["cpu"] / changes * 1e6, "s", is_less_better=True)
        rates: list[str] = []
        for rate in (found["rate"], found["later"]):
            rates += (f"{rate:,.0f}", f"{rate / bare:.2f}")
        table.add_row(
            f"cdcbus into {target}", *rates, f"{found['batches']:.0f}", f"{found['rss_mb']:.0f}"
        )
    console.print(table)


@click.command()
@click.option("--inserts", default=400_000, show_default=True)
@click.option("--home", type=click.Path(path_type=Path), help="Use the stack in this folder.")
@click.option("--partitions", default=1, show_default=True)
@click.option("--spark-master", "master", default="local[*]", show_default=True)
@click.option("--measure", hidden=True)
def main(
    inserts: int, home: Path | None, partitions: int, master: str, measure: str | None
) -> None:
    """Prints rates and ratios."""
    if measure is not None:
        file, changes = json.loads(measure)
        task = read_task(Path(file)).task
        assert isinstance(task, LoadTask)
        click.echo(json.dumps(_measured(task, changes)))
        return
    own = home is None
    place = home or Path(tempfile.mkdtemp(prefix="cdcbus-bench-"))
    place.chmod(0o755)
    try:
        addresses = up(place, Console(quiet=True))
        backlog = backlogs.write(addresses.source, inserts, 500)
        topic = f"bench-{time.time_ns()}"
        admin = AdminClient({"bootstrap.servers": addresses.kafka})
        for future in admin.create_topics([NewTopic(topic, partitions, 1)]).values():
            future.result()
        publish(fetch_task(addresses.source, addresses.kafka, topic, "canalRow"), backlog)
        with tempfile.TemporaryDirectory() as folder:
            _bench(
                addresses,
                backlog.changes,
                topic,
                partitions,
                Path(folder),
                master,
                Console(width=120),
            )
        with suppress(Exception):
            admin.delete_topics([topic])
    finally:
        if own:
            down(place, purge=True, console=Console(quiet=True))


if __name__ == "__main__":
    main()
