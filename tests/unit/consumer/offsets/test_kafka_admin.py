"""The client with which tasks look at their topics."""

from __future__ import annotations

import gc
import os
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from weakref import ref

import pytest
from confluent_kafka import OFFSET_INVALID, KafkaError, KafkaException

from cdcbus.consumer.config import TopicConfig
from cdcbus.consumer.offsets import kafka_admin
from cdcbus.consumer.offsets.kafka_admin import admin_of, answered_bounds, bounds_of
from cdcbus.plugins.errors import BusUnavailable
from cdcbus.plugins.positions import TopicPartition
from tests.support.servers.secure_servers import Authority


def test_a_client_that_asks_takes_renewed_certificates(tmp_path: Path) -> None:
    ca = Authority.new(tmp_path, "ca").ca
    options = {"security.protocol": "ssl", "ssl.ca.location": str(ca)}
    source = TopicConfig("127.0.0.1:1", ("shop",), look_up_options=options)
    first = admin_of(source)
    assert admin_of(source) is first
    os.utime(ca, ns=(1, 1))
    second = admin_of(source)
    assert second is not first
    assert admin_of(source) is second


def test_the_former_client_asks_until_certificate_and_key_match(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Otherwise no check of a running task would notice anything meanwhile."""
    authority = Authority.new(tmp_path, "ca")
    key = authority.issue("client")
    certificate = tmp_path / "certificate.pem"
    certificate.write_bytes(key.read_bytes())
    options = {
        "security.protocol": "ssl",
        "ssl.certificate.location": str(certificate),
        "ssl.key.location": str(key),
    }
    source = TopicConfig("127.0.0.1:1", ("shop",), look_up_options=options)
    first = admin_of(source)
    renewed = Authority.new(tmp_path, "other").issue("renewed").read_bytes()
    certificate.write_bytes(renewed)
    os.utime(certificate, ns=(1, 1))
    assert admin_of(source) is first
    assert admin_of(source) is first
    (line,) = caplog.messages
    assert "127.0.0.1:1 are looked at with the certificates of before" in line
    key.write_bytes(renewed)
    os.utime(key, ns=(1, 1))
    second = admin_of(source)
    assert second is not first
    assert admin_of(source) is second


def test_a_client_that_nobody_asks_any_more_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each new password is another client, and the former one goes on with threads of its own."""
    former, present = (
        TopicConfig("127.0.0.1:1", ("shop",), look_up_options={"sasl.password": password})
        for password in ("former", "present")
    )
    now = 1000.0
    monkeypatch.setattr(kafka_admin, "monotonic", lambda: now)
    client = ref(admin_of(former))
    asked = admin_of(present)
    now += kafka_admin.IDLE_SECONDS
    assert admin_of(present) is asked
    assert client() is not None
    now += 1
    assert admin_of(present) is asked
    gc.collect()
    assert client() is None


class Brokers:
    """As an AdminClient: partitions of a topic, some of them without a leader."""

    def __init__(self, *without_leader: int, says_so: bool = True) -> None:
        self.without_leader, self._says_so = without_leader, says_so

    def list_offsets(self, asked: dict[Any, Any], request_timeout: float) -> dict[Any, Any]:
        answers = {}
        for each in asked:
            answers[each] = Future[Any]()
            if each.partition in self.without_leader and not self._says_so:
                answers[each].set_result(SimpleNamespace(offset=OFFSET_INVALID))
            elif each.partition in self.without_leader:
                error = KafkaError(KafkaError.LEADER_NOT_AVAILABLE)
                answers[each].set_exception(KafkaException(error))
            else:
                answers[each].set_result(SimpleNamespace(offset=each.partition + 7))
        return answers

    def list_topics(self, timeout: float) -> None:
        pass


@pytest.mark.parametrize("says_so", [True, False])
def test_a_partition_without_a_leader_does_not_hide_the_others(
    monkeypatch: pytest.MonkeyPatch, says_so: bool
) -> None:
    """The client can also answer without an error and an offset."""
    source = TopicConfig("kafka:9092", ("t",))
    asked = [TopicPartition("t", 0), TopicPartition("t", 1)]
    brokers = Brokers(1, says_so=says_so)
    monkeypatch.setattr(kafka_admin, "admin_of", lambda _: brokers)
    assert answered_bounds(source, asked, 1.0) == {TopicPartition("t", 0): (7, 7)}
    with pytest.raises(BusUnavailable, match="kafka:9092 does not tell the bounds of topics"):
        bounds_of(source, asked, 1.0)
    brokers.without_leader = (0, 1)
    with pytest.raises(BusUnavailable):
        answered_bounds(source, asked, 1.0)
    brokers.without_leader = ()
    assert bounds_of(source, asked, 1.0) == answered_bounds(source, asked, 1.0)
