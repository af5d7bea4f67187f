"""A standalone Spark cluster, whose executors are JVMs with Python workers of their own; one is
killed under load."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest

from tests.support.changes.two_tables import TwoTables
from tests.support.clusters.bulk_gear import with_eager_spark
from tests.support.clusters.spark_cluster import SHORT_LIVED, Cluster, executors, open_cluster
from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with open_cluster(tmp_path / "cluster") as cluster:
        yield cluster


def test_partitions_wait_for_executors_and_are_applied_on_them_though_one_is_killed(
    tables: TwoTables, cluster: Cluster
) -> None:
    """More than 20 s: a cluster, its executors and Spark start, and a task waits for half a minute
    before it says so."""
    tables.change(1)
    shop = tables.shop
    # one of the task's own comes beside those that it cannot do without
    [jar] = Path(pyspark.__file__).parent.glob("jars/py4j-*.jar")
    spark = {
        "spark.jars": str(jar),
        "spark.master": cluster.url,
        "spark.executor.memory": "640m",
        "spark.executor.extraJavaOptions": " ".join(SHORT_LIVED),
        "spark.executor.cores": "1",
    }
    load = with_eager_spark(
        shop.load("postgresql", consumer__source__maxRecordsPerBatch="100", **spark)
    )
    load.start()
    waits = (
        f"task {load.task_id} waits for executors: spark.master={cluster.url} has given "
        "application app-"
    )
    wait_until(lambda: waits in load.log.read_text(), "the warning")
    worker = cluster.add_worker("2g")
    wait_until(
        lambda: f"task {load.task_id}: executors are available again" in load.log.read_text(),
        "the end of it",
    )
    begun = f'SELECT COUNT(*) FROM {shop.name}."orders"'
    wait_until(lambda: shop.postgresql(begun) != [(0,)], "the first rows", 360)
    os.kill(random.choice(executors(worker)), signal.SIGKILL)
    tables.change(2)
    tables.assert_arrived(load)
