"""Servers, a node and two tasks that cells hurt, with lines between them."""

from __future__ import annotations

import json
import os
import signal
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
from click.testing import CliRunner
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from rich.console import Console

from cdcbus.ops.cli.main import main
from cdcbus.ops.stack.addresses import Addresses, Database
from cdcbus.ops.stack.stack import kill, status, up
from cdcbus.plugins.task_status import State
from tests.integration.producer.reading import connect
from tests.matrix.cells import SERVERS, Fault, Load, Victim
from tests.matrix.writer import HUGE_ROWS, Writer
from tests.soak.samples import family
from tests.support.processes.bus import Bus, fetch_text, load_text, open_bus
from tests.support.servers.line import Line
from tests.support.servers.slow_link import SlowLink, slow_link
from tests.support.waiting import wait_until

QUIET = Console(quiet=True)
PATIENCE_SECONDS = 400.0
SLOW_BYTES_PER_SECOND = 20_000.0
OLD_ROWS = 20_000
BACKLOG_STEPS = 3
SERVER_NAMES = {
    Victim.KAFKA: "kafka",
    Victim.ZOOKEEPER: "zookeeper",
    Victim.SOURCE: "source",
    Victim.TARGET: "postgresql",
}
TASKS = ("fetch", "load")


class Way:
    """The way to a server: a line that can be cut behind a link that can be slow."""

    def __init__(self, host: str, port: int, stack: ExitStack) -> None:
        self.line = Line(f"{host}:{port}")
        stack.callback(self.line.close)
        near = int(self.line.address.rpartition(":")[2])
        self.link: SlowLink = stack.enter_context(slow_link("127.0.0.1", near, 0))

    def to(self, database: Database) -> Database:
        return replace(database, host="127.0.0.1", port=self.link.port)


class World:
    """A bus of its own on a stack; `name` is the schema, the topic and the chroot."""

    def __init__(self, home: Path, folder: Path, seed: int, stack: ExitStack) -> None:
        self.home, self.addresses = home, up(home, QUIET)
        self.name = "matrix" + uuid.uuid4().hex[:8]
        at = self.addresses
        host, _, port = at.zookeeper.rpartition(":")
        self._ways = {
            Victim.ZOOKEEPER: Way(host, int(port), stack),
            Victim.SOURCE: Way(at.source.host, at.source.port, stack),
            Victim.TARGET: Way(at.postgresql.host, at.postgresql.port, stack),
        }
        os.environ["SOURCE_PASSWORD"] = at.source.password
        os.environ["TARGET_PASSWORD"] = at.postgresql.password
        self._make_tables(stack)
        admin = AdminClient({"bootstrap.servers": at.kafka})
        admin.create_topics([NewTopic(self.name, 1, 1)])[self.name].result(60)
        self.bus: Bus = stack.enter_context(open_bus(at.zookeeper, self.name, folder))
        near = f"127.0.0.1:{self._ways[Victim.ZOOKEEPER].link.port}/{self.name}"
        self.bus.environment["CDCBUS_ZOOKEEPER"] = near
        self.writer = Writer(at.source, self.name, seed)
        self._start(at)

    def _make_tables(self, stack: ExitStack) -> None:
        with connect(self.addresses.source) as connection, connection.cursor() as cursor:
            cursor.execute(f"CREATE DATABASE {self.name}")
            for table, more in (("t", ", note VARCHAR(100)"), ("big", ""), ("old", "")):
                ddl = f"CREATE TABLE {self.name}.{table} (id INT PRIMARY KEY, n BIGINT{more})"
                cursor.execute(ddl)
            cursor.execute(
                f"INSERT INTO {self.name}.old SELECT seq, 0 FROM {self.name}.seq_1_to_{OLD_ROWS}"
            )
        stack.enter_context(self._dropped())
        self.at_target(f"CREATE SCHEMA {self.name}")
        stack.callback(self.at_target, f"DROP SCHEMA {self.name} CASCADE")
        for table, more in (("t", ", note VARCHAR(100)"), ("big", ""), ("old", "")):
            ddl = f"CREATE TABLE {self.name}.{table} (id INT PRIMARY KEY, n BIGINT{more})"
            self.at_target(ddl)
        self.at_target(
            f"INSERT INTO {self.name}.old SELECT n, 0 FROM generate_series(1, {OLD_ROWS}) AS n"
        )

    @contextmanager
    def _dropped(self) -> Iterator[None]:
        yield
        with connect(self.addresses.source) as connection, connection.cursor() as cursor:
            cursor.execute(f"DROP DATABASE {self.name}")

    def _start(self, at: Addresses) -> None:
        self.bus.load(
            fetch_text("fetch", self._ways[Victim.SOURCE].to(at.source), at.kafka, self.name)
        )
        behind = replace(at, postgresql=self._ways[Victim.TARGET].to(at.postgresql))
        self.bus.load(load_text("load", behind, self.name, **{"loader.schemaChange": "evolve"}))
        self.bus.node("n1")
        for task in TASKS:
            self.bus.tasks.want(task, True, "matrix")
        self.wait_working()
        # rows that later ones update
        self.writer.write(Load.HUGE)

    def wait_working(self) -> None:
        wait_until(
            lambda: all(self._state(task) is State.WORKING for task in TASKS),
            "both tasks to work",
            PATIENCE_SECONDS,
        )

    def _state(self, task: str) -> State | None:
        with suppress(Exception):  # ZooKeeper may be down
            return self.bus.status(task).state
        return None

    def verified(self) -> str:
        """Empty where source and target are equal; else what `cdcbus verify` prints."""
        found = CliRunner(env={"CDCBUS_ZOOKEEPER": self.bus.address}).invoke(
            main, ["verify", "load", "--source", "fetch"]
        )
        return "" if found.exit_code == 0 else found.output

    def prepare(self, victim: Victim, load: Load) -> None:
        """Brings Spark up if it will be hurt. For a snapshot, deletes the rows from the target that
        only the snapshot brings, and starts it."""
        if victim is Victim.SPARK and not self._pids(Victim.SPARK):
            self._bring_spark_up()
        if load is Load.SNAPSHOT:
            self.at_target(f"DELETE FROM {self.name}.old")
            self.bus("snapshot", "start", "fetch", "--table", f"{self.name}.old")

    def _bring_spark_up(self) -> None:
        """Builds up a backlog while the consumer task does not run: without Spark, it keeps pace
        with the writer."""
        self.bus.tasks.want("load", False, "matrix")
        wait_until(lambda: not self.bus.runner("load"), "the consumer task to stop")
        before = self.end()
        for _ in range(BACKLOG_STEPS):
            self.writer.write(Load.HUGE)
        wait_until(lambda: self.end() >= before + BACKLOG_STEPS * HUGE_ROWS, "a backlog")
        self.bus.tasks.want("load", True, "matrix")
        wait_until(lambda: bool(self._pids(Victim.SPARK)), "Spark to be up", PATIENCE_SECONDS)

    def at_target(self, sql: str) -> None:
        """Runs SQL on a connection of its own, as the server may be killed."""
        at = self.addresses.postgresql
        with psycopg.connect(
            host=at.host, port=at.port, user=at.user, password=at.password, dbname=at.database
        ) as connection:
            connection.execute(sql.encode())

    def hurt(self, victim: Victim, fault: Fault, seconds: float) -> str:
        """Hurts a victim. Returns when it is over; a sentence if there is nothing to hurt."""
        if fault in (Fault.CUT, Fault.SLOW):
            way = self._ways[victim]
            if fault is Fault.CUT:
                way.line.cut()
            else:
                way.link.bytes_per_second = SLOW_BYTES_PER_SECOND
            time.sleep(seconds)
            way.line.mend()
            way.link.bytes_per_second = 0
            return ""
        if fault is Fault.KILL and victim in SERVERS:
            kill(self.home, SERVER_NAMES[victim])
            if up(self.home, QUIET) != self.addresses:
                # Another stack of this machine chose the port while nobody listened on it.
                return f"the {victim} came back at another port, which no task knows"
            return ""
        pids = self._pids(victim)
        if not pids:
            return f"the {victim} does not run"
        if fault is Fault.KILL:
            _send(pids, signal.SIGKILL)
            if victim is Victim.NODE:
                self.bus.nodes["n1"].wait()
                self.bus.node("n1")
            return ""
        _send(pids, signal.SIGSTOP)
        time.sleep(seconds)
        _send(pids, signal.SIGCONT)
        return ""

    def _pids(self, victim: Victim) -> list[int]:
        match victim:
            case Victim.FETCH | Victim.CONSUMER:
                task = "fetch" if victim is Victim.FETCH else "load"
                found = self.bus.runner(task)
            case Victim.SPARK:
                found = next(filter(_is_jvm, family(self.bus.runner("load") or os.getpid())), 0)
            case Victim.NODE:
                found = self.bus.nodes["n1"].pid
            case _:
                servers = {each.name: each.pid or 0 for each in status(self.home)}
                found = servers[SERVER_NAMES[victim]]
        if not found:
            return []
        if victim in SERVERS:
            return family(found)
        return [found]

    def starts(self) -> int:
        """How often the fetch task has begun to read."""
        log = self.bus.folder / "logs" / "fetch.log"
        return log.read_text(errors="replace").count("reads the binlog from")

    def end(self) -> int:
        """The end offset of the topic."""
        with self._reading() as consumer:
            return int(consumer.get_watermark_offsets(TopicPartition(self.name, 0), 60)[1])

    def went_back(self, start: int) -> list[str]:
        """Rows that have an older state after a newer one in the topic, from an offset on."""
        newest: dict[tuple[str, str], int] = {}
        found = []
        for row, key in self._rows(start, self.end()):
            number = int(row["n"])
            if number < newest.get(key, 0):
                found.append(f"{key[0]} {key[1]}: {number} behind {newest[key]}")
            newest[key] = max(number, newest.get(key, 0))
        return found

    def _rows(self, start: int, end: int) -> Iterator[tuple[Any, tuple[str, str]]]:
        with self._reading() as consumer:
            consumer.assign([TopicPartition(self.name, 0, start)])
            offset = start
            while offset < end:
                for message in consumer.consume(10_000, 10):
                    offset = (message.offset() or 0) + 1
                    record = json.loads(message.value() or b"")
                    for row in record["data"] or ():
                        yield row, (record["table"], row["id"])

    @contextmanager
    def _reading(self) -> Iterator[Consumer]:
        servers = {"bootstrap.servers": self.addresses.kafka, "group.id": "look"}
        consumer = Consumer(servers | {"enable.auto.commit": "false"})
        try:
            yield consumer
        finally:
            consumer.close()


def _is_jvm(pid: int) -> bool:
    try:
        return b"pyspark-shell" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def _send(pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)
