"""Rows of 1 MB, more of them than memory, after rows of a few bytes: a consumer task needs no
more than its gigabyte."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from tests.support.changes.shop import Shop
from tests.support.clusters.bulk_gear import with_eager_spark
from tests.support.topics.kafka_producer import kafka_producer
from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration
PARTITIONS = 1

SMALL_ROWS, LARGE_ROWS = 3_000, 400
MEGABYTE = 1_000_000
# with what Spark's JVM needs besides its heap of 1 GB
MOST_MEGABYTES = {"python": 1_000, "worker": 1_000, "java": 1_700}


def publish(shop: Shop) -> None:
    producer = kafka_producer(
        shop.addresses.kafka, {"compression.type": "lz4", "message.max.bytes": 2 * MEGABYTE}
    )
    for number in range(SMALL_ROWS + LARGE_ROWS):
        note = "x" * (MEGABYTE if number >= SMALL_ROWS else 10)
        record = {
            "data": [{"id": str(number), "note": note}],
            "database": shop.name,
            "table": "notes",
            "type": "INSERT",
            "pkNames": ["id"],
            "isDdl": False,
            "mysqlType": {"id": "int", "note": "longtext"},
        }
        producer.produce(shop.name, json.dumps(record).encode(), key=f"{number}_")
        if number % 20 == 0:
            assert producer.flush(60) == 0
    assert producer.flush(60) == 0


def peaks_megabytes(session: int) -> dict[str, float]:
    """The most memory that a process of a session has had, by program: the task, its JVM and the
    Python workers below that."""
    found: dict[str, float] = {}
    for folder in Path("/proc").iterdir():
        try:
            if not folder.name.isdigit() or os.getsid(int(folder.name)) != session:
                continue
            status = (folder / "status").read_text()
            command = (folder / "cmdline").read_text()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if peak := re.search(r"VmHWM:\s+(\d+) kB", status):
            program = "python"
            if "Name:\tjava" in status:
                program = "java"
            elif "pyspark.worker" in command:
                program = "worker"
            found[program] = max(found.get(program, 0.0), int(peak[1]) / 1024)
    return found


@pytest.mark.parametrize("target", ["postgresql", "mariadb"])
def test_rows_of_a_megabyte_need_no_more_memory_than_small_ones(shop: Shop, target: str) -> None:
    """More than 20 s: the rows of a megabyte are more than the memory that they may take."""
    shop.create("notes", "id INT PRIMARY KEY, note LONGTEXT", "id INT PRIMARY KEY, note TEXT")
    # packing them is not what takes time here
    shop.postgresql(f'ALTER TABLE {shop.name}."notes" ALTER note SET STORAGE EXTERNAL')
    publish(shop)
    load = with_eager_spark(shop.load(target))  # a part of it in each gear
    load.start()

    def is_applied() -> bool:
        load.check()
        return shop.is_applied(load)

    wait_until(is_applied, "all rows to be applied", 900)
    found = peaks_megabytes(load.pid)
    print(f"peaks in MB: {found}")
    assert {
        program: peak for program, peak in found.items() if peak > MOST_MEGABYTES[program]
    } == {}
    assert found.keys() == MOST_MEGABYTES.keys()
    sizes = f"SELECT COUNT(*), SUM(LENGTH(note)) FROM {shop.name}.notes"
    assert getattr(shop, target)(sizes) == [
        (SMALL_ROWS + LARGE_ROWS, SMALL_ROWS * 10 + LARGE_ROWS * MEGABYTE)
    ]
    assert "trying again" not in load.log.read_text()
