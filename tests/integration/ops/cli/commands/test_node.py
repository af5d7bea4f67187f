"""`cdcbus node rm`, and orders to nodes, at a real ZooKeeper."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cdcbus.tasks.zookeeper.node_registry import NODES, BusNodes, NodeWish
from tests.support.processes.bus import Bus, open_bus, resting_text

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


def test_a_drain_names_the_tasks_that_no_other_node_takes(bus: Bus) -> None:
    nodes = BusNodes(bus.client)
    for task_id in ("1084", "242"):
        bus.load(resting_text(task_id, "127.0.0.1:1", "t"))
        bus.tasks.want(task_id, is_working=True, by="ada")
    bus.tasks.want("242", is_working=False, by="ada")
    assert nodes.register("n1") is None
    # As it reports them before the order; it has given them back since.
    nodes.put_stat("gone", {"workLimit": 9, "tasks": {"1084": ["t"], "242": ["t"]}})
    nodes.put_stat("n1", {"workLimit": 0, "tasks": {}})
    drained = bus("node", "drain", "gone", code=1)
    assert "takes no tasks until" in drained.stdout
    assert "task 1084 stands still: the nodes that may run it are full" in drained.stderr
    assert "242" not in drained.stderr
    bus.tasks.want("1084", is_working=False, by="ada")
    bus("node", "drain", "gone")


def test_a_second_drain_names_the_tasks_that_still_stand_still(bus: Bus) -> None:
    """The node has given them back, so that its report names none; one may be what ends a restart
    of all nodes."""
    nodes = BusNodes(bus.client)
    bus.load(resting_text("1084", "127.0.0.1:1", "t"))
    bus.load(resting_text("of-n2", "127.0.0.1:1", "t", nodeId="n2"))
    for task_id in ("1084", "of-n2"):
        bus.tasks.want(task_id, is_working=True, by="ada")
    for node_id, limit in (("n1", 9), ("n2", 0)):
        assert nodes.register(node_id) is None
        nodes.put_stat(node_id, {"workLimit": limit, "tasks": {}})
    for _ in range(2):
        drained = bus("node", "drain", "n1", code=1)
        assert "task 1084 stands still: the nodes that may run it are full" in drained.stderr
        assert "of-n2" not in drained.stderr  # n1 could not run it either
    # A node that could take it is waited for.
    nodes.put_stat("n2", {"workLimit": 9, "tasks": {}})
    drained = bus("node", "drain", "n1", "--timeout", 1, code=1)
    assert "no node has taken it yet, though n2 could" in drained.stderr
    assert bus.tasks.claim("1084", "n2")
    bus("node", "drain", "n1")


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
