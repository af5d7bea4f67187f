"""What a reader of committed records sees in a topic."""

from __future__ import annotations

from typing import Any

import orjson
from confluent_kafka import Consumer, KafkaError, Message, TopicPartition


def committed(kafka: str, topic: str) -> list[Message]:
    """All committed records before the end, or before an open transaction, partition by
    partition."""
    options = {
        "isolation.level": "read_committed",
        "enable.partition.eof": True,
        "enable.auto.commit": False,
    }
    consumer = Consumer(
        {"bootstrap.servers": kafka, "group.id": "committed", "fetch.wait.max.ms": 10, **options}
    )
    try:
        partitions = list(consumer.list_topics(topic, timeout=30).topics[topic].partitions)
        consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
        found: list[Message] = []
        ended: set[int] = set()
        while len(ended) < len(partitions):
            message = consumer.poll(30)
            assert message is not None, f"{topic} cannot be read to its end"
            error = message.error()
            if error is None:
                found.append(message)
            else:
                assert error.code() == KafkaError._PARTITION_EOF, error
                ended.add(message.partition() or 0)
        return sorted(found, key=lambda message: (message.partition(), message.offset()))
    finally:
        consumer.close()


def committed_canal(kafka: str, topic: str) -> list[dict[str, Any]]:
    """The same for a canalRow topic, as JSON."""
    return [orjson.loads(message.value() or b"") for message in committed(kafka, topic)]
