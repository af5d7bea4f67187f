"""Queries Kafka without reading records, with one client for all tasks of this process that read
from the same brokers."""

from __future__ import annotations

import logging
from collections.abc import Collection
from contextlib import suppress
from threading import Lock
from typing import Any

import confluent_kafka
from confluent_kafka import IsolationLevel, KafkaException
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]

from cdcbus.consumer.config import TopicConfig
from cdcbus.plugins.errors import BusUnavailable
from cdcbus.plugins.positions import TopicPartition

_EARLIEST = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
_LATEST = OffsetSpec.latest()  # type: ignore[no-untyped-call]
_LIBRARY_LOG = logging.getLogger("cdcbus.librdkafka")
_CLIENTS: dict[tuple[tuple[str, str], ...], AdminClient] = {}
_MAKING = Lock()


def admin_of(source: TopicConfig) -> AdminClient:
    """The client for a source's brokers and settings; created at its first use."""
    options = {**source.look_up_options, "bootstrap.servers": source.servers}
    key = tuple(sorted(options.items()))
    with _MAKING:
        if key not in _CLIENTS:
            _CLIENTS[key] = AdminClient(dict[str, Any](options), logger=_LIBRARY_LOG)
        return _CLIENTS[key]


def bounds_of(
    source: TopicConfig, partitions: Collection[TopicPartition], answer_seconds: float
) -> dict[TopicPartition, tuple[int, int]]:
    """Of each partition the first offset that Kafka holds, and the end. Tasks of one process can
    ask concurrently. Raises BusUnavailable where Kafka does not answer for all of them."""
    admin = admin_of(source)
    asked = [confluent_kafka.TopicPartition(*partition) for partition in partitions]
    try:
        # Both requests are in flight together: an unavailable broker is waited for only once.
        firsts, ends = [
            admin.list_offsets(dict.fromkeys(asked, place), request_timeout=answer_seconds)
            for place in (_EARLIEST, _LATEST)
        ]
        return {
            TopicPartition(each.topic, each.partition): (
                firsts[each].result().offset,
                ends[each].result().offset,
            )
            for each in asked
        }
    except KafkaException as error:
        with suppress(KafkaException):
            # Without new metadata the client would query the old leader for minutes.
            admin.list_topics(timeout=answer_seconds)
        raise BusUnavailable(
            f"Kafka at {source.servers} does not tell the bounds of topics: {error.args[0].str()}"
        ) from error


def ends_of(
    source: TopicConfig, partitions: Collection[TopicPartition], answer_seconds: float
) -> dict[TopicPartition, Any]:
    """The ends of partitions for a reader of committed records: `offset`, and its `leader_epoch`.
    Partitions about which Kafka does not answer are missing; where the leader has moved, the next
    call finds the new one. Raises KafkaException."""
    admin = admin_of(source)
    asked = {confluent_kafka.TopicPartition(*partition): _LATEST for partition in partitions}
    answers = admin.list_offsets(
        asked, isolation_level=IsolationLevel.READ_COMMITTED, request_timeout=answer_seconds
    )
    found = dict[TopicPartition, Any]()
    for each, answer in answers.items():
        with suppress(KafkaException):
            found[TopicPartition(each.topic, each.partition)] = answer.result()
    if len(found) < len(asked):
        # Without new metadata the client would query the old leader for minutes.
        admin.list_topics(timeout=answer_seconds)
    return found
