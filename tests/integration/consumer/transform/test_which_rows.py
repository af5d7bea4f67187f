"""Which rows a task takes, the whole way: patterns of tables, and an archive that keeps what is
deleted at the source."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from cdcbus.ops.cli.main import main
from tests.integration.consumer.test_run import start_fetch, wait_applied
from tests.support.changes.shop import Shop
from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration
MANY = 1500
TAKEN, LEFT_OUT = ("orders_1", "orders_2", "users"), ("orders_x", "secret", "orders_9")


def test_patterns_choose_tables_and_an_archive_keeps_deleted_rows(shop: Shop) -> None:
    for table in (*TAKEN, *LEFT_OUT):
        shop.create(table, "id INT PRIMARY KEY, note VARCHAR(20)")
    fetch = start_fetch(shop, consumer__excludes=f"{shop.name}\\\\.secre.*")
    keys = {
        "consumer__source__filter": f"{shop.name}\\\\..*",
        "consumer__includes": f"{shop.name}\\\\.orders_[0-9],{shop.name.upper()}.USERS",
        "consumer__excludes": f"{shop.name}.ORDERS_9",
        "consumer__skippedOperations": "DELETE,TRUNCATE",
    }
    loads = [shop.load(target, **keys) for target in ("postgresql", "mariadb")]
    for load in loads:
        load.start()
    for table in (*TAKEN, *LEFT_OUT):
        shop.cursor.execute(f"INSERT INTO {table} VALUES (1, 'a'), (2, 'b'), (3, 'c')")
    shop.cursor.execute("DELETE FROM orders_1 WHERE id = 2")
    shop.cursor.execute("UPDATE orders_1 SET note = 'x' WHERE id = 3")
    shop.cursor.execute("DELETE FROM orders_2")
    wait_applied(shop, fetch, *loads)
    rows = shop.rows("orders_1")
    assert rows["mariadb"] == rows["postgresql"] == [(1, "a"), (2, "b"), (3, "x")]
    assert len(shop.rows("orders_2")["postgresql"]) == len(shop.rows("users")["mariadb"]) == 3
    # what comes back takes its own place again; many rows, by columns
    shop.cursor.execute("SET SESSION max_recursive_iterations = 10000")
    numbers = f"WITH RECURSIVE n AS (SELECT 10 AS i UNION ALL SELECT i + 1 FROM n WHERE i < {MANY})"
    shop.cursor.execute(f"INSERT INTO orders_1 {numbers} SELECT i, 'new' FROM n")
    shop.cursor.execute("DELETE FROM orders_1 WHERE id % 2 = 0")
    shop.cursor.execute("INSERT INTO orders_1 VALUES (2, 'again')")
    wait_applied(shop, fetch, *loads)
    rows = shop.rows("orders_1")
    assert len(rows["postgresql"]) == MANY - 9 + 3
    assert rows["mariadb"] == rows["postgresql"]
    assert (2, "again") in rows["postgresql"] and (10, "new") in rows["postgresql"]
    for table in LEFT_OUT:
        found = shop.rows(table)
        assert (found["mariadb"], found["postgresql"]) == ([], [])
        assert len(found["source"]) == 3
    words = ["verify", str(loads[0].file), "--source", str(fetch.file)]
    refused = CliRunner().invoke(main, [*words, "--zookeeper", shop.addresses.zookeeper])
    assert refused.exit_code != 0
    assert "leaves out DELETE, TRUNCATE (consumer.skippedOperations)" in refused.output


def test_a_task_from_kafka_to_kafka_leaves_the_same_out(shop: Shop) -> None:
    shop.create("orders_1", "id INT PRIMARY KEY, note VARCHAR(20)")
    shop.create("secret", "id INT PRIMARY KEY, note VARCHAR(20)")
    fetch = start_fetch(shop)
    forward = shop.task(
        f"{shop.name}-forward",
        consumer__consumerName="KafkaFetch",
        consumer__converter="canalRow",
        consumer__source__servers=shop.addresses.kafka,
        consumer__source__topics=shop.name,
        consumer__source__firstConsumeFrom="earliest",
        consumer__includes=f"{shop.name}.*",
        consumer__excludes=f"{shop.name}\\\\.se.*",
        consumer__skippedOperations="DELETE",
        loader__loaderName="KAFKA_SYNC",
        loader__source__servers=shop.addresses.kafka,
        loader__source__topic=f"{shop.name}-on",
        loader__source__createTopic="1:1",
        loader__source__oggJson="false",
    )
    forward.start()
    shop.cursor.execute("INSERT INTO orders_1 VALUES (1, 'a'), (2, 'b')")
    shop.cursor.execute("INSERT INTO secret VALUES (1, 'a')")
    shop.cursor.execute("DELETE FROM orders_1 WHERE id = 1")
    shop.cursor.execute("INSERT INTO orders_1 VALUES (3, 'c')")
    wait_applied(shop, fetch, forward)
    wait_until(lambda: sum(shop.ends(f"{shop.name}-on").values()) >= 3, "the records")
    assert sum(shop.ends(f"{shop.name}-on").values()) == 3
