"""Which other consumer tasks write to a target table."""

from __future__ import annotations

import pytest

from cdcbus.consumer.config import LoadTask
from cdcbus.plugins.rowchange import TableId
from cdcbus.plugins.transform.rules import MapperRule
from cdcbus.producer.config import FetchTask
from cdcbus.tasks.lineage.sharing import may_send, other_writers
from tests.unit.tasks.lineage.test_ways import Task, fetch, load

ORDERS = TableId("shop", "orders")
MYSQL = "jdbc:mysql://my:3306/"


def others(*tasks: Task, own: Task | None = None, table: TableId = ORDERS) -> list[str]:
    own = own or load("7", topics="one")
    assert isinstance(own, LoadTask)
    return other_writers(table, own, tasks)


def test_another_shard_goes_to_the_same_table() -> None:
    shards = fetch("1", topic="one"), fetch("2", topic="two")
    tasks = load("7", topics="one"), load("8", topics="two")
    assert others(*shards, *tasks) == ["8"]
    assert others(*shards, *tasks, table=TableId("SHOP", "Orders")) == ["8"]


@pytest.mark.parametrize(
    "other",
    [
        load("7", topics="two"),
        load("8", topics="two", url="jdbc:postgresql://other:5432/copy"),
        load("8", topics="two", includes="SHOP.PARTS"),
        load("8", topics="two", excludes="SHOP.ORDERS"),
        load("8", MapperRule(schema=("shop", "older")), topics="two"),
        load("8", topics="three"),
        fetch("8", topic="two"),
    ],
)
def test_a_task_that_cannot_write_it_does_not_count(other: Task) -> None:
    assert others(fetch("1", topic="one"), fetch("2", topic="two"), other) == []


def test_a_fetch_task_that_leaves_the_table_out_feeds_no_rows_of_it() -> None:
    shards = fetch("1", topic="one"), fetch("2", r"shop\.parts", topic="two")
    assert others(*shards, load("8", topics="two")) == []


@pytest.mark.parametrize(
    ("rule", "filters"),
    [
        (MapperRule(schema=("shard2", "shop")), r"shard2\..*"),
        (MapperRule(schema=("shard[0-9]", "shop")), r"shard2\..*"),
        (MapperRule(schema=("shard2", "shop"), table=("o", "orders")), r"shard2\.o"),
    ],
)
def test_a_task_may_rename_another_table_to_it(rule: MapperRule, filters: str) -> None:
    feed = fetch("2", filters, topic="two")
    assert others(feed, load("8", rule, topics="two")) == ["8"]
    assert others(feed, load("8", rule, topics="two", includes="SHARD2.PARTS")) == []


def test_without_a_known_fetch_task_the_tables_that_a_task_names_count() -> None:
    assert others(load("8", topics="two", includes="SHOP.ORDERS")) == ["8"]
    assert others(load("8", topics="two", includes="SHOP.PARTS")) == []
    assert others(load("8", topics="two")) == []


@pytest.mark.parametrize(("url", "found"), [("other", ["8"]), ("", ["8"])])
def test_the_database_in_an_address_of_mysql_does_not_matter(url: str, found: list[str]) -> None:
    own = load("7", topics="one", url=f"{MYSQL}shop")
    other = load("8", topics="two", includes="SHOP.ORDERS", url=MYSQL + url)
    assert others(other, own=own) == found


@pytest.mark.parametrize(
    ("feed", "own", "may"),
    [
        (fetch("2", topic="one"), load("7", topics="one"), True),
        (fetch("2", r"shop\..*", topic="one"), load("7", topics="one"), True),
        (fetch("2", topic="two"), load("7", topics="one two"), True),
        (fetch("2", r"shop\.parts", topic="one"), load("7", topics="one"), False),
        (fetch("2", topic="one"), load("7", topics="one", includes="SHOP.PARTS"), False),
        # Its own topic has no such table, and of the other one it says nothing.
        (
            fetch("2", r"shop\.parts", topic="one"),
            load("7", topics="one two", includes="SHOP.ORDERS SHOP.PARTS"),
            False,
        ),
        (
            fetch("2", r"shard2\..*", topic="one"),
            load("7", MapperRule(schema=("shard[0-9]", "shop")), topics="one"),
            True,
        ),
    ],
)
def test_a_further_fetch_task_may_send_rows_of_the_table(feed: Task, own: Task, may: bool) -> None:
    assert isinstance(feed, FetchTask) and isinstance(own, LoadTask)
    assert may_send(ORDERS, feed, own) is may
