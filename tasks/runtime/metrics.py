"""Metrics from the progress of a running task, for both kinds of task: positions, counters, and how
long rows take.

Stages: a row is committed at the source, read, acknowledged by Kafka, taken by a consumer task, and
committed at its target; each stage uses its own clock. The first and the last row of a batch are
timed, and each counts for half of its rows. Rows from before the end of the first batch are not
timed: they waited for the task's start, which says nothing about the present.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Hashable, Mapping
from typing import TYPE_CHECKING

from cdcbus.consumer.config import LoadTask
from cdcbus.plugins.latency import Latency
from cdcbus.producer.config import FetchTask
from cdcbus.tasks.runtime.latencies import Latencies
from cdcbus.tasks.runtime.occurrences import APPLIED, DDL, Occurrence
from cdcbus.tasks.runtime.table_counts import counts_of_fetch, counts_of_load
from cdcbus.tasks.zookeeper.stat import Batch, Percentiles, TableCounts
from cdcbus.tasks.zookeeper.znode import now

if TYPE_CHECKING:
    from cdcbus.consumer.batch.progress import Progress as LoadProgress
    from cdcbus.consumer.records.batch_report import BatchReport
    from cdcbus.producer.progress import Progress as FetchProgress

# Shown by the console, to distinguish one slow batch from a slow task.
BATCHES_KEPT = 10
# A task may reread what a target has lost within a second; the report must outlast that.
REPORTED_SECONDS = 3600.0
STAGES = SOURCE_TO_KAFKA, KAFKA_TO_TARGET, SOURCE_TO_TARGET = (
    "source_to_kafka",
    "kafka_to_target",
    "source_to_target",
)
# A smaller skew is only the duration of the query.
LEAST_SKEW_SECONDS = 0.005


class LoadMetrics:
    """Metrics of a consumer task. `see` is called with each progress, on the thread that makes
    it; everything else may be read on another thread."""

    queued_bytes: int | None = None
    skipped = ""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._begun_ms = 0
        self._progress: LoadProgress | None = None
        self._batch: BatchReport | None = None
        self._batches: deque[Batch] = deque(maxlen=BATCHES_KEPT)
        self._stages = {stage: Latencies() for stage in STAGES}

    def see(self, progress: LoadProgress) -> None:
        self._progress = progress
        batch = progress.batch
        applied_ms = int(self._clock() * 1000)
        # Progress also comes without a new batch, as while the task waits.
        if batch is self._batch or not batch.records:
            return
        self._batch = batch
        # The end of the first batch; what came before it waited for the task's start.
        self._begun_ms = self._begun_ms or applied_ms
        stages = _stages_ms(batch)
        self._batches.append(
            Batch(now(), batch.records, stages["decode"], stages["apply"], stages["commit"])
        )
        rows = batch.records / 2
        self._time(batch.first_commit_ms, batch.first_kafka_ms, applied_ms, rows)
        self._time(batch.last_commit_ms, batch.last_kafka_ms, applied_ms, rows)

    def _time(self, commit_ms: int, kafka_ms: int, applied_ms: int, rows: float) -> None:
        """Adds the times of one row, for `rows` rows. 0: that time is unknown."""
        if (kafka_ms or commit_ms) < self._begun_ms:
            return
        if commit_ms and kafka_ms:
            self._stages[SOURCE_TO_KAFKA].add((kafka_ms - commit_ms) / 1000, rows)
        if kafka_ms:
            self._stages[KAFKA_TO_TARGET].add((applied_ms - kafka_ms) / 1000, rows)
        if commit_ms:
            self._stages[SOURCE_TO_TARGET].add((applied_ms - commit_ms) / 1000, rows)

    @property
    def place(self) -> Hashable:
        """A value that changes whenever the position moves."""
        if self._progress is None:
            return None
        return tuple(self._progress.next_offsets.items())

    @property
    def target_lost(self) -> str:
        """What the target lost, if that was noticed within the last REPORTED_SECONDS; else
        empty."""
        progress = self._progress
        if progress is None:
            return ""
        # A copy, as the task's own thread adds to it concurrently.
        found = [(progress.lost_at, progress.lost), *progress.lost_tables.copy()]
        since = self._clock() - REPORTED_SECONDS
        return "; ".join([sentence for at, sentence in found if sentence and at > since])

    @property
    def target_lost_at(self) -> float:
        """When the last of that was noticed, in epoch seconds; 0 without any."""
        progress = self._progress
        if progress is None:
            return 0.0
        return max([progress.lost_at, *[at for at, _ in progress.lost_tables.copy()]])

    @property
    def late_records(self) -> int:
        """The number of records left out since the start because their sender had lost the lock of
        its fetch task."""
        if self._progress is None:
            return 0
        return self._progress.total.late

    @property
    def late_at(self) -> float:
        """When the last of these records arrived, in epoch seconds; 0 without one."""
        if self._progress is None:
            return 0.0
        return self._progress.late_at

    @property
    def counts(self) -> list[TableCounts]:
        if self._progress is None:
            return []
        return counts_of_load(self._progress)

    def take_ddl(self) -> list[Occurrence]:
        """The changes of target tables' definitions since the last call."""
        if self._progress is None:
            return []
        return _taken(self._progress.ddl, APPLIED)

    @property
    def batch_seconds(self) -> float:
        """How long the batch in progress has been applied; 0 between batches."""
        if self._progress is None:
            return 0.0
        # Read once: the batch may end meanwhile, on the task's own thread.
        since = self._progress.batch_since
        return time.monotonic() - since if since else 0.0

    @property
    def beats(self) -> Mapping[str, float]:
        """When the last heartbeat of each source reached Kafka, as far as that is known."""
        if self._progress is None:
            return {}
        # A copy, because the task's own thread adds sources concurrently.
        known = dict(self._progress.total.beats)
        came = {}
        for source, beat in known.items():
            if beat.came:
                came[source] = beat.came
        return came

    @property
    def stages_ms(self) -> Mapping[str, float]:
        """The times of the last batch's stages, summed over its partitions."""
        if self._batch is None:
            return {}
        return _stages_ms(self._batch)

    @property
    def batches(self) -> tuple[Batch, ...]:
        """The last batches, oldest first."""
        return tuple(self._batches)

    def latencies(self, _skew_seconds: float | None) -> Mapping[str, Percentiles]:
        found = {stage: self._stages[stage].percentiles() for stage in STAGES}
        if self._progress is not None:
            found["kafka_to_taken"] = _percentiles(self._progress.taken)
            found["taken_to_target"] = _percentiles(self._progress.applied)
        return _known(found)

    @property
    def skew_seconds(self) -> float | None:
        """How far the source's clock is ahead of this machine's, as far as rows from the future
        show it; else None."""
        return round(self._stages[SOURCE_TO_TARGET].skew_seconds, 3) or None


class FetchMetrics:
    """Metrics of a fetch task, with the same threads as LoadMetrics."""

    batch_seconds = 0.0
    beats: Mapping[str, float] = {}
    stages_ms: Mapping[str, float] = {}
    batches: tuple[Batch, ...] = ()
    skew_seconds: float | None = None
    target_lost = ""
    target_lost_at = 0.0
    late_records = 0
    late_at = 0.0

    def __init__(self, swimlane: str, clock: Callable[[], float] = time.time) -> None:
        self._swimlane, self._clock = swimlane, clock
        self._progress: FetchProgress | None = None

    def see(self, progress: FetchProgress) -> None:
        self._progress = progress

    @property
    def place(self) -> Hashable:
        if self._progress is None:
            return None
        return self._progress.position, self._progress.done

    @property
    def queued_bytes(self) -> int | None:
        """The number of bytes of records that wait for Kafka."""
        if self._progress is None:
            return None
        return self._progress.queued_bytes

    @property
    def skipped(self) -> str:
        """A sentence on statements skipped within the last REPORTED_SECONDS, as
        consumer.onStatement allows; else empty."""
        progress = self._progress
        if progress is None or self._clock() - progress.skipped_at >= REPORTED_SECONDS:
            return ""
        return (
            f"{progress.skipped:,} statements that change its tables were logged as text and "
            "skipped since its process started "
            "(consumer.onStatement=skip): compare the tables that the log names with their targets"
        )

    @property
    def counts(self) -> list[TableCounts]:
        if self._progress is None:
            return []
        return counts_of_fetch(self._progress, self._swimlane)

    def take_ddl(self) -> list[Occurrence]:
        """The DDL of the task's tables that it has passed since the last call."""
        if self._progress is None:
            return []
        return _taken(self._progress.ddl, DDL)

    def latencies(self, skew_seconds: float | None) -> Mapping[str, Percentiles]:
        """The latencies by stage. From now on rows are timed with this skew of the source's
        clock."""
        if self._progress is None:
            return {}
        stages = self._progress.stages
        if skew_seconds is not None:
            is_clear = abs(skew_seconds) >= LEAST_SKEW_SECONDS
            # Rows are timed on the task's thread, which takes the skew from here.
            stages.skew_seconds = skew_seconds if is_clear else 0.0
        found = {
            "source_to_read": _percentiles(stages.read),
            "read_to_kafka": _percentiles(stages.to_kafka),
            SOURCE_TO_KAFKA: _percentiles(stages.published),
        }
        return _known(found)


def metrics_of(task: FetchTask | LoadTask) -> FetchMetrics | LoadMetrics:
    if isinstance(task, FetchTask):
        return FetchMetrics(task.swimlane)
    return LoadMetrics()


def _taken(seen: deque[tuple[float, str]], kind: str) -> list[Occurrence]:
    taken = []
    # The task's own thread adds to it concurrently.
    while seen:
        at, sentence = seen.popleft()
        taken.append(Occurrence(int(at), kind, sentence))
    return taken


def _stages_ms(batch: BatchReport) -> dict[str, float]:
    return {
        "decode": round(batch.decode_ms, 1),
        "apply": round(batch.apply_ms, 1),
        "commit": round(batch.commit_ms, 1),
    }


def _known(found: Mapping[str, Percentiles | None]) -> dict[str, Percentiles]:
    """The stages that rows have passed, rounded."""
    known = {}
    for stage, each in found.items():
        if each is not None:
            known[stage] = _rounded(each)
    return known


def _percentiles(latency: Latency) -> Percentiles | None:
    found = latency.quantiles(0.5, 0.95, 0.99)
    if found is None:
        return None
    return Percentiles(*found)


def _rounded(latency: Percentiles) -> Percentiles:
    return Percentiles(round(latency.p50, 4), round(latency.p95, 4), round(latency.p99, 4))
