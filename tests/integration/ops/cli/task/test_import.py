"""`cdcbus task import` where a ZooKeeper answers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.processes.bus import Bus, open_bus

pytestmark = pytest.mark.integration


@pytest.fixture
def bus(zookeeper: str, name: str, tmp_path: Path) -> Iterator[Bus]:
    with open_bus(zookeeper, name, tmp_path) as opened:
        yield opened


def test_a_task_file_is_checked_with_the_sources_in_zookeeper(bus: Bus, tmp_path: Path) -> None:
    bus("source", "add", "SHOP", "url=jdbc:mysql://h/db", "userName=u")
    read = {"servers": "k:9092", "topics": "A", "firstConsumeFrom": "earliest"}
    task = {
        "taskId": "1",
        "consumer": {"consumerName": "KafkaFetch", "converter": "canalRow", "source": read},
        "loader": {"loaderName": "JdbcBatch", "source": {"sourceName": "SHOP"}},
    }
    file = tmp_path / "1.json"
    file.write_text(json.dumps(task), encoding="utf-8")
    output = tmp_path / "1.properties"
    bus("task", "import", file, "--output", output)
    assert "loader.source.sourceName=SHOP" in output.read_text(encoding="utf-8")
