"""A consumer task under load, whose process, Python workers and database are killed at random moments: the copy is equal in the end.

CDCBUS_TEST_KILLS says how often each; the default is what has time in every run.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event, Thread

import pymysql
import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from pymysql.cursors import Cursor
from rich.console import Console

from cdcbus.ops.demo.measure import is_at_least
from cdcbus.ops.stack.addresses import Database
from cdcbus.ops.stack.stack import kill, up
from cdcbus.plugins.position import BinlogPosition
from tests.support.python_workers import python_workers
from tests.support.shop import Shop, open_shop
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.integration, pytest.mark.chaos]

KILLS = int(os.environ.get("CDCBUS_TEST_KILLS", "1"))
MOST_SECONDS_BEFORE_A_KILL = 2.0
PATIENCE_SECONDS = 400.0
QUIET = Console(quiet=True)


def connect(source: Database, schema: str | None = None) -> pymysql.Connection[Cursor]:
    return pymysql.connect(host=source.host, port=source.port, user=source.user, password=source.password, database=schema, autocommit=True)


class Load(Thread):
    """Rows with a key come, change and go, and so do rows that are equal to each other and have none, in a few hundred statements a second
    at most; every now and then thousands at once."""

    def __init__(self, source: Database, schema: str, seed: int) -> None:
        super().__init__(daemon=True)
        self._source, self._schema, self._choose, self.done = source, schema, random.Random(seed), Event()

    def run(self) -> None:
        with connect(self._source, self._schema) as connection, connection.cursor() as cursor:
            number = 0
            while not self.done.is_set():
                count = 3000 if number % 100 == 0 else 10
                rows = [(number * 10_000 + row, self._choose.choice("abc")) for row in range(count)]
                cursor.executemany("INSERT INTO orders VALUES (%s, %s)", rows)
                cursor.execute("UPDATE orders SET name = CONCAT(name, 'x') WHERE id %% 97 = %s", (self._choose.randrange(97),))
                cursor.execute("DELETE FROM orders WHERE id %% 89 = %s", (self._choose.randrange(89),))
                cursor.executemany("INSERT INTO log VALUES (%s, %s)", [(self._choose.randrange(5), "a") for _ in range(10)])
                cursor.execute("UPDATE log SET level = level + 5 WHERE level < 5 LIMIT 6")
                cursor.execute("DELETE FROM log WHERE level >= %s LIMIT 4", (self._choose.randrange(10),))
                number += 1
                time.sleep(0.05)


@pytest.fixture
def shop(killable_home: Path, name: str, tmp_path: Path) -> Iterator[Shop]:
    addresses = up(killable_home, QUIET)
    admin = AdminClient({"bootstrap.servers": addresses.kafka})
    admin.create_topics([NewTopic(name, 2, 1)])[name].result(60)
    with connect(addresses.source) as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {name}")
        cursor.execute(f"USE {name}")
        with open_shop(name, addresses, cursor, tmp_path) as shop:
            yield shop
        cursor.execute(f"DROP DATABASE {name}")


def test_source_and_target_are_equal_after_process_worker_and_database_were_killed(shop: Shop, killable_home: Path) -> None:
    seed = int(os.environ.get("CDCBUS_TEST_SEED", time.time_ns() % 2**32))
    print(f"CDCBUS_TEST_SEED={seed}")  # noqa: T201, shown by pytest when the test fails
    choose = random.Random(seed)
    shop.create("orders", "id INT PRIMARY KEY, name VARCHAR(40)")
    shop.create("log", "level INT, word VARCHAR(9)")
    fetch = shop.fetch(shop.addresses.source)
    fetch.start()
    wait_until(lambda: shop.position(fetch) is not None, "the fetch task's first position", PATIENCE_SECONDS)
    load = shop.load("postgresql", consumer__source__maxRecordsPerBatch="200", spark__master="local[2]")
    load.start()

    def kill_process() -> None:
        load.kill()
        load.start()

    def kill_worker() -> None:
        wait_until(lambda: len(python_workers(load.pid)) > 0, "a Python worker", PATIENCE_SECONDS)
        for pid in python_workers(load.pid)[-1:]:
            os.kill(pid, signal.SIGKILL)

    def kill_database() -> None:
        kill(killable_home, "postgresql")
        up(killable_home, QUIET)

    victims: list[Callable[[], None]] = [kill_process, kill_worker, kill_database] * KILLS
    choose.shuffle(victims)
    changes = Load(shop.addresses.source, shop.name, seed)
    changes.start()
    for victim in victims:
        before = shop.position(load)
        wait_until(lambda: shop.position(load) != before, f"the consumer task to get on: {load.log}", PATIENCE_SECONDS)  # noqa: B023
        time.sleep(choose.uniform(0, MOST_SECONDS_BEFORE_A_KILL))  # the random moment itself
        load.check()
        victim()
    changes.done.set()
    changes.join()
    shop.cursor.execute("SHOW MASTER STATUS")
    [(file, end, *_)] = shop.cursor.fetchall()
    written = BinlogPosition(file, end)
    wait_until(
        lambda: is_at_least(BinlogPosition.from_json(shop.position(fetch) or ""), written), "the fetch task to read all", PATIENCE_SECONDS
    )
    wait_until(lambda: shop.is_applied(load), f"the consumer task to apply everything: {load.log}", PATIENCE_SECONDS)
    load.check()
    for table in ("orders", "log"):
        rows = shop.rows(table)
        assert len(rows["source"]) > 100
        assert rows["postgresql"] == rows["source"]
