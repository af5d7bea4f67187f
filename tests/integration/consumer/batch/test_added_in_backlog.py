"""A second partition that is added to a topic while Spark reads the backlog of the first one."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import orjson
import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions

from tests.soak.samples import family
from tests.support.changes.shop import Shop
from tests.support.clusters.bulk_gear import with_eager_spark
from tests.support.topics.kafka_producer import kafka_producer
from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration
PARTITIONS = 1
ROWS = 60_000


def change(shop: Shop, number: int, n: int) -> dict[str, Any]:
    """What `produce` takes by name: a row of canal's flat JSON."""
    record = {
        "database": shop.name,
        "table": "orders",
        "type": "INSERT",
        "pkNames": ["id"],
        "data": [{"id": str(number), "n": str(n)}],
        "old": None,
        "isDdl": False,
        "es": 1_700_000_000_000,
    }
    return {"value": orjson.dumps(record), "key": str(number)}


@contextmanager
def paused(pid: int) -> Iterator[None]:
    """The process and its Java stand still, so that Spark meets what comes in one batch."""
    pids = family(pid)
    for each in pids:
        os.kill(each, signal.SIGSTOP)
    try:
        yield
    finally:
        for each in pids:
            # A Python worker can have been about to end.
            with suppress(ProcessLookupError):
                os.kill(each, signal.SIGCONT)


def test_a_newer_change_in_it_is_not_overwritten_by_an_older_one_of_the_backlog(
    shop: Shop,
) -> None:
    """More than 20 s: the backlog must outlast Spark's start and some of its batches."""
    shop.create("orders", "id INT PRIMARY KEY, n INT")
    producer = kafka_producer(
        shop.addresses.kafka, {"queue.buffering.max.messages": 2 * ROWS, "linger.ms": 50}
    )
    for number in range(2, ROWS):
        producer.produce(shop.name, partition=0, **change(shop, number, 0))
    # The last of the backlog, long after Spark has met the new partition.
    producer.produce(shop.name, partition=0, **change(shop, 1, 1))
    assert producer.flush(60) == 0
    load = with_eager_spark(shop.load("postgresql", consumer__source__maxRecordsPerBatch="100"))
    load.start()
    wait_until(lambda: "Spark reads a backlog" in load.log.read_text(), "Spark to read")
    admin = AdminClient({"bootstrap.servers": shop.addresses.kafka})
    producer = kafka_producer(shop.addresses.kafka)
    with paused(load.pid):
        admin.create_partitions([NewPartitions(shop.name, 2)])[shop.name].result(60)
        producer.produce(shop.name, partition=1, **change(shop, 1, 2))
        assert producer.flush(60) == 0
    wait_until(lambda: shop.is_applied(load), "all to be applied")
    log = load.log.read_text()
    # Otherwise the backlog was over before.
    assert log.index(f"{shop.name}[1]") < log.rindex("Spark reads a backlog")
    [rows] = shop.postgresql(f"SELECT COUNT(*), MAX(n) FROM {shop.name}.orders WHERE id = 1")
    assert rows == (1, 2)
    load.ask_to_stop()
    assert load.await_stop() == 0
