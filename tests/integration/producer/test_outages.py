"""Kafka and the source going away under a running task: nothing is lost, and it goes on by itself.

The servers killed here are a stack's of its own where the tests run on one that is to stay as it
is.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from rich.console import Console

from cdcbus.ops.stack import processes
from cdcbus.ops.stack.addresses import Addresses
from cdcbus.ops.stack.stack import kill, up
from cdcbus.plugins.errors import PositionLost, SourceMisconfigured
from cdcbus.plugins.positions import BinlogPosition
from cdcbus.producer.binlog import dump_stream
from cdcbus.producer.config import FetchTask
from cdcbus.producer.server.connection import binlog_files
from cdcbus.tasks.local.memory import MemoryPositions
from tests.contract.position_store import eventually
from tests.integration.producer.reading import connect, fetch_task, global_variable, position
from tests.integration.producer.running import Running, high_watermark, ids
from tests.support.topics.new_topics import create_topics

pytestmark = pytest.mark.integration

QUIET = Console(quiet=True)


@dataclass(frozen=True, slots=True)
class Site:
    """A stack that may be hurt, with a table `t` in a schema, and a topic and a task of that
    name."""

    home: Path
    addresses: Addresses
    task: FetchTask
    positions: MemoryPositions

    @property
    def kafka(self) -> str:
        return self.addresses.kafka

    def execute(self, statement: str, *values: object) -> BinlogPosition:
        """In a session of its own; the end of the binlog afterwards."""
        with connect(self.addresses.source) as connection, connection.cursor() as cursor:
            cursor.execute(f"USE {self.task.task_id}")
            cursor.execute(statement, values)
            return position(cursor)

    def insert(self, *numbers: int) -> BinlogPosition:
        """One transaction each. Returns where the last one ends: the file may go on, as MariaDB
        notes a checkpoint some time after it has begun a file."""
        with connect(self.addresses.source) as connection, connection.cursor() as cursor:
            for number in numbers:
                cursor.execute(f"INSERT INTO {self.task.task_id}.t VALUES (%s)", (number,))
            file = position(cursor).file
            cursor.execute(f"SHOW BINLOG EVENTS IN '{file}'")
            return BinlogPosition(
                file, max(end for _, _, event, _, end, *_ in cursor.fetchall() if event == "Xid")
            )

    def killed(self, server: str) -> None:
        kill(self.home, server)

    def stopped(self, server: str) -> None:
        """In the way of an operator; `restored` brings it back."""
        processes.stop(self.home / server, signal.SIGTERM, 60.0)

    @contextmanager
    def suspended(self, server: str) -> Iterator[None]:
        """The server neither answers nor goes away."""
        number = processes.pid(self.home / server)
        assert number is not None
        os.kill(number, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(number, signal.SIGCONT)

    def restored(self) -> None:
        up(self.home, QUIET)


@pytest.fixture
def site(killable_home: Path, name: str) -> Iterator[Site]:
    addresses = up(killable_home, QUIET)
    admin = AdminClient({"bootstrap.servers": addresses.kafka})
    create_topics(admin, NewTopic(name, 1, 1))
    with connect(addresses.source) as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {name}")
        cursor.execute(f"CREATE TABLE {name}.t (id INT PRIMARY KEY)")
        start = position(cursor)
    positions = MemoryPositions()
    positions.save(start.to_json())
    yield Site(
        killable_home,
        addresses,
        fetch_task(addresses.source, name, servers=addresses.kafka),
        positions,
    )
    with connect(up(killable_home, QUIET).source) as connection, connection.cursor() as cursor:
        cursor.execute(f"DROP DATABASE {name}")


def test_a_broker_killed_under_load_loses_nothing_and_repeats_nothing(site: Site) -> None:
    with Running(site.task, site.positions) as running:
        site.insert(*range(200))
        running.until(lambda: high_watermark(site.kafka, site.task.task_id) > 0)
        site.killed("kafka")
        while_down = site.insert(*range(200, 500))
        assert BinlogPosition.from_json(site.positions.load() or "").pos < while_down.pos
        site.restored()
        running.until_stored(site.insert(*range(500, 600)))
    assert ids(site.kafka, site.task.task_id) == list(range(600))


def test_a_task_can_be_stopped_while_no_broker_answers(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cdcbus.plugins.kafka.producer.STOP_SECONDS", 1.0)
    with Running(site.task, site.positions) as running:
        running.until_stored(site.insert(1))
        site.killed("kafka")
        end = site.insert(2, 3)
        running.until(lambda: running.progress.done > 1)
        running.until(lambda: 0 < running.progress.queued_bytes < site.task.publish.queue_bytes)
    assert BinlogPosition.from_json(site.positions.load() or "").pos < end.pos
    site.restored()
    with Running(site.task, site.positions) as running:
        running.until_stored(end)
    assert ids(site.kafka, site.task.task_id) == [1, 2, 3]


def test_a_source_killed_and_restarted_is_read_on(site: Site) -> None:
    with Running(site.task, site.positions) as running:
        running.until_stored(site.insert(*range(50)))
        site.killed("source")
        site.restored()
        running.until_stored(site.insert(*range(50, 100)))
    assert ids(site.kafka, site.task.task_id) == list(range(100))


def test_a_source_that_is_stopped_and_started_is_read_on(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    with Running(site.task, site.positions) as running:
        running.until_stored(site.insert(*range(50)))
        site.stopped("source")
        running.until(
            lambda: sum("trying again in" in record.getMessage() for record in caplog.records) >= 3
        )
        site.restored()
        running.until_stored(site.insert(*range(50, 100)))
    assert ids(site.kafka, site.task.task_id) == list(range(100))


def test_a_source_that_hangs_is_noticed_by_its_silence_and_read_on(
    site: Site, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(dump_stream, "SILENCE_SECONDS", 1.0)
    with Running(site.task, site.positions) as running:
        running.until_stored(site.insert(1))
        with site.suspended("source"):
            running.until(
                lambda: any(
                    "cannot be reached: timed out; check" in record.getMessage()
                    for record in caplog.records
                )
            )
        running.until_stored(site.insert(2))
    assert ids(site.kafka, site.task.task_id) == [1, 2]


def test_a_binlog_purged_while_the_task_was_stopped_stops_it(site: Site) -> None:
    lost = site.insert(1)
    site.execute("FLUSH BINARY LOGS")
    end = site.execute("FLUSH BINARY LOGS")
    before = site.positions.load()
    # The server keeps a file for as long as another reader's thread, which may have lost its
    # reader, stands in it.
    assert eventually(lambda: purged(site, end.file), 60.0)
    stops = pytest.raises(
        PositionLost, match=f"does not hold {lost.file}:.*it has {end.file} to {end.file}"
    )
    with stops, Running(site.task, site.positions) as running:
        running.ends()
    assert site.positions.load() == before


def purged(site: Site, file: str) -> bool:
    """Whether the server has removed all binlog files before this one."""
    site.execute(f"PURGE BINARY LOGS TO '{file}'")
    with connect(site.addresses.source) as connection:
        return [name for name, _ in binlog_files(connection)] == [file]


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("binlog_format", "STATEMENT"),
        ("binlog_format", "MIXED"),
        ("binlog_row_image", "MINIMAL"),
        ("binlog_row_image", "NOBLOB"),
    ],
)
def test_a_server_whose_binlog_does_not_hold_whole_rows_is_refused(
    site: Site, variable: str, value: str
) -> None:
    before = site.positions.load()
    refuses = pytest.raises(
        SourceMisconfigured, match=rf"{variable} is {value}, must be (ROW|FULL).*\[mysqld\]"
    )
    with (
        global_variable(site.addresses.source, variable, value),
        refuses,
        Running(site.task, site.positions) as running,
    ):
        running.ends()
    assert site.positions.load() == before


def test_a_server_without_binlog_is_refused(site: Site) -> None:
    """The stack's target database writes none."""
    before = site.positions.load()
    task = fetch_task(site.addresses.mariadb, site.task.task_id, servers=site.kafka)
    with (
        pytest.raises(SourceMisconfigured, match="log_bin is OFF, must be ON"),
        Running(task, site.positions) as running,
    ):
        running.ends()
    assert site.positions.load() == before


@pytest.mark.parametrize("checksum", ["NONE", "CRC32"])
def test_a_checksum_switched_while_reading_changes_nothing(site: Site, checksum: str) -> None:
    with Running(site.task, site.positions) as running:
        running.until_stored(site.insert(1))
        with global_variable(site.addresses.source, "binlog_checksum", checksum):
            running.until_stored(site.insert(2))
        running.until_stored(site.insert(3))
    assert ids(site.kafka, site.task.task_id) == [1, 2, 3]
