"""SIGKILL at random moments, again and again: a reader of committed records sees each row change
exactly once, in order.

CDCBUS_TEST_KILLS says how often, three times that; the default is what has time in every run.
"""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
from pymysql.cursors import Cursor

from cdcbus.ops.demo.tasks import TaskProcess
from cdcbus.ops.stack.addresses import Addresses, Database
from cdcbus.plugins.mysql.connection import MysqlConnection
from cdcbus.plugins.positions import BinlogPosition
from cdcbus.producer.server.connection import latest_position
from tests.support.changes.shop import Shop, open_shop
from tests.support.topics.committed import committed_canal
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.integration, pytest.mark.chaos]

KILLS = 3 * int(os.environ.get("CDCBUS_TEST_KILLS", "5"))
MOST_SECONDS_BEFORE_A_KILL = 1.0
KILLED_AS_THEY_START = KILLS // 5  # the others once they read
LARGE_ROWS = 10_000  # more than is read at once: such a transaction is sent in pieces
SCHEMA = (
    "CREATE TABLE keyed (id INT PRIMARY KEY, v INT)",
    "CREATE TABLE keyless (id INT, v INT, pad VARCHAR(40))",
)
Change = tuple[str, str, int, int]
"""Table, operation, id and v of the row."""


class Load:
    """Transactions on two tables, one of them without a key and with equal rows, and what must
    come of them."""

    def __init__(self, cursor: Cursor, seed: int) -> None:
        self._cursor, self._choose = cursor, random.Random(seed)
        self._stop = Event()
        self._thread = Thread(target=self._run, daemon=True)
        self._number = 0
        self.expected: Counter[Change] = Counter()

    @contextmanager
    def running(self) -> Iterator[None]:
        self._thread.start()
        try:
            yield
        finally:
            self._stop.set()
            self._thread.join(60)

    def check(self) -> None:
        assert self._thread.is_alive(), "the load has died"

    def _run(self) -> None:
        while not self._stop.wait(self._choose.uniform(0, 0.02)):
            self._number += 1
            self._transaction(self._number)

    def _transaction(self, n: int) -> None:
        self._cursor.execute("BEGIN")
        self._do(f"INSERT INTO keyed VALUES ({n}, {n})", ("keyed", "INSERT", n, n))
        self._do(
            f"INSERT INTO keyless VALUES ({n}, 0, ''), ({n}, 0, '')",
            *[("keyless", "INSERT", n, 0)] * 2,
        )
        if n % 3 == 0:
            self._do(f"UPDATE keyed SET v = {-n} WHERE id = {n}", ("keyed", "UPDATE", n, -n))
            self._do(f"UPDATE keyless SET v = 1 WHERE id = {n}", *[("keyless", "UPDATE", n, 1)] * 2)
        if n % 5 == 0:  # a changed key is a delete and an insert
            self._do(
                f"UPDATE keyed SET id = {-n} WHERE id = {n - 1}",
                self._deleted(n - 1),
                ("keyed", "INSERT", -n, self._v(n - 1)),
            )
        if n % 7 == 0:
            self._do(
                f"DELETE FROM keyless WHERE id = {n} LIMIT 1",
                ("keyless", "DELETE", n, 1 if n % 3 == 0 else 0),
            )
        if n % 100 == 0:
            rows = f"SELECT -{n}, seq, REPEAT('x', 40) FROM seq_1_to_{LARGE_ROWS}"
            self._do(
                f"INSERT INTO keyless {rows}",
                *(("keyless", "INSERT", -n, seq) for seq in range(1, LARGE_ROWS + 1)),
            )
        self._cursor.execute("COMMIT")

    def _do(self, statement: str, *changes: Change) -> None:
        self._cursor.execute(statement)
        self.expected.update(changes)

    def _v(self, n: int) -> int:
        return -n if n % 3 == 0 else n

    def _deleted(self, n: int) -> Change:
        return ("keyed", "DELETE", n, self._v(n))


@pytest.fixture
def shop(name: str, stack: Addresses, source_cursor: Cursor, tmp_path: Path) -> Iterator[Shop]:
    with open_shop(name, stack, source_cursor, tmp_path) as shop:
        yield shop


def test_each_row_change_is_committed_exactly_once_through_all_kills(
    shop: Shop, source: Database, make_topic: Any
) -> None:
    """More than 20 s, as each kill needs a process that has come to work."""
    seed = int(os.environ.get("CDCBUS_TEST_SEED", time.time_ns() % 2**32))
    print(f"CDCBUS_TEST_SEED={seed}")
    choose = random.Random(seed)
    make_topic(shop.name, 3)
    for statement in SCHEMA:
        shop.cursor.execute(statement)
    task = shop.fetch(source, loader__source__transaction="true")
    start = latest_position(shop.cursor.connection)
    shop.zookeeper.create(shop.path(task), start.to_json().encode(), makepath=True)
    as_they_start = [True] * KILLED_AS_THEY_START + [False] * (KILLS - KILLED_AS_THEY_START)
    choose.shuffle(as_they_start)
    with connected(source, shop.name) as cursor:
        load = Load(cursor, seed)
        with load.running():
            for is_early in as_they_start:
                load.check()
                starts = count_starts(task)
                task.start()
                if not is_early:
                    wait_until(
                        lambda: count_starts(task) > starts,
                        f"the task to read the binlog: {task.log}",
                    )
                # the random moment itself
                time.sleep(choose.uniform(0, MOST_SECONDS_BEFORE_A_KILL))
                task.check()
                task.kill()
        assert count_starts(task) > KILLS / 2
        end = latest_position(shop.cursor.connection)
    task.start()
    wait_until(lambda: is_stored(shop, task, end), "the fetch task to reach the end of the binlog")
    task.ask_to_stop()
    assert task.await_stop() == 0
    records = committed_canal(shop.addresses.kafka, shop.name)
    found = Counter(change_of(record) for record in records)
    assert found - load.expected == Counter()
    assert load.expected - found == Counter()
    assert found.total() > 10_000
    keyless = [place_of(record) for record in records if record["table"] == "keyless"]
    assert keyless == sorted(keyless)


def count_starts(task: TaskProcess) -> int:
    """How often it has begun to read."""
    if not task.log.exists():
        return 0
    return task.log.read_text(errors="replace").count("reads the binlog from")


@contextmanager
def connected(source: Database, schema: str) -> Iterator[Cursor]:
    connection = MysqlConnection(
        host=source.host,
        port=source.port,
        user=source.user,
        password=source.password,
        database=schema,
    )
    with connection, connection.cursor() as cursor:
        yield cursor


def is_stored(shop: Shop, task: TaskProcess, end: BinlogPosition) -> bool:
    task.check()
    stored = BinlogPosition.from_json(shop.position(task) or "")
    return (stored.file, stored.pos) >= (end.file, end.pos)


def change_of(record: dict[str, Any]) -> Change:
    (row,) = record["data"]
    return record["table"], record["type"], int(row["id"]), int(row["v"])


def place_of(record: dict[str, Any]) -> tuple[str, int, int]:
    return record["file"], record["pos"], record["row"]
