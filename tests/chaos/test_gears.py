"""A consumer task whose gear changes again and again as bursts of records come, killed at random
moments: each record is applied once.

CDCBUS_TEST_KILLS says how often; the default is what has time in every run.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pymysql.cursors import Cursor

from cdcbus.ops.demo.tasks import TaskProcess
from cdcbus.ops.stack.addresses import Addresses
from cdcbus.plugins.converters.canal_row import CanalRow
from cdcbus.plugins.rowchange import Column, Op, RowChange, Table, TableId
from tests.support.changes.shop import Shop, open_shop
from tests.support.topics.kafka_producer import kafka_producer
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.integration, pytest.mark.chaos]

KILLS = int(os.environ.get("CDCBUS_TEST_KILLS", "2"))
BURSTS = (1, 3, 30, 300, 1500)  # of which the last two are a backlog
COLUMNS = (Column("id", "int"), Column("v", "int"))
KEYS = 200
PATIENCE_SECONDS = 400.0


@pytest.fixture
def shop(
    name: str,
    stack: Addresses,
    source_cursor: Cursor,
    make_topic: Callable[..., str],
    tmp_path: Path,
) -> Iterator[Shop]:
    make_topic(name, 2)
    with open_shop(name, stack, source_cursor, tmp_path) as shop:
        shop.create("t", "id INT PRIMARY KEY, v INT")
        shop.create("log", "id INT, v INT")
        yield shop


class Bursts:
    """Changes of rows with keys, and rows without one, which have all numbers once."""

    def __init__(self, shop: Shop, choose: random.Random) -> None:
        self._topic, self._choose = shop.name, choose
        self._producer = kafka_producer(shop.addresses.kafka)
        self._tables = {
            name: Table(TableId(shop.name, name), COLUMNS, keys)
            for name, keys in (("t", ("id",)), ("log", ()))
        }
        self.rows: dict[int, int] = {}
        self.logged = 0

    def put(self, count: int) -> None:
        for _ in range(count):
            if self._choose.random() < 0.3:
                self.logged += 1
                row = {"id": str(self.logged), "v": "0"}
                self._send(RowChange(self._tables["log"], Op.INSERT, None, row), self.logged)
            else:
                self._change(self._choose.randrange(KEYS))
        assert self._producer.flush(60) == 0

    def _change(self, key: int) -> None:
        before = self.rows.pop(key, None)
        old = None if before is None else {"id": str(key), "v": str(before)}
        if old and self._choose.random() < 0.3:
            self._send(RowChange(self._tables["t"], Op.DELETE, old, None), key)
            return
        self.rows[key] = self._choose.randrange(10**6)
        new = {"id": str(key), "v": str(self.rows[key])}
        op = Op.UPDATE if old else Op.INSERT
        self._send(RowChange(self._tables["t"], op, old, new), key)

    def _send(self, change: RowChange, key: int) -> None:
        value = CanalRow().to_bytes(change)
        self._producer.produce(self._topic, value, b"%d" % key, partition=key % 2)
        self._producer.poll(0)


@pytest.mark.parametrize("target", ["postgresql", "mariadb"])
def test_each_record_is_applied_once_while_gears_change_and_the_task_is_killed(
    shop: Shop, target: str
) -> None:
    """More than 20 s: three starts, and gears that change for bursts of rows."""
    seed = int(os.environ.get("CDCBUS_TEST_SEED", time.time_ns() % 2**32))
    print(f"CDCBUS_TEST_SEED={seed}")
    choose = random.Random(seed)
    load = shop.load(target, consumer__source__maxRecordsPerBatch="30")
    bursts = Bursts(shop, choose)
    kills = [True] * KILLS + [False] * (6 + KILLS)
    choose.shuffle(kills)
    load.start()
    for is_killed in kills:
        bursts.put(choose.choice(BURSTS))
        if is_killed:
            _wait_to_get_on(shop, load)
            time.sleep(choose.uniform(0, 2))  # the random moment itself
            load.kill()
            load.start()
        elif choose.random() < 0.7:
            _wait(load, lambda: shop.is_applied(load), "apply everything")

    def has_been_in_both_gears() -> bool:
        # While Spark starts the tail goes on, and may be through before it is up.
        if shop.is_applied(load):
            bursts.put(BURSTS[-1])
        return "Spark leaves off" in load.log.read_text()

    _wait(load, has_been_in_both_gears, "have Spark read a backlog")
    bursts.put(BURSTS[0])
    _wait(load, lambda: shop.is_applied(load), "apply everything")
    assert shop.rows("t")[target] == sorted(bursts.rows.items())
    assert shop.rows("log")[target] == [(number, 0) for number in range(1, bursts.logged + 1)]
    load.ask_to_stop()
    assert load.await_stop() == 0


def _wait_to_get_on(shop: Shop, task: TaskProcess) -> None:
    before = shop.position(task)
    _wait(task, lambda: shop.position(task) != before or shop.is_applied(task), "get on")


def _wait(task: TaskProcess, holds: Callable[[], bool], what: str) -> None:
    def is_there() -> bool:
        task.check()
        return holds()

    wait_until(is_there, f"the consumer task to {what}: {task.log}", PATIENCE_SECONDS)
