"""The consumer task: Kafka -> row changes -> target, and the position after the target has committed.

    ZooKeeper positions (or start rule)          offsets.starting_offsets
        -> Spark Structured Streaming            spark.kafka_stream, one micro-batch after the other
        -> per Kafka partition: LaneApplier      decode, filter, map, merge; rows and offset in one target transaction
        -> positions.save                        if an operator has set the node meanwhile, reading starts again from there

Spark's checkpoint is a throw-away folder of each start: ZooKeeper is the authority.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import mkdtemp
from threading import Event, Lock

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from cdcbus.consumer.apply import LaneApplier, LaneResult, Record
from cdcbus.consumer.offsets import Lane, TopicLogs, starting_offsets
from cdcbus.consumer.spark import ASYNCHRONOUS_PROGRESS, end_offsets, kafka_stream, spark_session
from cdcbus.consumer.task import LoadTask
from cdcbus.plugins.contracts import Counts, PositionStore
from cdcbus.plugins.errors import BusUnavailable, PositionConflict, TargetUnavailable
from cdcbus.plugins.loaders import make_loader
from cdcbus.plugins.position import KafkaPosition, kafka_positions_to_json
from cdcbus.plugins.registry import make_converter
from cdcbus.plugins.rowchange import TableId
from cdcbus.plugins.start import Replay

LOG = logging.getLogger(__name__)
POLL_SECONDS = 0.1
MAX_WAIT_SECONDS = 20.0


@dataclass(slots=True)
class Progress:
    """What a consumer task has done since it started: records applied, rows per target table, how far each lane is."""

    done: int = 0
    batches: int = 0
    counts: dict[TableId, Counts] = field(default_factory=dict)
    next_offsets: dict[Lane, int] = field(default_factory=dict)
    last_commit_ms: int = 0

    def __str__(self) -> str:
        return f"{self.done} records applied, {_shown(self.next_offsets)}"

    def add(self, result: LaneResult) -> None:
        self.done += result.records
        self.last_commit_ms = max(self.last_commit_ms, result.last_commit_ms)
        for table, counts in result.counts.items():
            self.counts.setdefault(table, Counts()).add(counts)


def run(task: LoadTask, stores: Mapping[str, PositionStore], stop: Event, report: Callable[[Progress], None]) -> None:
    """Runs until `stop` is set or a bounded replay has reached its end. `stores`: one per topic.

    Raises ConfigError, PositionError, PositionLost, BusError, DataError, TargetError: no position moves past a row that the target has not
    committed. A target that is away is waited for.
    """
    loader = make_loader(task.loader, task.target)
    try:
        applier = LaneApplier(task, make_converter(task.converter), loader)
        applier.check_targets()
        progress = Progress()
        with TopicLogs(task) as logs:
            progress.next_offsets = starting_offsets(task, logs, stores, loader.applied_offsets())
            with spark_session(task) as (spark, scratch):
                while not stop.is_set() and not _is_done(task, progress):
                    _store(stores, progress.next_offsets)
                    LOG.info("task %s reads %s", task.task_id, _shown(progress.next_offsets))
                    try:
                        _stream(task, spark, scratch, _Batches(task, applier, stores, progress, stop, report))
                    except PositionConflict as conflict:
                        LOG.warning("task %s: %s was set by somebody else; going on from there", task.task_id, conflict)
                        progress.next_offsets = starting_offsets(task, logs, stores, loader.applied_offsets())
    finally:
        loader.close()


def _is_done(task: LoadTask, progress: Progress) -> bool:
    """Whether a bounded replay has reached its end."""
    return isinstance(task.start, Replay) and all(offset > task.start.last for offset in progress.next_offsets.values())


def _store(stores: Mapping[str, PositionStore], next_offsets: Mapping[Lane, int]) -> None:
    for topic, store in stores.items():
        positions = [KafkaPosition(topic, partition, offset - 1) for (name, partition), offset in next_offsets.items() if name == topic]
        store.save(kafka_positions_to_json(positions))


def _shown(next_offsets: Mapping[Lane, int]) -> str:
    return ", ".join(f"{topic}[{partition}] from {offset}" for (topic, partition), offset in sorted(next_offsets.items()))


def _stream(task: LoadTask, spark: SparkSession, scratch: Path, batches: _Batches) -> None:
    """Runs one streaming query until it is to end; a batch that has begun is finished first. Raises what ended it."""
    writer = kafka_stream(spark, task, batches.progress.next_offsets).writeStream.foreachBatch(batches)
    writer = writer.option("checkpointLocation", mkdtemp(dir=scratch)).options(**ASYNCHRONOUS_PROGRESS)
    query = writer.start()
    try:
        while not batches.ended.wait(POLL_SECONDS):
            batches.check_edits()
            if not query.isActive:
                raise _query_error(task, query)
    finally:
        batches.end()
        query.stop()
    if batches.error is not None:
        raise batches.error


def _query_error(task: LoadTask, query: StreamingQuery) -> BusUnavailable:
    """Spark ended the query by itself: its first line says why (topic deleted, offsets gone, broker away)."""
    error = query.exception()
    lines = str(error).splitlines() if error else ["no reason given"]
    return BusUnavailable(f"task {task.task_id}: Spark ended the query on {task.source.servers}: {lines[0]}")


class _Batches:
    """What Spark calls with each micro-batch, on a thread of its own. After the first error it takes no more."""

    def __init__(
        self,
        task: LoadTask,
        applier: LaneApplier,
        stores: Mapping[str, PositionStore],
        progress: Progress,
        stop: Event,
        report: Callable[[Progress], None],
    ) -> None:
        self.progress = progress
        self.error: Exception | None = None
        self.ended = Event()
        self._task, self._applier, self._stores, self._stop, self._report = task, applier, stores, stop, report
        self._working = Lock()

    def __call__(self, frame: DataFrame, _: int) -> None:
        with self._working:
            if self.ended.is_set():
                return
            try:
                self._apply(frame)
            except Exception as error:
                self.error = error
            if self.error is not None or self._stop.is_set() or _is_done(self._task, self.progress):
                self.ended.set()

    def check_edits(self) -> None:
        """Ends the query when it is to stop, or when an operator has set a position."""
        edited = [store.path for store in self._stores.values() if store.is_edited()]
        if (edited or self._stop.is_set()) and self._working.acquire(blocking=False):
            if edited and self.error is None:
                self.error = PositionConflict(edited[0])
            self.ended.set()
            self._working.release()

    def end(self) -> None:
        """Returns when no batch is at work and none will begin."""
        with self._working:
            self.ended.set()

    def _apply(self, frame: DataFrame) -> None:
        ends = end_offsets(frame)
        lanes = _lanes(frame)
        moved = {lane: end for lane, end in ends.items() if end != self.progress.next_offsets.get(lane)}
        with ThreadPoolExecutor(max(1, len(moved))) as pool:
            futures = [pool.submit(self._apply_lane, lane, lanes.get(lane, []), end) for lane, end in moved.items()]
        for future in futures:
            self.progress.add(future.result())
        self.progress.next_offsets = {**self.progress.next_offsets, **moved}
        self.progress.batches += 1
        _store({topic: self._stores[topic] for topic in {topic for topic, _ in moved}}, self.progress.next_offsets)
        self._report(self.progress)

    def _apply_lane(self, lane: Lane, records: list[Record], end: int) -> LaneResult:
        if isinstance(self._task.start, Replay):
            last = self._task.start.last
            records, end = [record for record in records if record[0] <= last], min(end, last + 1)
        wait = 0.5
        while True:
            try:
                return self._applier.apply(lane, records, end, self._stores[lane[0]].mzxid)
            except TargetUnavailable as error:
                LOG.warning("task %s: %s; trying again in %.0f s", self._task.task_id, error, wait)
                if self._stop.wait(wait):
                    raise
                wait = min(MAX_WAIT_SECONDS, wait * 2)


def _lanes(frame: DataFrame) -> dict[Lane, list[Record]]:
    """The batch's records per lane, in offset order: Spark reads a partition in one task."""
    table = frame.toArrow()
    lanes: dict[Lane, list[Record]] = {}
    for topic, partition, offset, value in zip(*(column.to_pylist() for column in table.columns), strict=True):
        lanes.setdefault((topic, partition), []).append((offset, value))
    return lanes
