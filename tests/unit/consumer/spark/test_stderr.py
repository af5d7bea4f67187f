"""What Spark's JVM and its Python workers print, and a log on a full disk."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from threading import Event

import pytest

from cdcbus.consumer.spark.stderr import filtered_stderr
from cdcbus.plugins.error_policy import NO_THREAD
from tests.support.processes.no_threads import without_threads

WRITER = """
import sys, time
for number in range(40):
    print("line", number, file=sys.stderr, flush=True)
    print("\\tat org.apache.spark.Hidden", file=sys.stderr, flush=True)
    time.sleep(0.01)
"""
PROGRAM = """
import os, subprocess, sys
from threading import Event
from cdcbus.consumer.spark.stderr import filtered_stderr
if sys.argv[1:]:
    os.dup2(os.open(sys.argv[1], os.O_WRONLY), 2)
with filtered_stderr(Event()):
    child = subprocess.Popen([sys.executable, "-c", {writer!r}])
sys.exit(child.wait())
"""


def run(*words: str) -> subprocess.CompletedProcess[str]:
    program = PROGRAM.format(writer=WRITER)
    return subprocess.run([sys.executable, "-c", program, *words], capture_output=True, text=True)


def test_lines_go_to_stderr_without_stack_traces() -> None:
    done = run()
    assert done.returncode == 0
    assert done.stderr.splitlines()[:2] == ["line 0", "line 1"]
    assert "Hidden" not in done.stderr


def test_a_full_disk_ends_nobody_who_prints() -> None:
    assert run("/dev/full").returncode == 0


def test_without_a_thread_for_the_filter_stderr_stays_as_it_was(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nobody would read what is written, and the process would wait for ever once a pipe is full."""
    folder = Path("/proc/self/fd")
    before, open_files = os.fstat(2), {*folder.iterdir()}
    without_threads(monkeypatch, "spark-stderr")
    with pytest.raises(RuntimeError, match=NO_THREAD), filtered_stderr(Event()):
        pytest.fail("a program could be started")
    assert os.path.samestat(os.fstat(2), before)
    assert {*folder.iterdir()} == open_files
