"""Filters the output of Spark's JVM to stderr: hides greetings and stack traces."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Event, Thread

# The beginnings of lines that operators need not see: those that every JVM of Spark prints at its
# start, and stack traces.
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
    """Makes a process started inside write to our stderr through a filter, as long as it lives:
    no greetings, no stack traces, and nothing once `stop` is set."""
    reading, writing = os.pipe()
    ours = os.dup(2)
    filtering = Thread(
        target=_copy_lines, args=(reading, ours, stop), name="spark-stderr", daemon=True
    )
    try:
        # First of all: nobody would read from the pipe, and writers would wait for ever.
        filtering.start()
    except RuntimeError:
        for descriptor in (reading, writing, ours):
            os.close(descriptor)
        raise
    # A child inherits descriptor 2. Only the child keeps a copy of the pipe's end, so the filter
    # ends with the child.
    os.dup2(writing, 2)
    os.close(writing)
    try:
        yield
    finally:
        os.dup2(ours, 2)


def _copy_lines(reading: int, writing: int, stop: Event) -> None:
    with open(reading, "rb") as lines, open(writing, "wb", buffering=0) as stderr:
        for line in lines:
            if line.strip() and not line.startswith(HIDDEN) and not stop.is_set():
                # A line that a full disk does not take is lost. The pipe stays open: else whatever
                # writes to it, such as Python workers, would fail.
                with suppress(OSError):
                    stderr.write(line)
