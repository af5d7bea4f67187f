"""docs/snapshot.md, typed on one shop: first a load of some of the tables, then one of all."""

from __future__ import annotations

import pytest

from tests.integration.docs.conftest import PageReader
from tests.integration.docs.reading import until_said
from tests.support.changes.shop import Shop
from tests.support.processes.bus import fetch_text, load_text
from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration


def test_snapshot(read: PageReader, shop: Shop) -> None:
    at, name = shop.addresses, shop.name
    for table in ("orders", "log"):
        shop.cursor.execute(f"CREATE TABLE {table} (id INT PRIMARY KEY, created DATE)")
        shop.cursor.execute(f"INSERT INTO {table} VALUES (1, '2023-12-31'), (2, '2024-01-02')")

    def copied(table: str) -> bool:
        return shop.rows(table)["postgresql"] == shop.rows(table)["source"]

    with read("docs/snapshot.md") as page:
        # the page's id of the fetch task is `shop-to-kafka`
        fetch = fetch_text(f"{name}-to-kafka", at.source, at.kafka, name)
        page.write("shop-to-kafka.properties", fetch)
        page.write("shop-to-postgresql.properties", load_text(f"{name}-1", at, name))
        with page.begin("cdcbus task run shop-to-kafka.properties") as said:
            until_said(said, "reads the binlog")
            page.run("cdcbus schema apply shop-to-postgresql.properties", typed="y\n")
            page.run(
                "cdcbus snapshot run shop-to-postgresql.properties --direct --table shop.orders"
            )
            shop.mariadb(f"CREATE TABLE {name}.log (id INT PRIMARY KEY, created DATE)")
            shop.mariadb(f"CREATE TABLE {name}.orders (id INT PRIMARY KEY, created DATE)")
            assert copied("orders")
            with page.begin("cdcbus task run shop-to-postgresql.properties"):
                page.run("cdcbus snapshot start shop-to-kafka --table shop.log")
                wait_until(lambda: copied("log"), "the other table")
            shop.postgresql(f"TRUNCATE {name}.orders, {name}.log")
            load = page.write("shop-to-postgresql.properties", load_text(f"{name}-2", at, name))
            page.run("cdcbus snapshot run shop-to-postgresql.properties --direct")
            assert copied("orders") and copied("log")
            with page.begin("cdcbus task run shop-to-postgresql.properties"):
                shop.postgresql(f"UPDATE {name}.orders SET created = NULL WHERE id = 2")
                page.run("cdcbus snapshot start shop-to-kafka --table shop.orders --where")
                wait_until(lambda: copied("orders"), "the rows of the condition")
                shop.postgresql(f"DELETE FROM {name}.log")
                page.run("cdcbus snapshot start shop-to-kafka")
                wait_until(lambda: copied("log"), "the rows of all tables")
                page.run("cdcbus snapshot pause shop-to-kafka")
                assert f"{name}.orders" in page.run("cdcbus snapshot status shop-to-kafka")
                shop.postgresql(f"INSERT INTO {name}.orders VALUES (9, NULL)")
                pruned = page.run(
                    "cdcbus verify CONSUMER-TASK --prune --dry-run",
                    1,
                    **{"CONSUMER-TASK": str(load)},
                )
                assert f"DELETE {name}.orders id='9'" in pruned
