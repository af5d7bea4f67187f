"""What the reasons of a client that gets no answer come to."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from cdcbus.plugins.errors import BusRejected, BusUnavailable
from cdcbus.plugins.kafka.client import errors
from cdcbus.plugins.kafka.client.errors import Refusals

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

    def __init__(self, in_callback: bool) -> None:
        self._in_callback = in_callback

    def poll(self, _seconds: float) -> None:
        code = KafkaError.CLUSTER_AUTHORIZATION_FAILED
        fatal = KafkaException(KafkaError(code, "Cluster authorization failed", fatal=True))
        if self._in_callback:
            raise SystemError("a callback returned a result with an exception set") from fatal
        raise fatal


@pytest.mark.parametrize("in_callback", [False, True])
def test_a_fatal_error_that_arrives_meanwhile_is_the_reason(in_callback: bool) -> None:
    silence = KafkaException(KafkaError(KafkaError._TIMED_OUT))
    answer = Refusals().unanswered(FailedProducer(in_callback), "k:1", silence)
    assert type(answer) is BusRejected
    assert "Cluster authorization failed; give it the ACL: Describe and Write" in str(answer)


def test_a_callback_that_has_failed_by_itself_is_no_failure_of_kafka() -> None:
    failed = SystemError("a callback returned a result with an exception set")
    failed.__cause__ = TypeError("ours")
    with pytest.raises(SystemError) as raised:
        errors.fatal_error(failed)
    assert raised.value is failed
    assert errors.fatal_error(SystemError("returned NULL without an exception")) is None


MAKES_CLIENT = re.compile(r"\b(?:AdminClient|Producer|Consumer)\(|make_client\((?!kind)")
HAS_LOGGER = re.compile(r"LIBRARY_LOG|\"log_level\": 0|consumer = make_client\(Consumer, options\)")


def test_no_client_logs_to_the_terminal() -> None:
    """Without a logger librdkafka writes to stderr, between the lines of a command."""
    loud = []
    for folder in ("plugins", "producer", "consumer", "tasks", "ops"):
        for path in (Path(errors.__file__).parents[3] / folder).rglob("*.py"):
            text = path.read_text()
            if MAKES_CLIENT.search(text) and not HAS_LOGGER.search(text):
                loud.append(str(path))
    assert loud == []


# The limit does not hold for root.
OF_ANOTHER_USER = """
import os, resource
from confluent_kafka import Producer
from cdcbus.plugins.kafka.client.making import make_client
os.setresuid(54321, 54321, 54321)
resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))
try:
    make_client(Producer, {"bootstrap.servers": "127.0.0.1:1"})
except Exception as error:
    print(type(error).__name__, error)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_process_that_may_have_no_more_threads_has_no_wrong_settings() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", OF_ANOTHER_USER], capture_output=True, text=True, timeout=60
    )
    assert re.match(r"BusUnavailable no Kafka client can be made: .*thread", ran.stdout), ran
