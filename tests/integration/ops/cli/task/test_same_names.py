"""A task that would commit to Kafka under the name of another one in ZooKeeper."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

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
