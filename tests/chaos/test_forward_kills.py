"""SIGKILL at random moments to a task from Kafka to Kafka: a reader of committed records sees
each change exactly once, in order."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cdcbus.ops.demo.tasks import TaskProcess
from tests.support.clusters.bulk_gear import with_eager_spark
from tests.support.topics.forward import Forward, open_forward
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.integration, pytest.mark.chaos]

KILLS = 4
MOST_SECONDS_BEFORE_A_KILL = 1.0
KILLED_AS_THEY_START = 0.2  # the others once they have sent something
RECORDS = 20_000
PATIENCE_SECONDS = 400


@pytest.fixture
def forward(
    name: str, kafka: str, zookeeper: str, make_topic: Callable[..., str], tmp_path: Path
) -> Iterator[Forward]:
    make_topic(name, 2)
    make_topic(f"{name}-out", 3)
    with open_forward(name, kafka, zookeeper, tmp_path) as forward:
        yield forward


def test_each_change_is_committed_exactly_once_through_four_kills(forward: Forward) -> None:
    """More than 20 s: Spark starts five times."""
    seed = int(os.environ.get("CDCBUS_TEST_SEED", time.time_ns() % 2**32))
    print(f"CDCBUS_TEST_SEED={seed}")
    choose = random.Random(seed)
    forward.put(range(RECORDS), partitions=2)
    keys = {
        "loader__source__oggJson": "false",
        "loader__source__transaction": "true",
        "loader__source__partitionKey__SHOP__ORDERS": "CUSTOMER",
    }
    task = with_eager_spark(forward.task(consumer__source__maxRecordsPerBatch="100", **keys))
    for _ in range(KILLS):
        starts, before = count_starts(task), position(forward)
        task.start()
        wait_until(
            lambda: count_starts(task) > starts, f"the task to begin: {task.log}", PATIENCE_SECONDS
        )
        if choose.random() > KILLED_AS_THEY_START:
            wait_until(
                lambda: position(forward) != before,
                f"the task to send something: {task.log}",
                PATIENCE_SECONDS,
            )
        time.sleep(choose.uniform(0, MOST_SECONDS_BEFORE_A_KILL))  # the random moment itself
        task.check()
        task.kill()
    task = forward.task(**keys)
    task.start()
    wait_until(
        lambda: forward.is_at_end(task), f"the task to reach the end: {task.log}", PATIENCE_SECONDS
    )
    wait_until(lambda: len(forward.sent()) >= RECORDS, "what was committed to be visible")
    task.ask_to_stop()
    assert task.await_stop() == 0
    found = [(key, int(value["data"][0]["id"])) for _, key, value in forward.sent()]
    assert sorted(number for _, number in found) == [*range(RECORDS)]
    for customer in range(10):
        own = [number for key, number in found if key == f"c{customer}_".encode()]
        assert own == [*range(customer, RECORDS, 10)]


def count_starts(task: TaskProcess) -> int:
    """How often it has begun to read."""
    if not task.log.exists():
        return 0
    return task.log.read_text(errors="replace").count(f"task {task.task_id} reads ")


def position(forward: Forward) -> bytes:
    """As it is stored."""
    if not forward.zookeeper.exists(forward.path):
        return b""
    return bytes(forward.zookeeper.get(forward.path)[0])
