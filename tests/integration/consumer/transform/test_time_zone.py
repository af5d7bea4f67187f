"""A topic that a canal at +08:00 has written: TIMESTAMP cells in its clock's time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import orjson
import pytest
from pymysql.cursors import Cursor

from cdcbus.ops.stack.addresses import Addresses
from tests.integration.tasks.preflight.test_check import check, odd
from tests.support.changes.shop import Shop, open_shop
from tests.support.topics.kafka_producer import kafka_producer
from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration
SHANGHAI = timezone(timedelta(hours=8))
COLUMNS = "id INT PRIMARY KEY, made TIMESTAMP(3) NULL, due {} NULL"
ROWS = 40  # some by columns, where they could be


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
        shop.create("orders", COLUMNS.format("DATETIME(3)"), COLUMNS.format("TIMESTAMP(3)"))
        yield shop


def canal(shop: Shop, moment: datetime) -> Callable[[int], bytes]:
    """The record of a row that was made then, as canal in a JVM at +08:00 writes it."""
    made = moment.astimezone(SHANGHAI).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]

    def record(number: int) -> bytes:
        return orjson.dumps(
            {
                "data": [{"id": str(number), "made": made, "due": "2024-05-01 10:00:00.000"}],
                "database": shop.name,
                "es": int(moment.timestamp()) * 1000,
                "id": 7,
                "isDdl": False,
                "mysqlType": {"id": "int", "made": "timestamp(3)", "due": "datetime(3)"},
                "old": None,
                "pkNames": ["id"],
                "sql": "",
                "sqlType": {"id": 4, "made": 93, "due": 93},
                "table": "orders",
                "ts": int(moment.timestamp() * 1000),
                "type": "INSERT",
            }
        )

    return record


def send(shop: Shop, *values: bytes) -> None:
    producer = kafka_producer(shop.addresses.kafka)
    for value in values:
        producer.produce(shop.name, value, partition=0)
    assert producer.flush(30) == 0


def test_its_moments_are_told_by_check_and_right_at_the_targets_once_the_zone_is_named(
    shop: Shop,
) -> None:
    moment = datetime.now(UTC).replace(microsecond=123_000)
    send(shop, *map(canal(shop, moment), range(ROWS)))
    subject = f"times in {shop.name}"
    seen = check(shop, shop.load("postgresql"))
    assert odd(seen) == {subject: "warning"}
    assert "column made" in seen[subject][1] and "timeZone=+08:00" in seen[subject][1]
    zone = {"consumer__source__timeZone": "Asia/Shanghai"}
    assert odd(check(shop, shop.load("postgresql", **zone))) == {}
    loads = [shop.load(target, **zone) for target in ("postgresql", "mariadb")]
    for load in loads:
        load.start()
    wait_until(lambda: all(map(shop.is_applied, loads)), "the rows to be applied")
    made, due = moment.replace(tzinfo=None), datetime(2024, 5, 1, 10)
    expected = [(number, made, due) for number in range(ROWS)]
    rows = shop.rows("orders")
    assert rows["postgresql"] == rows["mariadb"] == expected


def ogg(shop: Shop, committed: float) -> bytes:
    """As porter or GoldenGate at +08:00 writes it."""
    op_ts = datetime.fromtimestamp(committed, SHANGHAI).strftime("%Y-%m-%d %H:%M:%S.%f")
    table, row = f"{shop.name}.orders", {"id": "1", "made": None, "due": None}
    return orjson.dumps({"table": table, "op_type": "I", "op_ts": op_ts, "after": row})


def test_op_ts_in_local_time_is_told_by_check(shop: Shop) -> None:
    send(shop, ogg(shop, time.time()))
    subject = f"times in {shop.name}"
    keys = {"consumer__converter": "oggJson"}
    seen = check(shop, shop.load("postgresql", **keys))
    assert odd(seen) == {subject: "warning"}
    assert "8 hours after Kafka received them" in seen[subject][1]
    keys["consumer__source__timeZone"] = "+08:00"
    assert odd(check(shop, shop.load("postgresql", **keys))) == {}
