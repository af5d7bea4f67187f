from collections.abc import Callable

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import TopicPartition

from tests.support.topics.kafka_producer import kafka_producer


@pytest.fixture
def cut_topic(name: str, kafka: str, make_topic: Callable[..., str]) -> str:
    """A topic of one partition that holds the offsets 5 to 9."""
    make_topic(name)
    producer = kafka_producer(kafka)
    for _ in range(10):
        producer.produce(name, b"x", partition=0)
    assert producer.flush(30) == 0
    admin = AdminClient({"bootstrap.servers": kafka})
    [deleted] = admin.delete_records([TopicPartition(name, 0, 5)]).values()
    assert deleted.result(60).low_watermark == 5
    return name
