"""What the clients of a task's brokers have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import starmap
from typing import Any, TypeVar

import confluent_kafka
from confluent_kafka import KafkaException

from cdcbus.plugins.kafka.client.errors import not_made
from cdcbus.plugins.positions import TopicPartition

Client = TypeVar("Client")
LARGEST_BYTES = 1 << 30
"""The largest response that a client of records takes: a record can be larger than librdkafka
expects."""


def make_client(kind: Callable[[dict[str, Any]], Client], options: dict[str, Any]) -> Client:
    """A Consumer or a Producer. Raises ConfigError for settings that it does not know, and
    BusUnavailable."""
    try:
        return kind(options)
    except KafkaException as error:
        raise not_made(error) from error


def as_client_takes(partitions: Iterable[TopicPartition]) -> list[confluent_kafka.TopicPartition]:
    """Partitions without an offset."""
    return list(starmap(confluent_kafka.TopicPartition, partitions))


def at_offsets(offsets: Mapping[TopicPartition, int]) -> list[confluent_kafka.TopicPartition]:
    """Partitions, each with its offset."""
    return [
        confluent_kafka.TopicPartition(*partition, offset) for partition, offset in offsets.items()
    ]
