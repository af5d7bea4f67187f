"""The consumer task: Kafka -> row changes -> target, and the position after the target has committed.

    ZooKeeper positions (or start rule)          offsets.starting_offsets
        -> Spark Structured Streaming            spark.kafka_stream, one micro-batch after the other
        -> per Kafka partition: LaneApplier      decode, filter, map, merge; rows and offset in one target transaction,
                                                 dead letters before its commit
        -> positions.save                        if an operator has set the node meanwhile, reading starts again from there

Spark's checkpoint is a throw-away folder of each start: ZooKeeper is the authority.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import mkdtemp
from threading import Event, Lock

from py4j.protocol import Py4JJavaError
from pyarrow import Table
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from cdcbus.consumer.apply import LaneApplier
from cdcbus.consumer.dead_letters import dead_letters_of
from cdcbus.consumer.offsets import Lane, TopicLogs, starting_offsets
from cdcbus.consumer.processor import make_processor
from cdcbus.consumer.records import NO_RECORDS, Records, by_lane
from cdcbus.consumer.report import BatchReport
from cdcbus.consumer.spark import ASYNCHRONOUS_PROGRESS, JVM_ENDED, end_offsets, kafka_stream, query_error, spark_error, spark_session
from cdcbus.consumer.task import LoadTask
from cdcbus.plugins.contracts import PositionStore
from cdcbus.plugins.errors import CdcError, PositionConflict
from cdcbus.plugins.loaders import make_loader
from cdcbus.plugins.policy import keep_trying
from cdcbus.plugins.position import KafkaPosition, kafka_positions_to_json
from cdcbus.plugins.registry import make_converter
from cdcbus.plugins.start import Replay

LOG = logging.getLogger(__name__)
POLL_SECONDS = 0.1


@dataclass(slots=True)
class Progress:
    """What a consumer task has done since it started, how far each lane is, and the report of its last batch.

    `lag_seconds`: from the source's clock when it wrote the last heartbeat to this machine's when the target had committed all before it;
    None without one.
    """

    total: BatchReport = field(default_factory=BatchReport)
    batch: BatchReport = field(default_factory=BatchReport)
    next_offsets: dict[Lane, int] = field(default_factory=dict)
    lag_seconds: float | None = None

    @property
    def done(self) -> int:
        """Records applied."""
        return self.total.records

    def __str__(self) -> str:
        lag = "" if self.lag_seconds is None else f", a heartbeat took {self.lag_seconds:.3f} s"
        return f"{self.done} records applied, {_shown(self.next_offsets)}{lag}"

    def add(self, batch: BatchReport) -> None:
        self.total.add(batch)
        self.batch = batch
        if batch.beat_seconds:
            self.lag_seconds = time.time() - batch.beat_seconds


def run(task: LoadTask, stores: Mapping[str, PositionStore], stop: Event, report: Callable[[Progress], None]) -> None:
    """Runs until `stop` is set or a bounded replay has reached its end. `stores`: one per topic.

    The first look at target, Kafka and ZooKeeper must succeed. Later any of them may be away for as long as it likes, and a table or column
    that the target lacks is waited for. `report` is called after each batch.
    Raises ConfigError, PositionError, PositionLost, BusError, DataError, TargetError: no position moves past a row that the target has not
    committed.
    """
    loader = make_loader(task.loader, task.target)
    try:
        process, progress = make_processor(task.processor), Progress()

        def start() -> None:
            progress.next_offsets = starting_offsets(task, logs, stores, loader.applied_offsets())

        def attempt() -> None:
            start()
            if not loader.is_dry_run:
                _store(stores, progress.next_offsets)
            LOG.info("task %s reads %s", task.task_id, _shown(progress.next_offsets))
            if not _is_done(task, progress):
                _stream(task, spark, scratch, _Batches(task, applier, stores, progress, stop, report))

        with TopicLogs(task) as logs, dead_letters_of(task) as put_dead_letters:
            applier = LaneApplier(task, make_converter(task.converter), loader, process, put_dead_letters)
            applier.check_targets()
            start()
            with spark_session(task, stop) as (spark, scratch):
                keep_trying(f"task {task.task_id}", attempt, lambda: progress.done, stop)
    except JVM_ENDED as error:
        if not stop.is_set():  # else the signal has gone to Spark as well, and nothing is lost
            raise CdcError(f"task {task.task_id}: the JVM of Spark has ended ({type(error).__name__}); the log before says more") from error
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
    query = batches.start(writer.option("checkpointLocation", mkdtemp(dir=scratch)).options(**ASYNCHRONOUS_PROGRESS))
    try:
        while not batches.ended.wait(POLL_SECONDS):
            batches.check_edits()
            if not query.isActive:
                batches.fail(query_error(task, query))
    finally:
        batches.end()
        with suppress(*JVM_ENDED):
            query.stop()
    if batches.error is not None:
        raise batches.error


class _Batches:
    """What Spark calls with each micro-batch, on a thread of its own. After the first error it takes no more.

    A batch is fetched while the one before it is applied. Spark goes on once a batch is fetched: what it believes to be done counts for
    nothing, as its checkpoint is thrown away.
    """

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
        self._applying = ThreadPoolExecutor(1, "apply")
        self._applied: Future[None] | None = None  # of the batch before
        self._limit = task.start.last + 1 if isinstance(task.start, Replay) else sys.maxsize

    def start(self, writer: DataStreamWriter) -> StreamingQuery:
        """Starts the query; its first batch waits until the query itself is known."""
        with self._working:
            self._query = writer.start()
        return self._query

    def __call__(self, frame: DataFrame, _: int) -> None:
        try:
            records = frame.toArrow()
            with self._working:
                ends = end_offsets(self._query)
            if self._applied is not None:
                self._applied.result()
            if not self.ended.is_set():
                self._applied = self._applying.submit(self._work, records, ends)
        except (PySparkException, Py4JJavaError) as error:
            self.fail(spark_error(self._task, error))
        except Exception as error:
            self.fail(error)

    def _work(self, records: Table, ends: dict[Lane, int]) -> None:
        with self._working:
            if self.ended.is_set():
                return
            try:
                self._apply(by_lane(records), ends)
            except Exception as error:
                self.fail(error)
            if self._stop.is_set() or _is_done(self._task, self.progress):
                self.ended.set()

    def fail(self, error: Exception) -> None:
        """Ends with this error, unless the end has come already, or the task is to stop: then Spark may have been told so too."""
        if not self.ended.is_set() and not self._stop.is_set():
            self.error = error
        self.ended.set()

    def check_edits(self) -> None:
        """Ends the query when it is to stop, or when an operator has set a position."""
        edited = [store.path for store in self._stores.values() if store.is_edited()]
        if (edited or self._stop.is_set()) and self._working.acquire(blocking=False):
            if edited:
                self.fail(PositionConflict(f"{edited[0]} was set by somebody else; going on from there"))
            self.ended.set()
            self._working.release()

    def end(self) -> None:
        """Returns when no batch is at work and none will begin."""
        with self._working:
            self.ended.set()
        self._applying.shutdown()

    def _apply(self, lanes: dict[Lane, Records], ends: dict[Lane, int]) -> None:
        known = self.progress.next_offsets
        moved = {lane: end for lane, last in ends.items() if (end := min(last, self._limit)) > known.get(lane, -1)}
        with ThreadPoolExecutor(max(1, min(len(moved), self._task.target.pool_size))) as pool:  # a lane needs a connection
            futures = [pool.submit(self._apply_lane, lane, lanes.get(lane, NO_RECORDS), end) for lane, end in moved.items()]
        batch = BatchReport()
        for future in futures:
            batch.add(future.result())
        if batch.records:
            LOG.info("task %s: %s", self._task.task_id, batch)
        self.progress.add(batch)
        self.progress.next_offsets = {**known, **moved}
        if not self._applier.is_dry_run:
            _store({topic: self._stores[topic] for topic in {topic for topic, _ in moved}}, self.progress.next_offsets)
        self._report(self.progress)

    def _apply_lane(self, lane: Lane, records: Records, end: int) -> BatchReport:
        """`end` lies inside the batch where a bounded replay ends."""
        return self._applier.apply(lane, records.before(end), end, self._stores[lane[0]].mzxid)
