"""Records of many rows in a real Kafka: the same rows in the same partitions and order as
records of one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from pymysql.cursors import Cursor

from cdcbus.ops.stack.addresses import Database
from cdcbus.plugins.contracts import PositionStore
from cdcbus.plugins.converters.canal_row import CanalRow
from cdcbus.plugins.kafka.record_key import key_text
from cdcbus.plugins.rowchange import Op, Row
from cdcbus.producer.config import FetchTask
from tests.integration.producer.reading import fetch_task, position
from tests.integration.producer.running import Running, messages

pytestmark = pytest.mark.integration

ROWS = 300
PARTITIONS = 3
Partition = list[tuple[Op, bytes, Row | None, Row | None]]


def published(
    task: FetchTask, cursor: Cursor, kafka: str, positions: PositionStore
) -> tuple[list[Partition], list[int]]:
    """The row changes of each partition in order, with the record key of each; how many rows
    each record has."""
    with Running(task, positions) as running:
        running.until_stored(position(cursor))
    partitions: list[Partition] = [[] for _ in range(PARTITIONS)]
    sizes = []
    for message in messages(kafka, task.publish.topic):
        changes = CanalRow().from_bytes(message.value() or b"")
        sizes.append(len(changes))
        keys = [key_text(change, ("id",)) for change in changes]
        assert message.key() == (keys[0] if len(keys) == 1 else None)
        partitions[message.partition() or 0] += [
            (each.op, key, each.before, each.after) for each, key in zip(changes, keys, strict=True)
        ]
    return partitions, sizes


def test_each_row_is_where_and_in_the_order_in_which_it_would_be_alone(
    source: Database,
    source_cursor: Cursor,
    kafka: str,
    name: str,
    make_topic: Callable[..., str],
    positions: PositionStore,
) -> None:
    many, one = make_topic(name, PARTITIONS), make_topic(f"{name}-one", PARTITIONS)
    source_cursor.execute("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20))")
    start = position(source_cursor).to_json()
    positions.save(start)
    source_cursor.execute(
        f"INSERT INTO t VALUES {', '.join(f'({number}, {number})' for number in range(ROWS))}"
    )
    source_cursor.execute("UPDATE t SET v = CONCAT(v, ' a')")
    source_cursor.execute(f"UPDATE t SET id = id + {ROWS} WHERE id % 10 = 0 ORDER BY id DESC")
    source_cursor.execute("DELETE FROM t WHERE id % 3 = 0")
    task = fetch_task(source, name, servers=kafka)
    joined, sizes = published(
        replace(task, rows_per_record=40, publish=replace(task.publish, topic=many)),
        source_cursor,
        kafka,
        positions,
    )
    positions.save(start)
    alone, ones = published(
        replace(task, publish=replace(task.publish, topic=one)), source_cursor, kafka, positions
    )
    assert set(ones) == {1}
    assert max(sizes) == 40
    assert sum(sizes) == len(ones)
    assert all(alone)
    for partition, wanted in zip(joined, alone, strict=True):
        assert sorted(map(repr, partition)) == sorted(map(repr, wanted))
        for key in {each[1] for each in wanted}:
            assert [each for each in partition if each[1] == key] == [
                each for each in wanted if each[1] == key
            ]
