"""The tasks that a node has claimed, where it cannot start one, and where ZooKeeper is silent."""

from __future__ import annotations

import os
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest
from kazoo.exceptions import QuotaExceededError

from cdcbus.ops.alarms.complaints import Complaints
from cdcbus.ops.node.held_task import HeldTask, NodeSettings
from cdcbus.ops.node.held_tasks import HeldTasks
from cdcbus.ops.services.offer import Offer
from cdcbus.plugins.task_status import State
from cdcbus.tasks.zookeeper.tasks import Run, TaskNodes
from tests.support.processes.no_threads import is_left, started_processes, without_threads
from tests.support.stand_ins.memory_zookeeper import MemoryZooKeeper


@pytest.fixture
def zookeeper() -> MemoryZooKeeper:
    return MemoryZooKeeper()


@pytest.fixture
def held(zookeeper: MemoryZooKeeper, tmp_path: Path) -> HeldTasks:
    client: Any = zookeeper
    settings = NodeSettings("n1", 9, tmp_path, dict(os.environ))
    return HeldTasks(settings, TaskNodes(client), Complaints(), Event())


@pytest.mark.parametrize("is_shared", [False, True])
def test_a_task_for_which_no_thread_is_left_is_started_later(
    held: HeldTasks, monkeypatch: pytest.MonkeyPatch, is_shared: bool
) -> None:
    """The node and its other tasks continue."""
    without_threads(monkeypatch, "log-")
    started = started_processes(monkeypatch)
    held.take("7", Offer(("a",), is_shared=is_shared), Run(State.STARTING))
    task = held.tasks["7"]
    assert (task.process, task.run.state, task.run.restarts) == (None, State.RETRYING, 1)
    assert "cannot be started on node n1: Resource temporarily unavailable" in task.run.reason
    assert started
    assert not any(map(is_left, started))


def test_a_silent_zookeeper_is_waited_for_once_when_a_node_ends(
    held: HeldTasks, zookeeper: MemoryZooKeeper
) -> None:
    for number in range(100):
        # They wait for their next start.
        held.tasks[str(number)] = HeldTask(Offer(("a",)), Run(State.RETRYING))
    zookeeper.is_silent = True
    held.end()
    assert held.tasks == {}
    assert len(zookeeper.asked) == 1


def test_a_quota_that_is_used_up_holds_up_its_own_task_only(
    held: HeldTasks, zookeeper: MemoryZooKeeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = zookeeper.set_async

    def refuse(path: str, data: bytes, version: int = -1) -> Any:
        zookeeper.refusal = QuotaExceededError() if "/task/7/" in path else None
        made = real(path, data, version)
        zookeeper.refusal = None
        return made

    nodes = TaskNodes(held._nodes.client)
    for task_id in ("7", "8"):
        assert nodes.claim(task_id, "n1")
        nodes.put_run(task_id, Run(State.WORKING))
        last = Run(State.STOPPED)
        held.tasks[task_id] = HeldTask(Offer(("a",)), last, stop_by=1.0, last_run=last)
    monkeypatch.setattr(zookeeper, "set_async", refuse)
    held.care()
    assert list(held.tasks) == ["7"]
    # It is tried again, and the quota may be raised by then.
    monkeypatch.setattr(zookeeper, "set_async", real)
    held.care()
    assert held.tasks == {}
    for task_id in ("7", "8"):
        run = nodes.run(task_id)
        assert run is not None and run.state is State.STOPPED


class Broken:
    """A process that cannot be looked at."""

    def ended(self) -> int | None:
        raise RuntimeError("a bug")


def test_a_bug_at_one_task_does_not_keep_a_node_from_its_others(
    held: HeldTasks, caplog: pytest.LogCaptureFixture
) -> None:
    nodes = TaskNodes(held._nodes.client)
    broken: Any = Broken()
    for task_id, process in (("7", broken), ("8", None)):
        assert nodes.claim(task_id, "n1")
        last = Run(State.STOPPED)
        held.tasks[task_id] = HeldTask(
            Offer(("a",)), last, process=process, stop_by=1.0, last_run=last
        )
    held.care()
    assert list(held.tasks) == ["7"]
    assert "task 7: unexpected RuntimeError; please report it" in caplog.text


def test_a_damaged_report_does_not_keep_a_task_from_being_stopped(
    held: HeldTasks, zookeeper: MemoryZooKeeper
) -> None:
    nodes = TaskNodes(held._nodes.client)
    assert nodes.claim("7", "n1")
    zookeeper.put("/datas/task/7/stat", '{"state":"DANCING"}')
    process: Any = SimpleNamespace(ended=lambda: 0, kill=lambda: None, token="1")
    last = Run(State.STOPPED)
    held.tasks["7"] = HeldTask(Offer(("a",)), last, process=process, stop_by=1.0, last_run=last)
    held.care()
    assert held.tasks == {}


def test_tasks_are_given_back_when_a_node_ends(held: HeldTasks, zookeeper: MemoryZooKeeper) -> None:
    nodes = TaskNodes(held._nodes.client)
    for task_id in ("7", "8"):
        assert nodes.claim(task_id, "n1")
        held.tasks[task_id] = HeldTask(Offer(("a",)), Run(State.RETRYING, restarts=2))
    held.end()
    for task_id in ("7", "8"):
        assert nodes.claimed_by(task_id) is None
        run = nodes.run(task_id)
        assert run is not None
        assert (run.state, run.reason, run.restarts) == (State.STARTING, "node n1 has ended", 2)
