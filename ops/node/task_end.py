"""How a task reports to its node that it ended with an error: an exit code, and a sentence."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from cdcbus.plugins.error_policy import needs_person, with_command
from cdcbus.plugins.errors import CdcError, SparkEnded
from cdcbus.plugins.files.taken_texts import changed_files, emptied_files
from cdcbus.tasks.process_identity import NODE_VARIABLE

LOG = logging.getLogger(__name__)
# The last two are TEMPFAIL and CONFIG of sysexits.h: the JVM was killed, or passwords are others by
# now, so the task is started again at once; only a person can help.
FAILED, CRASHED, NEEDS_PERSON = 1, 75, 78
SENTENCE_FOLLOWS = "the task has ended with this error:"


def end_of(error: CdcError, task_id: str) -> tuple[int, str]:
    """The exit code and the sentence. An error for which only a person can help is tried again
    at once where a file was written since the task has read it, as with another password, and after
    a pause where one has just become empty."""
    if isinstance(error, SparkEnded):
        return CRASHED, with_command(error, task_id)
    if not needs_person(error):
        return FAILED, with_command(error, task_id)
    if hint := _newer_files():
        return CRASHED, f"{error}; {hint}"
    if files := emptied_files():
        hint = f"{', '.join(files)} is empty, as while it is being written"
        return FAILED, f"{with_command(error, task_id)}; {hint}"
    return NEEDS_PERSON, with_command(error, task_id)


def _newer_files() -> str:
    """Which files another start would read anew; empty: none."""
    files = ", ".join(changed_files())
    return f"another start may help, as {files} was written since this one read it" if files else ""


@contextmanager
def reported_to_node(task_id: str) -> Iterator[None]:
    """Ends the process where the block raises a CdcError and a node has started it. A marker keeps
    what was printed before, such as warnings about settings, out of the sentence."""
    try:
        yield
    except CdcError as error:
        # Started by hand: the command line reports it.
        if NODE_VARIABLE not in os.environ:
            if needs_person(error) and (hint := _newer_files()):
                LOG.warning("task %s: %s", task_id, hint)
            raise
        code, sentence = end_of(error, task_id)
        sys.stderr.write(f"{SENTENCE_FOLLOWS}\n{sentence}\n")
        sys.exit(code)
