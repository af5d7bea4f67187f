"""The tasks that a node has claimed, where it cannot start one, and where ZooKeeper is silent."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any, cast

import pytest
from kazoo.exceptions import QuotaExceededError

from cdcbus.ops.alarms.complaints import Complaints
from cdcbus.ops.node import held_tasks
from cdcbus.ops.node.held_task import HeldTask, NodeSettings
from cdcbus.ops.node.held_tasks import HeldTasks
from cdcbus.ops.node.spark_process import SparkTask
from cdcbus.ops.services.offer import Offer
from cdcbus.plugins.errors import PositionUnavailable
from cdcbus.plugins.task_status import State
from cdcbus.tasks.zookeeper import tasks
from cdcbus.tasks.zookeeper.tasks import Run, TaskNodes
from cdcbus.tasks.zookeeper.znode import STAMP
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
    assert TaskNodes(held._nodes.client).claim("7", "n1")
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


@pytest.mark.parametrize("is_refused", [False, True])
def test_a_damaged_report_does_not_keep_a_task_from_being_stopped(
    held: HeldTasks, zookeeper: MemoryZooKeeper, is_refused: bool
) -> None:
    nodes = TaskNodes(held._nodes.client)
    assert nodes.claim("7", "n1")
    zookeeper.put("/datas/task/7/stat", '{"state":"DANCING"}')
    if is_refused:
        zookeeper.refused.add("/datas/task/7/stat")
    process: Any = SimpleNamespace(ended=lambda: 0, kill=lambda: None, token="1")
    last = Run(State.STOPPED)
    held.tasks["7"] = HeldTask(Offer(("a",)), last, process=process, stop_by=1.0, last_run=last)
    held.care()
    assert held.tasks == {}


class Running:
    """A process that runs, until it is asked to stop."""

    token = "1"

    def __init__(self) -> None:
        self.is_asked = False

    def ended(self) -> int | None:
        return 0 if self.is_asked else None

    def ask_to_stop(self) -> None:
        self.is_asked = True

    def kill(self) -> None:
        """It has ended by then."""


@pytest.fixture
def running(held: HeldTasks, zookeeper: MemoryZooKeeper, clock: Clock) -> Running:
    """The process of task 7, which was started by a command."""
    zookeeper.put("/datas/task/7/dist/a", {"taskId": "7"})
    nodes = TaskNodes(held._nodes.client)
    nodes.want("7", True, "ada@h")
    assert nodes.claim("7", "n1")
    wanted = nodes.wanted("7")
    assert wanted
    process = Running()
    run = Run(State.WORKING, order=wanted.order, node_id="n1")
    held.tasks["7"] = HeldTask(
        Offer(("a",)), run, process=cast(Any, process), listed_since=clock.stamp()
    )
    held.care()
    assert not process.is_asked
    clock.seconds += 60
    return process


def test_a_task_whose_command_is_lost_goes_on_by_a_new_one(
    held: HeldTasks,
    zookeeper: MemoryZooKeeper,
    running: Running,
    clock: Clock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Otherwise no other node would take it, and no alarm would tell that it stands still."""
    zookeeper.delete_async("/datas/task/7/wanted").get()
    held.look_at_all()
    for _ in range(8):
        held.care()
        clock.seconds += 1
    wanted = TaskNodes(held._nodes.client).wanted("7")
    assert wanted is not None
    assert (wanted.is_working, wanted.by) == (True, "node n1")
    assert held.tasks["7"].run.order == wanted.order
    assert "/datas/task/7/wanted was deleted, or ZooKeeper restored" in caplog.text
    held.look_at_all()
    held.care()
    assert not running.is_asked
    assert len(caplog.records) == 1


@pytest.mark.parametrize("is_refused", [False, True])
def test_a_task_whose_command_cannot_be_read_keeps_its_claim(
    held: HeldTasks, zookeeper: MemoryZooKeeper, running: Running, is_refused: bool
) -> None:
    """Else another node would take it, once the session is lost."""
    zookeeper.put("/datas/task/7/wanted", '{"status":"MAYBE"}')
    if is_refused:
        zookeeper.refused.add("/datas/task/7/wanted")
    zookeeper.delete_async("/datas/task/7/claim").get()
    held.look_at_all()
    held.care()
    assert TaskNodes(held._nodes.client).claimed_by("7") == "n1"
    assert not running.is_asked


def test_a_command_that_is_given_meanwhile_counts(
    held: HeldTasks, zookeeper: MemoryZooKeeper, running: Running, clock: Clock
) -> None:
    zookeeper.delete_async("/datas/task/7/wanted").get()
    held.look_at_all()
    held.care()
    clock.seconds += 1
    TaskNodes(held._nodes.client).want("7", False, "ada@h")
    held.care()
    assert running.is_asked
    held.care()
    assert held.tasks == {}


def test_a_task_that_is_deleted_as_a_whole_is_stopped_and_not_made_again(
    held: HeldTasks,
    zookeeper: MemoryZooKeeper,
    running: Running,
    clock: Clock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """As by zkCli's deleteall, which takes a moment."""
    zookeeper.delete_async("/datas/task/7/wanted").get()
    held.look_at_all()
    held.care()
    clock.seconds += 1
    zookeeper.delete_async("/datas/task/7/dist/a").get()
    held.care()
    assert running.is_asked
    assert "task 7 is not in ZooKeeper any more; it is stopped" in caplog.text
    clock.seconds += 60
    held.care()
    assert not zookeeper.exists("/datas/task/7/wanted")
    assert not zookeeper.exists("/datas/task/7/state")


@pytest.mark.parametrize("is_older", [False, True])
def test_a_stop_that_is_older_than_the_task_says_so(
    held: HeldTasks, zookeeper: MemoryZooKeeper, running: Running, is_older: bool
) -> None:
    """As where ZooKeeper was restored from a time when the task was stopped."""
    at = "2020-01-01 00:00:00" if is_older else "2030-01-01 00:00:00"
    task = held.tasks["7"]
    task.run = replace(task.run, order=task.run.order + 100)
    fields = {"taskId": "7", "status": "STOPPED", "by": "ada@h", "at": at}
    zookeeper.put("/datas/task/7/wanted", fields)
    held.look_at_all()
    held.care()
    held.care()
    assert (running.is_asked, held.tasks) == (True, {})
    run = TaskNodes(held._nodes.client).run("7")
    assert run is not None
    assert ("cdcbus task start 7" in run.reason) is is_older
    assert ("of ada@h at 2020-01-01 00:00:00 UTC, is older than" in run.reason) is is_older


class Clock:
    """Both the wall clock and the monotonic one."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seconds = 1_795_600_000.0
        for module in (held_tasks, tasks):
            monkeypatch.setattr(module, "now", self.stamp)
        times = SimpleNamespace(time=lambda: self.seconds, monotonic=lambda: self.seconds)
        monkeypatch.setattr(held_tasks, "time", times)

    def stamp(self) -> str:
        return f"{datetime.fromtimestamp(self.seconds, UTC):{STAMP}}"


def ended(held: HeldTasks, code: int, words: str = "", is_faultless: bool = False) -> None:
    """Task 7 has worked for long when its process ends."""
    task = held.tasks["7"]
    task.worked_since = 1.0
    task.process = process = cast(
        Any,
        SimpleNamespace(
            ended=lambda: code,
            kill=lambda: None,
            last_words=lambda: words,
            is_faultless=is_faultless,
            token="1",
        ),
    )
    held._ended("7", task, process, code)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


@pytest.mark.parametrize("is_faultless", [False, True])
def test_each_time_that_a_task_is_killed_counts_with_its_time(
    held: HeldTasks, clock: Clock, is_faultless: bool
) -> None:
    """It can report nothing then, and works again for longer than failures are counted on."""
    nodes = TaskNodes(held._nodes.client)
    assert nodes.claim("7", "n1")
    held.tasks["7"] = HeldTask(Offer(("a",)), Run(State.WORKING, node_id="n1"))
    first = int(clock.seconds)
    ended(held, -9, is_faultless=is_faultless)
    clock.seconds += 150
    ended(held, -9, is_faultless=is_faultless)
    [failure] = nodes.errors("7")
    assert (failure.times, failure.at) == (2, clock.stamp())
    run = nodes.run("7")
    assert run is not None
    assert (run.restarts, run.all_restarts) == (0 if is_faultless else 1, 2)
    assert run.restarted_at == (first, first + 150)


@pytest.mark.parametrize(
    ("words", "reason"),
    [("out of memory", "out of memory"), ("", "ended by signal 9 from outside")],
)
def test_a_task_whose_spark_has_ended_says_why(
    held: HeldTasks, clock: Clock, words: str, reason: str
) -> None:
    nodes = TaskNodes(held._nodes.client)
    assert nodes.claim("7", "n1")
    nothing: Any = SimpleNamespace(token="1")
    task = SparkTask(1, nothing)
    task.end(-9, words, is_faultless=False)
    held.tasks["7"] = HeldTask(Offer(("a",)), Run(State.WORKING, node_id="n1"), process=task)
    held._ended("7", held.tasks["7"], task, -9)
    run = nodes.run("7")
    assert run is not None
    assert (run.reason, run.restarts) == (reason, 1)


def test_a_kill_after_which_a_task_is_not_started_again_counts_once(
    held: HeldTasks, clock: Clock, zookeeper: MemoryZooKeeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes = TaskNodes(held._nodes.client)
    assert nodes.claim("7", "n1")
    nodes.add_failure("7", "node n1", "ended by signal 9 from outside")
    clock.seconds += 150
    held.tasks["7"] = HeldTask(Offer(("a",), restart_retries=0), Run(State.WORKING, node_id="n1"))

    def lose(*_: object) -> None:
        raise PositionUnavailable("the answer is lost")

    with monkeypatch.context() as away:
        away.setattr(TaskNodes, "release", lose)
        with pytest.raises(PositionUnavailable):
            ended(held, -9)
    clock.seconds += 1
    held.care()  # it is given back again
    assert held.tasks == {}
    assert [failure.times for failure in nodes.errors("7")] == [2]


def test_an_error_counts_once_whether_the_process_has_listed_it_or_not(
    held: HeldTasks, clock: Clock
) -> None:
    nodes = TaskNodes(held._nodes.client)
    assert nodes.claim("7", "n1")
    held.tasks["7"] = HeldTask(Offer(("a",)), Run(State.WORKING, node_id="n1"))
    for number, is_listed in enumerate((True, True, False, False), 1):
        held.tasks["7"].listed_since = clock.stamp()  # as at its start
        clock.seconds += 150
        if is_listed:
            nodes.add_failure("7", "node n1", "no such thing")
        ended(held, 1, "no such thing")
        [failure] = nodes.errors("7")
        assert (failure.times, failure.at) == (number, clock.stamp())
        clock.seconds += 1


def test_another_command_begins_to_count_restarts_anew(
    held: HeldTasks, zookeeper: MemoryZooKeeper
) -> None:
    nodes = TaskNodes(held._nodes.client)
    for is_working in (True, False):
        assert nodes.claim("7", "n1")
        run = Run(State.RETRYING, order=1).restarted(5.0)
        held.tasks["7"] = HeldTask(Offer(("a",)), run)
        nodes.want("7", is_working, "ann")
        held.care()  # it is stopped
        held.care()  # and given back
        last = nodes.run("7")
        assert last is not None
        assert (last.all_restarts, last.restarted_at) == (0, ())


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
