"""The options of the librdkafka client that sends a task's records."""

from __future__ import annotations

from typing import Any, Final

from cdcbus.plugins.kafka.config import PublishConfig

# A broker silently closes the connection for more than its socket.request.max.bytes.
REQUEST_BYTES: Final = 100_000_000

# Task files cannot change what safety requires: acknowledged by all replicas, in order, without
# duplicates, retried forever.
FIXED: Final = {
    "acks": "all",
    "enable.idempotence": True,
    "message.timeout.ms": 0,
    # The Java client's split by key.
    "partitioner": "murmur2_random",
    "delivery.report.only.error": True,
    "allow.auto.create.topics": False,
}
DEFAULTS: Final = {
    "linger.ms": 5,
    "socket.nagle.disable": True,
    "compression.type": "lz4",
    "queue.buffering.max.messages": 200_000,
    "batch.size": 1_000_000,
    "reconnect.backoff.max.ms": 1_000,
    "statistics.interval.ms": 1_000,
}
TRANSACTIONAL: Final = {
    # The longest that brokers allow by default.
    "transaction.timeout.ms": 900_000,
    # A new transaction waits for the end of the previous one.
    "retry.backoff.ms": 20,
}


def producer_options(config: PublishConfig) -> dict[str, Any]:
    """All options but the callbacks."""
    options: dict[str, Any] = {"client.id": "cdcbus", **DEFAULTS}
    if config.transactional_id:
        options |= TRANSACTIONAL
    # The brokers decide which records are too large; but a record that does not fit into the queue
    # would wait forever.
    options["message.max.bytes"] = max(1_000, min(config.queue_bytes, REQUEST_BYTES))
    # Left out, not overwritten: librdkafka sets options in order, and a fixed one must come after
    # its alias in a task file (request.required.acks is one of acks).
    for name, value in config.kafka_options.items():
        if name not in FIXED:
            options[name] = value
    options |= FIXED
    if config.transactional_id:
        options["transactional.id"] = config.transactional_id
    options["queue.buffering.max.kbytes"] = config.queue_bytes // 1024
    options["bootstrap.servers"] = config.servers
    return options
