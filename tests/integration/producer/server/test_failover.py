"""Several addresses of a source, servers that come back with other binlogs, and binlogs that
break off. The servers are the tests' own."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, nullcontext, suppress
from dataclasses import replace
from typing import Any

import pytest
from pymysql.cursors import Cursor

from cdcbus.ops.stack.addresses import Database
from cdcbus.plugins.errors import PositionLost, SourceBehind, SourceRefused, SourceUnavailable
from cdcbus.plugins.positions import BinlogPosition
from cdcbus.plugins.start import Edge
from cdcbus.producer.config import FetchTask
from cdcbus.producer.schema.table_versions import MemorySchemas
from cdcbus.producer.server.connection import inspect
from cdcbus.producer.source import end_watch
from cdcbus.producer.source.end_watch import EndWatch, Sent
from cdcbus.producer.source.row_events import Batch
from cdcbus.tasks.local.memory import MemoryPositions
from cdcbus.tasks.runtime.lag import lag_meter
from tests.integration.producer.reading import connect, fetch_task
from tests.integration.producer.running import Running, canal, high_watermark, ids
from tests.support.servers.line import Line
from tests.support.servers.mariadb_pair import (
    REPLICA,
    REPLICA_PASSWORD,
    access_for_replicas,
    replicating,
)
from tests.support.servers.private_mariadb import PrivateMariadb, private_mariadb
from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration


@pytest.fixture
def server(name: str) -> Iterator[PrivateMariadb]:
    """A server with a table `t` in a schema."""
    with private_mariadb() as server:
        server.execute(f"CREATE DATABASE {name}", f"CREATE TABLE {name}.t (id INT PRIMARY KEY)")
        yield server


@pytest.fixture
def task(
    server: PrivateMariadb, kafka: str, name: str, make_topic: Callable[..., str]
) -> FetchTask:
    make_topic(name)
    return replace(fetch_task(server.database, name, servers=kafka), start=Edge.LATEST)


def inserts(name: str, *numbers: int) -> list[str]:
    return [f"INSERT INTO {name}.t VALUES ({number})" for number in numbers]


def stored(positions: MemoryPositions) -> BinlogPosition:
    return BinlogPosition.from_json(positions.load() or "")


def ran(task: FetchTask, positions: MemoryPositions, do: Callable[[], BinlogPosition]) -> None:
    """Runs the task until it has stored the end of what is done meanwhile."""
    with Running(task, positions) as running:
        running.until(lambda: running.progress.position is not None)
        running.until_stored(do())


def test_the_gtids_are_known_from_the_first_transaction_of_a_server_on(
    server: PrivateMariadb, task: FetchTask, name: str
) -> None:
    """Its set is empty where the task begins, which is not unknown."""
    server.execute("RESET MASTER")
    positions = MemoryPositions()
    ran(task, positions, lambda: server.execute(*inserts(name, 1)))
    with connect(server.database) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT @@GLOBAL.gtid_binlog_pos")
        assert stored(positions).gtid == cursor.fetchall()[0][0] != ""


@pytest.mark.parametrize("has_gtids", [True, False], ids=["by GTIDs", "by time"])
def test_the_next_address_is_read_when_the_first_is_gone(
    server: PrivateMariadb,
    task: FetchTask,
    kafka: str,
    name: str,
    has_gtids: bool,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The second server has what the first one has, in other places of its own files."""
    positions = MemoryPositions()
    with private_mariadb("--server-id=2", "--log-slave-updates") as second:
        second.execute("FLUSH BINARY LOGS", "FLUSH BINARY LOGS")
        server.execute(
            "CREATE USER anywhere IDENTIFIED BY 'anywhere-pass'", "GRANT ALL ON *.* TO anywhere"
        )
        source = replace(server.database, user="anywhere", password="anywhere-pass")
        second.execute(
            f"CHANGE MASTER TO MASTER_HOST='{source.host}', MASTER_PORT={source.port}, "
            f"MASTER_USER='{source.user}', "
            f"MASTER_PASSWORD='{source.password}', MASTER_USE_GTID=slave_pos, MASTER_SSL=0, "
            "MASTER_SSL_VERIFY_SERVER_CERT=0",
            "START SLAVE",
        )
        places = tuple((there.database.host, there.database.port) for there in (server, second))
        access = replace(
            task.source,
            addresses=places,
            user=source.user,
            password=source.password,
            connect_timeout_seconds=2.0,
        )
        task = replace(task, source=access)
        ran(task, positions, lambda: server.execute(*inserts(name, 1, 2, 3)))
        wait_until(lambda: rows(second, name) == 3, "the second server to have the rows")
        if not has_gtids:
            positions.save(replace(stored(positions), gtid="").to_json())
        with Running(task, positions) as running:
            running.until(lambda: running.progress.position is not None)
            assert running.progress.address == places[0]
            server.kill()
            end = second.execute(*inserts(name, 4, 5))
            running.until(lambda: stored_place(running) == (end.file, end.pos))
            assert running.progress.address == places[1]
            assert lag_meter(task)(running.progress).seconds == 0.0
        sent = ids(kafka, name)
        assert sent == [1, 2, 3, 4, 5] if has_gtids else sent[:3] + sent[-2:] == [1, 2, 3, 4, 5]
        assert stored(positions).gtid.startswith("0-2-")
        assert (
            f"trying source {places[1][0]}:{places[1][1]} in place of {places[0][0]}:{places[0][1]}"
            in caplog.text
        )
        with Running(task, positions) as running:
            running.until_stored(second.execute(*inserts(name, 6)))
        assert ids(kafka, name)[-1] == 6


def test_a_replica_that_lags_is_waited_for_unless_another_address_has_everything(
    server: PrivateMariadb, task: FetchTask, kafka: str, name: str
) -> None:
    """Although the task file says how to go on from a lost position."""
    positions = MemoryPositions()
    with private_mariadb("--server-id=2", "--log-slave-updates") as second:
        server.execute(*access_for_replicas())
        source = replace(task.source, user=REPLICA, password=REPLICA_PASSWORD)
        task = replace(task, source=source, on_position_lost=Edge.EARLIEST)
        second.execute(*replicating(server))
        ran(task, positions, lambda: server.execute(*inserts(name, 1)))
        wait_until(lambda: rows(second, name) == 1, "the second server to have the row")
        second.execute("STOP SLAVE")
        ran(task, positions, lambda: server.execute(*inserts(name, 2)))
        place = (second.database.host, second.database.port)
        there = replace(task, source=replace(source, addresses=(place,)))
        with (
            pytest.raises(SourceBehind, match="has not executed 0-1-"),
            Running(there, positions) as running,
        ):
            running.ends()
        # The other one has everything.
        both = replace(task, source=replace(source, addresses=(place, *source.addresses)))
        ran(both, positions, lambda: server.execute(*inserts(name, 4)))
        second.execute("START SLAVE")
        wait_until(lambda: rows(second, name) == 3, "the second server to have all rows")
        ran(there, positions, lambda: second.execute(*inserts(name, 3)))
    assert ids(kafka, name) == [1, 2, 4, 3]


def test_a_failover_by_gtids_keeps_the_schema_history(
    server: PrivateMariadb, task: FetchTask, kafka: str, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """DDL that the first server had and the task had not read yet lies between."""
    positions, schemas = MemoryPositions(), MemorySchemas()
    caplog.set_level("INFO", "cdcbus.producer")
    with private_mariadb(
        "--server-id=2", "--log-slave-updates", "--binlog-row-metadata=NO_LOG"
    ) as second:
        server.execute("SET GLOBAL binlog_row_metadata = NO_LOG", *access_for_replicas())
        second.execute("FLUSH BINARY LOGS", *replicating(server))
        first_task = replace(
            task, source=replace(task.source, user=REPLICA, password=REPLICA_PASSWORD)
        )
        running = Running(first_task, positions)
        running.schemas = schemas
        with running:
            running.until(lambda: running.progress.position is not None)
            running.until_stored(
                server.execute(
                    f"ALTER TABLE {name}.t ADD a INT", f"INSERT INTO {name}.t VALUES (1, 2)"
                )
            )
        server.execute(
            f"INSERT INTO {name}.t VALUES (3, 4)",
            f"ALTER TABLE {name}.t DROP a, ADD b INT FIRST",
            f"INSERT INTO {name}.t VALUES (5, 6)",
        )
        wait_until(lambda: rows(second, name) == 3, "the second server to have the rows")
        server.kill()
        there = (second.database.host, second.database.port)
        again = Running(
            replace(first_task, source=replace(first_task.source, addresses=(there,))), positions
        )
        again.schemas = schemas
        with again:
            again.until(lambda: high_watermark(kafka, name) == 3)
    found = [record["data"][0] for record in canal(kafka, name)]
    assert found == [{"id": "1", "a": "2"}, {"id": "3", "a": "4"}, {"b": "5", "id": "6"}]
    assert "the schema history of 1 tables continues at" in caplog.text


def test_an_address_that_refuses_the_login_lets_the_next_one_have_its_turn(
    server: PrivateMariadb,
    mariadb: Database,
    task: FetchTask,
    kafka: str,
    name: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    # where another password holds
    here, elsewhere = task.source.addresses[0], (mariadb.host, mariadb.port)
    task = replace(task, source=replace(task.source, addresses=(elsewhere, here)))
    ran(task, MemoryPositions(), lambda: server.execute(*inserts(name, 1)))
    assert ids(kafka, name) == [1]
    assert f"source {elsewhere[0]}:{elsewhere[1]} refuses user" in caplog.text
    task = replace(task, source=replace(task.source, addresses=(elsewhere,)))
    with pytest.raises(SourceRefused), Running(task, MemoryPositions()) as running:
        running.ends()


def rows(server: PrivateMariadb, name: str) -> int:
    with connect(server.database) as connection, connection.cursor() as cursor:
        return count(cursor, name)


def count(cursor: Cursor, name: str) -> int:
    cursor.execute(
        "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = %s", (name,)
    )
    if cursor.fetchall() == ((0,),):
        return 0
    cursor.execute(f"SELECT COUNT(*) FROM {name}.t")
    return int(cursor.fetchall()[0][0])


def stored_place(running: Running) -> tuple[str, int] | None:
    place = running.progress.position
    return (place.file, place.pos) if place else None


def test_a_reset_binlog_is_not_taken_for_the_one_that_was_read(
    server: PrivateMariadb, task: FetchTask, kafka: str, name: str
) -> None:
    positions = MemoryPositions()
    server.execute("RESET MASTER")
    ran(task, positions, lambda: server.execute(*inserts(name, 1)))
    before = stored(positions)
    wait_until(
        lambda: (
            server.execute("RESET MASTER") is not None
            and created(server, task) > before.file_created_ms
        ),
        "a file of another second",
    )
    end = server.execute(*inserts(name, 2, 3, 4, 5))
    assert (end.file, end.pos) > (before.file, before.pos)
    with (
        pytest.raises(PositionLost, match=f"does not hold {before}.*the binlog was reset"),
        Running(task, positions) as running,
    ):
        running.ends()
    assert stored(positions) == before
    with Running(replace(task, on_position_lost=Edge.EARLIEST), positions) as running:
        running.until_stored(end)
    assert ids(kafka, name) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("rule", [None, Edge.EARLIEST])
@pytest.mark.usefixtures("quick_look")
def test_a_binlog_that_is_reset_under_a_running_task_is_noticed(
    server: PrivateMariadb, task: FetchTask, kafka: str, name: str, rule: Edge | None
) -> None:
    positions = MemoryPositions()
    server.execute("FLUSH BINARY LOGS", "FLUSH BINARY LOGS")
    task = replace(task, on_position_lost=rule)
    ends: AbstractContextManager[Any] = nullcontext()
    if rule is None:
        ends = pytest.raises(PositionLost, match="does not hold mysql-bin")
    with ends, Running(task, positions) as running:
        running.until(lambda: running.progress.position is not None)
        running.until_stored(server.execute(*inserts(name, 1, 2)))
        server.execute("RESET MASTER", *inserts(name, 3))
        if rule is None:
            running.ends()
        running.until(lambda: ids(kafka, name)[-1:] == [3])
    assert ids(kafka, name) == ([1, 2] if rule is None else [1, 2, 3])


@pytest.mark.usefixtures("quick_look")
@pytest.mark.parametrize(
    ("further", "older_ms"), [(100, 0), (0, 5000)], ids=["elsewhere", "in another file of the name"]
)
def test_a_stream_that_stands_still_elsewhere_than_at_the_end_is_given_up(
    server: PrivateMariadb, task: FetchTask, further: int, older_ms: int
) -> None:
    """So MySQL's thread does after RESET BINARY LOGS AND GTIDS: it sends heartbeats at the end
    of the file that is gone."""
    end = server.execute()
    with connect(server.database) as connection:
        watch = EndWatch(task.source, inspect(connection, task.source))
    tick, sent = (
        threading.Event(),
        Sent(end.file, end.pos + further, created(server, task) - older_ms),
    )
    with pytest.raises(
        SourceUnavailable,
        match=f"up to {sent} and nothing since, but its end is {end}, in a file of 20",
    ):
        while not tick.wait(0.05):
            watch.see(Batch([], None, []), sent)


@pytest.mark.usefixtures("quick_look")
def test_another_server_that_has_come_behind_the_address_is_noticed_while_the_first_sends_heartbeats(
    server: PrivateMariadb, task: FetchTask, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    line = Line(f"{server.database.host}:{server.database.port}")
    host, port = line.address.split(":")
    access = replace(
        task.source, addresses=((host, int(port)),), user="anywhere", password="anywhere-pass"
    )
    grants = ("CREATE USER anywhere IDENTIFIED BY 'anywhere-pass'", "GRANT ALL ON *.* TO anywhere")
    with private_mariadb("--server-id=7") as second, closing(line):
        server.execute(*grants)
        second.execute(*grants)
        with (
            suppress(PositionLost),
            Running(replace(task, source=access), MemoryPositions()) as running,
        ):
            running.until(lambda: running.progress.position is not None)
            line.lead_to(f"{second.database.host}:{second.database.port}")
            wait_until(
                lambda: "is another server now: server-id-7, not server-id-" in caplog.text,
                "it to be noticed",
            )


@pytest.mark.usefixtures("quick_look")
def test_a_quiet_task_reads_on_and_is_not_taken_for_one_that_stands_still(
    server: PrivateMariadb,
    task: FetchTask,
    kafka: str,
    name: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The end is asked many times: of a file that was begun anew, and behind transactions of
    tables that are not read."""
    looks: list[bool] = []
    look = EndWatch._stands_elsewhere

    def counted(watch: EndWatch, sent: Sent) -> bool:
        looks.append(look(watch, sent))
        return looks[-1]

    monkeypatch.setattr(EndWatch, "_stands_elsewhere", counted)
    with Running(task, MemoryPositions()) as running:
        running.until(lambda: running.progress.position is not None)
        for statements in (
            (),
            ("FLUSH BINARY LOGS",),
            (f"CREATE DATABASE {name}_other", f"DROP DATABASE {name}_other"),
        ):
            server.execute(*statements)
            seen = len(looks)
            running.until(lambda seen=seen: len(looks) > seen + 4)  # type: ignore[misc]
        running.until_stored(server.execute(*inserts(name, 1)))
    assert "is looked at again" not in caplog.text
    assert ids(kafka, name) == [1]


@pytest.fixture
def quick_look(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(end_watch, "QUIET_SECONDS", 0.3)
    monkeypatch.setattr(end_watch, "AGAIN_SECONDS", 0.3)


def created(server: PrivateMariadb, task: FetchTask) -> int:
    from cdcbus.producer.source.binlog_source import BinlogSource

    with BinlogSource(task) as source:
        return source.locate(Edge.LATEST).file_created_ms


@pytest.mark.parametrize("rule", [None, Edge.EARLIEST, Edge.LATEST])
def test_a_purged_position_stops_the_task_or_goes_on_as_the_task_file_says(
    server: PrivateMariadb,
    task: FetchTask,
    kafka: str,
    name: str,
    rule: Edge | None,
    caplog: pytest.LogCaptureFixture,
) -> None:
    positions = MemoryPositions()
    ran(task, positions, lambda: server.execute(*inserts(name, 1)))
    lost = stored(positions)
    server.execute("FLUSH BINARY LOGS", *inserts(name, 2), "FLUSH BINARY LOGS", *inserts(name, 3))
    last = server.execute()
    wait_until(lambda: purged(server, last.file), "the old files to be purged")
    gap = (
        f"does not hold {lost}, committed 20.* UTC: it has {last.file} to {last.file}; "
        f"{last.file} begins at 20"
    )
    if rule is None:
        with pytest.raises(PositionLost, match=gap), Running(task, positions) as running:
            running.ends()
        assert stored(positions) == lost
        return
    ran(replace(task, on_position_lost=rule), positions, lambda: server.execute(*inserts(name, 4)))
    assert ids(kafka, name) == ([1, 3, 4] if rule is Edge.EARLIEST else [1, 4])
    assert "consumer.source.onPositionLost=" in caplog.text


def purged(server: PrivateMariadb, file: str) -> bool:
    server.execute(f"PURGE BINARY LOGS TO '{file}'")
    with connect(server.database) as connection, connection.cursor() as cursor:
        cursor.execute("SHOW BINARY LOGS")
        return bool(cursor.fetchall()[0][0] == file)


def test_a_file_that_breaks_off_is_left_for_the_next_one(
    server: PrivateMariadb, task: FetchTask, kafka: str, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """As after a power loss: the last transaction is half there."""
    positions = MemoryPositions()
    ran(task, positions, lambda: server.execute(*inserts(name, 1)))
    end = server.execute(f"INSERT INTO {name}.t VALUES (100), (101)")
    server.kill()
    os.truncate(server.binlog(end.file), end.pos - 10)
    server.start()
    with Running(task, positions) as running:
        running.until_stored(server.execute(*inserts(name, 2)))
    sent = ids(kafka, name)
    assert (sent[0], sent[-1]) == (1, 2)
    assert f"{end.file} breaks off, as after a power loss; continuing with" in caplog.text


def test_a_file_that_lacks_what_the_next_one_says_was_committed_before_it(
    server: PrivateMariadb, task: FetchTask, kafka: str, name: str
) -> None:
    """As in a copy of the source's files: the rows of the last two are there, and were not read."""
    positions = MemoryPositions()
    ran(task, positions, lambda: server.execute(*inserts(name, 1)))
    before = stored(positions)
    end = server.execute(*inserts(name, 2))
    server.execute(*inserts(name, 3, 4), "FLUSH BINARY LOGS", *inserts(name, 5))
    server.kill()
    os.truncate(server.binlog(end.file), end.pos + 10)
    server.start()
    lost = "cannot send all that it has committed before .*are missing in its binlog"
    with pytest.raises(PositionLost, match=lost), Running(task, positions) as running:
        running.ends()
    assert ids(kafka, name) == [1, 2]
    assert stored(positions).pos >= before.pos


def test_an_end_that_was_read_and_is_lost_is_told(
    server: PrivateMariadb, task: FetchTask, kafka: str, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    positions = MemoryPositions()
    size = server.execute(*inserts(name, 1)).pos
    ran(
        replace(task, start=server.execute()),
        positions,
        lambda: server.execute(*inserts(name, 2, 3)),
    )
    end = stored(positions)
    server.kill()
    os.truncate(server.binlog(end.file), size)
    server.start()
    with Running(task, positions) as running:
        running.until_stored(server.execute(*inserts(name, 4)))
    assert ids(kafka, name) == [2, 3, 4]
    assert (
        f"has lost the end of {end.file} after {size}, which the task has read up to {end.pos}"
        in caplog.text
    )
