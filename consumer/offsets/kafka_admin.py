"""Queries Kafka without reading records, with one client for all tasks of this process that read
from the same brokers."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from time import monotonic
from typing import Any

from confluent_kafka import IsolationLevel, KafkaException
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]

from cdcbus.consumer.config import TopicConfig
from cdcbus.consumer.offsets.kafka_client import as_client_takes
from cdcbus.plugins.errors import BusUnavailable
from cdcbus.plugins.kafka.client.asking import offset_in
from cdcbus.plugins.kafka.client.making import CurrentAdmin
from cdcbus.plugins.positions import TopicPartition

_EARLIEST = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
_LATEST = OffsetSpec.latest()  # type: ignore[no-untyped-call]
# After which a client that nobody asks is dropped: one with a former password tries it for ever.
IDLE_SECONDS = 600.0
# By their options, with the time when they were last asked for.
_CLIENTS: dict[tuple[tuple[str, str], ...], tuple[CurrentAdmin, float]] = {}


def admin_of(source: TopicConfig) -> AdminClient:
    """The client for a source's brokers and settings, with the certificates that are on disk.
    Raises as `CurrentAdmin.client`."""
    options = {**source.look_up_options, "bootstrap.servers": source.servers}
    key, now = tuple(sorted(options.items())), monotonic()
    current, _ = _CLIENTS.setdefault(key, (CurrentAdmin(options), now))
    _CLIENTS[key] = current, now
    for other, (_, asked_at) in list(_CLIENTS.items()):
        if now - asked_at > IDLE_SECONDS:
            _CLIENTS.pop(other, None)
    return current.client()


def bounds_of(
    source: TopicConfig, partitions: Collection[TopicPartition], answer_seconds: float
) -> dict[TopicPartition, tuple[int, int]]:
    """Of each partition the first offset that Kafka holds, and the end. Tasks of one process can
    ask concurrently. Raises BusUnavailable where Kafka does not answer for all of them."""
    found, error = _bounds(source, partitions, answer_seconds)
    if error is not None:
        raise error
    return found


def answered_bounds(
    source: TopicConfig, partitions: Collection[TopicPartition], answer_seconds: float
) -> dict[TopicPartition, tuple[int, int]]:
    """The same of the partitions about which Kafka answers: one without a leader is missing. Raises
    BusUnavailable where it answers for none."""
    found, error = _bounds(source, partitions, answer_seconds)
    if error is not None and not found:
        raise error
    return found


def _bounds(
    source: TopicConfig, partitions: Collection[TopicPartition], answer_seconds: float
) -> tuple[dict[TopicPartition, tuple[int, int]], BusUnavailable | None]:
    """What Kafka answers, and why it does not answer for all."""
    admin = admin_of(source)
    asked = as_client_takes(partitions)
    earliest = dict.fromkeys(asked, _EARLIEST)
    latest = dict.fromkeys(asked, _LATEST)
    found: dict[TopicPartition, tuple[int, int]] = {}
    refused: KafkaException | None = None
    try:
        # Both requests are in flight together: an unavailable broker is waited for only once.
        firsts = admin.list_offsets(earliest, request_timeout=answer_seconds)
        ends = admin.list_offsets(latest, request_timeout=answer_seconds)
    except KafkaException as error:
        refused = error
    else:
        for each in asked:
            try:
                bounds = offset_in(firsts[each]).offset, offset_in(ends[each]).offset
            except KafkaException as error:
                refused = refused or error
            else:
                found[TopicPartition(each.topic, each.partition)] = bounds
    if refused is None:
        return found, None
    with suppress(KafkaException):
        # Without new metadata the client would query the old leader for minutes.
        admin.list_topics(timeout=answer_seconds)
    unavailable = BusUnavailable(
        f"Kafka at {source.servers} does not tell the bounds of topics: {refused.args[0].str()}"
    )
    unavailable.__cause__ = refused
    return found, unavailable


def ends_of(
    source: TopicConfig, partitions: Collection[TopicPartition], answer_seconds: float
) -> dict[TopicPartition, Any]:
    """The ends of partitions for a reader of committed records: `offset`, and its `leader_epoch`.
    Partitions about which Kafka does not answer are missing; where the leader has moved, the next
    call finds the new one. Raises KafkaException."""
    admin = admin_of(source)
    asked = dict.fromkeys(as_client_takes(partitions), _LATEST)
    answers = admin.list_offsets(
        asked, isolation_level=IsolationLevel.READ_COMMITTED, request_timeout=answer_seconds
    )
    found = dict[TopicPartition, Any]()
    for each, answer in answers.items():
        with suppress(KafkaException):
            found[TopicPartition(each.topic, each.partition)] = offset_in(answer)
    if len(found) < len(asked):
        # Without new metadata the client would query the old leader for minutes.
        admin.list_topics(timeout=answer_seconds)
    return found
