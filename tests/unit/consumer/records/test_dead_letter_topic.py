"""The topic of dead letters where brokers are silent."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import AdminClient

from cdcbus.consumer.config import LoadTask, TopicConfig
from cdcbus.consumer.records import dead_letter_topic
from cdcbus.consumer.records.dead_letter_topic import DeadLetterTopic
from cdcbus.plugins.contracts import JdbcTarget
from cdcbus.plugins.errors import BusError, BusRejected, BusUnavailable
from cdcbus.plugins.kafka import dead_letter_sender
from cdcbus.plugins.kafka.client.errors import Refusals
from cdcbus.plugins.kafka.dead_letter_sender import DeadLetterSender, UnsentLetters
from cdcbus.plugins.kafka.producer_options import REQUEST_BYTES
from tests.support.servers.secure_servers import Authority
from tests.support.servers.silent_server import silent_server


def test_a_topic_that_silent_brokers_do_not_make_is_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(dead_letter_topic, "WAIT_SECONDS", 0.5)
    # They were silent only after this.
    found = SimpleNamespace(topics={})
    monkeypatch.setattr(AdminClient, "list_topics", lambda *_, **__: found, raising=False)
    with silent_server() as address:
        source = TopicConfig(address, ("orders",))
        task = LoadTask("7", source, "canalRow", "JdbcBatch", JdbcTarget(""))
        with DeadLetterTopic(task) as topic, pytest.raises(BusUnavailable, match=address):
            topic.open()


def test_a_record_that_came_into_kafka_compressed_is_not_too_large_before_that(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(dead_letter_sender, "WAIT_SECONDS", 0.1)
    source = TopicConfig("127.0.0.1:1", ("orders",))
    task = LoadTask("7", source, "canalRow", "JdbcBatch", JdbcTarget(""))
    with DeadLetterTopic(task) as topic, pytest.raises(BusUnavailable, match="not acknowledged"):
        topic._sender.send([{"topic": "dead", "value": bytes(REQUEST_BYTES + 1)}])


def test_letters_are_sent_with_the_certificates_that_are_on_disk(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The first bad record can come long after the start, when brokers refuse the former ones."""
    made: list[dict[str, Any]] = []

    def make(options: dict[str, Any]) -> Producer:
        made.append(options)
        return Producer(options)

    monkeypatch.setattr(dead_letter_topic, "Producer", make)
    ca = Authority.new(tmp_path, "ca").ca
    text = ca.read_bytes()
    look_up = {"security.protocol": "ssl", "ssl.ca.location": str(ca)}
    source = TopicConfig("127.0.0.1:1", ("orders",), look_up_options=look_up)
    task = LoadTask("7", source, "canalRow", "JdbcBatch", JdbcTarget(""))
    with DeadLetterTopic(task) as topic:
        topic.drop([])
        assert len(made) == 1
        ca.write_bytes(text[:100])
        os.utime(ca, ns=(1, 1))
        with pytest.raises(BusUnavailable, match="no new Kafka client can be made"):
            topic.drop([])
        ca.write_bytes(text)
        os.utime(ca, ns=(2, 2))
        topic.drop([])
        topic.drop([])
    assert made[2:] == [{**made[0], "error_cb": made[2]["error_cb"]}]
    # What the former one was refused for is no reason of the new one.
    assert made[2]["error_cb"] is not made[0]["error_cb"]


class Client:
    """A producer that keeps `left` records; its brokers name these leaders of a topic."""

    def __init__(self, *leaders: int) -> None:
        self.left = 1
        self.leaders = leaders
        self.calls: list[str] = []

    def produce(self, **_: object) -> None:
        self.calls.append("produce")

    def flush(self, _: float) -> int:
        return self.left

    def purge(self, *, blocking: bool) -> None:
        self.calls.append("purge")

    def list_topics(self, topic: str, *, timeout: float) -> Any:
        self.calls.append("ask")
        partitions = {n: SimpleNamespace(leader=leader) for n, leader in enumerate(self.leaders)}
        found = SimpleNamespace(error=None, partitions=partitions)
        return SimpleNamespace(topics={topic: found})

    def failure(self, sender: DeadLetterSender, *sizes: int) -> BusError:
        self.calls.clear()
        with pytest.raises(BusError) as raised:
            sender.send([{"topic": "dead", "value": bytes(size)} for size in sizes])
        return raised.value


LARGE = REQUEST_BYTES + 1


def test_a_letter_for_which_brokers_close_the_connection_is_refused_with_the_limit() -> None:
    """They say nothing, so that it would be tried again for ever. Where only its leader was away,
    or the line was slow, it is sent when it is tried again."""
    client = Client(0, 1)
    sender = DeadLetterSender(client, "k:1", Refusals())  # type: ignore[arg-type]
    for kind in (BusUnavailable, BusRejected):
        error = client.failure(sender, 1, LARGE, 2)
        assert type(error) is kind
        assert f"topic dead, has {LARGE} bytes" in str(error)
        assert "socket.request.max.bytes" in str(error)
        # What was left must not get in the way of the question.
        assert client.calls[3:5] == ["purge", "ask"]


def test_letters_that_wait_say_why(monkeypatch: pytest.MonkeyPatch) -> None:
    client, refusals = Client(0), Refusals()
    sender = DeadLetterSender(client, "k:1", refusals)  # type: ignore[arg-type]

    def refuse(_: float) -> int:
        refusals(KafkaError(KafkaError._SSL, "certificate has expired"))
        return 1

    with monkeypatch.context() as refused:
        refused.setattr(client, "flush", refuse)
        assert str(client.failure(sender, 1)).endswith("within 30 s (certificate has expired)")
    # That has passed.
    assert str(client.failure(sender, 1)).endswith("within 30 s")


def test_a_letter_that_fits_into_a_request_is_tried_again_for_ever() -> None:
    client = Client(0)
    sender = DeadLetterSender(client, "k:1", Refusals())  # type: ignore[arg-type]
    for _ in range(3):
        error = client.failure(sender, 1, REQUEST_BYTES, 2)
        assert isinstance(error, BusUnavailable) and "bytes" not in str(error)
        assert client.calls[3:] == ["purge"]


def test_a_large_letter_is_tried_again_as_long_as_a_partition_has_no_leader() -> None:
    client = Client(0, -1)
    sender = DeadLetterSender(client, "k:1", Refusals())  # type: ignore[arg-type]
    for _ in range(3):
        assert isinstance(client.failure(sender, LARGE), BusUnavailable)


@pytest.mark.parametrize("other", [LARGE, LARGE + 1, 1])
def test_only_the_letter_that_was_not_sent_before_is_refused(other: int) -> None:
    """Once it is sent, it is as any other."""
    client = Client(0)
    # Executors make a sender for each attempt.
    unsent = UnsentLetters()
    for left, size in ((1, LARGE), (0, other)):
        client.left = left
        sender = DeadLetterSender(client, "k:1", Refusals(), unsent)  # type: ignore[arg-type]
        if left:
            assert isinstance(client.failure(sender, size), BusUnavailable)
        else:
            sender.send([{"topic": "dead", "value": bytes(size)}])
    client.left = 1
    again = DeadLetterSender(client, "k:1", Refusals(), unsent)  # type: ignore[arg-type]
    assert isinstance(client.failure(again, LARGE), BusRejected) is (other != LARGE)
