"""Whose dead letters a node counts, without ZooKeeper and Kafka."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cdcbus.ops.services import dead_letter_counts as counts
from cdcbus.plugins.errors import BusUnavailable
from cdcbus.tasks.control.bus_settings import read_bus_settings

DIST = {
    "taskId": "7",
    "consumer.consumerName": "KafkaFetch",
    "consumer.converter": "canalRow",
    "consumer.source.servers": "k1:9092",
    "consumer.source.topics": "shop",
    "kafka.sasl.password": "${env:KAFKA_PASSWORD}",
    "loader.loaderName": "JdbcBatch",
    "loader.source.url": "jdbc:postgresql://db/shop",
    "loader.source.password": "${env:TARGET_PASSWORD}",
    "loader.onError": "deadletter",
}


@pytest.mark.parametrize(("secret", "is_asked"), [("KAFKA_PASSWORD", True), ("OTHER", False)])
def test_kafka_is_only_asked_with_the_secrets_of_its_login(
    monkeypatch: pytest.MonkeyPatch, secret: str, is_asked: bool
) -> None:
    """Nobody's login is locked by a node that counts the letters of other nodes' tasks."""
    asked: list[Any] = []

    def topic_log(access: Any) -> None:
        asked.append(access.options["sasl.password"])
        raise BusUnavailable("away")

    monkeypatch.setattr(counts, "TopicLog", topic_log)
    monkeypatch.setattr(counts, "TaskNodes", lambda _: SimpleNamespace(ids=lambda: ["7"]))
    monkeypatch.setattr(counts, "DistNodes", lambda _: SimpleNamespace(get=lambda _: DIST))
    bus = read_bus_settings({}, None, {secret: "x"}, Path("/nowhere"))
    client: Any = None
    counts.LetterCounts(client, bus).report()
    assert asked == (["x"] if is_asked else [])


@pytest.mark.parametrize(("node_id", "is_asked"), [("a", False), ("b", True)])
def test_a_node_counts_for_the_tasks_of_its_environment(
    monkeypatch: pytest.MonkeyPatch, node_id: str, is_asked: bool
) -> None:
    asked: list[Any] = []

    def topic_log(access: Any) -> None:
        asked.append(access)
        raise BusUnavailable("away")

    monkeypatch.setattr(counts, "TopicLog", topic_log)
    monkeypatch.setattr(counts, "TaskNodes", lambda _: SimpleNamespace(ids=lambda: ["7"]))
    dist = {**DIST, "environment": "prod"}
    monkeypatch.setattr(counts, "DistNodes", lambda _: SimpleNamespace(get=lambda _: dist))
    running = {"a": "test", "b": "prod"}
    monkeypatch.setattr(counts, "BusNodes", lambda _: SimpleNamespace(running=lambda: running))
    environ = {"KAFKA_PASSWORD": "x", "CDCBUS_ENVIRONMENT": "prod"}
    bus = read_bus_settings({}, None, environ, Path("/nowhere"))
    client: Any = None
    counts.LetterCounts(client, bus).look(node_id)
    assert bool(asked) is is_asked
