"""Tables that are swapped, dropped or exchanged while they are loaded directly."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cdcbus.ops.demo.tasks import TaskProcess
from tests.integration.tasks.direct.test_direct import (
    MANY,
    ORDERS,
    Answer,
    alive,
    fill,
    followed,
    held_up,
    kill_in_the_middle,
    progress,
    run,
    started,
)
from tests.support.changes.shop import Shop
from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration
PARTITIONS = 1
"""In several a TRUNCATE has no order."""
BESIDE = (
    "CREATE TABLE {beside} LIKE orders",
    "INSERT INTO {beside} SELECT 2 * id, 1, 'y', 1 FROM orders",
)
"""Another table of the same columns, in a schema that no task reads."""
SWAP = "RENAME TABLE orders TO {beside}_old, {beside} TO orders"
SWAP_BACK = "RENAME TABLE orders TO {beside}, {beside}_old TO orders"


def execute(shop: Shop, *statements: str) -> None:
    for each in statements:
        shop.cursor.execute(each.format(beside=f"{shop.name}_beside.orders"))


@pytest.fixture
def beside(shop: Shop) -> Iterator[None]:
    shop.cursor.execute(f"CREATE DATABASE {shop.name}_beside")
    yield
    shop.cursor.execute(f"DROP DATABASE {shop.name}_beside")


def load_around(shop: Shop, tasks: tuple[TaskProcess, TaskProcess], *statements: str) -> Answer:
    """Loads orders, and executes the statements after its first chunk, before its last one."""
    fetch, load = tasks
    with held_up(shop, MANY - 1):
        process = started(load, fetch)
        try:
            wait_until(
                lambda: process.poll() is not None or progress(shop, load).get("chunks", 0) > 0,
                "a chunk",
            )
            assert process.poll() is None, process.communicate()
            execute(shop, *statements)
        except BaseException:
            process.kill()
            raise
    told = "".join(process.communicate())
    return Answer(process.returncode, {}, told)


@pytest.mark.parametrize(
    "statements",
    [
        (SWAP,),
        (SWAP, SWAP_BACK),
        ("DROP TABLE orders", f"CREATE TABLE orders ({ORDERS})"),
        ("TRUNCATE {beside}", "DROP TABLE orders", "RENAME TABLE {beside} TO orders"),
        ("DROP TABLE orders",),
    ],
    ids=["swapped", "swapped and back", "made again", "put in its place", "dropped"],
)
def test_a_table_that_is_swapped_while_it_is_loaded_ends_the_load(
    shop: Shop, beside: None, statements: tuple[str, ...]
) -> None:
    fill(shop, MANY, width=900)
    execute(shop, *BESIDE)
    answer = load_around(shop, (followed(shop), shop.load("postgresql")), *statements)
    assert answer.code == 1, answer.told
    assert f"table {shop.name}.orders has other rows" in answer.told
    assert "--anew" in answer.told


def test_a_table_that_is_swapped_before_its_load_goes_on_ends_it(shop: Shop, beside: None) -> None:
    fill(shop, MANY, width=900)
    execute(shop, *BESIDE)
    fetch, load = followed(shop), shop.load("postgresql")
    kill_in_the_middle(shop, load, fetch)
    execute(shop, SWAP, SWAP_BACK)
    for _ in range(2):
        answer = run(load, fetch)
        assert answer.code == 1, answer.told
        assert f"table {shop.name}.orders has other rows" in answer.found["error"]
    shop.postgresql(f"TRUNCATE {shop.name}.orders")
    answer = run(load, fetch, "--anew")
    assert answer.code == 0, answer.told


def test_a_table_whose_partition_is_exchanged_while_it_is_loaded_ends_the_load(
    shop: Shop, beside: None
) -> None:
    fill(shop, MANY, width=900)
    execute(shop, *BESIDE, "DELETE FROM {beside} WHERE id >= 100")
    shop.cursor.execute(
        "ALTER TABLE orders PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (100), "
        "PARTITION p1 VALUES LESS THAN MAXVALUE)"
    )
    exchange = "ALTER TABLE orders EXCHANGE PARTITION p0 WITH TABLE {beside}"
    answer = load_around(shop, (followed(shop), shop.load("postgresql")), exchange)
    assert answer.code == 1, answer.told
    assert f"table {shop.name}.orders has other rows" in answer.told


def test_other_tables_and_a_truncate_end_no_load(shop: Shop, beside: None) -> None:
    """The task applies the TRUNCATE after the load. Of another database of the same server, a table
    of the same name is another one."""
    fill(shop, MANY, width=900)
    execute(shop, *BESIDE)
    fetch, load = followed(shop), shop.load("postgresql")
    answer = load_around(
        shop,
        (fetch, load),
        "RENAME TABLE {beside} TO {beside}_old",
        "CREATE TABLE IF NOT EXISTS orders (id INT)",
        "CREATE TABLE {beside} LIKE {beside}_old",
        "DROP TABLE {beside}",
        "ALTER TABLE orders COMMENT 'DROP TABLE orders'",
        "TRUNCATE TABLE orders",
        "INSERT INTO orders VALUES (7, 7, 'seven', 7)",
    )
    assert answer.code == 0, answer.told
    load.start()

    def is_equal() -> bool:
        rows = shop.rows("orders")
        return alive(load, fetch) and rows["postgresql"] == rows["source"]

    wait_until(is_equal, "the target to be equal")
