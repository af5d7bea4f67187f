"""Rows of tables without a key come once, however the stream and the snapshot meet."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from itertools import count
from threading import Event, Thread
from typing import Any

import pytest
from kazoo.client import KazooClient
from pymysql.cursors import Cursor

from cdcbus.ops.stack.addresses import Database
from cdcbus.plugins.contracts import PositionStore
from cdcbus.plugins.errors import SourceMisconfigured
from cdcbus.plugins.start import Edge
from cdcbus.producer.config import FetchTask, SnapshotMode
from cdcbus.producer.snapshot.columns import SelectedTable
from cdcbus.producer.snapshot.progress import MemorySnapshots, TableState, Wish, WishKind
from cdcbus.producer.snapshot.reader import ChunkReader, Read
from cdcbus.tasks.local.memory import MemoryPositions
from tests.integration.producer.reading import connect, fetch_task, position
from tests.integration.producer.snapshot.following import SnapshotRunning
from tests.support.servers.private_mariadb import private_mariadb
from tests.support.topics.committed import committed_canal

pytestmark = [pytest.mark.integration, pytest.mark.source]


@pytest.fixture(params=["acknowledged", "in transactions"])
def any_task(request: pytest.FixtureRequest, task: FetchTask, name: str) -> FetchTask:
    if request.param == "acknowledged":
        return task
    return replace(task, publish=replace(task.publish, transactional_id=f"cdcbus-{name}"))


def numbers(kafka: str, topic: str, table: str = "log") -> list[int]:
    """What was inserted into a table, as the topic tells it."""
    found = []
    for record in committed_canal(kafka, topic):
        if record["table"] == table:
            assert record["type"] == "INSERT"
            found += [int(row["n"]) for row in record["data"]]
    return sorted(found)


@contextmanager
def somebody(source: Database, name: str) -> Iterator[Cursor]:
    with connect(source) as connection, connection.cursor() as cursor:
        cursor.execute(f"USE {name}")
        yield cursor


def test_rows_that_come_while_another_table_is_read_come_once(
    source_cursor: Cursor,
    any_task: FetchTask,
    positions: PositionStore,
    kafka: str,
    name: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source_cursor.execute("CREATE TABLE a (id INT PRIMARY KEY)")
    source_cursor.execute("INSERT INTO a VALUES (1)")
    source_cursor.execute("CREATE TABLE log (n INT)")
    source_cursor.execute("INSERT INTO log VALUES (1), (2)")
    read, begun, gate = ChunkReader.chunk, Event(), Event()

    def gated(of: ChunkReader, *arguments: Any) -> Read:
        begun.set()
        gate.wait(60)
        return read(of, *arguments)

    monkeypatch.setattr(ChunkReader, "chunk", gated)
    with SnapshotRunning(any_task, positions) as running:
        running.until(begun.is_set)
        source_cursor.execute("INSERT INTO log VALUES (3)")
        source_cursor.execute("INSERT INTO a VALUES (2)")
        running.until_stored(position(source_cursor))
        assert (numbers(kafka, name), len(committed_canal(kafka, name))) == ([], 1)
        gate.set()
        running.until_snapshot("log")
        source_cursor.execute("INSERT INTO log VALUES (4)")
        running.until_stored(position(source_cursor))
    assert numbers(kafka, name) == [1, 2, 3, 4]


@pytest.mark.parametrize(("engine", "rows"), [("InnoDB", 1), ("MyISAM", 5)])
def test_rows_that_come_during_a_read_come_once(
    source: Database,
    source_cursor: Cursor,
    any_task: FetchTask,
    positions: PositionStore,
    kafka: str,
    name: str,
    monkeypatch: pytest.MonkeyPatch,
    engine: str,
    rows: int,
) -> None:
    """With MyISAM they are among what is read, and make it void."""
    source_cursor.execute(f"CREATE TABLE log (n INT) ENGINE={engine}")
    source_cursor.execute("INSERT INTO log VALUES (1)")
    read = ChunkReader.table
    with somebody(source, name) as other:
        late = iter((2, 3, 4, 5))

        def changed(of: ChunkReader, selected: SelectedTable, where: str) -> Read:
            """Twice."""
            for number in (next(late, None), next(late, None)):
                if number is not None:
                    other.execute(f"INSERT INTO log VALUES ({number})")
            return read(of, selected, where)

        monkeypatch.setattr(ChunkReader, "table", changed)
        with SnapshotRunning(any_task, positions) as running:
            done = running.until_snapshot("log")
            other.execute("INSERT INTO log VALUES (6)")
            running.until_stored(position(source_cursor))
    expected = [1, *([2, 3] if rows == 1 else [2, 3, 4, 5]), 6]
    assert (done.rows, numbers(kafka, name)) == (rows, expected)


def test_a_table_that_is_changed_all_the_time_is_read_once_and_comes_whole(
    source: Database,
    source_cursor: Cursor,
    any_task: FetchTask,
    positions: PositionStore,
    kafka: str,
    name: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source_cursor.execute("CREATE TABLE log (n INT)")
    source_cursor.execute(f"INSERT INTO log VALUES {', '.join(f'({n})' for n in range(1_000))}")
    is_over, reads = Event(), list[int]()
    read = ChunkReader.table

    def counted(of: ChunkReader, selected: SelectedTable, where: str) -> Read:
        found = read(of, selected, where)
        reads.append(found.count)
        return found

    def write(first: int) -> None:
        with somebody(source, name) as other:
            for number in count(first):
                if is_over.is_set():
                    return
                other.execute(f"INSERT INTO log VALUES ({number})")

    @contextmanager
    def writing() -> Iterator[None]:
        writers = [Thread(target=write, args=(1_000_000 * n,)) for n in range(1, 4)]
        for writer in writers:
            writer.start()
        try:
            yield
        finally:
            is_over.set()
            for writer in writers:
                writer.join()

    monkeypatch.setattr(ChunkReader, "table", counted)
    with ExitStack() as writers:
        writers.enter_context(writing())
        with SnapshotRunning(any_task, positions) as running:
            done = running.until_snapshot("log")
            writers.close()
            running.until_stored(position(source_cursor))
    source_cursor.execute("SELECT n FROM log ORDER BY n")
    assert numbers(kafka, name) == [n for (n,) in source_cursor.fetchall()]
    assert (len(reads), done.rows) == (1, reads[-1])


@pytest.mark.parametrize(
    "create",
    [
        "CREATE TABLE log (n INT)",
        "CREATE TABLE IF NOT EXISTS log (n INT)",
        "CREATE TABLE log LIKE model",
        "CREATE TABLE log SELECT n FROM model",
    ],
)
@pytest.mark.parametrize("restarts", [True, False])
def test_a_table_that_is_created_while_the_task_follows_comes_once(
    source_cursor: Cursor,
    task: FetchTask,
    positions: PositionStore,
    kafka: str,
    name: str,
    create: str,
    restarts: bool,
) -> None:
    """After a restart, and after a RENAME of another table."""
    kept = MemorySnapshots()
    source_cursor.execute("CREATE TABLE a (id INT PRIMARY KEY)")
    source_cursor.execute("CREATE TABLE model (n INT)")
    with SnapshotRunning(task, positions, kept) as running:
        running.until_snapshot("a")
        running.until_snapshot("model")
        source_cursor.execute(create)
        source_cursor.execute("INSERT INTO log VALUES (1), (2)")
        running.until_stored(position(source_cursor))
        if not restarts:
            source_cursor.execute("RENAME TABLE a TO b")
            running.until_snapshot("b")
    if restarts:
        with SnapshotRunning(task, positions, kept) as running:
            source_cursor.execute("CREATE TABLE b (id INT PRIMARY KEY)")
            running.until_snapshot("b")
            source_cursor.execute("INSERT INTO log VALUES (3)")
            running.until_stored(position(source_cursor))
    assert numbers(kafka, name) == [1, 2, *([3] if restarts else [])]
    created = kept.load()
    assert [each.state for table, each in created.items() if table.table == "log"] == [
        TableState.DONE
    ]


def test_a_table_that_is_created_in_another_case_comes_once(
    kafka: str, name: str, make_topic: Callable[..., str]
) -> None:
    """Its server stores names in lower case, and logs the CREATE as it was typed."""
    make_topic(name)
    kept, positions = MemorySnapshots(), MemoryPositions()
    with private_mariadb("--lower-case-table-names=1") as server:
        server.execute(f"CREATE DATABASE {name}")
        task = fetch_task(server.database, name, servers=kafka)
        task = replace(task, start=Edge.LATEST, snapshot=SnapshotMode.INITIAL)
        with SnapshotRunning(task, positions, kept) as running:
            running.until(lambda: running.progress.position is not None)
            server.execute(f"CREATE TABLE {name}.Log (n INT)", f"INSERT INTO {name}.LOG VALUES (1)")
            running.until_snapshot("log")
            running.until(lambda: numbers(kafka, name) == [1])
        with SnapshotRunning(task, positions, kept) as running:
            server.execute(f"CREATE TABLE {name}.a (id INT PRIMARY KEY)")
            running.until_snapshot("a")
            server.execute(f"INSERT INTO {name}.log VALUES (2)")
            running.until(lambda: 2 in numbers(kafka, name))
    assert numbers(kafka, name) == [1, 2]


@pytest.mark.parametrize("has_create", [True, False])
def test_a_start_from_earlier_sends_rows_of_the_binlog_once(
    source_cursor: Cursor,
    any_task: FetchTask,
    positions: PositionStore,
    operator: KazooClient,
    kafka: str,
    name: str,
    has_create: bool,
) -> None:
    start = position(source_cursor)
    source_cursor.execute("CREATE TABLE log (n INT)")
    if not has_create:
        source_cursor.execute("INSERT INTO log VALUES (0)")
        start = position(source_cursor)
    source_cursor.execute("INSERT INTO log VALUES (1), (2)")
    source_cursor.execute("DELETE FROM log WHERE n = 0")
    source_cursor.execute("INSERT INTO log VALUES (3)")
    operator.create(positions.path, start.to_json().encode(), makepath=True)
    with SnapshotRunning(any_task, positions) as running:
        running.until_snapshot("log")
        running.until_stored(position(source_cursor))
    assert numbers(kafka, name) == [1, 2, 3]


def test_rows_come_once_across_a_pause_and_restarts(
    source_cursor: Cursor, any_task: FetchTask, positions: PositionStore, kafka: str, name: str
) -> None:
    source_cursor.execute("CREATE TABLE log (n INT)")
    source_cursor.execute("INSERT INTO log VALUES (1)")
    kept = MemorySnapshots()
    kept.wished.append(Wish(WishKind.PAUSE))
    with SnapshotRunning(any_task, positions, kept) as running:
        running.until_snapshot("log", TableState.PAUSED)
        source_cursor.execute("INSERT INTO log VALUES (2)")
        running.until_stored(position(source_cursor))
    source_cursor.execute("INSERT INTO log VALUES (3)")
    with SnapshotRunning(any_task, positions, kept) as running:
        running.until_stored(position(source_cursor))
        assert numbers(kafka, name) == []
        kept.wished.append(Wish(WishKind.RESUME))
        running.until_snapshot("log")
    source_cursor.execute("INSERT INTO log VALUES (4)")
    with SnapshotRunning(any_task, positions, kept) as running:
        running.until_stored(position(source_cursor))
    assert numbers(kafka, name) == [1, 2, 3, 4]


def test_what_was_held_back_is_told_when_the_table_fails_and_later_rows_come(
    source: Database,
    source_cursor: Cursor,
    task: FetchTask,
    positions: PositionStore,
    kafka: str,
    name: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source_cursor.execute("CREATE TABLE log (n INT) ENGINE=MyISAM")
    source_cursor.execute("INSERT INTO log VALUES (1)")
    read = ChunkReader.table
    with somebody(source, name) as other:

        def changed(of: ChunkReader, selected: SelectedTable, where: str) -> Read:
            other.execute("INSERT INTO log VALUES (2)")
            return read(of, selected, where)

        monkeypatch.setattr(ChunkReader, "table", changed)
        with SnapshotRunning(task, positions) as running:
            failed = running.until_snapshot("log", TableState.FAILED)
            source_cursor.execute("INSERT INTO log VALUES (3)")
            running.until_stored(position(source_cursor))
    assert "were held back since its snapshot was started, and are not in Kafka" in failed.reason
    assert f"cdcbus snapshot start {name} --table {name}.log --yes" in failed.reason
    assert numbers(kafka, name) == [3]


@pytest.mark.usefixtures("least_metadata")
def test_without_metadata_a_table_is_known_to_have_no_key_too(
    source_cursor: Cursor, task: FetchTask, positions: PositionStore, kafka: str, name: str
) -> None:
    source_cursor.execute("CREATE TABLE log (n INT)")
    source_cursor.execute("CREATE TABLE u (n INT NOT NULL UNIQUE)")
    kept = MemorySnapshots()
    kept.wished.append(Wish(WishKind.PAUSE))
    with SnapshotRunning(task, positions, kept) as running:
        running.until_snapshot("log", TableState.PAUSED)
        source_cursor.execute("INSERT INTO log VALUES (1)")
        source_cursor.execute("INSERT INTO u VALUES (1)")
        running.until_stored(position(source_cursor))
        assert (numbers(kafka, name), numbers(kafka, name, "u")) == ([], [1])
        kept.wished.append(Wish(WishKind.RESUME))
        running.until_snapshot("log")
    assert numbers(kafka, name) == [1]


def test_a_task_that_gets_its_snapshot_later_does_not_send_what_it_has_sent(
    source_cursor: Cursor, task: FetchTask, positions: PositionStore, kafka: str, name: str
) -> None:
    source_cursor.execute("CREATE TABLE log (n INT)")
    source_cursor.execute("CREATE TABLE a (id INT PRIMARY KEY)")
    source_cursor.execute("INSERT INTO a VALUES (1)")
    kept = MemorySnapshots()
    with SnapshotRunning(replace(task, snapshot=SnapshotMode.NEVER), positions, kept) as running:
        running.until_stored(position(source_cursor))
        source_cursor.execute("INSERT INTO log VALUES (1)")
        running.until_stored(position(source_cursor))
    with SnapshotRunning(task, positions, kept) as running:
        failed = running.until_snapshot("log", TableState.FAILED)
        assert f"cdcbus snapshot start {name} --table {name}.log --yes" in failed.reason
        running.until_snapshot("a")
        source_cursor.execute("INSERT INTO log VALUES (2)")
        running.until_stored(position(source_cursor))
    assert numbers(kafka, name) == [1, 2]


@pytest.mark.parametrize("mode", [SnapshotMode.INITIAL, SnapshotMode.ONLY])
def test_a_task_whose_zookeeper_has_lost_everything_does_not_send_its_rows_again(
    source_cursor: Cursor, any_task: FetchTask, kafka: str, name: str, mode: SnapshotMode
) -> None:
    source_cursor.execute("CREATE TABLE log (n INT)")
    source_cursor.execute("INSERT INTO log VALUES (1), (2)")
    with SnapshotRunning(any_task, MemoryPositions()) as running:
        running.until_snapshot("log")
    again = SnapshotRunning(replace(any_task, snapshot=mode), MemoryPositions())
    with suppress(SourceMisconfigured), again as running:
        failed = running.until_snapshot("log", TableState.FAILED)
    assert "--yes" in failed.reason
    assert numbers(kafka, name) == [1, 2]
