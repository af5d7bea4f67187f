"""The snapshots of a task's tables: how far each is read, sent and acknowledged, and its state."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from cdcbus.plugins.rowchange import TableId
from cdcbus.producer.config import Elsewhere, FetchTask, SnapshotMode
from cdcbus.producer.snapshot.chunks import Bound
from cdcbus.producer.snapshot.columns import SelectedTable
from cdcbus.producer.snapshot.progress import (
    UNFINISHED,
    TableProgress,
    TableState,
    Wish,
    WishKind,
)
from cdcbus.producer.table_filter import TableFilter

LOG = logging.getLogger(__name__)
# What is SENDING ends only by Kafka's acknowledgement: its rows must not be sent again.
_TO_READ: Final = UNFINISHED - {TableState.SENDING}
_BEGUN: Final = _TO_READ | {TableState.PAUSED}
_INTERRUPTED: Final = (
    "the process ended while rows of this table, which has no key, were on their way: some of them "
    "may be in Kafka. Empty the table at the targets, then start its snapshot again"
)
_FILTERED: Final = (
    "the task's filter leaves it out, and so misses changes of rows that were read: once the "
    "filter lets it through again, it must be read from its beginning"
)
_NOT_READ_AGAIN: Final = (
    "the task's filter left %s out for a while, and changes of its rows are missing: read it again "
    "(cdcbus snapshot start %s --table %s)"
)
_OF_BOTH_SIDES: Final = (
    "the task now leaves out what came from the other side: a snapshot would send such rows back, "
    "older than on that side"
)


@dataclass(slots=True)
class Course:
    """A table's snapshot. `progress` is what Kafka has; `after`: how far the table is read. A chunk
    of an earlier `turn` no longer counts. `sent`: the progress that Kafka has yet to acknowledge,
    by the publisher's count of records. `altered`: the number of alterations of the table when
    `selected` was read."""

    table: TableId
    progress: TableProgress
    after: Bound | None = None
    is_read: bool = False
    turn: int = 0
    selected: SelectedTable | None = None
    altered: int = 0
    most_rows: int = 1
    tries: int = 0
    sent: deque[tuple[int, TableProgress]] = field(default_factory=deque)

    def rewind(self, after: Bound | None) -> None:
        """Makes the table be read again after `after`."""
        self.after, self.is_read, self.turn = after, False, self.turn + 1

    def begin_anew(self) -> None:
        """Forgets what is known, read, sent and acknowledged; a pause stays."""
        # What is yet to be acknowledged would bring the former bounds back.
        self.sent.clear()
        state = TableState.WAITING
        if self.state is TableState.PAUSED:
            state = self.state
        self.progress = TableProgress(state, where=self.progress.where)
        self.selected, self.tries = None, 0
        self.rewind(None)

    @property
    def latest(self) -> TableProgress:
        """The progress including what was sent and is not acknowledged."""
        if self.sent:
            return self.sent[-1][1]
        return self.progress

    @property
    def state(self) -> TableState:
        return self.progress.state

    @property
    def is_wanted(self) -> bool:
        return self.state in UNFINISHED


class Courses:
    """The snapshots of all tables of a task. The stream's thread and the reading thread share it:
    who changes it holds their lock.

    `unsaved`: progress that is yet to be stored. `to_find`: in order, wishes whose tables the
    reading thread must find, and those after them; None: tables without a snapshot."""

    def __init__(self, task: FetchTask, stored: Mapping[TableId, TableProgress]) -> None:
        self._filter = TableFilter(task.tables)
        self._heartbeats = task.heartbeat_table
        self._by_table: dict[TableId, Course] = {}
        self.unsaved: dict[TableId, TableProgress] = {}
        self.to_find: list[Wish | None] = []
        self._is_for_snapshots = task.snapshot is not SnapshotMode.NEVER
        if self._is_for_snapshots:
            self.to_find.append(None)
        for table, found in stored.items():
            if self._filter.accepts(table):
                self._by_table[table] = Course(table, found, found.after)
                if found.reason == _FILTERED and not self._is_for_snapshots:
                    LOG.warning(_NOT_READ_AGAIN, table, task.task_id, table)
            elif found.state in (*UNFINISHED, TableState.PAUSED, TableState.DONE):
                LOG.warning("%s: %s", table, _FILTERED)
                self.unsaved[table] = replace(
                    found, state=TableState.DROPPED, reason=_FILTERED, updated_ms=now_ms()
                )
        leaves_out = task.elsewhere != Elsewhere()
        for course in self:
            if course.state is TableState.SENDING:
                # Without a key nothing tells which rows Kafka has, so it cannot be continued.
                self.set(course, TableState.FAILED, _INTERRUPTED)
            elif course.is_wanted and leaves_out:
                self.set(course, TableState.STOPPED, _OF_BOTH_SIDES)

    def __iter__(self) -> Iterator[Course]:
        return iter(self._by_table.values())

    @property
    def is_idle(self) -> bool:
        """Whether nothing is left to do, and all progress is stored. A task that is for snapshots
        is not idle while one is paused."""
        if self.to_find or self.unsaved:
            return False
        left = UNFINISHED
        if self._is_for_snapshots:
            left |= {TableState.PAUSED}
        return not any(course.state in left or course.sent for course in self)

    @property
    def has_work(self) -> bool:
        """Whether the reading thread has something to do."""
        return bool(self.to_find) or any(course.is_wanted for course in self)

    def next_to_read(self) -> Course | None:
        """The table whose rows are read next: one that was begun, before others."""
        first = None
        for course in self:
            if course.is_wanted and not course.is_read:
                if course.progress.chunks:
                    return course
                first = first or course
        return first

    def set(self, course: Course, state: TableState, reason: str = "") -> None:
        """Gives a table's snapshot another state."""
        self.update(
            course, replace(course.progress, state=state, reason=reason, updated_ms=now_ms())
        )

    def rest(self, course: Course, state: TableState, reason: str = "") -> None:
        """Ends reading in a state; rows that were read and not sent are dropped."""
        course.rewind(course.latest.after)
        self.set(course, state, reason)

    def update(self, course: Course, progress: TableProgress) -> None:
        """Takes what Kafka now has of a table; it is stored with the next save."""
        course.progress = progress
        self.unsaved[course.table] = progress

    def acknowledged(self, records: int) -> None:
        """Takes note that Kafka has the first `records` of the sent records."""
        for course in self:
            while course.sent and course.sent[0][0] <= records:
                _, progress = course.sent.popleft()
                if not course.is_wanted:  # for example paused or failed meanwhile
                    now = course.progress
                    progress = replace(progress, state=now.state, reason=now.reason)
                self.update(course, progress)
                if progress.state is TableState.DONE:
                    LOG.info("the snapshot of %s is done: %d rows", course.table, progress.rows)

    def heed(self, wish: Wish) -> None:
        """Does what an operator wishes; what is to START is found first, and later wishes wait for
        that: they can be for the same tables."""
        if wish.kind is WishKind.START or self.to_find:
            self.to_find.append(wish)
        else:
            self._obey(wish)

    def _obey(self, wish: Wish) -> None:
        for course in self:
            if not wish.is_for(course.table):
                continue
            if wish.kind is WishKind.PAUSE and course.state in _TO_READ:
                self.rest(course, TableState.PAUSED)
            elif wish.kind is WishKind.RESUME and course.state is TableState.PAUSED:
                self.set(course, TableState.RUNNING)
            elif wish.kind is WishKind.STOP and course.state in _BEGUN:
                self.rest(course, TableState.STOPPED)

    def begun(self, names: Iterable[TableId]) -> list[Course]:
        """The snapshots of tables of these names, in any case, that have begun and are neither done
        nor SENDING, also paused ones."""
        wanted = {str(table).lower() for table in names}
        return [
            course
            for course in self
            if course.state in _BEGUN and str(course.table).lower() in wanted
        ]

    def accepted(self, tables: list[TableId]) -> list[TableId]:
        """Those of a server's tables that the task reads, in order."""
        accepted = filter(self._filter.accepts, sorted(tables))
        return [table for table in accepted if table != self._heartbeats]

    def begin(self, wish: Wish | None, accepted: list[TableId]) -> None:
        """Begins the snapshots that the first wish of `to_find` is for, among the accepted tables,
        or does what else it asks."""
        self.to_find.remove(wish)
        if wish is not None and wish.kind is not WishKind.START:
            self._obey(wish)
            return
        asked = wish or Wish(WishKind.START)
        _warn_of_unknown(asked, accepted)
        in_progress = []
        for table in filter(asked.is_for, accepted):
            known = self._by_table.get(table)
            if known is not None and wish is None and known.state is not TableState.DROPPED:
                continue
            if known is not None and known.is_wanted:
                in_progress.append(str(table))
                continue
            course = self._by_table[table] = Course(table, TableProgress(where=asked.where))
            self.set(course, TableState.WAITING)
        if in_progress:
            LOG.info(
                "a snapshot that is asked for is in progress, and continues: %s. To read such a "
                "table from its beginning, or by another condition, stop its snapshot first",
                ", ".join(in_progress),
            )


def _warn_of_unknown(asked: Wish, accepted: list[TableId]) -> None:
    names = {str(table).lower() for table in accepted}
    unknown = [name for name in asked.tables if name.lower() not in names]
    if unknown:
        LOG.warning(
            "no table of the task's filter is called %s: there is nothing to read",
            ", ".join(unknown),
        )


def now_ms() -> int:
    """The time in epoch milliseconds."""
    return int(time.time() * 1000)
