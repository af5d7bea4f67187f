"""While ZooKeeper is silent for less than a session, rows go on from source to target; what could
not be saved is saved behind it, and a kill meanwhile loses nothing."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pymysql
import pytest

from cdcbus.ops.stack.addresses import Addresses, Database
from cdcbus.plugins.positions import BinlogPosition, kafka_positions_from_json
from cdcbus.tasks.zookeeper.position.znodes import position_path
from tests.integration.producer.reading import position
from tests.support.processes.bus import (
    Bus,
    Run,
    fetch_text,
    load_text,
    open_bus,
    postgresql_schema,
    published,
)
from tests.support.servers.private_zookeeper import PrivateZooKeeper, private_zookeeper
from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration
SESSION, LEASE = "50", "45"
FETCH, LOAD = "1", "2"
# as long as a row may take meanwhile; less than a save waits for an answer
SECONDS = 10.0


@pytest.fixture(scope="module")
def server() -> Iterator[PrivateZooKeeper]:
    with private_zookeeper() as server:
        yield server


class Way:
    """From a table of the source to one of the target, by two processes."""

    def __init__(
        self,
        server: PrivateZooKeeper,
        bus: Bus,
        cursor: pymysql.cursors.Cursor,
        kafka: str,
        run: Run,
        name: str,
    ) -> None:
        self.server, self.bus, self.cursor, self.kafka = server, bus, cursor, kafka
        self.run, self.name = run, name
        self.rows = 0
        self._running: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        for task_id in (FETCH, LOAD):
            with (self.bus.folder / f"{task_id}.log").open("ab") as log:
                file = str(self.bus.folder / f"{task_id}.properties")
                self._running.append(
                    subprocess.Popen(
                        [sys.executable, "-m", "cdcbus", "task", "run", file],
                        env=self.bus.environment,
                        stdout=log,
                        stderr=log,
                        cwd=self.bus.folder,
                    )
                )

    def insert(self, seconds: float = 240.0) -> None:
        """A row, and waits for it."""
        self.cursor.execute("INSERT INTO t VALUES (%s)", (self.rows,))
        self.rows += 1
        try:
            wait_until(
                lambda: self.in_target() == [*range(self.rows)],
                f"row {self.rows - 1} at the target",
                seconds,
            )
        except AssertionError as error:
            error.add_note(f"rows in Kafka: {self.in_kafka()}\n{self.bus.said()}")
            raise

    def in_target(self) -> list[int]:
        return [row[0] for row in self.run("SELECT id FROM t ORDER BY id")]

    def in_kafka(self) -> list[int]:
        return [int(record["data"][0]["id"]) for record in published(self.kafka, self.name)]

    def stored(self, task_id: str) -> str:
        return self.bus.text(position_path(task_id, self.name)) or ""

    def stop(self) -> None:
        """They store their positions."""
        for running in self._running:
            running.terminate()
        codes = [running.wait(60) for running in self._running]
        self._running.clear()
        assert codes == [0, 0]

    def close(self) -> None:
        """Kills them."""
        for running in self._running:
            running.kill()
            running.wait()
        self._running.clear()

    def assert_stored(self) -> None:
        """The positions are where the rows are."""
        fetched = BinlogPosition.from_json(self.stored(FETCH))
        end = position(self.cursor)
        assert (fetched.file, fetched.pos) == (end.file, end.pos)
        (loaded,) = kafka_positions_from_json(self.stored(LOAD))
        assert loaded.offset >= len(self.in_kafka()) - 1


@pytest.fixture(params=[False, True], ids=["plain", "transactions"])
def way(
    request: pytest.FixtureRequest,
    server: PrivateZooKeeper,
    stack: Addresses,
    source: Database,
    source_cursor: pymysql.cursors.Cursor,
    name: str,
    make_topic: Callable[..., str],
    tmp_path: Path,
) -> Iterator[Way]:
    make_topic(name)
    source_cursor.execute("CREATE TABLE t (id INT PRIMARY KEY)")
    more = {"loader.source.transaction": "true"} if request.param else {}
    with (
        postgresql_schema(stack, name) as run,
        open_bus(
            server.address,
            name,
            tmp_path,
            SOURCE_PASSWORD=source.password,
            TARGET_PASSWORD=stack.postgresql.password,
            CDCBUS_ZOOKEEPER_SESSIONSECONDS=SESSION,
            CDCBUS_ZOOKEEPER_LEASESECONDS=LEASE,
        ) as bus,
    ):
        run(f"SET search_path TO {name}")
        run("CREATE TABLE t (id INT PRIMARY KEY)")
        fetch = fetch_text(FETCH, source, stack.kafka, name, **more)
        (tmp_path / f"{FETCH}.properties").write_text(fetch)
        (tmp_path / f"{LOAD}.properties").write_text(load_text(LOAD, stack, name))
        with closing(Way(server, bus, source_cursor, stack.kafka, run, name)) as way:
            way.start()
            log = tmp_path / f"{FETCH}.log"
            wait_until(lambda: "reads the binlog from" in log.read_text(), "the fetch task to work")
            way.insert()
            yield way


def in_silence(way: Way, what: Callable[[], Any]) -> None:
    way.server.pause()
    try:
        for _ in range(20):  # over some seconds, so that saves are due again and again
            way.insert(SECONDS)
            subprocess.run(["sleep", "0.15"], check=True)
        what()
    finally:
        way.server.go_on()


def test_rows_arrive_while_zookeeper_is_silent_and_positions_are_right_behind_it(way: Way) -> None:
    in_silence(way, lambda: None)
    end = position(way.cursor)
    wait_until(lambda: f'"offset":{end.pos}' in way.stored(FETCH), "the position to be stored")
    way.insert()
    way.stop()
    way.assert_stored()
    assert way.in_kafka() == [*range(way.rows)]
    assert "as another process may have its locks" not in way.bus.said()


def test_tasks_that_are_killed_meanwhile_lose_and_double_nothing(
    way: Way, request: pytest.FixtureRequest
) -> None:
    in_silence(way, way.close)
    way.start()
    way.insert()
    way.insert()
    way.stop()
    way.assert_stored()
    sent = way.in_kafka()
    if "transactions" in request.node.name:
        assert sent == [*range(way.rows)]
    else:  # the last ones come again, in order
        assert [*dict.fromkeys(sent)] == [*range(way.rows)]
        assert sent[-1] == way.rows - 1
