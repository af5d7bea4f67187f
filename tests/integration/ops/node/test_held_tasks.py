"""The tasks that a node has claimed, where ZooKeeper's tree changes below them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from threading import Event
from typing import Any, cast

import pytest

from cdcbus.ops.alarms.complaints import Complaints
from cdcbus.ops.node import held_tasks
from cdcbus.ops.node.held_task import HeldTask, NodeSettings
from cdcbus.ops.node.held_tasks import HeldTasks
from cdcbus.ops.services.offer import Offer
from cdcbus.plugins.task_status import State
from cdcbus.tasks.zookeeper.audit import audited
from cdcbus.tasks.zookeeper.connection import connect
from cdcbus.tasks.zookeeper.dist_nodes import DistNodes
from cdcbus.tasks.zookeeper.tasks import Run, TaskNodes
from tests.support.servers.private_zookeeper import PrivateZooKeeper, private_zookeeper
from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration


class Running:
    """A process that runs, until it is asked to stop."""

    token = "1"

    is_faultless = False

    def __init__(self) -> None:
        self.is_asked = False
        self.code: int | None = None

    def ended(self) -> int | None:
        return 0 if self.is_asked else self.code

    def last_words(self) -> str:
        return "its lock is lost"

    def ask_to_stop(self) -> None:
        self.is_asked = True

    def kill(self) -> None:
        """It has ended by then."""


class Holding:
    """A node that runs task 7, and an operator beside it."""

    def __init__(self, server: PrivateZooKeeper, logs: Path) -> None:
        self.client = connect(server.address, session_seconds=4)
        self.operator = connect(server.address, session_seconds=4)
        self.tasks = TaskNodes(self.operator)
        settings = NodeSettings("n1", 9, logs, dict(os.environ))
        self.held = HeldTasks(settings, TaskNodes(self.client), Complaints(), Event())
        self.process = Running()
        self.started: list[str] = []

    def place(self) -> None:
        """Imports the task, as a file or over itself."""
        DistNodes(self.operator).put({"7": {"a": {"taskId": "7"}}}, is_replacing=True)

    def take(self, damage: bytes = b"") -> None:
        """The task is started by a command, and runs. `damage`: what the command holds then."""
        self.tasks.want("7", True, "ada@h")
        nodes = TaskNodes(self.client)
        wanted = nodes.wanted("7")
        assert wanted is not None and nodes.claim("7", "n1")
        run = Run(State.WORKING, order=wanted.order, node_id="n1")
        self.held.tasks["7"] = HeldTask(Offer(("a",)), run, process=cast(Any, self.process))
        if damage:
            self.operator.set("/datas/task/7/wanted", damage)
        self.care()
        assert not self.process.is_asked

    def care(self) -> None:
        self.held.look_at_all()
        self.held.care()

    def end_session(self) -> None:
        """As where the node was away for longer."""
        self.client.stop()
        self.client.start()

    def names(self) -> list[str]:
        """What is there of the task, and of its folder."""
        stat: Any = self.operator.exists("/datas/task/7")
        return ["", *sorted(self.operator.get_children("/datas/task/7"))] if stat else []

    def close(self) -> None:
        for client in (self.client, self.operator):
            client.stop()
            client.close()


@pytest.fixture(scope="module")
def server() -> Iterator[PrivateZooKeeper]:
    with private_zookeeper() as server:
        yield server


@pytest.fixture
def holding(
    server: PrivateZooKeeper, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Holding]:
    monkeypatch.setattr(held_tasks, "LOST_SECONDS", 0.0)
    holding = Holding(server, tmp_path)

    def start(task_id: str, *_: object) -> Running:
        holding.started.append(task_id)
        return holding.process

    monkeypatch.setattr(held_tasks, "start_task", start)
    try:
        holding.operator.delete("/datas", recursive=True)
        holding.place()
        yield holding
    finally:
        holding.close()


@pytest.mark.parametrize("is_running", [True, False])
def test_a_task_that_is_imported_in_place_of_a_removed_one_waits_to_be_started(
    holding: Holding, is_running: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """The node that had the former was away, and so has never read that it was stopped."""
    holding.take()
    holding.end_session()
    if not is_running:  # it has ended by itself, without its lock
        holding.held.tasks["7"].process = None
    holding.tasks.want("7", False, "ada@h")
    with audited(holding.operator, "ada@h", "task rm", "task 7"):
        holding.tasks.remove("7")
    holding.place()
    for _ in range(4):
        holding.care()
    assert holding.held.tasks == {}
    assert (holding.process.is_asked, holding.started) == (is_running, [])
    assert holding.names() == ["", "dist"]
    assert "task 7 was removed, and another one imported in its place" in caplog.text


def test_nothing_starts_while_a_command_is_missing(
    holding: Holding, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(held_tasks, "LOST_SECONDS", 600.0)
    holding.take()
    holding.held.tasks["7"].process = None
    holding.operator.delete("/datas/task/7/wanted")
    for _ in range(3):
        holding.care()
    assert holding.started == []
    holding.tasks.want("7", False, "ada@h")
    for _ in range(3):
        holding.care()
    assert (holding.held.tasks, holding.started) == ({}, [])


@pytest.mark.parametrize("has_ended", [True, False])
def test_a_node_that_was_away_leaves_the_state_to_the_one_that_has_the_task_now(
    holding: Holding, has_ended: bool
) -> None:
    """Its process has ended meanwhile, or has failed before and is due to start again."""
    holding.take()
    holding.end_session()
    assert holding.tasks.claim("7", "n2")
    state = Run(State.WORKING, order=holding.held.tasks["7"].run.order, node_id="n2")
    holding.tasks.put_run("7", state)
    if has_ended:
        holding.process.code = 1
    else:
        holding.held.tasks["7"].process = None
        holding.held.tasks["7"].is_commanded = False
    for _ in range(3):
        holding.held.care()
    assert (holding.held.tasks, holding.started) == ({}, [])
    assert (holding.tasks.run("7"), holding.tasks.errors("7")) == (state, [])


def test_a_failure_that_comes_with_a_lost_session_is_told_once_the_task_is_claimed_again(
    holding: Holding,
) -> None:
    holding.take()
    holding.end_session()
    holding.process.code = 1
    for _ in range(3):
        holding.held.care()
    run = holding.tasks.run("7")
    assert run is not None
    assert (run.state, run.reason, run.restarts) == (State.RETRYING, "its lock is lost", 1)
    assert [each.times for each in holding.tasks.errors("7")] == [1]
    assert holding.tasks.claimed_by("7") == "n1"


@pytest.mark.parametrize("is_claimed", [True, False])
def test_a_task_that_is_deleted_by_hand_leaves_nothing(holding: Holding, is_claimed: bool) -> None:
    holding.take()
    if not is_claimed:
        holding.end_session()
    holding.operator.delete("/datas/task/7", recursive=True)
    for _ in range(3):
        holding.care()
    assert (holding.held.tasks, holding.process.is_asked) == ({}, True)
    assert holding.names() == []


def test_a_deletion_that_is_under_way_is_not_held_up_by_a_claim(
    holding: Holding, monkeypatch: pytest.MonkeyPatch
) -> None:
    """zkCli's deleteall deletes what it has listed before."""
    monkeypatch.setattr(held_tasks, "LOST_SECONDS", 600.0)
    holding.take()
    for name in ("wanted", "claim"):
        holding.operator.delete(f"/datas/task/7/{name}")
    holding.care()
    assert holding.names() == ["", "dist"]


def test_a_task_goes_on_in_a_zookeeper_restored_from_before_its_command(
    server: PrivateZooKeeper, holding: Holding, tmp_path: Path
) -> None:
    """It is the same task there, also if it was imported over itself since."""
    server.kill()
    server.keep(tmp_path / "backup")
    server.start()
    holding.place()
    holding.take()
    server.kill()
    server.restore(tmp_path / "backup")
    server.start()
    clients = (holding.client, holding.operator)
    wait_until(lambda: all(client.connected for client in clients), "the clients to be back")
    for _ in range(3):
        holding.care()
    wanted = holding.tasks.wanted("7")
    assert wanted is not None
    assert (wanted.is_working, wanted.by) == (True, "node n1")
    assert holding.held.tasks["7"].run.order == wanted.order
    assert not holding.process.is_asked


@pytest.mark.parametrize("is_damaged", [True, False])
def test_a_task_goes_on_in_a_tree_that_is_copied_back_without_its_command(
    holding: Holding, is_damaged: bool
) -> None:
    """It has new numbers there. Also where the command was damaged before its node has seen it; and
    a removal from before the start says nothing."""
    with audited(holding.operator, "ada@h", "task rm", "task 7"):
        holding.tasks.remove("7")
    holding.place()
    holding.take(b"x" if is_damaged else b"")
    holding.end_session()
    copied = holding.operator.get("/datas/task/7/dist/a")[0]
    holding.operator.delete("/datas/task/7", recursive=True)
    holding.operator.create("/datas/task/7/dist/a", copied, makepath=True)
    for _ in range(3):
        holding.care()
    wanted = holding.tasks.wanted("7")
    assert wanted is not None
    assert (wanted.is_working, wanted.by) == (True, "node n1")
    assert holding.held.tasks["7"].run.order == wanted.order
    assert (holding.process.is_asked, holding.tasks.claimed_by("7")) == (False, "n1")
