"""Clients of Kafka while the files of their certificates are written."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException

from cdcbus.plugins.errors import BusRejected, BusUnavailable, ConfigError
from cdcbus.plugins.kafka.client.errors import Refusals
from cdcbus.plugins.kafka.client.making import CurrentAdmin, make_client
from tests.support.servers.secure_servers import Authority


def test_a_new_client_is_never_the_former_one(tmp_path: Path) -> None:
    """Whoever wants one does not believe the metadata that the former one has."""
    ca = Authority.new(tmp_path, "ca").ca
    options = {"security.protocol": "ssl", "ssl.ca.location": str(ca)}
    admin = CurrentAdmin({**options, "bootstrap.servers": "127.0.0.1:1"})
    first = admin.client()
    second = admin.client(is_new=True)
    assert second is not first
    assert admin.client() is second
    ca.write_bytes(b"-----BEGIN CERTIFICATE-----")
    os.utime(ca, ns=(1, 1))
    with pytest.raises(BusUnavailable, match="no new Kafka client can be made"):
        admin.client(is_new=True)
    assert admin.client() is second


def test_files_that_were_read_once_may_be_wrong_for_a_while(tmp_path: Path) -> None:
    """A task that has worked goes on, one that never has is told of its settings."""
    ca = Authority.new(tmp_path, "ca").ca
    text = ca.read_bytes()
    options = {"group.id": "g", "security.protocol": "ssl", "ssl.ca.location": str(ca)}
    ca.write_bytes(text[:100])
    with pytest.raises(ConfigError):
        make_client(Consumer, {**options})
    ca.write_bytes(text)
    make_client(Consumer, {**options}).close()
    with pytest.raises(ConfigError, match="Invalid value for configuration property"):
        make_client(Consumer, {**options, "session.timeout.ms": "no"})
    ca.write_bytes(text[:100])
    os.utime(ca, ns=(1, 1))
    with pytest.raises(BusUnavailable, match="were written since the last one"):
        make_client(Consumer, {**options})
    ca.unlink()
    with pytest.raises(BusUnavailable, match="were written since the last one"):
        make_client(Consumer, {**options})


def test_files_that_are_written_while_they_are_read_may_be_wrong_for_a_while(
    tmp_path: Path,
) -> None:
    ca = Authority.new(tmp_path, "ca").ca
    text = ca.read_bytes()
    options = {"group.id": "g", "security.protocol": "ssl", "ssl.ca.location": str(ca)}

    def read(given: dict[str, Any]) -> Consumer:
        ca.write_bytes(text[:100])
        os.utime(ca, ns=(1, 1))
        return Consumer(given)

    with pytest.raises(ConfigError):
        make_client(read, {**options})
    ca.write_bytes(text)
    make_client(Consumer, {**options}).close()
    with pytest.raises(BusUnavailable, match="were written since the last one"):
        make_client(read, {**options})


def test_a_refusal_of_a_certificate_that_was_renewed_since_is_not_final(tmp_path: Path) -> None:
    """The next client takes the renewed one."""
    ca = Authority.new(tmp_path, "ca").ca
    refusals = Refusals()
    options = {"group.id": "g", "security.protocol": "ssl", "ssl.ca.location": str(ca)}
    consumer = make_client(Consumer, {**options, "error_cb": refusals})
    silence = KafkaException(KafkaError(KafkaError._TIMED_OUT))
    refusals(KafkaError(KafkaError._SSL, "certificate has expired"))
    assert type(refusals.unanswered(consumer, "k:1", silence)) is BusRejected
    os.utime(ca, ns=(1, 1))
    answer = refusals.unanswered(consumer, "k:1", silence)
    assert type(answer) is BusUnavailable
    assert "takes the certificates that were renewed meanwhile" in str(answer)
    consumer.close()
