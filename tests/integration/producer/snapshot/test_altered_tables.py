"""Tables that are altered, swapped or emptied while a snapshot reads them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from pymysql.cursors import Cursor

from cdcbus.ops.stack.addresses import Database
from cdcbus.plugins.contracts import PositionStore
from cdcbus.plugins.rowchange import TableId
from cdcbus.plugins.start import Edge
from cdcbus.producer.config import DdlConfig, FetchTask, SnapshotMode
from cdcbus.producer.snapshot.progress import (
    MemorySnapshots,
    TableProgress,
    TableState,
    Wish,
    WishKind,
)
from tests.integration.producer.reading import fetch_task, position
from tests.integration.producer.running import canal, ids
from tests.integration.producer.snapshot.following import SnapshotRunning, marked, table, tables_in
from tests.integration.producer.snapshot.meanwhile import somebody_runs

pytestmark = [pytest.mark.integration, pytest.mark.source]


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
@pytest.mark.parametrize("other", ["pt", "st"])
def test_rows_that_an_exchange_of_partitions_brings_behind_the_place_already_read_come(
    source: Database,
    source_cursor: Cursor,
    task: FetchTask,
    positions: PositionStore,
    kafka: str,
    name: str,
    monkeypatch: pytest.MonkeyPatch,
    other: str,
) -> None:
    """No row event tells of them; `other`: the table that is read already."""
    for table_, partitions in (
        (
            "pt",
            " PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (1000), "
            "PARTITION p1 VALUES LESS THAN MAXVALUE)",
        ),
        ("st", ""),
    ):
        source_cursor.execute(f"CREATE TABLE {table_} (id INT PRIMARY KEY, n INT){partitions}")
    source_cursor.executemany("INSERT INTO pt VALUES (%s, 0)", [(at,) for at in range(500, 2_000)])
    source_cursor.executemany("INSERT INTO st VALUES (%s, 1)", [(at,) for at in range(900)])
    kept = MemorySnapshots()
    kept.tables[TableId(name, "st" if other == "pt" else "pt")] = TableProgress(TableState.STOPPED)
    with (
        somebody_runs(
            monkeypatch, source, name, "ALTER TABLE pt EXCHANGE PARTITION p0 WITH TABLE st"
        ),
        SnapshotRunning(task, positions, kept) as running,
    ):
        running.until_snapshot(other)
        running.until_stored(position(source_cursor))
    found = tables_in(kafka, name)[other]
    expected = table(source_cursor, other, ("id",))
    assert {key: found[key] for key in expected} == expected


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("mode", [SnapshotMode.INITIAL, SnapshotMode.NEVER])
def test_a_table_that_takes_over_the_name_of_one_that_was_dropped_meanwhile_is_read(
    source: Database,
    source_cursor: Cursor,
    task: FetchTask,
    positions: PositionStore,
    kafka: str,
    name: str,
    monkeypatch: pytest.MonkeyPatch,
    mode: SnapshotMode,
) -> None:
    for table_, number in (("t", 0), ("t_new", 1)):
        source_cursor.execute(f"CREATE TABLE {table_} (id INT PRIMARY KEY, n INT)")
        source_cursor.executemany(
            f"INSERT INTO {table_} VALUES (%s, {number})", [(at,) for at in range(1_000)]
        )
    kept = MemorySnapshots()
    kept.wished.append(Wish(WishKind.START, (f"{name}.t",)))
    with (
        somebody_runs(monkeypatch, source, name, "DROP TABLE t"),
        SnapshotRunning(replace(task, snapshot=mode), positions, kept) as running,
    ):
        running.until_snapshot("t", TableState.DROPPED)
        source_cursor.execute("RENAME TABLE t_new TO t")
        running.until_snapshot("t")
        running.until_stored(position(source_cursor))
    assert tables_in(kafka, name)["t"] == table(source_cursor, "t", ("id",))
