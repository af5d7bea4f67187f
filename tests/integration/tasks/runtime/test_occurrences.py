"""What tasks on real servers note for their charts: definitions of tables, failures, rates."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pymysql.cursors import Cursor

from cdcbus.ops.stack.addresses import Addresses, Database
from cdcbus.tasks.runtime.occurrences import APPLIED, DDL, ERROR, Occurrences
from cdcbus.tasks.zookeeper.tasks import TaskNodes
from tests.support.changes.shop import Shop, open_shop
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.integration, pytest.mark.source]
SECONDS = 240.0


@pytest.fixture
def shop(
    name: str,
    stack: Addresses,
    source_cursor: Cursor,
    make_topic: Callable[..., str],
    tmp_path: Path,
) -> Iterator[Shop]:
    make_topic(name)
    with open_shop(name, stack, source_cursor, tmp_path) as opened:
        opened.create("orders", "id INT PRIMARY KEY, name VARCHAR(20)")
        yield opened


def test_definitions_are_noted_where_they_are_read_and_where_they_are_applied(
    shop: Shop, source: Database
) -> None:
    """Two processes start one after the other, each takes seconds."""
    noted = Occurrences(shop.zookeeper)
    fetch, load = shop.fetch(source), shop.load("postgresql", loader__schemaChange="evolve")
    fetch.start()
    wait_until(lambda: shop.position(fetch) is not None, "the fetch task's start", SECONDS)
    load.start()
    shop.cursor.execute("INSERT INTO orders VALUES (1, 'x')")
    shop.cursor.execute("ALTER TABLE orders ADD COLUMN city VARCHAR(30)")
    shop.cursor.execute("INSERT INTO orders VALUES (2, 'x', 'y')")
    wait_until(lambda: bool(noted.read(fetch.task_id)), "the fetch task's note", SECONDS)
    wait_until(lambda: bool(noted.read(load.task_id)), "the consumer task's note", SECONDS)
    [read] = noted.read(fetch.task_id)
    [applied] = noted.read(load.task_id)
    assert (read.kind, applied.kind) == (DDL, APPLIED)
    assert read.sentence.startswith(f"ALTER of {shop.name}.orders before ")
    assert applied.sentence == f"ALTER of {shop.name}.orders: new columns city"
    nodes = TaskNodes(shop.zookeeper)

    def rates() -> list[str]:
        """A rate is that of the last minute, so that rows have to come."""
        shop.cursor.execute("UPDATE orders SET city = LEFT(UUID(), 20)")
        stat = nodes.stat(load.task_id)
        return [each.table for each in stat.table_rates] if stat else []

    wait_until(lambda: rates() == [f"{shop.name}.orders"], "the table's rate", SECONDS)
    shop.postgresql(f"DROP TABLE {shop.name}.orders")
    shop.postgresql(f"CREATE TABLE {shop.name}.orders (id INT PRIMARY KEY, name INT, city INT)")
    shop.cursor.execute("INSERT INTO orders VALUES (3, 'no number', 'y')")
    wait_until(
        lambda: [each.kind for each in noted.read(load.task_id)][-1] == ERROR, "an error", SECONDS
    )
