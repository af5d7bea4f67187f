"""Ctrl-C twice, and the end of Spark's JVM, while Spark works."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from cdcbus.ops.demo.tasks import TaskProcess
from tests.support.clusters.bulk_gear import with_eager_spark
from tests.support.topics.forward import open_forward
from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration
RECVFROM = "45"


@pytest.fixture
def task(
    name: str, kafka: str, zookeeper: str, make_topic: Callable[..., str], tmp_path: Path
) -> Iterator[TaskProcess]:
    """Not started; Spark reads what it has to read."""
    make_topic(name, 1)
    make_topic(f"{name}-out", 1)
    with open_forward(name, kafka, zookeeper, tmp_path) as forward:
        forward.put(range(20000))
        yield with_eager_spark(forward.task())


def test_a_second_interrupt_while_spark_answers_nothing_leaves_no_stack_trace(
    task: TaskProcess, tmp_path: Path
) -> None:
    with task.log.open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "cdcbus", "task", "run", str(task.file)],
            env=task.environment,
            stderr=log,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )
    try:
        says(process, task.log, "Spark reads a backlog")
        jvm = jvm_of(process.pid)
        os.kill(jvm, signal.SIGSTOP)
        try:
            process.send_signal(signal.SIGINT)
            wait_until(lambda: is_receiving(process.pid), "it to wait for Spark")
            process.send_signal(signal.SIGINT)
        finally:
            os.kill(jvm, signal.SIGCONT)
        code = process.wait(240)
    finally:
        process.kill()
        process.wait()
    said = task.log.read_text()
    assert code == 130, said
    assert "ERROR" not in said, said
    assert "Traceback" not in said, said
    wait_until(lambda: not is_jvm(jvm), "Spark to end")
    assert {*tmp_path.iterdir()} == {task.log, task.file}


@pytest.mark.parametrize(
    ("ending", "reason"),
    [(signal.SIGKILL, "killed by SIGKILL, as Linux does"), (signal.SIGTERM, "exit code 143")],
)
def test_a_jvm_that_ends_under_its_task_is_told_of_with_its_reason(
    task: TaskProcess, ending: signal.Signals, reason: str
) -> None:
    task.start()
    said = "Spark reads a backlog"
    wait_until(lambda: said in task.log.read_text(), said)
    os.kill(jvm_of(task.pid), ending)
    assert task.await_stop() == 1
    assert f"the JVM of Spark has ended ({reason}" in task.log.read_text()


def says(process: subprocess.Popen[bytes], log: Path, words: str) -> None:
    def has_said() -> bool:
        assert process.poll() is None, log.read_text()
        return words in log.read_text()

    wait_until(has_said, words)


def jvm_of(pid: int) -> int:
    for thread in Path(f"/proc/{pid}/task").iterdir():
        for child in (thread / "children").read_text().split():
            if is_jvm(int(child)):
                return int(child)
    raise AssertionError("no JVM")


def is_jvm(pid: int) -> bool:
    with suppress(FileNotFoundError):
        return b"pyspark-shell" in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False


def is_receiving(pid: int) -> bool:
    return Path(f"/proc/{pid}/syscall").read_text().split()[0] == RECVFROM
