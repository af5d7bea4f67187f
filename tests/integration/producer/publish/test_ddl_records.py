"""DDL and TRUNCATE of a real server, in Kafka."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import pytest
from pymysql.cursors import Cursor

from cdcbus.ops.stack.addresses import Database
from cdcbus.plugins.contracts import PositionStore
from cdcbus.plugins.errors import UnreadableEvent
from cdcbus.plugins.rowchange import TableId
from cdcbus.producer.config import DdlConfig
from tests.integration.producer.reading import connect, ddl_of, fetch_task, position, read_batches
from tests.integration.producer.running import Running, canal, messages, row_changes

pytestmark = pytest.mark.integration

STATEMENTS = (
    "CREATE TABLE t (id INT PRIMARY KEY, v INT)",
    "INSERT INTO t VALUES (1, 1), (2, 2)",
    "TRUNCATE TABLE t",
    "INSERT INTO t VALUES (3, 3)",
    "ALTER TABLE t ADD INDEX by_v (v)",
    "ALTER TABLE t ADD COLUMN w INT",
    "CREATE TABLE `größe` LIKE t",
    "RENAME TABLE `größe` TO u",
    "DROP TABLE u",
    "DELETE FROM t",
)


def run(cursor: Cursor, *statements: str) -> None:
    for statement in statements:
        cursor.execute(statement)


@pytest.mark.parametrize("converter", ["canalRow", "oggJson"])
def test_a_truncate_stands_in_its_topic_between_the_rows_before_it_and_after_it(
    converter: str,
    source: Database,
    source_cursor: Cursor,
    kafka: str,
    name: str,
    make_topic: Callable[..., str],
    positions: PositionStore,
) -> None:
    make_topic(name)
    positions.save(position(source_cursor).to_json())
    run(source_cursor, *STATEMENTS)
    with Running(
        fetch_task(source, name, servers=kafka, converter=converter), positions
    ) as running:
        running.until_stored(position(source_cursor))
    changes = row_changes(messages(kafka, name), converter)
    assert [change.op for change in changes] == ["INSERT", "INSERT", "TRUNCATE", "INSERT", "DELETE"]
    assert {change.table.id for change in changes} == {TableId(name, "t")}
    assert running.progress.done == len(changes)


def test_with_ddl_each_partition_has_the_statements_as_canal_writes_them(
    source: Database,
    source_cursor: Cursor,
    kafka: str,
    name: str,
    make_topic: Callable[..., str],
    positions: PositionStore,
) -> None:
    make_topic(name, 3)
    positions.save(position(source_cursor).to_json())
    run(
        source_cursor,
        *(statement for statement in STATEMENTS if not statement.startswith("TRUNCATE")),
    )
    task = replace(fetch_task(source, name, servers=kafka), ddl=DdlConfig(definitions=True))
    with Running(task, positions) as running:
        running.until_stored(position(source_cursor))
    found = [
        message for message in messages(kafka, name) if json.loads(message.value() or b"")["isDdl"]
    ]
    for partition in range(3):
        records = [
            json.loads(message.value() or b"")
            for message in found
            if message.partition() == partition
        ]
        assert [(record["type"], record["table"]) for record in records] == [
            ("CREATE", "t"),
            ("CINDEX", "t"),
            ("ALTER", "t"),
            ("CREATE", "größe"),
            ("RENAME", "u"),
            ("ERASE", "u"),
        ]
        assert {record["database"] for record in records} == {name}
        assert records[2]["sql"] == STATEMENTS[5]
    assert {message.key() for message in found} == {None}


def test_a_truncate_of_a_table_spread_over_partitions_stops_and_the_task_can_go_on_without_it(
    source: Database,
    source_cursor: Cursor,
    kafka: str,
    name: str,
    make_topic: Callable[..., str],
    positions: PositionStore,
) -> None:
    make_topic(name, 3)
    positions.save(position(source_cursor).to_json())
    run(source_cursor, *STATEMENTS[:4])
    task = fetch_task(source, name, servers=kafka)
    with pytest.raises(UnreadableEvent) as stopped, Running(task, positions) as running:
        running.ends()
    assert (
        f": TRUNCATE of {name}.t, whose rows are spread over 3 partitions of topic {name}: no "
        "order holds" in str(stopped.value)
    )
    with Running(replace(task, ddl=DdlConfig(truncates=False)), positions) as running:
        running.until_stored(position(source_cursor))
    assert {(record["type"], record["data"][0]["id"]) for record in canal(kafka, name)} == {
        ("INSERT", str(number)) for number in (1, 2, 3)
    }


@pytest.mark.source
@pytest.mark.parametrize("size", [1, 1 << 20])
def test_the_ddl_of_the_server_names_its_tables_and_stands_at_its_place(
    source: Database, source_cursor: Cursor, name: str, size: int
) -> None:
    """Also in another session's schema, with comments, and without the temporary tables that
    hide others."""
    start = position(source_cursor)
    run(source_cursor, *STATEMENTS)
    with connect(source) as connection, connection.cursor() as other:
        run(other, f"CREATE TEMPORARY TABLE {name}.t (id INT)", f"TRUNCATE {name}.t")
        run(other, f"/* by hand */ TRUNCATE `{name}` . `t`")
        run(other, f"DROP TEMPORARY TABLE {name}.t", f"TRUNCATE {name}.t # again")
    task = replace(fetch_task(source, name), ddl=DdlConfig(definitions=True))
    found = ddl_of(read_batches(task, start, position(source_cursor), size))
    kinds = ["CREATE", "TRUNCATE", "CINDEX", "ALTER", "CREATE", "RENAME", "ERASE", "TRUNCATE"]
    assert [ddl.kind for ddl in found] == kinds
    assert [ddl.table.table for ddl in found] == ["t", "t", "t", "t", "größe", "u", "u", "t"]
    assert all(
        ddl.origin.pos and ddl.origin.commit_us and ddl.table.schema == name for ddl in found
    )


@pytest.mark.source
def test_a_truncate_of_a_temporary_table_that_is_older_than_the_reading_is_not_taken_for_the_tables(
    source: Database, source_cursor: Cursor, name: str
) -> None:
    with connect(source) as connection, connection.cursor() as other:
        run(other, "SET SESSION binlog_format = STATEMENT")
        before = position(source_cursor)
        run(other, f"CREATE TEMPORARY TABLE {name}.t (id INT)")
        created = position(source_cursor)
        run(other, f"TRUNCATE {name}.t")
        truncated = position(source_cursor)
        run(other, f"DROP TEMPORARY TABLE {name}.t")
        run(other, f"CREATE TABLE {name}.t (id INT)", f"TRUNCATE {name}.t")
    end = position(source_cursor)
    task = fetch_task(source, name)
    with pytest.raises(UnreadableEvent, match=rf"a TRUNCATE of {name}\.t, or of a temporary table"):
        read_batches(task, created, end)
    for start in (before, truncated):
        assert [ddl.kind for ddl in ddl_of(read_batches(task, start, end))] == ["TRUNCATE"]
