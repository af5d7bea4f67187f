"""A consumer task under load; its process, Python workers, database, Kafka and ZooKeeper are killed
at random moments: the copy is equal in the end.

CDCBUS_TEST_KILLS says how often each; the default is what has time in every run: there Kafka and
ZooKeeper, which know nothing of the target, are killed once each, beside one target or the other.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pymysql
import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from pymysql.cursors import Cursor
from rich.console import Console

from cdcbus.ops.demo.measure import is_at_least
from cdcbus.ops.stack.addresses import Database
from cdcbus.ops.stack.stack import kill, up
from cdcbus.plugins.mysql.connection import MysqlConnection
from cdcbus.plugins.positions import BinlogPosition
from tests.support.changes.entangled_load import (
    TABLES,
    EntangledLoad,
    create_tables,
    fetch_keys,
    scratch_topic,
)
from tests.support.changes.shop import Shop, open_shop
from tests.support.clusters.bulk_gear import with_eager_spark
from tests.support.clusters.python_workers import python_workers
from tests.support.topics.new_topics import create_topics
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.integration, pytest.mark.chaos]

KILLS = int(os.environ.get("CDCBUS_TEST_KILLS", "0"))
BESIDE = {"postgresql": "kafka", "mariadb": "zookeeper"}
MOST_SECONDS_BEFORE_A_KILL = 2.0
ROUNDS_PER_KILL = 50  # of the load: ten seconds of changes
PATIENCE_SECONDS = 400.0
QUIET = Console(quiet=True)


def connect(source: Database, schema: str | None = None) -> pymysql.Connection[Cursor]:
    return MysqlConnection(
        host=source.host,
        port=source.port,
        user=source.user,
        password=source.password,
        database=schema,
        autocommit=True,
    )


@pytest.fixture
def shop(killable_home: Path, name: str, tmp_path: Path) -> Iterator[Shop]:
    addresses = up(killable_home, QUIET)
    admin = AdminClient({"bootstrap.servers": addresses.kafka})
    create_topics(admin, NewTopic(name, 2, 1), NewTopic(scratch_topic(name), 1, 1))
    with connect(addresses.source) as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {name}")
        cursor.execute(f"USE {name}")
        with open_shop(name, addresses, cursor, tmp_path) as shop:
            yield shop
        cursor.execute(f"DROP DATABASE {name}")


@pytest.mark.parametrize("target", ["postgresql", "mariadb"])
def test_source_and_target_are_equal_after_task_and_servers_were_killed(
    shop: Shop, killable_home: Path, target: str
) -> None:
    """More than 20 s: Spark starts twice, and servers again."""
    seed = int(os.environ.get("CDCBUS_TEST_SEED", time.time_ns() % 2**32))
    print(f"CDCBUS_TEST_SEED={seed}")
    choose = random.Random(seed)
    create_tables(shop)
    topics = (shop.name, scratch_topic(shop.name))
    # A fetch task that loses ZooKeeper for too long starts anew: only in transactions it then
    # repeats no row, and one table has no key.
    fetch = shop.fetch(
        shop.addresses.source, loader__source__transaction="true", **fetch_keys(shop.name)
    )
    fetch.start()
    wait_until(
        lambda: shop.position(fetch) is not None,
        "the fetch task's first position",
        PATIENCE_SECONDS,
    )
    load = with_eager_spark(
        shop.load(
            target,
            consumer__source__topics=",".join(topics),
            consumer__source__maxRecordsPerBatch="50",
            spark__master="local[2]",
        )
    )
    load.start()

    def kill_process() -> None:
        load.kill()
        load.start()

    def kill_worker() -> None:
        wait_until(lambda: len(python_workers(load.pid)) > 0, "a Python worker", PATIENCE_SECONDS)
        for pid in python_workers(load.pid)[-1:]:
            os.kill(pid, signal.SIGKILL)

    def kill_server(name: str) -> None:
        kill(killable_home, name)
        up(killable_home, QUIET)

    def await_from_load(holds: Callable[[], bool], what: str) -> None:
        """Of a task that has not ended by itself."""

        def is_there() -> bool:
            load.check()
            return holds()

        wait_until(is_there, f"the consumer task to {what}: {load.log}", PATIENCE_SECONDS)

    servers = (target, *(BESIDE.values() if KILLS else (BESIDE[target],)))
    kill_servers = [partial(kill_server, name) for name in servers]
    victims: list[Callable[[], None]] = [kill_process, kill_worker, *kill_servers] * max(KILLS, 1)
    choose.shuffle(victims)
    changes = EntangledLoad(shop.addresses.source, shop.name, seed)
    changes.start()
    for victim in victims:
        changes.grant(ROUNDS_PER_KILL)
        before = shop.position(load)
        await_from_load(lambda: shop.position(load) != before, "get on")
        time.sleep(choose.uniform(0, MOST_SECONDS_BEFORE_A_KILL))  # the random moment itself
        load.check()
        victim()
    changes.grant(ROUNDS_PER_KILL)
    changes.done.set()
    changes.join()
    shop.cursor.execute("SHOW MASTER STATUS")
    [(file, end, *_)] = shop.cursor.fetchall()
    written = BinlogPosition(file, end)
    wait_until(
        lambda: is_at_least(BinlogPosition.from_json(shop.position(fetch) or ""), written),
        "the fetch task to read all",
        PATIENCE_SECONDS,
    )
    for topic in topics:
        await_from_load(lambda: shop.is_applied(load, topic), "apply everything")
    load.check()
    rows = {table: shop.rows(table) for table in TABLES}
    assert {table: found[target] for table, found in rows.items()} == {
        table: found["source"] for table, found in rows.items()
    }
    assert min(len(rows[table]["source"]) for table in ("orders", "log")) > 100
    assert all(rows[table]["source"] for table in TABLES)
