"""`cdcbus verify --repair` of keys that a target spells otherwise and takes for equal."""

from __future__ import annotations

import pytest

from tests.integration.tasks.verify.verifying import source_of, verify
from tests.support.changes.shop import Shop
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.integration, pytest.mark.source]
PARTITIONS = 3
ROWS = 230
"""Of three portions."""


@pytest.mark.parametrize("runs", [True, False])
def test_keys_that_are_respelled_at_the_target_are_repaired_at_once(shop: Shop, runs: bool) -> None:
    """The consumer task refuses a row while one of another spelling is there. `runs`: it does so
    during the repair; otherwise it gets all records in one batch later."""
    kind = "VARCHAR(30) CHARACTER SET utf8mb4 COLLATE {} PRIMARY KEY, v INT"
    shop.cursor.execute(f"CREATE TABLE names (k {kind.format('utf8mb4_bin')})")
    shop.mariadb(f"CREATE TABLE {shop.name}.names (k {kind.format('utf8mb4_general_ci')})")
    fetch, load = shop.fetch(source_of(shop)), shop.load("mariadb")
    fetch.start()
    wait_until(lambda: shop.position(fetch) is not None, "the fetch task's first position")
    load.start()
    rows = ", ".join(f"('key{number}', {number})" for number in range(ROWS))
    shop.cursor.execute(f"INSERT INTO names VALUES {rows}")

    def count() -> int:
        return int(shop.mariadb(f"SELECT COUNT(*) FROM {shop.name}.names")[0][0])

    wait_until(lambda: count() == ROWS, "the rows", 180)
    shop.mariadb(f"UPDATE {shop.name}.names SET k = UPPER(k), v = v + 1 WHERE v % 10 > 0")
    wait_until(lambda: shop.is_applied(load), "the stored position")
    if not runs:
        load.kill()
    found = verify(shop, "mariadb", "--repair", "--yes", patience="60" if runs else "1")
    if not runs:
        load.start()
        wait_until(lambda: shop.is_applied(load), "the records")
    load.check()
    assert found.code == int(not runs), found.output
    assert verify(shop, "mariadb").code == 0
