"""Rows of several partitions that share unique values and foreign keys: partitions wait for each
other, and both targets end like the source."""

from __future__ import annotations

import random
import time
from dataclasses import replace

import pytest
from pymysql.cursors import Cursor

from cdcbus.ops.demo.measure import is_at_least
from cdcbus.plugins.converters.canal_row import CanalRow
from cdcbus.plugins.positions import BinlogPosition, KafkaPosition, kafka_positions_to_json
from cdcbus.plugins.rowchange import Column, Op, Row, RowChange, Table, TableId
from tests.integration.consumer.apply.test_together import Source
from tests.support.changes.shop import Shop
from tests.support.clusters.bulk_gear import with_eager_spark
from tests.support.topics.kafka_producer import kafka_producer
from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration
PARTITIONS, EXCHANGES = 3, 200


def change_rows(cursor: Cursor, seed: int) -> None:
    """Users hand names to each other, come and go under new keys, and have orders as long as
    they are there."""
    choose = random.Random(seed)
    for number in range(150):
        one, other = choose.sample(range(12), 2)
        cursor.execute("BEGIN")
        match choose.randrange(5):
            case 0:
                cursor.execute(
                    "INSERT IGNORE INTO users VALUES (%s, %s, 'new')",
                    (one, f"name {choose.randrange(20)}"),
                )
            case 1:  # they exchange their names
                cursor.execute("SELECT id, name FROM users WHERE id IN (%s, %s)", (one, other))
                if len(pair := dict(cursor.fetchall())) == 2:
                    cursor.execute(
                        "UPDATE users SET name = %s WHERE id = %s", (f"taken {number}", one)
                    )
                    cursor.execute("UPDATE users SET name = %s WHERE id = %s", (pair[one], other))
                    cursor.execute("UPDATE users SET name = %s WHERE id = %s", (pair[other], one))
            case 2:
                cursor.execute(
                    "INSERT INTO orders SELECT %s, id FROM users WHERE id = %s", (number, one)
                )
            case 3:  # gone, and back under another key with the same name
                cursor.execute("SELECT name FROM users WHERE id = %s", (one,))
                if found := cursor.fetchone():
                    cursor.execute("DELETE FROM orders WHERE user = %s", (one,))
                    cursor.execute("DELETE FROM users WHERE id = %s", (one,))
                    cursor.execute(
                        "INSERT IGNORE INTO users VALUES (%s, %s, 'again')", (other, found[0])
                    )
            case _:
                there = "EXISTS (SELECT 1 FROM users WHERE id = %s)"
                cursor.execute(
                    f"UPDATE orders SET user = %s WHERE user = %s AND {there}", (other, one, other)
                )
        cursor.execute("COMMIT")


def test_rows_that_share_unique_values_and_foreign_keys_may_be_in_any_partition_and_come_again(
    shop: Shop,
) -> None:
    shop.create("users", "id INT PRIMARY KEY, name VARCHAR(40) UNIQUE, note VARCHAR(9)")
    shop.create("orders", "id INT PRIMARY KEY, user INT, FOREIGN KEY (user) REFERENCES "
                          f"{shop.name}.users (id)",
                'id INT PRIMARY KEY, "user" INT, FOREIGN KEY ("user") REFERENCES '
                f'{shop.name}.users (id)')  # fmt: skip
    fetch = shop.fetch(shop.addresses.source)
    fetch.start()
    wait_until(lambda: shop.position(fetch) is not None, "the fetch task's first position")
    # the first one by executors
    loads = [
        with_eager_spark(shop.load("postgresql", consumer__source__maxRecordsPerBatch="50")),
        shop.load("mariadb"),
    ]
    for seed in range(3):
        change_rows(shop.cursor, seed)
        if seed == 0:
            for load in loads:
                load.start()
    shop.cursor.execute("SHOW MASTER STATUS")
    [(file, end, *_)] = shop.cursor.fetchall()
    written = BinlogPosition(file, end)
    wait_until(
        lambda: is_at_least(BinlogPosition.from_json(shop.position(fetch) or ""), written),
        "the fetch task to read everything",
    )

    def assert_equal() -> None:
        wait_until(lambda: all(map(shop.is_applied, loads)), "all to be applied")
        for table in ("users", "orders"):
            rows = shop.rows(table)
            assert rows["source"], table
            assert rows["mariadb"] == rows["postgresql"] == rows["source"], table

    assert_equal()
    back = kafka_positions_to_json(
        KafkaPosition(shop.name, partition, -1) for partition in range(PARTITIONS)
    ).encode()
    for load in loads:
        shop.zookeeper.set(shop.path(load), back)
        wait_until(
            lambda load=load: "set by somebody else" in load.log.read_text(),  # type: ignore[misc]
            "the task to notice the edit",
        )
    assert_equal()


USERS = Table(
    TableId("shop", "users"), (Column("id", "int"), Column("name", "varchar(40)")), ("id",)
)


def user(key: int, name: str) -> Row:
    return {"id": str(key), "name": name}


def test_rows_that_exchange_unique_values_across_partitions_get_on_where_executors_apply_the_partitions(
    shop: Shop,
) -> None:
    """Each executor has one partition, and waits, as each exchange is a ring through all of them;
    then the driver applies them together. More than 20 s: Spark starts twice for each of two
    targets."""
    source = Source(replace(USERS, id=TableId(shop.name, "users")))
    producer, sent = kafka_producer(shop.addresses.kafka), [0] * PARTITIONS

    def send() -> None:
        for number, partition in enumerate(source.partitions):
            for _, value in partition[sent[number] :]:
                producer.produce(shop.name, value, partition=number)
            sent[number] = len(partition)
        assert producer.flush(30) == 0

    shop.create("users", "id INT PRIMARY KEY, name VARCHAR(40) NOT NULL UNIQUE")
    for key in range(3 * EXCHANGES):
        source.put(key, f"name {key}")
    send()
    loads = [
        with_eager_spark(shop.load(target, consumer__source__maxRecordsPerBatch="300"))
        for target in ("postgresql", "mariadb")
    ]
    for load in loads:
        load.start()
    for load in loads:
        wait_until(lambda load=load: shop.is_applied(load), "the rows")  # type: ignore[misc]
        load.kill()
    for at in range(EXCHANGES):
        source.rotate(range(at * 3, at * 3 + 3), f"between {at}")
    send()
    for load in loads:
        load.start()
    for load in loads:
        wait_until(lambda load=load: shop.is_applied(load), "the exchanges")  # type: ignore[misc]
        assert "executors have no part in the next batches" in load.log.read_text()
    rows = shop.rows("users")
    assert rows["mariadb"] == rows["postgresql"] == sorted(source.rows.items())


class Partitions:
    """Puts changes of users into partitions of the shop's topic."""

    def __init__(self, shop: Shop) -> None:
        self._shop = shop
        self._producer = kafka_producer(shop.addresses.kafka)
        shop.postgresql(f"CREATE TABLE {shop.name}.users (id INT PRIMARY KEY, name TEXT UNIQUE)")

    def put(
        self,
        partition: int,
        op: Op,
        before: Row | None,
        after: Row | None,
        age_seconds: float = 0.0,
    ) -> None:
        table = Table(TableId(self._shop.name, "users"), USERS.columns, USERS.key)
        value = CanalRow().to_bytes(RowChange(table, op, before, after))
        self._producer.produce(
            self._shop.name,
            value,
            partition=partition,
            timestamp=int((time.time() - age_seconds) * 1000),
        )
        assert self._producer.flush(30) == 0

    def rows(self) -> list[tuple[int, str]]:
        return sorted(self._shop.postgresql(f"SELECT * FROM {self._shop.name}.users"))


def test_a_partition_waits_for_what_another_one_is_still_to_bring(shop: Shop) -> None:
    partitions = Partitions(shop)
    partitions.put(0, Op.INSERT, None, user(1, "x"))
    load = shop.load("postgresql")
    load.start()
    wait_until(lambda: partitions.rows() == [(1, "x")], "the first user")
    partitions.put(1, Op.INSERT, None, user(2, "x"))
    reason = f"record {shop.name}[1]@0: "
    wait_until(
        lambda: f"task {load.task_id}: {reason}" in load.log.read_text(), "the partition to wait"
    )
    partitions.put(2, Op.INSERT, None, user(3, "y"))
    wait_until(lambda: partitions.rows() == [(1, "x"), (3, "y")], "another partition to go on")
    partitions.put(0, Op.DELETE, user(1, "x"), None)
    wait_until(lambda: partitions.rows() == [(2, "x"), (3, "y")], "the partition to go on")
    wait_until(lambda: shop.is_applied(load), "the position")
    load.ask_to_stop()
    assert load.await_stop() == 0


def test_what_no_other_partition_can_unblock_any_more_stops_the_task_or_becomes_a_letter(
    shop: Shop,
) -> None:
    partitions = Partitions(shop)
    partitions.put(0, Op.INSERT, None, user(1, "x"), age_seconds=399)
    partitions.put(1, Op.INSERT, None, user(2, "x"), age_seconds=398)
    partitions.put(1, Op.INSERT, None, user(4, "z"), age_seconds=397)
    partitions.put(2, Op.INSERT, None, user(3, "y"))  # lately: all before it has been read
    shop.postgresql(f"INSERT INTO {shop.name}.users VALUES (9, 'q')")
    for partition in (0, 1):  # two partitions that both wait, each for the other
        partitions.put(
            partition, Op.INSERT, None, user(5 + partition, "q"), age_seconds=390 - partition
        )
    load = shop.load("postgresql")
    load.start()
    assert load._process is not None
    assert load._process.wait(120) == 1
    last = load.log.read_text().splitlines()[-1]
    assert f"record {shop.name}[1]@0: " in last or f"record {shop.name}[0]@0: " in last
    dead_letters = shop.load("postgresql", loader__onError="deadletter")
    dead_letters.start()
    wait_until(lambda: shop.is_applied(dead_letters), "the rest")
    rows = partitions.rows()
    assert len(rows) == 4
    assert {(3, "y"), (4, "z"), (9, "q")} < set(rows)
    dead_letters.ask_to_stop()
    assert dead_letters.await_stop() == 0
