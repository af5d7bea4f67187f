"""Servers, a node and two tasks that cells hurt, with lines between them."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
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
from tests.matrix.cells import SERVERS, Cell, Fault, Load, Victim
from tests.matrix.documented import TASKS
from tests.matrix.writer import HUGE_ROWS, Writer
from tests.soak.samples import family
from tests.support.processes.bus import Bus, fetch_text, load_text, open_bus
from tests.support.servers.line import Line
from tests.support.servers.slow_link import SlowLink, slow_link
from tests.support.topics.new_topics import create_topics
from tests.support.waiting import wait_until

QUIET = Console(quiet=True)
PATIENCE_SECONDS = 400.0
SLOW_BYTES_PER_SECOND = 20_000.0
# A snapshot takes half a minute over a line like this, without work for the processors.
OLD_ROWS, OLD_BYTES = 20_000, 400
SNAPSHOT_BYTES_PER_SECOND = 300_000.0
OF_SPARK = (Victim.SPARK, Victim.EXECUTOR)
# For bursts: five such batches are a backlog, which Spark reads. With the default 50,000 records are
# one, more than two processors can write in a burst.
BURST_KEYS = {"consumer.source.maxRecordsPerBatch": "300"}
BACKLOG_STEPS = 3
IDLE_SECONDS = 60.0
SERVER_NAMES = {
    Victim.KAFKA: "kafka",
    Victim.ZOOKEEPER: "zookeeper",
    Victim.SOURCE: "source",
    Victim.TARGET: "postgresql",
}


class Way:
    """The way to a server: a line that can be cut behind a link that can be slow."""

    def __init__(self, host: str, port: int, stack: ExitStack) -> None:
        self.line = Line(f"{host}:{port}")
        stack.callback(self.line.close)
        near = int(self.line.address.rpartition(":")[2])
        self.link: SlowLink = stack.enter_context(slow_link("127.0.0.1", near, 0))
        self.address = f"127.0.0.1:{self.link.port}"
        # A broker tells clients its address: a string, and a number of four bytes.
        self.line.answers_as = (_told(host, port), _told("127.0.0.1", self.link.port))

    def to(self, database: Database) -> Database:
        return replace(database, host="127.0.0.1", port=self.link.port)


class World:
    """A bus of its own on a stack; `name` is the schema, the topic and the chroot. `folder` is the
    node's."""

    def __init__(self, home: Path, folder: Path, seed: int, stack: ExitStack) -> None:
        self.home, self.folder = home, folder
        self._backup = folder / "backup"
        # The alarms that the last cell may bring.
        self.may: set[tuple[str, str]] = set()
        self.name = "matrix" + uuid.uuid4().hex[:8]
        at = self.addresses = self._servers(stack)
        # Tasks know several servers by their own addresses.
        self.ways = {
            victim: Way(*_parts(address), stack)
            for victim, address in ((Victim.KAFKA, at.kafka), (Victim.ZOOKEEPER, at.zookeeper))
            if "," not in address
        }
        self.ways[Victim.TARGET] = Way(at.postgresql.host, at.postgresql.port, stack)
        self.source_ways = [Way(each.host, each.port, stack) for each in self._sources()]
        self.ways[Victim.SOURCE] = self.source_ways[0]
        os.environ["SOURCE_PASSWORD"] = at.source.password
        os.environ["TARGET_PASSWORD"] = at.postgresql.password
        self._make_tables(stack)
        admin = AdminClient({"bootstrap.servers": at.kafka})
        create_topics(admin, NewTopic(self.name, 1))
        self.bus: Bus = stack.enter_context(open_bus(at.zookeeper, self.name, folder))
        near = self._near(Victim.ZOOKEEPER, at.zookeeper)
        self.bus.environment["CDCBUS_ZOOKEEPER"] = f"{near}/{self.name}"
        self.writer = Writer(at.source, self.name, seed)
        self._start(at)

    def _servers(self, _stack: ExitStack) -> Addresses:
        """Starts the servers."""
        return up(self.home, QUIET, spark=0)

    def _sources(self) -> list[Database]:
        """All servers that the fetch task can read, in the order of its addresses."""
        return [self.addresses.source]

    def _near(self, victim: Victim, address: str) -> str:
        """What tasks reach a server by."""
        way = self.ways.get(victim)
        return address if way is None else way.address

    def _make_tables(self, stack: ExitStack) -> None:
        with connect(self.addresses.source) as connection, connection.cursor() as cursor:
            cursor.execute(f"CREATE DATABASE {self.name}")
            for ddl in self._tables():
                cursor.execute(ddl)
            cursor.execute(
                f"INSERT INTO {self.name}.old SELECT seq, 0, REPEAT('x', {OLD_BYTES}) "
                f"FROM {self.name}.seq_1_to_{OLD_ROWS}"
            )
        stack.enter_context(self._dropped())
        self.at_target(f"CREATE SCHEMA {self.name}")
        stack.callback(self.at_target, f"DROP SCHEMA {self.name} CASCADE")
        for ddl in self._tables():
            self.at_target(ddl)
        self.at_target(
            f"INSERT INTO {self.name}.old SELECT n, 0, REPEAT('x', {OLD_BYTES}) "
            f"FROM generate_series(1, {OLD_ROWS}) AS n"
        )

    def _tables(self) -> Iterator[str]:
        notes = {"t": ", note VARCHAR(100)", "big": "", "old": f", note VARCHAR({OLD_BYTES})"}
        for table, note in notes.items():
            yield f"CREATE TABLE {self.name}.{table} (id INT PRIMARY KEY, n BIGINT{note})"

    @contextmanager
    def _dropped(self) -> Iterator[None]:
        yield
        with connect(self.writer.source) as connection, connection.cursor() as cursor:
            cursor.execute(f"DROP DATABASE {self.name}")

    def _start(self, at: Addresses) -> None:
        kafka = self._near(Victim.KAFKA, at.kafka)
        text = fetch_text("fetch", self.source_ways[0].to(at.source), kafka, self.name)
        all_sources = ",".join(way.address for way in self.source_ways)
        self.bus.load(text.replace(self.source_ways[0].address, all_sources))
        self._import_load_task({})
        self._start_node()
        for task in TASKS:
            self.bus.tasks.want(task, True, "matrix")
        self.wait_working()
        # rows that later ones update
        self.writer.write(Load.HUGE)

    def _start_node(self) -> None:
        # A fault is too short for the usual minute.
        self.bus.node("n1", CDCBUS_ALARM_HOLDSECONDS="0")

    def _import_load_task(self, keys: Mapping[str, str]) -> None:
        at = self.addresses
        behind = replace(
            at,
            kafka=self._near(Victim.KAFKA, at.kafka),
            postgresql=self.ways[Victim.TARGET].to(at.postgresql),
        )
        text = load_text("load", behind, self.name, **{"loader.schemaChange": "evolve", **keys})
        self.bus.load(text, "--force")
        self._keys = keys

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

    def prepare(self, cell: Cell) -> None:
        """Makes batches small for bursts, which bring Spark up, or else brings it up if it will be
        hurt. For a snapshot, deletes the rows from the target that
        only the snapshot brings, and starts it, over a line that makes it last. Last, backs up a
        server that will be restored."""
        is_burst = cell.load is Load.GEARS
        if (keys := BURST_KEYS if is_burst else {}) != self._keys:
            self._import_load_task(keys)
            self.bus("task", "restart", "load")
        if cell.victim in OF_SPARK and not is_burst and not self._pids(cell.victim):
            self._bring_spark_up(cell.victim)
        self._slow_sources(0)
        if cell.load is Load.SNAPSHOT:
            self.at_target(f"DELETE FROM {self.name}.old")
            self._slow_sources(SNAPSHOT_BYTES_PER_SECOND)
            self.bus("snapshot", "start", "fetch", "--table", f"{self.name}.old")
        if cell.fault is Fault.RESTORE:
            self._with_files(cell.victim, lambda data: _copy(data, self._backup))
            self.wait_working()

    def _with_files(self, victim: Victim, do: Callable[[Path], None]) -> str:
        """Kills a server, does something with its files, and starts it again. Returns a sentence
        if no task can find it."""
        name = SERVER_NAMES[victim]
        kill(self.home, name)
        do(self.home / name / "data")
        if up(self.home, QUIET) != self.addresses:
            # Another stack of this machine chose the port while nobody listened on it.
            return f"the {victim} came back at another port, which no task knows"
        return ""

    def _slow_sources(self, bytes_per_second: float) -> None:
        for way in self.source_ways:
            way.link.bytes_per_second = bytes_per_second

    def _bring_spark_up(self, victim: Victim) -> None:
        """Builds up a backlog while the consumer task does not run: without Spark, it keeps pace
        with the writer."""
        self.bus.tasks.want("load", False, "matrix")
        wait_until(lambda: not self.bus.runner("load"), "the consumer task to stop")
        before = self.end()
        for _ in range(BACKLOG_STEPS):
            self.writer.write(Load.HUGE)
        wait_until(lambda: self.end() >= before + BACKLOG_STEPS * HUGE_ROWS, "a backlog")
        self.bus.tasks.want("load", True, "matrix")
        wait_until(lambda: bool(self._pids(victim)), f"a {victim} to be up", PATIENCE_SECONDS)

    def at_target(self, sql: str) -> list[Any]:
        """Runs SQL on a connection of its own, as the server may be killed. Returns its rows."""
        at = self.addresses.postgresql
        with psycopg.connect(
            host=at.host, port=at.port, user=at.user, password=at.password, dbname=at.database
        ) as connection:
            cursor = connection.execute(sql.encode())
            return cursor.fetchall() if cursor.description else []

    def is_under_way(self, load: Load, bulk_reads: int) -> bool:
        """Whether a snapshot is running, or Spark has read a backlog since it had read this number
        of them; true for other loads."""
        match load:
            case Load.SNAPSHOT:
                tables = self.bus.json("snapshot", "status", "fetch")["tables"]
                return any(each["state"] == "running" for each in tables)
            case Load.GEARS:
                return self.bulk_reads() > bulk_reads
            case _:
                return True

    def hurt(self, cell: Cell, seconds: float) -> str:
        """Hurts a victim. Returns when it is over; a sentence if there is nothing to hurt."""
        said = self._hurt(cell, seconds)
        self._slow_sources(0)
        return said

    def _hurt(self, cell: Cell, seconds: float) -> str:
        victim, fault = cell.victim, cell.fault
        if fault in (Fault.CUT, Fault.SLOW):
            way = self.ways[victim]
            if fault is Fault.CUT:
                way.line.cut()
            else:
                way.link.bytes_per_second = SLOW_BYTES_PER_SECOND
            time.sleep(seconds)
            way.line.mend()
            way.link.bytes_per_second = 0
            return ""
        if fault is Fault.RESTORE:
            return self._with_files(victim, lambda data: _copy(self._backup, data))
        if fault is Fault.KILL and victim in SERVERS:
            return self._with_files(victim, lambda _: None)
        pids = self._pids(victim)
        if not pids:
            return f"the {victim} does not run"
        if fault is Fault.KILL:
            _send(pids, signal.SIGKILL)
            if victim is Victim.NODE:
                self.bus.nodes["n1"].wait()
                if cell.load is Load.DDL:
                    self._await_alteration()
                self._start_node()
            return ""
        with stopped(pids):
            time.sleep(seconds)
        return ""

    def _await_alteration(self) -> None:
        before = self.writer.alterations
        wait_until(lambda: self.writer.alterations > before, "an ALTER TABLE", PATIENCE_SECONDS)

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
        return self._logged("fetch", "reads the binlog from")

    def bulk_reads(self) -> int:
        """How often the consumer task has changed to Spark."""
        return self._logged("load", "Spark reads a backlog")

    def _logged(self, task: str, text: str) -> int:
        log = self.bus.folder / "logs" / f"{task}.log"
        return log.read_text(errors="replace").count(text)

    def offsets(self) -> tuple[int, int]:
        """The next offset of the consumer task by ZooKeeper, and by its target."""
        position = json.loads(self.bus.text(f"/datas/task/load/position/{self.name}") or "{}")
        found = self.at_target(
            f"SELECT next_offset FROM cdcbus_position WHERE task = 'load' AND topic = '{self.name}'"
        )
        return position.get("offset", -1) + 1, found[0][0] if found else 0

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
                # It waits for as many as it was asked for.
                for message in consumer.consume(min(10_000, end - offset), 10):
                    offset = (message.offset() or 0) + 1
                    record = json.loads(message.value() or b"")
                    for row in record["data"] or ():
                        yield row, (record["table"], row["id"])

    @contextmanager
    def _reading(self) -> Iterator[Consumer]:
        servers = {"bootstrap.servers": self.addresses.kafka, "group.id": "look", "log_level": "0"}
        consumer = Consumer(servers | {"enable.auto.commit": "false"})
        try:
            yield consumer
        finally:
            consumer.close()


def _parts(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host, int(port)


def _told(host: str, port: int) -> bytes:
    return host.encode() + port.to_bytes(4)


def _copy(source: Path, to: Path) -> None:
    """Replaces a folder by a copy of another one, with the owners of all files."""
    shutil.rmtree(to, ignore_errors=True)
    subprocess.run(["cp", "--archive", source, to], check=True)


def _is_jvm(pid: int) -> bool:
    try:
        return b"pyspark-shell" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


@contextmanager
def stopped(pids: list[int]) -> Iterator[None]:
    """SIGSTOP, and SIGCONT at the end."""
    _send(pids, signal.SIGSTOP)
    try:
        yield
    finally:
        _send(pids, signal.SIGCONT)


def _send(pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)
