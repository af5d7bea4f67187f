"""Whose dead letters a node counts, without ZooKeeper and Kafka."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cdcbus.ops.services import dead_letter_counts as counts
from cdcbus.plugins.errors import BusUnavailable
from cdcbus.tasks.config.read_task import inspect_dist
from cdcbus.tasks.control.bus_settings import read_bus_settings
from cdcbus.tasks.zookeeper.tasks import TaskNodes
from tests.support.stand_ins.memory_zookeeper import MemoryZooKeeper

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


def test_a_text_is_read_again_only_when_it_or_its_source_has_changed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Hundreds of texts every 15 seconds would keep a processor busy."""
    asked: list[str] = []
    read: list[Any] = []

    def topic_log(access: Any) -> None:
        asked.append(access.servers)
        raise BusUnavailable("away")

    def inspected(*given: Any) -> Any:
        read.append(given)
        return inspect_dist(*given)

    dist = {**DIST, "consumer.source.sourceName": "kafka"}
    del dist["consumer.source.servers"]
    dists = {"7": dist}
    monkeypatch.setattr(counts, "TopicLog", topic_log)
    monkeypatch.setattr(counts, "inspect_dist", inspected)
    monkeypatch.setattr(counts, "TaskNodes", lambda _: SimpleNamespace(ids=lambda: list(dists)))
    monkeypatch.setattr(counts, "DistNodes", lambda _: SimpleNamespace(get=lambda key: dists[key]))
    source = tmp_path / "sources" / "kafka.properties"
    source.parent.mkdir()
    source.write_text("servers=k1:9092")
    environ = {"KAFKA_PASSWORD": "x"}
    settings = {"sources.directory": str(source.parent)}
    bus = read_bus_settings(settings, None, environ, tmp_path)
    client: Any = None
    letters = counts.LetterCounts(client, bus)
    for _ in range(3):
        letters.report()
    assert (asked, len(read)) == (["k1:9092"] * 3, 1)
    source.write_text("servers=k2:9092")
    letters.report()
    dists["7"] = {**dist, "consumer.source.servers": "k3:9092"}
    letters.report()
    assert (asked[3:], len(read)) == (["k2:9092", "k3:9092"], 3)


def test_a_login_in_a_file_is_read_again_once_kafka_refuses_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[Any] = []

    def topic_log(access: Any) -> None:
        asked.append(access.options["sasl.password"])
        raise BusUnavailable("refused")

    secret = tmp_path / "password"
    dist = {**DIST, "kafka.sasl.password": f"${{file:{secret}}}"}
    monkeypatch.setattr(counts, "TopicLog", topic_log)
    monkeypatch.setattr(counts, "TaskNodes", lambda _: SimpleNamespace(ids=lambda: ["7"]))
    monkeypatch.setattr(counts, "DistNodes", lambda _: SimpleNamespace(get=lambda _: dist))
    client: Any = None
    letters = counts.LetterCounts(client, read_bus_settings({}, None, {}, tmp_path))
    for password in "old", "new":
        secret.write_text(password)
        letters.report()
    assert asked == ["old", "new"]


@pytest.mark.parametrize(
    "refused", ["/datas/task/6/dist", "/datas/task/6/letters", "/datas/node/n2/lock"]
)
def test_a_refused_znode_keeps_no_other_task_from_being_counted(
    monkeypatch: pytest.MonkeyPatch, refused: str
) -> None:
    """Of another task, or of another node."""
    zookeeper: Any = MemoryZooKeeper()
    for task_id in ("6", "7"):
        zookeeper.put(f"/datas/task/{task_id}/dist/shop", {**DIST, "taskId": task_id})
    for node_id in ("n1", "n2"):
        zookeeper.put(f"/datas/node/{node_id}/lock", {"environment": ""}, owner=5)
    zookeeper.refused.add(refused)
    letters = counts.LetterCounts(
        zookeeper, read_bus_settings({}, None, {"KAFKA_PASSWORD": "x"}, Path("/nowhere"))
    )
    monkeypatch.setattr(letters, "_count", lambda *_: Counter({"6": 1, "7": 2}))
    letters.look("n1")
    assert TaskNodes(zookeeper).open_dead_letters("7") == 2


def test_a_node_whose_peer_is_refused_counts_for_its_own_environment_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its settings are not for those of another one."""
    zookeeper: Any = MemoryZooKeeper()
    zookeeper.put("/datas/task/7/dist/shop", {**DIST, "environment": "prod"})
    zookeeper.put("/datas/node/n1/lock", {"environment": ""}, owner=5)
    zookeeper.put("/datas/node/n2/lock", {"environment": "prod"}, owner=5)
    zookeeper.refused.add("/datas/node/n2/lock")
    letters = counts.LetterCounts(
        zookeeper, read_bus_settings({}, None, {"KAFKA_PASSWORD": "x"}, Path("/nowhere"))
    )
    monkeypatch.setattr(letters, "_count", lambda *_: Counter({"7": 2}))
    letters.look("n1")
    assert TaskNodes(zookeeper).open_dead_letters("7") is None
