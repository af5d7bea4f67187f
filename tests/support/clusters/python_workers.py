"""The Python workers of Spark that run on this machine."""

from __future__ import annotations

import os
import re
from pathlib import Path

# Spark's JVM has the name in an option
DAEMON = re.compile(
    rb"\0-m\0(pyspark[.]daemon|cdcbus[.](consumer[.]spark|tasks[.]direct[.]chunks)[.]python_daemon)\0"
)


def python_workers(session: int) -> list[int]:
    """Process ids of the workers in a session of processes, and of their parent."""
    found = []
    for folder in Path("/proc").iterdir():
        try:
            is_worker = folder.name.isdigit() and DAEMON.search((folder / "cmdline").read_bytes())
            if is_worker and os.getsid(int(folder.name)) == session:
                found.append(int(folder.name))
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found
