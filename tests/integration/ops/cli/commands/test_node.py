"""`cdcbus node rm`, and orders to nodes, at a real ZooKeeper."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cdcbus.tasks.zookeeper.node_registry import NODES, BusNodes, NodeWish
from tests.support.processes.bus import Bus, open_bus

pytestmark = pytest.mark.integration


@pytest.fixture
def bus(zookeeper: str, name: str, tmp_path: Path) -> Iterator[Bus]:
    with open_bus(zookeeper, name, tmp_path) as opened:
        yield opened


def test_a_node_is_forgotten_once_it_runs_no_more(bus: Bus) -> None:
    nodes = BusNodes(bus.client)
    nodes.put_stat("old", {"status": "WORKING"})
    assert nodes.register("runs") is None
    assert (
        "node runs runs; end its process first" in bus("node", "rm", "runs", "--yes", code=1).stderr
    )
    assert "Forget node old?" in bus("node", "rm", "old", code=130).stderr
    assert bus.json("node", "rm", "old", "--yes") == {"node_id": "old", "is_removed": True}
    assert nodes.ids() == ["runs"]
    assert [each["what"] for each in bus.json("audit")] == ["node rm"]
    bus("node", "rm", "old", "--yes", code=1)


def test_a_damaged_order_is_replaced_by_the_commands_that_it_names(bus: Bus) -> None:
    nodes = BusNodes(bus.client)
    bus.client.create(f"{NODES}/old/wanted", b'{"status":"LAZY"}', makepath=True)
    assert "drain or resume the node again" in bus("node", "limit", "old", "3", code=1).stderr
    assert "takes no tasks until" in bus("node", "drain", "old").stdout
    assert nodes.wish("old") == NodeWish(is_taking=False)
    bus.client.set(f"{NODES}/old/wanted", b"{")
    assert "takes tasks" in bus("node", "resume", "old").stdout
    bus("node", "limit", "old", "3")
    assert nodes.wish("old") == NodeWish(work_limit=3)
