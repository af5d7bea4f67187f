"""A standalone Spark cluster, whose executors are JVMs with Python workers of their own; one of them is killed under load."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pymysql.cursors import Cursor

from cdcbus.ops.stack.addresses import Addresses
from tests.support.shop import Shop, open_shop
from tests.support.spark_cluster import Cluster, executors, open_cluster
from tests.support.two_tables import TwoTables
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


def test_lanes_are_applied_on_executors_of_which_one_is_killed(shop: Shop, cluster: Cluster) -> None:
    tables = TwoTables.make(shop)
    tables.change(1)
    spark = {"spark.master": cluster.url, "spark.executor.memory": "640m", "spark.executor.cores": "1"}
    load = shop.load("postgresql", consumer__source__maxRecordsPerBatch="100", **spark)
    load.start()
    begun = f'SELECT COUNT(*) FROM {shop.name}."orders"'
    wait_until(lambda: shop.postgresql(begun) != [(0,)], "the first rows", 360)
    os.kill(random.choice(executors(cluster.worker)), signal.SIGKILL)
    tables.change(2)
    tables.assert_arrived(load)
