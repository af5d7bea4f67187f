"""How soon a consumer task without lag applies its next row: after its start, and after a kill -9
on a node.

    .venv/bin/python -m tests.bench.start [--starts 6] [--kills 3] [--home STACK]

Start: from the start of a process of its own until PostgreSQL has the row that came into Kafka
before it; the process is killed and stopped in turn. Kill: from the kill -9 of the process in which
a node runs the task until PostgreSQL has a row that came into Kafka right after it.
"""

from __future__ import annotations

import os
import signal
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median

import click
import psycopg
import pymysql
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from rich.console import Console

from cdcbus.ops.stack.addresses import Addresses
from cdcbus.ops.stack.stack import down, up
from cdcbus.plugins.converters.canal_row import CanalRow
from cdcbus.plugins.rowchange import Column, Op, RowChange, Table, TableId
from tests.bench.figures import tell
from tests.support.changes.shop import Shop, open_shop
from tests.support.processes.bus import load_text, open_bus
from tests.support.topics.kafka_producer import kafka_producer
from tests.support.topics.new_topics import create_topics
from tests.support.waiting import wait_until

PATIENCE_SECONDS = 60.0


@contextmanager
def open_table(addresses: Addresses, folder: Path) -> Iterator[tuple[Shop, Callable[[int], None]]]:
    """A shop with a table and a topic of its name, and a function that sends a row to the topic."""
    name, source = f"bench{time.time_ns()}", addresses.source
    admin = AdminClient({"bootstrap.servers": addresses.kafka})
    create_topics(admin, NewTopic(name, 1, 1))
    table = Table(TableId(name, "t"), (Column("id", "int"), Column("v", "int")), ("id",))
    producer = kafka_producer(addresses.kafka, {"linger.ms": 0})

    def put(number: int) -> None:
        change = RowChange(table, Op.INSERT, None, {"id": str(number), "v": "1"})
        producer.produce(name, CanalRow().to_bytes(change), b"%d" % number)
        producer.flush()

    with (
        pymysql.connect(
            host=source.host,
            port=source.port,
            user=source.user,
            password=source.password,
            autocommit=True,
        ) as connection,
        connection.cursor() as cursor,
        open_shop(name, addresses, cursor, folder) as shop,
    ):
        cursor.execute(f"CREATE DATABASE {name}")
        cursor.execute(f"USE {name}")
        shop.create("t", "id INT PRIMARY KEY, v INT")
        yield shop, put
        cursor.execute(f"DROP DATABASE {name}")


def _seconds_to(shop: Shop, number: int, since: float) -> float:
    at = shop.addresses.postgresql
    with psycopg.connect(
        host=at.host,
        port=at.port,
        user=at.user,
        password=at.password,
        dbname=at.database,
        autocommit=True,
    ) as target:
        query = f"SELECT count(*) FROM {shop.name}.t".encode()
        while (row := target.execute(query).fetchone()) is None or row[0] < number:
            if time.perf_counter() - since > PATIENCE_SECONDS:
                raise click.ClickException(f"row {number} has not come")
            time.sleep(0.005)
    return time.perf_counter() - since


def starts(shop: Shop, put: Callable[[int], None], count: int) -> list[float]:
    """Seconds of each start."""
    load, found = shop.load("postgresql"), []
    for number in range(1, count + 1):
        put(number)
        begun = time.perf_counter()
        load.start()
        found.append(_seconds_to(shop, number, begun))
        wait_until(lambda: shop.is_applied(load), "the position", PATIENCE_SECONDS)
        if number % 2:
            load.kill()
        else:
            load.ask_to_stop()
            load.await_stop()
    return found


def kills(shop: Shop, put: Callable[[int], None], count: int, folder: Path) -> list[float]:
    """Seconds from each kill."""
    addresses, found = shop.addresses, []
    password = addresses.postgresql.password
    with open_bus(addresses.zookeeper, shop.name, folder, TARGET_PASSWORD=password) as bus:
        bus.load(load_text("t", addresses, shop.name))
        bus.node("n1")
        bus.tasks.want("t", True, "bench")
        put(1)
        _seconds_to(shop, 1, time.perf_counter())
        for number in range(2, count + 2):
            os.kill(bus.runner("t"), signal.SIGKILL)
            begun = time.perf_counter()
            put(number)
            found.append(_seconds_to(shop, number, begun))
    return found


def _listed(found: Sequence[float]) -> str:
    return " ".join(f"{seconds:.2f}" for seconds in found)


@click.command()
@click.option("--starts", "start_count", default=6, show_default=True)
@click.option("--kills", "kill_count", default=3, show_default=True)
@click.option("--home", type=click.Path(path_type=Path), help="Use the stack in this folder.")
def main(start_count: int, kill_count: int, home: Path | None) -> None:
    """Prints seconds."""
    own = home is None
    place = home or Path(tempfile.mkdtemp(prefix="cdcbus-bench-"))
    place.chmod(0o755)
    try:
        addresses = up(place, Console(quiet=True))
        with tempfile.TemporaryDirectory() as folder:
            with open_table(addresses, Path(folder)) as (shop, put):
                found = starts(shop, put, start_count)
                tell("start to the first row", median(found), "s", is_less_better=True)
                click.echo(f"start to the first row: {_listed(found)} s")
            with open_table(addresses, Path(folder)) as (shop, put):
                found = kills(shop, put, kill_count, Path(folder))
                tell("kill -9 to the next row", median(found), "s", is_less_better=True)
                click.echo(f"kill -9 to the next row: {_listed(found)} s")
    finally:
        if own:
            down(place, purge=True, console=Console(quiet=True))


if __name__ == "__main__":
    main()
