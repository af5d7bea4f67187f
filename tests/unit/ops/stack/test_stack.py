"""What the stack does when it is interrupted, or not alone."""

from __future__ import annotations

import fcntl
import io
import os
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import pytest
from rich.console import Console

from cdcbus.ops.stack import processes, stack
from cdcbus.ops.stack.addresses import Plan
from cdcbus.ops.stack.server import Server, ServerFolder
from cdcbus.plugins.errors import CdcError
from tests.support.waiting import wait_until


def test_a_server_that_was_prepared_during_an_interrupt_is_not_started(tmp_path: Path) -> None:
    cancelled = Event()

    def prepare(_: ServerFolder) -> list[str]:
        cancelled.set()
        return ["sleep", "100"]

    server = Server("kafka", "Kafka", None, (), False, signal.SIGTERM, prepare, lambda place: None)
    place = ServerFolder(tmp_path / "kafka", Plan.new(), None)
    try:
        with pytest.raises(CdcError, match="Kafka was not started"):
            stack._starting(server, place)(cancelled)
        assert not processes.is_running(place.folder)
    finally:
        processes.kill(place.folder)


def test_who_waits_for_another_command_says_so(tmp_path: Path) -> None:
    said = io.StringIO()
    console = Console(file=said, width=1000)
    lock = os.open(tmp_path, os.O_RDONLY)
    with ThreadPoolExecutor(1) as pool:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            down = pool.submit(stack.down, tmp_path, purge=False, console=console)
            wait_until(lambda: "waiting for another command" in said.getvalue(), "the words", 30)
            assert not down.done()
        finally:
            os.close(lock)
        down.result(30)
    assert said.getvalue().endswith("no server runs\n")
