"""docs/schema.md and docs/verify.md, typed from top to bottom."""

from __future__ import annotations

import pytest

from tests.integration.docs.conftest import PageReader
from tests.integration.docs.reading import shape, shown, until_said
from tests.support.changes.shop import Shop
from tests.support.processes.bus import fetch_text, load_text
from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration


def test_schema(read: PageReader, shop: Shop) -> None:
    shop.cursor.execute("CREATE TABLE orders (id INT PRIMARY KEY, note VARCHAR(40))")
    with read("docs/schema.md") as page:
        page.write(
            "tasks/shop-to-kafka.properties",
            fetch_text(f"{shop.name}-0", shop.addresses.source, shop.addresses.kafka, shop.name),
        )
        page.write(
            "tasks/shop-to-postgresql.properties",
            load_text(f"{shop.name}-1", shop.addresses, shop.name),
        )
        assert "CREATE TABLE" in page.run("cdcbus schema plan tasks/shop-to-postgresql.properties")
        page.run("cdcbus schema plan tasks/shop-to-postgresql.properties --check", 1)
        page.run("cdcbus schema apply", typed="y\n")
        assert shop.postgresql(f"SELECT * FROM {shop.name}.orders") == []
        page.run("cdcbus schema plan tasks/shop-to-postgresql.properties --check")


def test_verify(read: PageReader, shop: Shop) -> None:
    """Also that what it prints has the form that the page shows."""
    at, name = shop.addresses, shop.name
    for table in ("orders", "customers"):
        shop.create(table, "id INT PRIMARY KEY, name VARCHAR(20)")
    with read("docs/verify.md") as page:
        fetch = page.write(
            "tasks/shop-to-kafka.properties", fetch_text(f"{name}-0", at.source, at.kafka, name)
        )
        load = page.write("tasks/shop-to-postgresql.properties", load_text(f"{name}-1", at, name))
        page.type(f"cdcbus task import {fetch} {load}")
        with page.going(f"cdcbus task run {fetch}") as said, page.going(f"cdcbus task run {load}"):
            until_said(said, "reads the binlog")
            for table in ("orders", "customers"):
                shop.cursor.execute(f"INSERT INTO {table} VALUES (12, 'a'), (4711, 'b')")
            wait_until(
                lambda: all(
                    len(shop.rows(each)["postgresql"]) == 2 for each in ("orders", "customers")
                ),
                "all rows at the target",
            )
            shop.postgresql(f"UPDATE {name}.customers SET name = 'x' WHERE id = 12")
            shop.postgresql(f"DELETE FROM {name}.customers WHERE id = 4711")
            seen = page.run("cdcbus verify tasks/shop-to-postgresql.properties", 1)
            assert shape(seen, name) == shown("docs/verify.md", "$ cdcbus verify")
            shop.postgresql(f"DELETE FROM {name}.orders WHERE id = 4711")
            shop.postgresql(f"INSERT INTO {name}.orders VALUES (9000, 'c')")
            assert "INSERT" in page.run(
                "cdcbus verify TASK --repair --dry-run", 1, TASK=f"{name}-1"
            )
            seen = page.type(f"cdcbus verify {name}-1 --repair --table {name}.orders", typed="y\n")
            assert shape(seen, name) == shown("docs/verify.md", "DELETE")
            page.type(f"cdcbus verify {name}-1 --repair --yes")
            page.run("cdcbus verify TASK", TASK=f"{name}-1")
            assert "2 equal" in page.run("cdcbus verify TASK --last", TASK=f"{name}-1")
