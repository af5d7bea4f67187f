"""What a fetch task may send beside whole rows of its tables, the whole way to a target: partial
row images, heartbeats."""

from __future__ import annotations

import re

import pytest

from tests.integration.consumer.test_run import start_fetch, wait_applied
from tests.support.changes.shop import Shop
from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration
PARTITIONS = 3

MYSQL = "id INT PRIMARY KEY, name VARCHAR(40), n INT NOT NULL DEFAULT 7, body TEXT"


@pytest.mark.parametrize("ogg", ["false", "true"])
def test_rows_logged_in_part_are_folded_by_column(shop: Shop, ogg: str) -> None:
    shop.create("orders", MYSQL)
    fetch = start_fetch(shop, loader__source__oggJson=ogg, consumer__source__rowImage="any")
    load = shop.load("postgresql", consumer__converter="oggJson" if ogg == "true" else "canalRow")
    load.start()
    for at, image in enumerate(("MINIMAL", "NOBLOB", "FULL")):
        shop.cursor.execute("SET SESSION binlog_row_image = %s", (image,))
        for number in range(at * 100, at * 100 + 20):
            shop.cursor.execute(
                "INSERT INTO orders (id, name, body) VALUES (%s, 'a', 'long')", (number,)
            )
        shop.cursor.execute("UPDATE orders SET name = NULL WHERE id %% 3 = 0", ())
        shop.cursor.execute("UPDATE orders SET n = n + 1 WHERE id %% 5 = 0", ())
        shop.cursor.execute("UPDATE orders SET body = NULL, n = 0 WHERE id %% 7 = 0", ())
        shop.cursor.execute("DELETE FROM orders WHERE id %% 11 = 0", ())
        wait_applied(shop, fetch, load)
        rows = shop.rows("orders")
        assert len(rows["source"]) > at * 15
        assert rows["postgresql"] == rows["source"]


def test_heartbeats_tell_the_lag_of_a_target_that_has_no_table_for_them(shop: Shop) -> None:
    shop.create("orders", MYSQL)
    table = f"{shop.name}.cdcbus_heartbeat"
    fetch = start_fetch(
        shop,
        consumer__source__heartbeatTable=table,
        consumer__source__heartbeatIntervalSeconds="0.5",
    )
    load = shop.load("postgresql")
    load.start()
    shop.cursor.execute("INSERT INTO orders (id) VALUES (1)")
    wait_until(
        lambda: shop.rows("orders")["postgresql"] == shop.rows("orders")["source"], "the row"
    )
    wait_until(lambda: "a heartbeat took" in load.log.read_text(), "the task to report a heartbeat")
    (lag,) = re.findall(r"a heartbeat took (-?[0-9.]+) s", load.log.read_text())[-1:]
    assert -1 < float(lag) < 60
    fetch.ask_to_stop()
    load.ask_to_stop()
    assert [fetch.await_stop(), load.await_stop()] == [0, 0]
