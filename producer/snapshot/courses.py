"""The snapshots of a task's tables: how far each is read, sent and acknowledged, and its state."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

from cdcbus.plugins.positions import BinlogPosition
from cdcbus.plugins.rowchange import TableId
from cdcbus.producer.binlog.coordinates import BinlogCoordinates
from cdcbus.producer.config import Elsewhere, FetchTask, SnapshotMode
from cdcbus.producer.snapshot.chunks import Bound
from cdcbus.producer.snapshot.columns import SelectedTable
from cdcbus.producer.snapshot.progress import (
    PENDING,
    UNFINISHED,
    Search,
    TableProgress,
    TableState,
    Wish,
    WishKind,
    start_command,
)
from cdcbus.producer.table_filter import TableFilter, is_named

LOG = logging.getLogger(__name__)
_TO_READ: Final = PENDING - {TableState.PAUSED}
_ENDED_EARLY: Final = {TableState.FAILED, TableState.STOPPED, TableState.DROPPED}
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
    "(%s)"
)
_MAY_BE_PART: Final = (
    "of %s the rows of a condition were read last, by another version of cdcbus, which did not "
    "note whether all had been read before, so the table is not read now. If they had not: %s. "
    'If they had, add "whole": true to its stored progress (docs/snapshot.md), so that no start '
    "says this again"
)
_OF_BOTH_SIDES: Final = (
    "the task now leaves out what came from the other side: a snapshot would send such rows back, "
    "older than on that side"
)
_HELD_BACK: Final = (
    "changes of this table, which has no key, were held back since its snapshot was started, and "
    "are not in Kafka: empty the table at the targets, then, when nobody writes to it, %s"
)
_OF_STREAM: Final = "created while the task followed: the stream has brought all its rows"
_CHANGED: Final = (
    "the table has no key, and was changed before its rows were sent: its changes are held back "
    "only without a condition. Empty it at the targets, then start its snapshot again when nobody "
    "writes to it"
)
_UNCONFIRMED: Final = (
    "the table has no key, and the task may have sent rows of it: when it had no snapshot, since "
    "it was created, before its filter left it out, or in an earlier snapshot, as of a part "
    "(--where) or one whose progress is lost. Targets would get these twice. Empty it at the "
    "targets, then, when nobody writes to it, %s"
)


@dataclass(frozen=True, slots=True)
class Sent:
    """Progress that counts once Kafka has the first `records` of the sent records. `edge`: of a
    table without a key, whose rows hold all changes before that boundary: a restart from an earlier
    one would send these, so it counts once that boundary is stored."""

    records: int
    progress: TableProgress
    edge: BinlogPosition | None = None

    def counts(self, records: int, stored: BinlogPosition) -> bool:
        if self.records > records:
            return False
        edge, here = self.edge, stored.reached
        if edge is None:
            return True
        is_there = BinlogCoordinates(here.file, here.pos) >= BinlogCoordinates(edge.file, edge.pos)
        return here.server_uuid == edge.server_uuid and is_there


@dataclass(slots=True)
class Course:
    """A table's snapshot. `progress` is what Kafka has; `after`: how far the table is read. A chunk
    of an earlier `turn` no longer counts. `sent`: the progress that is yet to count. `altered`: the
    number of alterations of the table when `selected` was read. `by`: the wish that began it."""

    table: TableId
    progress: TableProgress
    after: Bound | None = None
    is_read: bool = False
    turn: int = 0
    selected: SelectedTable | None = None
    altered: int = 0
    most_rows: int = 1
    tries: int = 0
    by: Wish | None = None
    sent: deque[Sent] = field(default_factory=deque)

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
        was = self.progress
        self.progress = TableProgress(
            state,
            where=was.where,
            has_held_back=was.has_held_back,
            is_unconfirmed=was.is_unconfirmed,
            was_whole=was.whole_before_part if was.where else False,
        )
        self.selected, self.tries = None, 0
        self.rewind(None)

    @property
    def latest(self) -> TableProgress:
        """The progress including what was sent and is not acknowledged."""
        if self.sent:
            return self.sent[-1].progress
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

    `unsaved`: progress that is yet to be stored. `to_find`: in order, searches and wishes whose
    tables the reading thread must find, and the wishes after them. `may_be_pending`: there may be
    tables whose rows are yet to be read."""

    def __init__(
        self,
        task: FetchTask,
        stored: Mapping[TableId, TableProgress],
        lost: Collection[TableId] = (),
        *,
        has_sent: bool = False,
        start_order: Callable[..., str] = start_command,
        reported: set[str] | None = None,
    ) -> None:
        """The task may have sent rows of tables that have no progress: of those that have `lost`
        it, and, if it `has_sent`, of any. `start_order`: see `SnapshotStore`;
        `reported`: warnings that are not given again, None: there are none."""
        reported = set() if reported is None else reported
        self._filter = TableFilter(task.tables)
        self._heartbeats = task.heartbeat_table
        self._order = partial(start_order, task.task_id)
        self._by_table: dict[TableId, Course] = {}
        self.unsaved: dict[TableId, TableProgress] = {}
        self.to_find: list[Wish | Search] = []
        self.may_be_pending = True
        self._is_for_snapshots = task.snapshot is not SnapshotMode.NEVER
        self._has_sent = has_sent or not self._is_for_snapshots
        self._lost = lost
        self.search(None)
        for table, found in stored.items():
            if self._filter.accepts(table):
                self._by_table[table] = Course(table, found, found.after)
                if found.reason.startswith(_FILTERED) and not self._is_for_snapshots:
                    self._warn_once(_NOT_READ_AGAIN, table, reported)
                if found.may_be_part and self._is_for_snapshots:
                    self._warn_once(_MAY_BE_PART, table, reported)
            elif found.state in (*UNFINISHED, TableState.PAUSED, TableState.DONE):
                LOG.warning("%s: %s", table, _FILTERED)
                if found.may_be_in_kafka:
                    # The state that says so is gone with this one.
                    found = replace(found, is_unconfirmed=True)
                self.unsaved[table] = self._with_state(table, found, TableState.DROPPED, _FILTERED)
        leaves_out = task.elsewhere != Elsewhere()
        for course in self:
            if course.state is TableState.SENDING:
                # Without a key nothing tells which rows Kafka has, so it cannot be continued.
                self.set(course, TableState.FAILED, _INTERRUPTED)
            elif course.is_wanted and leaves_out:
                self.set(course, TableState.STOPPED, _OF_BOTH_SIDES)

    def _warn_once(self, form: str, table: TableId, reported: set[str]) -> None:
        text = form % (table, self._order(table, is_confirmed=False))
        if text not in reported:
            reported.add(text)
            LOG.warning("%s", text)

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
            left |= PENDING
        return not any(course.state in left or course.sent for course in self)

    @property
    def are_sent(self) -> bool:
        """Whether all rows are sent, and some of them are yet to be acknowledged."""
        if self.to_find or not any(course.sent for course in self):
            return False
        return all(course.latest.state not in PENDING for course in self)

    @property
    def has_work(self) -> bool:
        """Whether the reading thread has something to do."""
        return bool(self.to_find) or any(course.is_wanted for course in self)

    def next_to_read(self) -> Course | None:
        """The table whose rows are read next: one whose changes wait for that, then one that was
        begun, before others."""
        left = [course for course in self if course.is_wanted and not course.is_read]
        return max(left, key=_urgency, default=None)

    def set(self, course: Course, state: TableState, reason: str = "") -> None:
        """Gives a table's snapshot another state."""
        self.update(course, self._with_state(course.table, course.progress, state, reason))

    def _with_state(
        self, table: TableId, was: TableProgress, state: TableState, reason: str
    ) -> TableProgress:
        """The progress in another state; the reason also says that changes were held back."""
        if was.has_held_back and state in _ENDED_EARLY:
            held_back = _HELD_BACK % self._order(table, is_confirmed=True)
            LOG.warning("%s: %s", table, held_back)
            reason = f"{reason}; {held_back}" if reason else held_back
        has_held_back = was.has_held_back and state in PENDING | {TableState.SENDING}
        return replace(
            was, state=state, reason=reason, updated_ms=now_ms(), has_held_back=has_held_back
        )

    def rest(self, course: Course, state: TableState, reason: str = "") -> None:
        """Ends reading in a state; rows that were read and not sent are dropped."""
        course.rewind(course.latest.after)
        self.set(course, state, reason)

    def update(self, course: Course, progress: TableProgress) -> None:
        """Takes what Kafka now has of a table; it is stored with the next save."""
        self.may_be_pending |= progress.state in PENDING
        course.progress = progress
        self.unsaved[course.table] = progress

    def acknowledged(self, records: int, stored: BinlogPosition) -> None:
        """Takes note that Kafka has the first `records` of the sent records, and of the position
        that is stored."""
        for course in self:
            while course.sent and course.sent[0].counts(records, stored):
                progress = course.sent.popleft().progress
                now = course.progress
                if not course.is_wanted:  # for example paused or failed meanwhile
                    progress = replace(
                        progress,
                        state=now.state,
                        reason=now.reason,
                        has_held_back=now.has_held_back,
                    )
                self.update(course, progress)
                if progress.state is TableState.DONE:
                    LOG.info("the snapshot of %s is done: %d rows", course.table, progress.rows)
                if progress.is_part:
                    self.search([course.table])
        self.may_be_pending = any(course.state in PENDING for course in self)

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
            elif wish.kind is WishKind.STOP and course.state in PENDING:
                self.rest(course, TableState.STOPPED)

    def begun(self, names: Iterable[TableId]) -> list[Course]:
        """The snapshots of tables of these names, in any case, that have begun and are neither done
        nor SENDING, also paused ones, those that ended as their table was gone, and those that are
        done as the stream has brought all rows: of others it brings none."""
        wanted = {str(table).lower() for table in names}
        found = []
        for course in self:
            if str(course.table).lower() in wanted and _is_begun(course.progress):
                found.append(course)
        return found

    def search(self, names: Iterable[TableId] | None) -> None:
        """Has the reading thread look for tables without a snapshot, or with one of a part, of
        these names, None: of any, if the task is for snapshots."""
        if self._is_for_snapshots:
            wanted = None if names is None else frozenset(str(table).lower() for table in names)
            self.to_find.append(Search(wanted))

    def pending(self, table: TableId) -> Course | None:
        """The snapshot that is yet to read the table's rows, if there is one: begun here if its
        table is yet to be found."""
        if is_named(table, self._heartbeats):
            return None
        course = self._by_table.get(table)
        if course is not None and course.state in PENDING:
            return course
        for asked in self.to_find:
            if self._begins(asked, table, course):
                return self._begin(table, asked)
        return None

    def held_back(self, course: Course) -> None:
        """Takes note that changes of a table are not sent."""
        self.update(course, replace(course.progress, is_keyless=True, has_held_back=True))

    def refuse_unconfirmed(self, course: Course) -> None:
        """Ends the snapshot of a table without a key that is `is_unconfirmed`, before any of its
        changes is held back."""
        reason = _UNCONFIRMED % self._order(course.table, is_confirmed=True)
        LOG.warning("the snapshot of %s ends: %s", course.table, reason)
        course.progress = replace(course.progress, is_keyless=True)
        self.rest(course, TableState.FAILED, reason)

    def changed(self, course: Course) -> None:
        """Ends the snapshot of a table without a key that has a condition: changes of rows for
        which it does not hold are not among what is read, so they are sent as they come."""
        LOG.warning("the snapshot of %s ends: %s", course.table, _CHANGED)
        self.rest(course, TableState.FAILED, _CHANGED)

    def created(self, table: TableId, *, is_keyless: bool, is_sure: bool) -> Course | None:
        """Takes note that the stream has brought a table's CREATE: it brings all rows from here on,
        and none is left to read. `is_sure`: it was not there before. Returns its snapshot if that
        has ended by it."""
        if not self._filter.accepts(table) or is_named(table, self._heartbeats):
            return None
        course = self._by_table.get(table)
        if course is None:
            # If it was there before, the search finds it: else it was created after the search.
            is_sought = any(self._begins(asked, table, None) for asked in self.to_find)
            if not self._is_for_snapshots or (is_sought and not is_sure):
                return None
            course = self._by_table[table] = Course(table, TableProgress())
        elif course.state is TableState.DROPPED:
            if course.progress.reason.startswith(_FILTERED) and not is_sure:
                return None
        elif not is_sure or not (course.state in PENDING or _lacks_rows(course.progress)):
            return None
        # What is yet to be acknowledged would bring the former condition back.
        course.sent.clear()
        course.progress = replace(course.progress, is_keyless=is_keyless, where="")
        self.rest(course, TableState.DONE, _OF_STREAM)
        return course

    def accepted(self, tables: list[TableId]) -> list[TableId]:
        """Those of a server's tables that the task reads, in order."""
        accepted = filter(self._filter.accepts, sorted(tables))
        return [table for table in accepted if not is_named(table, self._heartbeats)]

    def begin(self, asked: Wish | Search, accepted: list[TableId]) -> None:
        """Begins the snapshots that the first of `to_find` is for, among the accepted tables, or
        does what else it asks."""
        self.to_find.remove(asked)
        if isinstance(asked, Wish):
            if asked.kind is not WishKind.START:
                self._obey(asked)
                return
            _warn_of_unknown(asked, accepted)
        in_progress = []
        for table in accepted:
            known = self._by_table.get(table)
            if self._begins(asked, table, known):
                self._begin(table, asked)
            elif (
                isinstance(asked, Wish) and asked.is_for(table) and known and known.by is not asked
            ):
                in_progress.append(str(table))
        if in_progress:
            LOG.info(
                "a snapshot that is asked for is in progress, and continues: %s. To read such a "
                "table from its beginning, or by another condition, stop its snapshot first",
                ", ".join(in_progress),
            )

    def _begins(self, asked: Wish | Search, table: TableId, known: Course | None) -> bool:
        """Whether it begins the snapshot of a table, whose former one is `known`."""
        if not asked.is_for(table):
            return False
        if isinstance(asked, Search):
            return known is None or known.state is TableState.DROPPED or known.progress.is_part
        if known is not None and (known.is_wanted or known.by is asked):
            return False
        return asked.kind is WishKind.START

    def _begin(self, table: TableId, asked: Wish | Search) -> Course:
        known = self._by_table.get(table)
        was = TableProgress() if known is None else known.progress
        is_unconfirmed = self._has_sent or was.is_unconfirmed
        is_unconfirmed |= known is None and table in self._lost
        if isinstance(asked, Wish) or was.is_part or was.reason.startswith(_FILTERED):
            is_unconfirmed |= was.may_be_in_kafka
        where, by = "", None
        if isinstance(asked, Wish):
            where, by = asked.where, asked
            is_unconfirmed &= not asked.is_confirmed
        elif was.is_part:
            LOG.info("of %s only the rows of a condition were read: now all are", table)
        progress = TableProgress(
            where=where,
            has_held_back=was.has_held_back,
            is_unconfirmed=is_unconfirmed,
            was_whole=was.whole_before_part if where else False,
        )
        course = self._by_table[table] = Course(table, progress, by=by)
        self.set(course, TableState.WAITING)
        if was.has_held_back and where:
            # Of one that was paused: what it held back may not be among what is read now.
            self.set(course, TableState.FAILED, _CHANGED)
        return course


def _lacks_rows(progress: TableProgress) -> bool:
    """Whether it is done, and rows may be missing."""
    return progress.is_part or progress.may_be_part


def _is_begun(progress: TableProgress) -> bool:
    match progress.state:
        case TableState.DROPPED:
            return not progress.reason.startswith(_FILTERED)
        case TableState.DONE:
            return progress.reason == _OF_STREAM
        case state:
            return state in PENDING


def _urgency(course: Course) -> int:
    """Greater for a table that is read before others."""
    if course.progress.has_held_back:
        return 2
    return 1 if course.progress.chunks else 0


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
