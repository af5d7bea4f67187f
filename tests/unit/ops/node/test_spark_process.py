"""What a node makes of the ends of tasks that share one process: here a stand-in that says what
it is told to say."""

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cdcbus.ops.node import spark_process
from cdcbus.ops.node.spark_process import SparkProcess, SparkTask
from cdcbus.ops.node.task_process import TaskProcess
from tests.support.processes.no_threads import is_left, started_processes, without_threads
from tests.support.waiting import wait_until

# Ends a task when told to stop it; `end`, `lost`, `crash`, `half`, `close` and `hang` as task names make it do just that.
STAND_IN = """
import json, os, signal, socket, sys
connection = socket.socket(fileno=0)
tell = lambda **fields: connection.sendall(json.dumps(fields).encode() + b"\\n")
hanging = set()
for order in map(json.loads, connection.makefile("rb")):
    if order.get("task") == "end":
        tell(ended=order["start"], code=1, sentence="it is broken")
    elif order.get("task") == "lost":
        tell(lost="ZooKeeper is away")
        os.kill(os.getpid(), signal.SIGKILL)
    elif order.get("task") == "crash":
        tell(crash="out of memory", tasks=[order["start"]])
        os.kill(os.getpid(), signal.SIGKILL)
    elif order.get("task") == "half":
        connection.sendall(b'{"ended":' + str(order["start"]).encode() + b',"code":1,"sent')
        os.kill(os.getpid(), signal.SIGKILL)
    elif order.get("task") == "close":
        connection.shutdown(socket.SHUT_RDWR)
        signal.pause()
    elif order.get("task") == "exit":
        print("no Java here")
        sys.exit(3)
    elif order.get("task") == "hang":
        hanging.add(order["start"])
    elif "stop" in order and order["stop"] not in hanging:
        tell(ended=order["stop"], code=0, sentence="")
"""


@pytest.fixture
def process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SparkProcess]:
    monkeypatch.setattr(spark_process, "COMMAND", (sys.executable, "-c", STAND_IN))
    process = SparkProcess("n1", {}, tmp_path / "spark.log", lambda: None)
    yield process
    process.close()
    assert not process.is_there


def end(*tasks: SparkTask) -> list[tuple[int | None, str, bool]]:
    wait_until(lambda: all(task.ended() is not None for task in tasks), "the tasks to end")
    return [(task.ended(), task.last_words(), task.is_faultless) for task in tasks]


def test_a_task_that_is_stopped_or_fails_ends_alone(process: SparkProcess, tmp_path: Path) -> None:
    good, bad, stopped = (
        process.start(task_id, tmp_path / "x.log") for task_id in ("good", "end", "good")
    )
    stopped.ask_to_stop()
    assert end(bad, stopped) == [(1, "it is broken", False), (0, "", False)]
    stopped.kill()
    assert (good.ended(), process.is_there) == (None, True)


def test_all_end_with_their_process(process: SparkProcess, tmp_path: Path) -> None:
    tasks = [process.start(task_id, tmp_path / "x.log") for task_id in ("good", "other", "exit")]
    assert end(*tasks) == [(3, "no Java here", False)] * 3
    (late,) = end(process.start("late", tmp_path / "x.log"))
    assert (late[0], late[2]) == (-signal.SIGKILL, True)


def test_a_process_that_gives_up_for_all_is_no_fault_of_any(
    process: SparkProcess, tmp_path: Path
) -> None:
    tasks = [process.start(task_id, tmp_path / "x.log") for task_id in ("good", "lost")]
    assert end(*tasks) == [(-signal.SIGKILL, "ZooKeeper is away", True)] * 2


def test_the_end_of_spark_is_the_fault_of_those_that_used_it(
    process: SparkProcess, tmp_path: Path
) -> None:
    tasks = [process.start(task_id, tmp_path / "x.log") for task_id in ("good", "crash")]
    assert end(*tasks) == [
        (-signal.SIGKILL, "out of memory", True),
        (-signal.SIGKILL, "out of memory", False),
    ]


def test_who_is_killed_with_another_task_is_faultless(
    process: SparkProcess, tmp_path: Path
) -> None:
    good, hanging = (process.start(task_id, tmp_path / "x.log") for task_id in ("good", "hang"))
    hanging.ask_to_stop()
    hanging.kill()
    assert end(good, hanging) == [(-signal.SIGKILL, "", True), (-signal.SIGKILL, "", False)]


def test_no_task_has_ended_before_its_process(
    process: SparkProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that waits for a dead disk ends by no signal, and may still have its locks. It takes no
    other task, which would wait with it, and only the first to be killed is to blame."""
    waited: list[float] = []
    wait = TaskProcess.wait

    def note(process: TaskProcess, seconds: float) -> None:
        waited.append(seconds)
        wait(process, 0.01)

    with monkeypatch.context() as no_signals:
        no_signals.setattr(TaskProcess, "wait", note)
        no_signals.setattr(os, "killpg", lambda *_: None)
        other = process.start("good", tmp_path / "x.log")
        task = process.start("close", tmp_path / "x.log")
        # Once before it is killed, once after it, and then for its end.
        wait_until(lambda: len(waited) > 2, "its end to be waited for")
        assert task.ended() is None
        assert not process.is_there
        late = process.start("late", tmp_path / "x.log")
        assert end(late) == [(-signal.SIGKILL, "its process has just ended", True)]
        task.kill()
        other.kill()
    os.kill(process.pid, signal.SIGKILL)
    assert end(task, other) == [(-signal.SIGKILL, "", False), (-signal.SIGKILL, "", True)]


def test_a_process_that_is_killed_while_it_tells_an_end_ends_all(
    process: SparkProcess, tmp_path: Path
) -> None:
    tasks = [process.start(task_id, tmp_path / "x.log") for task_id in ("good", "half")]
    assert end(*tasks) == [(-signal.SIGKILL, "", False)] * 2


def test_without_a_thread_for_its_reports_no_process_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark_process, "COMMAND", (sys.executable, "-c", STAND_IN))
    without_threads(monkeypatch, "spark-")
    started = started_processes(monkeypatch)
    with pytest.raises(OSError, match="temporarily unavailable"):
        SparkProcess("n1", {}, tmp_path / "spark.log", lambda: None)
    assert started
    assert not any(map(is_left, started))
