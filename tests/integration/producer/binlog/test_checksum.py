"""binlog_checksum is switched under a running task: each file's head says what its events end
with, for all who read the binlog."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from threading import Event

import pytest
from pymysql.cursors import Cursor

from cdcbus.ops.stack.addresses import Database
from cdcbus.plugins.contracts import PositionStore
from cdcbus.plugins.start import AtTime, Edge
from cdcbus.producer.progress import Progress
from cdcbus.producer.source.binlog_source import BinlogSource
from tests.integration.producer.reading import fetch_task, global_variable, position
from tests.integration.producer.running import SECONDS, Running, canal

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
