"""Tables that a direct load leaves out."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.integration.tasks.direct.test_direct import ORDERS, alive, followed, run
from tests.integration.tasks.verify.verifying import source_of
from tests.support.changes.shop import Shop
from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration


def fill(shop: Shop) -> None:
    """A table with a key, and one without."""
    shop.create("orders", ORDERS)
    shop.create("words", "word VARCHAR(10)")
    shop.cursor.execute("INSERT INTO orders VALUES (1, 1, 'one', 1), (2, 2, 'two', 2)")
    shop.cursor.execute("INSERT INTO words VALUES ('a'), ('b')")


def test_rows_of_other_tables_that_are_in_kafka_are_not_passed_over_silently(shop: Shop) -> None:
    """More than 20 s: the command starts three times, once with Spark."""
    fill(shop)
    fetch = shop.fetch(source_of(shop), consumer__snapshot="initial")
    load = shop.load("postgresql")
    fetch.start()
    wait_until(lambda: alive(fetch) and sum(shop.ends().values()) >= 4, "the rows in Kafka")
    whole = run(load, fetch)
    assert (whole.code, "load the others directly first (--table)" in whole.told) == (1, True)
    answer = run(load, fetch, "--table", "orders")
    assert answer.code == 1, answer.told
    again = f"cdcbus snapshot start {fetch.task_id} --table {shop.name}.words"
    assert f"leaves out {shop.name}.words" in answer.found["error"]
    assert again in answer.found["error"]
    assert shop.postgresql(f"SELECT * FROM {shop.name}.orders") == []
    answer = run(load, fetch, "--table", "orders", "--others-later")
    assert answer.code == 0, answer.told
    assert answer.told.count(again) == 2
    load.start()
    # Nothing of it is at the target, so what Kafka has of it does not count.
    command = [sys.executable, "-m", *again.split(), "--yes"]
    done = subprocess.run(command, env=load.environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for table in ("orders", "words"):

        def is_equal(table: str = table) -> bool:
            rows = shop.rows(table)
            return alive(load, fetch) and rows["postgresql"] == rows["source"]

        wait_until(is_equal, f"{table} to be equal")


def test_a_load_of_one_table_says_how_the_others_come_where_kafka_has_nothing(shop: Shop) -> None:
    fill(shop)
    fetch, load = followed(shop), shop.load("postgresql")
    answer = run(load, fetch, "--table", "orders")
    assert answer.code == 0, answer.told
    again = f"cdcbus snapshot start {fetch.task_id} --table {shop.name}.words"
    assert answer.told.count(again) == 2
