"""The fetch task of a source from another package: its rows -> Kafka; positions are stored once
Kafka has acknowledged.

    stored position, or the word of consumer.offset
        -> OpenSource.read              reads rows and the places after them, in the source's order
        -> KafkaPublisher.send_changes  applies processor and mapper, adds key and partition,
                                        encodes to bytes, queues
        -> Deliveries.published         returns, once a second, the last place before which every
                                        record is acknowledged, or committed in a Kafka transaction
        -> positions.save               stores that place. If an operator has set the node, reading
                                        restarts from the position set

Like `cdcbus.producer.run`, with the same checkpoint, but without what only a binlog has: schema
history, heartbeats, snapshots.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from threading import Event

from cdcbus.plugins.contracts import PositionStore, SchemaStore
from cdcbus.plugins.error_policy import keep_trying
from cdcbus.plugins.errors import SourceError
from cdcbus.plugins.positions import BinlogPosition
from cdcbus.plugins.registry import make_converter
from cdcbus.plugins.task_status import TaskStatus
from cdcbus.producer.added.source import OpenSource, need_added, stored_or_start
from cdcbus.producer.checkpoint import Checkpoint, mark_of, noted_logs, noting_losses
from cdcbus.producer.config import AddedSource, FetchTask
from cdcbus.producer.progress import Progress
from cdcbus.producer.publish.delivery import Deliveries, deliveries
from cdcbus.producer.publish.publisher import KafkaPublisher
from cdcbus.producer.snapshot.progress import SnapshotStore
from cdcbus.producer.table_filter import TableFilter


def run(
    task: FetchTask,
    positions: PositionStore,
    _schemas: SchemaStore,
    stop: Event,
    status: TaskStatus,
    report: Callable[[Progress], None],
    epoch: str = "",
    _snapshots: SnapshotStore | None = None,
) -> None:
    """Runs until `stop` is set or the source ends; then flushes what was read and stores its
    position.

    The source must answer at first; if nothing is stored, its start is looked up then. Later it can
    be unavailable indefinitely. Raises ConfigError, PositionError, SourceError, BusError: no
    position moves past a row that Kafka has not acknowledged.
    """
    progress = Progress()
    config = need_added(task.source.added)
    tables = TableFilter(task.tables)
    with KafkaPublisher(
        task.publish,
        make_converter(task.publish.converter),
        stop,
        task_id=task.task_id,
        transform=task.transform,
        on_queued=progress.queued,
        status=status,
    ) as publisher:
        progress.tables = publisher.tables
        deliver = deliveries(publisher, task.publish, positions)
        fetch = _Fetch(
            task,
            config,
            tables,
            positions,
            publisher,
            deliver,
            progress,
            status,
            report,
            stop,
            epoch,
        )
        with noting_losses(task, positions, publisher, deliver):
            publisher.logs.begin(noted_logs(task, positions, publisher))
            fetch.look()
            keep_trying(status, fetch.attempt, lambda: progress.done + progress.stored, stop)


@dataclass(slots=True)
class _Fetch:
    """A running task, across all its attempts to read the source."""

    task: FetchTask
    config: AddedSource
    tables: TableFilter
    positions: PositionStore
    publisher: KafkaPublisher
    deliver: Deliveries
    progress: Progress
    status: TaskStatus
    report: Callable[[Progress], None]
    stop: Event
    epoch: str

    def look(self) -> None:
        """Checks once whether the task can start. Raises the error that prevents it."""
        with OpenSource(self.config) as source:
            if self.task.publish.transactional_id and self.positions.load() is None:
                self.deliver.take_over()  # Kafka may know the position
            self._begin(source)

    def attempt(self) -> None:
        """Opens the source, and reads from the stored position until `stop` is set, the source
        ends, or an error is raised."""
        # Attempts can fail for days, before anything is sent.
        self.publisher.serve()
        with OpenSource(self.config, self.epoch) as source:
            # Before the position is read: commits of the previous process count.
            self.deliver.take_over()
            start, is_stored = self._begin(source)
            if not is_stored:
                self.positions.save(start.to_json(), mark_of(self.task, self.publisher))
            self.status.reading(f"{source.name} from {start}")
            with Checkpoint(
                self.task,
                self.positions,
                self.deliver,
                self.publisher,
                start,
                self.progress,
                self.report,
            ) as checkpoint:
                try:
                    self._copy(source, start, checkpoint)
                except SourceError:
                    checkpoint.store()
                    raise
                checkpoint.store()

    def _begin(self, source: OpenSource) -> tuple[BinlogPosition, bool]:
        """Where reading begins, and whether that is the stored position."""
        positions = self.positions
        return stored_or_start(
            source,
            self.config.start,
            positions.load(),
            positions.path,
            positions.trace,
            self.task.task_id,
        )

    def _copy(self, source: OpenSource, start: BinlogPosition, checkpoint: Checkpoint) -> None:
        left_out, accepts = self.task.left_out, self.tables.accepts
        for rows, edge in source.read(start):
            changes = []
            for change in rows.changes:
                if change.op not in left_out and accepts(change.table.id):
                    changes.append(change)
            self.progress.sent(self.publisher.send_changes(changes))
            if edge is not None:
                checkpoint.reached(edge, partial(bool, rows.more_follow))
            checkpoint.store_if_due()
            if self.stop.is_set():
                return
