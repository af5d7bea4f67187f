"""The outcome of one partition's part of a batch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from cdcbus.consumer.apply.applier import PartitionWaits
from cdcbus.consumer.records.batch_report import BatchReport
from cdcbus.consumer.records.late import Begun
from cdcbus.consumer.records.records import Records
from cdcbus.plugins.contracts import AppliedOffset, Landmark
from cdcbus.plugins.errors import CdcError
from cdcbus.plugins.positions import TopicPartition
from cdcbus.plugins.rowchange import TableId


@dataclass(slots=True)
class Outcome:
    """How far one partition's part of a batch was applied, and why no further."""

    partition: TopicPartition
    # It was applied up to here.
    end: int
    report: BatchReport = field(default_factory=BatchReport)
    # How much was applied, and how long it took.
    value_bytes: int = 0
    seconds: float = 0.0
    # The offset that the target holds now.
    seen: AppliedOffset | None = None
    # The last record before `end`, if some were read.
    last: Landmark | None = None
    # Why it waits for other partitions at `end`; empty: it does not wait.
    waits: str = ""
    # Why it was not applied.
    error: CdcError | None = None
    # As in Span, after the batch.
    begun: Begun = field(default_factory=dict)
    # As in Span, after the batch.
    scattered: frozenset[TableId | None] = frozenset()
    # Lines for the task's log: logger, level, text.
    log: list[tuple[str, int, str]] = field(default_factory=list)

    def take(self, apply: Callable[[], BatchReport], end: int, records: Records) -> None:
        """Applies `records`, the partition's next ones, by calling `apply`; moves to `end`, or to
        where the partition waits."""
        self.waits = ""
        try:
            self.report.add(apply())
            self.end = end
        except PartitionWaits as waiting:
            self.report.add(waiting.report)
            self.end = waiting.end
            self.waits = str(waiting)
        self.last = records.last_before(self.end) or self.last
