"""What became of one partition's part of a batch."""

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


@dataclass(slots=True)
class Outcome:
    """What became of a partition: applied up to `end`, in all `value_bytes`, in so many `seconds`;
    the target holds what was `seen` last. `last`: the last record before `end`, if some were
    read. `waits`: why it is to wait there for other partitions; `error`: why it was not applied;
    `begun`: as in Span, afterwards. `log`: what there is to say, by logger, level and text."""

    partition: TopicPartition
    end: int
    report: BatchReport = field(default_factory=BatchReport)
    value_bytes: int = 0
    seconds: float = 0.0
    seen: AppliedOffset | None = None
    last: Landmark | None = None
    waits: str = ""
    error: CdcError | None = None
    begun: Begun = field(default_factory=dict)
    log: list[tuple[str, int, str]] = field(default_factory=list)

    def take(self, apply: Callable[[], BatchReport], end: int, records: Records) -> None:
        """Applies what comes next, which are these records, up to `end` or to where the partition
        waits."""
        self.waits = ""
        try:
            self.report.add(apply())
            self.end = end
        except PartitionWaits as waiting:
            self.report.add(waiting.report)
            self.end, self.waits = waiting.end, str(waiting)
        self.last = records.last_before(self.end) or self.last
