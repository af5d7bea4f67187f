"""Rows that are there before a task, while others write: the topic tells of the same table."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from threading import Thread
from typing import Any

import pytest
from pymysql.cursors import Cursor

from cdcbus.ops.stack.addresses import Database
from cdcbus.plugins.contracts import PositionStore
from cdcbus.plugins.errors import SourceMisconfigured
from cdcbus.plugins.rowchange import TableId
from cdcbus.producer.binlog.coordinates import BinlogCoordinates
from cdcbus.producer.config import FetchTask, SnapshotMode
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
from tests.integration.producer.reading import connect, position
from tests.integration.producer.running import canal, ids, messages
from tests.integration.producer.snapshot.following import SnapshotRunning, marked, table, tables_in
from tests.integration.producer.snapshot.meanwhile import slow_commits, writing
from tests.support.topics.committed import committed_canal

pytestmark = [pytest.mark.integration, pytest.mark.source]


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


@pytest.mark.parametrize("engine", ["InnoDB", "MyISAM"])
def test_a_table_without_a_key_that_is_always_changed_comes_whole_or_not_at_all(
    source: Database,
    source_cursor: Cursor,
    task: FetchTask,
    positions: PositionStore,
    kafka: str,
    name: str,
    monkeypatch: pytest.MonkeyPatch,
    engine: str,
) -> None:
    """Only what transactions see tells what is changed later from what is read."""
    source_cursor.execute(f"CREATE TABLE t (n INT) ENGINE={engine}")
    source_cursor.execute("INSERT INTO t VALUES (1)")
    state = TableState.DONE if engine == "InnoDB" else TableState.FAILED
    with connect(source) as connection, connection.cursor() as other:
        other.execute(f"USE {name}")
        read = ChunkReader.table

        def changed(reader: ChunkReader, selected: SelectedTable, where: str) -> Read:
            other.execute("UPDATE t SET n = n + 1")
            return read(reader, selected, where)

        monkeypatch.setattr(ChunkReader, "table", changed)
        with SnapshotRunning(task, positions) as running:
            ended = running.until_snapshot("t", state)
    records = committed_canal(kafka, name)
    found = [(each["type"], each["data"][0]["n"], each.get("snapshot")) for each in records]
    if engine == "InnoDB":
        assert found == [("INSERT", "1", True), ("UPDATE", "2", None)]
    else:
        assert found == []
        assert "each of the 5 times that it was read" in ended.reason


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
