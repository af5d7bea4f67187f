"""What an operator sees of our records with Kafka's own console consumer."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from pymysql.cursors import Cursor

from cdcbus.ops.stack.addresses import Database
from cdcbus.plugins.contracts import PositionStore
from tests.integration.producer.reading import fetch_task, position
from tests.integration.producer.running import Running

pytestmark = pytest.mark.integration


def test_kafka_s_console_consumer_prints_keys_and_records(
    source: Database,
    source_cursor: Cursor,
    kafka: str,
    name: str,
    stack_home: Path,
    make_topic: Callable[..., str],
    positions: PositionStore,
) -> None:
    make_topic(name)
    source_cursor.execute("CREATE TABLE t (id INT, name VARCHAR(20), PRIMARY KEY (name, id))")
    positions.save(position(source_cursor).to_json())
    for statement in (
        "INSERT INTO t VALUES (1, 'größe 😀')",
        "UPDATE t SET id = 2",
        "TRUNCATE TABLE t",
    ):
        source_cursor.execute(statement)
    with Running(fetch_task(source, name, servers=kafka), positions) as running:
        running.until_stored(position(source_cursor))
    command = [
        sys.executable,
        "-m",
        "cdcbus",
        "stack",
        "kafka-console-consumer",
        "--home",
        str(stack_home),
    ]
    options = [
        "--topic",
        name,
        "--from-beginning",
        "--max-messages",
        "4",
        "--property",
        "print.key=true",
        "--property",
        "key.separator= | ",
    ]
    done = subprocess.run(
        [*command, *options],
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=True,
        timeout=300,
    )
    lines = [line.split(" | ", 1) for line in done.stdout.splitlines()]
    records = [json.loads(value) for _, value in lines]
    assert [key for key, _ in lines] == ["1_größe 😀_", "1_größe 😀_", "2_größe 😀_", ""]
    assert [record["type"] for record in records] == ["INSERT", "DELETE", "INSERT", "TRUNCATE"]
    assert records[0]["data"] == [{"id": "1", "name": "größe 😀"}]
