"""How a task reports to its node that it ended with an error: an exit code, and a sentence."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from cdcbus.plugins.error_policy import needs_person, with_command
from cdcbus.plugins.errors import CdcError, SparkEnded
from cdcbus.tasks.process_identity import NODE_VARIABLE

# The last two are TEMPFAIL and CONFIG of sysexits.h: the JVM was killed; only a person can help.
FAILED, CRASHED, NEEDS_PERSON = 1, 75, 78
SENTENCE_FOLLOWS = "the task has ended with this error:"


def end_of(error: CdcError, task_id: str) -> tuple[int, str]:
    """The exit code and the sentence."""
    code = FAILED
    if isinstance(error, SparkEnded):
        code = CRASHED
    elif needs_person(error):
        code = NEEDS_PERSON
    return code, with_command(error, task_id)


@contextmanager
def reported_to_node(task_id: str) -> Iterator[None]:
    """Ends the process where the block raises a CdcError and a node has started it. A marker keeps
    what was printed before, such as warnings about settings, out of the sentence."""
    try:
        yield
    except CdcError as error:
        # Started by hand: the command line reports it.
        if NODE_VARIABLE not in os.environ:
            raise
        code, sentence = end_of(error, task_id)
        sys.stderr.write(f"{SENTENCE_FOLLOWS}\n{sentence}\n")
        sys.exit(code)
