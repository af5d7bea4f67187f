"""Rows that are there before a task, while others write: the topic tells of the same table."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from itertools import count
from threading import Event, Thread
from typing import Any

import pymysql
import pytest
from pymysql.cursors import Cursor

from cdcbus.ops.stack.addresses import Database
from cdcbus.plugins.contracts import PositionStore
from cdcbus.plugins.errors import SourceMisconfigured
from cdcbus.plugins.rowchange import TableId
from cdcbus.plugins.start import Edge
from cdcbus.producer.binlog.coordinates import BinlogCoordinates
from cdcbus.producer.config import DdlConfig, FetchTask, SnapshotMode
from cdcbus.producer.snapshot import chunk_thread
from cdcbus.producer.snapshot import reader as readers
from cdcbus.producer.snapshot.columns import SelectedTable
from cdcbus.producer.snapshot.progress import (
    MemorySnapshots,
    TableProgress,
    TableState,
    Wish,
    WishKind,
)
from cdcbus.producer.snapshot.reader import ChunkReader, Read
from tests.integration.producer.reading import connect, fetch_task, global_variable, position
from tests.integration.producer.running import canal, ids, messages
from tests.integration.producer.snapshot.following import (
    SnapshotRunning,
    Table,
    marked,
    tables_in,
)
from tests.support.few_rights import PASSWORD, user_with

pytestmark = [pytest.mark.integration, pytest.mark.source]


@pytest.fixture
def task(source: Database, kafka: str, name: str, make_topic: Callable[..., str]) -> FetchTask:
    make_topic(name, 3)
    started = replace(fetch_task(source, name, servers=kafka), start=Edge.LATEST)
    return replace(started, snapshot=SnapshotMode.INITIAL)


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a small table has many."""
    monkeypatch.setattr(chunk_thread, "FIRST_ROWS", 100)
    monkeypatch.setattr(chunk_thread, "CHUNK_BYTES", 10_000)


def table(cursor: Cursor, name: str, key: tuple[str, ...]) -> Table:
    """As SELECT shows it."""
    cursor.execute(f"SELECT * FROM {name}")
    names = [column[0] for column in cursor.description or ()]
    found = {}
    for row in cursor.fetchall():
        cells = [None if value is None else str(value) for value in row]
        texts = dict(zip(names, cells, strict=True))
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


@contextmanager
def somebody_runs(
    monkeypatch: pytest.MonkeyPatch, source: Database, name: str, statement: str
) -> Iterator[None]:
    """The statement, behind the third chunk's SELECT and before its rows are sent."""
    chunks, read = count(), ChunkReader._high
    with connect(source) as connection, connection.cursor() as somebody:
        somebody.execute(f"USE {name}")

        def run(reader: ChunkReader) -> tuple[BinlogCoordinates, int]:
            if next(chunks) == 2:
                reader.end()
                somebody.execute(statement)
            return read(reader)

        monkeypatch.setattr(ChunkReader, "_high", run)
        yield


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


def test_tables_without_rows_and_tables_without_a_key_are_done_too(
    source_cursor: Cursor, task: FetchTask, positions: PositionStore, kafka: str, name: str
) -> None:
    source_cursor.execute("CREATE TABLE nothing (id INT PRIMARY KEY)")
    source_cursor.execute("CREATE TABLE keyless (n INT, note TEXT)")
    source_cursor.execute("INSERT INTO keyless VALUES (1, 'a'), (1, 'a'), (NULL, NULL)")
    with SnapshotRunning(task, positions) as running:
        assert running.until_snapshot("nothing").rows == 0
        assert running.until_snapshot("keyless").rows == 3
        source_cursor.execute("DELETE FROM keyless WHERE n = 1 LIMIT 1")
        running.until_stored(position(source_cursor))
    rows = [(record["type"], record["data"][0]["n"]) for record in canal(kafka, name)]
    assert rows == [("INSERT", "1"), ("INSERT", "1"), ("INSERT", None), ("DELETE", "1")]


def test_a_table_without_a_key_that_is_always_changed_has_failed_and_sent_nothing(
    source: Database,
    source_cursor: Cursor,
    task: FetchTask,
    positions: PositionStore,
    kafka: str,
    name: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source_cursor.execute("CREATE TABLE t (n INT)")
    source_cursor.execute("INSERT INTO t VALUES (1)")
    with connect(source) as connection, connection.cursor() as other:
        other.execute(f"USE {name}")
        read = ChunkReader.table

        def changed(reader: ChunkReader, selected: SelectedTable, where: str) -> Read:
            other.execute("UPDATE t SET n = n + 1")
            return read(reader, selected, where)

        monkeypatch.setattr(ChunkReader, "table", changed)
        with SnapshotRunning(task, positions) as running:
            failed = running.until_snapshot("t", TableState.FAILED)
    assert "was changed each of the 5 times" in failed.reason
    assert marked(kafka, name) == []


def test_a_task_for_its_snapshot_only_ends_by_itself_and_another_goes_on_where_it_ended(
    source_cursor: Cursor, task: FetchTask, positions: PositionStore, kafka: str, name: str
) -> None:
    source_cursor.execute("CREATE TABLE t (id INT PRIMARY KEY)")
    source_cursor.execute("INSERT INTO t VALUES (1), (2)")
    with SnapshotRunning(replace(task, snapshot=SnapshotMode.ONLY), positions) as running:
        running.ends()
        done = running.snapshot("t")
    assert done is not None
    assert (done.state, done.rows) == (TableState.DONE, 2)
    source_cursor.execute("INSERT INTO t VALUES (3)")
    with SnapshotRunning(replace(task, snapshot=SnapshotMode.NEVER), positions) as running:
        running.until_stored(position(source_cursor))
    assert sorted(ids(kafka, name)) == [1, 2, 3]


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize(
    ("statement", "state", "columns"),
    [
        ("ALTER TABLE t ADD COLUMN more INT DEFAULT 7 FIRST", TableState.DONE, ["more", "id", "n"]),
        ("ALTER TABLE t DROP COLUMN n", TableState.DONE, ["id"]),
        ("TRUNCATE TABLE other", TableState.DONE, ["id", "n"]),
        ("DROP TABLE t", TableState.DROPPED, None),
        ("RENAME TABLE t TO elsewhere", TableState.DROPPED, None),
    ],
)
def test_a_table_may_be_altered_renamed_or_dropped_while_it_is_read(
    source: Database,
    source_cursor: Cursor,
    task: FetchTask,
    positions: PositionStore,
    kafka: str,
    name: str,
    monkeypatch: pytest.MonkeyPatch,
    statement: str,
    state: TableState,
    columns: list[str] | None,
) -> None:
    source_cursor.execute("CREATE TABLE other (id INT PRIMARY KEY)")
    source_cursor.execute("CREATE TABLE t (id INT PRIMARY KEY, n INT)")
    source_cursor.executemany("INSERT INTO t VALUES (%s, 0)", [(at,) for at in range(1_000)])
    task = replace(task, ddl=DdlConfig(truncates=False))
    with (
        somebody_runs(monkeypatch, source, name, statement),
        SnapshotRunning(task, positions) as running,
    ):
        running.until_snapshot("t", state)
        running.until_stored(position(source_cursor))
    if columns is not None:
        found = tables_in(kafka, name)["t"]
        assert found.keys() == {(str(at),) for at in range(1_000)}
        assert list(found["999",]) == columns


@pytest.mark.usefixtures("small_chunks")
def test_a_table_that_is_swapped_for_another_while_it_is_read_is_read_from_its_beginning(
    source: Database,
    source_cursor: Cursor,
    task: FetchTask,
    positions: PositionStore,
    kafka: str,
    name: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for made, rows in (("t", 1_000), ("t_new", 1_500)):
        source_cursor.execute(f"CREATE TABLE {made} (id INT PRIMARY KEY, n INT)")
        numbers = [(at, rows) for at in range(rows)]
        source_cursor.executemany(f"INSERT INTO {made} VALUES (%s, %s)", numbers)
    swap = "RENAME TABLE t TO t_old, t_new TO t"
    with (
        somebody_runs(monkeypatch, source, name, swap),
        SnapshotRunning(task, positions) as running,
    ):
        done = running.until_snapshot("t")
    assert done.rows == 1_500
    assert tables_in(kafka, name)["t"] == table(source_cursor, "t", ("id",))


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("key", ["v", "v, id"])
def test_a_table_whose_key_changes_is_read_anew(
    source: Database,
    source_cursor: Cursor,
    task: FetchTask,
    positions: PositionStore,
    kafka: str,
    name: str,
    monkeypatch: pytest.MonkeyPatch,
    key: str,
) -> None:
    source_cursor.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT NOT NULL)")
    rows = [(at, 1_000 - at) for at in range(1_000)]
    source_cursor.executemany("INSERT INTO t VALUES (%s, %s)", rows)
    alter = f"ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY ({key})"
    with (
        somebody_runs(monkeypatch, source, name, alter),
        SnapshotRunning(task, positions) as running,
    ):
        done = running.until_snapshot("t")
    names = key.split(", ")
    assert (done.rows, done.key) == (1_000, tuple(names))
    anew = [record for record in marked(kafka, name) if record["pkNames"] == names]
    assert {record["data"][0]["id"] for record in anew} == {str(at) for at in range(1_000)}


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("VARCHAR(9) COLLATE utf8mb4_bin", "VARCHAR(9) COLLATE utf8mb4_general_ci"),
        ("ENUM('A', 'a')", "ENUM('a', 'A')"),
    ],
)
def test_a_table_whose_key_gets_another_order_is_read_anew(
    source: Database,
    source_cursor: Cursor,
    task: FetchTask,
    positions: PositionStore,
    kafka: str,
    name: str,
    monkeypatch: pytest.MonkeyPatch,
    before: str,
    after: str,
) -> None:
    if before.startswith("ENUM"):
        before, after = (f"{each} COLLATE utf8mb4_bin" for each in (before, after))
    source_cursor.execute(
        f"CREATE TABLE t (kind {before} NOT NULL, n INT NOT NULL, PRIMARY KEY (kind, n))"
    )
    rows = [("aA"[at % 2], at) for at in range(1_000)]
    source_cursor.executemany("INSERT INTO t VALUES (%s, %s)", rows)
    alter = f"ALTER TABLE t MODIFY kind {after} NOT NULL"
    with (
        somebody_runs(monkeypatch, source, name, alter),
        SnapshotRunning(task, positions) as running,
    ):
        assert running.until_snapshot("t").rows == 1_000
    assert tables_in(kafka, name)["t"].keys() == {(kind, str(n)) for kind, n in rows}


def test_a_table_whose_key_changed_while_its_task_was_stopped_is_read_anew(
    source_cursor: Cursor, task: FetchTask, positions: PositionStore, kafka: str, name: str
) -> None:
    source_cursor.execute("CREATE TABLE t (id INT, v INT NOT NULL PRIMARY KEY)")
    rows = [(at, 10 - at) for at in range(10)]
    source_cursor.executemany("INSERT INTO t VALUES (%s, %s)", rows)
    kept = MemorySnapshots()
    kept.tables[TableId(name, "t")] = TableProgress(
        TableState.RUNNING, 6, key=("id",), after=("5",), until=("9",), started_ms=1
    )
    with SnapshotRunning(task, positions, kept) as running:
        done = running.until_snapshot("t")
    assert (done.rows, done.key) == (10, ("v",))
    assert sorted(ids(kafka, name)) == list(range(10))


@pytest.mark.usefixtures("small_chunks")
def test_rows_that_a_truncate_takes_while_they_are_read_are_not_sent_behind_it(
    source: Database,
    source_cursor: Cursor,
    positions: PositionStore,
    kafka: str,
    name: str,
    make_topic: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    make_topic(name)
    task = replace(fetch_task(source, name, servers=kafka), start=Edge.LATEST)
    source_cursor.execute("CREATE TABLE t (id INT PRIMARY KEY)")
    source_cursor.executemany("INSERT INTO t VALUES (%s)", [(at,) for at in range(1_000)])
    with (
        somebody_runs(monkeypatch, source, name, "TRUNCATE TABLE t"),
        SnapshotRunning(replace(task, snapshot=SnapshotMode.INITIAL), positions) as running,
    ):
        running.until_snapshot("t")
    kinds = [record["type"] for record in canal(kafka, name)]
    assert kinds.count("TRUNCATE") == 1
    assert kinds.index("TRUNCATE") == len(kinds) - 1


@pytest.mark.usefixtures("small_chunks")
def test_operators_start_pause_resume_and_stop_snapshots_of_a_running_task(
    source_cursor: Cursor, task: FetchTask, positions: PositionStore, kafka: str, name: str
) -> None:
    source_cursor.execute("CREATE TABLE t (id INT PRIMARY KEY, n INT)")
    source_cursor.execute("CREATE TABLE u (id INT PRIMARY KEY)")
    source_cursor.executemany("INSERT INTO t VALUES (%s, 0)", [(at,) for at in range(500)])
    kept = MemorySnapshots()
    never = replace(task, snapshot=SnapshotMode.NEVER)
    with SnapshotRunning(never, positions, kept) as running:
        kept.wished.append(Wish(WishKind.START, (f"{name}.T",), "id < 300"))
        assert running.until_snapshot("t").rows == 300
        kept.wished += [Wish(WishKind.START), Wish(WishKind.PAUSE)]
        running.until_snapshot("u")  # it had no rows, or was begun before the pause
        kept.wished.append(Wish(WishKind.RESUME))
        assert running.until_snapshot("t").rows == 500
    assert tables_in(kafka, name) == {"t": table(source_cursor, "t", ("id",))}


def test_a_condition_that_the_server_refuses_fails_its_table_and_holds_up_no_other(
    source_cursor: Cursor, task: FetchTask, positions: PositionStore, kafka: str, name: str
) -> None:
    source_cursor.execute("CREATE TABLE t (id INT PRIMARY KEY)")
    source_cursor.execute("CREATE TABLE u (id INT PRIMARY KEY)")
    source_cursor.execute("INSERT INTO u VALUES (1)")
    kept = MemorySnapshots()
    kept.wished += [
        Wish(WishKind.START, (f"{name}.t",), "nope > 1"),
        Wish(WishKind.START, (f"{name}.u",)),
    ]
    with SnapshotRunning(replace(task, snapshot=SnapshotMode.NEVER), positions, kept) as running:
        failed = running.until_snapshot("t", TableState.FAILED)
        running.until_snapshot("u")
    assert "(1054: Unknown column 'nope'" in failed.reason
    assert ids(kafka, name) == [1]


def failure_until_granted(
    cursor: Cursor, task: FetchTask, positions: PositionStore, granted: str, lacking: str
) -> TableProgress:
    """How table t fails for a user with the first grant; it is done once he has the second."""
    name = task.task_id
    kept = MemorySnapshots()
    poor = replace(task, source=replace(task.source, user=name, password=PASSWORD))
    with (
        user_with(cursor, name, "REPLICATION SLAVE, REPLICATION CLIENT ON *.*", granted),
        SnapshotRunning(poor, positions, kept) as running,
    ):
        failed = running.until_snapshot("t", TableState.FAILED)
        cursor.execute(f"GRANT {lacking} TO {name}")
        kept.wished.append(Wish(WishKind.START, (f"{name}.t",)))
        running.until_snapshot("t")
    return failed


def test_a_table_without_the_right_to_read_it_fails_and_can_be_started_once_it_is_granted(
    source_cursor: Cursor, task: FetchTask, positions: PositionStore, kafka: str, name: str
) -> None:
    source_cursor.execute("CREATE TABLE t (id INT PRIMARY KEY)")
    source_cursor.execute("INSERT INTO t VALUES (1)")
    failed = failure_until_granted(
        source_cursor, task, positions, f"INSERT ON {name}.t", f"SELECT ON {name}.t"
    )
    assert "the user may not read it (1142): GRANT SELECT" in failed.reason
    assert ids(kafka, name) == [1]


def test_a_table_of_which_only_some_columns_may_be_read_fails(
    source_cursor: Cursor, task: FetchTask, positions: PositionStore, name: str
) -> None:
    """The server does not show the others, and their cells would be missing."""
    source_cursor.execute("CREATE TABLE t (id INT PRIMARY KEY, name INT, password INT)")
    source_cursor.execute("INSERT INTO t VALUES (1, 2, 3)")
    failed = failure_until_granted(
        source_cursor,
        task,
        positions,
        f"SELECT (id, name) ON {name}.t",
        f"SELECT (password) ON {name}.t",
    )
    assert f"GRANT SELECT ON `{name}`.`t` TO that user" in failed.reason


def test_large_rows_are_read_a_few_at_a_time(
    source_cursor: Cursor,
    task: FetchTask,
    positions: PositionStore,
    kafka: str,
    name: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first rows say nothing of those that follow."""
    monkeypatch.setattr(readers, "MOST_BYTES", 1_000_000)
    source_cursor.execute("CREATE TABLE t (id INT PRIMARY KEY, pad LONGTEXT)")
    source_cursor.executemany("INSERT INTO t VALUES (%s, '')", [(at,) for at in range(900)])
    source_cursor.execute("INSERT INTO t SELECT id + 1000, REPEAT('x', 100000) FROM t LIMIT 90")
    largest = 0
    read = ChunkReader.chunk

    def seen(of: ChunkReader, *arguments: Any) -> Read:
        nonlocal largest
        found = read(of, *arguments)
        largest = max(largest, found.bytes)
        return found

    monkeypatch.setattr(ChunkReader, "chunk", seen)
    with SnapshotRunning(task, positions) as running:
        assert running.until_snapshot("t").rows == 990
    assert sorted(ids(kafka, name)) == [*range(900), *range(1_000, 1_090)]
    assert 100_000 < largest < 2_500_000


def test_a_source_whose_binlog_begins_a_new_file_and_gets_nothing_more_is_read_all_the_same(
    source: Database,
    source_cursor: Cursor,
    task: FetchTask,
    positions: PositionStore,
    kafka: str,
    name: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source_cursor.execute("CREATE TABLE t (id INT PRIMARY KEY)")
    source_cursor.execute("INSERT INTO t VALUES (1), (2)")
    read = ChunkReader._high
    with connect(source) as connection, connection.cursor() as somebody:

        def rotated(reader: ChunkReader) -> tuple[BinlogCoordinates, int]:
            somebody.execute("FLUSH BINARY LOGS")
            return read(reader)

        monkeypatch.setattr(ChunkReader, "_high", rotated)
        with SnapshotRunning(task, positions) as running:
            assert running.until_snapshot("t").rows == 2
    assert sorted(ids(kafka, name)) == [1, 2]


@contextmanager
def slow_commits(source: Database, *, is_mariadb: bool) -> Iterator[None]:
    """A transaction that is in the binlog is seen by others seconds later: the server waits for a
    replica, and there is none."""
    role = "master" if is_mariadb else "source"
    nobody = "wait_no_slave" if is_mariadb else "wait_no_replica"
    with connect(source) as connection, connection.cursor() as cursor, ExitStack() as variables:
        if not is_mariadb:
            with suppress(pymysql.Error):  # it is there already
                cursor.execute("INSTALL PLUGIN rpl_semi_sync_source SONAME 'semisync_source.so'")
        for name, value in (
            ("timeout", 4_000),
            ("wait_point", "AFTER_SYNC"),
            (nobody, "ON"),
            ("enabled", "ON"),
        ):
            variables.enter_context(global_variable(source, f"rpl_semi_sync_{role}_{name}", value))
        yield


def test_a_change_that_the_stream_has_brought_before_others_see_it_is_not_undone(
    source: Database,
    source_cursor: Cursor,
    task: FetchTask,
    positions: PositionStore,
    kafka: str,
    name: str,
    *,
    is_mariadb: bool,
) -> None:
    """A chunk that is read in between would have the row as it was, and come behind its change."""
    source_cursor.execute("CREATE TABLE t (id INT PRIMARY KEY, n INT)")
    source_cursor.execute("INSERT INTO t VALUES (1, 0), (2, 0)")
    kept = MemorySnapshots()
    never = replace(task, snapshot=SnapshotMode.NEVER)

    def change() -> None:
        with connect(source) as connection, connection.cursor() as cursor:
            cursor.execute(f"UPDATE {name}.t SET n = 1 WHERE id = 1")

    slow = Thread(target=change)
    with SnapshotRunning(never, positions, kept) as running:
        running.until(lambda: running.progress.position is not None)
        with slow_commits(source, is_mariadb=is_mariadb):
            slow.start()
            running.until(lambda: ids(kafka, name) == [1])
            source_cursor.execute("SELECT n FROM t WHERE id = 1")
            assert source_cursor.fetchall() == ((0,),)
            kept.wished.append(Wish(WishKind.START))
            running.until_snapshot("t")
            slow.join()
    assert len(marked(kafka, name)) == 2
    assert tables_in(kafka, name) == {"t": table(source_cursor, "t", ("id",))}


@pytest.mark.usefixtures("small_chunks")
def test_what_was_paused_goes_on_where_it_was_and_what_was_stopped_does_not(
    source_cursor: Cursor,
    task: FetchTask,
    positions: PositionStore,
    kafka: str,
    name: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source_cursor.execute("CREATE TABLE t (id INT PRIMARY KEY, n INT)")
    source_cursor.executemany("INSERT INTO t VALUES (%s, 0)", [(at,) for at in range(3_000)])
    kept, chunks, gate = MemorySnapshots(), count(), Event()
    read = ChunkReader.chunk

    def gated(of: ChunkReader, *arguments: Any) -> Read:
        if next(chunks) == 2:
            gate.wait(60)
        return read(of, *arguments)

    monkeypatch.setattr(ChunkReader, "chunk", gated)
    with SnapshotRunning(task, positions, kept) as running:
        running.until(lambda: (found := running.snapshot("t")) is not None and found.chunks == 2)
        kept.wished.append(Wish(WishKind.PAUSE))
        paused = running.until_snapshot("t", TableState.PAUSED)
        gate.set()
    assert 0 < paused.rows < 3_000
    with SnapshotRunning(task, positions, kept) as running:
        kept.wished.append(Wish(WishKind.RESUME))
        assert running.until_snapshot("t").rows == 3_000
        assert len(marked(kafka, name)) == 3_000
    kept.tables[TableId(name, "t")] = replace(paused, state=TableState.RUNNING)
    chunks, gate = count(), Event()
    with SnapshotRunning(task, positions, kept) as running:
        running.until(lambda: (found := running.snapshot("t")) is not None and found.chunks == 4)
        kept.wished.append(Wish(WishKind.STOP))
        running.until_snapshot("t", TableState.STOPPED)
        gate.set()
        kept.wished.append(Wish(WishKind.RESUME))
        kept.wished.append(Wish(WishKind.START, (f"{name}.t",), "id = 7"))
        assert running.until_snapshot("t").rows == 1
    assert tables_in(kafka, name) == {"t": table(source_cursor, "t", ("id",))}


def test_rows_without_a_key_that_were_on_their_way_are_not_sent_again_by_themselves(
    source_cursor: Cursor, task: FetchTask, positions: PositionStore, kafka: str, name: str
) -> None:
    source_cursor.execute("CREATE TABLE t (n INT)")
    source_cursor.execute("INSERT INTO t VALUES (1)")
    kept = MemorySnapshots()
    kept.tables[TableId(name, "t")] = TableProgress(TableState.SENDING)
    only = replace(task, snapshot=SnapshotMode.ONLY)
    with (
        pytest.raises(SourceMisconfigured, match=f"snapshots have failed: {name}.t: the process"),
        SnapshotRunning(only, positions, kept) as running,
    ):
        running.ends()
    assert marked(kafka, name) == []
    with SnapshotRunning(task, positions, kept) as running:
        kept.wished.append(Wish(WishKind.START, (f"{name}.t",)))
        running.until_snapshot("t")
    assert len(marked(kafka, name)) == 1


@pytest.mark.parametrize(
    ("converter", "rows_per_record"),
    [
        *[("canalRow", 1), ("canalRow", 50), ("canalCompat", 1), ("canalCompat", 50)],
        *[("oggJson", 1), ("porterCompat", 1)],
    ],
)
def test_records_of_a_snapshot_are_those_of_live_rows_but_for_their_mark(
    source_cursor: Cursor,
    task: FetchTask,
    positions: PositionStore,
    kafka: str,
    name: str,
    converter: str,
    rows_per_record: int,
) -> None:
    """Key, partition, cells, types: the same row twice."""
    source_cursor.execute(
        "CREATE TABLE t (id INT UNSIGNED, b VARCHAR(9), f FLOAT, d DECIMAL(9,2), e ENUM('x','y'), "
        "n BLOB, ts TIMESTAMP(3) NULL, PRIMARY KEY (b, id))"
    )
    publish = replace(task.publish, converter=converter)
    never = replace(
        task, publish=publish, snapshot=SnapshotMode.NEVER, rows_per_record=rows_per_record
    )
    kept = MemorySnapshots()
    with SnapshotRunning(never, positions, kept) as running:
        running.until(lambda: running.progress.position is not None)
        source_cursor.execute(
            "INSERT INTO t VALUES (1, 'a_', 0.1, 5, 'y', x'00ff', NOW(3)), (2, 'é\"', -0e0, -5.25, "
            "NULL, NULL, NULL), (3, '', 1e20, 0, 'x', '', '2024-01-01')"
        )
        running.until_stored(position(source_cursor))
        kept.wished.append(Wish(WishKind.START))
        running.until_snapshot("t")
    live, snapped = list[Any](), list[Any]()
    for message in messages(kafka, name):
        record = json.loads(message.value() or b"")
        meant = {each: record[each] for each in MEANT & record.keys()}
        found = (message.partition(), message.key(), meant)
        is_marked = message.headers() == [("cdcbus-snapshot", b"1")]
        if converter != "canalCompat":
            is_marked = record.get("snapshot") is True
            assert message.headers() is None
        (snapped if is_marked else live).append(found)
    assert snapped == live != []


MEANT = {
    *("data", "mysqlType", "sqlType", "pkNames", "type", "table", "database"),
    *("after", "before", "op_type", "primary_keys"),
}


@pytest.mark.usefixtures("small_chunks")
def test_partition_keys_of_another_column_than_the_tables_key_keep_the_order(
    source: Database,
    source_cursor: Cursor,
    task: FetchTask,
    positions: PositionStore,
    kafka: str,
    name: str,
) -> None:
    """Rows that share a partition key are rows of their own: none is left out for another."""
    source_cursor.execute("CREATE TABLE t (id INT PRIMARY KEY, owner INT NOT NULL, n INT)")
    source_cursor.executemany(
        "INSERT INTO t VALUES (%s, %s, 0)", [(at, at % 5) for at in range(3_000)]
    )
    keyed = replace(
        task, publish=replace(task.publish, partition_keys={f"{name}.T".upper(): ("OWNER",)})
    )

    def write(cursor: Cursor, chance: random.Random) -> None:
        id_ = chance.randrange(3_000)
        cursor.execute(
            chance.choice(
                (
                    f"UPDATE t SET n = n + 1 WHERE id = {id_}",
                    f"UPDATE t SET owner = {chance.randrange(5)} WHERE id = {id_}",
                    f"DELETE FROM t WHERE id = {id_}",
                )
            )
        )

    with writing(source, name, write), SnapshotRunning(keyed, positions) as running:
        running.until_snapshot("t")
    with SnapshotRunning(replace(keyed, snapshot=SnapshotMode.NEVER), positions) as running:
        running.until_stored(position(source_cursor))
    rows: dict[str, dict[str, dict[str, str]]] = {}
    for message in messages(kafka, name):
        record = json.loads(message.value() or b"")
        for row in record["data"]:
            of_owner = rows.setdefault(row["owner"], {})
            if record["type"] == "DELETE":
                of_owner.pop(row["id"], None)
            else:
                of_owner[row["id"]] = row
    found = {(id_,): row for owned in rows.values() for id_, row in owned.items()}
    assert sum(map(len, rows.values())) == len(found)
    assert found == table(source_cursor, "t", ("id",))


def test_a_table_that_is_done_is_not_read_again_because_another_one_is_asked_for(
    source_cursor: Cursor, task: FetchTask, positions: PositionStore, kafka: str, name: str
) -> None:
    """By a task that has just started, and looks for tables that have no snapshot yet."""
    kept = MemorySnapshots()
    for table_ in ("t", "u", "v"):
        source_cursor.execute(f"CREATE TABLE {table_} (id INT PRIMARY KEY)")
        source_cursor.execute(f"INSERT INTO {table_} VALUES (1)")
    for table_ in ("t", "u"):
        kept.tables[TableId(name, table_)] = TableProgress(TableState.DONE, 7)
    kept.wished.append(Wish(WishKind.START, (f"{name}.u",)))
    with SnapshotRunning(task, positions, kept) as running:
        assert running.until_snapshot("v").rows == 1
        running.until(lambda: (found := running.snapshot("u")) is not None and found.rows == 1)
        running.until_snapshot("u")
    assert {record["table"] for record in marked(kafka, name)} == {"u", "v"}
