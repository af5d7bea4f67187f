"""The topic of dead letters where brokers are silent."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from confluent_kafka.admin import AdminClient

from cdcbus.consumer.config import LoadTask, TopicConfig
from cdcbus.consumer.records import dead_letter_topic
from cdcbus.consumer.records.dead_letter_topic import DeadLetterTopic
from cdcbus.plugins.contracts import JdbcTarget
from cdcbus.plugins.errors import BusUnavailable
from cdcbus.plugins.kafka import dead_letter_sender
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
