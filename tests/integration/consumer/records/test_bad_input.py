"""What an operator gets wrong: each is one sentence, exit code 1, and no position moves."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from pymysql.cursors import Cursor

from cdcbus.ops.cli.main import main
from cdcbus.ops.demo.tasks import TaskProcess
from cdcbus.ops.stack.addresses import Addresses
from cdcbus.plugins.converters.canal_row import CanalRow
from cdcbus.plugins.rowchange import Column, Op, RowChange, Table, TableId
from tests.support.changes.shop import Shop, open_shop
from tests.support.topics.kafka_producer import kafka_producer
from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration


@pytest.fixture
def shop(
    name: str,
    stack: Addresses,
    source_cursor: Cursor,
    make_topic: Callable[..., str],
    tmp_path: Path,
) -> Iterator[Shop]:
    make_topic(name)
    with open_shop(name, stack, source_cursor, tmp_path) as shop:
        shop.create("orders", "id INT PRIMARY KEY, name VARCHAR(40)")
        yield shop


def refused(shop: Shop, task: TaskProcess) -> str:
    """Runs a task that ends by itself with exit code 1; gives the sentence on its last line."""
    before = shop.position(task)
    task.start()
    assert task._process is not None
    assert task._process.wait(90) == 1
    text = task.log.read_text()
    assert "Traceback" not in text
    assert shop.position(task) == before
    return task.last_lines(1)[0]


INCLUDES = "consumer__includes"


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        (
            {"consumer__source__topics": "no-such-topic"},
            ["no-such-topic", "consumer.source.topics"],
        ),
        ({"consumer__source__servers": "127.0.0.1:9"}, ["Kafka", "127.0.0.1:9"]),
        ({"consumer__source__partition": "7"}, ["partition 7", "only 0 to 0"]),
        (
            {"loader__source__password": "wrong"},
            ["authentication failed", "loader.source.userName, its password"],
        ),
        (
            {"loader__source__url": "jdbc:postgresql://no-such-host.invalid:5432/cdc"},
            ["no-such-host.invalid"],
        ),
        ({"loader__source__url": "jdbc:postgresql://127.0.0.1:9/cdc"}, ["127.0.0.1:9"]),
        ({INCLUDES: "SHOP.NO_SUCH_TABLE"}, ["SHOP.NO_SUCH_TABLE", "mapper[i].table"]),
        (
            {"consumer__source__firstConsumeFrom": ""},
            ["consumer.offset", "firstConsumeFrom=earliest"],
        ),
        ({"consumer__offset": "5000"}, ["5001", "holds 0 to 0", "allowOffsetReset"]),
        (
            {"consumer__convertor": "canalRow", "consumer__converter": "canalRowe"},
            ["unknown key", "looks like consumer.converter"],
        ),
        ({"consumer__converter": "canalRowe"}, ["canalRowe", "canalRow"]),
    ],
)
def test_a_consumer_task_with_a_wrong_key_says_what_to_do(
    shop: Shop, keys: dict[str, str], words: list[str]
) -> None:
    sentence = refused(shop, shop.load("postgresql", **keys))
    assert all(word in sentence for word in words), sentence


@pytest.mark.parametrize(
    "text",
    ["{", '{"offset":"41"}', '{"offset":1,"partition":0,"topic":"other"}', "mysql-bin.000001:4"],
)
def test_a_malformed_position_is_named_with_its_path(shop: Shop, text: str) -> None:
    task = shop.load("postgresql")
    shop.zookeeper.create(shop.path(task), text.encode(), makepath=True)
    assert shop.path(task) in refused(shop, task)


def test_a_column_that_the_target_lacks_holds_the_task_up_until_it_is_there(shop: Shop) -> None:
    shop.cursor.execute("ALTER TABLE orders ADD COLUMN note VARCHAR(20)")
    fetch = shop.fetch(shop.addresses.source)
    fetch.start()
    wait_until(lambda: shop.position(fetch) is not None, "the fetch task's first position")
    shop.cursor.execute("INSERT INTO orders VALUES (1, 'a', 'secret text'), (2, 'b', NULL)")
    load = shop.load("postgresql")
    load.start()
    wait_until(lambda: "trying again" in load.log.read_text(), "the task to name the column")
    remedy = re.search(r"add it \((ALTER TABLE .*? ADD COLUMN .*?)\), rename", load.log.read_text())
    assert remedy is not None
    assert shop.rows("orders")["postgresql"] == []
    shop.postgresql(remedy[1])
    wait_until(lambda: shop.is_applied(load), "the task to go on by itself")
    assert shop.rows("orders")["postgresql"] == shop.rows("orders")["source"]
    assert "secret text" not in load.log.read_text()


def test_what_cannot_be_applied_becomes_dead_letters_and_the_rest_goes_on(shop: Shop) -> None:
    shop.postgresql(f"ALTER TABLE {shop.name}.orders ALTER name TYPE VARCHAR(5)")
    producer = kafka_producer(shop.addresses.kafka)
    table = Table(
        TableId(shop.name, "orders"), (Column("id", "int"), Column("name", "varchar(40)")), ("id",)
    )
    rows = [
        {"id": "1", "name": "good"},
        {"id": "2", "name": "too long"},
        {"id": "3", "name": "late"},
    ]
    records = [CanalRow().to_bytes(RowChange(table, Op.INSERT, None, row)) for row in rows]
    for row_key, value in enumerate((b"garbage", *records)):
        producer.produce(shop.name, value, b"%d" % row_key)
    assert producer.flush(30) == 0
    keys = {"loader__onError": "deadletter", "loader__deadletterTopic": f"{shop.name}-dead"}
    load = shop.load("postgresql", **keys)
    load.start()
    wait_until(lambda: shop.is_applied(load), "the task to apply what it can")
    assert shop.postgresql(f"SELECT id FROM {shop.name}.orders ORDER BY id") == [(1,), (3,)]
    listed = CliRunner().invoke(main, ["dlq", "list", str(load.file), "--json"])
    assert [(each["offset"], each["partition"]) for each in json.loads(listed.output)] == [
        (0, 0),
        (2, 0),
    ]
    assert f"{shop.name}.orders 3 rows (2 inserted, 1 failed, " in load.log.read_text()

    shop.postgresql(f"ALTER TABLE {shop.name}.orders ALTER name TYPE VARCHAR(40)")
    runner = CliRunner(env={"CDCBUS_ZOOKEEPER": shop.addresses.zookeeper})
    assert (
        runner.invoke(
            main, ["dlq", "replay", str(load.file), f"{shop.name}/0/2", "--yes"]
        ).exit_code
        == 0
    )
    wait_until(
        lambda: shop.is_applied(load) and len(shop.ends()) == 1 and shop.ends()[0] == 5,
        "the replayed record",
    )
    assert shop.postgresql(f"SELECT id, name FROM {shop.name}.orders ORDER BY id") == [
        (1, "good"),
        (2, "too long"),
        (3, "late"),
    ]
