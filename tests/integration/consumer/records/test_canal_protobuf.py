"""A topic that canal has written with `canal.mq.flatMessage=false`, and goes on with flat messages."""

from __future__ import annotations

from typing import Any

import pytest

from tests.integration.tasks.runtime.test_until import run
from tests.support.changes.shop import Shop
from tests.support.topics.canal_packets import encoded, flat, packet
from tests.support.topics.kafka_producer import kafka_producer

pytestmark = pytest.mark.integration
PARTITIONS = 1
TYPES = {
    "id": ("int", 4),
    "size": ("enum('small','it''s big')", 4),
    "made": ("timestamp(3)", 93),
    "raw": ("varbinary(9)", 2004),
}


def columns(*cells: str | None, old: dict[str, Any] | None = None) -> list[dict[str, Any]]:
    """An image of as many columns as there are cells, as canal writes it."""
    found = []
    for index, (name, cell) in enumerate(zip(TYPES, cells, strict=False)):
        mysql_type, sql_type = TYPES[name]
        column = {
            "index": index,
            "name": name,
            "isKey": name == "id",
            "updated": old is not None and old[name] != cell,
            "isNull": cell is None,
            "value": cell or "",
            "mysqlType": mysql_type,
            "sqlType": sql_type,
        }
        found.append(column)
    return found


def inserted(*cells: str | None) -> dict[str, Any]:
    return {"afterColumns": columns(*cells)}


def deleted(*cells: str | None) -> dict[str, Any]:
    return {"beforeColumns": columns(*cells)}


def updated(before: tuple[str | None, ...], after: tuple[str | None, ...]) -> dict[str, Any]:
    old = dict(zip(TYPES, before, strict=False))
    return {"beforeColumns": columns(*before), "afterColumns": columns(*after, old=old)}


def entry(shop: Shop, table: str, kind: str, *datas: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "header": {
            "logfileName": "mysql-bin.000007",
            "logfileOffset": 4711,
            "executeTime": 1_714_532_645_000,
            "schemaName": shop.name,
            "tableName": table,
        },
        "entryType": "ROWDATA",
        "storeValue": {"eventType": kind, "rowDatas": [*datas], **more},
    }


def mark(kind: str) -> dict[str, Any]:
    return {"header": {"executeTime": 1_714_532_645_000}, "entryType": kind}


def test_packets_and_the_flat_messages_behind_them_become_the_rows_of_the_source(
    shop: Shop,
) -> None:
    """Two tasks, as both the name of the form and `auto` are to read it: half a minute."""
    shop.create(
        "orders",
        "id INT PRIMARY KEY, size VARCHAR(20), made DATETIME(3), raw VARBINARY(9)",
        "id INT PRIMARY KEY, size VARCHAR(20), made TIMESTAMP(3), raw BYTEA",
    )
    shop.create("tags", "id INT PRIMARY KEY")
    time = "2024-05-01 08:00:00.500"  # of a JVM at +08:00
    first, second, third = ("1", "2", time, "\xff\0"), ("2", "1", None, ""), ("3", None, time, None)
    moved = ("20", *second[1:])
    history = [
        [
            mark("TRANSACTIONBEGIN"),
            entry(shop, "orders", "INSERT", inserted(*first), inserted(*second), inserted(*third)),
            entry(shop, "tags", "INSERT", inserted("7"), inserted("8")),
            mark("TRANSACTIONEND"),
        ],
        [
            entry(shop, "orders", "ALTER", isDdl=True, sql="ALTER TABLE orders COMMENT 'x'"),
            entry(shop, "orders", "UPDATE", updated(second, moved)),
            entry(shop, "tags", "TRUNCATE", isDdl=True, sql="TRUNCATE tags"),
            entry(shop, "tags", "INSERT", inserted("9")),
            entry(shop, "orders", "DELETE", deleted(*third)),
        ],
    ]
    later = entry(shop, "tags", "INSERT", inserted("10"))
    unreadable = encoded("Packet", {"version": 1, "type": "MESSAGES", "compression": "GZIP"})
    producer = kafka_producer(shop.addresses.kafka)
    for value in (packet(history[0]), unreadable, packet(history[1])):
        producer.produce(shop.name, value, partition=0)
    assert producer.flush(60) == 0
    keys = {
        "consumer__source__timeZone": "+08:00",
        "loader__onError": "deadletter",
        "loader__deadletterTopic": f"{shop.name}-dead",
    }
    said = run(shop.load("postgresql", consumer__converter="canalProtobuf", **keys))
    assert f"{shop.name}/0/1" in said, said
    assert sum(shop.ends(f"{shop.name}-dead").values()) == 1
    producer.produce(shop.name, flat([later])[0], partition=0)
    assert producer.flush(60) == 0
    run(shop.load("mariadb", consumer__converter="auto", **keys))
    orders, tags = shop.rows("orders"), shop.rows("tags")
    assert [(*row[:2], str(row[2]), row[3]) for row in orders["postgresql"]] == [
        (1, "it's big", "2024-05-01 00:00:00.500000", b"\xff\0"),
        (20, "small", "None", b""),
    ]
    assert orders["mariadb"] == orders["postgresql"]
    assert (tags["postgresql"], tags["mariadb"]) == ([(9,)], [(9,), (10,)])
