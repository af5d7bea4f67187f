"""How long a row takes from its commit at the source until the target shows it: end to end, one row
after the other.

    .venv/bin/python -m tests.bench.delay [--target postgresql] [--rows 600] [--pause-ms 50] [--home
    STACK]

A fetch task and a consumer task run as they do for users, with their defaults. Delay is from the
return of the INSERT at the source to the first look at the target that finds the row; the target is
polled without a pause. The first third of the rows warms up, and does not count. For PostgreSQL
`tests/bench/bare_loop.py` then does the consumer task's work, for as many rows.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import threading
import time
from contextlib import closing
from pathlib import Path
from statistics import quantiles
from typing import Any

import click
import psycopg
import pymysql
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from rich.console import Console

from cdcbus.ops.stack.stack import down, up
from tests.bench.figures import tell
from tests.support.changes.shop import Shop, open_shop
from tests.support.waiting import wait_until

PATIENCE_SECONDS = 240.0


def _seen(shop: Shop, target: str, first: int, rows: int) -> list[float]:
    """When each row, from number `first` on, was first seen at the target."""
    at, seen = getattr(shop.addresses, target), list[float]()
    login = {
        "host": at.host,
        "port": at.port,
        "user": at.user,
        "password": at.password,
        "autocommit": True,
    }
    give_up = time.monotonic() + PATIENCE_SECONDS + rows
    with closing(
        psycopg.connect(dbname=at.database, **login)
        if target == "postgresql"
        else pymysql.connect(**login)
    ) as connection:
        cursor: Any = connection.cursor()
        while len(seen) < rows and time.monotonic() < give_up:
            cursor.execute(f"SELECT max(id) FROM {shop.name}.orders")
            last, now = cursor.fetchone()[0] or 0, time.perf_counter()
            seen += [now] * (last - first + 1 - len(seen))
            time.sleep(0.002)
    return seen


def _delays(
    shop: Shop, target: str, rows: int, pause_seconds: float, first: int = 1
) -> list[float]:
    found: list[float] = []
    looking = threading.Thread(target=lambda: found.extend(_seen(shop, target, first, rows)))
    looking.start()
    committed = []
    for number in range(first, first + rows):
        shop.cursor.execute(
            "INSERT INTO orders VALUES (%s, %s, %s)", (number, f"name {number}", number * 3)
        )
        committed.append(time.perf_counter())
        time.sleep(pause_seconds)
    looking.join()
    if len(found) < rows:
        raise click.ClickException("not all rows have come")
    return [seen - done for seen, done in zip(found, committed, strict=True)]


def _bare_delays(shop: Shop, rows: int, pause_seconds: float) -> list[float]:
    """The same rows through a bare loop in place of the consumer task."""
    at = shop.addresses.postgresql
    login = f"postgresql://{at.user}:{at.password}@{at.host}:{at.port}/{at.database}"
    arguments = [shop.addresses.kafka, shop.name, login, f"{shop.name}.orders"]
    command = [sys.executable, "-m", "tests.bench.bare_loop", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as loop:
        try:
            assert loop.stdout is not None
            loop.stdout.readline()
            return _delays(shop, "postgresql", rows, pause_seconds, rows + 1)
        finally:
            loop.kill()


def _cuts_ms(delays: list[float]) -> list[float]:
    """The percentiles from the first to the 99th, without the rows that warm up."""
    return [cut * 1000 for cut in quantiles(delays[len(delays) // 3 :], n=100)]


def _shown(cuts_ms: list[float]) -> str:
    return f"p50 {cuts_ms[49]:.1f}, p95 {cuts_ms[94]:.1f}, p99 {cuts_ms[98]:.1f} ms"


@click.command()
@click.option(
    "--target",
    type=click.Choice(["postgresql", "mariadb"]),
    default="postgresql",
    show_default=True,
)
@click.option("--rows", default=600, show_default=True)
@click.option("--pause-ms", default=50.0, show_default=True)
@click.option("--home", type=click.Path(path_type=Path), help="Use the stack in this folder.")
def main(target: str, rows: int, pause_ms: float, home: Path | None) -> None:
    """Prints the delays."""
    own = home is None
    place = home or Path(tempfile.mkdtemp(prefix="cdcbus-bench-"))
    place.chmod(0o755)
    try:
        addresses = up(place, Console(quiet=True))
        name, source = f"bench{time.time_ns()}", addresses.source
        admin = AdminClient({"bootstrap.servers": addresses.kafka})
        for future in admin.create_topics([NewTopic(name, 1, 1)]).values():
            future.result(60)
        with (
            pymysql.connect(
                host=source.host,
                port=source.port,
                user=source.user,
                password=source.password,
                autocommit=True,
            ) as connection,
            connection.cursor() as cursor,
            tempfile.TemporaryDirectory() as folder,
            open_shop(name, addresses, cursor, Path(folder)) as shop,
        ):
            cursor.execute(f"CREATE DATABASE {name}")
            cursor.execute(f"USE {name}")
            shop.create("orders", "id INT PRIMARY KEY, name VARCHAR(40), amount INT")
            fetch = shop.fetch(source)
            fetch.start()
            wait_until(
                lambda: shop.position(fetch) is not None,
                "the fetch task's first position",
                PATIENCE_SECONDS,
            )
            load = shop.load(target)
            load.start()
            wait_until(
                lambda: shop.position(load) is not None,
                "the consumer task's first position",
                PATIENCE_SECONDS,
            )
            pause = pause_ms / 1000
            ours = _cuts_ms(_delays(shop, target, rows, pause))
            every = f"a row each {pause_ms:g} ms"
            for percent in (50, 95, 99):
                figure = f"delay into {target}, p{percent}, {every}"
                tell(figure, ours[percent - 1], "ms", is_less_better=True)
            click.echo(f"{target}, {every}: {_shown(ours)}")
            if target == "postgresql":
                load.ask_to_stop()
                load.await_stop()
                bare = _cuts_ms(_bare_delays(shop, rows, pause))
                ratio = ours[49] / bare[49]
                tell(
                    f"delay into {target}, p50, beside a bare loop, {every}",
                    ratio,
                    is_less_better=True,
                )
                click.echo(f"a bare loop: {_shown(bare)}; the task's p50 is {ratio:.2f} times that")
            cursor.execute(f"DROP DATABASE {name}")
    finally:
        if own:
            down(place, purge=True, console=Console(quiet=True))


if __name__ == "__main__":
    main()
