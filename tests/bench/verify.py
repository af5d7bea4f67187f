"""How long it takes to prove that the rows of a table are equal at a target, beside a snapshot of
them into Kafka, in turns within one run.

    .venv/bin/python -m tests.bench.verify [--rows 300000] [--rounds 3] [--home STACK]

The target is PostgreSQL, the key a whole number, the table that of `tests.bench.snapshot`. Times are
those of a whole run, with its start and its end, within one process.
"""

from __future__ import annotations

import json
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import click
import psycopg
from click.testing import CliRunner
from rich.console import Console

from cdcbus.ops.cli.main import main as cdcbus
from cdcbus.ops.stack.addresses import Addresses
from cdcbus.ops.stack.stack import down, up
from cdcbus.plugins.start import Edge
from cdcbus.producer.config import SnapshotMode
from tests.bench.figures import tell
from tests.bench.snapshot import fetched, filled, said, seconds
from tests.integration.producer.reading import fetch_task
from tests.support.properties import properties

COLUMNS = (
    "id bigint PRIMARY KEY, user_id integer, status varchar(20), amount numeric(12,2), created "
    "timestamp(3), note varchar(100), flag smallint, ts timestamptz"
)
FILLED = (
    "SELECT n, n % 1000, (ARRAY['new', 'paid', 'sent'])[1 + n % 3], n::numeric / 7, "
    "timestamp '2024-01-01' + n * interval '1 second', repeat('x', n % 60), n % 2, "
    "'2024-05-05 05:05:05'::timestamptz FROM generate_series(1, {rows}) AS n"
)


@contextmanager
def copied(stack: Addresses, name: str, rows: int) -> Iterator[None]:
    """Copies the same rows to the target."""
    at = stack.postgresql
    with psycopg.connect(
        host=at.host,
        port=at.port,
        user=at.user,
        password=at.password,
        dbname=at.database,
        autocommit=True,
    ) as connection:
        connection.execute(b"SET TIME ZONE 'UTC'")
        connection.execute(f"CREATE SCHEMA {name}".encode())
        try:
            connection.execute(f"CREATE TABLE {name}.t ({COLUMNS})".encode())
            connection.execute(f"INSERT INTO {name}.t {FILLED.format(rows=rows)}".encode())
            connection.execute(f"VACUUM ANALYZE {name}.t".encode())
            yield
        finally:
            connection.execute(f"DROP SCHEMA {name} CASCADE".encode())


def task_files(stack: Addresses, name: str, folder: Path) -> Path:
    """Writes a fetch task and a consumer task. Returns the second file."""
    source, target = stack.source, stack.postgresql
    fetch = {
        "taskId": f"{name}-fetch",
        "consumer.consumerName": "CanalFetch",
        "consumer.source.address": f"{source.host}:{source.port}",
        "consumer.source.username": source.user,
        "consumer.source.password": source.password,
        "consumer.source.database": name,
        "consumer.source.filter": f"{name}\\\\..*",
        "consumer.offset": "latest",
        "loader.loaderName": "KAFKA_SYNC",
        "loader.source.servers": stack.kafka,
        "loader.source.topic": name,
        "loader.source.oggJson": "false",
    }
    load = {
        "taskId": f"{name}-load",
        "consumer.consumerName": "KafkaFetch",
        "consumer.converter": "canalRow",
        "consumer.source.servers": stack.kafka,
        "consumer.source.topics": name,
        "consumer.source.firstConsumeFrom": "earliest",
        "loader.loaderName": "JdbcBatch",
        "loader.source.url": f"jdbc:postgresql://{target.host}:{target.port}/{target.database}",
        "loader.source.userName": target.user,
        "loader.source.password": target.password,
    }
    for keys in (fetch, load):
        file = folder / f"{keys['taskId']}.properties"
        file.write_text(properties(keys))
    return file


def verified(stack: Addresses, file: Path, rows: int) -> None:
    found = CliRunner().invoke(
        cdcbus, ["verify", str(file), "--json", "--zookeeper", stack.zookeeper]
    )
    [table] = json.loads(found.stdout)["tables"]
    if found.exit_code or table["sourceRows"] != rows:
        raise SystemExit(found.output)


@click.command()
@click.option("--rows", default=300_000, help="Of the table.")
@click.option("--rounds", default=3, help="Of each.")
@click.option("--home", type=click.Path(path_type=Path), help="A stack that runs.")
def main(rows: int, rounds: int, home: Path | None) -> None:
    where = home or Path(tempfile.mkdtemp(prefix="cdcbus-bench-"))
    where.chmod(0o755)
    stack = up(where, Console(quiet=True))
    name = "bench" + uuid.uuid4().hex[:8]
    try:
        with (
            filled(stack.source, name, rows),
            copied(stack, name, rows),
            tempfile.TemporaryDirectory() as folder,
        ):
            file = task_files(stack, name, Path(folder))
            task = fetch_task(stack.source, name, servers=stack.kafka)
            once = replace(task, start=Edge.LATEST, snapshot=SnapshotMode.ONLY)
            for _ in range(rounds):
                took = {
                    "snapshot": seconds(lambda: fetched(stack, once, 0)),
                    "verify": seconds(lambda: verified(stack, file, rows)),
                }
                ratio = took["verify"].clock / took["snapshot"].clock
                tell("verify, beside a snapshot", ratio, is_less_better=True)
                click.echo(said(took))
    finally:
        if home is None:
            down(where, purge=True, console=Console(quiet=True))


if __name__ == "__main__":
    main()
