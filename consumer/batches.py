"""The micro-batches of a streaming query: each one's records to the target, and the positions after it."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import partial
from pathlib import Path
from threading import Event, Lock

from py4j.protocol import Py4JJavaError
from pyarrow import Table
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from cdcbus.consumer.applier import Applier
from cdcbus.consumer.batch_size import BatchSize
from cdcbus.consumer.executors import Executors, Outcome, Span
from cdcbus.consumer.fetch import Fetcher
from cdcbus.consumer.idle import AWAIT, asleep, is_quiet
from cdcbus.consumer.offsets import Lane
from cdcbus.consumer.progress import Progress, is_done
from cdcbus.consumer.records import NO_RECORDS, Records, by_lane, kafka_times
from cdcbus.consumer.report import BatchReport
from cdcbus.consumer.spark import end_offsets, spark_error
from cdcbus.consumer.stored_positions import StoredPositions
from cdcbus.consumer.task import LoadTask
from cdcbus.consumer.turns import TURNS
from cdcbus.plugins.errors import PositionError
from cdcbus.plugins.start import Replay
from cdcbus.plugins.task_at_work import TASK_AT_WORK

LOG = logging.getLogger(__name__)
LOOK_SECONDS = 0.05  # whether the query is to end
QUIET_SECONDS = 15.0  # without a record a query ends
# Where many tasks share Spark's cores, a free one goes to the pool that has the fewest, and of those that have none to the first by name,
# always. So small batches of all tasks share one pool, in which it is first come, first served; a large one is in a pool of its task's.
POOL, SMALL, LARGE = "spark.scheduler.pool", "batch", "large-batch-of-"


class Batches:
    """What Spark calls with each micro-batch, on a thread of its own. After the first error it takes no more.

    A small batch is fetched while the one before it is applied. Spark goes on once a batch is fetched, Kafka has more, and the task has
    its next turn: what it believes to be done counts for nothing, as its checkpoint is thrown away. The records of a large one never come
    here: executors apply their lanes.
    """

    def __init__(
        self,
        task: LoadTask,
        applier: Applier,
        executors: Executors | None,
        positions: StoredPositions,
        progress: Progress,
        stop: Event,
        report: Callable[[Progress], None],
        size: BatchSize,
        scratch: Path,
    ) -> None:
        """`scratch`: a folder of the task's own."""
        self.progress, self.size = progress, size
        self.error: Exception | None = None
        self.ended = Event()
        self._task, self._applier, self._positions, self._stop, self._report = task, applier, positions, stop, report
        self._executors, self._is_there = executors, False
        self._fetcher = Fetcher(size, scratch)
        self._is_started, self._working = Event(), Lock()
        self._is_torn = False  # a batch has failed: how much of it is in the target only the target knows
        self._applying = ThreadPoolExecutor(1, "apply", TASK_AT_WORK.set, (task.task_id,))
        self._lanes = ThreadPoolExecutor(applier.lanes_at_once, "lane", TASK_AT_WORK.set, (task.task_id,))  # each needs a connection
        self._applied: Future[None] | None = None  # of the batch before
        self._fetched = progress.next_offsets
        self._quiet_since = time.monotonic()
        self._limit = task.start.last + 1 if isinstance(task.start, Replay) else sys.maxsize

    def start(self, writer: DataStreamWriter) -> StreamingQuery:
        """Starts the query; its first batch waits until the query itself is known."""
        with self._working:
            self._query = writer.start()
        self._is_started.set()
        return self._query

    def __call__(self, frame: DataFrame, _: int) -> None:
        TASK_AT_WORK.set(self._task.task_id)
        self._quiet_since = time.monotonic()
        TURNS.begin(self)
        try:
            self._is_started.wait()
            self._take(frame, end_offsets(self._query))
        except (PySparkException, Py4JJavaError) as error:
            self.fail(spark_error(self._task, error))
        except Exception as error:
            self.fail(error)
        self._await_more()
        TURNS.wait(self, self.ended)

    def _await_more(self) -> None:
        """Returns when Kafka has more, or the query is to end: Spark itself would look ten times a second only."""
        with asleep(self._task.source, self._fetched, AWAIT) as woken:
            while not (self.ended.is_set() or woken.wait(LOOK_SECONDS)):
                pass

    def _take(self, frame: DataFrame, ends: dict[Lane, int]) -> None:
        """Brings the records here while the batch before is applied, unless they are many."""
        count = sum(end - self._fetched.get(lane, 0) for lane, end in ends.items())
        self._fetched = ends
        records = None if self._executors and self.size.is_large(count) else self._fetcher.fetch(frame, count, self.ended)
        TURNS.give_back(self)
        if self._applied is not None:
            self._applied.result()
        if records is None and self._executors and not self.ended.is_set():
            self._is_there = True
            self._work(partial(self._apply_there, self._executors, frame), ends)
            self._is_there = False
            return
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
            self._is_torn = True
            try:
                self._apply(apply, ends)
                self._is_torn = False
                self._positions.save_if_due(self.progress.next_offsets)
            except (PySparkException, Py4JJavaError) as error:  # of executors
                self.fail(spark_error(self._task, error))
            except Exception as error:
                self.fail(error)
            self.progress.batch_since = 0.0
            if self._stop.is_set() or is_done(self._task, self.progress):
                self.ended.set()

    def fail(self, error: Exception) -> None:
        """Ends with this error, unless the end has come already, or the task is to stop: then Spark may have been told so too."""
        if not self.ended.is_set() and not self._stop.is_set():
            self.error = error
        self.ended.set()

    def look_around(self) -> None:
        """Ends the query when it is to stop, or when an operator has set a position; stores those that are due. Does nothing while a batch
        is applied."""
        if self._stop.is_set() and self._is_there:
            self._query.stop()  # a batch there may last long, or wait for executors: it is broken off, and the target knows how far it came
        if self._working.acquire(blocking=False):
            try:
                if self._stop.is_set():
                    self.ended.set()
                if not self.ended.is_set():
                    self._positions.save_if_due(self.progress.next_offsets)
            except PositionError as error:
                self.fail(error)
            finally:
                self._working.release()

    def are_quiet(self) -> bool:
        """Whether nothing has come for QUIET_SECONDS and all that Kafka holds is applied, which is asked as seldom as that."""
        if time.monotonic() - self._quiet_since < QUIET_SECONDS:
            return False
        self._quiet_since = time.monotonic()
        return is_quiet(self._task.source, self.progress.next_offsets)

    def end(self) -> None:
        """Returns when no batch is at work and none will begin, and positions are stored unless that has failed before."""
        with self._working:
            self.ended.set()
            if not self._is_torn and not isinstance(self.error, PositionError):
                try:
                    self._positions.save(self.progress.next_offsets)
                except PositionError as error:
                    self.error = self.error or error
        self._fetcher.close()
        self._applying.shutdown()
        self._lanes.shutdown()

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
        self._report(self.progress)

    def _apply_here(self, records: Table, moved: dict[Lane, int]) -> list[Outcome]:
        lanes = by_lane(records)
        futures = {lane: self._lanes.submit(self._apply_lane, lane, lanes.get(lane, NO_RECORDS), end) for lane, end in moved.items()}
        wait(futures.values())  # also where one has failed: none is at work when its batch is given up
        outcomes = [Outcome(lane, moved[lane], future.result()) for lane, future in futures.items()]
        for outcome in outcomes:
            outcome.report.came(*kafka_times(records))
        return outcomes

    def _apply_lane(self, lane: Lane, records: Records, end: int) -> BatchReport:
        """`end` lies inside the batch where a bounded replay ends."""
        return self._applier.apply(lane, records.before(end), end, self._positions.mzxid(lane))

    def _apply_there(self, executors: Executors, frame: DataFrame, moved: dict[Lane, int]) -> list[Outcome]:
        known, spark = self.progress.next_offsets, frame.sparkSession.sparkContext
        spark.setLocalProperty(POOL, LARGE + self._task.task_id)
        outcomes = executors.apply(frame, {lane: Span(known.get(lane, 0), end, self._positions.mzxid(lane)) for lane, end in moved.items()})
        spark.setLocalProperty(POOL, SMALL)
        count = sum(outcome.end - known.get(outcome.lane, 0) for outcome in outcomes)
        value_bytes = sum(outcome.value_bytes for outcome in outcomes)
        is_cut = any(outcome.end < moved[outcome.lane] for outcome in outcomes)
        seconds = max((outcome.seconds for outcome in outcomes), default=0.0)
        if self.size.learn(count, value_bytes, is_cut, seconds) or is_cut:
            self.ended.set()
        return outcomes
