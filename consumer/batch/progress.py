"""How far a consumer task is."""

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
from cdcbus.consumer.records.late import Begun
from cdcbus.plugins.contracts import Landmark
from cdcbus.plugins.latency import Latency
from cdcbus.plugins.positions import TopicPartition
from cdcbus.plugins.start import Replay

LOG = logging.getLogger(__name__)
PASSED = 10_000
DDL_KEPT = 200  # until somebody takes them


class Passed(NamedTuple):
    """A partition was read to before offset `end`, and `last` was the last record."""

    partition: TopicPartition
    last: Landmark
    end: int


@dataclass(slots=True)
class Progress:
    """What a consumer task has done since it started, in all and by swimlane, how far each
    partition is, and the report of its last batch.

    `last`: the last record before that; `passed`: where batches have ended, for who looks whether
    the logs are still the same; `leader_epochs`: as they were before the logs were compared with
    what was read of them. `low_watermarks`: of a partition that has waited for others, the
    offset before which it waits no more. `begun`: where epochs of fetch tasks began. `batch_since`:
    since when, in epoch seconds, the batch at hand is applied; 0 between batches. `lag_seconds`:
    from the source's clock when it wrote the last heartbeat to this machine's when the target had
    committed all before it; None without one. `lost`: what the target was found to have lost, and
    when, in epoch seconds. `late_at`: when records were left out last as they came too late.
    `taken`: how long records were in Kafka before their batch was begun, of those that came since
    `since`; `applied`: how long it took from there until the target had committed them. `ddl`: what
    was done to target tables themselves, and when, in epoch seconds; who tells of it takes it out.
    """

    total: BatchReport = field(default_factory=BatchReport)
    batch: BatchReport = field(default_factory=BatchReport)
    swimlanes: dict[str, BatchReport] = field(default_factory=dict)
    batch_since: float = 0.0
    next_offsets: dict[TopicPartition, int] = field(default_factory=dict)
    last: dict[TopicPartition, Landmark] = field(default_factory=dict)
    passed: deque[Passed] = field(default_factory=lambda: deque(maxlen=PASSED))
    leader_epochs: Mapping[TopicPartition, int] = field(default_factory=dict)
    low_watermarks: dict[TopicPartition, int] = field(default_factory=dict)
    begun: dict[TopicPartition, Begun] = field(default_factory=dict)
    lag_seconds: float | None = None
    lost: str = ""
    lost_at: float = 0.0
    late_at: float = 0.0
    since: float = field(default_factory=time.time)
    taken: Latency = field(default_factory=Latency)
    applied: Latency = field(default_factory=Latency)
    ddl: deque[tuple[float, str]] = field(default_factory=lambda: deque(maxlen=DDL_KEPT))

    def begin(self, task_id: str, starts: Starts) -> None:
        """What the target has lost is said once."""
        # which is by where partitions were before
        self.next_offsets, self.last, self.low_watermarks = starts.offsets, starts.last, {}
        self.passed.clear()
        if starts.lost:
            lost = "; ".join(
                lost_commits(partition, *numbers)
                for partition, numbers in sorted(starts.lost.items())
            )
            if lost != self.lost:  # a start looks twice
                LOG.warning("task %s: %s", task_id, lost)
            self.lost, self.lost_at = lost, time.time()

    def move(self, partition: TopicPartition, end: int, last: Landmark | None) -> None:
        """A batch has ended there; where nothing was read but markers, the last record is the
        one from before."""
        self.next_offsets = {**self.next_offsets, partition: end}
        if last:
            self.last = {**self.last, partition: last}
            self.passed.append(Passed(partition, last, end))

    @property
    def done(self) -> int:
        """Records applied."""
        return self.total.records

    def __str__(self) -> str:
        lag = "" if self.lag_seconds is None else f", a heartbeat took {self.lag_seconds:.3f} s"
        return f"{self.done} records applied, {shown(self.next_offsets)}{lag}"

    def add(self, batch: BatchReport, parts: Iterable[tuple[str, BatchReport]]) -> None:
        """A batch, and its parts by swimlane."""
        for swimlane, part in parts:
            self.swimlanes.setdefault(swimlane, BatchReport()).add(part)
        self.total.add(batch)
        self.batch = batch
        if batch.records and self.batch_since:
            self.applied.record(time.time() - self.batch_since, batch.records)
            for came_ms in (batch.first_kafka_ms, batch.last_kafka_ms):
                if came_ms / 1000 >= self.since:
                    self.taken.record(self.batch_since - came_ms / 1000, batch.records / 2)
        emptied = [f"TRUNCATE of {table}" for table, one in batch.tables.items() if one.truncated]
        self.ddl.extend((time.time(), sentence) for sentence in (*batch.altered, *emptied))
        if batch.late:
            self.late_at = time.time()
        if batch.beats:
            self.lag_seconds = time.time() - max(beat.written for beat in batch.beats.values())


def is_done(task: LoadTask, progress: Progress) -> bool:
    """Whether a bounded replay or run has reached its end. A replay takes nothing from beyond it; a
    run may, as rows may wait for a change there."""
    reached = progress.next_offsets
    if task.ends is not None and all(
        reached.get(partition, 0) >= end for partition, end in task.ends.items()
    ):
        return True
    return isinstance(task.start, Replay) and all(
        offset > task.start.last for offset in reached.values()
    )


def shown(next_offsets: Mapping[TopicPartition, int]) -> str:
    """For people."""
    return ", ".join(
        f"{partition} from {offset}" for partition, offset in sorted(next_offsets.items())
    )
