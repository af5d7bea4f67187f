"""Which task a thread works for. Where several share a process it tells whose log a record
belongs to."""

from __future__ import annotations

from contextvars import ContextVar

# A thread begins without: who starts one for a task says so, for example as the `initializer` of a
# pool.
TASK_AT_WORK: ContextVar[str] = ContextVar("task at work", default="")
