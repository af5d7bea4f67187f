"""The consumer task: Kafka -> row changes -> target, and the position after the target has
committed.

    take_over.find_starts              fences the task's predecessor at the target, then reads the
                                       target's offsets; an edit in ZooKeeper takes precedence over
                                       these, a start rule counts at the first start only
        -> take_over.take_over         writes the start offsets to the target, then to ZooKeeper
        -> one of two gears, each from the offset at which the other stopped:

           tail.follow                 while little is left to read: the driver reads records as
                                       they arrive in Kafka and applies them immediately
               | a backlog builds up   Spark starts, and tries a query, while the tail keeps
               |                       reading
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
from contextlib import closing
from dataclasses import dataclass, field, replace
from threading import Event
from typing import TYPE_CHECKING

from cdcbus.consumer.batch.batch_applier import BatchApplier
from cdcbus.consumer.batch.batch_size import BatchSize
from cdcbus.consumer.batch.progress import Progress, is_done, shown
from cdcbus.consumer.batch.sink import Applier, make_applier
from cdcbus.consumer.batch.spark_beside import SparkBeside
from cdcbus.consumer.batch.tail import follow
from cdcbus.consumer.batch.topic_watch import TopicWatch, leader_epochs
from cdcbus.consumer.config import PARTITIONS, TOPICS, LoadTask
from cdcbus.consumer.offsets.bounds import bounded
from cdcbus.consumer.offsets.checkpoint import StoredPositions
from cdcbus.consumer.offsets.known import NOTHING_PASSED, NOWHERE
from cdcbus.consumer.offsets.landmarks import Refilled
from cdcbus.consumer.offsets.start_offsets import Starts
from cdcbus.consumer.offsets.topic_logs import TopicLogs
from cdcbus.consumer.records.dead_letter_topic import dead_letters_of
from cdcbus.consumer.records.late import begun_before
from cdcbus.consumer.spark.settings import is_cluster
from cdcbus.consumer.take_over import find_starts, take_over
from cdcbus.plugins.contracts import PositionStore
from cdcbus.plugins.error_policy import keep_trying
from cdcbus.plugins.errors import CdcError, LogRefilled
from cdcbus.plugins.positions import TopicPartition
from cdcbus.plugins.task_status import TaskStatus
from cdcbus.plugins.transform.rule_digests import changed, warn_of_changes

if TYPE_CHECKING:
    from cdcbus.consumer.spark.session import OpenSpark

LOG = logging.getLogger(__name__)
# The keys that decide which partitions are read.
BY_PARTITION = (TOPICS, PARTITIONS)


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
    with (
        dead_letters_of(task) as dead_letters,
        closing(
            make_applier(task, stop, dead_letters.put if dead_letters else None, status)
        ) as applier,
        SparkBeside(task, open_spark, stop) as spark,
    ):
        if dead_letters and not applier.is_dry_run:
            dead_letters.open()
        applier.check_targets()
        running = _Running(task, stores, applier, spark, stop, status, report)
        # Outside the attempts: an error here ends the task, one of theirs may be waited out.
        running.first = running.find_start()
        keep_trying(status, running.attempt, lambda: running.progress.done, stop)


@dataclass(slots=True)
class _Running:
    """A task that runs: one attempt after the other, with the progress of them all."""

    task: LoadTask
    stores: Mapping[str, PositionStore]
    applier: Applier
    spark: SparkBeside
    stop: Event
    status: TaskStatus
    report: Callable[[Progress], None]
    progress: Progress = field(default_factory=Progress)
    size: BatchSize = field(init=False)
    positions: StoredPositions = field(init=False)
    # Where the first attempt begins, and whether in the bulk gear; None for the later ones.
    first: tuple[Starts, bool] | None = None
    is_warned_of_cluster: bool = False
    # Of attempts that could not take the partitions over: the rules stored before, by topic, and
    # the warnings about partitions, by what they are about.
    former_rules: dict[str, Mapping[str, str]] = field(default_factory=dict)
    warnings: dict[object, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.size = BatchSize(self.task.task_id, self.task.max_records_per_batch)
        self.positions = StoredPositions(self.stores, is_dry_run=self.applier.is_dry_run)

    def attempt(self) -> None:
        """Takes the partitions over and reads until the task is over. Whatever it raises, the next
        attempt finds anew where to begin."""
        starts, is_bulk = self.first or self.find_start()
        self.first = None
        if not self.applier.is_dry_run:
            # By what was stored before the first attempt that could not take them over, as that can
            # have stored a part of the new state.
            self.former_rules = {**self.positions.rules(), **self.former_rules}
            self.warnings |= self._partition_warnings(starts)
            take_over(self.task, self.applier, self.positions, starts)
            self._warn()
        # Only now: an attempt that could not take them over has not come that far.
        self.progress.begin(starts)
        watch = TopicWatch(self.task, starts.topic_ids, self.progress, self.status, self.stop)
        self.status.reading(shown(self.progress.next_offsets))
        self.report(self.progress)
        batches = BatchApplier(self.task, self.applier, self.positions, self.progress, self.report)
        try:
            with closing(batches), batches.saved_in_the_end():
                self._read(batches, watch, is_bulk)
        except LogRefilled:
            self._keep_refilled(starts, watch.logs.found)
            raise

    def _warn(self) -> None:
        """Logs what has changed since the last start, once the new state is stored."""
        task = self.task
        for warning in self.warnings.values():
            LOG.warning("%s", warning)
        self.warnings = {}
        # A partition that is named, or not any more, keeps its own place.
        now = {name: each for name, each in task.row_rules.items() if name not in BY_PARTITION}
        for topic, rules in self.former_rules.items():
            before = {name: each for name, each in rules.items() if name not in BY_PARTITION}
            warn_of_changes(
                task.task_id,
                before,
                now,
                f"its place in {topic}",
                "Compare the target by cdcbus verify, whose --repair sends what it lacks",
            )
        self.former_rules = {}

    def _partition_warnings(self, starts: Starts) -> dict[object, str]:
        """A sentence on partitions that the task does not read any more, and one on each of new
        topics whose records it does not read from the first one."""
        warnings: dict[object, str] = {}
        task = self.task
        before = self.positions.rules().values()
        names = {name for rules in before for name in changed(rules, task.row_rules)}
        partitions = sorted({*starts.unread, *self.applier.seen} - starts.offsets.keys())
        # Where the target keeps no offsets, ZooKeeper alone knows what the task has read.
        topics = {*self.positions.other_topics()} - {each.topic for each in partitions}
        left = [*map(str, partitions), *sorted(topics)]
        is_first = starts.by_rule.keys() == starts.offsets.keys()
        if left and (is_first or not names.isdisjoint(BY_PARTITION)):
            warnings[TOPICS] = (
                f"task {task.task_id} does not read {', '.join(left)} any more, by {TOPICS} and "
                f"{PARTITIONS}: what comes there does not reach the target. Its place is kept: if "
                "it is named again, reading resumes there"
            )
        # Of a task that has read other topics, it is none.
        if is_first and not left:
            return warnings
        for partition, low in sorted(starts.by_rule.items()):
            offset = starts.offsets[partition]
            if offset > low:
                warnings[partition] = (
                    f"task {task.task_id}: {partition} is new to it and begins at offset {offset}, "
                    f"by the rule for a first start: records from {low} on are held and are not "
                    "applied. To have them, stop the task and run cdcbus offset reset "
                    f"{task.task_id} --to earliest --topic {partition.topic}"
                )
        return warnings

    def find_start(self) -> tuple[Starts, bool]:
        """Fences the predecessor; returns where to begin, and whether in the bulk gear."""
        task = self.task
        progress = self.progress
        reached = NOWHERE
        passed = NOTHING_PASSED
        if self.positions.has_begun:
            reached = progress.next_offsets
            passed = progress.last
        with TopicLogs(task, stop=self.stop) as logs:
            # Before the logs are compared: a leader elected later has another epoch.
            progress.leader_epochs = leader_epochs(task.source, logs.all_partitions())
            starts = find_starts(task, logs, self.applier, self.stores, reached, passed)
            progress.lose(task.task_id, starts.lost)
            begun, _ = begun_before(logs, starts.offsets, task.converter, is_start=True)
            self.applier.epochs.begin(begun, starts.offsets, starts.topic_ids)
            ahead, record_bytes = logs.ahead(starts.offsets)
        if record_bytes:
            self.size.saw(1, record_bytes)
        return starts, self.size.is_backlog(ahead) and self._is_spark_up(starts.offsets)

    def _read(self, batches: BatchApplier, watch: TopicWatch, is_bulk: bool) -> None:
        """Reads in one gear after the other, each from where the other has stopped."""
        while not self._is_over():
            if not is_bulk:
                follow(self.task, batches, self.size, watch, self.stop, self._is_spark_up_by_now)
            is_bulk = False
            if not self._is_over():
                self._stream_backlog(batches, watch)

    def _is_over(self) -> bool:
        return self.stop.is_set() or is_done(self.task, self.progress)

    def _stream_backlog(self, batches: BatchApplier, watch: TopicWatch) -> None:
        # Imported here, as it brings PySpark, which only a backlog needs.
        from cdcbus.consumer.batch.bulk import stream_backlog

        task = self.task
        progress = self.progress
        LOG.info("task %s: Spark reads a backlog, %s", task.task_id, shown(progress.next_offsets))
        stream_backlog(
            task, self.spark, self.applier, batches, self.size, watch, self.status, self.stop
        )
        LOG.info("task %s: Spark leaves off, %s", task.task_id, shown(progress.next_offsets))

    def _is_spark_up_by_now(self) -> bool:
        return self._is_spark_up(self.progress.next_offsets)

    def _is_spark_up(self, offsets: Mapping[TopicPartition, int]) -> bool:
        """Starts Spark unless it has been started; returns whether it is up, and ready to read
        on from these offsets. Called when a backlog has built up. A dry run never uses
        executors."""
        if self.applier.is_dry_run or self._is_unfenced_cluster():
            return False
        self.spark.start(len(offsets), offsets)
        return self.spark.is_ready

    def _is_unfenced_cluster(self) -> bool:
        """Whether nothing at the target stops an executor of a cluster that was wrongly thought to
        be lost: it would write its old slice after the newer ones of its successor."""
        master = self.task.spark_master
        if self.applier.commits_offsets or not is_cluster(master):
            return False
        if not self.is_warned_of_cluster:
            self.is_warned_of_cluster = True
            LOG.warning(
                "task %s: the backlog is read without executors (spark.master=%s): the target "
                "keeps no offsets, so an executor that was wrongly thought to be lost could "
                "replace newer rows by older ones. Let the task create table cdcbus_position in a "
                "database, or set loader.source.transaction=true for topics",
                self.task.task_id,
                master,
            )
        return True

    def _keep_refilled(self, starts: Starts, found: Refilled | None) -> None:
        """Stores the record that the log no longer holds, so that the next start refuses, too.
        Otherwise it would compare the records applied since, which the log still holds."""
        if found is None or self.applier.is_dry_run:
            return
        last = {**self.progress.last, found.partition: found.last}
        try:
            offsets = self._offsets_by_now()
            starts = replace(starts, offsets=offsets, last=last)
            take_over(self.task, self.applier, self.positions, starts)
        except CdcError as error:
            LOG.warning(
                "task %s: that the log was refilled could not be stored, so the next start may not "
                "notice it: %s",
                self.task.task_id,
                error,
            )

    def _offsets_by_now(self) -> dict[TopicPartition, int]:
        """How far each partition has been applied. Where a batch failed in one partition, the
        target can hold more of others."""
        offsets = dict(self.progress.next_offsets)
        for applied in self.applier.applied_offsets():
            partition = applied.topic_partition
            if partition in offsets:
                offsets[partition] = max(offsets[partition], applied.next_offset)
        return offsets
