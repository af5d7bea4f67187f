"""How long a row takes from its commit at the source into Kafka: a fetch task, beside bare loops of
the libraries, in turns within one run.

    .venv/bin/python -m tests.bench.fetch_delay [--rows 100] [--rounds 5] [--pause-ms 100]
                                                [--beside PYTHON] [--home STACK]

A delay is from the return of the INSERT, which commits, until a consumer that polls without a pause
has the record: it gets acknowledged records. `bare decoding` is python-mysql-replication alone,
until it has the row; `bare loop` also sends and flushes each of its rows. `--beside` names the
Python of another installation, whose fetch task takes turns with this one's.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from statistics import quantiles
from typing import Any

import click
import pymysql
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from pymysqlreplication import BinLogStreamReader
from pymysqlreplication.row_event import WriteRowsEvent
from rich.console import Console
from rich.table import Table

from cdcbus.ops.stack.addresses import Addresses, Database
from cdcbus.ops.stack.stack import down, up
from cdcbus.producer.server import connection as servers
from tests.bench.figures import tell
from tests.support.processes.bus import fetch_text
from tests.support.topics.new_topics import create_topics
from tests.support.waiting import wait_until

WARM_UP_ROWS = 20


def _login(source: Database) -> dict[str, Any]:
    return {
        "host": source.host,
        "port": source.port,
        "user": source.user,
        "password": source.password,
    }


class Seen:
    """When each row was seen in a topic, or by a loop. Rows come in order."""

    def __init__(self) -> None:
        self.at: list[float] = []

    def now(self, rows: int = 1) -> None:
        self.at += [time.perf_counter()] * rows


def _watch(kafka: str, topic: str, seen: Seen, stop: threading.Event) -> None:
    options = {"bootstrap.servers": kafka, "group.id": topic, "fetch.wait.max.ms": 10}
    with closing(Consumer(options)) as consumer:
        consumer.assign([TopicPartition(topic, 0, 0)])
        while not stop.is_set():
            if consumer.poll(0.1) is not None:
                seen.now()


def _decoding(source: Database, schema: str, each: Callable[[], object]) -> Callable[[], None]:
    """A loop that calls `each` for each row from now on, until that returns False."""
    with pymysql.connect(**_login(source)) as connection:
        end = servers.latest_position(connection)
    reader = BinLogStreamReader(
        connection_settings=_login(source),
        server_id=90_002,
        blocking=True,
        only_events=[WriteRowsEvent],
        only_schemas=[schema],
        log_file=end.file,
        log_pos=end.pos,
        resume_stream=True,
    )

    def run() -> None:
        for event in reader:
            for _ in event.rows:
                if each() is False:
                    return

    return run


@contextmanager
def _fetch_task(
    python: str, addresses: Addresses, folder: Path, topic: str, schema: str
) -> Iterator[None]:
    file, log = folder / f"{topic}.properties", folder / f"{topic}.log"
    text = fetch_text(topic, addresses.source, addresses.kafka, schema)
    file.write_text(
        text.replace("${env:SOURCE_PASSWORD}", addresses.source.password).replace(
            f"loader.source.topic={schema}", f"loader.source.topic={topic}"
        )
    )
    words = [python, "-m", "cdcbus", "task", "run", str(file)]
    with (
        log.open("wb") as output,
        subprocess.Popen(
            [*words, "--zookeeper", addresses.zookeeper], stderr=output, cwd=folder
        ) as running,
    ):
        try:
            wait_until(lambda: "reads the binlog from" in log.read_text(), "the fetch task")
            yield
        finally:
            running.terminate()


def _insert(cursor: Any, rows: int, first: int, pause_seconds: float) -> list[float]:
    committed = []
    for number in range(first, first + rows):
        cursor.execute("INSERT INTO orders VALUES (%s, %s, %s)", (number, f"name {number}", number))
        committed.append(time.perf_counter())
        time.sleep(pause_seconds)
    return committed


def _measured(seen: Seen, cursor: Any, first: int, rows: int, pause_seconds: float) -> list[float]:
    _insert(cursor, WARM_UP_ROWS, first, pause_seconds / 10)
    wait_until(lambda: len(seen.at) == WARM_UP_ROWS, "the first rows")
    committed = _insert(cursor, rows, first + WARM_UP_ROWS, pause_seconds)
    wait_until(lambda: len(seen.at) == WARM_UP_ROWS + rows, "all rows")
    pairs = zip(seen.at[WARM_UP_ROWS:], committed, strict=True)
    return [(at - done) * 1000 for at, done in pairs]


class Bench:
    def __init__(self, addresses: Addresses, cursor: Any, folder: Path, schema: str) -> None:
        self._addresses, self._cursor, self._folder = addresses, cursor, folder
        self._schema = schema
        self._admin = AdminClient({"bootstrap.servers": addresses.kafka})
        self._first = self._number = 0

    def run(self, what: str, rows: int, pause_seconds: float) -> list[float]:
        """Delays in milliseconds. `what`: a loop, or the Python of a fetch task."""
        seen, stop = Seen(), threading.Event()
        self._number += 1
        topic = f"{self._schema}-{self._number}"
        create_topics(self._admin, NewTopic(topic, 1, 1))
        watching = threading.Thread(
            target=_watch, args=(self._addresses.kafka, topic, seen, stop), daemon=True
        )
        source = self._addresses.source
        try:
            if what == "bare decoding":
                left = iter(range(WARM_UP_ROWS + rows - 1))

                def each() -> bool:
                    seen.now()
                    return next(left, None) is not None

                return self._with(_decoding(source, self._schema, each), seen, rows, pause_seconds)
            watching.start()
            if what == "bare loop":
                left = iter(range(WARM_UP_ROWS + rows - 1))
                producer = Producer(
                    {"bootstrap.servers": self._addresses.kafka, "linger.ms": 0, "acks": "all"}
                )

                def send() -> bool:
                    producer.produce(topic, b"x" * 200)
                    producer.flush()
                    return next(left, None) is not None

                return self._with(_decoding(source, self._schema, send), seen, rows, pause_seconds)
            with _fetch_task(what, self._addresses, self._folder, topic, self._schema):
                return self._delays(seen, rows, pause_seconds)
        finally:
            stop.set()
            if watching.ident:
                watching.join()
            self._admin.delete_topics([topic])[topic].result(60)

    def _with(
        self, loop: Callable[[], None], seen: Seen, rows: int, pause_seconds: float
    ) -> list[float]:
        running = threading.Thread(target=loop, daemon=True)
        running.start()
        found = self._delays(seen, rows, pause_seconds)
        running.join()
        return found

    def _delays(self, seen: Seen, rows: int, pause_seconds: float) -> list[float]:
        first, self._first = self._first, self._first + WARM_UP_ROWS + rows
        return _measured(seen, self._cursor, first, rows, pause_seconds)


@click.command()
@click.option("--rows", default=100, show_default=True)
@click.option("--rounds", default=5, show_default=True)
@click.option("--pause-ms", default=100.0, show_default=True)
@click.option("--beside", help="The Python of another installation.")
@click.option("--home", type=click.Path(path_type=Path), help="Use the stack in this folder.")
def main(rows: int, rounds: int, pause_ms: float, beside: str | None, home: Path | None) -> None:
    """Prints the delays."""
    console = Console(width=120)
    own = home is None
    place = home or Path(tempfile.mkdtemp(prefix="cdcbus-bench-"))
    place.chmod(0o755)
    cases = ["bare decoding", "bare loop", *([beside] if beside else []), sys.executable]
    try:
        addresses = up(place, Console(quiet=True))
        schema = f"bench{time.time_ns()}"
        with (
            pymysql.connect(**_login(addresses.source), autocommit=True) as connection,
            connection.cursor() as cursor,
            tempfile.TemporaryDirectory() as folder,
        ):
            cursor.execute(f"CREATE DATABASE {schema}")
            cursor.execute(f"USE {schema}")
            cursor.execute("CREATE TABLE orders (id INT PRIMARY KEY, name VARCHAR(40), amount INT)")
            bench = Bench(addresses, cursor, Path(folder), schema)
            found: dict[str, list[float]] = {what: [] for what in cases}
            for _ in range(rounds):
                for what in cases:
                    found[what] += bench.run(what, rows, pause_ms / 1000)
            cursor.execute(f"DROP DATABASE {schema}")
        table = Table(
            "what",
            "p50 ms",
            "p95 ms",
            "p99 ms",
            title=f"{rows * rounds} rows each, {pause_ms:g} ms",
        )
        for what, delays in found.items():
            cuts = quantiles(delays, n=100)
            if what == sys.executable:
                ours = cuts[49] / quantiles(found["bare loop"], n=100)[49]
                tell("delay into Kafka, p50, beside a bare loop", ours, is_less_better=True)
                for percent in (50, 95, 99):
                    name = f"delay into Kafka, p{percent}"
                    tell(name, cuts[percent - 1], "ms", is_less_better=True)
            table.add_row(what, *(f"{cuts[percent - 1]:.1f}" for percent in (50, 95, 99)))
        console.print(table)
    finally:
        if own:
            down(place, purge=True, console=Console(quiet=True))


if __name__ == "__main__":
    main()
