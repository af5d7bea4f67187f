from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import TopicPartition
from pymysql.cursors import Cursor

from cdcbus.ops.stack.addresses import Addresses
from tests.support.shop import open_shop
from tests.support.two_tables import TwoTables


@pytest.fixture
def cut_topic(name: str, kafka: str, make_topic: Callable[..., str]) -> str:
    """A topic of one partition that holds the offsets 5 to 9."""
    make_topic(name)
    producer = Producer({"bootstrap.servers": kafka})
    for _ in range(10):
        producer.produce(name, b"x", partition=0)
    assert producer.flush(30) == 0
    admin = AdminClient({"bootstrap.servers": kafka})
    [deleted] = admin.delete_records([TopicPartition(name, 0, 5)]).values()
    assert deleted.result(60).low_watermark == 5
    return name


@pytest.fixture
def tables(name: str, stack: Addresses, source_cursor: Cursor, make_topic: Callable[..., str], tmp_path: Path) -> Iterator[TwoTables]:
    make_topic(name, 2)
    with open_shop(name, stack, source_cursor, tmp_path) as shop:
        yield TwoTables.make(shop)
