"""What Spark's JVM and its Python workers print, and a log on a full disk."""

from __future__ import annotations

import subprocess
import sys

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
