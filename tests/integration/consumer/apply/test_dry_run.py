"""A dry run as a task: it says what it would do, also of what it could not, and changes neither
the target nor a position."""

from __future__ import annotations

import json

import pytest
from confluent_kafka.admin import AdminClient

from tests.support.changes.shop import Shop
from tests.support.topics.kafka_producer import kafka_producer
from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration
PARTITIONS = 1


@pytest.mark.parametrize("target", ["postgresql", "mariadb"])
def test_a_dry_run_says_what_it_would_do_and_does_nothing(shop: Shop, target: str) -> None:
    shop.create("notes", "id INT PRIMARY KEY, note VARCHAR(9)")
    producer = kafka_producer(shop.addresses.kafka)
    for number in range(6):
        record = {
            "data": [{"id": str(number), "note": "private"}],
            "database": shop.name,
            "table": "notes",
            "type": "INSERT",
            "pkNames": ["id"],
            "isDdl": False,
            "mysqlType": {"id": "int", "note": "varchar(9)"},
        }
        producer.produce(shop.name, "no JSON" if number == 3 else json.dumps(record))
    assert producer.flush(60) == 0
    dead = f"{shop.name}-dead"
    keys = {
        "loader__loaderName": "JdbcSqlDebug",
        "loader__onError": "deadletter",
        "loader__deadletterTopic": dead,
    }
    load = shop.load(target, **keys)
    load.start()

    def is_told() -> bool:
        load.check()
        return "6 records (" in load.log.read_text()

    wait_until(is_told, "the batch to be told")
    load.ask_to_stop()
    assert load.await_stop() == 0
    log = load.log.read_text()
    assert "would run, for 5 rows: INSERT INTO" in log
    assert f"record {shop.name}/0/3 would become a dead letter: " in log
    assert "private" not in log
    assert not any(shop.rows("notes").values())
    assert shop.position(load) is None
    assert (
        dead
        not in AdminClient({"bootstrap.servers": shop.addresses.kafka})
        .list_topics(timeout=30)
        .topics
    )
    run = getattr(shop, target)
    stored = (
        "SELECT table_name FROM information_schema.tables WHERE table_name = "
        f"'cdcbus_position' AND table_schema = '{shop.name}'"
    )
    assert run(stored) == []
