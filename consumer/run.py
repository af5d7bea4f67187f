"""The consumer task: Kafka -> row changes -> target, and the position after the target has
committed.

    take_over.find_starts              fences the task's predecessor at the target, then reads the
                                       target's offsets; an edit in ZooKeeper takes precedence over
                                       these, a start rule counts at the first start only
        -> take_over.take_over         writes the start offsets to the target, then to ZooKeeper
        -> one of two gears, each from the offset at which the other stopped:

           tail.follow                 while little is left to read: the driver reads records as
                                       they arrive in Kafka and applies them immediately
               | a backlog builds up   Spark starts while the tail keeps reading, until Spark is up
               v                       ^ the rest is small again
           bulk.stream_backlog         Spark Structured Streaming: executors read and apply their
                                       partitions in micro-batches

        -> BatchApplier                in both: partitions side by side, progress, stored positions
        -> per Kafka partition: PartitionApplier
                                       decode, filter, map, merge; rows and offset in one target
                                       transaction, dead letters before its commit; a Forwarder,
                                       where the target is Kafka
        -> StoredPositions             every second; if an operator has set the node meanwhile,
                                       reading restarts from the position set

The target is the authority: a restart ignores how far a gear had read, and each Spark query has a
throw-away checkpoint folder.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from dataclasses import replace
from threading import Event
from typing import TYPE_CHECKING

from cdcbus.consumer.batch.batch_applier import BatchApplier
from cdcbus.consumer.batch.batch_size import BatchSize
from cdcbus.consumer.batch.progress import Progress, is_done, shown
from cdcbus.consumer.batch.sink import make_applier
from cdcbus.consumer.batch.spark_beside import SparkBeside
from cdcbus.consumer.batch.tail import follow
from cdcbus.consumer.batch.topic_watch import TopicWatch, leader_epochs
from cdcbus.consumer.config import LoadTask
from cdcbus.consumer.offsets.bounds import bounded
from cdcbus.consumer.offsets.checkpoint import StoredPositions
from cdcbus.consumer.offsets.known import NOTHING_PASSED, NOWHERE
from cdcbus.consumer.offsets.landmarks import Refilled
from cdcbus.consumer.offsets.start_offsets import Starts
from cdcbus.consumer.offsets.topic_logs import TopicLogs
from cdcbus.consumer.records.dead_letter_topic import dead_letters_of
from cdcbus.consumer.records.late import begun_before
from cdcbus.consumer.take_over import find_starts, take_over
from cdcbus.plugins.contracts import PositionStore
from cdcbus.plugins.error_policy import keep_trying
from cdcbus.plugins.errors import CdcError, LogRefilled
from cdcbus.plugins.task_status import TaskStatus

if TYPE_CHECKING:
    from cdcbus.consumer.spark.session import OpenSpark

LOG = logging.getLogger(__name__)


def run(
    task: LoadTask,
    stores: Mapping[str, PositionStore],
    stop: Event,
    status: TaskStatus,
    report: Callable[[Progress], None],
    open_spark: OpenSpark | None = None,
) -> None:
    """Runs until `stop` is set or a bounded replay or run has reached its end. `stores`: one per
    topic.

    The first access to target, Kafka and ZooKeeper must succeed. Later the task waits indefinitely
    for any of them, and for a table or column that the target lacks. `status` receives the task's
    state; `report` is called when reading begins, and after each batch. Raises ConfigError,
    PositionError, PositionLost, BusError, DataError, TargetError: no position moves past a row that
    the target has not committed. `open_spark` opens the session of a Spark application for the
    length of a block, once a backlog needs one; None: the task starts its own application.
    """
    task = bounded(task)
    progress = Progress()
    size = BatchSize(task.task_id, task.max_records_per_batch)
    name = f"task {task.task_id}"

    def start() -> tuple[Starts, bool]:
        """Returns where to begin, and whether in the bulk gear."""
        reached = NOWHERE
        passed = NOTHING_PASSED
        if positions.has_begun:
            reached = progress.next_offsets
            passed = progress.last
        with TopicLogs(task) as logs:
            # Before the logs are compared: a leader elected later has another epoch.
            progress.leader_epochs = leader_epochs(task.source, logs.all_partitions())
            starts = find_starts(task, logs, applier, stores, reached, passed)
            progress.begin(task.task_id, starts)
            progress.begun = begun_before(logs, starts.offsets, task.converter)
            ahead, record_bytes = logs.ahead(starts.offsets)
        if record_bytes:
            size.saw(1, record_bytes)
        return starts, size.is_backlog(ahead) and is_spark_up()

    def attempt() -> None:
        starts, is_bulk = first.pop() if first else start()
        if not applier.is_dry_run:
            take_over(applier, positions, starts)
        watch = TopicWatch(task, starts.topic_ids, progress)
        status.reading(shown(progress.next_offsets))
        report(progress)
        try:
            with closing(BatchApplier(task, applier, positions, progress, report)) as batches:
                read(batches, watch, is_bulk)
        except LogRefilled:
            keep(starts, watch.logs.found)
            raise

    def read(batches: BatchApplier, watch: TopicWatch, is_bulk: bool) -> None:
        def is_over() -> bool:
            return stop.is_set() or is_done(task, progress)

        with batches.saved_in_the_end():
            while not is_over():
                if not is_bulk:
                    follow(task, batches, size, watch, stop, is_spark_up)
                is_bulk = False
                if not is_over():
                    # Imported here, as it brings PySpark, which only a backlog needs.
                    from cdcbus.consumer.batch.bulk import stream_backlog

                    LOG.info("%s: Spark reads a backlog, %s", name, shown(progress.next_offsets))
                    stream_backlog(task, spark, applier, batches, size, watch, status, stop)
                    LOG.info("%s: Spark leaves off, %s", name, shown(progress.next_offsets))

    def is_spark_up() -> bool:
        """Starts Spark unless it has been started; returns whether it is up. Called when a backlog
        has built up. A dry run never uses executors."""
        if applier.is_dry_run:
            return False
        spark.start(len(progress.next_offsets))
        return spark.is_ready

    def keep(starts: Starts, found: Refilled | None) -> None:
        """Stores the record that the log no longer holds, so that the next start refuses, too.
        Otherwise it would compare the records applied since, which the log still holds."""
        if found and not applier.is_dry_run:
            last = {**progress.last, found.partition: found.last}
            with suppress(CdcError):
                take_over(
                    applier, positions, replace(starts, offsets=progress.next_offsets, last=last)
                )

    with (
        dead_letters_of(task) as dead_letters,
        closing(make_applier(task, stop, dead_letters.put if dead_letters else None)) as applier,
        SparkBeside(task, open_spark, stop) as spark,
    ):
        if dead_letters and not applier.is_dry_run:
            dead_letters.open()
        applier.check_targets()
        positions = StoredPositions(stores, is_dry_run=applier.is_dry_run)
        first = [start()]
        keep_trying(status, attempt, lambda: progress.done, stop)
