"""The fetch task: binlog -> row changes -> Kafka, and the position after Kafka has confirmed.

ZooKeeper position (or start rule)
    -> BinlogSource.batches rows and transaction edges, in binlog order
    -> KafkaPublisher.send  key, partition, bytes; queued
    -> Deliveries.published the last edge before which all is acknowledged, or committed in a Kafka
    transaction; once a second
    -> positions.save       that edge, on a thread of its own: a silent ZooKeeper holds up no row.
                            If an operator has set the node, reading starts again from there

Beside it, where that is wanted, Snapshots reads the rows that tables have already, and sends them
at transaction edges; how far they are is saved after Kafka has confirmed them, too.
"""

from __future__ import annotations

import ctypes
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from threading import Event

from cdcbus.plugins.contracts import PositionStore, SchemaStore
from cdcbus.plugins.error_policy import keep_trying
from cdcbus.plugins.errors import (
    NoPosition,
    PositionConflict,
    PositionError,
    PositionLost,
    SourceError,
    SourceUnavailable,
)
from cdcbus.plugins.positions import BinlogPosition
from cdcbus.plugins.registry import make_converter
from cdcbus.plugins.rowchange import Op, TableId
from cdcbus.plugins.saved_aside import SavedAside
from cdcbus.plugins.task_status import TaskStatus
from cdcbus.producer.config import FetchTask, SnapshotMode
from cdcbus.producer.mapped_tables import check_mapper
from cdcbus.producer.publish.delivery import Deliveries, deliveries
from cdcbus.producer.publish.publisher import KafkaPublisher
from cdcbus.producer.publish.stages import Stages
from cdcbus.producer.server.failover import Addresses, pause_seconds
from cdcbus.producer.snapshot.progress import MemorySnapshots, SnapshotStore
from cdcbus.producer.snapshot.snapshots import Snapshots, is_snapshot_due
from cdcbus.producer.source.binlog_source import BinlogSource
from cdcbus.producer.source.heartbeat import beating
from cdcbus.producer.source.left_out import LeftOut
from cdcbus.producer.source.run_end import RunEnd
from cdcbus.producer.source.seen_ddl import KEPT, Seen, SeenDdl

OPEN_XA_SECONDS = 60.0
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_LARGE_BYTES, _KEPT_BYTES = 4 << 20, 8 << 20


@dataclass(slots=True)
class Progress:
    """What a fetch task has done since it started: row changes sent, in all and by table and
    operation, positions stored, and the last of these. `queued_bytes`: of records that wait for
    Kafka now; the task's `queue_bytes` at most. `open_xa`: the xid of the oldest XA transaction
    that is prepared and not finished, and since when, in epoch seconds. `skipped`: how many
    statements were, that were logged as text; `skipped_at`: when one was last, in epoch seconds.
    `ddl`: definitions of its tables that it has passed; who tells of them takes them out.
    `stages`: how long rows take."""

    done: int = 0
    stored: int = 0
    position: BinlogPosition | None = None
    queued_bytes: int = 0
    open_xa: tuple[str, int] | None = None
    skipped: int = 0
    skipped_at: float = 0.0
    ddl: deque[Seen] = field(default_factory=lambda: deque(maxlen=KEPT))
    tables: Mapping[TableId, Mapping[Op, int]] = field(default_factory=dict)
    stages: Stages = field(default_factory=Stages)

    def sent(self, rows: int) -> None:
        self.done += rows

    def queued(self, size_bytes: int) -> None:
        self.queued_bytes = size_bytes

    def __str__(self) -> str:
        return f"{self.done} row changes sent, position {self.position}"


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
    """Runs until `stop` is set, or all before the task's `until` is in Kafka; everything read is
    flushed then, and its position stored.

    The first connection must succeed, at one of its addresses. Later the source may go away for as
    long as it likes: it is tried again, at one address after the other. `status` is given the
    task's state. `epoch`: of this holder of the swimlane's lock, told by each of its records
    (`plugins/epoch.py`). `snapshots`: where their progress is kept, None = in
    memory. Raises ConfigError, PositionError, SourceError, BusError: no position
    moves past a row that Kafka has not confirmed.
    """
    _give_large_blocks_back()
    progress = Progress()
    kept = MemorySnapshots() if snapshots is None else snapshots
    addresses = Addresses(task, lambda: progress.done + progress.stored)
    end: RunEnd | None = None

    def look(there: FetchTask) -> None:
        nonlocal end
        with BinlogSource(there) as source:
            if task.until is not None:
                end = source.run_end(task.until)
            if task.publish.transactional_id and positions.load() is None:
                deliver.take_over()  # Kafka may know the position
            start_position(there, positions, source)
        check_mapper(there)

    def attempt() -> None:
        with (
            addresses.trying() as there,
            BinlogSource(there, schemas, epoch) as source,
            beating(there),
        ):
            deliver.take_over()
            progress.stages.forget()
            start, is_stored = start_position(there, positions, source)
            if not is_stored and not _began(source, start, positions, stop):
                return
            if end is not None and end.is_reached(start) and not is_snapshot_due(there, kept):
                return
            status.reading(f"the binlog from {start}")
            try:
                with (
                    Checkpoint(task, positions, deliver, start, progress, report) as checkpoint,
                    Snapshots(
                        *(there, source.server, start, publisher, deliver, kept),
                        *(source.has_more, epoch, progress.sent),
                    ) as snapshot,
                ):
                    _copy(there, source, start, publisher, checkpoint, snapshot, status, stop, end)
            except PositionLost as lost:
                _began(source, source.instead(lost), positions, stop)
                raise SourceUnavailable(
                    "the binlog is read from that place at the next attempt"
                ) from lost

    with KafkaPublisher(
        task.publish,
        make_converter(task.publish.converter),
        stop,
        task_id=task.task_id,
        takes_partial=task.source.takes_partial,
        rows_per_record=task.rows_per_record,
        transform=task.transform,
        on_queued=progress.queued,
    ) as publisher:
        deliver, progress.tables = deliveries(publisher, task.publish, positions), publisher.tables
        addresses.first(look)
        keep_trying(status, attempt, addresses.done, stop, pause_seconds)


def _give_large_blocks_back() -> None:
    """Makes the process give the memory of large rows back once they are sent. glibc would raise
    its limit for that to 32 MB by itself, and then keep such blocks in a heap full of holes. What
    is free at a heap's end it would, with that limit set, give back in pieces of 128 KB, to ask for
    them again with the next rows: that takes a tenth of the processor time of small ones. Other C
    libraries have no such setting."""
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, _LARGE_BYTES)
        ctypes.CDLL(None).mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES)


def _began(
    source: BinlogSource, start: BinlogPosition, positions: PositionStore, stop: Event
) -> bool:
    """Stores where reading begins, behind what is to be known of the tables there: with the
    position alone, one ALTER after a kill would be enough to make the rows before it unreadable.
    False when `stop` was set meanwhile; then the position is not stored."""
    for _ in source.prepare(start):
        if stop.is_set():
            return False
    positions.save(start.to_json())
    return True


def start_position(
    task: FetchTask, positions: PositionStore, source: BinlogSource
) -> tuple[BinlogPosition, bool]:
    """The stored position, else what the start rule names, and whether it is the stored one; as the
    source in hand has it. Writes nothing.

    Raises NoPosition when there is neither, PositionLost when the source no longer has it,
    PositionError, SourceError.
    """
    stored = positions.load()
    start = task.start
    if stored is not None:
        try:
            start = BinlogPosition.from_json(stored)
        except PositionError as error:
            raise PositionError(
                f"{positions.path}: {error}. Set it (cdcbus offset reset {task.task_id} --to "
                "PLACE) and start again"
            ) from error
    if stored is None and positions.trace:
        raise NoPosition(
            f"task {task.task_id} has run before, as {positions.trace} tells, and has no position "
            f"at {positions.path}; consumer.offset is "
            f"for the first start only: set one by cdcbus offset reset {task.task_id} --to "
            f"PLACE{_last_written(positions)}"
        )
    if start is None:
        raise NoPosition(
            f"task {task.task_id} has no position at {positions.path} and no consumer.offset; "
            "give consumer.offset=latest, earliest, or a binlog file such as mysql-bin.000064:4"
        )
    try:
        return source.locate(
            start, is_own=stored is not None and positions.is_own
        ), stored is not None
    except PositionLost as lost:
        return source.instead(lost), False


def _last_written(positions: PositionStore) -> str:
    try:
        return (
            "; the last one that it has stored was "
            f"{BinlogPosition.from_json(positions.written.position)}"
            if positions.written
            else ""
        )
    except PositionError:
        return ""


class Checkpoint:
    """The last transaction edge before which all is published, stored when due: first Kafka has
    the rows, then ZooKeeper is written. Only the last one is waited for. A context manager:
    leaving it ends the writing, so that the next attempt reads what is stored."""

    def __init__(
        self,
        task: FetchTask,
        positions: PositionStore,
        deliver: Deliveries,
        start: BinlogPosition,
        progress: Progress,
        report: Callable[[Progress], None],
    ) -> None:
        self.reached, self.acknowledged = deliver.reached, deliver.acknowledged
        self.confirmed = deliver.confirmed
        self.progress = progress
        self._interval_seconds = task.position_interval_seconds
        self._positions, self._deliver, self._report = positions, deliver, report
        self._stored = progress.position = start
        self._aside = SavedAside(positions.path)
        # may be stored, though ZooKeeper has not said so
        self._unsure: list[str] = []
        self._due = 0.0

    def __enter__(self) -> Checkpoint:
        return self

    def __exit__(self, *_: object) -> None:
        self._aside.rest()

    def store_if_due(self) -> bool:
        """Stores once per interval; whether it has."""
        now = time.monotonic()
        is_due = now >= self._due
        if is_due:
            self._due = now + self._interval_seconds
            edge = self._published()
            if self._aside.is_free():
                text, edge = self._next(edge)
                if edge is not None:
                    self._unsure.append(text)
                # whatever is committed from here on may find one of these stored, or none
                self._deliver.storing(self._unsure)
                if edge is not None:
                    self._aside.save(partial(self._save, edge, text))
            self._report(self.progress)
        return is_due

    def store(self) -> None:
        """Stores the edge once Kafka has what was sent before it, and returns when it is. Raises
        PositionConflict, also when nothing new is to be stored, BusRejected and BusUnavailable."""
        edge = self._published()
        self._aside.settle()
        text, edge = self._next(edge)
        if edge is not None:
            self._save(edge, text)
        self._report(self.progress)

    def _published(self) -> BinlogPosition | None:
        if self._positions.is_edited():
            raise PositionConflict(
                f"{self._positions.path} was set by somebody else; going on from there"
            )
        return self._deliver.published()

    def _next(self, edge: BinlogPosition | None) -> tuple[str, BinlogPosition | None]:
        """The position to be stored, as text and as such; nothing where it is stored already."""
        if edge is None or replace(edge, batch_id=self._stored.batch_id) == self._stored:
            return "", None
        edge = replace(edge, batch_id=self._stored.batch_id + 1)
        return edge.to_json(), edge

    def _save(self, edge: BinlogPosition, text: str) -> None:
        self._positions.save(text)
        self._unsure = []
        self._stored = self.progress.position = edge
        self.progress.stored += 1


class _OpenXa:
    """Says by the task's status when an XA transaction has been prepared for so long that a
    person has to finish it."""

    def __init__(self, status: TaskStatus) -> None:
        self._status = status
        self._reported: tuple[str, int] | None = None

    def look(self, oldest: tuple[str, int] | None) -> None:
        """`oldest`: the xid of the one that was prepared first, and when, in epoch seconds."""
        if self._reported is not None and oldest != self._reported:
            self._status.resumed(f"XA transaction {self._reported[0]} is finished")
            self._reported = None
        if (
            oldest is not None
            and oldest != self._reported
            and (seconds := time.time() - oldest[1]) > OPEN_XA_SECONDS
        ):
            self._reported = oldest
            self._status.waiting(
                f"for XA transaction {oldest[0]}, prepared {seconds:.0f} s ago: the stored "
                "position stays before it until it is finished. "
                "Finish it at the source (XA RECOVER lists it; XA COMMIT or XA ROLLBACK)"
            )


def _copy(
    task: FetchTask,
    source: BinlogSource,
    start: BinlogPosition,
    publisher: KafkaPublisher,
    checkpoint: Checkpoint,
    snapshot: Snapshots,
    status: TaskStatus,
    stop: Event,
    end: RunEnd | None,
) -> None:
    """Copies row changes until `stop` is set, storing edges as it goes and once more at the end,
    also when the source fails; or until the end of a bounded run and of the snapshots that it has
    to take, or until the snapshot is finished, of a task that is for it only."""
    open_xa, stages = _OpenXa(status), checkpoint.progress.stages
    is_over = end is not None and end.is_reached(start)
    left_out = LeftOut(task.left_out, task.heartbeat.table if task.heartbeat else None)
    seen_ddl = SeenDdl(task, checkpoint.progress.ddl)
    try:
        for batch in source.batches(start):
            with snapshot.turn():
                read_at = stages.now()
                left_out.take(batch)
                seen_ddl.take(batch)
                checkpoint.progress.open_xa = batch.open_xa
                open_xa.look(batch.open_xa)
                if batch.skipped:
                    checkpoint.progress.skipped += batch.skipped
                    checkpoint.progress.skipped_at = time.time()
                rows = publisher.send(batch.closed)
                checkpoint.progress.done += rows
                stages.sent(batch, read_at, rows, publisher.sent)
                snapshot.passed(batch)
                if batch.edge is not None:
                    checkpoint.reached(batch.edge, source.has_more)
                is_over = is_over or (end is not None and source.has_come_to(end, batch.edge))
                if is_over and snapshot.is_idle:
                    break  # nothing behind the edge is sent, so that it can be committed
                stages.acknowledged(checkpoint.acknowledged())
                checkpoint.progress.done += publisher.send(batch.opened)
                # rows may be large: these are not kept while the next ones are read
                batch.closed.clear()
                batch.opened.clear()
                if checkpoint.store_if_due():
                    snapshot.acknowledged(checkpoint.confirmed())
                if stop.is_set() or snapshot.is_finished:
                    break
    except SourceError:
        with snapshot.turn():
            checkpoint.store()
            snapshot.acknowledged(checkpoint.confirmed(), is_last=True)
        raise
    with snapshot.turn():
        checkpoint.store()
        snapshot.acknowledged(checkpoint.confirmed(), is_last=True)
    if snapshot.is_finished or (is_over and task.snapshot is not SnapshotMode.NEVER):
        snapshot.check()
