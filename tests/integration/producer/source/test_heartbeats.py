"""Heartbeats: a row at the source that is read like any other, and never in the way of reading."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from pymysql.cursors import Cursor

from cdcbus.ops.stack.addresses import Database
from cdcbus.plugins.contracts import PositionStore
from cdcbus.plugins.rowchange import TableId
from cdcbus.producer.config import FetchTask, HeartbeatConfig
from cdcbus.producer.server import connection as server
from cdcbus.producer.source import heartbeat
from tests.integration.producer.reading import fetch_task, position
from tests.integration.producer.running import Running, canal, high_watermark
from tests.support.servers.few_rights import PASSWORD, user_with

pytestmark = [pytest.mark.integration, pytest.mark.source]


@pytest.fixture
def task(
    source: Database,
    kafka: str,
    name: str,
    make_topic: Callable[..., str],
    source_cursor: Cursor,
    store: Callable[[str], None],
) -> Iterator[FetchTask]:
    """Its heartbeats are in another schema than the tables that it reads."""
    make_topic(name)
    source_cursor.execute(f"CREATE DATABASE {name}_ops")
    source_cursor.execute("CREATE TABLE t (id INT PRIMARY KEY)")
    store(position(source_cursor).to_json())
    yield replace(
        fetch_task(source, name, servers=kafka),
        heartbeat=HeartbeatConfig(TableId(f"{name}_ops", "cdcbus_heartbeat"), 0.3),
    )
    source_cursor.execute(f"DROP DATABASE {name}_ops")


def beats(cursor: Cursor, task: FetchTask) -> list[tuple[int, str, datetime]]:
    assert task.heartbeat is not None
    cursor.execute(f"SELECT * FROM {task.heartbeat.table}")
    return list(cursor.fetchall())


def test_heartbeats_travel_with_the_rows_and_move_the_position(
    source_cursor: Cursor, task: FetchTask, positions: PositionStore, kafka: str, name: str
) -> None:
    with Running(task, positions) as running:
        running.until(lambda: high_watermark(kafka, name) >= 3)
        first = running.progress.position
        running.until(lambda: running.progress.position != first)
    records = canal(kafka, name)
    source_cursor.execute("SELECT @@global.server_id, UTC_TIMESTAMP(6)")
    ((server_id, now),) = source_cursor.fetchall()
    for record in records:
        assert (record["database"], record["table"]) == (f"{name}_ops", "cdcbus_heartbeat")
        (row,) = record["data"]
        assert (row["server_id"], row["task_id"]) == (str(server_id), name)
        assert now - timedelta(seconds=60) < datetime.fromisoformat(row["beat_at"]) <= now
    times = [record["data"][0]["beat_at"] for record in records]
    assert times == sorted(set(times))
    assert [record["type"] for record in records] == ["INSERT"] + ["UPDATE"] * (len(records) - 1)
    assert len(beats(source_cursor, task)) == 1


def test_a_heartbeat_table_of_any_name_is_written(source_cursor: Cursor, task: FetchTask) -> None:
    table = TableId(f"{task.task_id}_ops", "100 %s `beats`")
    config = HeartbeatConfig(table, 0.001)
    assert heartbeat.beat(task, config) == heartbeat.beat(task, config) == ""
    source_cursor.execute(f"SELECT task_id FROM `{table.schema}`.`100 %s ``beats```")
    assert source_cursor.fetchall() == ((task.task_id,),)


def test_tasks_that_share_a_source_share_its_heartbeat(
    source_cursor: Cursor, task: FetchTask
) -> None:
    often, seldom = (
        HeartbeatConfig(TableId(f"{task.task_id}_ops", "cdcbus_heartbeat"), 0.001),
        task.heartbeat,
    )
    assert seldom is not None
    seldom = replace(seldom, interval_seconds=3600.0)
    other = replace(task, task_id="other")
    assert heartbeat.beat(task, seldom) == ""
    ((_, writer, first),) = beats(source_cursor, task)
    assert heartbeat.beat(other, seldom) == ""
    assert beats(source_cursor, task) == [(*beats(source_cursor, task)[0][:1], task.task_id, first)]
    assert heartbeat.beat(other, often) == ""
    ((_, writer, second),) = beats(source_cursor, task)
    assert (writer, second > first) == ("other", True)


def test_a_source_that_refuses_heartbeats_is_read_all_the_same(
    source_cursor: Cursor,
    task: FetchTask,
    positions: PositionStore,
    name: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    poor = replace(task, source=replace(task.source, user=name, password=PASSWORD))

    def said() -> list[str]:
        return [
            record.getMessage() for record in caplog.records if record.name == heartbeat.__name__
        ]

    with (
        user_with(source_cursor, name, "SELECT, REPLICATION SLAVE, REPLICATION CLIENT ON *.*"),
        caplog.at_level(logging.INFO, heartbeat.__name__),
        Running(poor, positions) as running,
    ):
        running.until(lambda: bool(said()))
        source_cursor.execute("INSERT INTO t VALUES (1)")
        running.until_stored(position(source_cursor))
        assert running.progress.done == 1
        source_cursor.execute(f"GRANT CREATE, INSERT, UPDATE ON {name}_ops.* TO '{name}'@'%%'", ())
        running.until(lambda: len(said()) > 1)
        running.until(lambda: running.progress.done >= 2)
    refusal, again = said()
    assert f"does not take the heartbeat of task {name} (1142 " in refusal
    assert "The binlog is read all the same" in refusal
    assert f"SELECT, INSERT, UPDATE on {name}_ops.cdcbus_heartbeat" in refusal
    assert "CREATE TABLE IF NOT EXISTS" in refusal
    assert again.endswith(f"heartbeats are written to {name}_ops.cdcbus_heartbeat again")


def test_a_probe_writes_nothing(source_cursor: Cursor, task: FetchTask) -> None:
    config = task.heartbeat
    assert config is not None
    with closing(server.connect(task.source)) as connection:
        before = position(source_cursor)
        assert not heartbeat.probe(task, config, connection)
        assert position(source_cursor) == before
        assert heartbeat.beat(task, config) == ""
        before = position(source_cursor)
        assert heartbeat.probe(task, config, connection)
        assert position(source_cursor) == before
