"""A topic that gets more partitions, and a consumer task for each: every key is in one of them,
in order."""

from __future__ import annotations

import random
from collections.abc import Callable

import pyarrow as pa
import pytest
from confluent_kafka import Message
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions
from pymysql.cursors import Cursor

from cdcbus.consumer.apply.applier import PartitionApplier
from cdcbus.consumer.config import LoadTask, TopicConfig
from cdcbus.consumer.offsets.topic_logs import TopicLogs, partitions_of
from cdcbus.consumer.records.records import Records
from cdcbus.ops.stack.addresses import Database
from cdcbus.plugins.contracts import JdbcTarget, PositionStore, TargetColumn, TargetTable
from cdcbus.plugins.converters.canal_row import CanalRow
from cdcbus.plugins.kafka.partitioner import partition_of
from cdcbus.plugins.positions import TopicPartition
from cdcbus.plugins.rowchange import TableId
from tests.integration.producer.reading import fetch_task, position
from tests.integration.producer.running import Running, messages
from tests.support.stand_ins.memory_target import MemoryTarget
from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration

ROWS = 60
PARTITIONS = 3


def split(kafka: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": kafka})
    admin.create_partitions([NewPartitions(topic, PARTITIONS)])[topic].result(timeout=30)
    wait_until(
        lambda: len(admin.list_topics(topic, timeout=30).topics[topic].partitions) == PARTITIONS,
        "all partitions",
    )


def change_rows(cursor: Cursor, seed: int) -> None:
    choose = random.Random(seed)
    for version in range(4):
        cursor.execute("UPDATE t SET v = v + 1 WHERE id %% 4 <> %s", (version,))
        cursor.execute("UPDATE t SET id = id + 1000 WHERE id = %s", (choose.randrange(ROWS),))
        cursor.execute("DELETE FROM t WHERE id = %s", (choose.randrange(ROWS),))
        cursor.execute("INSERT INTO t VALUES (%s, 0)", (seed * 10_000 + version,))


def records(found: list[Message]) -> Records:
    return Records(
        pa.array([message.offset() for message in found], pa.int64()),
        pa.array([message.value() for message in found], pa.binary()),
    )


def test_each_key_is_in_one_partition_in_order_and_the_tasks_of_all_partitions_together_make_the_table(
    source: Database,
    source_cursor: Cursor,
    kafka: str,
    name: str,
    make_topic: Callable[..., str],
    positions: PositionStore,
) -> None:
    make_topic(name)
    source_cursor.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
    positions.save(position(source_cursor).to_json())
    source_cursor.execute(
        f"INSERT INTO t VALUES {', '.join(f'({number}, 0)' for number in range(ROWS))}"
    )
    change_rows(source_cursor, 1)
    fetch = fetch_task(source, name, servers=kafka)
    with Running(fetch, positions) as running:
        running.until_stored(position(source_cursor))
    before = messages(kafka, name)
    table = TableId(name, "t")
    columns = {column: TargetColumn(column, "int") for column in ("id", "v")}
    target = MemoryTarget({table: TargetTable(table, columns, ("id",))})
    tasks = [
        LoadTask(
            f"{name}-{number}",
            TopicConfig(kafka, (name,), partitions=(number,)),
            "canalRow",
            "JdbcBatch",
            JdbcTarget(""),
        )
        for number in range(PARTITIONS)
    ]
    appliers = [PartitionApplier(task, CanalRow(), target) for task in tasks]
    appliers[0].apply(TopicPartition(name, 0), records(before), len(before), 0)

    split(kafka, name)  # nothing is behind
    change_rows(source_cursor, 2)
    with Running(fetch, positions) as running:
        running.until_stored(position(source_cursor))
    after = messages(kafka, name)[len(before) :]
    assert {message.key(): message.partition() for message in after} == {
        key: partition_of(key, PARTITIONS) for message in after if (key := message.key() or b"")
    }
    with TopicLogs(tasks[0]) as logs:
        partitions = [partitions_of(task, logs, name) for task in tasks]
    assert partitions == [[(name, number)] for number in range(PARTITIONS)]
    for number in (2, 0, 1):  # whichever is first
        mine = [message for message in after if message.partition() == number]
        assert mine
        appliers[number].apply(
            TopicPartition(name, number), records(mine), (mine[-1].offset() or 0) + 1, 0
        )
    source_cursor.execute("SELECT id, v FROM t")
    assert {(row["id"], row["v"]) for row in target.rows[table].values()} == {
        (str(key), str(v)) for key, v in source_cursor.fetchall()
    }
