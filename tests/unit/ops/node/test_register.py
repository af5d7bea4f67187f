"""A node that begins while another process, perhaps of a machine that has failed, has its name; and
which tasks it takes where one cannot be looked at."""

from __future__ import annotations

import logging
import re
from dataclasses import replace
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest

from cdcbus import __version__
from cdcbus.ops.node import node as node_module
from cdcbus.ops.node.held_task import NodeSettings
from cdcbus.ops.node.node import Node
from cdcbus.plugins.errors import ConfigError
from cdcbus.plugins.task_status import State
from cdcbus.tasks.zookeeper.tasks import Run, TaskNodes
from tests.support.stand_ins.memory_zookeeper import SESSION, MemoryZooKeeper

LOCK = "/datas/node/n1/lock"
SESSION_SECONDS = 40.0


class Waiting(Event):
    """Time passes where it is waited for; after `gone_after` the other's session has ended."""

    def __init__(self, zookeeper: MemoryZooKeeper, gone_after: float) -> None:
        super().__init__()
        self.now = 0.0
        self._zookeeper, self._gone_after = zookeeper, gone_after

    def wait(self, timeout: float | None = None) -> bool:
        self.now += timeout or 0.0
        if self.now >= self._gone_after and LOCK in self._zookeeper.nodes:
            self._zookeeper.delete_async(LOCK)
        return self.is_set()


def register(
    monkeypatch: pytest.MonkeyPatch, gone_after: float, owner: int = SESSION + 1
) -> Waiting:
    client: Any = MemoryZooKeeper()
    client.cdcbus_kept_seconds = SESSION_SECONDS
    client.put(LOCK, {"processId": 5, "hostName": "other"}, owner)
    stop = Waiting(client, gone_after)
    monkeypatch.setattr(node_module, "time", SimpleNamespace(monotonic=lambda: stop.now))
    Node(NodeSettings("n1", 9, Path(), {}), client)._register(stop)
    return stop


def test_the_session_of_a_machine_that_has_failed_is_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert register(monkeypatch, SESSION_SECONDS).now == SESSION_SECONDS


def test_a_bug_at_one_task_does_not_keep_a_node_from_taking_others(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    client: Any = MemoryZooKeeper()
    tasks = TaskNodes(client)
    for task_id in ("7", "8"):
        tasks.want(task_id, True, "ann")
    node = Node(NodeSettings("n1", 9, Path(), {}), client)
    considered = []

    def consider(task_id: str, *_: object) -> bool:
        considered.append(task_id)
        if task_id == "7":
            raise RuntimeError("a bug")
        return False

    monkeypatch.setattr(node, "_consider", consider)
    node._take_one()
    assert considered == ["7", "8"]
    assert "task 7: unexpected RuntimeError; please report it" in caplog.text


@pytest.mark.parametrize(
    ("state", "given", "counts"),
    [(State.RETRYING, "", (2, 14)), (State.ERROR, "99", (0, 14))],  # the latter is given anew
)
def test_a_task_that_fails_keeps_its_counts_on_another_node(
    monkeypatch: pytest.MonkeyPatch, state: State, given: str, counts: tuple[int, int]
) -> None:
    client: Any = MemoryZooKeeper()
    client.put("/datas/task/7/dist/t", {"consumer": {"consumerName": "CanalFetch"}})
    tasks = TaskNodes(client)
    tasks.want("7", True, "ann")
    desired = tasks.wanted("7")
    assert desired is not None
    before = Run(state, order=desired.order, restarts=2, all_restarts=14, given=given)
    tasks.put_run("7", replace(before, restarted_at=(5,)))
    node = Node(NodeSettings("n1", 9, Path(), {}), client)
    taken: list[Run] = []
    monkeypatch.setattr(node._held, "take", lambda _, __, run: taken.append(run))
    node._take_one()
    [run] = taken
    assert ((run.restarts, run.all_restarts), run.restarted_at) == (counts, (5,))


@pytest.mark.parametrize(
    ("texts", "starts"),
    [({}, 1), ({"environment": "test"}, 0), ({"nodeId": "n2"}, 0)],
)
def test_a_task_is_said_to_be_started_again_only_by_the_node_that_starts_it(
    texts: dict[str, str],
    starts: int,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    client: Any = MemoryZooKeeper()
    client.put("/datas/task/7/dist/t", {"consumer": {"consumerName": "CanalFetch"}, **texts})
    tasks = TaskNodes(client)
    tasks.want("7", True, "ann")
    desired = tasks.wanted("7")
    assert desired is not None
    tasks.put_run("7", Run(State.ERROR, order=desired.order, given="99"))
    node = Node(NodeSettings("n1", 9, Path(), {}), client)
    taken: list[str] = []
    monkeypatch.setattr(node._held, "take", lambda task_id, *_: taken.append(task_id))
    with caplog.at_level(logging.INFO):
        node._look_around()
    assert (len(taken), caplog.text.count("it is started again")) == (starts, starts)


def test_a_node_says_once_that_others_have_another_version(
    caplog: pytest.LogCaptureFixture,
) -> None:
    client: Any = MemoryZooKeeper()
    client.cdcbus_kept_seconds = SESSION_SECONDS
    node = Node(NodeSettings("n1", 9, Path(), {}), client)
    node._register(Event())
    node._look()
    assert not caplog.messages
    client.put("/datas/node/n2/lock", {"version": "9.9.9"}, SESSION + 1)
    client.changed("/datas/node/n2")  # as the parent of the first one below it
    for _ in range(2):
        node._reported_at = 0.0
        node._look()
    [line] = caplog.messages
    assert "n2 9.9.9), and an older one takes tasks" in line


@pytest.mark.parametrize(
    ("refused", "lines"), [("node/n2/lock", 0), ("node/n1/wanted", 1), ("task/7/wanted", 1)]
)
def test_a_refused_znode_keeps_a_node_from_nothing_else(
    refused: str, lines: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Such as one that an operator's command has made with another login."""
    client: Any = MemoryZooKeeper()
    client.cdcbus_kept_seconds = SESSION_SECONDS
    client.put("/datas/node/n2/lock", {"version": __version__}, SESSION + 1)
    client.put("/datas/task/7/dist/t", {})
    client.put("/datas/task/8/dist/t", {"consumer": {"consumerName": "CanalFetch"}})
    TaskNodes(client).want("8", True, "ann")
    client.refused.add(f"/datas/{refused}")
    node = Node(NodeSettings("n1", 9, Path(), {}), client)
    taken: list[str] = []
    monkeypatch.setattr(node._held, "take", lambda task_id, *_: taken.append(task_id))
    node._register(Event())
    for _ in range(2):
        node._reported_at = node._looked_at = 0.0
        node._look()
    assert taken == ["8", "8"]
    assert "/datas/node/n1/stat" in client.nodes
    assert [f"/datas/{refused}; check" in each for each in caplog.messages] == [True] * lines


def test_another_process_that_runs_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="node n1 is process 5 on other already"):
        register(monkeypatch, 3600.0)


def test_a_lock_of_no_session_is_no_process_and_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match=f"a persistent znode, .* delete {LOCK} with zkCli"):
        register(monkeypatch, 3600.0, owner=0)


@pytest.mark.parametrize(
    ("owner", "told"),
    [
        (SESSION + 1, "node n1 is process 5 on other by now"),
        (0, f"node n1 has a lock in a persistent znode, .* delete {LOCK} with zkCli"),
    ],
)
def test_a_node_that_has_lost_its_lock_says_to_whom(
    owner: int, told: str, caplog: pytest.LogCaptureFixture
) -> None:
    client: Any = MemoryZooKeeper()
    client.put(LOCK, {"processId": 5, "hostName": "other"}, owner)
    Node(NodeSettings("n1", 9, Path(), {}), client)._look_around()
    assert re.search(told, caplog.text)
