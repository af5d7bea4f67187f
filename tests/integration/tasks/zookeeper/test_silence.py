"""A ZooKeeper that is silent, and one that comes back: work under a lock ends in time, and goes on
in the same process."""

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pymysql
import pytest
from kazoo.client import KazooClient

from cdcbus.ops.stack.addresses import Database
from cdcbus.plugins.errors import ConfigError
from cdcbus.tasks.process_restart import RESTARTED_VARIABLE
from cdcbus.tasks.zookeeper.connection import connect, session_seconds
from cdcbus.tasks.zookeeper.lock import Guard, LockTimes, Stop, guarded, lock_path
from tests.support.processes.bus import Bus, fetch_text, open_bus, published
from tests.support.servers.line import Line
from tests.support.servers.private_zookeeper import PrivateZooKeeper, private_zookeeper
from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration
TIMES = LockTimes(6, 3)


@pytest.fixture(scope="module")
def server() -> Iterator[PrivateZooKeeper]:
    with private_zookeeper() as server:
        yield server


@pytest.fixture
def line(server: PrivateZooKeeper) -> Iterator[Line]:
    with closing(Line(server.address)) as line:
        yield line


@pytest.fixture
def client(line: Line, name: str) -> Iterator[KazooClient]:
    """Of the process that works."""
    client = connect(f"{line.address}/{name}", session_seconds=TIMES.session_seconds)
    yield client
    client.stop()
    client.close()


@pytest.fixture
def other(server: PrivateZooKeeper, client: KazooClient, name: str) -> Iterator[KazooClient]:
    other = connect(f"{server.address}/{name}", session_seconds=60)
    yield other
    other.stop()
    other.close()


@pytest.fixture
def forced() -> threading.Event:
    return threading.Event()


@pytest.fixture
def guard(client: KazooClient, forced: threading.Event) -> Iterator[Guard]:
    with guarded(client, forced.set, TIMES) as guard:
        yield guard


def owner(client: KazooClient) -> int | None:
    """The session that has the lock."""
    stat = client.exists(lock_path("1", "a"))
    return None if stat is None else int(stat.ephemeralOwner)


def test_work_ends_after_the_lease_and_goes_on_by_the_same_session_if_zookeeper_answers_in_time(
    guard: Guard, client: KazooClient, server: PrivateZooKeeper, forced: threading.Event
) -> None:
    stop, before = Stop(), client.client_id[0]
    with guard.locks("1", ["a"], "") as locks:
        end = stop.part()
        assert locks.take(stop, end)
        server.pause()
        try:
            assert end.wait(30)
        finally:
            server.go_on()
        locks.rest()
        again = stop.part()
        assert locks.take(stop, again)
        assert (end.is_lost, again.is_set(), owner(client)) == (True, False, before)
        # and it is guarded as before
        server.pause()
        try:
            assert again.wait(30)
        finally:
            server.go_on()
        locks.rest()
    assert (forced.is_set(), owner(client)) == (False, None)


def test_whoever_loses_the_session_takes_the_lock_again_as_soon_as_it_can_be_had(
    guard: Guard, client: KazooClient, other: KazooClient, line: Line, forced: threading.Event
) -> None:
    stop, before = Stop(), client.client_id[0]
    with guard.locks("1", ["a"], "") as locks:
        end = stop.part()
        assert locks.take(stop, end)
        line.cut()
        assert end.wait(30)
        assert owner(other) == before
        locks.rest()
        wait_until(lambda: owner(other) is None, "ZooKeeper to give the lock away")
        line.mend()
        assert locks.take(stop, stop.part())
        assert owner(other) == client.client_id[0] != before
        assert not forced.is_set()


def test_work_that_does_not_end_is_ended_by_force_before_anybody_else_can_have_the_lock(
    guard: Guard, client: KazooClient, other: KazooClient, line: Line, forced: threading.Event
) -> None:
    stop = Stop()
    with guard.locks("1", ["a"], "") as locks:
        end = stop.part()
        assert locks.take(stop, end)
        line.cut()
        assert end.wait(30)
        assert forced.wait(30)
        assert owner(other) is not None
        line.mend()
        wait_until(lambda: client.connected, "the connection")


def test_work_under_a_lock_that_is_anothers_is_ended_by_force_at_once(
    guard: Guard, other: KazooClient, forced: threading.Event
) -> None:
    stop = Stop()
    with guard.locks("1", ["a"], "") as locks:
        end = stop.part()
        assert locks.take(stop, end)
        other.delete(lock_path("1", "a"))
        assert forced.wait(30)
        assert not end.is_set()


def test_a_server_that_keeps_sessions_for_too_short_a_time_is_refused(client: KazooClient) -> None:
    client.cdcbus_kept_seconds = 3.9  # as one whose maxSessionTimeout is that
    with (
        pytest.raises(ConfigError, match=r"keeps a session for 3\.9 s at most: too short for"),
        guarded(client, lambda: None, TIMES),
    ):
        pass


@pytest.mark.parametrize(("asked", "kept"), [(0.5, 1.0), (7, 7.0), (100, 60.0)])
def test_what_the_server_makes_of_a_session_time_is_known(
    server: PrivateZooKeeper, asked: float, kept: float
) -> None:
    client = connect(server.address, session_seconds=asked)
    try:
        assert session_seconds(client) == pytest.approx(kept, abs=0.01)
    finally:
        client.stop()
        client.close()


def test_a_task_goes_on_in_its_process_when_zookeeper_was_silent_cut_off_or_killed(
    server: PrivateZooKeeper,
    line: Line,
    source: Database,
    source_cursor: pymysql.cursors.Cursor,
    kafka: str,
    name: str,
    make_topic: Callable[..., str],
    tmp_path: Path,
) -> None:
    """More than 20 s: ZooKeeper is silent for longer than a lease, cut off and killed, one after
    the other."""
    make_topic(name)
    source_cursor.execute("CREATE TABLE t (id INT PRIMARY KEY)")
    with open_bus(server.address, name, tmp_path, SOURCE_PASSWORD=source.password) as bus:
        bus.environment |= {
            "CDCBUS_ZOOKEEPER": f"{line.address}/{name}",
            "CDCBUS_ZOOKEEPER_SESSIONSECONDS": "10",
            "CDCBUS_ZOOKEEPER_LEASESECONDS": "3",
        }
        file, log, rows = tmp_path / "1.properties", tmp_path / "run.log", 0
        file.write_text(fetch_text("1", source, kafka, name))
        words = [sys.executable, "-m", "cdcbus", "task", "run", str(file)]

        def works(times: int) -> None:
            nonlocal rows
            wait_until(
                lambda: log.read_text().count("reads the binlog from") == times, "it to work"
            )
            source_cursor.execute("INSERT INTO t VALUES (%s)", (rows,))
            rows += 1
            wait_until(lambda: _ids(kafka, name) == set(range(rows)), "its row in Kafka")

        with (
            log.open("wb") as output,
            subprocess.Popen(words, env=bus.environment, stderr=output, cwd=tmp_path) as running,
        ):
            try:
                works(1)
                for number, (silence, sound) in enumerate(
                    ((server.pause, server.go_on), (line.cut, line.mend)), 1
                ):
                    silence()
                    try:
                        _wait_for_ends(log, number)
                        if silence == line.cut:
                            wait_until(lambda: bus.runner("1") == 0, "its session to end")
                    finally:
                        sound()
                    works(number + 1)
                server.kill()
                _wait_for_ends(log, 3)
                server.start()
                works(4)
                wait_until(lambda: bool(bus.client.connected), "the test's own client")
                _assert_same_program(bus, running)
            finally:
                running.terminate()
            assert running.wait(30) == 0
        assert bus.runner("1") == 0


def _ids(kafka: str, topic: str) -> set[int]:
    return {int(record["data"][0]["id"]) for record in published(kafka, topic)}


def _wait_for_ends(log: Path, number: int) -> None:
    wait_until(
        lambda: log.read_text().count("as another process may have its locks, and waits") == number,
        "its work to end",
    )


def _assert_same_program(bus: Bus, running: subprocess.Popen[bytes]) -> None:
    assert bus.runner("1") == running.pid
    environment = Path(f"/proc/{running.pid}/environ").read_bytes()
    assert RESTARTED_VARIABLE.encode() not in environment
