"""Task processes that an earlier demo has left running on a stack."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from cdcbus.plugins.own_program import own_program

COMMAND = own_program("cdcbus", "task", "run")
STOP_SECONDS = 20.0
# The folder of temporary files of a demo's tasks, in the demo's folder.
SCRATCH = "tmp"


def leftovers(folder: Path) -> list[int]:
    """The processes that an earlier demo has left running: all that run a task file of this
    folder."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            # It may have ended meanwhile.
            with suppress(OSError):
                words = entry.joinpath("cmdline").read_bytes().decode(errors="replace").split("\0")
                # Whatever Python: a link to another one can have another name there.
                *command, file = words[: len(COMMAND) + 1]
                if command[1:] == COMMAND[1:] and Path(file).parent == folder:
                    found.append(int(entry.name))
    return found


def stop_leftovers(folder: Path) -> int:
    """Stops them, first politely. Returns how many there were, when they have ended."""
    pids = leftovers(folder)
    _signal_all(pids, signal.SIGTERM)
    deadline = time.monotonic() + STOP_SECONDS
    while leftovers(folder) and time.monotonic() < deadline:
        time.sleep(0.05)
    for pid in leftovers(folder):
        signal_group(pid, signal.SIGKILL)
    shutil.rmtree(folder / SCRATCH, ignore_errors=True)
    return len(pids)


def _signal_all(pids: Iterable[int], number: signal.Signals) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def signal_group(pid: int, number: signal.Signals) -> None:
    """Children of a task, such as Spark's Java process, are in its group; the group may have ended
    already."""
    with suppress(ProcessLookupError):
        os.killpg(pid, number)
