"""The bulk gear: Spark streams a backlog in micro-batches, and executors apply their partitions.
The records never reach the driver."""

from __future__ import annotations

import logging
from contextlib import suppress
from functools import partial
from threading import Event, Lock
from time import monotonic

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from cdcbus.consumer.batch.batch_applier import BatchApplier, Goals
from cdcbus.consumer.batch.batch_size import BatchSize
from cdcbus.consumer.batch.executor_batch import Executors, Span
from cdcbus.consumer.batch.outcome import Outcome
from cdcbus.consumer.batch.progress import is_done
from cdcbus.consumer.batch.silent_kafka import SilentKafka
from cdcbus.consumer.batch.sink import Applier
from cdcbus.consumer.batch.spark_beside import SparkBeside
from cdcbus.consumer.batch.topic_watch import TopicWatch
from cdcbus.consumer.config import LoadTask
from cdcbus.consumer.records.records import same_in_all
from cdcbus.consumer.spark.executor_health import ExecutorWatch
from cdcbus.consumer.spark.kafka_stream import end_offsets, fresh_checkpoint, kafka_stream
from cdcbus.consumer.spark.spark_errors import JVM_ENDED, jvm_ended, query_error, spark_error
from cdcbus.plugins.log_context import TASK_AT_WORK
from cdcbus.plugins.positions import TopicPartition
from cdcbus.plugins.task_status import TaskStatus

LOG = logging.getLogger(__name__)
POLL_SECONDS = 0.1
LOOK_SECONDS = 1.0
# The query ends after this long without a batch, or without a first one.
QUIET_SECONDS, FIRST_SECONDS = 1.0, 30.0
# A batch in progress is cancelled this long after an error was found: it can wait for executors, a
# lock or Kafka, and the error would not be shown. Not where nothing fences a Python worker, which
# still writes the slices that it has: beside the next attempt of the same process it would replace
# newer rows by older ones.
FINISH_SECONDS = 30.0
# Where many tasks share Spark's cores, a free core goes to the pool that has the fewest; among
# pools without any, always to the first by name. So each task has a pool of its own.
POOL = "spark.scheduler.pool"


def stream_backlog(
    task: LoadTask,
    spark: SparkBeside,
    applier: Applier,
    batches: BatchApplier,
    size: BatchSize,
    watch: TopicWatch,
    status: TaskStatus,
    stop: Event,
) -> None:
    """Runs one streaming query until the rest is small, no batch comes, batches of another size fit
    better, partitions wait for each other, a bounded replay has reached its end, or `stop` is set.
    Finishes a batch that has begun, except when `stop` is set, or an error was found and the batch,
    which the target fences, goes on for FINISH_SECONDS. Raises what ended the query."""
    try:
        session, scratch = spark.session
        next_offsets = batches.progress.next_offsets
        with fresh_checkpoint(scratch, next_offsets) as checkpoint:
            micro_batches = _MicroBatches(task, Executors(task, applier), batches, size, stop)
            stream = kafka_stream(session, task, next_offsets, size.records)
            writer = stream.writeStream.foreachBatch(micro_batches)
            # For the jobs that this thread starts.
            session.sparkContext.setLocalProperty(POOL, task.task_id)
            query = micro_batches.start(writer.option("checkpointLocation", checkpoint.as_uri()))
            executor_watch = ExecutorWatch(status, session, query)
            silent_kafka = SilentKafka(task, batches.progress, status)
            try:
                _await_end(task, query, micro_batches, watch, executor_watch, silent_kafka)
            finally:
                micro_batches.end()
                with suppress(*JVM_ENDED):
                    query.stop()
        if micro_batches.error is not None:
            raise micro_batches.error
        executor_watch.look()
        silent_kafka.look()
    # Otherwise the signal has reached Spark as well, and nothing is lost.
    except (PySparkException, Py4JJavaError) as error:
        if not stop.is_set():
            raise spark_error(task, error) from error
    except JVM_ENDED as error:
        if not stop.is_set():
            raise jvm_ended(task, error) from error


def _await_end(
    task: LoadTask,
    query: StreamingQuery,
    micro_batches: _MicroBatches,
    watch: TopicWatch,
    executor_watch: ExecutorWatch,
    silent_kafka: SilentKafka,
) -> None:
    looked_at = monotonic()
    while not micro_batches.ended.wait(POLL_SECONDS):
        micro_batches.look_around()
        if monotonic() - looked_at > LOOK_SECONDS:
            looked_at = monotonic()
            if not query.isActive:
                micro_batches.fail(query_error(task, query))
            elif (error := watch.look()) is not None:
                micro_batches.fail(error)
            else:
                executor_watch.look()
                silent_kafka.look()


class _MicroBatches:
    """Spark calls this with each micro-batch, on a thread of its own. It takes none after the first
    error."""

    def __init__(
        self,
        task: LoadTask,
        executors: Executors,
        batches: BatchApplier,
        size: BatchSize,
        stop: Event,
    ) -> None:
        self.error: Exception | None = None
        self.ended = Event()
        self._task, self._executors, self._batches = task, executors, batches
        self._size, self._stop = size, stop
        self._is_started, self._working = Event(), Lock()
        self._quiet_at = monotonic() + FIRST_SECONDS

    def start(self, writer: DataStreamWriter) -> StreamingQuery:
        """Starts the query; its first batch waits until the query object is known."""
        self._query = writer.start()
        self._is_started.set()
        return self._query

    def __call__(self, frame: DataFrame, _: int) -> None:
        TASK_AT_WORK.set(self._task.task_id)
        self._is_started.wait()
        with self._working:
            if self.ended.is_set():
                return
            try:
                self._take(frame, end_offsets(self._query))
            except (PySparkException, Py4JJavaError) as error:
                self.fail(spark_error(self._task, error))
            except Exception as error:
                self.fail(error)
            self._quiet_at = monotonic() + QUIET_SECONDS
            if self._stop.is_set() or is_done(self._task, self._batches.progress):
                self.ended.set()

    def fail(self, error: Exception) -> None:
        """Ends with this error, unless the query has ended already, or the task must stop: then the
        error may come from Spark's own stop."""
        if not self.ended.is_set() and not self._stop.is_set():
            self.error = error
        self.ended.set()

    def look_around(self) -> None:
        """Ends the query when the task must stop, or when no batch has come for a while, as the
        last one held everything. A stop cancels a batch in progress, which can last long or wait
        for executors; the target knows how far it came."""
        if self._stop.is_set():
            self._query.stop()
            self.ended.set()
        elif self._working.acquire(blocking=False):
            if monotonic() > self._quiet_at:
                self.ended.set()
            self._working.release()

    def end(self) -> None:
        """Returns when no batch is in progress and none will begin."""
        self.ended.set()
        until = monotonic() + FINISH_SECONDS
        while not self._working.acquire(timeout=POLL_SECONDS):
            is_late = monotonic() > until and self._executors.are_fenced
            if self._stop.is_set() or is_late:
                with suppress(*JVM_ENDED):
                    self._query.stop()
        self._working.release()

    def _take(self, frame: DataFrame, ends: Goals) -> None:
        progress = self._batches.progress
        new = sorted(ends.keys() - progress.next_offsets.keys())
        if new:
            self._batches.scatter(dict.fromkeys(new, 0))
            if len(ends) - len(new) == 1:
                # A query of one partition has read no keys, without which rows have no versions: an
                # older change would overwrite a newer one.
                self.ended.set()
                return
        count = 0
        for partition, end in ends.items():
            count += end - progress.next_offsets[partition]
        if self._size.is_rest(count):
            self.ended.set()
            return
        apply = partial(self._apply, frame.drop(*same_in_all(ends)))
        if not self._batches.apply(apply, ends, is_held=True):
            LOG.info(
                "task %s: partitions wait for each other: executors have no part in the next "
                "batches",
                self._task.task_id,
            )
            self._size.hold()
            self.ended.set()

    def _apply(self, frame: DataFrame, goals: Goals) -> list[Outcome]:
        progress = self._batches.progress
        spans: dict[TopicPartition, Span] = {}
        for partition, end in goals.items():
            spans[partition] = Span(
                progress.next_offsets.get(partition, 0),
                end,
                self._batches.position_version(partition),
                progress.low_watermarks.get(partition, 0),
                len(goals) > 1,
                self._batches.epochs.of(partition),
                self._batches.arrivals().now_ms(),
                self._batches.scattered_tables(),
            )
        # This is Spark's thread, not the one that started the query.
        frame.sparkSession.sparkContext.setLocalProperty(POOL, self._task.task_id)
        outcomes = self._executors.apply(frame, spans)
        for outcome in outcomes:
            self._batches.epochs.follow(outcome.partition, outcome.begun, outcome.end)
        if not any(outcome.waits for outcome in outcomes):
            self._learn(outcomes, goals)
        return outcomes

    def _learn(self, outcomes: list[Outcome], goals: Goals) -> None:
        known = self._batches.progress.next_offsets
        count = value_bytes = 0
        seconds = 0.0
        is_cut = False
        for outcome in outcomes:
            count += outcome.end - known.get(outcome.partition, 0)
            value_bytes += outcome.value_bytes
            # Partitions run side by side.
            seconds = max(seconds, outcome.seconds)
            is_cut |= outcome.end < goals[outcome.partition]
        # A query continues after the whole batch, and its batch size is fixed at its start.
        if self._size.learn(count, value_bytes, is_cut, seconds) or is_cut:
            self.ended.set()
