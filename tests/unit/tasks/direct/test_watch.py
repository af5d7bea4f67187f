"""Waits for a source are ended with the load, and told."""

from __future__ import annotations

from threading import Event

import pytest

from cdcbus.tasks.direct import watch
from cdcbus.tasks.direct.watch import Watch


def test_a_stop_ends_what_waits_and_nothing_that_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "PAUSE_SECONDS", 0.001)
    stop, ended, other = Event(), Event(), Event()
    with Watch(stop) as watching:
        with watching.ending(other.set):
            pass
        with watching.ending(ended.set):
            assert not ended.wait(0.05)
            stop.set()
            assert ended.wait(10)
            ended.clear()
            assert ended.wait(10)
    assert not other.is_set()
