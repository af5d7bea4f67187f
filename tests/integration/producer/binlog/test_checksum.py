"""binlog_checksum is switched under a running task: each file's head says what its events end
with, for all who read the binlog. A damaged event is noticed by it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from threading import Event

import pytest
from pymysql.cursors import Cursor

from cdcbus.ops.stack.addresses import Database
from cdcbus.plugins.contracts import PositionStore
from cdcbus.plugins.errors import PositionLost, UnreadableEvent
from cdcbus.plugins.start import AtGtid, AtTime, Edge
from cdcbus.producer.progress import Progress
from cdcbus.producer.schema.table_versions import MemorySchemas
from cdcbus.producer.source.binlog_source import BinlogSource
from tests.integration.producer.reading import connect, fetch_task, global_variable, position, read
from tests.integration.producer.running import SECONDS, Running, canal
from tests.support.servers.private_mariadb import private_mariadb

pytestmark = [pytest.mark.integration, pytest.mark.source]


@pytest.mark.usefixtures("least_metadata")
@pytest.mark.parametrize(("before", "after"), [("CRC32", "NONE"), ("NONE", "CRC32")])
@pytest.mark.parametrize("rule", [None, Edge.LATEST])
def test_a_switch_before_ddl_loses_neither_rows_nor_the_position(
    source: Database,
    source_cursor: Cursor,
    kafka: str,
    name: str,
    make_topic: Callable[..., str],
    positions: PositionStore,
    caplog: pytest.LogCaptureFixture,
    before: str,
    after: str,
    rule: Edge | None,
) -> None:
    make_topic(name)
    task = replace(
        fetch_task(source, name, servers=kafka), start=Edge.LATEST, on_position_lost=rule
    )
    with global_variable(source, "binlog_checksum", before):
        source_cursor.execute("CREATE TABLE t (id INT PRIMARY KEY)")
        waits, goes_on = Event(), Event()
        goes_on.set()

        def report(_: Progress) -> None:
            if not goes_on.is_set():
                waits.set()
                goes_on.wait(SECONDS)

        with Running(task, positions, report) as running:
            running.until(lambda: running.progress.position is not None)
            source_cursor.execute("INSERT INTO t VALUES (1)")
            running.until_stored(position(source_cursor))
            goes_on.clear()
            assert waits.wait(SECONDS)
            with global_variable(source, "binlog_checksum", after):
                source_cursor.execute("INSERT INTO t VALUES (2)")
                source_cursor.execute("ALTER TABLE t ADD v VARCHAR(9) DEFAULT 'x'")
                source_cursor.execute("INSERT INTO t VALUES (3, 'y')")
                source_cursor.execute("ALTER TABLE t ADD w INT FIRST")
                source_cursor.execute("INSERT INTO t VALUES (5, 4, 'z')")
                goes_on.set()
                running.until_stored(position(source_cursor))
            source_cursor.execute("INSERT INTO t VALUES (6, 5, 'z')")
            running.until_stored(position(source_cursor))
    rows = [record["data"][0] for record in canal(kafka, name)]
    assert [int(row["id"]) for row in rows] == [1, 2, 3, 4, 5]
    assert rows[3] == {"w": "5", "id": "4", "v": "z"}
    assert "does not hold" not in caplog.text


@pytest.mark.parametrize(("before", "after"), [("CRC32", "NONE"), ("NONE", "CRC32")])
def test_a_place_is_found_by_time_in_files_of_either_kind(
    source: Database, source_cursor: Cursor, name: str, before: str, after: str
) -> None:

    with global_variable(source, "binlog_checksum", before):
        source_cursor.execute("CREATE TABLE t (id INT PRIMARY KEY)")
        with (
            BinlogSource(fetch_task(source, name)) as reader,
            global_variable(source, "binlog_checksum", after),
        ):
            source_cursor.execute("SELECT UNIX_TIMESTAMP(NOW(3))")
            now = int(source_cursor.fetchall()[0][0])
            source_cursor.execute("INSERT INTO t VALUES (1)")
            found = reader.locate(AtTime(now * 1000))
    source_cursor.execute("SHOW BINARY LOGS")
    assert found.file in [row[0] for row in source_cursor.fetchall()]


def test_gtids_are_found_in_a_servers_first_file_without_checksums() -> None:
    """The server changes the head of that file, and leaves its checksum as it was."""
    with private_mariadb("--binlog-checksum=NONE", "--binlog-gtid-index=OFF") as server:
        server.execute("CREATE DATABASE shop", "CREATE TABLE shop.t (id INT PRIMARY KEY)")
        with connect(server.database) as connection, connection.cursor() as cursor:
            cursor.execute("SELECT @@gtid_binlog_pos")
            [[gtid]] = cursor.fetchall()
        end = server.execute("INSERT INTO shop.t VALUES (1)")
        task = fetch_task(server.database, "shop")
        with BinlogSource(task) as reader:
            found = reader.locate(AtGtid(gtid))
        assert [change.after for change in read(task, found, end)] == [{"id": "1"}]


def test_a_row_that_is_damaged_in_the_file_stops_and_the_task_goes_on_behind_it() -> None:
    """The server does not look at it. The DDL behind it is found all the same."""
    amount = 81985529216486895
    with private_mariadb("--binlog-row-metadata=NO_LOG") as server:
        server.execute(
            "CREATE DATABASE shop", "CREATE TABLE shop.t (id INT PRIMARY KEY, amount BIGINT)"
        )
        start = server.execute("FLUSH BINARY LOGS")
        before = server.execute("INSERT INTO shop.t VALUES (1, 1000)")
        damaged = server.execute(f"INSERT INTO shop.t VALUES (2, {amount})")
        end = server.execute(
            "ALTER TABLE shop.t ADD b BIGINT FIRST", "INSERT INTO shop.t VALUES (30, 3, 3000)"
        )
        file = server.binlog(damaged.file)
        data = file.read_bytes()
        cell = amount.to_bytes(8, "little")
        file.write_bytes(data.replace(cell, (amount ^ 1 << 44).to_bytes(8, "little")))
        task, schemas = fetch_task(server.database, "shop"), MemorySchemas()
        rows = [change.after for change in read(task, start, before, schemas)]
        assert rows == [{"id": "1", "amount": "1000"}]
        with pytest.raises(UnreadableEvent, match="the checksum") as raised:
            read(task, start, end, schemas)
        place = str(raised.value).split(": ")[0]
        file_name, _, pos = place.partition(":")
        assert file_name == damaged.file
        assert before.pos < int(pos) < damaged.pos
        rows = [change.after for change in read(task, damaged, end, schemas)]
        assert rows == [{"b": "30", "id": "3", "amount": "3000"}]


@pytest.mark.parametrize(
    ("length", "words"),
    [
        (None, "did not pass crc check"),
        (7, "bogus data in log event"),
        (1 << 31, "exceeded max_allowed_packet"),
    ],
)
def test_a_damaged_event_that_the_server_notices_is_no_lost_position(
    length: int | None, words: str
) -> None:
    """Its number is that of a position that is lost, where onPositionLost would skip all behind."""
    with private_mariadb("--binlog-row-metadata=FULL", "--master-verify-checksum=1") as server:
        server.execute("CREATE DATABASE shop", "CREATE TABLE shop.t (id INT PRIMARY KEY)")
        start = server.execute("FLUSH BINARY LOGS")
        before = server.execute("INSERT INTO shop.t VALUES (1)")
        with connect(server.database) as connection, connection.cursor() as cursor:
            cursor.execute("SELECT @@gtid_binlog_pos")
            [[gtid]] = cursor.fetchall()
        damaged = server.execute("INSERT INTO shop.t VALUES (2)")
        end = server.execute("INSERT INTO shop.t VALUES (3)")
        file = server.binlog(damaged.file)
        data = bytearray(file.read_bytes())
        if length is None:
            data[before.pos + 20] ^= 1
        else:
            data[before.pos + 9 : before.pos + 13] = length.to_bytes(4, "little")
        file.write_bytes(data)
        task = replace(fetch_task(server.database, "shop"), on_position_lost=Edge.LATEST)
        assert [change.after for change in read(task, start, before)] == [{"id": "1"}]
        for read_from in (start, before):
            with pytest.raises(UnreadableEvent, match=words) as raised:
                read(task, read_from, end)
            assert str(raised.value).startswith(f"{damaged.file}:{before.pos}: the server")
        assert [change.after for change in read(task, damaged, end)] == [{"id": "3"}]
        with BinlogSource(task) as source, pytest.raises(UnreadableEvent, match=words):
            source.locate(AtGtid(gtid))
        # The server says the same of a place within an event.
        with pytest.raises(PositionLost):
            read(task, replace(before, pos=before.pos - 3), end)


def test_a_damaged_event_behind_another_one_is_named_itself(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The position was set past the first one, in the same file."""
    with private_mariadb("--binlog-row-metadata=FULL", "--master-verify-checksum=1") as server:
        server.execute("CREATE DATABASE shop", "CREATE TABLE shop.t (id INT PRIMARY KEY)")
        places = [server.execute("FLUSH BINARY LOGS")]
        for number in range(5):
            places.append(server.execute(f"INSERT INTO shop.t VALUES ({number})"))
        file = server.binlog(places[0].file)
        data = bytearray(file.read_bytes())
        for number in (1, 3):
            data[places[number].pos + 20] ^= 1
        file.write_bytes(data)
        task = replace(fetch_task(server.database, "shop"), on_position_lost=Edge.LATEST)
        with BinlogSource(task) as source:
            behind = source.locate(replace(places[2], gtid="", server_uuid=""))
        assert "set the position past" not in caplog.text
        assert [change.after for change in read(task, behind, places[3])] == [{"id": "2"}]
        with pytest.raises(UnreadableEvent) as raised:
            read(task, behind, places[5])
        assert str(raised.value).startswith(f"{file.name}:{places[3].pos}: the server")
