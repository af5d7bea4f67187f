"""A task that would commit to Kafka under the name of another one in ZooKeeper."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from kazoo.security import make_digest_acl

from cdcbus.tasks.config.named_sources import NamedSource
from cdcbus.tasks.zookeeper.dist_nodes import DistNodes, dist_path
from cdcbus.tasks.zookeeper.source_registry import SourceNodes, source_path
from cdcbus.tasks.zookeeper.task_configs import Dist
from tests.support.processes.bus import Bus, open_bus

pytestmark = pytest.mark.integration

TEXT = """taskId={task_id}
consumer.consumerName=KafkaFetch
consumer.converter=canalRow
consumer.source.servers={kafka}
consumer.source.topics={topic}
consumer.source.firstConsumeFrom=earliest
loader.loaderName=KAFKA_SYNC
loader.source.servers={kafka}
loader.source.topic={to}
loader.source.transaction={transaction}
"""


@pytest.fixture
def bus(zookeeper: str, name: str, tmp_path: Path) -> Iterator[Bus]:
    with open_bus(zookeeper, name, tmp_path) as opened:
        yield opened


def test_it_is_refused_by_a_check_and_at_its_start(
    bus: Bus, kafka: str, name: str, make_topic: Callable[..., str], tmp_path: Path
) -> None:
    own, other, to = make_topic(name), make_topic(f"eu-{name}"), make_topic(f"{name}-out")
    texts = {"shop-eu": own, "shop": other}

    def text(task_id: str, transaction: str = "true") -> str:
        topic = texts[task_id]
        return TEXT.format(
            task_id=task_id, kafka=kafka, topic=topic, to=to, transaction=transaction
        )

    bus.load(text("shop-eu"))
    file = tmp_path / "shop.properties"
    file.write_text(text("shop"))
    sentence = f"tasks shop and shop-eu would both be cdcbus-shop-eu-{name}-PARTITION to Kafka"
    assert sentence in " ".join(bus("task", "check", file, code=1).output.split())
    assert sentence in " ".join(bus("task", "run", file, code=1).output.split())
    bus.load(text("shop"))
    assert "tasks shop-eu and shop would" in bus("task", "check", "shop-eu", code=1).output
    file.write_text(text("shop", "false"))
    assert "would both be" not in bus("task", "check", file).output


def test_what_other_tasks_lack_is_no_reason_to_refuse_it(
    bus: Bus,
    kafka: str,
    name: str,
    make_topic: Callable[..., str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As the right to read one, or its source. A source of many is read once, and no text of a task
    whose id alone says that its names are others."""
    own, other, to = make_topic(name), make_topic(f"eu-{name}"), make_topic(f"{name}-out")

    def text(task_id: str, topic: str, source: str = "") -> str:
        found = TEXT.format(task_id=task_id, kafka=kafka, topic=topic, to=to, transaction="true")
        return f"{found}loader.source.sourceName={source}\n" if source else found

    for source in ("locked", "known"):
        bus("source", "add", source, f"servers={kafka}")
    bus.load(text("shop-a-locked", own))
    bus.load(text("shop-b-lacks", own, "locked"))
    for task_id in ("shop-c", "shop-d", "shops"):
        bus.load(text(task_id, own, "known"))
    bus.load(text("shop-eu", own))
    for path in (dist_path("shop-a-locked"), source_path("locked")):
        bus.client.set_acls(path, [make_digest_acl("ann", "secret", all=True)])
    looks: list[str] = []
    get = SourceNodes.get

    def counted(nodes: SourceNodes, source: str) -> NamedSource | None:
        looks.append(source)
        return get(nodes, source)

    read: list[str] = []
    get_dist = DistNodes.get

    def noted(nodes: DistNodes, task_id: str) -> Dist | None:
        read.append(task_id)
        return get_dist(nodes, task_id)

    monkeypatch.setattr(SourceNodes, "get", counted)
    monkeypatch.setattr(DistNodes, "get", noted)
    file = tmp_path / "shop.properties"
    file.write_text(text("shop", other))
    output = bus("task", "check", file, code=1).output
    assert "tasks shop and shop-eu would both be" in " ".join(output.split())
    assert looks.count("known") == 1
    assert "shop-d" in read and "shops" not in read
