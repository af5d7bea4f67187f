"""A writer whose brokers do not answer: what it says, and when it gives up."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path
from threading import Event, Timer
from types import SimpleNamespace
from typing import cast

import pytest
from confluent_kafka import KafkaError, Message

from cdcbus.plugins.errors import BusError, BusUnavailable
from cdcbus.plugins.kafka import producer as writers
from cdcbus.plugins.kafka.config import PublishConfig
from cdcbus.plugins.registry import make_converter
from cdcbus.producer.publish.publisher import KafkaPublisher
from tests.support.servers.secure_servers import Authority

# Nothing listens at the first port: each connection is refused at once.
NOWHERE = PublishConfig(servers="127.0.0.1:1", topic="shop", converter="canalRow")
WARNING = "no Kafka broker answers"


def writer(stop: Event) -> KafkaPublisher:
    return KafkaPublisher(NOWHERE, make_converter("canalRow"), stop)


def test_a_stop_ends_a_question_that_no_broker_answers() -> None:
    stop = Event()
    Timer(0.2, stop.set).start()
    began = time.monotonic()
    with pytest.raises(BusUnavailable, match=r"stopped before a Kafka broker at 127\.0\.0\.1:1"):
        writer(stop).shape("shop")
    assert time.monotonic() - began < writers.CONNECT_SECONDS / 2


def test_a_question_that_no_broker_answers_is_only_an_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with pytest.raises(BusUnavailable, match=WARNING):
        writer(Event()).shape("shop", 3)
    assert not caplog.records


def test_waiting_records_are_warned_of_once_a_minute(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    publisher = writer(Event())
    publisher._produce("shop", [{"key": b"1", "value": b"{}"}])

    def warned() -> int:
        # Long enough for several connections.
        publisher.client.flush(3)
        return sum(WARNING in record.getMessage() for record in caplog.records)

    assert warned() == 1
    assert warned() == 1
    monkeypatch.setattr(writers, "WARN_SECONDS", 0.0)
    assert warned() > 1
    publisher.client.purge()


def test_a_client_that_fails_without_a_reason_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """What confluent-kafka raises where a callback has swallowed the reason."""
    publisher = writer(Event())

    def fails(_seconds: float) -> int:
        raise SystemError("flush returned NULL without setting an exception")

    monkeypatch.setattr(publisher, "client", SimpleNamespace(flush=fails))
    with pytest.raises(
        BusError, match=r"has failed, at 127\.0\.0\.1:1, .*a new one begins"
    ) as lost:
        publisher.flush()
    # One that ends the task for good would be a BusRejected.
    assert type(lost.value) is BusError


def test_a_client_whose_certificates_were_renewed_is_replaced(tmp_path: Path) -> None:
    """librdkafka reads them once: brokers would refuse it for good when the old ones have
    expired."""
    authority = Authority.new(tmp_path, "ca")
    options = {"security.protocol": "ssl", "ssl.ca.location": str(authority.ca)}
    publisher = KafkaPublisher(
        replace(NOWHERE, kafka_options=options), make_converter("canalRow"), Event()
    )
    publisher._produce("shop", [{"key": b"1", "value": b"{}"}])
    publisher.client.flush(1)
    publisher._raise_failure()
    renewed = authority.ca.stat().st_mtime_ns + 1
    os.utime(authority.ca, ns=(renewed, renewed))
    with pytest.raises(BusUnavailable, match="takes the certificates that were renewed"):
        publisher.flush()
    before, text = publisher.client, authority.ca.read_bytes()
    # A file that is being written is waited for.
    authority.ca.write_bytes(text[:100])
    with pytest.raises(BusUnavailable, match="no new Kafka client can be made"):
        publisher.start()
    authority.ca.write_bytes(text)
    publisher.start()
    assert publisher.client is not before
    publisher._raise_failure()


def test_records_for_a_broker_that_left_the_cluster_are_sent_again_by_a_new_client() -> None:
    publisher = writer(Event())
    before = publisher.client
    message = cast(Message, SimpleNamespace(topic=lambda: "shop"))
    publisher._on_failed_delivery(KafkaError(KafkaError._DESTROY), message)
    with pytest.raises(BusUnavailable, match="a broker has left the Kafka cluster"):
        publisher._raise_failure()
    publisher.start()
    assert publisher.client is not before
    publisher._raise_failure()
