"""What the JVM of Spark writes to stderr, without greetings and stack traces."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread

# How lines begin that operators need not see: what every JVM of Spark says at its start, and stack
# traces.
HIDDEN = (
    b"WARNING: Using incubator modules",
    b"Setting default log level",
    b"To adjust logging level",
    b"Setting Spark log level",
    b"\tat ",
    b"\t... ",
)


@contextmanager
def filtered_stderr(stop: Event) -> Iterator[None]:
    """A process started inside writes to our stderr through a filter, for as long as it lives:
    no greetings, no stack traces, and nothing once `stop` is set."""
    reading, writing = os.pipe()
    ours = os.dup(2)
    # A child inherits descriptor 2. The copy that is left of the pipe is the child's, so the filter
    # ends with it.
    os.dup2(writing, 2)
    os.close(writing)
    Thread(target=_copy_lines, args=(reading, ours, stop), name="spark-stderr", daemon=True).start()
    try:
        yield
    finally:
        os.dup2(ours, 2)


def _copy_lines(reading: int, writing: int, stop: Event) -> None:
    with open(reading, "rb") as lines, open(writing, "wb", buffering=0) as stderr:
        for line in lines:
            if line.strip() and not line.startswith(HIDDEN) and not stop.is_set():
                stderr.write(line)
