"""A task whose ZooKeeper has lost everything looks like a new one; its topic shows that it is not."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

import pytest
from pymysql.cursors import Cursor

from cdcbus.ops.stack.addresses import Database
from cdcbus.plugins.contracts import PositionStore
from cdcbus.plugins.errors import BusRejected, NoPosition
from cdcbus.plugins.kafka.topic_log import TopicLog
from cdcbus.plugins.registry import make_converter
from cdcbus.plugins.rowchange import Column, Op, Origin, RowChange, Table, TableId
from cdcbus.plugins.start import AtTime, Edge
from cdcbus.producer.config import FetchTask, SnapshotMode
from cdcbus.tasks.local.memory import MemoryPositions
from tests.integration.producer.reading import fetch_task, position
from tests.integration.producer.running import Running, ids
from tests.support.topics.kafka_producer import kafka_producer

pytestmark = [pytest.mark.integration, pytest.mark.source]


@pytest.fixture
def task(
    source: Database,
    source_cursor: Cursor,
    kafka: str,
    name: str,
    make_topic: Callable[..., str],
) -> FetchTask:
    make_topic(name, 2)
    source_cursor.execute("CREATE TABLE t (id INT PRIMARY KEY)")
    return replace(fetch_task(source, name, servers=kafka), start=Edge.LATEST)


def insert(cursor: Cursor, *numbers: int) -> None:
    for number in numbers:
        cursor.execute("INSERT INTO t VALUES (%s)", (number,))


def sent(task: FetchTask, positions: PositionStore, cursor: Cursor, *numbers: int) -> None:
    """The task has started at the end of the binlog, and sent these rows."""
    with Running(task, positions) as running:
        running.until(lambda: running.progress.position is not None)
        insert(cursor, *numbers)
        running.until_stored(position(cursor))


@pytest.mark.parametrize("snapshot", [SnapshotMode.NEVER, SnapshotMode.INITIAL])
def test_a_task_that_has_lost_its_position_does_not_begin_at_the_end_of_the_binlog(
    task: FetchTask, source_cursor: Cursor, kafka: str, name: str, snapshot: SnapshotMode
) -> None:
    """A snapshot would send all rows, and no deletes."""
    task = replace(task, snapshot=snapshot)
    sent(task, MemoryPositions(), source_cursor, 1, 2, 3)
    insert(source_cursor, 4)
    with pytest.raises(NoPosition) as refused, Running(task, MemoryPositions()) as running:
        running.ends()
    assert f"up to {position(source_cursor).file}:" in str(refused.value)
    # What the sentence says to do: the second of the last row begins again.
    advised = re.search(r"resume with consumer\.offset=(\S+);", str(refused.value))
    assert advised is not None
    logged_at = datetime.fromisoformat(advised[1])
    again = replace(task, start=AtTime(int(logged_at.timestamp() * 1000)))
    with Running(again, MemoryPositions()) as running:
        running.until_stored(position(source_cursor))
    assert {*ids(kafka, name)} == {1, 2, 3, 4}


def test_a_snapshot_is_no_start_again_for_a_task_that_has_lost_its_position(
    task: FetchTask, source_cursor: Cursor, kafka: str, name: str
) -> None:
    """It would not send the deletes since the last one, of which the topic has nothing else."""
    insert(source_cursor, 1, 2)
    task = replace(task, snapshot=SnapshotMode.INITIAL)
    with Running(task, MemoryPositions()) as running:
        running.until(lambda: len(ids(kafka, name)) == 2)
    # Nothing was logged since.
    with Running(task, MemoryPositions()) as running:
        running.until(lambda: len(ids(kafka, name)) == 4)
    source_cursor.execute("DELETE FROM t WHERE id = 1")
    with (
        pytest.raises(NoPosition, match="would not send the deletes"),
        Running(task, MemoryPositions()) as running,
    ):
        running.ends()


def test_rows_may_be_read_once_more(
    task: FetchTask, source_cursor: Cursor, kafka: str, name: str
) -> None:
    before = position(source_cursor)
    sent(task, MemoryPositions(), source_cursor, 1)
    with Running(replace(task, start=before), MemoryPositions()) as running:
        running.until_stored(position(source_cursor))
    assert ids(kafka, name) == [1, 1]


def test_a_task_begins_at_the_end_where_nothing_was_logged_since(
    task: FetchTask, source_cursor: Cursor, kafka: str, name: str
) -> None:
    """As one that was removed and made again while the source was idle."""
    sent(task, MemoryPositions(), source_cursor, 1, 2)
    source_cursor.execute("FLUSH BINARY LOGS")
    sent(task, MemoryPositions(), source_cursor, 3)
    assert sorted(ids(kafka, name)) == [1, 2, 3]


@pytest.mark.parametrize("how", ["a place is given", "no right to look"])
def test_it_begins_where_it_is_told_to(
    task: FetchTask,
    source_cursor: Cursor,
    kafka: str,
    name: str,
    how: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sent(task, MemoryPositions(), source_cursor, 1)
    insert(source_cursor, 2)
    if how == "a place is given":
        task = replace(task, start=position(source_cursor))
    else:

        def refuse(*_: object) -> None:
            raise BusRejected("Kafka refuses: Read on the topic")

        monkeypatch.setattr(TopicLog, "newest", refuse)
    sent(task, MemoryPositions(), source_cursor, 3)
    assert {1, 3} <= {*ids(kafka, name)}


@pytest.mark.parametrize("what", ["another server", "another place", "another table", "junk"])
def test_rows_of_others_in_the_topic_are_no_hindrance(
    task: FetchTask, source_cursor: Cursor, kafka: str, name: str, what: str
) -> None:
    """As of tasks that read the other shards of a table, or other tables, into one topic."""
    end = position(source_cursor)
    source_cursor.execute("SELECT @@server_id")
    ((server_id,),) = source_cursor.fetchall()
    table = Table(TableId(name, "t"), (Column("id", "int", 4),), ("id",))
    origin = Origin(end.file, 4, "", server_id, 1_700_000_000_000_000)
    if what == "another server":
        origin = replace(origin, server_id=server_id + 1)
    elif what == "another place":
        # As of another shard with the same server_id: what is there is not rows.
        origin = replace(origin, pos=end.pos)
    elif what == "another table":
        table = replace(table, id=TableId("elsewhere", "t"))
    value = make_converter("canalRow").to_bytes(
        RowChange(table, Op.INSERT, None, {"id": "9"}, origin)
    )
    producer = kafka_producer(kafka)
    producer.produce(name, b"{}" if what == "junk" else value, partition=1)
    assert producer.flush(30) == 0
    sent(task, MemoryPositions(), source_cursor, 1)
