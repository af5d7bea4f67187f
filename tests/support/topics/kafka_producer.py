"""A Kafka producer for tests, whose records arrive once and in order."""

from collections.abc import Mapping

from confluent_kafka import Producer


def kafka_producer(servers: str, options: Mapping[str, str | int] | None = None) -> Producer:
    """Without idempotence a busy broker can get records twice, or in another order, when the client
    sends them again."""
    return Producer({"bootstrap.servers": servers, "enable.idempotence": True, **(options or {})})
