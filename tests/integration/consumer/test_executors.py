"""A standalone Spark cluster, whose executors are JVMs with Python workers of their own; one of them is killed under load."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pymysql.cursors import Cursor

from cdcbus.ops.demo.measure import is_at_least
from cdcbus.ops.demo.tasks import TaskProcess
from cdcbus.ops.stack.addresses import Addresses
from cdcbus.plugins.position import BinlogPosition
from tests.support.shop import Shop, open_shop
from tests.support.spark_cluster import Cluster, executors, open_cluster
from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration


@pytest.fixture
def shop(name: str, stack: Addresses, source_cursor: Cursor, make_topic: Callable[..., str], tmp_path: Path) -> Iterator[Shop]:
    make_topic(name, 2)
    with open_shop(name, stack, source_cursor, tmp_path) as shop:
        yield shop


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with open_cluster(tmp_path / "cluster") as cluster:
        yield cluster


def change_rows(cursor: Cursor, seed: int) -> None:
    """Rows with a key, and rows that are equal to each other and have none."""
    choose = random.Random(seed)
    for number in range(60):
        cells = [(choose.randrange(5), choose.choice("abA")) for _ in range(20)]
        cursor.executemany("INSERT INTO log VALUES (%s, %s)", cells)
        cursor.execute("DELETE FROM log WHERE level = %s LIMIT 4", (choose.randrange(5),))
        orders = [(seed * 10_000 + number * 10 + row, f"n{number}") for row in range(10)]
        cursor.executemany("INSERT INTO orders VALUES (%s, %s)", orders)
        cursor.execute("UPDATE orders SET name = 'x' WHERE id %% 7 = %s", (choose.randrange(7),))


def await_read(shop: Shop, fetch: TaskProcess) -> None:
    shop.cursor.execute("SHOW MASTER STATUS")
    [(file, end, *_)] = shop.cursor.fetchall()
    written = BinlogPosition(file, end)
    wait_until(lambda: is_at_least(BinlogPosition.from_json(shop.position(fetch) or ""), written), "the fetch task to read all", 240)


def test_lanes_are_applied_on_executors_of_which_one_is_killed(shop: Shop, cluster: Cluster) -> None:
    shop.create("orders", "id INT PRIMARY KEY, name VARCHAR(40)")
    shop.create("log", "level INT, word VARCHAR(9)")
    fetch = shop.fetch(shop.addresses.source)
    fetch.start()
    wait_until(lambda: shop.position(fetch) is not None, "the fetch task's first position", 120)
    change_rows(shop.cursor, 1)
    await_read(shop, fetch)
    spark = {"spark.master": cluster.url, "spark.executor.memory": "640m", "spark.executor.cores": "1"}
    load = shop.load("postgresql", consumer__source__maxRecordsPerBatch="100", **spark)
    load.start()
    begun = f'SELECT COUNT(*) FROM {shop.name}."orders"'
    wait_until(lambda: shop.postgresql(begun) != [(0,)], "the first rows", 360)
    os.kill(random.choice(executors(cluster.worker)), signal.SIGKILL)
    change_rows(shop.cursor, 2)
    await_read(shop, fetch)
    wait_until(lambda: shop.is_applied(load), "the consumer task to apply everything", 360)
    for table in ("orders", "log"):
        rows = shop.rows(table)
        assert len(rows["source"]) > 500
        assert rows["postgresql"] == rows["source"]
    assert "Traceback" not in load.log.read_text()
