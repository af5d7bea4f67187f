"""A table with a key and one without, on their way from the source to PostgreSQL through a topic
of two partitions."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import psycopg

from cdcbus.ops.demo.measure import is_at_least
from cdcbus.ops.demo.tasks import TaskProcess
from cdcbus.plugins.positions import BinlogPosition
from tests.support.changes.shop import Shop
from tests.support.waiting import wait_until


@dataclass(frozen=True)
class TwoTables:
    """Tables orders and log, which a fetch task reads."""

    shop: Shop
    fetch: TaskProcess

    @classmethod
    def make(cls, shop: Shop) -> TwoTables:
        shop.create("orders", "id INT PRIMARY KEY, name VARCHAR(40)")
        shop.create("log", "level INT, word VARCHAR(9)")
        tables = cls(shop, shop.fetch(shop.addresses.source))
        tables.fetch.start()
        wait_until(
            lambda: shop.position(tables.fetch) is not None, "the fetch task's first position", 120
        )
        return tables

    def change(self, seed: int) -> None:
        """Changes rows with a key, and equal rows without one. Returns when all are in Kafka."""
        cursor = self.shop.cursor
        choose = random.Random(seed)
        for number in range(60):
            cells = [(choose.randrange(5), choose.choice("abA")) for _ in range(20)]
            cursor.executemany("INSERT INTO log VALUES (%s, %s)", cells)
            cursor.execute("DELETE FROM log WHERE level = %s LIMIT 4", (choose.randrange(5),))
            orders = [(seed * 10_000 + number * 10 + row, f"n{number}") for row in range(10)]
            cursor.executemany("INSERT INTO orders VALUES (%s, %s)", orders)
            cursor.execute(
                "UPDATE orders SET name = 'x' WHERE id %% 7 = %s", (choose.randrange(7),)
            )
        cursor.execute("SHOW MASTER STATUS")
        [(file, end, *_)] = cursor.fetchall()
        written = BinlogPosition(file, end)
        read = self.shop.position
        wait_until(
            lambda: is_at_least(BinlogPosition.from_json(read(self.fetch) or ""), written),
            "the fetch task to read all",
            240,
        )

    @contextmanager
    def held_at_work(self, load: TaskProcess) -> Iterator[None]:
        """Starts a consumer task; during the block both its partitions wait for locks in PostgreSQL."""
        target, name = self.shop.addresses.postgresql, self.shop.name
        with (
            psycopg.connect(
                host=target.host,
                port=target.port,
                user=target.user,
                password=target.password,
                dbname=target.database,
            ) as holding,
            holding.cursor() as cursor,
        ):
            cursor.execute(f'LOCK TABLE {name}."orders", {name}."log" IN SHARE MODE'.encode())
            waiting = (
                "SELECT COUNT(*) FROM pg_locks WHERE NOT granted AND "
                f"relation::regclass::text LIKE '{name}.%'"
            )
            load.start()
            wait_until(
                lambda: self.shop.postgresql(waiting) == [(2,)],
                "both partitions to be written",
                360,
            )
            yield

    def assert_arrived(self, load: TaskProcess) -> None:
        """Asserts that the consumer task applies everything, each change once, without unexpected
        errors."""
        wait_until(lambda: self.shop.is_applied(load), "the consumer task to apply everything", 360)
        for table in ("orders", "log"):
            rows = self.shop.rows(table)
            assert len(rows["source"]) > 500
            assert rows["postgresql"] == rows["source"]
        assert "Traceback" not in load.log.read_text()
