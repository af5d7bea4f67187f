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
from functools import partial
from threading import Event

from cdcbus.plugins.contracts import PositionStore, SchemaStore
from cdcbus.plugins.error_policy import keep_trying
from cdcbus.plugins.errors import SourceError
from cdcbus.plugins.positions import BinlogPosition
from cdcbus.plugins.registry import make_converter
from cdcbus.plugins.rowchange import RowChange
from cdcbus.plugins.task_status import TaskStatus
from cdcbus.producer.added.source import OpenSource, need_added, stored_or_start
from cdcbus.producer.checkpoint import Checkpoint
from cdcbus.producer.config import FetchTask
from cdcbus.producer.progress import Progress
from cdcbus.producer.publish.delivery import deliveries
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

    def wanted(change: RowChange) -> bool:
        return change.op not in task.left_out and tables.accepts(change.table.id)

    def begin(source: OpenSource) -> tuple[BinlogPosition, bool]:
        return stored_or_start(
            *(source, config.start, positions.load(), positions.path, positions.trace),
            task.task_id,
        )

    def attempt() -> None:
        with OpenSource(config, epoch) as source:
            deliver.take_over()
            start, is_stored = begin(source)
            if not is_stored:
                positions.save(start.to_json())
            status.reading(f"{source.name} from {start}")
            with Checkpoint(task, positions, deliver, start, progress, report) as checkpoint:
                try:
                    copy(source, start, checkpoint)
                except SourceError:
                    checkpoint.store()
                    raise
                checkpoint.store()

    def copy(source: OpenSource, start: BinlogPosition, checkpoint: Checkpoint) -> None:
        for rows, edge in source.read(start):
            changes = [change for change in rows.changes if wanted(change)]
            progress.sent(publisher.send_changes(changes))
            if edge is not None:
                checkpoint.reached(edge, partial(bool, rows.more_follow))
            checkpoint.store_if_due()
            if stop.is_set():
                return

    with KafkaPublisher(
        task.publish,
        make_converter(task.publish.converter),
        stop,
        task_id=task.task_id,
        transform=task.transform,
        on_queued=progress.queued,
    ) as publisher:
        deliver, progress.tables = deliveries(publisher, task.publish, positions), publisher.tables
        with OpenSource(config) as first:
            if task.publish.transactional_id and positions.load() is None:
                deliver.take_over()  # Kafka may know the position
            begin(first)
        keep_trying(status, attempt, lambda: progress.done + progress.stored, stop)
