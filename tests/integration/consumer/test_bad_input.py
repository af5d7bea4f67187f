"""What an operator gets wrong: each is one sentence, exit code 1, and no position moves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pymysql.cursors import Cursor

from cdcbus.ops.demo.tasks import TaskProcess
from cdcbus.ops.stack.addresses import Addresses
from cdcbus.plugins.position import KafkaPosition, kafka_positions_to_json
from tests.support.shop import Shop, open_shop
from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration


@pytest.fixture
def shop(name: str, stack: Addresses, source_cursor: Cursor, make_topic: Callable[..., str], tmp_path: Path) -> Iterator[Shop]:
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
        ({"consumer__source__topics": "no-such-topic"}, ["no-such-topic", "consumer.source.topics"]),
        ({"consumer__source__servers": "127.0.0.1:9"}, ["Kafka", "127.0.0.1:9"]),
        ({"consumer__source__partition": "7"}, ["partition 7", "only 0 to 0"]),
        ({"loader__source__password": "wrong"}, ["authentication failed", "check loader.source.userName"]),
        ({"loader__source__url": "jdbc:postgresql://no-such-host.invalid:5432/cdc"}, ["no-such-host.invalid"]),
        ({"loader__source__url": "jdbc:postgresql://127.0.0.1:9/cdc"}, ["127.0.0.1:9"]),
        ({INCLUDES: "SHOP.NO_SUCH_TABLE"}, ["SHOP.NO_SUCH_TABLE", "mapper[i].table"]),
        ({"consumer__source__firstConsumeFrom": ""}, ["consumer.offset", "firstConsumeFrom=earliest"]),
        ({"consumer__offset": "5000"}, ["5001", "holds 0 to 0", "allowOffsetReset"]),
        ({"consumer__convertor": "canalRow", "consumer__converter": "canalRowe"}, ["canalRowe", "canalRow"]),
    ],
)
def test_a_consumer_task_with_a_wrong_key_says_what_to_do(shop: Shop, keys: dict[str, str], words: list[str]) -> None:
    sentence = refused(shop, shop.load("postgresql", **keys))
    assert all(word in sentence for word in words), sentence


@pytest.mark.parametrize("text", ["{", '{"offset":"41"}', '{"offset":1,"partition":0,"topic":"other"}', "mysql-bin.000001:4"])
def test_a_malformed_position_is_named_with_its_path(shop: Shop, text: str) -> None:
    task = shop.load("postgresql")
    shop.zookeeper.create(shop.path(task), text.encode(), makepath=True)
    assert shop.path(task) in refused(shop, task)


def test_a_column_that_the_target_lacks_stops_the_task_with_the_cure(shop: Shop) -> None:
    shop.cursor.execute("ALTER TABLE orders ADD COLUMN note VARCHAR(20)")
    fetch = shop.fetch(shop.addresses.source)
    fetch.start()
    wait_until(lambda: shop.position(fetch) is not None, "the fetch task's first position")
    shop.cursor.execute("INSERT INTO orders VALUES (1, 'a', 'secret text')")
    load = shop.load("postgresql")
    shop.zookeeper.create(shop.path(load), kafka_positions_to_json([KafkaPosition(shop.name, 0, -1)]).encode(), makepath=True)
    sentence = refused(shop, load)
    assert "note" in sentence
    assert "ADD COLUMN" in sentence
    assert "secret text" not in sentence
