"""The fetch task: binlog -> row changes -> Kafka; positions are stored once Kafka has acknowledged.

ZooKeeper position (or start rule)
    -> BinlogSource.batches   reads rows and transaction edges, in binlog order
    -> KafkaPublisher.send    adds key and partition, encodes to bytes, queues
    -> Deliveries.published   returns, once a second, the last edge before which every record is
                              acknowledged, or committed in a Kafka transaction
    -> positions.save         stores that edge on a thread of its own: an unresponsive ZooKeeper
                              delays no row. If an operator has set the node, reading restarts
                              from the position set

If the task takes snapshots, Snapshots reads the tables' existing rows in parallel and sends them
at transaction edges; their progress, too, is saved only after Kafka has acknowledged them. Changes
of a table without a key that is yet to be read are removed from the batches.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from threading import Event

from cdcbus.plugins.contracts import Mark, PositionStore, SchemaStore
from cdcbus.plugins.error_policy import keep_trying
from cdcbus.plugins.errors import PositionLost, SourceError, SourceUnavailable
from cdcbus.plugins.positions import BinlogPosition
from cdcbus.plugins.registry import make_converter
from cdcbus.plugins.rowchange import TableId
from cdcbus.plugins.task_status import TaskStatus
from cdcbus.plugins.transform.rule_digests import warn_of_changes
from cdcbus.producer.checkpoint import Checkpoint, mark_of, noted_logs, noting_losses
from cdcbus.producer.config import FetchTask, SnapshotMode
from cdcbus.producer.malloc import give_large_blocks_back
from cdcbus.producer.mapped_tables import check_mapper
from cdcbus.producer.open_xa import OpenXa
from cdcbus.producer.progress import Progress
from cdcbus.producer.publish.delivery import Deliveries, deliveries
from cdcbus.producer.publish.publisher import KafkaPublisher
from cdcbus.producer.schema.schema_reader import UnopenedTable
from cdcbus.producer.sent_before import has_sent
from cdcbus.producer.server.failover import Addresses, pause_seconds
from cdcbus.producer.snapshot.progress import MemorySnapshots, SnapshotStore
from cdcbus.producer.snapshot.snapshots import Snapshots, has_sent_live, is_snapshot_due
from cdcbus.producer.source.binlog_source import BinlogSource
from cdcbus.producer.source.heartbeat import beating
from cdcbus.producer.source.left_out import LeftOut
from cdcbus.producer.source.row_events import Batch
from cdcbus.producer.source.run_end import RunEnd
from cdcbus.producer.source.seen_ddl import SeenDdl
from cdcbus.producer.start import start_position, store_start

LOG = logging.getLogger(__name__)


def run(
    task: FetchTask,
    positions: PositionStore,
    schemas: SchemaStore,
    stop: Event,
    status: TaskStatus,
    report: Callable[[Progress], None],
    epoch: str = "",
    snapshots: SnapshotStore | None = None,
) -> None:
    """Runs until `stop` is set, or until everything before the task's `until` is in Kafka; then
    flushes what was read and stores its position.

    The first connection must succeed, at one of the source's addresses. Later the source can be
    unavailable indefinitely: its addresses are retried in turn. `status` receives the task's
    state. `epoch` identifies this holder of the swimlane's lock and is part of each of its records
    (`plugins/epoch.py`). `snapshots` keeps the progress of snapshots, None = in memory. Raises
    ConfigError, PositionError, SourceError, BusError: no position moves past a row that Kafka has
    not acknowledged.
    """
    give_large_blocks_back()
    progress = Progress()
    addresses = Addresses(task, lambda: progress.headway)
    with KafkaPublisher(
        task.publish,
        make_converter(task.publish.converter),
        stop,
        task_id=task.task_id,
        takes_partial=task.source.takes_partial,
        rows_per_record=task.rows_per_record,
        transform=task.transform,
        on_queued=progress.queued,
        status=status,
    ) as publisher:
        progress.tables = publisher.tables
        deliver = deliveries(publisher, task.publish, positions)
        fetch = _Fetch(
            positions,
            schemas,
            snapshots or MemorySnapshots(),
            publisher,
            deliver,
            addresses,
            progress,
            status,
            report,
            stop,
            epoch,
        )
        with noting_losses(task, positions, publisher, deliver), suppress(_Stopped):
            publisher.logs.begin(noted_logs(task, positions, publisher))
            addresses.first(fetch.look)
            keep_trying(status, fetch.attempt, addresses.done, stop, pause_seconds)


class _Stopped(Exception):
    """The task is stopped while its place in the binlog is looked for."""


@dataclass(slots=True)
class _Fetch:
    """A running fetch task, across all its attempts to read the source. `end`: where a bounded run
    ends; `has_sent`: it had no position, and its topics hold rows of its tables; `reported`: the
    warnings about its servers and its snapshots that the log has."""

    positions: PositionStore
    schemas: SchemaStore
    snapshots: SnapshotStore
    publisher: KafkaPublisher
    deliver: Deliveries
    addresses: Addresses
    progress: Progress
    status: TaskStatus
    report: Callable[[Progress], None]
    stop: Event
    epoch: str
    end: RunEnd | None = None
    has_sent: bool = False
    reported: set[str] = field(default_factory=set)

    def look(self, task: FetchTask) -> None:
        """Checks once whether the task can start at an address. Raises the error that prevents
        it."""
        with BinlogSource(task, proceed=self._proceed) as source:
            self._warn_of_doubts(task, source)
            if task.until is not None:
                self.end = source.run_end(task.until)
            if task.publish.transactional_id and self.positions.load() is None:
                self.deliver.take_over()  # Kafka may know the position
            start, _ = start_position(task, self.positions, source)
            if self.positions.load() is None:
                self.has_sent = has_sent(task, source, start, self.positions.path)
        check_mapper(task)

    def attempt(self) -> None:
        """Makes one connection to the source, and reads from the stored position until `stop` is
        set, the run ends, or an error is raised."""
        # Attempts can fail for days, before anything is sent.
        self.publisher.serve()
        with ExitStack() as opened:
            task = opened.enter_context(self.addresses.trying())
            source = opened.enter_context(
                BinlogSource(task, self.schemas, self.epoch, self._proceed)
            )
            self._warn_of_doubts(task, source)
            opened.enter_context(beating(task))
            # First, as both write positions.
            self.positions.load()
            has_run = self.has_sent or self.positions.written is not None
            has_sent = has_sent_live(task, self.snapshots, has_run=has_run)
            # Before the position is read: commits of the previous process count.
            self.deliver.take_over()
            self.progress.stages.forget()
            start, is_stored = start_position(task, self.positions, source)
            if is_stored:
                self._warn_of_rules(task, start)
            elif not store_start(task, source, start, self.positions, self._mark(task), self.stop):
                return
            if self._is_past_end(start) and not is_snapshot_due(task, self.snapshots):
                return
            self.status.reading(f"the binlog from {start}")
            self.progress.address = task.source.addresses[0]
            done = self.progress.done
            try:
                self._copy(task, source, start, has_sent=has_sent)
            except PositionLost as lost:
                store_start(
                    task, source, source.instead(lost), self.positions, self._mark(task), self.stop
                )
                raise SourceUnavailable(
                    "the binlog is read from that place at the next attempt"
                ) from lost
            except UnopenedTable:
                # Until the table is mended each attempt ends there, and sends the rows behind the
                # stored position once more: only a position that is stored is headway.
                self.progress.repeated += self.progress.done - done
                raise

    def _proceed(self) -> None:
        if self.stop.is_set():
            raise _Stopped

    def _mark(self, task: FetchTask) -> Mark:
        return mark_of(task, self.publisher)

    def _warn_of_doubts(self, task: FetchTask, source: BinlogSource) -> None:
        for doubt in source.doubts:
            if doubt not in self.reported:
                self.reported.add(doubt)
                LOG.warning("task %s: %s", task.task_id, doubt)

    def _warn_of_rules(self, task: FetchTask, start: BinlogPosition) -> None:
        written = self.positions.written
        before = written.mark.rules if written else {}
        any_table = TableId("SCHEMA", "TABLE")
        order = self.snapshots.start_order(task.task_id, any_table, is_confirmed=False)
        warn_of_changes(
            task.task_id,
            before,
            task.rules_at(self.publisher.cluster_id),
            str(start),
            "A table that is read only from here on, or goes elsewhere, needs a snapshot for its "
            f"existing rows: {order}. Where single transactions, statements or a TRUNCATE were "
            "left out, compare the targets by cdcbus verify",
        )

    def _copy(
        self, task: FetchTask, source: BinlogSource, start: BinlogPosition, *, has_sent: bool
    ) -> None:
        """Copies row changes; stores edges along the way and once more at the end, also when the
        source fails."""
        with (
            Checkpoint(
                task,
                self.positions,
                self.deliver,
                self.publisher,
                start,
                self.progress,
                self.report,
            ) as checkpoint,
            Snapshots(
                task,
                source.server,
                start,
                self.publisher,
                self.deliver,
                self.snapshots,
                source.has_more,
                self.epoch,
                self.progress.sent,
                has_sent=has_sent,
                reported=self.reported,
            ) as snapshot,
        ):
            try:
                is_over = self._copy_batches(task, source, start, checkpoint, snapshot)
            except SourceError:
                _store_last(checkpoint, snapshot)
                raise
            _store_last(checkpoint, snapshot)
            if snapshot.is_finished or (is_over and task.snapshot is not SnapshotMode.NEVER):
                snapshot.check()

    def _copy_batches(
        self,
        task: FetchTask,
        source: BinlogSource,
        start: BinlogPosition,
        checkpoint: Checkpoint,
        snapshot: Snapshots,
    ) -> bool:
        """Copies until `stop` is set; a bounded run until its end and the end of its snapshots; a
        snapshot-only task until the snapshot is finished. Returns whether the end of the run was
        reached."""
        left_out = LeftOut(task.left_out, task.heartbeat_table)
        seen_ddl = SeenDdl(task, self.progress.ddl, folds_names=source.server.folds_names)
        open_xa = OpenXa(self.status)
        stages = self.progress.stages
        is_over = self._is_past_end(start)
        for batch in source.batches(start):
            with snapshot.turn():
                read_at = stages.now()
                left_out.take(batch)
                gone = seen_ddl.take(batch)
                # Before rows of a new table of the name, and behind those of the former one.
                self.publisher.dropped(gone)
                open_xa.look(batch.open_xa)
                self._note(batch)
                snapshot.hold_back(batch)

                rows = self.publisher.send(batch.closed)
                self.publisher.dropped(gone)
                self.progress.sent(rows)
                stages.sent(batch, read_at, rows, self.publisher.sent)
                snapshot.passed(batch)
                if batch.edge is not None:
                    checkpoint.reached(batch.edge, source.has_more)
                elif not batch.opened:
                    checkpoint.settle(source.has_more)
                if self.end is not None and not is_over:
                    is_over = source.has_come_to(self.end, batch.edge)
                if is_over and snapshot.is_idle:
                    break  # nothing after the edge is sent, so that the edge can be committed

                stages.acknowledged(checkpoint.acknowledged())
                self.progress.sent(self.publisher.send(batch.opened))
                # Rows can be large: release these before the next ones are read.
                batch.closed.clear()
                batch.opened.clear()
                if checkpoint.store_if_due(is_due=snapshot.is_sent):
                    snapshot.acknowledged(checkpoint.confirmed(), checkpoint.stored)
                if self.stop.is_set() or snapshot.is_finished:
                    break
        return is_over

    def _note(self, batch: Batch) -> None:
        """Records what the task reports about a batch besides its rows."""
        self.progress.open_xa = batch.open_xa
        if batch.skipped:
            self.progress.skipped += batch.skipped
            self.progress.skipped_at = time.time()

    def _is_past_end(self, start: BinlogPosition) -> bool:
        return self.end is not None and self.end.is_reached(start)


def _store_last(checkpoint: Checkpoint, snapshot: Snapshots) -> None:
    """Waits for Kafka, then stores the position and the snapshots' progress."""
    with snapshot.turn():
        checkpoint.store()
        snapshot.acknowledged(checkpoint.confirmed(), checkpoint.stored, is_last=True)
