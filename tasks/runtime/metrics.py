"""What the progress of a running task says, whichever kind of task it is: places, counters, and how
long rows take.

Stages: a row is committed at the source, comes into Kafka, is applied to a target; each tells its
time by its own clock. Of a batch the first and the last row are timed, and count for half of its
rows each. Rows that came before its first batch was done are not timed: they waited for its start,
which tells nothing of now.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Hashable, Mapping
from typing import TYPE_CHECKING

from cdcbus.consumer.config import LoadTask
from cdcbus.producer.config import FetchTask
from cdcbus.tasks.runtime.delays import Delays
from cdcbus.tasks.runtime.table_counts import counts_of_fetch, counts_of_load
from cdcbus.tasks.zookeeper.stat import Batch, Percentiles, TableCounts
from cdcbus.tasks.zookeeper.znode import now

if TYPE_CHECKING:
    from cdcbus.consumer.batch.progress import Progress as LoadProgress
    from cdcbus.consumer.records.batch_report import BatchReport
    from cdcbus.producer.run import Progress as FetchProgress

BATCHES_KEPT = 10
TOLD_SECONDS = 3600.0  # a task that reads again what a target has lost may be done within a second
STAGES = SOURCE_TO_KAFKA, KAFKA_TO_TARGET, SOURCE_TO_TARGET = (
    "source_to_kafka",
    "kafka_to_target",
    "source_to_target",
)


class LoadMeasures:
    """Of a consumer task. `see` is called with each progress, on the thread that makes it; the
    rest may be asked on another thread."""

    queued_bytes: int | None = None
    skipped = ""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock, self._begun_ms = clock, 0
        self._progress: LoadProgress | None = None
        self._batch: BatchReport | None = None
        self._batches: deque[Batch] = deque(maxlen=BATCHES_KEPT)
        self._stages = {stage: Delays() for stage in STAGES}

    def see(self, progress: LoadProgress) -> None:
        self._progress = progress
        batch, applied_ms = progress.batch, int(self._clock() * 1000)
        if batch is self._batch or not batch.records:
            return
        self._batch = batch
        self._begun_ms = self._begun_ms or applied_ms
        stages = round(batch.decode_ms, 1), round(batch.apply_ms, 1), round(batch.commit_ms, 1)
        self._batches.append(Batch(now(), batch.records, *stages))
        times = (
            (batch.first_commit_ms, batch.first_kafka_ms),
            (batch.last_commit_ms, batch.last_kafka_ms),
        )
        for commit_ms, kafka_ms in times:
            if (kafka_ms or commit_ms) < self._begun_ms:
                continue
            for stage, begun, ended in (
                (SOURCE_TO_KAFKA, commit_ms, kafka_ms),
                (KAFKA_TO_TARGET, kafka_ms, applied_ms),
                (SOURCE_TO_TARGET, commit_ms, applied_ms),
            ):
                if begun and ended:
                    self._stages[stage].add((ended - begun) / 1000, batch.records / 2)

    @property
    def place(self) -> Hashable:
        """How far it is."""
        return None if self._progress is None else tuple(self._progress.next_offsets.items())

    @property
    def target_lost(self) -> str:
        """What the target was found to have lost within the last TOLD_SECONDS."""
        progress = self._progress
        return (
            progress.lost
            if progress is not None and self._clock() - progress.lost_at < TOLD_SECONDS
            else ""
        )

    @property
    def late_records(self) -> int:
        """How many were left out since the start, as they were sent by a process that had lost
        its fetch task's lock."""
        return 0 if self._progress is None else self._progress.total.late

    @property
    def late_at(self) -> float:
        """When the last of these came, in epoch seconds; 0 without one."""
        return 0.0 if self._progress is None else self._progress.late_at

    @property
    def counts(self) -> list[TableCounts]:
        return [] if self._progress is None else counts_of_load(self._progress)

    @property
    def batch_seconds(self) -> float:
        """How long the batch at hand has been applied; 0 between batches."""
        since = 0.0 if self._progress is None else self._progress.batch_since
        return time.time() - since if since else 0.0

    @property
    def beats(self) -> Mapping[str, float]:
        """When the last heartbeat of each source was written."""
        return {} if self._progress is None else dict(self._progress.total.beats)

    @property
    def stages_ms(self) -> Mapping[str, float]:
        """Of the last batch, added up over its lanes."""
        batch = self._batch
        if batch is None:
            return {}
        return {
            "decode": round(batch.decode_ms, 1),
            "apply": round(batch.apply_ms, 1),
            "commit": round(batch.commit_ms, 1),
        }

    @property
    def batches(self) -> tuple[Batch, ...]:
        """The last ones, oldest first."""
        return tuple(self._batches)

    def delays(self, _skew_seconds: float | None) -> Mapping[str, Percentiles]:
        found = {stage: self._stages[stage].percentiles() for stage in STAGES}
        return {stage: _rounded(each) for stage, each in found.items() if each is not None}

    @property
    def skew_seconds(self) -> float | None:
        """By how much the source's clock is ahead of this machine's, as far as rows show that
        they came from the future."""
        return round(self._stages[SOURCE_TO_TARGET].skew_seconds, 3) or None


class FetchMeasures:
    """Of a fetch task. Rows count as in Kafka when the position behind them is stored, a second
    later by default."""

    batch_seconds = 0.0
    beats: Mapping[str, float] = {}
    stages_ms: Mapping[str, float] = {}
    batches: tuple[Batch, ...] = ()
    skew_seconds: float | None = None
    target_lost = ""
    late_records, late_at = 0, 0.0

    def __init__(self, swimlane: str, clock: Callable[[], float] = time.time) -> None:
        self._swimlane, self._clock, self._begun_ms = swimlane, clock, 0
        self._progress: FetchProgress | None = None
        self._delays, self._done = Delays(), 0

    def see(self, progress: FetchProgress) -> None:
        self._progress = progress
        position, rows, now_ms = (
            progress.position,
            progress.done - self._done,
            int(self._clock() * 1000),
        )
        self._begun_ms = self._begun_ms or now_ms
        if position is not None and position.timestamp_ms and rows > 0:
            if position.timestamp_ms >= self._begun_ms:
                self._delays.add((now_ms - position.timestamp_ms) / 1000, rows)
            self._done = progress.done

    @property
    def place(self) -> Hashable:
        return None if self._progress is None else (self._progress.position, self._progress.done)

    @property
    def queued_bytes(self) -> int | None:
        """Of records that wait for Kafka."""
        return None if self._progress is None else self._progress.queued_bytes

    @property
    def skipped(self) -> str:
        """What was left out within the last TOLD_SECONDS, as consumer.onStatement says."""
        progress = self._progress
        if progress is None or self._clock() - progress.skipped_at >= TOLD_SECONDS:
            return ""
        return (
            f"{progress.skipped:,} statements that change its tables were logged as text and "
            "skipped since its process started "
            "(consumer.onStatement=skip): compare the tables that the log names with their targets"
        )

    @property
    def counts(self) -> list[TableCounts]:
        return [] if self._progress is None else counts_of_fetch(self._progress, self._swimlane)

    def delays(self, skew_seconds: float | None) -> Mapping[str, Percentiles]:
        """With the source's clock put right."""
        found = self._delays.percentiles(skew_seconds)
        return {} if found is None else {SOURCE_TO_KAFKA: _rounded(found)}


def measures_of(task: FetchTask | LoadTask) -> FetchMeasures | LoadMeasures:
    return FetchMeasures(task.swimlane) if isinstance(task, FetchTask) else LoadMeasures()


def _rounded(delay: Percentiles) -> Percentiles:
    return Percentiles(round(delay.p50, 3), round(delay.p95, 3), round(delay.p99, 3))
