"""What is said of all tasks and nodes while ZooKeeper refuses a znode of one of them, as that of a
command which somebody has given with another login."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from kazoo.exceptions import ConnectionLoss

from cdcbus.ops.web import api, porter
from cdcbus.ops.web.bus import WebBus
from cdcbus.ops.web.health import complaints
from cdcbus.ops.web.metrics import exposed, of_all
from cdcbus.ops.web.overview.stored_tasks import StoredTasks
from cdcbus.ops.web.overview.task_rows import Overviews
from cdcbus.ops.web.pages.alarms import alarms_of
from cdcbus.plugins.errors import PositionUnavailable
from cdcbus.plugins.task_status import State
from cdcbus.tasks.control.bus_settings import read_bus_settings
from cdcbus.tasks.verify.last import LastVerify, VerifyNodes
from cdcbus.tasks.zookeeper.node_registry import BusNodes
from cdcbus.tasks.zookeeper.stat import Stat
from cdcbus.tasks.zookeeper.tasks import Run, TaskNodes
from tests.support.stand_ins.memory_zookeeper import MemoryZooKeeper

OF_A_TASK = (
    "dist",
    "dist/t",
    "wanted",
    "claim",
    "state",
    "stat",
    "letters",
    "lock",
    "lock/t",
    "error",
    "verify",
    "alarm",
    "alarm/silence",
    "minutes",
)
# Without these nothing is known of its state.
OF_ITS_STATE = ("wanted", "claim", "state", "stat", "letters", "lock", "lock/t")


@pytest.fixture
def zookeeper() -> MemoryZooKeeper:
    """Tasks 7 and 8 run on node n1, 9 waits for a node, and n2 runs as well."""
    made = MemoryZooKeeper()
    client: Any = made
    nodes, tasks = BusNodes(client), TaskNodes(client)
    assert nodes.register("n1") is None
    nodes.put_stat("n1", {"tasks": {"7": ["t"], "8": ["t"]}, "workLimit": 2})
    made.put("/datas/node/n2/lock", {"nodeId": "n2"}, owner=5)
    for task_id in ("7", "8"):
        made.put(f"/datas/task/{task_id}/dist/t", {})
        tasks.want(task_id, True, "ann")
        assert tasks.claim(task_id, "n1")
        desired = tasks.wanted(task_id)
        assert desired is not None
        tasks.put_run(task_id, Run(State.WORKING, order=desired.order, node_id="n1"))
        made.put(f"/datas/task/{task_id}/lock/t", {"processId": 1, "nodeId": "n1"}, owner=6)
        tasks.put_stat(task_id, Stat(State.WORKING, node_id="n1", process_id=1, rows=3))
        tasks.put_open_dead_letters(task_id, 2)
        VerifyNodes(client).put_last(task_id, LastVerify("then", "2024-05-01 03:04:05"))
    made.put("/datas/task/9/dist/t", {})
    tasks.want("9", True, "ann")
    return made


@pytest.fixture
def bus(zookeeper: MemoryZooKeeper) -> WebBus:
    client: Any = zookeeper
    return WebBus(client, read_bus_settings({}, None, {}, Path()), "n1")


def lines(bus: WebBus, of: str) -> set[str]:
    """What /metrics says of this."""
    found = exposed(of_all(bus)).decode().splitlines()
    return {each for each in found if of in each and "silent_seconds" not in each}


@pytest.mark.parametrize("name", OF_A_TASK)
def test_other_tasks_are_shown_as_ever(zookeeper: MemoryZooKeeper, bus: WebBus, name: str) -> None:
    before = lines(bus, 'task="8"')
    assert 'cdcbus_task_rows_total{task="8"} 3.0' in before
    [row] = [each for each in Overviews(bus, StoredTasks(bus)).rows() if each.status.task_id == "8"]
    zookeeper.refused.add(f"/datas/task/7/{name}")
    assert lines(bus, 'task="8"') == before
    rows = {each.status.task_id: each for each in Overviews(bus, StoredTasks(bus)).rows()}
    assert rows["8"] == row
    states = {"7": State.ERROR if name in OF_ITS_STATE else State.WORKING, "8": State.WORKING}
    assert {task_id: rows[task_id].status.state for task_id in states} == states
    assert {each.task_id: each.state for each in api.tasks(bus) if each.task_id != "9"} == states
    assert [each.task_id for each in api.alarms(bus)] == ["7", "8", "9"]
    assert list(complaints(bus, bus.started)) == []
    path = f"ZooKeeper does not let this user use /datas/task/7/{name}; check"
    assert bytes(porter.check(bus).body).decode().count(path.replace(";", ",")) == (
        name in OF_ITS_STATE
    )
    if name in OF_ITS_STATE:
        assert path in rows["7"].status.reason
    if name.startswith("alarm"):
        [(rule, sentence)] = rows["7"].alarms
        assert (rule, path in sentence) == ("zookeeper", True)
        assert [each.sentence for each in alarms_of(bus, "7").raised] == [sentence]


@pytest.mark.parametrize("name", ["lock", "stat", "wanted"])
def test_other_nodes_and_all_tasks_are_shown_as_ever(
    zookeeper: MemoryZooKeeper, bus: WebBus, name: str
) -> None:
    before = lines(bus, 'node="n1"') | lines(bus, 'task="8"')
    path = f"/datas/node/n2/{name}"
    zookeeper.refused.add(path)
    assert lines(bus, 'node="n1"') | lines(bus, 'task="8"') == before
    one, two = api.nodes(bus)
    assert (one.state, two.health) == ("working", "RED")
    assert path in two.health_reason
    assert [each.task_id for each in api.tasks(bus)] == ["7", "8", "9"]
    assert len(Overviews(bus, StoredTasks(bus)).rows()) == 3


def test_a_waiting_task_whose_text_is_refused_says_so(
    zookeeper: MemoryZooKeeper, bus: WebBus
) -> None:
    zookeeper.refused.add("/datas/task/9/dist")
    reason = api.tasks(bus)[2].reason
    assert reason.startswith("no node takes it: ZooKeeper does not let this user use ")


def test_silence_is_still_an_error(zookeeper: MemoryZooKeeper, bus: WebBus) -> None:
    """Old values would look like new ones, and missing ones like tasks that were removed."""
    zookeeper.refusal = ConnectionLoss()
    for ask in (
        lambda: exposed(of_all(bus)),
        Overviews(bus, StoredTasks(bus)).rows,
        lambda: api.tasks(bus),
        lambda: api.nodes(bus),
        lambda: alarms_of(bus, "7"),
    ):
        with pytest.raises(PositionUnavailable):
            ask()
