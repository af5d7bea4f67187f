"""Records that a fetch process sends after it has lost its lock: whole tasks, real servers on
both ends."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import orjson
import pytest
from confluent_kafka import Message

from cdcbus.ops.demo.tasks import TaskProcess
from cdcbus.ops.stack import processes
from cdcbus.plugins.positions import BinlogPosition
from tests.integration.producer.reading import is_at_least, position
from tests.integration.producer.running import messages
from tests.support.changes.shop import Shop
from tests.support.topics.kafka_producer import kafka_producer
from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration
PARTITIONS = 1

ROWS = 10_000
IN_FLIGHT = 8 << 20  # more than sockets and brokers take before they answer


def ran(shop: Shop, is_ogg: str, *statements: str) -> TaskProcess:
    """A fetch process that has the statements in Kafka, and has ended."""
    fetch, before = (
        shop.fetch(shop.addresses.source, loader__source__oggJson=is_ogg),
        shop.ends()[0],
    )
    log = len(fetch.log.read_text()) if fetch.log.exists() else 0
    fetch.start()
    wait_until(
        lambda: "reads the binlog from" in fetch.log.read_text()[log:], "the fetch task to read"
    )
    for statement in statements:
        shop.cursor.execute(statement)
    wait_until(lambda: shop.ends()[0] > before, "the records")
    fetch.ask_to_stop()
    assert fetch.await_stop() == 0
    return fetch


def sent_late(shop: Shop, records: list[Message]) -> None:
    """What librdkafka still has of a process that was paused."""
    producer = kafka_producer(shop.addresses.kafka)
    for record in records:
        producer.produce(shop.name, record.value(), record.key())
    assert producer.flush(30) == 0


@pytest.mark.parametrize("is_ogg", ["false", "true"], ids=["canalRow", "oggJson"])
def test_a_record_of_a_process_that_has_lost_its_lock_does_not_win(shop: Shop, is_ogg: str) -> None:
    """It starts four tasks on Spark and two without, hence some 40 s: a late record must lose in
    a batch with its successor, in a later one, and behind the place where a task starts."""
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


def test_tasks_with_one_id_on_two_buses_fill_one_topic(shop: Shop) -> None:
    """As where each site has a ZooKeeper of its own and the same files. The epochs of one say
    nothing about the other, whose records would all be late."""
    fetches = []
    for number, table in enumerate(("first", "second")):
        shop.create(table, "id INT PRIMARY KEY")
        fetch = shop.fetch(
            shop.addresses.source,
            consumer__source__filter=f"{shop.name}\\\\.{table}",
            consumer__source__slaveId=str(771_000 + number),
        )
        fetch.file = fetch.file.rename(fetch.file.with_name(f"{table}.properties"))
        fetch.log = fetch.log.with_suffix(f".{table}.log")
        fetch.environment["CDCBUS_ZOOKEEPER"] += f"/{shop.name}-{table}"
        fetches.append(fetch)
        fetch.start()
        wait_until(
            lambda log=fetch.log: "reads the binlog from" in log.read_text(),  # type: ignore[misc]
            "the fetch task to read",
        )
    for number in range(3):
        for table in ("second", "first"):
            before = shop.ends()[0]
            shop.cursor.execute(f"INSERT INTO {table} VALUES ({number})")
            wait_until(lambda before=before: shop.ends()[0] > before, "the record")  # type: ignore[misc]
    load = shop.load("postgresql")
    load.start()
    wait_until(lambda: shop.is_applied(load), "all to be applied")
    for table in ("first", "second"):
        assert shop.rows(table)["postgresql"] == [(0,), (1,), (2,)]


def late(kafka: str, topic: str) -> int:
    """Records behind those of a later epoch."""
    highest, count = "", 0
    for record in messages(kafka, topic):
        epoch = orjson.loads(record.value() or b"{}")["epoch"].partition("-")[0]
        count += epoch < highest
        highest = max(highest, epoch)
    return count


# Stands for a machine so busy that librdkafka's threads run long before Python's main thread does.
SLOW = """
import time
from cdcbus.tasks.zookeeper.lock import Guard
init = Guard.__init__
Guard.__init__ = lambda self, client, on_lost, *more: init(self, client, lambda: (time.sleep(5), on_lost()), *more)
"""


@pytest.mark.parametrize("is_slow", [False, True], ids=["ends at once", "ends late"])
def test_a_fetch_process_that_is_paused_with_records_in_its_queue_loses_no_row(
    shop: Shop, stack_home: Path, tmp_path: Path, is_slow: bool
) -> None:
    """Without transactions. It is stopped by SIGSTOP while Kafka does not answer, so that its
    queue is full; another process takes over and brings a newer state of each row; then the
    first one goes on. Some 30 s: the lock's lease, and a start of Spark."""
    shop.create("orders", "id INT PRIMARY KEY, state INT, filling VARCHAR(2000)")
    first, second = shop.fetch(shop.addresses.source), shop.fetch(shop.addresses.source)
    second.log = first.log.with_suffix(".second.log")
    if is_slow:
        (tmp_path / "sitecustomize.py").write_text(SLOW, encoding="utf-8")
        first.environment["PYTHONPATH"] = str(tmp_path)
    first.start()
    wait_until(
        lambda: first.log.exists() and "reads the binlog from" in first.log.read_text(),
        "the first to read",
    )
    # which does not get smaller
    filling = ", ".join(f"SHA2(i + {number}, 256)" for number in range(16))
    digits = f"({' UNION ALL '.join(f'SELECT {digit} d' for digit in range(10))})"
    numbers = (
        f"(SELECT 1 + a.d + 10 * b.d + 100 * c.d + 1000 * e.d i FROM {digits} a, {digits} "
        f"b, {digits} c, {digits} e)"
    )
    shop.cursor.execute(f"INSERT INTO orders SELECT i, 0, CONCAT({filling}) FROM {numbers} n")
    wait_until(lambda: shop.ends()[0] == ROWS, "the rows in Kafka")
    end = position(shop.cursor)

    def is_stored() -> bool:
        stored = shop.position(first)
        return stored is not None and is_at_least(BinlogPosition.from_json(stored), end)

    # Else the position of these rows falls due among the next ones, and is waited for: as long as
    # Kafka is away no more is read then than what the queue has already.
    wait_until(is_stored, "the position of the rows to be stored")
    stat = f"/datas/task/{first.task_id}/stat"
    broker = processes.pid(stack_home / "kafka")
    assert broker is not None
    os.kill(broker, signal.SIGSTOP)
    try:
        shop.cursor.execute("UPDATE orders SET state = 1")
        wait_until(
            lambda: (orjson.loads(shop.zookeeper.get(stat)[0])["queuedBytes"] or 0) > IN_FLIGHT,
            "records in the queue",
        )
        os.kill(first.pid, signal.SIGSTOP)
    finally:
        os.kill(broker, signal.SIGCONT)
    second.start()
    wait_until(
        lambda: second.log.exists() and "reads the binlog from" in second.log.read_text(),
        "the second to have the lock",
    )
    shop.cursor.execute("UPDATE orders SET state = 2")
    wait_until(
        lambda: b'"state":"2"' in (messages(shop.addresses.kafka, shop.name)[-1].value() or b""),
        "the newest state in Kafka",
    )
    os.kill(first.pid, signal.SIGCONT)
    wait_until(lambda: "is held by process" in first.log.read_text(), "the first to have noticed")
    came_late = late(shop.addresses.kafka, shop.name)
    print(f"{came_late} late records")
    assert came_late or not is_slow  # else the rest of this test would say nothing
    loads = [shop.load(target) for target in ("postgresql", "mariadb")]
    for load in loads:
        load.start()
    for load in loads:
        wait_until(lambda load=load: shop.is_applied(load), "all to be applied")  # type: ignore[misc]
    rows = shop.rows("orders")
    assert rows["source"] == rows["postgresql"] == rows["mariadb"]
    assert [row[:2] for row in rows["source"]] == [(number, 2) for number in range(1, ROWS + 1)]
    for load in loads:
        told = re.findall(r" (\d+) records from offset \d+ on are left out", load.log.read_text())
        assert sum(map(int, told)) == came_late
