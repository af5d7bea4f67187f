"""Nodes, tasks and schemas as ZooKeeper keeps them: what comes back, and what damage becomes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cdcbus.plugins.errors import ConfigError, PositionConflict
from cdcbus.tasks.control.commands import order_limit, order_taking
from cdcbus.tasks.zookeeper import node_registry
from cdcbus.tasks.zookeeper.dist_nodes import DistNodes, dist_path, stored_dists
from cdcbus.tasks.zookeeper.lock import lock_path
from cdcbus.tasks.zookeeper.node_registry import (
    NODES,
    BusNodes,
    NodeInfo,
    NodeWish,
    first_for,
    mixed_versions,
)
from cdcbus.tasks.zookeeper.schema_history import ZooKeeperSchemas, schema_path
from cdcbus.tasks.zookeeper.znode import give_up
from tests.support.stand_ins.memory_zookeeper import MemoryZooKeeper


@pytest.fixture
def zookeeper() -> MemoryZooKeeper:
    return MemoryZooKeeper()


@pytest.fixture
def nodes(zookeeper: MemoryZooKeeper) -> BusNodes:
    client: Any = zookeeper
    return BusNodes(client)


def test_a_process_is_the_node_once_and_another_one_is_told_who_it_is(
    nodes: BusNodes, zookeeper: MemoryZooKeeper
) -> None:
    assert nodes.register("n1") is None
    assert nodes.register("n1") is None
    nodes.unregister("n1")
    zookeeper.put(f"{NODES}/n1/lock", '{"nodeId":"n1","hostName":"elsewhere","processId":5}')
    holder = nodes.register("n1")
    assert holder is not None
    assert holder.text("hostName") == "elsewhere"
    nodes.unregister("n1")
    assert f"{NODES}/n1/lock" in zookeeper.texts()


def test_who_gives_up_its_lock_late_does_not_bring_back_what_was_removed(
    nodes: BusNodes, zookeeper: MemoryZooKeeper
) -> None:
    nodes.unregister("n1")
    give_up(nodes.client, lock_path("7", "a"))
    assert not zookeeper.nodes


def test_the_first_node_is_the_first_by_name_of_those_that_are_there(
    nodes: BusNodes, zookeeper: MemoryZooKeeper
) -> None:
    assert first_for(nodes.running(), "") is None
    zookeeper.put(f"{NODES}/n0/stat", "{}")
    nodes.register("n1")
    nodes.register("n2")
    assert list(nodes.running()) == ["n1", "n2"]
    assert first_for(nodes.running(), "") == "n1"


def test_a_node_of_a_tasks_environment_is_before_all_others(
    nodes: BusNodes, zookeeper: MemoryZooKeeper
) -> None:
    # Of a version that does not say its environment, and goes by the name alone.
    path = f"{NODES}/n0/lock"
    zookeeper.create_async(path, b'{"nodeId":"n0"}', ephemeral=True, makepath=True).get()
    nodes.register("n1", "test")
    nodes.register("n2", "prod")
    nodes.register("n3")
    nodes.register("n4", "prod")
    running = nodes.running()
    assert running == {"n0": None, "n1": "test", "n2": "prod", "n3": "", "n4": "prod"}
    found = [first_for(running, each) for each in ("test", "prod", "", "other")]
    assert found == ["n1", "n2", "n3", "n0"]


def test_what_operators_want_of_a_node_comes_back_and_nonsense_is_refused(
    nodes: BusNodes, zookeeper: MemoryZooKeeper
) -> None:
    assert nodes.wish("n1") == NodeWish()
    order_taking(nodes, "n1", False, "ann")
    order_limit(nodes, "n1", 3, "ann")
    assert nodes.wish("n1") == NodeWish(False, 3)
    for text in ('{"status":"LAZY"}', '{"workLimit":-1}', '{"workLimit":"3"}', "{"):
        zookeeper.put(f"{NODES}/n1/wanted", text)
        with pytest.raises(ConfigError):
            nodes.wish("n1")


@pytest.mark.parametrize("damaged", ['{"status":"LAZY","workLimit":3}', "{"])
def test_a_damaged_order_is_replaced_by_a_drain_and_not_by_a_limit(
    nodes: BusNodes, zookeeper: MemoryZooKeeper, damaged: str
) -> None:
    zookeeper.put(f"{NODES}/n1/wanted", damaged)
    with pytest.raises(ConfigError):
        order_limit(nodes, "n1", 5, "ann")
    order_taking(nodes, "n1", False, "ann")
    assert nodes.wish("n1") == NodeWish(False)


@pytest.mark.parametrize("is_first", [True, False])
def test_of_two_orders_at_once_none_is_lost(nodes: BusNodes, is_first: bool) -> None:
    if not is_first:
        order_taking(nodes, "n1", True, "ann")
    others = ["bob"]

    def change(wish: NodeWish) -> NodeWish:
        while others:
            order_taking(nodes, "n1", False, others.pop())
        return replace(wish, work_limit=5)

    nodes.change_wish("n1", change, "ann", "node limit 5")
    assert nodes.wish("n1") == NodeWish(False, 5)


def test_a_node_is_known_by_its_report_and_away_without_its_lock(nodes: BusNodes) -> None:
    assert nodes.info("n1") is None
    nodes.put_stat(
        "n1",
        {"workLimit": 10, "healthLevel": "GREEN", "tasks": {"7": ["orders", "users"], "8": "?"}},
    )
    away = nodes.info("n1")
    assert away is not None
    assert (away.status, away.used, away.work_limit) == ("away", 2, 10)
    # At once, not only with the node's next report.
    order_limit(nodes, "n1", 20, "ann")
    limited = nodes.info("n1")
    assert limited is not None and limited.work_limit == 20
    nodes.register("n1")
    [info] = nodes.all()
    assert (info.status, info.tasks) == ("working", {"7": ("orders", "users")})
    assert info.silent_seconds is not None
    order_taking(nodes, "n1", False, "ann")
    assert nodes.all()[0].status == "draining"
    nodes.put_stat("n1", {"tasks": {}})
    assert nodes.all()[0].status == "drained"


def test_running_nodes_of_several_versions_are_named(
    nodes: BusNodes, zookeeper: MemoryZooKeeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_registry, "__version__", "0.1.0")
    nodes.register("n1")
    nodes.put_stat("n2", {"tasks": {}})
    assert mixed_versions(nodes.versions()) == ""
    monkeypatch.setattr(node_registry, "__version__", "0.2.0")
    # Its report is that of the process before.
    nodes.register("n2")
    assert [(info.node_id, info.version) for info in nodes.all()] == [
        ("n1", "0.1.0"),
        ("n2", "0.2.0"),
    ]
    assert "versions of cdcbus (n1 0.1.0, n2 0.2.0)" in mixed_versions(nodes.versions())
    zookeeper.put(f"{NODES}/n0/lock", {"nodeId": "n0"}, owner=5)
    assert "(n0 of an earlier one, n1 0.1.0, n2 0.2.0)" in mixed_versions(nodes.versions())


def test_a_lock_that_porter_has_left_is_no_running_node(
    nodes: BusNodes, zookeeper: MemoryZooKeeper
) -> None:
    zookeeper.put(f"{NODES}/5/lock", {"nodeId": "5", "hostName": "h", "processId": "77"})
    info = nodes.info("5")
    assert info is not None
    assert (info.status, info.host, nodes.running()) == ("away", "h", {})
    with pytest.raises(ConfigError, match=rf"as porter's are.*delete {NODES}/5/lock with zkCli"):
        nodes.remove("5", "ann")
    assert nodes.register("6") is None
    with pytest.raises(ConfigError, match="node 6 runs; end its process first"):
        nodes.remove("6", "ann")


def test_a_damaged_node_is_red_with_the_reason_and_hides_no_other(
    nodes: BusNodes, zookeeper: MemoryZooKeeper
) -> None:
    zookeeper.put(f"{NODES}/n1/stat", "{")
    zookeeper.put(f"{NODES}/n2/wanted", '{"status":"WORKING"}')
    one, two = nodes.all()
    assert (one.health, "n1/stat" in one.health_reason) == ("RED", True)
    assert two == NodeInfo("n2", False, NodeWish())


def test_a_task_is_what_its_dist_nodes_hold(zookeeper: MemoryZooKeeper) -> None:
    client: Any = zookeeper
    dists = DistNodes(client)
    assert dists.get("7") is None
    text = '{"taskId":"7","nodeId":"","dataConsumer":{"consumerName":"KafkaFetch"}}'
    zookeeper.put(dist_path("7", "orders"), text)
    found = dists.get("7")
    assert found is not None
    assert found["taskId"] == "7"
    assert stored_dists(client) == {dist_path("7", "orders"): text}
    zookeeper.put(dist_path("7", "orders"), "no task")
    with pytest.raises(ConfigError, match=f"{dist_path('7')}: orders"):
        dists.get("7")


def test_a_text_that_is_deleted_while_it_is_read_is_no_other_task(
    zookeeper: MemoryZooKeeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as by an import with other topics: without a part, the task would seem to have none."""
    client: Any = zookeeper
    for swimlane in ("orders", "users"):
        zookeeper.put(dist_path("7", swimlane), {"taskId": "7"})
    read = zookeeper.get_async

    def deleted(path: str, watch: Any = None) -> Any:
        zookeeper.delete_async(path)
        return read(path, watch)

    monkeypatch.setattr(zookeeper, "get_async", deleted)
    with pytest.raises(PositionConflict, match=f"{dist_path('7', 'orders')} was deleted while it"):
        DistNodes(client).get("7")


def test_schemas_are_written_changed_and_taken_out_one_by_one(zookeeper: MemoryZooKeeper) -> None:
    client: Any = zookeeper
    schemas = ZooKeeperSchemas(client, "7", "shop")
    assert schemas.load() == {}
    assert schemas.path == schema_path("7", "shop")
    schemas.save({"orders": "one", "users": "two", "never": None})
    assert schemas.load() == {"orders": "one", "users": "two"}
    schemas.save({"orders": "three", "users": None})
    assert schemas.load() == {"orders": "three"}
