"""The fetch task: binlog -> row changes -> Kafka, and the position after Kafka has confirmed.

ZooKeeper position (or start rule)
    -> BinlogSource.batches rows and transaction edges, in binlog order
    -> KafkaPublisher.send  key, partition, bytes; queued
    -> flush                once a second: everything up to the last edge is acknowledged
    -> positions.save       that edge; if an operator has set the node meanwhile, reading starts again from there
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from threading import Event

from cdcbus.plugins.contracts import PositionStore
from cdcbus.plugins.errors import NoPosition, PositionConflict, PositionError, SourceError
from cdcbus.plugins.policy import keep_trying
from cdcbus.plugins.position import BinlogPosition
from cdcbus.plugins.registry import make_converter
from cdcbus.producer.publish import KafkaPublisher
from cdcbus.producer.source import BinlogSource
from cdcbus.producer.task import FetchTask

LOG = logging.getLogger(__name__)


@dataclass(slots=True)
class Progress:
    """What a fetch task has done since it started: row changes sent, position stored."""

    done: int = 0
    position: BinlogPosition | None = None

    def __str__(self) -> str:
        return f"{self.done} row changes sent, position {self.position}"


def run(task: FetchTask, positions: PositionStore, stop: Event, report: Callable[[Progress], None]) -> None:
    """Runs until `stop` is set; then everything read is flushed and its position stored.

    The first connection must succeed. Later the source may go away for as long as it likes: it is tried again, ever more slowly.
    Raises ConfigError, PositionError, SourceError, BusError: no position moves past a row that Kafka has not confirmed.
    """
    progress = Progress()

    def attempt() -> None:
        with BinlogSource(task) as source:
            start = _stored_start(task, positions, source)
            LOG.info("task %s reads the binlog from %s", task.task_id, start)
            _copy(source, start, _Checkpoint(task, positions, publisher, start, progress, report), stop)

    with KafkaPublisher(task.publish, make_converter(task.publish.converter), stop) as publisher:
        with BinlogSource(task) as source:
            _stored_start(task, positions, source)
        keep_trying(f"task {task.task_id}", attempt, lambda: progress.done, stop)


def _stored_start(task: FetchTask, positions: PositionStore, source: BinlogSource) -> BinlogPosition:
    """Where to start, stored if it was not yet."""
    position, is_stored = start_position(task, positions, source)
    if not is_stored:
        positions.save(position.to_json())
    return position


def start_position(task: FetchTask, positions: PositionStore, source: BinlogSource) -> tuple[BinlogPosition, bool]:
    """The stored position, else what the start rule names, and whether it is the stored one. Writes nothing.

    Raises NoPosition when there is neither, PositionLost when the source no longer has it, PositionError, SourceError.
    """
    stored = positions.load()
    if stored is not None:
        try:
            position = BinlogPosition.from_json(stored)
        except PositionError as error:
            raise PositionError(f"{positions.path}: {error}. Set it with zkCli and start again") from error
    elif task.start is None:
        raise NoPosition(
            f"task {task.task_id} has no position at {positions.path} and no consumer.offset; "
            "give consumer.offset=latest, earliest, or a binlog file such as mysql-bin.000064:4"
        )
    else:
        position = source.locate(task.start)
    source.check(position)
    return position, stored is not None


class _Checkpoint:
    """The last transaction edge whose rows were sent, stored when due: Kafka confirms first, then ZooKeeper is written."""

    def __init__(
        self,
        task: FetchTask,
        positions: PositionStore,
        publisher: KafkaPublisher,
        start: BinlogPosition,
        progress: Progress,
        report: Callable[[Progress], None],
    ) -> None:
        self.publisher, self.progress = publisher, progress
        self._interval_seconds = task.position_interval_seconds
        self._positions, self._report = positions, report
        self._edge = self._stored = progress.position = start
        self._due = 0.0

    def reached(self, edge: BinlogPosition) -> None:
        """Everything before `edge` has been sent."""
        self._edge = edge

    def store_if_due(self) -> None:
        """Stores once per interval."""
        now = time.monotonic()
        if now >= self._due:
            self._due = now + self._interval_seconds
            self.store()

    def store(self) -> None:
        """Stores the edge once Kafka has confirmed what was sent. Raises PositionConflict, also when nothing new is to be stored,
        BusRejected and BusUnavailable."""
        if self._positions.is_edited():
            raise PositionConflict(f"{self._positions.path} was set by somebody else; going on from there")
        if self._edge != self._stored:
            self.publisher.flush()
            edge = replace(self._edge, batch_id=self._stored.batch_id + 1)
            self._positions.save(edge.to_json())
            self._edge = self._stored = self.progress.position = edge
        self._report(self.progress)


def _copy(source: BinlogSource, start: BinlogPosition, checkpoint: _Checkpoint, stop: Event) -> None:
    """Copies row changes until `stop` is set, storing edges as it goes and once more at the end, also when the source fails."""
    try:
        for batch in source.batches(start):
            checkpoint.progress.done += checkpoint.publisher.send(batch.closed)
            if batch.edge is not None:
                checkpoint.reached(batch.edge)
            checkpoint.progress.done += checkpoint.publisher.send(batch.opened)
            checkpoint.store_if_due()
            if stop.is_set():
                break
    except SourceError:
        checkpoint.store()
        raise
    checkpoint.store()
