"""Records that a fetch process sends after it has lost its lock: whole tasks, real servers on both ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Message, Producer
from pymysql.cursors import Cursor

from cdcbus.ops.demo.tasks import TaskProcess
from cdcbus.ops.stack.addresses import Addresses
from tests.integration.producer.running import messages
from tests.support.shop import Shop, open_shop
from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration


@pytest.fixture
def shop(name: str, stack: Addresses, source_cursor: Cursor, make_topic: Callable[..., str], tmp_path: Path) -> Iterator[Shop]:
    make_topic(name)
    with open_shop(name, stack, source_cursor, tmp_path) as shop:
        yield shop


def ran(shop: Shop, is_ogg: str, *statements: str) -> TaskProcess:
    """A fetch process that has the statements in Kafka, and has ended."""
    fetch, before = shop.fetch(shop.addresses.source, loader__source__oggJson=is_ogg), shop.ends()[0]
    log = len(fetch.log.read_text()) if fetch.log.exists() else 0
    fetch.start()
    wait_until(lambda: "reads the binlog from" in fetch.log.read_text()[log:], "the fetch task to read")
    for statement in statements:
        shop.cursor.execute(statement)
    wait_until(lambda: shop.ends()[0] > before, "the records")
    fetch.ask_to_stop()
    assert fetch.await_stop() == 0
    return fetch


def sent_late(shop: Shop, records: list[Message]) -> None:
    """What librdkafka still has of a process that was paused."""
    producer = Producer({"bootstrap.servers": shop.addresses.kafka})
    for record in records:
        producer.produce(shop.name, record.value(), record.key())
    assert producer.flush(30) == 0


@pytest.mark.parametrize("is_ogg", ["false", "true"], ids=["canalRow", "oggJson"])
def test_a_record_of_a_process_that_has_lost_its_lock_does_not_win(shop: Shop, is_ogg: str) -> None:
    """It starts four tasks on Spark and two without, hence some 40 s: a late record must lose in a batch with its successor, in a later
    one, and behind the place where a task starts."""
    shop.create("orders", "id INT PRIMARY KEY, name VARCHAR(40)")
    converter = {"consumer__converter": "oggJson" if is_ogg == "true" else "canalRow"}
    ran(shop, is_ogg, "INSERT INTO orders VALUES (1, 'old'), (2, 'old')")
    late = messages(shop.addresses.kafka, shop.name)
    ran(shop, is_ogg, "UPDATE orders SET name = 'new'")
    loads = [shop.load(target, **converter) for target in ("postgresql", "mariadb")]
    loads[0].start()
    wait_until(lambda: shop.is_applied(loads[0]), "the first to apply all")
    sent_late(shop, late)
    loads[1].start()
    for load in loads:
        wait_until(lambda load=load: shop.is_applied(load), "all to be applied")  # type: ignore[misc]
        assert "2 records from offset 4 on are left out" in load.log.read_text()
    loads[0].ask_to_stop()
    assert loads[0].await_stop() == 0
    sent_late(shop, late)
    loads[0].start()
    for load in loads:
        wait_until(lambda load=load: shop.is_applied(load), "all to be applied")  # type: ignore[misc]
        assert "2 records from offset 6 on are left out" in load.log.read_text()
    rows = shop.rows("orders")
    assert rows["source"] == rows["postgresql"] == rows["mariadb"] == [(1, "new"), (2, "new")]
