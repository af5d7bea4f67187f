"""Checks a task with a source from another package: the source itself, the topics, and where the
task would start. Changes nothing."""

from __future__ import annotations

from collections.abc import Iterator

from cdcbus.plugins.contracts import PositionStore
from cdcbus.producer.added.source import OpenSource, need_added, stored_or_start
from cdcbus.producer.config import FetchTask
from cdcbus.tasks.preflight.fetch import check_written_topics
from cdcbus.tasks.preflight.result import CheckResult, ok, probe


def check_added(task: FetchTask, store: PositionStore) -> list[CheckResult]:
    """All results of the task."""
    return probe("start", lambda: _start(task, store)) + check_written_topics(task.publish)


def _start(task: FetchTask, store: PositionStore) -> Iterator[CheckResult]:
    config = need_added(task.source.added)
    with OpenSource(config) as source:
        # Before the position, so that a source that opens and cannot start shows both.
        yield ok(f"source {config.name}", "can be opened")
        position, is_stored = stored_or_start(
            source, config.start, store.load(), store.path, store.trace, task.task_id
        )
    rule = "consumer.offset"
    if is_stored:
        rule = f"the stored position {store.path}"
    yield ok("start", f"at {position} by {rule}")
