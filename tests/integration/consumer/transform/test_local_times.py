"""Target columns that are filled in local time: by a snapshot, a direct load and changes, all of
which verify agrees with."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from pymysql.cursors import Cursor

from cdcbus.ops.stack.addresses import Addresses
from tests.integration.tasks.direct.test_direct import alive, followed, run
from tests.integration.tasks.verify.verifying import verify
from tests.support.changes.shop import Shop, open_shop
from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration
ZONE = {"loader__source__timeZone": "Asia/Shanghai"}
ROWS = 400  # enough to go by columns
MADE = datetime(2024, 5, 1, 20, 30)
AHEAD = timedelta(hours=8)


@pytest.fixture
def shop(
    name: str,
    stack: Addresses,
    source_cursor: Cursor,
    make_topic: Callable[..., str],
    tmp_path: Path,
) -> Iterator[Shop]:
    make_topic(name, 1)
    with open_shop(name, stack, source_cursor, tmp_path) as shop:
        source_cursor.execute("SET time_zone = '+00:00'")
        source_cursor.execute(
            "CREATE TABLE orders (id INT PRIMARY KEY, made TIMESTAMP(3) NULL, sent TIMESTAMP NULL, "
            "due DATETIME NULL)"
        )
        shop.mariadb(
            f"CREATE TABLE {name}.orders (id INT PRIMARY KEY, made DATETIME(3) NULL, "
            "sent TIMESTAMP NULL, due DATETIME NULL)"
        )
        shop.postgresql(
            f'CREATE TABLE {name}."orders" (id INT PRIMARY KEY, made TIMESTAMP(3), '
            "sent TIMESTAMPTZ, due TIMESTAMP)"
        )
        yield shop


def fill(shop: Shop, first: int) -> None:
    rows = [(first + n, MADE + timedelta(minutes=n), MADE, MADE) for n in range(ROWS)]
    shop.cursor.executemany("INSERT INTO orders VALUES (%s, %s, %s, %s)", rows)


def is_local(shop: Shop, target: str) -> bool:
    """`made` is in local time there, `sent` the same moment, and `due` as it is."""
    if target == "mariadb":
        sql = "SELECT id, made, UNIX_TIMESTAMP(sent), due FROM {}.orders ORDER BY id"
        found = shop.mariadb(sql.format(shop.name))
    else:
        sql = 'SELECT id, made, extract(epoch from sent), due FROM {}."orders" ORDER BY id'
        found = shop.postgresql(sql.format(shop.name))
    shop.cursor.execute("SELECT id, made, UNIX_TIMESTAMP(sent), due FROM orders ORDER BY id")
    rows = shop.cursor.fetchall()
    expected = [(id_, made and made + AHEAD, sent, due) for id_, made, sent, due in rows]
    return bool(rows) and [tuple(row) for row in found] == expected


def test_a_direct_load_and_the_changes_after_it_are_in_local_time_and_proved(shop: Shop) -> None:
    """Some 20 s: Spark starts, as loads and tasks do."""
    fill(shop, 0)
    fetch, load = followed(shop), shop.load("postgresql", **ZONE)
    answer = run(load, fetch)
    assert answer.code == 0, answer.told
    assert is_local(shop, "postgresql")
    fill(shop, ROWS)
    shop.cursor.execute("UPDATE orders SET made = made + INTERVAL 1 HOUR WHERE id % 3 = 0")
    shop.cursor.execute("UPDATE orders SET made = NULL WHERE id % 7 = 0")
    shop.cursor.execute("DELETE FROM orders WHERE id % 5 = 0")
    load.start()
    wait_until(lambda: alive(load, fetch) and is_local(shop, "postgresql"), "the changes")
    proof = verify(shop, "postgresql")
    assert (proof.code, proof.table["result"]) == (0, "equal"), proof.output
    assert proof.table["sourceRows"] == 2 * ROWS - 2 * ROWS // 5


def test_a_row_in_utc_beside_them_is_found_by_verify_and_repaired(shop: Shop) -> None:
    """Some 20 s as well."""
    fill(shop, 0)
    fetch, load = followed(shop), shop.load("mariadb", **ZONE)
    answer = run(load, fetch)
    assert answer.code == 0, answer.told
    load.start()
    fill(shop, ROWS)
    wait_until(lambda: alive(load, fetch) and is_local(shop, "mariadb"), "the rows")
    shop.mariadb(f"UPDATE {shop.name}.orders SET made = made - INTERVAL 8 HOUR WHERE id = 7")
    found = verify(shop, "mariadb", patience="5")
    assert (found.code, found.table["different"]) == (1, 1), found.output
    repaired = verify(shop, "mariadb", "--repair", "--yes")
    wait_until(lambda: alive(load, fetch) and is_local(shop, "mariadb"), repaired.output)
