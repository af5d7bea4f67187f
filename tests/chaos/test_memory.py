"""One transaction of two million rows, and a broker that takes none of them: the fetch task
needs no more memory than at any other time."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import pytest
from pymysql.cursors import Cursor

from cdcbus.ops.demo.measure import is_at_least
from cdcbus.ops.demo.tasks import TaskProcess
from cdcbus.ops.stack import processes
from cdcbus.plugins.positions import BinlogPosition
from tests.integration.producer.reading import position
from tests.support.changes.shop import Shop
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.integration, pytest.mark.chaos]

ROWS = 2_000_000
MOST_MEGABYTES = 300
SECONDS = 400.0


def memory_megabytes(task: TaskProcess, field: str) -> float:
    """VmHWM: the most that it ever had; VmRSS: what it has now."""
    status = Path(f"/proc/{task.pid}/status").read_text()
    found = re.search(rf"{field}:\s+(\d+) kB", status)
    assert found
    return int(found[1]) / 1024


def records(shop: Shop) -> int:
    return sum(shop.ends().values())


def started(shop: Shop) -> TaskProcess:
    """Reading behind the CREATE of `numbers`, which is filled in one transaction then."""
    shop.cursor.execute("CREATE TABLE numbers (n INT PRIMARY KEY)")
    task = shop.fetch(shop.addresses.source)
    task.start()
    wait_until(lambda: shop.position(task) is not None, "the task's first position")
    shop.cursor.execute("SET SESSION max_recursive_iterations = 4294967295")
    fill = (
        "INSERT INTO numbers WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n "
        f"WHERE n < {ROWS}) SELECT n FROM n"
    )
    shop.cursor.execute(fill)
    return task


def await_all(shop: Shop, task: TaskProcess) -> None:
    """Kafka has each row once, and the position is behind the transaction."""
    end = position(shop.cursor)
    wait_until(
        lambda: is_at_least(BinlogPosition.from_json(shop.position(task) or ""), end),
        "the task to read everything",
        SECONDS,
    )
    assert records(shop) == ROWS


def test_a_transaction_of_two_million_rows_streams_through(shop: Shop) -> None:
    task = started(shop)
    await_all(shop, task)
    assert memory_megabytes(task, "VmHWM") < MOST_MEGABYTES


def test_a_broker_that_hangs_makes_the_task_stop_reading_not_grow(
    shop: Shop, stack_home: Path
) -> None:
    broker = processes.pid(stack_home / "kafka")
    assert broker is not None
    task = started(shop)
    wait_until(lambda: records(shop) > 0, "the first rows")
    os.kill(broker, signal.SIGSTOP)
    try:
        states: list[bool] = []
        wait_until(lambda: is_blocked(shop.cursor, states), "the task to stop reading")
    finally:
        os.kill(broker, signal.SIGCONT)
    await_all(shop, task)
    assert memory_megabytes(task, "VmHWM") < MOST_MEGABYTES


def is_blocked(cursor: Cursor, states: list[bool]) -> bool:
    """Whether the source has waited, for twenty looks in a row, for the reader to take what it
    sends."""
    cursor.execute(
        "SELECT COUNT(*) FROM information_schema.processlist WHERE command LIKE 'Binlog Dump%' "
        "AND state = 'Writing to net'"
    )
    ((count,),) = cursor.fetchall()
    states.append(count > 0)
    return len(states) > 20 and all(states[-20:])
