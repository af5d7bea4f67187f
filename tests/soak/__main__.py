"""Hours under a load that changes, with a kill each minute: nothing may grow, and source and
targets are equal at the end.

    .venv/bin/python -m tests.soak [--hours 2] [--kill-seconds 60] [--home STACK]
                                   [--json FILE] [--picture FILE]

Two buses read one source, each a node with a fetch task and a consumer task. The tasks of the first
are killed or stopped for some seconds in turn; those of the second live as long as the soak.
Sampled are memory, threads and open files of each process with those below it, nodes in ZooKeeper,
temporary files, binlog dumps at the source and sessions at the target. Exit code 1 where something
grows or rows differ; the output and the curves show what.
"""

from __future__ import annotations

import json
import math
import os
import random
import signal
import sys
import tempfile
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from threading import Event, Thread
from typing import Any

import click
import pymysql
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from kazoo.exceptions import NoNodeError
from rich.console import Console

from cdcbus.ops.stack.addresses import Addresses
from cdcbus.ops.stack.stack import down, up
from cdcbus.plugins.task_status import State
from tests.integration.producer.reading import connect
from tests.soak.picture import svg
from tests.soak.samples import Series, held
from tests.support.processes.bus import Bus, fetch_text, load_text, open_bus, postgresql_schema
from tests.support.topics.new_topics import create_topics
from tests.support.waiting import wait_until

ROWS = 20_000
BURST_ROWS, BURST_SECONDS = 30_000, 600.0
SAMPLE_SECONDS = 10.0
STOPPED_SECONDS = 5.0
PATIENCE_SECONDS = 600.0
COLUMNS = "id INT PRIMARY KEY, n INT, note VARCHAR(200)"
SLACK = {"memory": 40.0, "threads": 6.0, "files": 16.0}
UNITS = {"memory": "MB", "threads": "threads", "files": "open files"}
Query = Callable[[str], Any]


class Soak:
    """`killed` and `steady` are the two buses; their tasks are called fetch and load."""

    def __init__(
        self, addresses: Addresses, name: str, buses: dict[str, Bus], target: Query
    ) -> None:
        self._addresses, self._name, self._buses, self._target = addresses, name, buses, target
        self.began = time.monotonic()
        self.kills: list[float] = []
        self._found: dict[str, list[tuple[float, float]]] = defaultdict(list)
        self._units: dict[str, tuple[str, float]] = {}

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.began

    def sample(self) -> None:
        """Takes a sample now."""
        for name, bus in self._buses.items():
            processes = {"node": bus.nodes["n1"].pid}
            processes |= {task: bus.runner(task) for task in ("fetch", "load")}
            for process, pid in processes.items():
                for what, value in held(pid).items() if pid else ():
                    label = f"{what} of {process}, {name}"
                    self._note(label, value, UNITS[what], SLACK[what])
            self._note(f"ZooKeeper nodes, {name}", _count(bus), "nodes", 30)
            files = sum(1 for each in bus.folder.rglob("*") if each.is_file())
            self._note(f"temporary files, {name}", files, "files", 20)
        with connect(self._addresses.source) as connection, connection.cursor() as cursor:
            cursor.execute("SHOW PROCESSLIST")
            dumps = sum("Binlog Dump" in str(row[4]) for row in cursor.fetchall())
        self._note("binlog dumps at the source", dumps, "dumps", 1)
        ((sessions,),) = self._target("SELECT count(*) FROM pg_stat_activity").fetchall()
        self._note("sessions at PostgreSQL", sessions, "sessions", 4)

    def _note(self, name: str, value: float, unit: str, slack: float) -> None:
        self._found[name].append((round(self.seconds, 1), value))
        self._units[name] = (unit, slack)

    @property
    def series(self) -> list[Series]:
        return [Series(name, *self._units[name], values) for name, values in self._found.items()]

    def hurt(self, chance: random.Random) -> str:
        """Kills a task of the first bus, or stops it for a while; says which."""
        bus = self._buses["killed"]
        task, is_stop = chance.choice(("fetch", "load")), chance.random() < 0.25
        pid = bus.runner(task)
        if not pid:
            return f"{task} does not run"
        self.kills.append(self.seconds)
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP if is_stop else signal.SIGKILL)
            if is_stop:
                time.sleep(STOPPED_SECONDS)
                os.kill(pid, signal.SIGCONT)
        return f"{task} {'stopped for a while' if is_stop else 'killed'}"

    def differing(self) -> list[str]:
        """The buses whose table is not the source's."""
        with connect(self._addresses.source) as connection, connection.cursor() as cursor:
            cursor.execute(f"SELECT id, n, note FROM {self._name}.t ORDER BY id")
            rows = list(cursor.fetchall())
        return [
            name
            for name in self._buses
            if self._target(
                f"SELECT id, n, note FROM {self._name}.t ORDER BY id"
                if name == "killed"
                else f"SELECT id, n, note FROM {self._name}_steady.t ORDER BY id"
            ).fetchall()
            != rows
        ]


def _count(bus: Bus, path: str = "/") -> int:
    try:
        children = bus.client.get_children(path)
    except NoNodeError:
        return 0
    return 1 + sum(_count(bus, f"{path.rstrip('/')}/{child}") for child in children)


@contextmanager
def writing(addresses: Addresses, name: str, seed: int) -> Iterator[None]:
    """Changes rows, from a few a second to two hundred and back within minutes; now and then many
    in one statement."""
    over = Event()

    def run() -> None:
        chance, began, burst = random.Random(seed), time.monotonic(), BURST_SECONDS
        with connect(addresses.source) as connection, connection.cursor() as cursor:
            while not over.is_set():
                at = time.monotonic() - began
                id_ = chance.randrange(ROWS)
                with suppress(pymysql.OperationalError):
                    cursor.execute(
                        chance.choice(
                            (
                                f"UPDATE {name}.t SET n = n + 1 WHERE id = {id_}",
                                f"DELETE FROM {name}.t WHERE id = {id_}",
                                f"REPLACE INTO {name}.t VALUES ({id_}, 0, REPEAT('é', {id_ % 90}))",
                            )
                        )
                    )
                    if at > burst:
                        burst += BURST_SECONDS
                        cursor.execute(f"UPDATE {name}.t SET n = n + 1")
                        cursor.execute(
                            f"REPLACE INTO {name}.t SELECT seq % {ROWS}, seq, 'many' "
                            f"FROM seq_1_to_{BURST_ROWS}"
                        )
                over.wait(1 / (5 + 195 * abs(math.sin(at / 200))))

    thread = Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _started(addresses: Addresses, name: str, schema: str, bus: Bus) -> None:
    topic = f"{schema}-topic"
    admin = AdminClient({"bootstrap.servers": addresses.kafka})
    create_topics(admin, NewTopic(topic, 2, 1))
    # of two readers with one task id each would end the other
    keys = {"consumer.source.slaveId": str(random.randrange(10**6, 10**9))}
    text = fetch_text("fetch", addresses.source, addresses.kafka, name, **keys)
    bus.load(text.replace(f"source.topic={name}", f"source.topic={topic}"))
    mapped = {} if schema == name else {"mapper[0].schema": f"{name},{schema}"}
    bus.load(load_text("load", addresses, topic, **mapped))
    bus.node("n1")
    for task in ("fetch", "load"):
        bus.tasks.want(task, True, "soak")
    wait_until(
        lambda: all(bus.status(task).state is State.WORKING for task in ("fetch", "load")),
        "both tasks to work",
        PATIENCE_SECONDS,
    )


def soaked(
    addresses: Addresses, folder: Path, seconds: float, kill_seconds: float, console: Console
) -> tuple[Soak, list[str]]:
    """The samples, and a sentence for each thing that is wrong."""
    name, seed = "soak" + uuid.uuid4().hex[:8], random.randrange(10**9)
    console.print(f"seed {seed}")
    chance = random.Random(seed)
    secrets = {
        "SOURCE_PASSWORD": addresses.source.password,
        "TARGET_PASSWORD": addresses.postgresql.password,
    }
    with ExitStack() as stack:
        source = stack.enter_context(connect(addresses.source))
        cursor = stack.enter_context(source.cursor())
        cursor.execute(f"CREATE DATABASE {name}")
        cursor.execute(f"CREATE TABLE {name}.t ({COLUMNS}) CHARACTER SET utf8mb4")
        target: Any = stack.enter_context(postgresql_schema(addresses, name))
        stack.enter_context(postgresql_schema(addresses, f"{name}_steady"))
        buses = {}
        for kind, schema in (("killed", name), ("steady", f"{name}_steady")):
            target(f"CREATE TABLE {schema}.t ({COLUMNS})")
            (folder / kind).mkdir()
            bus = open_bus(addresses.zookeeper, schema, folder / kind, **secrets)
            buses[kind] = stack.enter_context(bus)
            _started(addresses, name, schema, buses[kind])
        soak = Soak(addresses, name, buses, target)
        with writing(addresses, name, seed):
            next_kill = kill_seconds
            while soak.seconds < seconds:
                soak.sample()
                if soak.seconds > next_kill:
                    next_kill += kill_seconds
                    console.print(f"{soak.seconds / 60:6.1f} min  {soak.hurt(chance)}")
                time.sleep(SAMPLE_SECONDS)
        wrong = [each.verdict for each in soak.series if each.verdict]
        try:
            wait_until(lambda: not soak.differing(), "equal rows", PATIENCE_SECONDS)
        except AssertionError:
            wrong += [f"the target of the {each} tasks differs" for each in soak.differing()]
        cursor.execute(f"DROP DATABASE {name}")
    return soak, wrong


@click.command()
@click.option("--hours", default=2.0, show_default=True)
@click.option("--kill-seconds", default=60.0, show_default=True)
@click.option("--home", type=click.Path(path_type=Path), help="A stack that runs already.")
@click.option("--json", "file", type=click.Path(path_type=Path), help="Keeps all samples there.")
@click.option("--picture", type=click.Path(path_type=Path), help="Draws the curves there.")
def main(
    hours: float, kill_seconds: float, home: Path | None, file: Path | None, picture: Path | None
) -> None:
    """Prints what has grown, and whether all rows have arrived."""
    console = Console()
    with tempfile.TemporaryDirectory(prefix="cdcbus-soak-") as scratch:
        folder = Path(scratch)
        folder.chmod(0o755)
        addresses = up(home or folder / "stack", Console(quiet=True))
        try:
            soak, wrong = soaked(addresses, folder, hours * 3600, kill_seconds, console)
        finally:
            if home is None:
                down(folder / "stack", purge=True, console=Console(quiet=True))
    if file is not None:
        found = {each.name: each.values for each in soak.series}
        file.write_text(json.dumps({"kills": soak.kills, "series": found}) + "\n")
    if picture is not None:
        picture.write_text(svg(soak.series, soak.kills, soak.seconds), encoding="utf-8")
    for sentence in wrong:
        console.print(f"[red]{sentence}[/red]")
    console.print(f"{len(soak.kills)} kills in {soak.seconds / 3600:.2f} hours: ", end="")
    console.print("something is wrong" if wrong else "nothing has grown, all rows are equal")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
