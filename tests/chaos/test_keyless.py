"""Tables without a key, where nothing but the offset beside the rows tells one row from its
copy: SIGKILL of consumer tasks at work."""

from __future__ import annotations

import random

import pytest
from pymysql.cursors import Cursor

from cdcbus.ops.demo.measure import is_at_least
from cdcbus.plugins.positions import BinlogPosition, kafka_positions_from_json
from tests.support.changes.shop import Shop
from tests.support.clusters.bulk_gear import with_eager_spark
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.integration, pytest.mark.chaos]
KILLS = 2


def change_rows(cursor: Cursor, seed: int) -> None:
    """Rows that are equal to each other come, change and go, one at a time."""
    choose = random.Random(seed)
    for _ in range(200):
        cells = [(choose.randrange(5), choose.choice("abA")) for _ in range(20)]
        cursor.executemany("INSERT INTO log VALUES (%s, %s)", cells)
        cursor.execute("UPDATE log SET level = level + 5 WHERE level < 5 LIMIT 6")
        cursor.execute("DELETE FROM log WHERE level >= %s LIMIT 4", (choose.randrange(10),))


@pytest.mark.parametrize("target", ["mariadb"])
def test_rows_without_a_key_are_there_as_often_as_at_the_source_after_kills(
    shop: Shop, target: str
) -> None:
    """More than 20 s: Spark starts three times."""
    shop.create("log", "level INT, word VARCHAR(9)")
    fetch = shop.fetch(shop.addresses.source)
    fetch.start()
    wait_until(lambda: shop.position(fetch) is not None, "the fetch task's first position")
    change_rows(shop.cursor, 1)
    shop.cursor.execute("SHOW MASTER STATUS")
    [(file, end, *_)] = shop.cursor.fetchall()
    written = BinlogPosition(file, end)
    wait_until(
        lambda: is_at_least(BinlogPosition.from_json(shop.position(fetch) or ""), written),
        "the fetch task to read all",
    )
    load = with_eager_spark(shop.load(target, consumer__source__maxRecordsPerBatch="100"))

    def is_ahead() -> bool:
        """Whether the target has committed rows behind the stored position."""
        [(applied,)] = shop.mariadb(f"SELECT SUM(next_offset) FROM {shop.name}.cdcbus_position")
        return int(applied or 0) > sum(
            position.next_offset
            for position in kafka_positions_from_json(shop.position(load) or "")
        )

    for _ in range(KILLS):
        before = shop.position(load)
        load.start()
        wait_until(lambda: shop.position(load) != before or shop.is_applied(load), "it to begin")
        wait_until(
            lambda: is_ahead() or shop.is_applied(load), "rows that only the target knows of"
        )
        load.kill()
    load.start()
    wait_until(lambda: shop.is_applied(load), "the consumer task to apply everything")
    rows = shop.rows("log")
    assert len(rows["source"]) > 1000
    assert rows[target] == rows["source"]
