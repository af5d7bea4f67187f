"""What processes and servers hold, sampled over hours, and whether it grows."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

PAGE = os.sysconf("SC_PAGE_SIZE")
GROWTH = 0.15
EARLY, LATE = (0.25, 0.45), (0.8, 1.0)
"""The parts of a run that are compared: after the starts, and at the end."""


@dataclass(frozen=True, slots=True)
class Series:
    """`values`: (seconds since the start, value). `slack`: growth that means nothing."""

    name: str
    unit: str
    slack: float
    values: Sequence[tuple[float, float]]

    def most(self, part: tuple[float, float]) -> float | None:
        """The 90th percentile of the samples in this part of the run; None without samples. A
        median would show how often Spark is up in a process that is killed every few minutes, not
        what it takes."""
        end = self.values[-1][0] if self.values else 0.0
        found = sorted(value for at, value in self.values if part[0] * end <= at <= part[1] * end)
        return found[len(found) * 9 // 10] if found else None

    @property
    def verdict(self) -> str:
        """A sentence where it has grown; else empty."""
        early, late = self.most(EARLY), self.most(LATE)
        if early is None or late is None:
            return f"{self.name} was not sampled"
        if late - early > max(self.slack, early * GROWTH):
            return f"{self.name} has grown from {early:,.0f} to {late:,.0f} {self.unit}"
        return ""


def family(pid: int) -> list[int]:
    """A process and all below it, without those that have ended."""
    found = [pid]
    for pid_ in found:
        with suppress(OSError):
            for thread in Path(f"/proc/{pid_}/task").iterdir():
                found += map(int, (thread / "children").read_text().split())
    return found


def held(pid: int) -> dict[str, float]:
    """Memory in MB, threads and open files of a family; empty if it has ended."""
    memory = threads = files = 0
    for each in family(pid):
        with suppress(OSError):
            memory += int(Path(f"/proc/{each}/statm").read_text().split()[1]) * PAGE
            threads += sum(1 for _ in Path(f"/proc/{each}/task").iterdir())
            files += sum(1 for _ in Path(f"/proc/{each}/fd").iterdir())
    return {"memory": memory / 1e6, "threads": threads, "files": files} if memory else {}
