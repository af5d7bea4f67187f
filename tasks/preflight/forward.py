"""Checks the topics that a consumer task writes to, and the offsets that it has committed there.
Changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import replace
from threading import Event

from cdcbus.consumer.config import LoadTask
from cdcbus.consumer.forward.forwarder import Forwarder
from cdcbus.plugins.contracts import AppliedOffset, OffsetTable
from cdcbus.plugins.errors import BusRejected
from cdcbus.plugins.kafka.config import PublishConfig
from cdcbus.plugins.kafka.topics import named_topics
from cdcbus.tasks.preflight.fetch import check_written_topics
from cdcbus.tasks.preflight.result import CheckResult, has_failed, ok, probe


def check_forward(task: LoadTask, config: PublishConfig) -> tuple[list[CheckResult], OffsetTable]:
    """Checks the topics, and that the task does not read what it writes. Returns the results and
    the task's committed offsets."""
    applied: list[AppliedOffset] = []

    def look() -> Iterator[CheckResult]:
        # Without it, the check would create missing topics.
        there = replace(config, new_topics=None)
        with closing(Forwarder(task, there, task.reader, None, None, Event())) as forwarder:
            forwarder.check_circle(named_topics(config))
            # Topics that a start creates are missing now.
            with suppress(BusRejected):
                applied.extend(forwarder.committed_offsets())
        if config.transactional_id:
            yield ok(
                "transactions",
                f"{config.transactional_id}-TOPIC-PARTITION; committed offsets: {len(applied)}",
            )

    seen = check_written_topics(config)
    if not has_failed(seen):
        seen += probe("target", look)
    return seen, OffsetTable(bool(applied), None, applied)
