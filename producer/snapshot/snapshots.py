"""Runs the snapshots of a fetch task in parallel with its stream.

A thread reads chunks (`chunk_thread.py`). They wait until the stream has passed what they have seen
(`window.py`), and are sent to Kafka at a transaction boundary (`chunk_sender.py`): by the stream's
thread while it is busy, else by the reading thread, never by both at a time. The stored progress of
a table is what Kafka has (`courses.py`, `progress_saver.py`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from threading import Condition

from cdcbus.plugins.errors import SourceMisconfigured
from cdcbus.plugins.positions import BinlogPosition
from cdcbus.plugins.rowchange import TableId
from cdcbus.producer.binlog.coordinates import BinlogCoordinates
from cdcbus.producer.config import Elsewhere, FetchTask, SnapshotMode
from cdcbus.producer.ddl.named_tables import Named, fills_table
from cdcbus.producer.ddl.statements import changes
from cdcbus.producer.ddl.table_alteration import apply
from cdcbus.producer.ddl.table_changes import Created, lower_case
from cdcbus.producer.ddl.table_schema import TableSchema
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
    TableProgress,
    TableState,
    Wish,
    WishKind,
)
from cdcbus.producer.snapshot.progress_saver import ProgressSaver
from cdcbus.producer.source.left_out import Removal
from cdcbus.producer.source.row_events import Batch, Part, Rows

LOG = logging.getLogger(__name__)
_OTHER_ROWS = (
    "%s has no key, and a statement gave it rows that are in no event of the binlog: empty the "
    "table at the targets, then, when nobody writes to it, %s"
)


def is_snapshot_due(task: FetchTask, store: SnapshotStore) -> bool:
    """Whether tables may have rows to read. Raises PositionError, PositionUnavailable."""
    is_begun = any(progress.state in UNFINISHED for progress in store.load().values())
    return is_begun or task.snapshot is not SnapshotMode.NEVER


def has_sent_live(task: FetchTask, store: SnapshotStore, *, has_run: bool) -> bool:
    """Whether the task may have sent rows of any table that has no progress, live or in a snapshot:
    they would come twice, where nothing tells them apart. Notes what a later start must know of
    this one. `has_run`: the task has stored a position, before this attempt. Raises PositionError,
    PositionUnavailable."""
    is_live = store.is_live()
    if task.snapshot is SnapshotMode.NEVER:
        if not is_live:
            store.note_live(True)
        return True
    if is_live is None and not has_run:
        store.note_live(False)
        return False
    if is_live is None:  # as older versions noted nothing, or ZooKeeper has lost it
        is_live = not store.load()
        # Before there is progress: the next attempt would go by that.
        store.note_live(is_live)
    return is_live


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
        *,
        has_sent: bool,
        reported: set[str],
    ) -> None:
        """`task` has the address that is read. `on_sent` is called with the number of rows sent.
        `has_sent`: see `has_sent_live`; `reported`: warnings that the log has of earlier attempts,
        which are not given again. Raises PositionError, PositionUnavailable."""
        self._task = task
        self._changed = Condition()
        stored, lost = store.load(), store.lost()
        if server.folds_names:
            stored, lost = _in_lower_case(stored), set(map(lower_case, lost))
        self._order = partial(store.start_order, task.task_id, is_confirmed=True)
        self._courses = Courses(
            task,
            stored,
            lost,
            has_sent=has_sent,
            start_order=store.start_order,
            reported=reported,
        )
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
        self._held_back = Removal()

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
    def is_sent(self) -> bool:
        """Whether a snapshot-only task only waits for Kafka to have its last rows."""
        return self._task.snapshot is SnapshotMode.ONLY and self._courses.are_sent

    @property
    def is_idle(self) -> bool:
        """As that of the courses."""
        return self._courses.is_idle

    def hold_back(self, batch: Batch) -> None:
        """Takes note of the DDL of a batch that is yet to be sent. Removes rows that tables without
        a key get before they were read: these are among what is read, and nothing could tell that
        they came twice. Raises PositionError, PositionUnavailable."""
        if not batch.ddl and not self._may_hold_back:
            return
        kept: list[Part] = []
        left = batch.closed
        for statement in batch.ddl:
            count = sum(_is_before(part, statement.end) for part in left)
            kept += self._sendable(left[:count])
            left = left[count:]
            self._alter(statement)
        batch.closed[:] = kept + self._sendable(left)

    def passed(self, batch: Batch) -> None:
        """Takes note of a batch of the stream, whose closed parts were sent. Removes open ones as
        `hold_back` does."""
        self._take_up_saved()
        self._sender.passed(batch)
        # Only now: what was due has been sent, and rows that follow are not in it.
        if self._may_hold_back:
            batch.opened[:] = self._sendable(batch.opened)
        if batch.edge is not None:
            self._changed.notify_all()

    @property
    def _may_hold_back(self) -> bool:
        courses = self._courses
        return bool(courses.to_find) or courses.may_be_pending or self._held_back.is_first

    def _sendable(self, parts: list[Part]) -> list[Part]:
        return self._held_back.kept(parts, self._is_held_back)

    def _is_held_back(self, rows: Rows) -> bool:
        table = rows.table.table
        if table.key:
            return False
        course = self._courses.pending(table.id)
        if course is None:
            return False
        if course.progress.is_unconfirmed:
            self._courses.refuse_unconfirmed(course)
        elif course.progress.where:
            self._courses.changed(course)
        else:
            self._sender.hold_back(rows)
            if course.progress.has_held_back:
                return True
            self._courses.held_back(course)
            LOG.info("%s has no key: its changes are sent once its rows were read", table.id)
        # Before the position: a restart beyond these rows would not know of them.
        self._saver.save_now(course, course.progress)
        return course.progress.has_held_back

    def _alter(self, statement: Statement) -> None:
        found = self._sender.alter(statement)
        others: list[TableId] = []
        for one in found:
            if one.has_other_rows:
                others += filter(None, (one.table, one.other))
            elif one.kind == "CREATE":
                self._create(one, statement)
        if not others:
            return
        for course in self._courses.begun(others):
            if course.state is TableState.DONE and course.progress.is_keyless:
                LOG.warning(_OTHER_ROWS, course.table, self._order(course.table))
                continue
            # What was read, and up to which key, was that of the table that had the name before.
            LOG.info("%s is read anew, as its name stands for other rows now", course.table)
            course.begin_anew()
            # Before the position: a restart beyond the statement would continue the former table.
            self._courses.update(course, course.progress)
            self._saver.save_now(course, course.progress)
        # A table may have no snapshot under its new name.
        self._courses.search(others)

    def _create(self, one: Named, statement: Statement) -> None:
        if fills_table(statement.sql, statement.session):
            return  # logged as text, without its rows
        course = self._courses.created(
            one.table, is_keyless=_is_keyless(statement), is_sure=not one.if_missing
        )
        if course is not None:
            # Before the position: a restart beyond the statement would read all its rows again.
            self._saver.save_now(course, course.progress)

    def acknowledged(self, records: int, stored: BinlogPosition, *, is_last: bool = False) -> None:
        """Takes note that Kafka has the first `records` of the sent records, and of the `stored`
        position: stores the progress, and looks for wishes of operators, without waiting unless it
        `is_last`. Progress that cannot be stored now is stored later. Raises PositionError."""
        self._courses.acknowledged(records, stored)
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


def _in_lower_case(stored: Mapping[TableId, TableProgress]) -> dict[TableId, TableProgress]:
    """The progress by the names that a server has which folds them: older versions noted a created
    table as its CREATE spelled it, which hides no other progress of the table."""
    found = {lower_case(table): progress for table, progress in stored.items()}
    return found | {table: stored[table] for table in found.keys() & stored.keys()}


def _is_before(part: Part, place: BinlogCoordinates) -> bool:
    return BinlogCoordinates(part.origin.file, part.origin.pos) < place


def _is_keyless(created: Statement) -> bool:
    """Whether a CREATE TABLE says that nothing tells the table's rows apart; not known of a
    copy."""
    for change in changes(created.sql, created.schema, created.session):
        if isinstance(change, Created) and change.actions is not None:
            made = apply(TableSchema((), (), ""), change.actions)
            return made is not None and not made.key
    return False
