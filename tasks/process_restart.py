"""Restarts this process, with nothing left of the old one."""

from __future__ import annotations

import ctypes
import logging
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

LOG = logging.getLogger(__name__)
RESTARTED_VARIABLE = "CDCBUS_STARTED_ANEW"
_LIBC = ctypes.CDLL(None)
# close_range(2), whose flags os.closerange does not know.
_CLOSE_RANGE = 436


def restart_process() -> NoReturn:
    """Ends all work of this process immediately, in every thread, and runs its command line again,
    which waits for the lock and must first call `end_leftovers`."""
    # Open connections would survive the exec, and with them transactions and locks at the target.
    _close_on_exec()
    os.environ[RESTARTED_VARIABLE] = "1"
    # exec keeps the process id, so a node that watches this process does not count an end.
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


def end_leftovers() -> None:
    """After a restart, kills the child processes of the old process, and logs the restart."""
    if RESTARTED_VARIABLE in os.environ:
        _kill_descendants(os.getpid())
        # Not by the old process, which may have been in the middle of a line of its log; and last,
        # as a log can block.
        LOG.warning(
            "this process ended its work by force and started again, as another process may have "
            "its locks"
        )


def _close_on_exec() -> None:
    """Makes the exec close all connections, even those that libraries would keep open."""
    # From the first descriptor after stderr to all; 4 is CLOSE_RANGE_CLOEXEC.
    first, last, cloexec = 3, 0xFFFFFFFF, 4
    if _LIBC.syscall(_CLOSE_RANGE, first, ctypes.c_uint(last), cloexec) != 0:
        # A kernel before 5.11 does not know the flag.
        for number in [int(entry.name) for entry in Path("/proc/self/fd").iterdir()]:
            with suppress(OSError):
                os.set_inheritable(number, number < first)


def _kill_descendants(pid: int) -> None:
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, IndexError, ValueError):
            text = stat.read_text()
            # A process's name is in brackets, and may hold any character.
            parent = int(text.rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(text.split()[0]))
    found = list(children.get(pid, []))
    for child in found:
        # The list grows while it is walked, so that all generations are found.
        found += children.get(child, [])
        with suppress(ProcessLookupError, PermissionError):
            os.kill(child, signal.SIGKILL)
