"""`cdcbus snapshot run --direct`, and the task that follows it."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pymysql
import pytest
from pymysql.cursors import Cursor

from cdcbus.ops.demo.tasks import TaskProcess
from cdcbus.ops.stack.addresses import Addresses
from tests.integration.tasks.verify.verifying import verify
from tests.support.shop import Shop, open_shop
from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration
ROWS = 3_000
ORDERS = "id INT PRIMARY KEY, customer INT NOT NULL, note VARCHAR(100), amount DECIMAL(10,2)"


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
        yield shop


@dataclass
class Answer:
    code: int
    found: dict[str, Any]
    told: str


def words(shop: Shop, load: TaskProcess, fetch: TaskProcess, *options: str) -> list[str]:
    start = [sys.executable, "-m", "cdcbus", "snapshot", "run", str(load.file), "--direct"]
    return [*start, "--source", str(fetch.file), "--json", *options]


def run(shop: Shop, load: TaskProcess, fetch: TaskProcess, *options: str) -> Answer:
    done = subprocess.run(
        words(shop, load, fetch, *options), env=load.environment, capture_output=True, text=True
    )
    found = json.loads(done.stdout) if done.stdout else {}
    return Answer(done.returncode, found, done.stdout + done.stderr)


def fill(shop: Shop, rows: int = ROWS) -> None:
    shop.create("orders", ORDERS)
    shop.cursor.executemany(
        "INSERT INTO orders VALUES (%s, %s, %s, %s)",
        [(number, number % 7, f"note ü {number}", number / 4) for number in range(rows)],
    )


def alive(*processes: TaskProcess) -> bool:
    """Raises what one says that has ended."""
    for process in processes:
        process.check()
    return True


def followed(shop: Shop) -> TaskProcess:
    """The fetch task, once it has a position: what was written before is in no record."""
    fetch = shop.fetch(shop.addresses.source)
    fetch.start()
    wait_until(lambda: alive(fetch) and shop.position(fetch) is not None, "a position")
    return fetch


@contextmanager
def writing(shop: Shop) -> Iterator[None]:
    """Changes all the time, those of keys and deletes among them."""
    source, is_over = shop.addresses.source, threading.Event()

    def write() -> None:
        choose = random.Random(7)
        with (
            pymysql.connect(
                host=source.host,
                port=source.port,
                user=source.user,
                password=source.password,
                database=shop.name,
                autocommit=True,
            ) as connection,
            connection.cursor() as cursor,
        ):
            number = 0
            while not is_over.wait(0.002):
                number += 1
                row = choose.randrange(ROWS)
                cursor.execute("UPDATE orders SET amount = amount + 1 WHERE id = %s", (row,))
                cursor.execute("INSERT INTO orders VALUES (%s, 1, 'new', 0)", (10**6 + number,))
                cursor.execute("DELETE FROM orders WHERE id = %s", (choose.randrange(ROWS),))
                cursor.execute(
                    "UPDATE IGNORE orders SET id = %s WHERE id = %s",
                    (-number, choose.randrange(ROWS)),
                )

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def becomes_equal(shop: Shop, load: TaskProcess, fetch: TaskProcess, target: str) -> None:
    """Nobody writes any more."""

    def is_equal() -> bool:
        rows = shop.rows("orders")
        return alive(load, fetch) and rows[target] == rows["source"]

    wait_until(is_equal, "the target to be equal")
    proof = verify(shop, target)
    assert proof.code == 0, proof.output


@pytest.mark.parametrize("target", ["postgresql", "mariadb"])
def test_a_copy_and_the_task_after_it_give_what_the_source_has_while_writes_go_on(
    shop: Shop, target: str
) -> None:
    fill(shop)
    fetch = followed(shop)
    load = shop.load(target)
    with writing(shop):
        answer = run(shop, load, fetch)
        assert answer.code == 0, answer.told
        [table] = answer.found["tables"]
        assert (table["table"], table["state"]) == ("orders", "done")
        assert table["rows"] > ROWS / 2
        load.start()
        before = shop.ends()
        wait_until(lambda: alive(load, fetch) and shop.ends() != before, "changes in Kafka")
    becomes_equal(shop, load, fetch, target)
