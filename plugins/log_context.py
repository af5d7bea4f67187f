"""The task that a thread works for. Where several tasks share a process, it decides to which task's
log a line belongs."""

from __future__ import annotations

from contextvars import ContextVar

# A new thread has none: code that starts one for a task sets it, for example as the `initializer`
# of a pool.
TASK_AT_WORK: ContextVar[str] = ContextVar("task at work", default="")
