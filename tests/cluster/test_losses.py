"""Two nodes whose consumer task works on a Spark cluster of the stack: a master and two workers.

Each test holds a batch at work on both executors, takes something away, and has source and target
equal at the end. They take a minute and more each, as a cluster notices losses by its own clocks:
`make test-cluster`, and `make chaos`.
"""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from pymysql.cursors import Cursor
from rich.console import Console

from cdcbus.ops.stack import processes
from cdcbus.ops.stack.addresses import Addresses, Database
from cdcbus.ops.stack.stack import kill, up
from cdcbus.plugins.task_status import State
from tests.support.clusters import bulk_gear
from tests.support.clusters.spark_cluster import SETTINGS, executors
from tests.support.processes.bus import Bus, Run, fetch_text, load_text, open_bus, postgresql_schema
from tests.support.topics.new_topics import create_topics
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.integration, pytest.mark.chaos]

WORKERS = ("spark-worker-1", "spark-worker-2")
PATIENCE_SECONDS = 400.0


@dataclass
class Cluster:
    """The bus, the stack in `home` with its Spark, and a table t on both sides, all called
    `name`."""

    home: Path
    stack: Addresses
    bus: Bus
    run: Run
    cursor: Cursor
    name: str
    written: int = 0

    def write(self, rows: int = 300) -> None:
        """New rows, in small transactions."""
        for _ in range(rows // 100):
            keys = range(self.written, self.written + 100)
            self.cursor.executemany("INSERT INTO t VALUES (%s, %s)", [(key, 1) for key in keys])
            self.cursor.execute("UPDATE t SET n = n + 1 WHERE id %% 7 = %s", (random.randrange(7),))
            self.written += 100

    def published(self) -> int:
        """How many records there are."""
        looking = Consumer({"bootstrap.servers": self.stack.kafka, "group.id": "look"})
        with closing(looking):
            places = (TopicPartition(self.name, partition) for partition in range(2))
            return sum(looking.get_watermark_offsets(place)[1] for place in places)

    def executors(self) -> list[int]:
        pids = (processes.pid(self.home / worker) for worker in WORKERS)
        return [each for pid in pids if pid is not None for each in executors(pid)]

    def bring_back(self) -> None:
        up(self.home, Console(quiet=True))

    @contextmanager
    def held_at_work(self) -> Iterator[None]:
        """Both partitions wait for a lock of PostgreSQL, each on its executor."""
        at = self.stack.postgresql
        waiting = (
            "SELECT COUNT(*) FROM pg_locks WHERE NOT granted "
            f"AND relation = '{self.name}.t'::regclass"
        )
        self.write()
        wait_until(lambda: self.published() > self.written, "rows in Kafka", PATIENCE_SECONDS)
        with psycopg.connect(
            host=at.host, port=at.port, user=at.user, password=at.password, dbname=at.database
        ) as holding:
            holding.execute(f"LOCK TABLE {self.name}.t IN SHARE MODE".encode())
            self.bus("task", "start", "load", "--timeout", 0, code=1)  # nothing moves yet
            wait_until(
                lambda: self.run(waiting).fetchall() == [(2,)], "both at work", PATIENCE_SECONDS
            )
            assert len(self.executors()) == 2
            yield

    def is_equal(self) -> bool:
        self.cursor.execute("SELECT id, n FROM t ORDER BY id")
        wanted = [*self.cursor.fetchall()]
        found = self.run(f"SELECT id, n FROM {self.name}.t ORDER BY id").fetchall()
        return len(wanted) == self.written and found == wanted

    def assert_all_arrives(self) -> None:
        """Also what is written from now on, and the task works then."""
        self.write()
        wait_until(self.is_equal, "source and target to be equal", PATIENCE_SECONDS)
        wait_until(lambda: self.state() is State.WORKING, "it to work", PATIENCE_SECONDS)

    def state(self) -> State:
        return self.bus.status("load").state


@pytest.fixture
def cluster(
    killable_home: Path,
    source: Database,
    source_cursor: Cursor,
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Cluster]:
    stack = up(killable_home, Console(quiet=True), spark=len(WORKERS))
    password = stack.postgresql.password
    monkeypatch.setenv("SOURCE_PASSWORD", source.password)
    monkeypatch.setenv("TARGET_PASSWORD", password)
    create_topics(AdminClient({"bootstrap.servers": stack.kafka}), NewTopic(name, 2, 1))
    source_cursor.execute("CREATE TABLE t (id INT PRIMARY KEY, n INT)")
    # one executor on each worker
    settings = SETTINGS.format(master=stack.spark, cores=len(WORKERS))
    (tmp_path / "cdcbus.properties").write_text(settings)
    passwords = {"SOURCE_PASSWORD": source.password, "TARGET_PASSWORD": password}
    with (
        postgresql_schema(stack, name) as run,
        open_bus(
            stack.zookeeper, name, tmp_path, PYTHONPATH=str(bulk_gear.FOLDER), **passwords
        ) as bus,
    ):
        run(f"CREATE TABLE {name}.t (id INT PRIMARY KEY, n INT)")
        bus.load(fetch_text("fetch", source, stack.kafka, name))
        bus.load(load_text("load", stack, name, **{"consumer.source.maxRecordsPerBatch": "100"}))
        for node in ("n1", "n2"):
            bus.node(node)
        bus("task", "start", "fetch", "--timeout", PATIENCE_SECONDS)
        cluster = Cluster(killable_home, stack, bus, run, source_cursor, name)
        yield cluster
        bus("task", "stop", "fetch", "load")
        for process in bus.nodes.values():
            process.terminate()
        wait_until(lambda: not cluster.executors(), "executors to end with their nodes", 120)


def lose_executor(cluster: Cluster) -> None:
    os.kill(random.choice(cluster.executors()), signal.SIGKILL)


def lose_worker(cluster: Cluster) -> None:
    """With its executor, as when its machine is gone."""
    lost = executors(processes.pid(cluster.home / WORKERS[0]) or 0)
    kill(cluster.home, WORKERS[0])
    for each in lost:
        os.kill(each, signal.SIGKILL)


def lose_master(cluster: Cluster) -> None:
    kill(cluster.home, "spark-master")


def lose_node(cluster: Cluster) -> None:
    """With its processes, of which one is the driver."""
    victim = cluster.bus.status("load").node_id
    os.killpg(cluster.bus.nodes[victim].pid, signal.SIGKILL)
    cluster.bus.nodes[victim].wait()
    wait_until(
        lambda: cluster.bus.status("load").node_id not in ("", victim),
        "the other node to take it",
        PATIENCE_SECONDS,
    )


@pytest.mark.parametrize("lose", [lose_executor, lose_worker, lose_master, lose_node])
def test_a_backlog_drains_though_something_is_lost(
    cluster: Cluster, lose: Callable[[Cluster], None]
) -> None:
    with cluster.held_at_work():
        lose(cluster)
    cluster.assert_all_arrives()
    cluster.bring_back()
    cluster.assert_all_arrives()
