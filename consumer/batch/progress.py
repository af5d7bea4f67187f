"""How far a consumer task has come, and what it has done."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from cdcbus.consumer.config import LoadTask
from cdcbus.consumer.offsets.start_offsets import Starts, lost_commits
from cdcbus.consumer.records.batch_report import BatchReport
from cdcbus.plugins.contracts import Landmark
from cdcbus.plugins.latency import Latency
from cdcbus.plugins.positions import TopicPartition
from cdcbus.plugins.start import Replay

LOG = logging.getLogger(__name__)
# How many ends of batches are kept until they are compared; the oldest are dropped.
PASSED = 10_000
# How many changes of tables are kept until they are reported.
DDL_KEPT = 200
# How many tables that were made anew are kept until they are reported.
TABLES_KEPT = 20


class Passed(NamedTuple):
    """A partition was read up to offset `end`; `last` was its last record."""

    partition: TopicPartition
    last: Landmark
    end: int


@dataclass(slots=True)
class Progress:
    """What a consumer task has done since it started, and how far it has come. Times are in epoch
    seconds."""

    total: BatchReport = field(default_factory=BatchReport)
    # The last batch.
    batch: BatchReport = field(default_factory=BatchReport)
    swimlanes: dict[str, BatchReport] = field(default_factory=dict)
    # When the batch in progress began, by the monotonic clock; 0 between batches. Another thread
    # may set it back between two looks.
    batch_since: float = 0.0
    # Up to which offsets the last batch, or the one in progress, reads its partitions.
    goals: Mapping[TopicPartition, int] = field(default_factory=dict)
    next_offsets: dict[TopicPartition, int] = field(default_factory=dict)
    # The last record before each next offset.
    last: dict[TopicPartition, Landmark] = field(default_factory=dict)
    # Where batches have ended, to check that the logs are still the same.
    passed: deque[Passed] = field(default_factory=lambda: deque(maxlen=PASSED))
    # Partitions of which something was received since the watch for stalled ones last looked, or
    # of which nothing could be, during a long batch.
    received: set[TopicPartition] = field(default_factory=set)
    # Read before the logs are compared with the last records.
    leader_epochs: Mapping[TopicPartition, int] = field(default_factory=dict)
    # Partitions that have waited for others -> the offset before which they no longer wait.
    low_watermarks: dict[TopicPartition, int] = field(default_factory=dict)
    # The time from the last heartbeat's write, by the source's clock, until the target had
    # committed everything before it, by this machine's clock; None without a heartbeat.
    lag_seconds: float | None = None
    # What the target was found to have lost, and when.
    lost: str = ""
    lost_at: float = 0.0
    # Sentences about target tables that were made anew or emptied, and when that was noticed.
    lost_tables: deque[tuple[float, str]] = field(default_factory=lambda: deque(maxlen=TABLES_KEPT))
    # When records were last left out because they came too late.
    late_at: float = 0.0
    since: float = field(default_factory=time.time)
    # How long records were in Kafka before their batch began; only records that arrived after
    # `since`.
    taken: Latency = field(default_factory=Latency)
    # How long it took from the beginning of a batch until the target had committed it.
    applied: Latency = field(default_factory=Latency)
    # How target tables were altered or emptied, and when. The reporter removes the entries that it
    # reports.
    ddl: deque[tuple[float, str]] = field(default_factory=lambda: deque(maxlen=DDL_KEPT))

    def begin(self, starts: Starts) -> None:
        """Resumes at these offsets, which the target must have: the process counts as having
        reached them."""
        self.next_offsets = starts.offsets
        self.last = starts.last
        # They depend on the former offsets.
        self.low_watermarks = {}
        self.passed.clear()

    def lose(self, task_id: str, commits: Mapping[TopicPartition, tuple[int, int]]) -> None:
        """Warns once about commits that the target has lost, as in `Starts.lost`."""
        if not commits:
            return
        sentences = []
        for partition, (there, had) in sorted(commits.items()):
            sentences.append(lost_commits(partition, there, had))
        lost = "; ".join(sentences)
        # Further attempts can find the same loss.
        if lost != self.lost:
            LOG.warning("task %s: %s", task_id, lost)
        self.lost = lost
        self.lost_at = time.time()

    def lose_table(self, task_id: str, what: str) -> None:
        """Warns about a target table that was made anew or emptied."""
        sentence = (
            f"{what}; rows that it had are missing unless somebody has put them back, and do not "
            f"come again by themselves: compare by cdcbus verify {task_id}, whose --repair sends "
            "what is missing, or send all rows again by cdcbus snapshot start of its fetch task"
        )
        LOG.warning("task %s: %s", task_id, sentence)
        self.lost_tables.append((time.time(), sentence))

    def move(self, moved: Iterable[tuple[TopicPartition, int, Landmark | None]]) -> None:
        """Moves partitions to the end of a batch, each with its last record, None where the batch
        held transaction markers only: then that stays the former one."""
        # New dicts, as other threads read them meanwhile.
        ends: dict[TopicPartition, int] = {}
        lasts: dict[TopicPartition, Landmark] = {}
        for partition, end, last in moved:
            ends[partition] = end
            if last:
                lasts[partition] = last
        self.next_offsets = {**self.next_offsets, **ends}
        self.last = {**self.last, **lasts}
        for partition, last in lasts.items():
            self.passed.append(Passed(partition, last, ends[partition]))

    @property
    def done(self) -> int:
        """The number of records applied."""
        return self.total.records

    def __str__(self) -> str:
        lag = "" if self.lag_seconds is None else f", a heartbeat took {self.lag_seconds:.3f} s"
        return f"{self.done} records applied, {shown(self.next_offsets)}{lag}"

    def add(self, batch: BatchReport, parts: Iterable[tuple[str, BatchReport]]) -> None:
        """Adds a batch, and its parts by swimlane."""
        for swimlane, part in parts:
            self.swimlanes.setdefault(swimlane, BatchReport()).add(part)
        self.total.add(batch)
        self.batch = batch
        now = time.time()
        if batch.records and self.batch_since:
            seconds = time.monotonic() - self.batch_since
            self.applied.record(seconds, batch.records)
            # The first and the last record each stand for half of the batch.
            for came_ms in (batch.first_kafka_ms, batch.last_kafka_ms):
                if came_ms / 1000 >= self.since:
                    self.taken.record(now - seconds - came_ms / 1000, batch.records / 2)
        for sentence in batch.altered:
            self.ddl.append((now, sentence))
        for table, report in batch.tables.items():
            if report.truncated:
                self.ddl.append((now, f"TRUNCATE of {table}"))
        if batch.late:
            self.late_at = now
        if batch.beats:
            self.lag_seconds = now - max(beat.written for beat in batch.beats.values())


def is_done(task: LoadTask, progress: Progress) -> bool:
    """Whether a bounded replay or run has reached its end. A replay applies nothing beyond it; a
    run can, as rows may wait for a change there."""
    reached = progress.next_offsets
    if task.ends is not None:
        left = [each for each, end in task.ends.items() if reached.get(each, 0) < end]
        if not left:
            return True
    if isinstance(task.start, Replay):
        return min(reached.values(), default=task.start.last + 1) > task.start.last
    return False


def shown(next_offsets: Mapping[TopicPartition, int]) -> str:
    """Offsets as text for operators."""
    return ", ".join(
        f"{partition} from {offset}" for partition, offset in sorted(next_offsets.items())
    )
