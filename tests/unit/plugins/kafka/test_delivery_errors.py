"""What an error of the client or of a broker means for a record, and for the client."""

from __future__ import annotations

from dataclasses import replace

import pytest
from confluent_kafka import KafkaError

from cdcbus.plugins.errors import BusError, BusRejected, BusUnavailable, RecordsLost
from cdcbus.plugins.kafka.client.errors import Refusals
from cdcbus.plugins.kafka.config import NewTopics, PublishConfig
from cdcbus.plugins.kafka.delivery_errors import delivery_error, is_fenced, needs_new_client

PLAIN = PublishConfig("k:1", "t", "canalRow")
IN_TRANSACTIONS = PublishConfig("k:1", "t", "canalRow", transactional_id="cdcbus-7")


@pytest.mark.parametrize(
    ("code", "config", "kind", "words"),
    [
        (KafkaError.INVALID_TIMESTAMP, PLAIN, BusUnavailable, "correct the clock"),
        (KafkaError._DESTROY, PLAIN, BusUnavailable, "a broker has left the Kafka cluster"),
        (
            KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER,
            PLAIN,
            RecordsLost,
            "records of topic t .* remove sent",
        ),
        (KafkaError.UNKNOWN_PRODUCER_ID, PLAIN, BusError, "a new one begins"),
        (
            KafkaError.UNKNOWN_PRODUCER_ID,
            IN_TRANSACTIONS,
            BusUnavailable,
            "does not know the transactional id",
        ),
        (KafkaError._STATE, IN_TRANSACTIONS, BusUnavailable, "has failed and is repeated"),
        (KafkaError.UNKNOWN_TOPIC_OR_PART, PLAIN, BusRejected, "kafka-topics --create"),
        (
            KafkaError.UNKNOWN_TOPIC_OR_PART,
            replace(PLAIN, new_topics=NewTopics(1, 1)),
            BusRejected,
            r"; start the task again: it creates the topic \(loader\.source\.createTopic\)$",
        ),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, PLAIN, BusRejected, "give it the ACL"),
        (KafkaError.MSG_SIZE_TOO_LARGE, PLAIN, BusRejected, r"kafka\.batch\.size \(99\)"),
        (KafkaError.POLICY_VIOLATION, PLAIN, BusRejected, "does not take a record"),
    ],
)
def test_each_kind_of_error_has_its_class_and_its_remedy(
    code: int, config: PublishConfig, kind: type[BusError], words: str
) -> None:
    found = delivery_error(KafkaError(code), "t", config, 99, Refusals())
    assert type(found) is kind
    with pytest.raises(kind, match=words):
        raise found


@pytest.mark.parametrize(
    ("code", "outside", "inside"),
    [
        (KafkaError._DESTROY, True, True),
        (KafkaError.UNKNOWN_PRODUCER_ID, False, True),
        (KafkaError.POLICY_VIOLATION, False, False),
    ],
)
def test_a_client_that_gave_up_or_was_forgotten_is_replaced(
    code: int, outside: bool, inside: bool
) -> None:
    error = KafkaError(code)
    assert needs_new_client(error, in_transactions=False) is outside
    assert needs_new_client(error, in_transactions=True) is inside


@pytest.mark.parametrize(
    ("error", "fenced"),
    [
        (KafkaError(KafkaError.PRODUCER_FENCED), True),
        (KafkaError(KafkaError._FATAL, fatal=True), True),
        (KafkaError(KafkaError.POLICY_VIOLATION), False),
        # Fatal for a reason of their own.
        (KafkaError(KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER, fatal=True), False),
        (KafkaError(KafkaError.UNKNOWN_PRODUCER_ID, fatal=True), False),
        (KafkaError(KafkaError.INVALID_RECORD, fatal=True), False),
    ],
)
def test_a_fatal_error_without_another_reason_is_a_fenced_client(
    error: KafkaError, fenced: bool
) -> None:
    assert is_fenced(error) is fenced
