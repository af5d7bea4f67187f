"""How fast a direct load is, beside a dump to files and COPY by hand: in one run, as a ratio.

    .venv/bin/python -m tests.bench.direct [--rows 1000000] [--home STACK] [--readers 4]

The same rows both ways, into an empty table with a primary key on PostgreSQL. By hand: the server
writes the table into a file (SELECT INTO OUTFILE, as `mysqldump --tab` does), then psycopg copies
the file as it is; the first step uses no network at all. The load is the whole command, and beside
that its own time without the start of Python and Spark: from the first chunk's SELECT to the last
commit.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import click
import psycopg
import pymysql
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from rich.console import Console

from cdcbus.ops.demo.tasks import TaskProcess
from cdcbus.ops.stack.addresses import Addresses
from cdcbus.ops.stack.stack import down, up
from cdcbus.tasks.zookeeper.connection import connect
from cdcbus.tasks.zookeeper.position.znodes import position_path
from tests.bench import backlog as backlogs
from tests.bench.consumer import POSTGRESQL_COLUMNS
from tests.bench.figures import tell
from tests.support.topics.new_topics import create_topics
from tests.support.waiting import wait_until

SCHEMA = backlogs.SCHEMA


def _postgresql(addresses: Addresses) -> psycopg.Connection[Any]:
    target = addresses.postgresql
    return psycopg.connect(
        host=target.host,
        port=target.port,
        user=target.user,
        password=target.password,
        dbname=target.database,
        autocommit=True,
    )


def _empty(addresses: Addresses) -> None:
    with _postgresql(addresses) as connection:
        connection.execute(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}".encode())
        connection.execute(f"DROP TABLE IF EXISTS {SCHEMA}.orders".encode())
        connection.execute(f"CREATE TABLE {SCHEMA}.orders ({POSTGRESQL_COLUMNS})".encode())
        connection.execute(b"CHECKPOINT")


def by_hand(addresses: Addresses) -> float:
    """Seconds of dump and COPY."""
    _empty(addresses)
    source = addresses.source
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o777)  # noqa: PTH101  # the server writes there
        file = Path(folder, "orders.txt")
        began = time.perf_counter()
        with (
            pymysql.connect(
                host=source.host, port=source.port, user=source.user, password=source.password
            ) as connection,
            connection.cursor() as cursor,
        ):
            cursor.execute(
                f"SELECT * INTO OUTFILE '{file}' CHARACTER SET utf8mb4 FROM {SCHEMA}.orders"
            )
        dumped = time.perf_counter()
        with (
            _postgresql(addresses) as target,
            target.cursor() as copying,
            copying.copy(f"COPY {SCHEMA}.orders FROM STDIN".encode()) as copy,
            file.open("rb") as dump,
        ):
            while data := dump.read(1 << 20):
                copy.write(data)
        done = time.perf_counter()
    print(f"by hand: dump {dumped - began:.1f} s, COPY {done - dumped:.1f} s")
    return done - began


def directly(addresses: Addresses, folder: Path, readers: int) -> tuple[float, float]:
    """Seconds of the command, and of its chunks."""
    _empty(addresses)
    name, source, target = f"bench{time.time_ns():x}", addresses.source, addresses.postgresql
    admin = AdminClient({"bootstrap.servers": addresses.kafka})
    create_topics(admin, NewTopic(name, 2, 1))
    fetch = _task(
        addresses,
        folder,
        f"{name}-fetch",
        f"""
consumer.consumerName=CanalFetch
consumer.source.address={source.host}:{source.port}
consumer.source.username={source.user}
consumer.source.password={source.password}
consumer.source.database={SCHEMA}
consumer.source.filter={SCHEMA}\\\\.orders
consumer.offset=latest
loader.loaderName=KAFKA_SYNC
loader.source.servers={addresses.kafka}
loader.source.topic={name}
loader.source.oggJson=false
""",
    )
    load = _task(
        addresses,
        folder,
        f"{name}-load",
        f"""
consumer.consumerName=KafkaFetch
consumer.converter=canalRow
consumer.source.servers={addresses.kafka}
consumer.source.topics={name}
loader.loaderName=JdbcBatch
loader.source.url=jdbc:postgresql://{target.host}:{target.port}/{target.database}
loader.source.userName={target.user}
loader.source.password={target.password}
""",
    )
    fetch.start()
    try:
        _wait_for_position(addresses, fetch)
        command = [sys.executable, "-m", "cdcbus", "snapshot", "run", str(load.file), "--direct"]
        command += ["--source", str(fetch.file), "--readers", str(readers), "--json"]
        began = time.perf_counter()
        done = subprocess.run(
            command, env=load.environment, check=True, stdout=subprocess.PIPE, text=True
        )
        seconds = time.perf_counter() - began
    finally:
        fetch.kill()
    [table] = json.loads(done.stdout)["tables"]
    return seconds, table["rows"] / table["rowsPerSecond"]


def _wait_for_position(addresses: Addresses, fetch: TaskProcess) -> None:
    client = connect(addresses.zookeeper)
    try:
        path = position_path(fetch.task_id, SCHEMA)
        wait_until(lambda: client.exists(path) is not None, "a position", 60)
    finally:
        client.stop()
        client.close()


def _task(addresses: Addresses, folder: Path, task_id: str, lines: str) -> TaskProcess:
    file = folder / f"{task_id}.properties"
    file.write_text(f"taskId={task_id}{lines}")
    return TaskProcess(task_id, file, folder / f"{task_id}.log", addresses.zookeeper, folder)


@click.command()
@click.option("--rows", default=1_000_000, show_default=True)
@click.option("--readers", default=4, show_default=True)
@click.option("--home", type=click.Path(path_type=Path), help="A stack that runs already.")
@click.option("--keep", is_flag=True, help="The source table is there from a run before.")
def main(rows: int, readers: int, home: Path | None, keep: bool) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        addresses = up(home or folder / "stack", Console(quiet=True))
        try:
            if not keep:
                backlogs.write(addresses.source, rows, 1_000)
            hand = by_hand(addresses)
            whole, chunks = directly(addresses, folder, readers)
            tell("direct load, of files and COPY", hand / whole)
            print(f"directly: {whole:.1f} s, of which chunks {chunks:.1f} s")
            print(f"ratio: {hand / whole:.2f} of the command, {hand / chunks:.2f} of its chunks")
        finally:
            if home is None:
                down(folder / "stack", purge=True, console=Console(quiet=True))


if __name__ == "__main__":
    main()
