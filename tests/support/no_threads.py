"""A process that may have no more threads, as at a limit of its container."""

from __future__ import annotations

from threading import Thread

import pytest


def without_threads(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """From now on no thread can be started whose name begins with `name`."""
    start = Thread.start

    def refuse(thread: Thread) -> None:
        if thread.name.startswith(name):
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(Thread, "start", refuse)
