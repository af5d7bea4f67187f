"""A process that may have no more threads, as at a limit of its container."""

from __future__ import annotations

import subprocess
from pathlib import Path
from threading import Thread
from typing import Any

import pytest


def without_threads(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """From now on no thread can be started whose name begins with `name`."""
    start = Thread.start

    def refuse(thread: Thread) -> None:
        if thread.name.startswith(name):
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(Thread, "start", refuse)


def started_processes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The ids of all processes that are started from now on, filled as they start."""
    started: list[int] = []
    open_process = subprocess.Popen.__init__

    def note(process: Any, *args: Any, **options: Any) -> None:
        open_process(process, *args, **options)
        started.append(process.pid)

    monkeypatch.setattr(subprocess.Popen, "__init__", note)
    return started


def is_left(pid: int) -> bool:
    """Whether a child is still there, running or not waited for."""
    return Path(f"/proc/{pid}").exists()
