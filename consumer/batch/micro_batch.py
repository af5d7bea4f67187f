"""The micro-batches of a streaming query: each one's records to the target, and the positions
after it."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import partial
from pathlib import Path
from threading import Event, Lock

import pyarrow.compute as pc
from py4j.protocol import Py4JJavaError
from pyarrow import Int64Array, Table
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from cdcbus.consumer.apply.watermark import read_before_ms, settled_before
from cdcbus.consumer.batch.batch_size import BatchSize
from cdcbus.consumer.batch.executor_batch import Executors, Outcome, Span
from cdcbus.consumer.batch.fetch import Fetcher
from cdcbus.consumer.batch.progress import Progress, is_done
from cdcbus.consumer.batch.scheduler import TURNS
from cdcbus.consumer.batch.sink import Applier
from cdcbus.consumer.config import LoadTask
from cdcbus.consumer.offsets.checkpoint import StoredPositions
from cdcbus.consumer.offsets.end_offset_watcher import AWAIT, asleep, is_quiet
from cdcbus.consumer.offsets.start_offsets import Lane
from cdcbus.consumer.records.batch_report import BatchReport
from cdcbus.consumer.records.late import without_late
from cdcbus.consumer.records.records import NO_RECORDS, Records, by_lane, kafka_times, same_in_all
from cdcbus.consumer.spark.session import end_offsets, spark_error
from cdcbus.plugins.errors import PositionError, TargetUnavailable
from cdcbus.plugins.log_context import TASK_AT_WORK
from cdcbus.plugins.start import Replay

LOG = logging.getLogger(__name__)
LOOK_SECONDS = 0.05  # whether the query is to end
FORGET_SECONDS = 60.0
QUIET_SECONDS = 15.0  # without a record a query ends
# Where many tasks share Spark's cores, a free one goes to the pool that has the fewest, and of
# those that have none to the first by name, always. So small batches of all tasks share one pool,
# in which it is first come, first served; a large one is in a pool of its task's.
POOL, SMALL, LARGE = "spark.scheduler.pool", "batch", "large-batch-of-"


class Batches:
    """What Spark calls with each micro-batch, on a thread of its own. After the first error it
    takes no more.

    A small batch is fetched while the one before it is applied. Spark goes on once a batch is
    fetched, Kafka has more, and the task has its next turn: what it believes to be done counts for
    nothing, as its checkpoint is thrown away. The records of a large one never come here: executors
    apply their lanes.
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
        self._task, self._applier, self._positions, self._stop, self._report = (
            task,
            applier,
            positions,
            stop,
            report,
        )
        self._executors, self._is_there = executors, False
        self._fetcher = Fetcher(size, scratch)
        self._is_started, self._working = Event(), Lock()
        # a batch has failed: how much of it is in the target only the target knows
        self._is_torn = False
        self._applying = ThreadPoolExecutor(1, "apply", TASK_AT_WORK.set, (task.task_id,))
        # each needs a connection
        self._lanes = ThreadPoolExecutor(
            applier.lanes_at_once, "lane", TASK_AT_WORK.set, (task.task_id,)
        )
        self._applied: Future[None] | None = None  # of the batch before
        self._fetched = progress.next_offsets
        self._forgot = time.monotonic()
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
        """Returns when Kafka has more, or the query is to end: Spark itself would look ten times
        a second only."""
        with asleep(self._task.source, self._fetched, AWAIT) as woken:
            while not (self.ended.is_set() or woken.wait(LOOK_SECONDS)):
                pass

    def _take(self, frame: DataFrame, ends: dict[Lane, int]) -> None:
        """Brings the records here while the batch before is applied, unless they are many."""
        count = sum(end - self._fetched.get(lane, 0) for lane, end in ends.items())
        if new := ends.keys() - self._fetched.keys():
            self._scatter(sorted(new))
            if len(ends) - len(new) == 1:  # this query was told nothing of other lanes
                self.ended.set()
        self._fetched = ends
        records = (
            None
            if self._executors and self.size.is_large(count)
            else self._fetcher.fetch(frame, count, self.ended)
        )
        TURNS.give_back(self)
        if self._applied is not None:
            self._applied.result()
        if records is None and self._executors and not self.ended.is_set():
            self._is_there = True
            self._work(
                partial(self._apply_there, self._executors, frame.drop(*same_in_all(ends))), ends
            )
            self._is_there = False
            return
        if records is not None and not self.ended.is_set():
            self._applied = self._applying.submit(
                self._work, partial(self._apply_here, records), ends
            )
        if records is None or self.size.learn(count, records.column("value").nbytes):
            if self._applied is not None:
                self._applied.result()
            self.ended.set()

    def _scatter(self, new: Sequence[Lane]) -> None:
        """Lanes that Spark has found: what is read from them may be newer than what is still to
        be read from the others."""
        self._applier.scatter(f"partition {new[0][1]} was added to topic {new[0][0]}")
        self.progress.next_offsets = {**dict.fromkeys(new, 0), **self.progress.next_offsets}

    def _work(
        self, apply: Callable[[dict[Lane, int]], list[Outcome]], ends: dict[Lane, int]
    ) -> None:
        with self._working:
            if self.ended.is_set():
                return
            self.progress.batch_since = time.time()
            self._is_torn = True
            try:
                self._apply(apply, ends)
                self._is_torn = False
                self._positions.save_if_due(self.progress.next_offsets, self.progress.last)
            except (PySparkException, Py4JJavaError) as error:  # of executors
                self.fail(spark_error(self._task, error))
            except Exception as error:
                self.fail(error)
            self.progress.batch_since = 0.0
            if self._stop.is_set() or is_done(self._task, self.progress):
                self.ended.set()

    def fail(self, error: Exception) -> None:
        """Ends with this error, unless the end has come already, or the task is to stop: then
        Spark may have been told so too."""
        if not self.ended.is_set() and not self._stop.is_set():
            self.error = error
        self.ended.set()

    def look_around(self) -> None:
        """Ends the query when it is to stop, or when an operator has set a position; stores
        those that are due. Does nothing while a batch is applied."""
        if self._stop.is_set() and self._is_there:
            # a batch there may last long, or wait for executors: it is broken off, and the target
            # knows how far it came
            self._query.stop()
        if self._working.acquire(blocking=False):
            try:
                if self._stop.is_set():
                    self.ended.set()
                if not self.ended.is_set():
                    self._positions.save_if_due(self.progress.next_offsets, self.progress.last)
            except PositionError as error:
                self.fail(error)
            finally:
                self._working.release()

    def are_quiet(self) -> bool:
        """Whether nothing has come for QUIET_SECONDS and all that Kafka holds is applied, which
        is asked as seldom as that."""
        if time.monotonic() - self._quiet_since < QUIET_SECONDS:
            return False
        self._quiet_since = time.monotonic()
        return is_quiet(self._task.source, self.progress.next_offsets)

    def end(self) -> None:
        """Returns when no batch is at work and none will begin, and positions are stored unless
        that has failed before."""
        with self._working:
            self.ended.set()
            if not self._is_torn and not isinstance(self.error, PositionError):
                try:
                    self._positions.save(self.progress.next_offsets, self.progress.last)
                except PositionError as error:
                    self.error = self.error or error
        self._fetcher.close()
        self._applying.shutdown()
        self._lanes.shutdown()

    def _apply(
        self, apply: Callable[[dict[Lane, int]], list[Outcome]], ends: dict[Lane, int]
    ) -> None:
        known = self.progress.next_offsets
        goals = {
            lane: end
            for lane, last in ends.items()
            if (end := min(last, self._limit)) > known.get(lane, -1)
        }
        # of a bounded replay whose other lanes wait for records
        outcomes = apply(goals) if goals else []
        batch = BatchReport()
        for outcome in outcomes:
            batch.add(outcome.report)
        if batch.records:
            LOG.info("task %s: %s", self._task.task_id, batch)
        self.progress.add(batch, [(outcome.lane[0], outcome.report) for outcome in outcomes])
        moved = {outcome.lane: outcome.end for outcome in outcomes}
        for outcome in outcomes:
            self.progress.move(outcome.lane, outcome.end, outcome.last)
        self._report(self.progress)
        self._forget_versions()
        if waiting := [outcome for outcome in outcomes if outcome.waits]:
            has_moved = any(end > known.get(lane, 0) for lane, end in moved.items())
            is_to_come_here = self._is_there and self.size.hold()
            if is_to_come_here:
                LOG.info(
                    "task %s: lanes wait for each other: executors have no part in the next "
                    "batches",
                    self._task.task_id,
                )
            self._wait_for_others(waiting, has_moved=has_moved or is_to_come_here)

    def _forget_versions(self) -> None:
        """Of rows, where lanes are beyond their changes; once in FORGET_SECONDS at most."""
        if len(self.progress.next_offsets) > 1 and time.monotonic() - self._forgot > FORGET_SECONDS:
            self._forgot = time.monotonic()
            if (before_ms := read_before_ms(self._task, self.progress.next_offsets)) > 0:
                self._applier.forget_versions(before_ms)

    def _wait_for_others(self, waiting: Sequence[Outcome], *, has_moved: bool) -> None:
        """The rest of the batch is read again. Raises TargetUnavailable when that does not help
        at once: no lane got on, and what these wait for may still come."""
        progress, is_settled = self.progress, False
        for outcome in waiting:
            LOG.info("task %s: %s", self._task.task_id, outcome.waits)
            before = progress.settled.get(outcome.lane, 0)
            now = progress.settled[outcome.lane] = max(
                before, settled_before(self._task, outcome.lane, progress.next_offsets)
            )
            is_settled |= before <= outcome.end < now
        if not (has_moved or is_settled):
            raise TargetUnavailable(waiting[0].waits)
        self.ended.set()

    def _apply_here(self, records: Table, goals: dict[Lane, int]) -> list[Outcome]:
        """Lanes that wait for others, or that the target has not taken as others were in the
        way, are applied again once the others are, as long as one of them gets on."""
        lanes, outcomes = (
            by_lane(records),
            {lane: Outcome(lane, self.progress.next_offsets.get(lane, 0)) for lane in goals},
        )
        before: list[int] | None = None
        is_hasty = len(goals) > 1
        while goals and before != (now := [outcomes[lane].end for lane in goals]):
            futures = []
            for lane, end in goals.items():
                records_of = lanes.get(lane, NO_RECORDS)
                futures.append(
                    self._lanes.submit(self._apply_lane, outcomes[lane], records_of, end, is_hasty)
                )
            wait(futures)  # also where one has failed: none is at work when its batch is given up
            for future in futures:
                future.result()
            before, goals = (
                now,
                {
                    lane: end
                    for lane, end in goals.items()
                    if outcomes[lane].waits or outcomes[lane].error
                },
            )
            if is_hasty and any(outcomes[lane].waits for lane in goals):
                is_hasty, before = False, None
                if self._apply_together(outcomes, lanes, goals):
                    break
        for outcome in outcomes.values():
            if outcome.error:
                raise outcome.error
            outcome.report.came(*kafka_times(records))
        return [*outcomes.values()]

    def _apply_together(
        self,
        outcomes: Mapping[Lane, Outcome],
        lanes: Mapping[Lane, Records],
        goals: Mapping[Lane, int],
    ) -> bool:
        """Whether lanes that wait for each other got on in one transaction: what is left is
        better read with what it lacks. One that was refused otherwise goes with them."""
        left = {
            lane: self._left(outcomes[lane], lanes.get(lane, NO_RECORDS), end)
            for lane, end in goals.items()
        }
        parts = [
            (lane, records, goals[lane], self._positions.mzxid(lane))
            for lane, (records, _) in left.items()
        ]
        try:
            done = self._applier.apply_together(parts)
        except TargetUnavailable as error:
            LOG.info("task %s: lanes are not applied together: %s", self._task.task_id, error)
            return False
        for lane, (end, report) in done.items():
            outcome = outcomes[lane]
            outcome.report.add(report)
            outcome.report.late += _before(left[lane][1], end)
            outcome.end, outcome.error = end, None
            outcome.last = lanes.get(lane, NO_RECORDS).last_before(end) or outcome.last
            outcome.waits = (
                outcome.waits or "it waits for records of other partitions"
                if end < goals[lane]
                else ""
            )
        return bool(done)

    def _apply_lane(self, outcome: Outcome, records: Records, end: int, is_hasty: bool) -> None:
        """`end` lies inside the batch where a bounded replay ends."""
        mzxid, settled_before = (
            self._positions.mzxid(outcome.lane),
            self.progress.settled.get(outcome.lane, 0),
        )
        outcome.error = None
        left, late = self._left(outcome, records, end)
        try:
            outcome.take(
                partial(
                    self._applier.apply, outcome.lane, left, end, mzxid, settled_before, is_hasty
                ),
                end,
                left,
            )
            outcome.report.late += _before(late, outcome.end)
        except TargetUnavailable as error:
            outcome.error = error

    def _left(self, outcome: Outcome, records: Records, end: int) -> tuple[Records, Int64Array]:
        """What of a lane is still to be applied, and the offsets of what comes too late for
        that."""
        left = records.before(end)[len(records.before(outcome.end)) :]
        return without_late(
            outcome.lane,
            left,
            self._task.converter,
            self.progress.begun.setdefault(outcome.lane, {}),
        )

    def _apply_there(
        self, executors: Executors, frame: DataFrame, moved: dict[Lane, int]
    ) -> list[Outcome]:
        known, spark = self.progress.next_offsets, frame.sparkSession.sparkContext
        spark.setLocalProperty(POOL, LARGE + self._task.task_id)
        settled = self.progress.settled
        begun, is_hasty = self.progress.begun, len(moved) > 1
        spans = {
            lane: Span(
                known.get(lane, 0),
                end,
                self._positions.mzxid(lane),
                settled.get(lane, 0),
                is_hasty,
                begun.get(lane, {}),
            )
            for lane, end in moved.items()
        }
        outcomes = executors.apply(frame, spans)
        begun.update((outcome.lane, outcome.begun) for outcome in outcomes if outcome.begun)
        spark.setLocalProperty(POOL, SMALL)
        count = sum(outcome.end - known.get(outcome.lane, 0) for outcome in outcomes)
        value_bytes = sum(outcome.value_bytes for outcome in outcomes)
        if any(outcome.waits for outcome in outcomes):
            return outcomes
        is_cut = any(outcome.end < moved[outcome.lane] for outcome in outcomes)
        seconds = max((outcome.seconds for outcome in outcomes), default=0.0)
        if self.size.learn(count, value_bytes, is_cut, seconds) or is_cut:
            self.ended.set()
        return outcomes


def _before(offsets: Int64Array, end: int) -> int:
    """How many."""
    return pc.sum(pc.less(offsets, end)).as_py() or 0
