"""What it means that Kafka does not take a record. Pure."""

from __future__ import annotations

from typing import Final

from confluent_kafka import KafkaError

from cdcbus.plugins.errors import BusError, BusRejected, BusUnavailable
from cdcbus.plugins.kafka.client.errors import (
    INVALID,
    RIGHTS,
    Refusals,
    are_records_lost,
    denied,
    invalid,
    records_lost,
)
from cdcbus.plugins.kafka.config import PublishConfig
from cdcbus.plugins.kafka.topics import missing

PURGED: Final = {KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT}
TOO_LARGE: Final = {KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE}
RAISE_LIMIT: Final = (
    "raise the topic's limit (kafka-configs --alter --add-config max.message.bytes=N)"
)

_GONE: Final = {
    KafkaError._UNKNOWN_TOPIC,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._UNKNOWN_PARTITION,
}
_FENCED: Final = {
    KafkaError._FENCED,
    KafkaError.PRODUCER_FENCED,
    KafkaError.INVALID_PRODUCER_EPOCH,
}
# Of a transactional id that was idle for transactional.id.expiration.ms, seven days by default, or
# that a restored cluster never had. No repetition with the same client helps.
_FORGOTTEN: Final = {KafkaError.INVALID_PRODUCER_ID_MAPPING, KafkaError.UNKNOWN_PRODUCER_ID}
# The client gives a broker up that is no longer in the cluster's metadata, with what waits for it.
_GIVEN_UP: Final = {KafkaError._DESTROY, KafkaError._DESTROY_BROKER}
_DONE_WITH: Final = {
    KafkaError._FATAL,
    KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER,
    KafkaError.UNKNOWN_PRODUCER_ID,
}


def needs_new_client(error: KafkaError, *, in_transactions: bool) -> bool:
    """Whether only a new client can send the record."""
    code = error.code()
    return code in _GIVEN_UP or (in_transactions and code in _FORGOTTEN)


def is_fenced(error: KafkaError) -> bool:
    """Whether brokers take no more transactions of the client: another process has its name, or
    one took too long."""
    code = error.code()
    if code in _FENCED:
        return True
    has_reason = code in INVALID | _GIVEN_UP | _FORGOTTEN or are_records_lost(error)
    return error.fatal() and not has_reason


def delivery_error(
    error: KafkaError, topic: str, config: PublishConfig, batch_bytes: int, refusals: Refusals
) -> BusError:
    """The error to raise for a record that Kafka does not take, unless its client is fenced.
    `batch_bytes`: the size of the client's batches; `refusals`: the client's."""
    servers = config.servers
    code = error.code()
    if code in INVALID:
        return invalid(servers, topic, code)
    if code in _GIVEN_UP:
        return BusUnavailable(
            f"a broker has left the Kafka cluster at {servers} with records on their way to "
            f"topic {topic}; a new client sends them again"
        )
    if are_records_lost(error):
        return records_lost(servers, topic, error.str())
    if config.transactional_id:
        if code in _FORGOTTEN:
            return BusUnavailable(
                f"Kafka at {servers} does not know the transactional id "
                f"{config.transactional_id}, which was idle for too long, or lost as with a "
                "restore; a new client repeats the transaction"
            )
        if error.txn_requires_abort() or code == KafkaError._STATE:
            return BusUnavailable(
                f"a Kafka transaction at {servers} has failed and is repeated: {error.str()}"
            )
    if code in _GONE:
        return missing(topic, config, error.str())
    if code in RIGHTS:
        return denied(servers, f"topic {topic}: {error.str()}", code)
    if code == KafkaError._FATAL and refusals.code in RIGHTS:
        return denied(servers, refusals.reason, refusals.code)
    if code in _DONE_WITH:
        return BusError(
            f"the task's Kafka client has failed, at topic {topic} at {servers}: "
            f"{error.str()}; a new one begins where this one ended"
        )
    remedy = ""
    if code in TOO_LARGE:
        remedy = (
            "; its max.message.bytes is less than kafka.batch.size "
            f"({batch_bytes}): raise the one, or lower the other"
        )
    return BusRejected(
        f"Kafka topic {topic} at {servers} does not take a record: {error.str()}{remedy}"
    )


def refusal(topic: str, servers: str, size_bytes: int, limit_bytes: int | None, what: str) -> str:
    """A sentence on why a record is refused, without its values."""
    limit = "(max.message.bytes)"
    if limit_bytes:
        limit = f"of {limit_bytes} bytes {limit}"
    return (
        f"Kafka topic {topic} at {servers} does not take a record of {size_bytes} bytes, more "
        f"than its limit {limit}: {what}"
    )
