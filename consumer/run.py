"""The consumer task: Kafka -> row changes -> target, and the position after the target has
committed.

    take_over.find_starts                        whoever has run the task is fenced at the target,
                                                 then its offsets are read; an edit in
                                                 ZooKeeper counts more than these, a start rule at
                                                 the first start only
        -> take_over.take_over                   where to go on: to the target, then to ZooKeeper
        -> Spark Structured Streaming            spark.kafka_stream, one micro-batch after the other
        -> Batches                               a small one is fetched, a large one streams through
                                                 executors
        -> per Kafka partition: LaneApplier      decode, filter, map, merge; rows and offset in one
                                                 target transaction,
                                                 dead letters before its commit; a Forwarder, where
                                                 the target is Kafka
        -> StoredPositions                       every second; if an operator has set the node
                                                 meanwhile, reading starts again from there

Spark's checkpoint is a throw-away folder of each start: the target is the authority.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event

from pyspark.sql import SparkSession

from cdcbus.consumer.batch.batch_size import BatchSize
from cdcbus.consumer.batch.executor_batch import Executors
from cdcbus.consumer.batch.micro_batch import POOL, SMALL, Batches
from cdcbus.consumer.batch.progress import Progress, is_done, shown
from cdcbus.consumer.batch.sink import make_applier
from cdcbus.consumer.config import LoadTask
from cdcbus.consumer.landmarks import LogWatch, Refilled
from cdcbus.consumer.offsets.checkpoint import StoredPositions
from cdcbus.consumer.offsets.end_offset_watcher import REST, asleep
from cdcbus.consumer.offsets.start_offsets import NOTHING_PASSED, NOWHERE, Starts, TopicLogs
from cdcbus.consumer.offsets.topic_identity import TopicIdentity
from cdcbus.consumer.records.dead_letters import dead_letters_of
from cdcbus.consumer.records.late import begun_before
from cdcbus.consumer.spark.executor_health import ExecutorWatch
from cdcbus.consumer.spark.session import (
    ASYNCHRONOUS_PROGRESS,
    JVM_ENDED,
    OpenSpark,
    begin_at,
    kafka_stream,
    query_error,
    spark_session,
)
from cdcbus.consumer.take_over import find_starts, take_over
from cdcbus.plugins.contracts import PositionStore
from cdcbus.plugins.error_policy import keep_trying
from cdcbus.plugins.errors import CdcError, LogRefilled
from cdcbus.plugins.task_status import TaskStatus

POLL_SECONDS = 0.1
LOOK_SECONDS = 1.0
REST_POLL_SECONDS = 0.5


def run(
    task: LoadTask,
    stores: Mapping[str, PositionStore],
    stop: Event,
    status: TaskStatus,
    report: Callable[[Progress], None],
    open_spark: OpenSpark = spark_session,
) -> None:
    """Runs until `stop` is set or a bounded replay has reached its end. `stores`: one per topic.

    The first look at target, Kafka and ZooKeeper must succeed. Later any of them may be away for as
    long as it likes, and a table or column that the target lacks is waited for. `status` is given
    the task's state; `report` is called when reading begins, and after each batch. Raises
    ConfigError, PositionError, PositionLost, BusError, DataError, TargetError: no position moves
    past a row that the target has not committed. `open_spark` gives the session of a Spark
    application for the length of a block.
    """
    progress = Progress()
    try:

        def start() -> Starts:
            reached = (
                (progress.next_offsets, progress.last)
                if positions.has_begun
                else (NOWHERE, NOTHING_PASSED)
            )
            starts = find_starts(task, applier, stores, *reached)
            progress.begin(task.task_id, starts)
            with TopicLogs(task) as logs:
                progress.begun = begun_before(logs, starts.offsets, task.converter)
            return starts

        def attempt() -> None:
            starts = start()
            if not applier.is_dry_run:
                take_over(applier, positions, starts)
            identity, watch = TopicIdentity(task, starts.topic_ids), LogWatch(task, progress)
            status.reading(shown(progress.next_offsets))
            report(progress)
            try:
                while not (stop.is_set() or is_done(task, progress)):
                    batches = Batches(
                        task, applier, executors, positions, progress, stop, report, size, scratch
                    )
                    if _stream(task, spark, scratch, batches, identity, watch, status):
                        _rest(task, positions, progress, stop, identity)
            except LogRefilled:
                keep(starts, watch.found)
                raise

        def keep(starts: Starts, found: Refilled | None) -> None:
            """So that the next start refuses, too: what was applied since is in the log."""
            if found and not applier.is_dry_run:
                last = {**progress.last, found.lane: found.last}
                with suppress(CdcError):
                    take_over(
                        applier,
                        positions,
                        replace(starts, offsets=progress.next_offsets, last=last),
                    )

        with (
            dead_letters_of(task) as dead_letters,
            closing(
                make_applier(task, stop, dead_letters.put if dead_letters else None)
            ) as applier,
        ):
            if dead_letters and not applier.is_dry_run:
                dead_letters.open()
            applier.check_targets()
            positions = StoredPositions(stores, is_dry_run=applier.is_dry_run)
            start()
            executors = None if applier.is_dry_run else Executors(task, applier)
            size = BatchSize(
                task.task_id, task.max_records_per_batch, is_streamed=executors is not None
            )
            with TopicLogs(task) as logs:
                ahead, record_bytes = logs.ahead(progress.next_offsets)
            size.expect(ahead, record_bytes)
            with open_spark(task, stop) as (spark, scratch):
                if executors and size.is_large(ahead):
                    executors.warm_up(spark, len(progress.next_offsets))
                keep_trying(status, attempt, lambda: progress.done, stop)
    except JVM_ENDED as error:
        if not stop.is_set():  # else the signal has gone to Spark as well, and nothing is lost
            raise CdcError(
                f"task {task.task_id}: the JVM of Spark has ended ({type(error).__name__}); the "
                "log before says more"
            ) from error


def _stream(
    task: LoadTask,
    spark: SparkSession,
    scratch: Path,
    batches: Batches,
    identity: TopicIdentity,
    logs: LogWatch,
    status: TaskStatus,
) -> bool:
    """Runs one streaming query until it is to end, nothing comes, or batches of another size fit
    better; a batch that has begun is finished first. Whether it is because nothing comes. Raises
    what ended it."""
    stream = kafka_stream(spark, task, batches.progress.next_offsets, batches.size.records)
    looked_at, is_quiet = time.monotonic(), False
    # gone with its query: there may be many in a day
    with TemporaryDirectory(dir=scratch, ignore_cleanup_errors=True) as checkpoint:
        begin_at(Path(checkpoint), batches.progress.next_offsets)
        writer = stream.writeStream.foreachBatch(batches).option(
            "checkpointLocation", Path(checkpoint).as_uri()
        )
        spark.sparkContext.setLocalProperty(POOL, SMALL)  # for what this thread starts
        query = batches.start(writer.options(**ASYNCHRONOUS_PROGRESS))
        watch = ExecutorWatch(status, spark, query)
        try:
            while not batches.ended.wait(POLL_SECONDS):
                batches.look_around()
                if time.monotonic() - looked_at > LOOK_SECONDS:
                    looked_at = time.monotonic()
                    if not query.isActive:
                        batches.fail(query_error(task, query))
                    elif batches.are_quiet():
                        is_quiet = True
                        batches.ended.set()
                    elif (remade := identity.look()) is not None:
                        batches.fail(remade)
                    elif (refilled := logs.look()) is not None:
                        batches.fail(refilled.error(task))
                    else:
                        watch.look()
        finally:
            batches.end()
            with suppress(*JVM_ENDED):
                query.stop()
    if batches.error is not None:
        raise batches.error
    watch.look()
    return is_quiet


def _rest(
    task: LoadTask,
    positions: StoredPositions,
    progress: Progress,
    stop: Event,
    identity: TopicIdentity,
) -> None:
    """Returns when there is something to do again: `stop` is set, the topics have more, or an
    operator has set a position, which raises PositionConflict. Raises TopicRemade."""
    with asleep(task.source, progress.next_offsets, REST) as woken:
        while not (stop.is_set() or woken.wait(REST_POLL_SECONDS)):
            if (error := positions.edit() or identity.look()) is not None:
                raise error
