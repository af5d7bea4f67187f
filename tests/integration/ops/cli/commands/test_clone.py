"""Copies of tasks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from cdcbus.ops.cli.main import main
from cdcbus.plugins.contracts import Mark, Written
from cdcbus.tasks.zookeeper.position.store import ZooKeeperPositions
from tests.support.processes.bus import Bus, open_bus, resting_text
from tests.support.processes.killed_writes import killed_at_each_write

pytestmark = pytest.mark.integration

POSITIONS = {
    topic: f'{{"offset":7,"partition":0,"positionKey":"{topic}_0","topic":"{topic}"}}'
    for topic in ("t", "u")
}


@pytest.fixture
def bus(zookeeper: str, name: str, tmp_path: Path) -> Iterator[Bus]:
    with open_bus(zookeeper, name, tmp_path) as opened:
        yield opened


def test_a_killed_clone_leaves_no_task_without_its_positions(bus: Bus) -> None:
    def run() -> bool:
        result = CliRunner(env={"CDCBUS_ZOOKEEPER": bus.address}).invoke(
            main, ["task", "clone", "242", "243"]
        )
        runs.append(result.output)
        return result.exit_code == 0

    runs: list[str] = []
    bus.load(resting_text("242", "127.0.0.1:1", "t,u"))
    for topic, text in POSITIONS.items():
        bus.client.create(f"/datas/task/242/position/{topic}", text.encode(), makepath=True)
    for is_done in killed_at_each_write(run):
        for topic in bus.tasks.swimlanes("243"):
            assert bus.client.exists(f"/datas/task/243/position/{topic}")
        if not is_done:
            bus.client.delete("/datas/task/243", recursive=True)
    assert len(runs) > 2
    assert "cdcbus task start 243" in runs[-1]
    for topic, text in POSITIONS.items():
        store = ZooKeeperPositions(bus.client, "243", topic)
        # As before, the copy's position counts as written by the task itself.
        assert (store.load(), store.is_own) == (text, True)


def test_a_copy_knows_of_which_topic_its_position_is(bus: Bus) -> None:
    bus.load(resting_text("242", "127.0.0.1:1", "t"))
    original = ZooKeeperPositions(bus.client, "242", "t")
    original.load()
    original.save(POSITIONS["t"], Mark(True, "a", target="mysql", rules={"k": "d"}))
    bus("task", "clone", "242", "243")
    copy = ZooKeeperPositions(bus.client, "243", "t")
    assert copy.load() == POSITIONS["t"]
    assert copy.written == Written(POSITIONS["t"], Mark(topic_id="a", rules={"k": "d"}))
