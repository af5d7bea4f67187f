"""The consumer task: Kafka -> row changes -> target, and the position after the target has committed.

    ZooKeeper positions (or start rule)          offsets.starting_offsets
        -> Spark Structured Streaming            spark.kafka_stream, one micro-batch after the other
        -> per Kafka partition: LaneApplier      decode, filter, map, merge; rows and offset in one target transaction,
                                                 dead letters before its commit; a Forwarder, where the target is Kafka
        -> positions.save                        if an operator has set the node meanwhile, reading starts again from there

Spark's checkpoint is a throw-away folder of each start: ZooKeeper is the authority.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, Lock

from py4j.protocol import Py4JJavaError
from pyarrow import Table
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from cdcbus.consumer.applier import Applier, make_applier
from cdcbus.consumer.apply import LaneApplier
from cdcbus.consumer.batch_size import BatchSize, fetch
from cdcbus.consumer.dead_letters import dead_letters_of
from cdcbus.consumer.executors import Executors, Outcome, Span
from cdcbus.consumer.idle import asleep, is_quiet
from cdcbus.consumer.offsets import Lane, TopicLogs, starting_offsets
from cdcbus.consumer.records import NO_RECORDS, Records, by_lane, kafka_times
from cdcbus.consumer.report import BatchReport
from cdcbus.consumer.spark import (
    ASYNCHRONOUS_PROGRESS,
    JVM_ENDED,
    OpenSpark,
    end_offsets,
    has_executors,
    kafka_stream,
    query_error,
    spark_error,
    spark_session,
)
from cdcbus.consumer.task import LoadTask
from cdcbus.plugins.contracts import PositionStore
from cdcbus.plugins.errors import CdcError, PositionConflict
from cdcbus.plugins.policy import keep_trying
from cdcbus.plugins.position import KafkaPosition, kafka_positions_to_json
from cdcbus.plugins.start import Replay
from cdcbus.plugins.task_at_work import TASK_AT_WORK

LOG = logging.getLogger(__name__)
POLL_SECONDS = 0.1
LOOK_SECONDS = 1.0
QUIET_SECONDS = 15.0  # without a record a query ends
REST_POLL_SECONDS = 0.5


@dataclass(slots=True)
class Progress:
    """What a consumer task has done since it started, in all and by swimlane, how far each lane is, and the report of its last batch.

    `batch_since`: since when, in epoch seconds, the batch at hand is applied; 0 between batches. `lag_seconds`: from the source's clock
    when it wrote the last heartbeat to this machine's when the target had committed all before it; None without one.
    """

    total: BatchReport = field(default_factory=BatchReport)
    batch: BatchReport = field(default_factory=BatchReport)
    swimlanes: dict[str, BatchReport] = field(default_factory=dict)
    batch_since: float = 0.0
    next_offsets: dict[Lane, int] = field(default_factory=dict)
    lag_seconds: float | None = None

    @property
    def done(self) -> int:
        """Records applied."""
        return self.total.records

    def __str__(self) -> str:
        lag = "" if self.lag_seconds is None else f", a heartbeat took {self.lag_seconds:.3f} s"
        return f"{self.done} records applied, {_shown(self.next_offsets)}{lag}"

    def add(self, batch: BatchReport, parts: Iterable[tuple[str, BatchReport]]) -> None:
        """A batch, and its parts by swimlane."""
        for swimlane, part in parts:
            self.swimlanes.setdefault(swimlane, BatchReport()).add(part)
        self.total.add(batch)
        self.batch = batch
        if batch.beats:
            self.lag_seconds = time.time() - max(batch.beats.values())


def run(
    task: LoadTask,
    stores: Mapping[str, PositionStore],
    stop: Event,
    report: Callable[[Progress], None],
    open_spark: OpenSpark = spark_session,
) -> None:
    """Runs until `stop` is set or a bounded replay has reached its end. `stores`: one per topic.

    The first look at target, Kafka and ZooKeeper must succeed. Later any of them may be away for as long as it likes, and a table or column
    that the target lacks is waited for. `report` is called when reading begins, and after each batch.
    Raises ConfigError, PositionError, PositionLost, BusError, DataError, TargetError: no position moves past a row that the target has not
    committed. `open_spark` gives the session of a Spark application for the length of a block.
    """
    progress = Progress()
    try:

        def start() -> None:
            with TopicLogs(task) as logs:
                progress.next_offsets = starting_offsets(task, logs, stores, applier.applied_offsets())

        def attempt() -> None:
            start()
            if not applier.is_dry_run:
                _store(stores, progress.next_offsets)
            LOG.info("task %s reads %s", task.task_id, _shown(progress.next_offsets))
            report(progress)
            while not (stop.is_set() or _is_done(task, progress)):
                if _stream(task, spark, scratch, _Batches(task, applier, stores, progress, stop, report, size)):
                    _rest(task, stores, progress, stop)

        size = BatchSize(task.task_id, task.max_records_per_batch)
        with dead_letters_of(task) as put_dead_letters, closing(make_applier(task, stop, put_dead_letters)) as applier:
            applier.check_targets()
            start()
            with open_spark(task, stop) as (spark, scratch):
                keep_trying(f"task {task.task_id}", attempt, lambda: progress.done, stop)
    except JVM_ENDED as error:
        if not stop.is_set():  # else the signal has gone to Spark as well, and nothing is lost
            raise CdcError(f"task {task.task_id}: the JVM of Spark has ended ({type(error).__name__}); the log before says more") from error


def _is_done(task: LoadTask, progress: Progress) -> bool:
    """Whether a bounded replay has reached its end."""
    return isinstance(task.start, Replay) and all(offset > task.start.last for offset in progress.next_offsets.values())


def _store(stores: Mapping[str, PositionStore], next_offsets: Mapping[Lane, int]) -> None:
    for topic, store in stores.items():
        positions = [KafkaPosition(topic, partition, offset - 1) for (name, partition), offset in next_offsets.items() if name == topic]
        store.save(kafka_positions_to_json(positions))


def _shown(next_offsets: Mapping[Lane, int]) -> str:
    return ", ".join(f"{topic}[{partition}] from {offset}" for (topic, partition), offset in sorted(next_offsets.items()))


def _stream(task: LoadTask, spark: SparkSession, scratch: Path, batches: _Batches) -> bool:
    """Runs one streaming query until it is to end, nothing comes, or batches of another size fit better; a batch that has begun is finished
    first. Whether it is because nothing comes. Raises what ended it."""
    stream = kafka_stream(spark, task, batches.progress.next_offsets, batches.size.records)
    looked_at, is_quiet = time.monotonic(), False
    with TemporaryDirectory(dir=scratch, ignore_cleanup_errors=True) as checkpoint:  # gone with its query: there may be many in a day
        writer = stream.writeStream.foreachBatch(batches).option("checkpointLocation", Path(checkpoint).as_uri())
        query = batches.start(writer.options(**ASYNCHRONOUS_PROGRESS), has_executors(spark))
        try:
            while not batches.ended.wait(POLL_SECONDS):
                batches.check_edits()
                if time.monotonic() - looked_at > LOOK_SECONDS:
                    looked_at = time.monotonic()
                    if not query.isActive:
                        batches.fail(query_error(task, query))
                    elif batches.are_quiet():
                        is_quiet = True
                        batches.ended.set()
        finally:
            batches.end()
            with suppress(*JVM_ENDED):
                query.stop()
    if batches.error is not None:
        raise batches.error
    return is_quiet


def _rest(task: LoadTask, stores: Mapping[str, PositionStore], progress: Progress, stop: Event) -> None:
    """Returns when there is something to do again: `stop` is set, the topics have more, or an operator has set a position, which raises
    PositionConflict."""
    with asleep(task.source, progress.next_offsets) as woken:
        while not (stop.is_set() or woken.wait(REST_POLL_SECONDS)):
            if (edit := _edit(stores)) is not None:
                raise edit


def _edit(stores: Mapping[str, PositionStore]) -> PositionConflict | None:
    edited = [store.path for store in stores.values() if store.is_edited()]
    return PositionConflict(f"{edited[0]} was set by somebody else; going on from there") if edited else None


class _Batches:
    """What Spark calls with each micro-batch, on a thread of its own. After the first error it takes no more.

    A batch is fetched while the one before it is applied. Spark goes on once a batch is fetched: what it believes to be done counts for
    nothing, as its checkpoint is thrown away. Where Spark has executors, the records stay there, and each applies its lanes.
    """

    def __init__(
        self,
        task: LoadTask,
        applier: Applier,
        stores: Mapping[str, PositionStore],
        progress: Progress,
        stop: Event,
        report: Callable[[Progress], None],
        size: BatchSize,
    ) -> None:
        self.progress, self.size = progress, size
        self.error: Exception | None = None
        self.ended = Event()
        self._task, self._applier, self._stores, self._stop, self._report = task, applier, stores, stop, report
        self._is_started, self._working = Event(), Lock()
        self._applying = ThreadPoolExecutor(1, "apply", TASK_AT_WORK.set, (task.task_id,))
        self._applied: Future[None] | None = None  # of the batch before
        self._fetched = progress.next_offsets
        self._executors: Executors | None = None
        self._quiet_since = time.monotonic()
        self._limit = task.start.last + 1 if isinstance(task.start, Replay) else sys.maxsize

    def start(self, writer: DataStreamWriter, has_executors: bool) -> StreamingQuery:
        """Starts the query; its first batch waits until the query itself is known."""
        if has_executors and isinstance(self._applier, LaneApplier) and not self._applier.is_dry_run:
            self._executors = Executors(self._task, self._applier)
        with self._working:
            self._query = writer.start()
        self._is_started.set()
        return self._query

    def __call__(self, frame: DataFrame, _: int) -> None:
        TASK_AT_WORK.set(self._task.task_id)
        self._quiet_since = time.monotonic()
        try:
            self._is_started.wait()
            ends = end_offsets(self._query)
            if self._executors is not None:
                self._work(partial(self._apply_there, self._executors, frame), ends)
            else:
                self._fetch(frame, ends)
        except (PySparkException, Py4JJavaError) as error:
            self.fail(spark_error(self._task, error))
        except Exception as error:
            self.fail(error)

    def _fetch(self, frame: DataFrame, ends: dict[Lane, int]) -> None:
        """Brings the records here while the batch before is applied."""
        count = sum(end - self._fetched.get(lane, 0) for lane, end in ends.items())
        records = fetch(frame, count, self.size)
        self._fetched = ends
        if self._applied is not None:
            self._applied.result()
        if records is not None and not self.ended.is_set():
            self._applied = self._applying.submit(self._work, partial(self._apply_here, records), ends)
        if records is None or self.size.learn(count, records.column("value").nbytes):
            if self._applied is not None:
                self._applied.result()
            self.ended.set()

    def _work(self, apply: Callable[[dict[Lane, int]], list[Outcome]], ends: dict[Lane, int]) -> None:
        with self._working:
            if self.ended.is_set():
                return
            self.progress.batch_since = time.time()
            try:
                self._apply(apply, ends)
            except (PySparkException, Py4JJavaError) as error:  # of executors
                self.fail(spark_error(self._task, error))
            except Exception as error:
                self.fail(error)
            self.progress.batch_since = 0.0
            if self._stop.is_set() or _is_done(self._task, self.progress):
                self.ended.set()

    def fail(self, error: Exception) -> None:
        """Ends with this error, unless the end has come already, or the task is to stop: then Spark may have been told so too."""
        if not self.ended.is_set() and not self._stop.is_set():
            self.error = error
        self.ended.set()

    def check_edits(self) -> None:
        """Ends the query when it is to stop, or when an operator has set a position."""
        edit = _edit(self._stores)
        if self._stop.is_set() and self._executors is not None:
            self._query.stop()  # a batch there may last long, or wait for executors: it is broken off, and the target knows how far it came
        if (edit is not None or self._stop.is_set()) and self._working.acquire(blocking=False):
            if edit is not None:
                self.fail(edit)
            self.ended.set()
            self._working.release()

    def are_quiet(self) -> bool:
        """Whether nothing has come for QUIET_SECONDS and all that Kafka holds is applied, which is asked as seldom as that."""
        if time.monotonic() - self._quiet_since < QUIET_SECONDS:
            return False
        self._quiet_since = time.monotonic()
        return is_quiet(self._task.source, self.progress.next_offsets)

    def end(self) -> None:
        """Returns when no batch is at work and none will begin."""
        with self._working:
            self.ended.set()
        self._applying.shutdown()

    def _apply(self, apply: Callable[[dict[Lane, int]], list[Outcome]], ends: dict[Lane, int]) -> None:
        known = self.progress.next_offsets
        outcomes = apply({lane: end for lane, last in ends.items() if (end := min(last, self._limit)) > known.get(lane, -1)})
        batch = BatchReport()
        for outcome in outcomes:
            batch.add(outcome.report)
        if batch.records:
            LOG.info("task %s: %s", self._task.task_id, batch)
        self.progress.add(batch, [(outcome.lane[0], outcome.report) for outcome in outcomes])
        moved = {outcome.lane: outcome.end for outcome in outcomes}
        self.progress.next_offsets = {**known, **moved}
        if not self._applier.is_dry_run:
            _store({topic: self._stores[topic] for topic in {topic for topic, _ in moved}}, self.progress.next_offsets)
        self._report(self.progress)

    def _apply_here(self, records: Table, moved: dict[Lane, int]) -> list[Outcome]:
        lanes = by_lane(records)
        threads = max(1, min(len(moved), self._applier.lanes_at_once))  # a lane needs a connection
        with ThreadPoolExecutor(threads, "lane", TASK_AT_WORK.set, (self._task.task_id,)) as pool:
            futures = {lane: pool.submit(self._apply_lane, lane, lanes.get(lane, NO_RECORDS), end) for lane, end in moved.items()}
        outcomes = [Outcome(lane, moved[lane], future.result()) for lane, future in futures.items()]
        for outcome in outcomes:
            outcome.report.came(*kafka_times(records))
        return outcomes

    def _apply_lane(self, lane: Lane, records: Records, end: int) -> BatchReport:
        """`end` lies inside the batch where a bounded replay ends."""
        return self._applier.apply(lane, records.before(end), end, self._stores[lane[0]].mzxid)

    def _apply_there(self, executors: Executors, frame: DataFrame, moved: dict[Lane, int]) -> list[Outcome]:
        known = self.progress.next_offsets
        outcomes = executors.apply(frame, {lane: Span(known.get(lane, 0), end, self._stores[lane[0]].mzxid) for lane, end in moved.items()})
        count = sum(outcome.end - known.get(outcome.lane, 0) for outcome in outcomes)
        value_bytes = sum(outcome.value_bytes for outcome in outcomes)
        is_cut = any(outcome.end < moved[outcome.lane] for outcome in outcomes)
        if self.size.learn(count, value_bytes, is_cut) or is_cut:
            self.ended.set()
        return outcomes
