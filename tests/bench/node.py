"""What one node costs with many consumer tasks, and how fast they are: memory and CPU of idle
tasks, delay of rows that arrive slowly.

    .venv/bin/python -m tests.bench.node [--idle 50] [--active 20] [--rows 5] [--seconds 30] [--home
    STACK]

First `--idle` tasks that have nothing to do: memory of the node's processes, and their CPU time
beside what the broker and ZooKeeper use more than without them. Then `--rows` rows a second for
each of `--active` of them, for a minute and `--seconds`: the time from the sending of a row of
those `--seconds` to Kafka until its insert into PostgreSQL, by the clock of this machine.
"""

from __future__ import annotations

import json
import os
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from statistics import quantiles
from typing import Any

import click
import psycopg
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from rich.console import Console
from rich.table import Table

from cdcbus.ops.stack import processes
from cdcbus.ops.stack.addresses import Addresses
from cdcbus.ops.stack.stack import down, up
from cdcbus.plugins.task_status import State
from tests.bench.figures import tell
from tests.support.processes.bus import Bus, load_text, open_bus
from tests.support.topics.kafka_producer import kafka_producer
from tests.support.waiting import wait_until

PATIENCE_SECONDS = 900.0
SETTLE_SECONDS = 40.0  # until tasks without rows rest
WARM_SECONDS = 60.0  # until Java's compiler has seen what there is
TICKS = os.sysconf("SC_CLK_TCK")


def _children(pid: int) -> list[int]:
    found = [pid]
    for thread in Path(f"/proc/{pid}/task").iterdir():
        for child in (thread / "children").read_text().split():
            found += _children(int(child))
    return found


def _cpu_seconds(pids: list[int]) -> float:
    ticks = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        # User and system, with those of children that have ended.
        ticks += sum(map(int, fields[11:15]))
    return ticks / TICKS


def _rss_mb(pids: list[int]) -> float:
    pages = 0
    for pid in pids:
        pages += int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def _cores(pids: dict[str, list[int]], seconds: float) -> dict[str, float]:
    """CPU seconds per second of each group of processes."""
    before = {name: _cpu_seconds(group) for name, group in pids.items()}
    begun = time.monotonic()
    time.sleep(seconds)
    elapsed = time.monotonic() - begun
    cores = {}
    for name, group in pids.items():
        cores[name] = (_cpu_seconds(group) - before[name]) / elapsed
    return cores


def _send(
    producer: Producer, schema: str, tasks: list[str], rows: float, seconds: float, first: int
) -> int:
    """Sends rows for all tasks in turn, with ids from `first` on. Returns the next id."""
    count, begun = 0, time.monotonic()
    while (due := time.monotonic() - begun) < seconds:
        while count < due * rows * len(tasks):
            task = tasks[count % len(tasks)]
            record = {
                "database": schema,
                "table": task,
                "type": "INSERT",
                "isDdl": False,
                "es": 1,
                "ts": 1,
                "pkNames": ["id"],
            }
            row = {"id": str(first + count), "sent": repr(time.time())}
            types = {"mysqlType": {"id": "int", "sent": "double"}, "sqlType": {"id": 4, "sent": 8}}
            producer.produce(
                f"{schema}-{task}", json.dumps({**record, **types, "data": [row]}).encode()
            )
            count += 1
        producer.poll(0)
        time.sleep(0.002)
    producer.flush(60)
    return first + count


def _delays(
    run: Callable[[str], Any], schema: str, tasks: list[str], first: int, count: int
) -> list[float]:
    """The delays of the rows from id `first` on, once all `count` have arrived."""
    all_rows = " UNION ALL ".join(
        f"SELECT id, sent, arrived FROM {schema}.{task}" for task in tasks
    )
    wait_until(
        lambda: run(f"SELECT count(*) FROM ({all_rows}) r").fetchone()[0] == count,
        "all rows",
        PATIENCE_SECONDS,
    )
    found = run(
        f"SELECT extract(epoch FROM arrived)::float8 - sent FROM ({all_rows}) r WHERE id >= {first}"
    )
    return [delay for (delay,) in found.fetchall()]


def _start(
    bus: Bus, addresses: Addresses, run: Callable[[str], Any], schema: str, tasks: list[str]
) -> None:
    """Starts tasks with a topic and a table each, all working on one node."""
    admin = AdminClient({"bootstrap.servers": addresses.kafka})
    topics = [NewTopic(f"{schema}-{task}", 1, 1) for task in tasks]
    for future in admin.create_topics(topics).values():
        future.result(60)
    for task in tasks:
        run(
            f"CREATE TABLE {schema}.{task} (id INT PRIMARY KEY, sent FLOAT8, arrived TIMESTAMPTZ "
            "DEFAULT clock_timestamp())"
        )
        bus.load(load_text(task, addresses, f"{schema}-{task}"))
    bus.node("n1", CDCBUS_NODE_WORKLIMIT="1000")
    for task in tasks:
        bus.tasks.want(task, True, "bench")
    wait_until(
        lambda: all(bus.status(task).state is State.WORKING for task in tasks),
        "all tasks",
        PATIENCE_SECONDS,
    )


@click.command()
@click.option("--idle", default=50, show_default=True)
@click.option("--active", default=20, show_default=True)
@click.option("--rows", default=5.0, show_default=True)
@click.option("--seconds", default=30.0, show_default=True)
@click.option("--home", type=click.Path(path_type=Path), help="Use the stack in this folder.")
def main(idle: int, active: int, rows: float, seconds: float, home: Path | None) -> None:
    """Prints memory, CPU and delays."""
    own = home is None
    place = home or Path(tempfile.mkdtemp(prefix="cdcbus-bench-"))
    place.chmod(0o755)
    console = Console(width=120)
    try:
        addresses = up(place, Console(quiet=True))
        schema = f"bench{time.time_ns()}"
        pg = addresses.postgresql
        tasks = [f"t{number}" for number in range(max(idle, active))]
        with (
            psycopg.connect(
                host=pg.host,
                port=pg.port,
                user=pg.user,
                password=pg.password,
                dbname=pg.database,
                autocommit=True,
            ) as target,
            tempfile.TemporaryDirectory() as folder,
            open_bus(addresses.zookeeper, schema, Path(folder), TARGET_PASSWORD=pg.password) as bus,
        ):
            run: Callable[[str], Any] = lambda sql: target.execute(sql.encode())  # noqa: E731
            run(f"CREATE SCHEMA {schema}")
            servers: dict[str, list[int]] = {}
            for name in ("kafka", "zookeeper"):
                pid = processes.pid(place / name)
                if pid is not None:
                    servers[name] = [pid]
            before = _cores(servers, seconds)
            begun = time.monotonic()
            _start(bus, addresses, run, schema, tasks)
            console.print(f"{len(tasks)} tasks work after {time.monotonic() - begun:.0f} s")
            time.sleep(SETTLE_SECONDS)
            node, spark = bus.nodes["n1"].pid, bus.runner("t0")
            ours = {"node": [node], "tasks": [spark], "jvm": _children(spark)[1:]}
            cores = _cores(ours | servers, seconds)
            table = Table("process", "MB", "cores", title=f"{len(tasks)} idle tasks")
            for name, pids in (ours | servers).items():
                table.add_row(
                    name, f"{_rss_mb(pids):.0f}", f"{cores[name] - before.get(name, 0.0):.3f}"
                )
            all_ours = [node, *ours["tasks"], *ours["jvm"]]
            used = sum(cores[name] - before.get(name, 0.0) for name in cores)
            table.add_row("node and broker", f"{_rss_mb(all_ours):.0f}", f"{used:.3f}")
            tell(f"{len(tasks)} idle tasks", used, "cores", is_less_better=True)
            memory = _rss_mb(all_ours)
            tell(f"memory of {len(tasks)} idle tasks", memory, "MB", is_less_better=True)
            console.print(table)
            busy = tasks[:active]
            producer = kafka_producer(addresses.kafka, {"linger.ms": 0})
            first = _send(producer, schema, busy, rows, WARM_SECONDS, 0)  # wakes them
            _delays(run, schema, busy, 0, first)
            result: list[int] = []
            thread = threading.Thread(
                target=lambda: result.append(_send(producer, schema, busy, rows, seconds, first))
            )
            thread.start()
            cores = _cores(ours | servers, seconds)
            thread.join()
            late = _delays(run, schema, busy, first, result[0])
            cuts = quantiles(late, n=100)
            console.print(
                f"{active} tasks with {rows:g} rows/s each: delay p50 {cuts[49]:.3f}, p95 "
                f"{cuts[94]:.3f}, p99 {cuts[98]:.3f} s; "
                f"{sum(cores[name] for name in ours):.2f} cores, broker "
                f"{cores.get('kafka', 0.0):.2f}"
            )
            run(f"DROP SCHEMA {schema} CASCADE")
    finally:
        if own:
            down(place, purge=True, console=Console(quiet=True))


if __name__ == "__main__":
    main()
