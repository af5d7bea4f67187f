"""Rows that are there before a task, while others write: the topic tells of the same table."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from threading import Event, Thread

import pymysql
import pytest
from pymysql.cursors import Cursor

from cdcbus.ops.stack.addresses import Database
from cdcbus.plugins.contracts import PositionStore
from cdcbus.plugins.start import Edge
from cdcbus.producer.config import FetchTask, SnapshotMode
from cdcbus.producer.snapshot import snapshots
from tests.integration.producer.reading import connect, fetch_task, position
from tests.integration.producer.snapshot.following import (
    SnapshotRunning,
    Table,
    marked,
    tables_in,
)

pytestmark = [pytest.mark.integration, pytest.mark.source]


@pytest.fixture
def task(source: Database, kafka: str, name: str, make_topic: Callable[..., str]) -> FetchTask:
    make_topic(name, 3)
    started = replace(fetch_task(source, name, servers=kafka), start=Edge.LATEST)
    return replace(started, snapshot=SnapshotMode.INITIAL)


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a small table has many."""
    monkeypatch.setattr(snapshots, "FIRST_ROWS", 100)
    monkeypatch.setattr(snapshots, "CHUNK_BYTES", 10_000)


def table(cursor: Cursor, name: str, key: tuple[str, ...]) -> Table:
    """As SELECT shows it."""
    cursor.execute(f"SELECT * FROM {name}")
    names = [column[0] for column in cursor.description or ()]
    found = {}
    for row in cursor.fetchall():
        texts = {
            name: None if value is None else str(value)
            for name, value in zip(names, row, strict=True)
        }
        found[tuple(str(texts[each]) for each in key)] = texts
    return found


@contextmanager
def writing(
    source: Database, name: str, write: Callable[[Cursor, random.Random], None]
) -> Iterator[None]:
    """Somebody writes all the time."""
    over = Event()
    errors: list[BaseException] = []

    def run(number: int) -> None:
        chance = random.Random(number)
        try:
            with connect(source) as connection, connection.cursor() as cursor:
                cursor.execute(f"USE {name}")
                while not over.is_set():
                    with suppress(pymysql.OperationalError):  # of two writers, a deadlock
                        write(cursor, chance)
        except BaseException as error:
            errors.append(error)

    threads = [Thread(target=run, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join()
        assert not errors


def test_rows_that_are_there_come_before_those_that_follow(
    source_cursor: Cursor, task: FetchTask, positions: PositionStore, kafka: str, name: str
) -> None:
    source_cursor.execute("CREATE TABLE t (id INT PRIMARY KEY, n INT)")
    source_cursor.execute("INSERT INTO t VALUES (1, 10), (2, 20), (3, 30)")
    with SnapshotRunning(task, positions) as running:
        done = running.until_snapshot("t")
        source_cursor.execute("UPDATE t SET n = 21 WHERE id = 2")
        running.until_stored(position(source_cursor))
    assert done.rows == 3
    assert len(marked(kafka, name)) == 3
    assert tables_in(kafka, name) == {"t": table(source_cursor, "t", ("id",))}


@pytest.mark.usefixtures("small_chunks")
def test_the_topic_tells_of_the_table_whoever_writes_meanwhile(
    source: Database,
    source_cursor: Cursor,
    task: FetchTask,
    positions: PositionStore,
    kafka: str,
    name: str,
) -> None:
    source_cursor.execute(
        "CREATE TABLE t (id INT, part VARCHAR(20) COLLATE utf8mb4_general_ci, n INT, PRIMARY KEY "
        "(part, id))"
    )
    rows = [(id_, chance, 0) for id_ in range(2_000) for chance in ("a", "B", "é_")]
    source_cursor.executemany("INSERT INTO t VALUES (%s, %s, %s)", rows)

    def write(cursor: Cursor, chance: random.Random) -> None:
        id_, part = chance.randrange(2_500), chance.choice(("a", "B", "é_", "b", "A", "zz"))
        other = chance.choice(("a", "B", "c_"))
        cursor.execute(
            chance.choice(
                (
                    f"REPLACE INTO t VALUES ({id_}, '{part}', {chance.randrange(100)})",
                    f"DELETE FROM t WHERE id = {id_} AND part = '{part}'",
                    f"UPDATE t SET n = n + 1 WHERE id = {id_}",
                    f"UPDATE IGNORE t SET part = '{other}' WHERE id = {id_} AND part = '{part}'",
                )
            )
        )

    with writing(source, name, write), SnapshotRunning(task, positions) as running:
        done = running.until_snapshot("t")
    assert done.chunks > 10
    with SnapshotRunning(replace(task, snapshot=SnapshotMode.NEVER), positions) as running:
        running.until_stored(position(source_cursor))
    assert tables_in(kafka, name) == {"t": table(source_cursor, "t", ("part", "id"))}
