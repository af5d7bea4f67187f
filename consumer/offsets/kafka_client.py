"""What the clients of a task's brokers have in common."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import starmap

import confluent_kafka

from cdcbus.plugins.positions import TopicPartition

LARGEST_BYTES = 1 << 30
"""The largest response that a client of records takes: a record can be larger than librdkafka
expects."""


def as_client_takes(partitions: Iterable[TopicPartition]) -> list[confluent_kafka.TopicPartition]:
    """Partitions without an offset."""
    return list(starmap(confluent_kafka.TopicPartition, partitions))


def at_offsets(offsets: Mapping[TopicPartition, int]) -> list[confluent_kafka.TopicPartition]:
    """Partitions, each with its offset."""
    return [
        confluent_kafka.TopicPartition(*partition, offset) for partition, offset in offsets.items()
    ]
