"""What the reasons of a client that gets no answer come to."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from cdcbus.plugins.errors import BusRejected, BusUnavailable
from cdcbus.plugins.kafka.client_errors import Refusals

HANDSHAKE = "ssl://k:1/bootstrap: error:0A000086:SSL routines::certificate verify failed"


class Client:
    """Has no more reasons to give."""

    def poll(self, _seconds: float) -> None:
        return None


@pytest.mark.parametrize(
    ("code", "reason", "kind"),
    [
        (KafkaError._SSL, f"SSL handshake failed: {HANDSHAKE}", BusRejected),
        (KafkaError._TRANSPORT, HANDSHAKE, BusRejected),
        (KafkaError._AUTHENTICATION, "SASL authentication error", BusRejected),
        (KafkaError._SSL, "SSL handshake failed: Disconnected", BusUnavailable),
        (KafkaError._TRANSPORT, "Connection refused", BusUnavailable),
    ],
)
def test_a_refused_login_or_certificate_is_final_and_a_broker_that_is_away_is_not(
    code: int, reason: str, kind: type[Exception]
) -> None:
    refusals, client = Refusals(), Client()
    refusals(KafkaError(code, reason))
    refusals(KafkaError(KafkaError._ALL_BROKERS_DOWN, "1/1 brokers are down"))
    answer: Any = refusals.unanswered(client, "k:1", KafkaException(KafkaError(-195)))
    assert type(answer) is kind
    assert reason in str(answer)


class FailedProducer:
    """Raises its fatal error where its callbacks are served."""

    def poll(self, _seconds: float) -> None:
        code = KafkaError.CLUSTER_AUTHORIZATION_FAILED
        raise KafkaException(KafkaError(code, "Cluster authorization failed", fatal=True))


def test_a_fatal_error_that_arrives_meanwhile_is_the_reason() -> None:
    silence = KafkaException(KafkaError(KafkaError._TIMED_OUT))
    answer = Refusals().unanswered(FailedProducer(), "k:1", silence)
    assert type(answer) is BusRejected
    assert "Cluster authorization failed; give it the ACL: Describe and Write" in str(answer)
