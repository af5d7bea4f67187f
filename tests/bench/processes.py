"""What the kernel says about processes and all that they have started."""

from __future__ import annotations

import os
from contextlib import suppress
from itertools import chain
from pathlib import Path

from tests.soak.samples import family

TICKS = os.sysconf("SC_CLK_TCK")


def check(pids: list[int]) -> None:
    """Raises AssertionError where one of them has ended."""
    for pid in pids:
        with suppress(OSError):
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z":
                continue
        raise AssertionError(f"process {pid} has ended by itself")


def cpu_seconds(pids: list[int]) -> float:
    """The CPU time of processes and all that they have started."""
    ticks = 0
    for pid in chain.from_iterable(map(family, pids)):
        with suppress(OSError):
            words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            ticks += sum(map(int, words[11:15]))  # its own, and of children that have ended
    return ticks / TICKS


def megabytes(pids: list[int]) -> float:
    """The sum of each process's peak memory."""
    found = 0
    for pid in chain.from_iterable(map(family, pids)):
        with suppress(OSError, StopIteration):
            lines = Path(f"/proc/{pid}/status").read_text().splitlines()
            found += int(next(line for line in lines if line.startswith("VmHWM")).split()[1])
    return found / 1000
