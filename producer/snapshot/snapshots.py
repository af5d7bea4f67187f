"""Runs the snapshots of a fetch task in parallel with its stream.

A thread reads chunks (`chunk_thread.py`). They wait until the stream has passed what they have seen
(`window.py`), and are sent to Kafka at a transaction boundary (`chunk_sender.py`): by the stream's
thread while it is busy, else by the reading thread, never by both at a time. The stored progress of
a table is what Kafka has (`courses.py`, `progress_saver.py`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Condition

from cdcbus.plugins.errors import SourceMisconfigured
from cdcbus.plugins.positions import BinlogPosition
from cdcbus.producer.config import Elsewhere, FetchTask, SnapshotMode
from cdcbus.producer.publish.delivery import Deliveries
from cdcbus.producer.publish.publisher import KafkaPublisher
from cdcbus.producer.schema.ddl_scanner import Statement
from cdcbus.producer.server.connection import Server
from cdcbus.producer.snapshot.chunk_sender import ChunkSender
from cdcbus.producer.snapshot.chunk_thread import ChunkThread
from cdcbus.producer.snapshot.courses import Courses
from cdcbus.producer.snapshot.progress import (
    UNFINISHED,
    SnapshotStore,
    TableState,
    Wish,
    WishKind,
)
from cdcbus.producer.snapshot.progress_saver import ProgressSaver
from cdcbus.producer.source.row_events import Batch

LOG = logging.getLogger(__name__)


def is_snapshot_due(task: FetchTask, store: SnapshotStore) -> bool:
    """Whether tables may have rows to read. Raises PositionError, PositionUnavailable."""
    is_begun = any(progress.state in UNFINISHED for progress in store.load().values())
    return is_begun or task.snapshot is not SnapshotMode.NEVER


class Snapshots:
    """The snapshots during one attempt to read one server's binlog from `start` on. A context
    manager: leaving it ends the thread. All methods are for the stream's thread."""

    def __init__(
        self,
        task: FetchTask,
        server: Server,
        start: BinlogPosition,
        publisher: KafkaPublisher,
        deliver: Deliveries,
        store: SnapshotStore,
        has_more: Callable[[], bool],
        epoch: str,
        on_sent: Callable[[int], None],
    ) -> None:
        """`task` has the address that is read. `on_sent` is called with the number of rows sent.
        Raises PositionError, PositionUnavailable."""
        self._task = task
        self._changed = Condition()
        self._courses = Courses(task, store.load())
        self._saver = ProgressSaver(store, self._courses)
        self._sender = ChunkSender(
            start,
            self._changed,
            self._saver,
            server,
            publisher,
            deliver,
            has_more,
            epoch,
            on_sent,
        )
        self._thread = ChunkThread(task, server, self._changed, self._courses, self._sender)

    def __enter__(self) -> Snapshots:
        return self

    def __exit__(self, *_: object) -> None:
        with self._changed:
            self._sender.is_over = True
            self._changed.notify_all()
            self._thread.interrupt()
        self._thread.join()
        self._saver.rest()

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Gives the stream's thread the turn: the reading thread sends nothing to Kafka meanwhile,
        nor after a turn that has failed. Raises the failure of the reading thread."""
        with self._changed:
            if self._thread.failure is not None:
                raise self._thread.failure
            try:
                yield
            except BaseException:
                # A part of a transaction may have been sent: a chunk would be committed with it, as
                # if the stream were at the edge before it.
                self._sender.is_over = True
                raise

    def check(self) -> None:
        """Raises SourceMisconfigured if the snapshot of some table has failed."""
        reasons = []
        for course in self._courses:
            if course.state is TableState.FAILED:
                reasons.append(f"{course.table}: {course.progress.reason}")
        if reasons:
            raise SourceMisconfigured("snapshots have failed: " + "; ".join(reasons))

    @property
    def is_finished(self) -> bool:
        """Whether a snapshot-only task has nothing left to do."""
        return self._task.snapshot is SnapshotMode.ONLY and self.is_idle

    @property
    def is_idle(self) -> bool:
        """As that of the courses."""
        return self._courses.is_idle

    def passed(self, batch: Batch) -> None:
        """Takes note of a batch of the stream, whose closed parts were sent."""
        self._take_up_saved()
        for statement in batch.ddl:
            self._alter(statement)
        self._sender.passed(batch)
        if batch.edge is not None:
            self._changed.notify_all()

    def _alter(self, statement: Statement) -> None:
        renamed = self._sender.alter(statement)
        for course in self._courses.begun(renamed):
            # What was read, and up to which key, was that of the table that had the name before.
            LOG.info("%s is read anew, as another table has its name now", course.table)
            course.begin_anew()
            # Before the position: a restart beyond the statement would continue the former table.
            self._saver.save_now(course, course.progress)
        if renamed and self._task.snapshot is not SnapshotMode.NEVER:
            # The table may have no snapshot under its new name.
            self._courses.to_find.append(None)

    def acknowledged(self, records: int, *, is_last: bool = False) -> None:
        """Takes note that Kafka has the first `records` of the sent records: stores the progress,
        and looks for wishes of operators, without waiting unless it `is_last`. Progress that cannot
        be stored now is stored later. Raises PositionError."""
        self._courses.acknowledged(records)
        if is_last:
            self._saver.settle()
        self._take_up_saved()
        if self._saver.save():
            if is_last:
                self._saver.settle()
            self._take_up_saved()
        if self._courses.has_work:
            self._thread.start()

    def _take_up_saved(self) -> None:
        for wish in self._saver.take_up():
            self._heed(wish)

    def _heed(self, wish: Wish) -> None:
        tables = ", ".join(wish.tables) or "all tables"
        LOG.info("an operator wishes: snapshot %s of %s", wish.kind, tables)
        begins = wish.kind in (WishKind.START, WishKind.RESUME)
        if begins and self._task.elsewhere != Elsewhere():
            LOG.warning(
                "task %s leaves out what came from the other side: a snapshot would send such rows "
                "back, older than on that side, and is not begun",
                self._task.task_id,
            )
            return
        self._courses.heed(wish)
        self._changed.notify_all()
