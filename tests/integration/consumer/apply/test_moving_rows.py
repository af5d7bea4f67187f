"""Rows whose partition key is not in their primary key, and keys that change in case only, from
the source to both targets."""

from __future__ import annotations

import random

import pytest
from pymysql.cursors import Cursor

from cdcbus.ops.demo.measure import is_at_least
from cdcbus.ops.demo.tasks import TaskProcess
from cdcbus.plugins.positions import BinlogPosition
from tests.support.changes.shop import Shop
from tests.support.clusters.bulk_gear import with_eager_spark
from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration
PARTITIONS = 3
ROWS = 200


def change_rows(cursor: Cursor, seed: int, rounds: int) -> None:
    choose = random.Random(seed)
    for number in range(rounds):
        cursor.execute(
            "UPDATE moves SET grp = CONCAT('g', %s), v = v + 1 WHERE id %% 7 = %s",
            (choose.randrange(9), choose.randrange(7)),
        )
        cursor.execute("UPDATE users SET email = CONCAT(IF(%s, 'User', 'user'), id, REPEAT(' ', "
                       "%s)) WHERE id %% 5 = %s",
                       (choose.randrange(2), choose.randrange(2), choose.randrange(5)))  # fmt: skip
        if number % 5 == 0:
            gone = choose.randrange(ROWS)
            cursor.execute("DELETE FROM moves WHERE id = %s", (gone,))
            cursor.execute(
                "INSERT INTO moves VALUES (%s, CONCAT('g', %s), 0)", (gone, choose.randrange(9))
            )


def await_fetched(shop: Shop, fetch: TaskProcess) -> None:
    shop.cursor.execute("SHOW MASTER STATUS")
    [(file, end, *_)] = shop.cursor.fetchall()
    written = BinlogPosition(file, end)
    wait_until(
        lambda: is_at_least(BinlogPosition.from_json(shop.position(fetch) or ""), written),
        "the fetch task to read all",
    )


@pytest.mark.parametrize("on_executors", ["postgresql", "mariadb"])
def test_rows_that_move_between_partitions_are_all_there_at_the_end(
    shop: Shop, on_executors: str
) -> None:
    """A fetch task and two tasks with Spark, of which one has executors apply its batches: that
    takes half a minute."""
    shop.create("moves", "id INT PRIMARY KEY, grp VARCHAR(9), v INT")
    shop.create(
        "users", "email VARCHAR(40) PRIMARY KEY, id INT", "email VARCHAR(40) PRIMARY KEY, id INT"
    )
    fetch = shop.fetch(
        shop.addresses.source,
        **{f"loader__source__partitionKey__{shop.name.upper()}__MOVES": "GRP"},
    )
    fetch.start()
    wait_until(lambda: shop.position(fetch) is not None, "the fetch task's first position")
    shop.cursor.executemany(
        "INSERT INTO moves VALUES (%s, 'g0', 0)", [(number,) for number in range(ROWS)]
    )
    shop.cursor.executemany(
        "INSERT INTO users VALUES (%s, %s)", [(f"user{number}", number) for number in range(ROWS)]
    )
    change_rows(shop.cursor, 1, 60)
    await_fetched(shop, fetch)
    large = {"consumer__source__maxRecordsPerBatch": "100"}
    loads = []
    for target in ("postgresql", "mariadb"):
        is_on_executors = target == on_executors
        load = shop.load(target, **(large if is_on_executors else {}))
        loads.append(with_eager_spark(load) if is_on_executors else load)
    for load in loads:
        load.start()
    for load in loads:
        wait_until(lambda load=load: shop.is_applied(load), "all to be applied", 240)  # type: ignore[misc]
    change_rows(shop.cursor, 2, 20)
    await_fetched(shop, fetch)
    for load in loads:
        wait_until(lambda load=load: shop.is_applied(load), "all to be applied", 240)  # type: ignore[misc]
    for table in ("moves", "users"):
        rows = shop.rows(table)
        assert len(rows["source"]) == ROWS
        assert rows["mariadb"] == rows["source"]
        assert rows["postgresql"] == rows["source"]
