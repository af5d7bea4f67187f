"""Signals that ask a process to stop, at any moment."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from cdcbus.tasks.runtime.stop_signals import stop_signals

SECONDS = 60.0
# The signal comes while the main thread holds the lock of the event that it waits for.
INTERRUPTED = """
import os, signal, sys
from cdcbus.tasks.runtime.stop_signals import stop_signals

with stop_signals() as stop:
    def trace(frame, event, _):
        if frame.f_code.co_qualname == "Condition.wait":
            sys.settrace(None)
            os.kill(os.getpid(), signal.SIGTERM)
    sys.settrace(trace)
    stop.wait()
"""


@pytest.fixture(autouse=True)
def heeds_hangups() -> Iterator[None]:
    """Where the tests run under nohup, they would be ignored."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_sets_the_event_and_its_parts(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with stop_signals() as stop:
        part = stop.part()
        os.kill(os.getpid(), number)
        assert stop.wait(SECONDS)
        assert part.wait(SECONDS)
    assert signal.getsignal(number) is before


def test_a_signal_stops_a_process_that_holds_the_lock_of_the_event() -> None:
    ended = subprocess.run([sys.executable, "-c", INTERRUPTED], timeout=SECONDS, check=False)
    assert ended.returncode == 0


def test_a_second_interrupt_ends_the_process_as_usual() -> None:
    with stop_signals() as stop:
        os.kill(os.getpid(), signal.SIGINT)
        assert stop.wait(SECONDS)
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)


def test_a_hangup_is_ignored_under_nohup() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with stop_signals() as stop:
            os.kill(os.getpid(), signal.SIGHUP)
            assert not stop.is_set()
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
