"""Task files and task processes of the demo."""

from __future__ import annotations

import os
import signal
import stat
from pathlib import Path

import pytest

from cdcbus.ops.cli.interrupts import INTERRUPTED
from cdcbus.ops.demo import tasks
from cdcbus.ops.demo.task_files import FETCH, TARGETS, write_task_files
from cdcbus.ops.demo.tasks import TaskProcess, stop_tasks
from cdcbus.ops.stack.addresses import Plan
from cdcbus.plugins.errors import CdcError
from cdcbus.plugins.positions import BinlogPosition
from cdcbus.tasks.config.diagnostics import Severity
from cdcbus.tasks.config.read_task import inspect_task

START = BinlogPosition("mysql-bin.000001", 3005)


@pytest.fixture
def plan() -> Plan:
    return Plan.new()


def test_task_files_are_read_without_a_finding_and_hold_no_password(
    tmp_path: Path, plan: Plan
) -> None:
    files = write_task_files(tmp_path, plan.addresses(), START, TARGETS)
    assert list(files) == [FETCH, "demo-postgresql", "demo-mysql"]
    for task_id, file in files.items():
        read = inspect_task(file)
        assert not [
            diagnostic for severity in Severity for diagnostic in read.diagnostics.of(severity)
        ]
        assert read.task is not None
        assert read.task.task_id == task_id
        assert plan.password not in file.read_text()


def test_only_the_owner_can_read_the_passwords(tmp_path: Path, plan: Plan) -> None:
    for _ in range(2):
        write_task_files(tmp_path, plan.addresses(), START, TARGETS)
        assert stat.S_IMODE((tmp_path / "passwords.properties").stat().st_mode) == 0o600


@pytest.fixture
def task(tmp_path: Path) -> TaskProcess:
    """A task whose file does not exist: it ends by itself, at once."""
    return TaskProcess(
        "demo-fetch",
        tmp_path / "demo-fetch.properties",
        tmp_path / "demo-fetch.log",
        "127.0.0.1:1",
        tmp_path,
    )


def test_a_task_that_ends_by_itself_is_told_with_its_last_line(task: TaskProcess) -> None:
    task.start()
    assert task.await_stop() == 1
    with pytest.raises(
        CdcError, match=r"demo-fetch has ended on its own \(exit code 1\): .*demo-fetch\.properties"
    ):
        task.check()
    assert stop_tasks([task]) == ["demo-fetch has ended badly (exit code 1)"]


def test_a_task_that_is_stopped_while_it_starts_has_not_ended_badly(task: TaskProcess) -> None:
    task.start()
    os.kill(task.pid, signal.SIGSTOP)  # it gets no further
    task.ask_to_stop()
    os.kill(task.pid, signal.SIGCONT)
    assert stop_tasks([task]) == []


def test_a_task_that_is_stopped_while_it_waits_for_a_server_has_not_ended_badly(
    task: TaskProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks, "COMMAND", ["sh", "-c", f"exit {INTERRUPTED}"])
    task.start()
    assert task.await_stop() == INTERRUPTED
    assert stop_tasks([task]) == []


def test_a_task_that_was_killed_is_told_by_the_name_of_the_signal(task: TaskProcess) -> None:
    task.start()
    task.kill()
    assert stop_tasks([task]) == ["demo-fetch has ended badly (killed by SIGKILL)"]
    with pytest.raises(CdcError, match=r"demo-fetch has ended on its own \(killed by SIGKILL\)"):
        task.check()


def test_a_task_that_was_never_started_is_stopped_already(task: TaskProcess) -> None:
    task.check()
    task.kill()
    assert stop_tasks([task]) == []
