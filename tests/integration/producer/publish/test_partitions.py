"""Records land where Kafka's Java client, and so porter, puts them."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from pymysql.cursors import Cursor

from cdcbus.consumer.jvm.maven import java
from cdcbus.ops.stack.addresses import Database
from cdcbus.ops.stack.java_servers import KAFKA_JARS
from cdcbus.plugins.contracts import PositionStore
from tests.integration.producer.reading import fetch_task, position
from tests.integration.producer.running import Running, canal, ids, messages

pytestmark = pytest.mark.integration

PARTITIONS = 7
# Kafka's own test values of murmur2.
MURMUR2 = {
    "21": -973932308,
    "foobar": -790332482,
    "a-little-bit-long-string": -985981536,
    "a-little-bit-longer-string": -1486304829,
    "lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    "abc": 479470107,
}
KEYS = (
    "",
    "21",
    "foobar",
    "a b",
    "größe",
    "漢字",
    "😀",
    "x" * 200,
    *(f"key {number}" for number in range(60)),
)


def of_the_java_client(keys: list[str]) -> list[int]:
    program = Path(__file__).with_name("Partitions.java")
    command = [
        str(java()),
        "-Dfile.encoding=UTF-8",
        "-Dsun.jnu.encoding=UTF-8",
        "-cp",
        str(KAFKA_JARS.folder / "*"),
        str(program),
    ]
    done = subprocess.run(
        [*command, str(PARTITIONS), *keys],
        capture_output=True,
        text=True,
        env={"LC_ALL": "C.UTF-8"},
        check=True,
    )
    return [int(line) for line in done.stdout.split()]


def test_the_java_client_s_murmur2_is_kafka_s() -> None:
    assert of_the_java_client(list(MURMUR2)) == [
        (value & 0x7FFFFFFF) % PARTITIONS for value in MURMUR2.values()
    ]


def test_each_record_lands_where_the_java_client_puts_its_key(
    source: Database,
    source_cursor: Cursor,
    kafka: str,
    name: str,
    make_topic: Callable[..., str],
    positions: PositionStore,
) -> None:
    make_topic(name, PARTITIONS)
    source_cursor.execute("CREATE TABLE t (k VARCHAR(255) COLLATE utf8mb4_bin PRIMARY KEY)")
    positions.save(position(source_cursor).to_json())
    for key in KEYS:
        source_cursor.execute("INSERT INTO t VALUES (%s)", (key,))
    with Running(fetch_task(source, name, servers=kafka), positions) as running:
        running.until_stored(position(source_cursor))
    found = {
        (message.key() or b"").decode(): message.partition() for message in messages(kafka, name)
    }
    keys = [f"{key}_" for key in KEYS]
    assert found == dict(zip(keys, of_the_java_client(keys), strict=True))
    assert len(set(found.values())) == PARTITIONS


def test_an_update_that_changes_the_key_goes_to_both_partitions(
    source: Database,
    source_cursor: Cursor,
    kafka: str,
    name: str,
    make_topic: Callable[..., str],
    positions: PositionStore,
) -> None:
    make_topic(name, PARTITIONS)
    source_cursor.execute("CREATE TABLE t (id INT PRIMARY KEY)")
    positions.save(position(source_cursor).to_json())
    source_cursor.execute("INSERT INTO t VALUES (0)")
    for number in range(1, 40):
        source_cursor.execute("UPDATE t SET id = %s", (number,))
    with Running(fetch_task(source, name, servers=kafka), positions) as running:
        running.until_stored(position(source_cursor))
    headers = []
    for message in messages(kafka, name):
        headers += [(message.key(), header) for header in message.headers() or []]
    marks = []
    for number in range(39):
        old, new = f"{number}_".encode(), f"{number + 1}_".encode()
        marks.append((old, ("cdcbus-new-key", new)))
        marks.append((new, ("cdcbus-old-key", old)))
    assert sorted(headers) == sorted(marks)
    types: dict[str, list[str]] = {}
    for record in canal(kafka, name):
        types.setdefault(record["data"][0]["id"], []).append(record["type"])
    assert types == {
        **{str(number): ["INSERT", "DELETE"] for number in range(39)},
        "39": ["INSERT"],
    }


def test_rows_of_all_tables_without_a_key_are_in_the_partition_of_the_empty_key_in_order(
    source: Database,
    source_cursor: Cursor,
    kafka: str,
    name: str,
    make_topic: Callable[..., str],
    positions: PositionStore,
) -> None:
    make_topic(name, PARTITIONS)
    for table in ("a", "b"):
        source_cursor.execute(f"CREATE TABLE {table} (id INT)")
    positions.save(position(source_cursor).to_json())
    for number in range(40):
        source_cursor.execute(f"INSERT INTO {'ab'[number % 2]} VALUES ({number})")
    with Running(fetch_task(source, name, servers=kafka), positions) as running:
        running.until_stored(position(source_cursor))
    assert ids(kafka, name) == list(range(40))
    assert {(message.key(), message.partition()) for message in messages(kafka, name)} == {
        (b"", of_the_java_client([""])[0])
    }


def test_what_safety_needs_cannot_be_set_otherwise(
    source: Database,
    source_cursor: Cursor,
    kafka: str,
    name: str,
    make_topic: Callable[..., str],
    positions: PositionStore,
) -> None:
    """`acks=0` and another partitioner in a task file change nothing: the records are where they
    belong, once each."""
    make_topic(name, PARTITIONS)
    source_cursor.execute("CREATE TABLE t (id INT PRIMARY KEY)")
    positions.save(position(source_cursor).to_json())
    source_cursor.execute(
        f"INSERT INTO t VALUES {', '.join(f'({number})' for number in range(30))}"
    )
    task = fetch_task(source, name, servers=kafka)
    options = {
        "acks": "0",
        "enable.idempotence": "false",
        "partitioner": "consistent",
        "linger.ms": "1",
    }
    with Running(
        replace(task, publish=replace(task.publish, kafka_options=options)), positions
    ) as running:
        running.until_stored(position(source_cursor))
    found = {
        (message.key() or b"").decode(): message.partition() for message in messages(kafka, name)
    }
    keys = [f"{number}_" for number in range(30)]
    assert found == dict(zip(keys, of_the_java_client(keys), strict=True))
