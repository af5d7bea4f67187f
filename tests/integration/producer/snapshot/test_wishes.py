"""Snapshots that operators start, pause, resume and stop, and tables that cannot be read."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from threading import Event
from typing import Any

import pytest
from pymysql.cursors import Cursor

from cdcbus.ops.stack.addresses import Database
from cdcbus.plugins.contracts import PositionStore
from cdcbus.plugins.rowchange import TableId
from cdcbus.producer.config import FetchTask, SnapshotMode
from cdcbus.producer.snapshot.progress import (
    MemorySnapshots,
    TableProgress,
    TableState,
    Wish,
    WishKind,
)
from cdcbus.producer.snapshot.reader import ChunkReader, Read
from tests.integration.producer.reading import global_variable
from tests.integration.producer.running import ids
from tests.integration.producer.snapshot.following import SnapshotRunning, marked, table, tables_in
from tests.support.servers.few_rights import PASSWORD, user_with

pytestmark = [pytest.mark.integration, pytest.mark.source]


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
        running.until_snapshot("u", TableState.PAUSED)
        kept.wished.append(Wish(WishKind.RESUME))
        assert running.until_snapshot("t").rows == 500
    assert tables_in(kafka, name) == {"t": table(source_cursor, "t", ("id",))}


def test_what_was_read_by_a_condition_is_read_whole_by_a_task_for_snapshots(
    source_cursor: Cursor, task: FetchTask, positions: PositionStore, kafka: str, name: str
) -> None:
    """But for a table without a key, of which rows would come twice."""
    source_cursor.execute("CREATE TABLE t (id INT PRIMARY KEY)")
    source_cursor.execute("CREATE TABLE u (id INT)")
    for each in ("t", "u"):
        source_cursor.execute(f"INSERT INTO {each} VALUES (1), (2), (3), (4)")
    kept = MemorySnapshots()
    with SnapshotRunning(replace(task, snapshot=SnapshotMode.NEVER), positions, kept) as running:
        for each in ("t", "u"):
            kept.wished.append(Wish(WishKind.START, (f"{name}.{each}",), "id > 2", True))
        assert [running.until_snapshot(each).rows for each in ("t", "u")] == [2, 2]
    for _ in range(2):
        with SnapshotRunning(task, positions, kept) as running:
            failed = running.until_snapshot("u", TableState.FAILED)
            running.until(lambda: (found := running.snapshot("t")) is not None and found.is_whole)
    assert "Empty it at the targets" in failed.reason
    records = [(each["table"], row["id"]) for each in marked(kafka, name) for row in each["data"]]
    of_t = [number for table, number in records if table == "t"]
    assert sorted(of_t) == ["1", "2", "3", "3", "4", "4"]
    assert sorted(number for table, number in records if table == "u") == ["3", "4"]


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
    source: Database,
    source_cursor: Cursor,
    task: FetchTask,
    positions: PositionStore,
    kafka: str,
    name: str,
) -> None:
    """Where rows say what their columns are: elsewhere the task needs the right at its start."""
    source_cursor.execute("CREATE TABLE t (id INT PRIMARY KEY)")
    source_cursor.execute("INSERT INTO t VALUES (1)")
    with global_variable(source, "binlog_row_metadata", "FULL"):
        failed = failure_until_granted(
            source_cursor, task, positions, f"INSERT ON {name}.t", f"SELECT ON {name}.t"
        )
    assert "the user may not read it (1142): GRANT SELECT" in failed.reason
    assert ids(kafka, name) == [1]


def test_a_table_of_which_only_some_columns_may_be_read_fails(
    source_cursor: Cursor, task: FetchTask, positions: PositionStore, name: str, *, is_mariadb: bool
) -> None:
    """The server does not show the others, and their cells would be missing. Those of MySQL may be
    invisible, however many are granted by their names."""
    source_cursor.execute("CREATE TABLE t (id INT PRIMARY KEY, name INT, password INT)")
    source_cursor.execute("INSERT INTO t VALUES (1, 2, 3)")
    failed = failure_until_granted(
        source_cursor,
        task,
        positions,
        f"SELECT (id, name) ON {name}.t",
        f"SELECT{' (password)' if is_mariadb else ''} ON {name}.t",
    )
    assert f"GRANT SELECT ON `{name}`.`t` TO that user" in failed.reason


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
