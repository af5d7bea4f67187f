"""Rows of a snapshot whose records are larger than the topic takes: letters, and no loop."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from pymysql.cursors import Cursor

from cdcbus.ops.stack.addresses import Database
from cdcbus.plugins.contracts import PositionStore
from cdcbus.plugins.errors import BusRejected
from cdcbus.plugins.start import Edge
from cdcbus.producer.config import FetchTask, SnapshotMode
from tests.integration.producer.reading import fetch_task
from tests.integration.producer.snapshot.following import SnapshotRunning
from tests.integration.producer.snapshot.meanwhile import writing
from tests.support.topics.committed import committed, committed_canal
from tests.support.topics.new_topics import create_topics

pytestmark = pytest.mark.integration


@pytest.fixture
def task(source: Database, source_cursor: Cursor, kafka: str, name: str) -> FetchTask:
    """Of four rows, one is too large for the topic, and one larger than a batch."""
    admin = AdminClient({"bootstrap.servers": kafka})
    create_topics(admin, NewTopic(name, 1, 1, config={"max.message.bytes": "200000"}))
    source_cursor.execute("CREATE TABLE t (id INT PRIMARY KEY, v LONGTEXT)")
    for id_, size in enumerate((10, 150_000, 300_000, 10), 1):
        source_cursor.execute(f"INSERT INTO t VALUES ({id_}, REPEAT('x', {size}))")
    made = fetch_task(source, name, servers=kafka)
    options = {"compression.type": "none", "batch.size": "100000"}
    return replace(
        made,
        start=Edge.LATEST,
        snapshot=SnapshotMode.INITIAL,
        publish=replace(made.publish, kafka_options={**made.publish.kafka_options, **options}),
    )


@pytest.mark.parametrize("transactional", [False, True])
def test_it_leaves_a_letter_and_the_other_rows_come(
    source: Database,
    task: FetchTask,
    source_cursor: Cursor,
    kafka: str,
    name: str,
    make_topic: Callable[..., str],
    positions: PositionStore,
    *,
    transactional: bool,
) -> None:
    """While others write: a row has another place each time that it is read."""
    letters = make_topic(f"{name}-letters")
    publish = replace(
        task.publish,
        dead_letter_topic=letters,
        transactional_id=f"cdcbus-{name}" if transactional else "",
    )
    source_cursor.execute("CREATE TABLE other (id INT PRIMARY KEY AUTO_INCREMENT)")

    def write(cursor: Cursor, _: random.Random) -> None:
        cursor.execute("INSERT INTO other VALUES ()")

    with (
        writing(source, name, write),
        SnapshotRunning(replace(task, publish=publish), positions) as running,
    ):
        assert running.until_snapshot("t").rows == 4
    rows = [record for record in committed_canal(kafka, name) if record["table"] == "t"]
    assert [record["data"][0]["id"] for record in rows] == ["1", "2", "4"]
    found = [dict(message.headers() or []) for message in committed(kafka, letters)]
    assert {letter["cdcbus.key"] for letter in found} == {b"3_"}


def test_without_letters_the_task_stops_and_the_snapshot_is_not_done(
    task: FetchTask, name: str, positions: PositionStore
) -> None:
    with (
        pytest.raises(BusRejected, match=rf"table {name}\.t \(key columns: id\)"),
        SnapshotRunning(task, positions) as running,
    ):
        running.ends()
    done = running.snapshot("t")
    assert done is None or done.rows == 0
