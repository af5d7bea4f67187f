"""The topic of dead letters where brokers are silent."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from confluent_kafka.admin import AdminClient

from cdcbus.consumer.config import LoadTask, TopicConfig
from cdcbus.consumer.records import dead_letter_topic
from cdcbus.consumer.records.dead_letter_topic import DeadLetterTopic
from cdcbus.plugins.contracts import JdbcTarget
from cdcbus.plugins.errors import BusRejected, BusUnavailable
from cdcbus.plugins.kafka import dead_letter_sender
from cdcbus.plugins.kafka.dead_letter_sender import DeadLetterSender
from cdcbus.plugins.kafka.producer_options import REQUEST_BYTES
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


@pytest.mark.parametrize(
    ("largest", "error"), [(REQUEST_BYTES, BusUnavailable), (REQUEST_BYTES + 1, BusRejected)]
)
def test_a_letter_for_which_brokers_close_the_connection_is_refused_with_the_limit(
    largest: int, error: type[Exception]
) -> None:
    """They say nothing, so that it would be tried again for ever."""
    calls: list[str] = []
    client = SimpleNamespace(
        produce=lambda **_: calls.append("produce"),
        flush=lambda _: 1,
        purge=lambda *, blocking: calls.append("purge"),
        list_topics=lambda *, timeout: calls.append("ask"),
    )
    sender = DeadLetterSender(client, "k:1")  # type: ignore[arg-type]
    with pytest.raises(error) as raised:
        sender.send([{"topic": "dead", "value": bytes(size)} for size in (1, largest, 2)])
    is_named = f"topic dead, has {largest} bytes" in str(raised.value)
    assert is_named is (error is BusRejected)
    assert is_named is ("socket.request.max.bytes" in str(raised.value))
    # What was left must not get in the way of the question.
    assert calls[3:5] == (["purge", "ask"] if is_named else ["purge"])
