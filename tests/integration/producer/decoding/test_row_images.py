"""Row images that lack columns: sent as they are where the task file says so, else a stop before
the first of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pymysql
import pytest
from pymysql.cursors import Cursor

from cdcbus.ops.stack.addresses import Database
from cdcbus.plugins.contracts import PositionStore
from cdcbus.plugins.errors import UnreadableEvent
from cdcbus.plugins.positions import BinlogPosition
from cdcbus.producer.config import FetchTask
from tests.integration.producer.reading import connect, fetch_task, global_variable, position
from tests.integration.producer.running import Running, canal, ids

pytestmark = [pytest.mark.integration, pytest.mark.source]

Store = Callable[[str], None]
TABLE = "CREATE TABLE t (id INT PRIMARY KEY, name VARCHAR(20), n INT NOT NULL DEFAULT 7, body TEXT)"


@pytest.fixture
def task(
    source: Database,
    kafka: str,
    name: str,
    make_topic: Callable[..., str],
    source_cursor: Cursor,
    store: Store,
) -> FetchTask:
    """It starts behind the CREATE of `t`."""
    make_topic(name)
    source_cursor.execute(TABLE)
    store(position(source_cursor).to_json())
    return fetch_task(source, name, servers=kafka)


def in_session(source: Database, name: str, image: str, *statements: str) -> None:
    """Runs statements in a session of its own with this binlog_row_image."""
    with connect(source) as connection, connection.cursor() as cursor:
        cursor.execute(f"USE {name}")
        cursor.execute("SET SESSION binlog_row_image = %s", (image,))
        for statement in statements:
            cursor.execute(statement)


CHANGES = (
    "INSERT INTO t (id, name, body) VALUES (1, 'a', 'long')",
    "UPDATE t SET name = NULL",
    "UPDATE t SET n = 8, name = 'b'",
    "DELETE FROM t",
)
PARTIAL = {
    "MINIMAL": [
        ({"id": "1", "name": "a", "body": "long"}, None),
        ({"name": None}, {"id": "1"}),
        ({"name": "b", "n": "8"}, {"id": "1"}),
        ({"id": "1"}, None),
    ],
    "NOBLOB": [
        ({"id": "1", "name": "a", "n": "7", "body": "long"}, None),
        ({"id": "1", "name": None, "n": "7"}, {"name": "a"}),
        ({"id": "1", "name": "b", "n": "8"}, {"name": None, "n": "7"}),
        ({"id": "1", "name": "b", "n": "8"}, None),
    ],
}


@pytest.mark.parametrize("image", PARTIAL)
def test_a_column_that_was_not_logged_is_not_in_the_record(
    source: Database,
    source_cursor: Cursor,
    task: FetchTask,
    positions: PositionStore,
    kafka: str,
    name: str,
    image: str,
) -> None:
    in_session(source, name, image, *CHANGES)
    any_image = replace(task, source=replace(task.source, takes_partial=True))
    with Running(any_image, positions) as running:
        running.until_stored(position(source_cursor))
    assert [
        (record["data"][0], (record["old"] or [None])[0]) for record in canal(kafka, name)
    ] == PARTIAL[image]


@pytest.mark.parametrize(
    ("image", "statement", "old", "unknown"),
    [
        ("MINIMAL", "UPDATE t SET name = 'b'", {"id": "1"}, ["name"]),
        ("MINIMAL", "UPDATE t SET id = 1, name = 'b', n = 8", {}, ["name", "n"]),
        ("MINIMAL", "REPLACE t VALUES (1, 'b', 8, 'other')", {}, ["name", "n", "body"]),
        ("NOBLOB", "UPDATE t SET body = 'other'", {}, ["body"]),
        ("NOBLOB", "UPDATE t SET name = 'b'", {"name": "a"}, []),
        ("FULL", "UPDATE t SET body = 'other'", {"body": "long"}, None),
    ],
)
def test_a_former_cell_that_was_not_logged_is_not_taken_for_unchanged(
    source: Database,
    source_cursor: Cursor,
    task: FetchTask,
    positions: PositionStore,
    kafka: str,
    name: str,
    image: str,
    statement: str,
    old: dict[str, str],
    unknown: list[str] | None,
) -> None:
    in_session(source, name, image, "INSERT t VALUES (1, 'a', 7, 'long')", statement)
    any_image = replace(task, source=replace(task.source, takes_partial=True))
    with Running(any_image, positions) as running:
        running.until_stored(position(source_cursor))
    update = canal(kafka, name)[-1]
    assert (update["type"], update["old"], update.get("unknown")) == ("UPDATE", [old], unknown)


@pytest.mark.parametrize("image", PARTIAL)
@pytest.mark.parametrize(
    "statement", ["INSERT INTO t (id, name) VALUES (2, 'b')", "UPDATE t SET n = 0", "DELETE FROM t"]
)
def test_an_image_that_a_session_made_partial_stops_the_task_before_it(
    source: Database,
    source_cursor: Cursor,
    task: FetchTask,
    positions: PositionStore,
    stored: Callable[[], str | None],
    kafka: str,
    name: str,
    image: str,
    statement: str,
) -> None:
    source_cursor.execute("INSERT INTO t (id) VALUES (1)")
    before = position(source_cursor)
    in_session(source, name, image, statement)
    sentences = []
    for _ in range(2):  # it stays there
        with pytest.raises(UnreadableEvent) as raised, Running(task, positions) as running:
            running.ends()
        sentences.append(str(raised.value))
        left = BinlogPosition.from_json(stored() or "")
        assert (left.file, left.pos) <= (before.file, before.pos)
    assert f"{before.file}:" in sentences[0]
    assert f"table {name}.t: {statement.split()[0]} without column " in sentences[0]
    assert "binlog_row_image" in sentences[0]
    assert "consumer.source.rowImage=any" in sentences[0]
    assert sentences[0] == sentences[1]
    assert set(ids(kafka, name)) <= {1}
    with Running(
        replace(task, source=replace(task.source, takes_partial=True)), positions
    ) as running:
        running.until_stored(position(source_cursor))
    assert canal(kafka, name)[-1]["type"] == statement.split()[0]


def test_a_server_with_partial_images_may_be_read_where_the_task_takes_them(
    source: Database,
    source_cursor: Cursor,
    task: FetchTask,
    positions: PositionStore,
    kafka: str,
    name: str,
) -> None:
    """Without that the start is refused: see test_outages."""
    with global_variable(source, "binlog_row_image", "MINIMAL"):
        in_session(source, name, "MINIMAL", "INSERT INTO t (id) VALUES (1)")
        with Running(
            replace(task, source=replace(task.source, takes_partial=True)), positions
        ) as running:
            running.until_stored(position(source_cursor))
    assert [record["data"] for record in canal(kafka, name)] == [[{"id": "1"}]]


def keyed_by_name(task: FetchTask) -> FetchTask:
    """It takes partial images, and its record keys are names."""
    return replace(
        task,
        source=replace(task.source, takes_partial=True),
        publish=replace(task.publish, partition_keys={f"{task.task_id}.T".upper(): ("NAME",)}),
    )


@pytest.mark.parametrize("update", ["n = 0", "name = 'b'", "name = 'b', n = 0"])
def test_a_record_key_that_was_not_logged_stops_the_task_though_it_takes_partial_images(
    source: Database,
    task: FetchTask,
    positions: PositionStore,
    kafka: str,
    name: str,
    update: str,
) -> None:
    """Else the update would go to another partition than the row's insert."""
    in_session(
        source,
        name,
        "MINIMAL",
        "INSERT INTO t (id, name) VALUES (1, 'a')",
        f"UPDATE t SET {update}",
    )
    stops = pytest.raises(
        UnreadableEvent, match="the record key needs column name, which the row image lacks"
    )
    with stops, Running(keyed_by_name(task), positions) as running:
        running.ends()
    assert {record["type"] for record in canal(kafka, name)} <= {"INSERT"}


def test_a_record_key_that_changes_is_sent_in_two_where_the_image_before_is_whole(
    source: Database,
    source_cursor: Cursor,
    task: FetchTask,
    positions: PositionStore,
    kafka: str,
    name: str,
) -> None:
    inserted, updated = "INSERT INTO t (id, name) VALUES (1, 'a')", "UPDATE t SET name = 'b'"
    try:
        in_session(source, name, "FULL_NODUP", inserted, updated)
    except pymysql.OperationalError as error:
        pytest.skip(f"no such image: {error}")
    with Running(keyed_by_name(task), positions) as running:
        running.until_stored(position(source_cursor))
    row = {"id": "1", "name": "a", "n": "7", "body": None}
    assert [(record["type"], record["data"]) for record in canal(kafka, name)] == [
        ("INSERT", [row]),
        ("DELETE", [row]),
        ("INSERT", [{**row, "name": "b"}]),
    ]


def test_a_key_change_that_was_not_logged_whole_stops_the_task_though_it_takes_partial_images(
    source: Database, source_cursor: Cursor, task: FetchTask, positions: PositionStore, name: str
) -> None:
    """Else the row under its new key would lack what the one under the old key had."""
    in_session(
        source, name, "MINIMAL", "INSERT INTO t (id, name) VALUES (1, 'a')", "UPDATE t SET id = 2"
    )
    stops = pytest.raises(
        UnreadableEvent, match="its images lack column name, n, body: it cannot be sent whole"
    )
    with (
        stops,
        Running(
            replace(task, source=replace(task.source, takes_partial=True)), positions
        ) as running,
    ):
        running.ends()


def test_full_images_hold_also_the_columns_that_the_server_computes_or_hides(
    source: Database,
    source_cursor: Cursor,
    positions: PositionStore,
    task: FetchTask,
    kafka: str,
    name: str,
    is_mariadb: bool,
) -> None:
    source_cursor.execute(
        "CREATE TABLE g (id INT PRIMARY KEY, a INT, v INT AS (a + 1) VIRTUAL, s INT AS (a + 2) "
        "STORED, h INT INVISIBLE DEFAULT 3"
        + (") WITH SYSTEM VERSIONING" if is_mariadb else ", INDEX ((a * 2)))")
    )
    source_cursor.execute("INSERT INTO g (id, a) VALUES (1, 1), (2, 2)")
    source_cursor.execute("UPDATE g SET a = 5 WHERE id = 1")
    source_cursor.execute("DELETE FROM g WHERE id = 2")
    with Running(task, positions) as running:
        running.until_stored(position(source_cursor))
    assert len(canal(kafka, name)) >= 4
    assert all(
        {"id", "a", "v", "s", "h"} <= record["data"][0].keys() for record in canal(kafka, name)
    )
