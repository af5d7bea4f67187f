"""Runs the snapshots of a fetch task in parallel with its stream: schedules reading and sending.

A thread reads chunks. They wait until the stream has passed what they have seen (`window.py`), and
are sent to Kafka at a transaction boundary: by the stream's thread while it is busy, else by the
reading thread, never by both at a time. The stored progress of a table is what Kafka has.
"""

from __future__ import annotations

import logging
import re
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from threading import Condition, Thread

import pymysql

from cdcbus.plugins.errors import (
    PositionUnavailable,
    SourceMisconfigured,
    SourceUnavailable,
    UnreadableEvent,
)
from cdcbus.plugins.positions import BinlogPosition
from cdcbus.plugins.rowchange import Origin, TableId
from cdcbus.plugins.saved_aside import SavedAside
from cdcbus.producer.binlog.coordinates import BinlogCoordinates
from cdcbus.producer.config import Elsewhere, FetchTask, SnapshotMode
from cdcbus.producer.ddl.named_tables import named
from cdcbus.producer.publish.delivery import Deliveries
from cdcbus.producer.publish.publisher import KafkaPublisher
from cdcbus.producer.schema.ddl_scanner import Statement
from cdcbus.producer.server.connection import Server
from cdcbus.producer.snapshot.chunks import Bound, checked, rows_for
from cdcbus.producer.snapshot.columns import SelectedTable
from cdcbus.producer.snapshot.progress import (
    UNFINISHED,
    SnapshotStore,
    TableProgress,
    TableState,
    Wish,
    WishKind,
)
from cdcbus.producer.snapshot.reader import CannotTell, ChunkReader, Read
from cdcbus.producer.snapshot.rows import key_texts, row_events
from cdcbus.producer.snapshot.window import Window, reached
from cdcbus.producer.source.row_events import Batch, Part, Rows
from cdcbus.producer.table_filter import TableFilter

LOG = logging.getLogger(__name__)
CHUNK_BYTES = 8_000_000
FIRST_ROWS = 1_000
CHUNKS_AHEAD = 3
"""The most chunks that wait for the stream."""
TRIES = 5  # attempts to read a table without a key while nobody changes it
LOOK_SECONDS = 0.5
AGAIN_SECONDS = (0.5, 1.0, 2.0, 5.0, 10.0)
_OF_SCHEMAS = re.compile(rb"\s*(?:DROP|ALTER)\s+(?:DATABASE|SCHEMA)\b", re.IGNORECASE)
_AWAY = (pymysql.OperationalError, pymysql.InterfaceError)
_OF_CLIENT = range(2000, 3000)  # the driver's own codes: no connection, or a lost one
_PASSING = {
    *(1205, 1213, 1020, 1180, 1412, 1615),  # locks, a changed row, a table altered meanwhile
    *(1927, 4031, 1152, 1158, 1159, 1160, 1161),  # killed, idle, network
    *(1040, 1041, 1037, 1038, 1203, 1226),  # connections, memory, limits of a user
    *(1021, 1114, 1026, 1030, 1016, 1023),  # disk, files, the storage engine
    *(1053, 1079, 1047, 1317, 1969, 3024),  # shutdown, cluster not ready, interrupted, time limits
    *(1045, 1129, 1130, 1251, 1698, 1862),  # logins
}
_NO_COLUMN = 1054  # a message that names no cells
_GONE, _REFUSED = {1146, 1049}, {1142, 1143, 1044, 1370}


@dataclass(slots=True)
class _Course:
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

    @property
    def latest(self) -> TableProgress:
        """The progress including what was sent and is not acknowledged."""
        return self.sent[-1][1] if self.sent else self.progress

    @property
    def is_wanted(self) -> bool:
        return self.progress.state in UNFINISHED


@dataclass(frozen=True, slots=True)
class _Chunk:
    course: _Course
    turn: int
    altered: int
    selected: SelectedTable
    window: Window
    after: Bound | None
    read: Read
    is_last: bool


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
        self._task, self._server, self._epoch = task, server, epoch
        self._publisher, self._deliver, self._store = publisher, deliver, store
        self._has_more, self._on_sent = has_more, on_sent
        self._filter = TableFilter(task.tables)
        self._changed = Condition()
        self._edge, self._here = start, reached(start)
        # no transaction begins between the edge and this place, which can be in a later file
        self._passed = BinlogCoordinates(self._here.file, self._here.pos)
        self._is_at_edge = True
        self._is_over = False
        self._failure: BaseException | None = None
        self._windows: list[Window] = []
        self._chunks: deque[_Chunk] = deque()
        self._altered: dict[str, int] = {}  # table in lower case -> number of alterations
        self._all_altered = 0
        self._reader: ChunkReader | None = None
        self._courses = {
            table: _Course(table, found, found.after)
            for table, found in store.load().items()
            if self._filter.accepts(table)
        }
        self._unsaved: dict[TableId, TableProgress] = {}
        self._aside = SavedAside("the progress of snapshots")
        # set by the thread that saves, until the stream's thread takes it up
        self._saved: dict[TableId, TableProgress] = {}
        self._found: list[Wish] = []
        # wishes whose tables must be found; None: tables without a snapshot
        self._new: list[Wish | None] = []
        if task.snapshot is not SnapshotMode.NEVER:
            self._new.append(None)
        for course in self._courses.values():
            if course.progress.state is TableState.SENDING:
                self._set(course, TableState.FAILED, _INTERRUPTED)
            elif course.is_wanted and task.elsewhere != Elsewhere():
                self._set(course, TableState.STOPPED, _OF_BOTH_SIDES)
        self._thread: Thread | None = None

    def __enter__(self) -> Snapshots:
        return self

    def __exit__(self, *_: object) -> None:
        with self._changed:
            self._is_over = True
            self._changed.notify_all()
            if self._reader is not None:
                self._reader.interrupt()
        if self._thread is not None:
            self._thread.join()
        self._aside.rest()

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Gives the stream's thread the turn: the reading thread sends nothing to Kafka meanwhile.
        Raises the failure of the reading thread."""
        with self._changed:
            if self._failure is not None:
                raise self._failure
            yield

    def check(self) -> None:
        """Raises SourceMisconfigured if the snapshot of some table has failed."""
        failed = {
            str(course.table): course.progress.reason
            for course in self._courses.values()
            if course.progress.state is TableState.FAILED
        }
        if failed:
            raise SourceMisconfigured(
                "snapshots have failed: "
                + "; ".join(f"{table}: {reason}" for table, reason in failed.items())
            )

    @property
    def is_finished(self) -> bool:
        """Whether a snapshot-only task has nothing left to do."""
        return self._task.snapshot is SnapshotMode.ONLY and self.is_idle

    @property
    def is_idle(self) -> bool:
        """Whether nothing is left to do, and all progress is stored."""
        return (
            not self._new
            and not self._unsaved
            and not any(course.is_wanted or course.sent for course in self._courses.values())
        )

    def passed(self, batch: Batch) -> None:
        """Takes note of a batch of the stream, whose closed parts were sent."""
        self._take_up_saved()
        for statement in batch.ddl:
            self._alter(statement)
        self._see(batch.closed)
        if batch.edge is not None:
            self._edge, self._here, self._is_at_edge = batch.edge, reached(batch.edge), True
            self._passed = BinlogCoordinates(self._here.file, self._here.pos)
        if batch.between is not None and self._is_at_edge and not batch.opened:
            self._passed = max(self._passed, batch.between)
        if self._is_at_edge:
            self._send_due()
        self._see(batch.opened)
        self._is_at_edge &= not batch.opened
        if batch.edge is not None:
            self._changed.notify_all()

    def acknowledged(self, records: int, *, is_last: bool = False) -> None:
        """Takes note that Kafka has the first `records` of the sent records: stores the progress,
        and looks for wishes of operators, without waiting unless it `is_last`. Progress that cannot
        be stored now is stored later. Raises PositionError."""
        for course in self._courses.values():
            while course.sent and course.sent[0][0] <= records:
                _, progress = course.sent.popleft()
                state = progress.state
                if not course.is_wanted:  # for example paused meanwhile
                    state = course.progress.state
                course.progress = replace(progress, state=state)
                self._unsaved[course.table] = course.progress
                if state is TableState.DONE:
                    LOG.info("the snapshot of %s is done: %d rows", course.table, progress.rows)
        if is_last:
            self._settle()
        self._take_up_saved()
        if self._aside.is_free() and (self._unsaved or self._store.has_wishes()):
            # wishes are heeded once they are done, or part of the progress saved before
            self._aside.save(partial(self._save, dict(self._unsaved), is_heeded=not self._new))
            if is_last:
                self._settle()
            self._take_up_saved()
        has_work = self._new or any(each.is_wanted for each in self._courses.values())
        if has_work and self._thread is None:
            self._thread = Thread(target=self._run, name="snapshot", daemon=True)
            self._thread.start()

    def _save(self, tables: dict[TableId, TableProgress], *, is_heeded: bool) -> None:
        """Saves on a thread of its own, in parallel with the stream."""
        if tables:
            self._store.save(tables)
            self._saved = tables
        if is_heeded:
            self._store.heeded()
        self._found = self._store.wishes()

    def _take_up_saved(self) -> None:
        if (self._saved or self._found) and self._aside.is_free():
            saved, self._saved = self._saved, {}
            for table, progress in saved.items():
                if self._unsaved.get(table) is progress:
                    del self._unsaved[table]
            found, self._found = self._found, []
            for wish in found:
                self._heed(wish)

    def _settle(self) -> None:
        """Waits until nothing is being saved. A save that failed is left to the next attempt."""
        try:
            self._aside.settle()
        except PositionUnavailable as error:
            LOG.warning("the progress of snapshots is stored later: %s", error)

    def _set(self, course: _Course, state: TableState, reason: str = "") -> None:
        course.progress = replace(course.progress, state=state, reason=reason, updated_ms=_now_ms())
        self._unsaved[course.table] = course.progress

    def _heed(self, wish: Wish) -> None:
        LOG.info("an operator wishes: snapshot %s of %s", wish.kind, _named(wish))
        begins = wish.kind in (WishKind.START, WishKind.RESUME)
        if begins and self._task.elsewhere != Elsewhere():
            LOG.warning(
                "task %s leaves out what came from the other side: a snapshot would send such rows "
                "back, older than on that side, and is not begun",
                self._task.task_id,
            )
            return
        if wish.kind is WishKind.START:
            self._new.append(wish)
            self._changed.notify_all()
            return
        for course in self._courses.values():
            if not wish.is_for(course.table):
                continue
            state = course.progress.state
            if wish.kind is WishKind.PAUSE and state in UNFINISHED:
                self._rest(course, TableState.PAUSED)
            elif wish.kind is WishKind.RESUME and state is TableState.PAUSED:
                self._set(course, TableState.RUNNING)
            elif wish.kind is WishKind.STOP and state in (*UNFINISHED, TableState.PAUSED):
                self._rest(course, TableState.STOPPED)
        self._changed.notify_all()

    def _rest(self, course: _Course, state: TableState, reason: str = "") -> None:
        """Ends reading in a state; rows that were read and not sent are dropped."""
        course.rewind(course.latest.after)
        self._set(course, state, reason)

    # The stream's side of a window.

    def _alter(self, statement: Statement) -> None:
        found = named(statement.sql, statement.schema, statement.session)
        if found is None or _OF_SCHEMAS.match(statement.sql):
            self._all_altered += 1
            return
        for one in (each for each in found if not each.is_temporary):
            if one.was is not None and self._task.snapshot is not SnapshotMode.NEVER:
                self._new.append(None)  # the table may have no snapshot under its new name
            for table in filter(None, (one.table, one.was)):
                name = str(table).lower()
                self._altered[name] = self._altered.get(name, 0) + 1

    def _alterations(self, table: TableId) -> int:
        return self._all_altered + self._altered.get(str(table).lower(), 0)

    def _see(self, parts: Iterable[Part]) -> None:
        for part in parts if self._windows else ():
            if isinstance(part, Rows):
                table = part.table.table.id
                windows = [each for each in self._windows if each.table == table]
                windows = [each for each in windows if not each.is_void]
                if windows:
                    changes = part.changes()
                    for window in windows:
                        window.see(changes)

    def _open(self, course: _Course, key: tuple[str, ...]) -> Window | None:
        """Opens a window, waits for the next boundary, where it begins, and returns it; None at the
        end."""
        with self._changed:
            window = Window(course.table, key)
            self._windows.append(window)
            while not self._is_over:
                if self._is_at_edge:
                    window.begun = self._here
                    return window
                self._changed.wait(LOOK_SECONDS)
            return None

    def _close(self, window: Window) -> None:
        self._windows = [each for each in self._windows if each is not window]

    # Sending: only at a boundary, by the thread that has the turn.

    def _send_due(self) -> None:
        is_sent = False
        while self._chunks and self._chunks[0].read.high <= self._passed:
            chunk = self._chunks.popleft()
            self._close(chunk.window)
            is_sent |= self._send(chunk)
        if is_sent:
            self._deliver.reached(self._edge, self._has_more)
        self._changed.notify_all()

    def _send(self, chunk: _Chunk) -> bool:
        """Sends a chunk. Returns whether it did; else the chunk no longer counts, or is read
        again."""
        course, read, table = chunk.course, chunk.read, chunk.selected.table
        if chunk.turn != course.turn or not course.is_wanted:
            return False
        if chunk.altered != self._alterations(course.table):
            LOG.info("%s was altered while its rows were read: they are read again", course.table)
            course.selected = None
            course.rewind(chunk.after)
            return False
        texts = partial(key_texts, table=table, columns=chunk.selected.key_columns)
        rows = chunk.window.left(read.rows, texts)
        if rows is None:
            course.rewind(chunk.after)
            return False
        if chunk.selected.key is None:
            # stored before its rows are sent, and after every earlier save
            self._settle()
            self._store.save({course.table: replace(course.progress, state=TableState.SENDING)})
            self._unsaved.pop(course.table, None)
        here = self._here
        origin = Origin(
            here.file,
            here.pos,
            "",
            self._server.server_id,
            max(read.high_us, here.timestamp_ms * 1000),
            self._server.server_uuid,
            self._epoch,
            is_snapshot=True,
        )
        count = self._publisher.send(row_events(table, rows, origin))
        self._on_sent(count)
        before = course.latest
        course.sent.append(
            (
                self._publisher.sent,
                replace(
                    before,
                    state=TableState.DONE if chunk.is_last else TableState.RUNNING,
                    rows=before.rows + read.count,
                    bytes=before.bytes + read.bytes,
                    chunks=before.chunks + 1,
                    after=read.last or before.after,
                    updated_ms=_now_ms(),
                ),
            )
        )
        course.tries = 0
        return True

    # The thread that reads.

    def _run(self) -> None:
        failures = 0
        while not self._is_over:
            reader = None
            try:
                reader = self._reader = ChunkReader(self._task.source, self._server)
                while self._is_on():
                    self._step(reader)
                    failures = 0
            except (SourceUnavailable, OSError, EOFError, *_AWAY) as error:
                pause = AGAIN_SECONDS[min(failures, len(AGAIN_SECONDS) - 1)]
                failures += 1
                LOG.warning("the snapshot is retried in %g s: %s", pause, error)
                with self._changed:
                    self._forget_read()
                    self._changed.wait_for(lambda: self._is_over, pause)
            except BaseException as error:
                with self._changed:
                    self._failure = error
                return
            finally:
                self._reader = None
                if reader is not None:
                    reader.close()

    def _forget_read(self) -> None:
        waiting = {id(chunk.window) for chunk in self._chunks}
        self._windows = [each for each in self._windows if id(each) in waiting]

    def _is_on(self) -> bool:
        with self._changed:
            return not self._is_over

    def _step(self, reader: ChunkReader) -> None:
        """Takes up operators' wishes, reads a chunk, or waits for something to do."""
        with self._changed:
            wishes = list(self._new)
        if wishes:
            self._take_up(reader.tables(), wishes)
        with self._changed:
            course = next(
                (each for each in self._ordered() if each.is_wanted and not each.is_read), None
            )
            if course is None or len(self._chunks) >= CHUNKS_AHEAD:
                self._changed.wait(LOOK_SECONDS)
                return
        try:
            if course.selected is None:
                self._describe(reader, course)
            else:
                self._read(reader, course, course.selected)
        except (CannotTell, UnreadableEvent) as error:
            self._fail(course, TableState.FAILED, str(error))
        except pymysql.Error as error:
            code = error.args[0] if error.args else 0
            if code in _GONE:
                self._fail(course, TableState.DROPPED, "the table no longer exists")
            elif code in _REFUSED:
                self._fail(course, TableState.FAILED, f"the user may not read it ({code})")
            elif _passes(error, code):
                raise
            elif not self._is_outdated(reader, course):
                self._fail(course, TableState.FAILED, _refusal(error, course.progress.where))

    def _ordered(self) -> list[_Course]:
        running = [each for each in self._courses.values() if each.progress.chunks]
        return running + [each for each in self._courses.values() if not each.progress.chunks]

    def _take_up(self, tables: list[TableId], wishes: list[Wish | None]) -> None:
        heartbeats = self._task.heartbeat.table if self._task.heartbeat else None
        accepted = [
            table for table in sorted(tables) if self._filter.accepts(table) and table != heartbeats
        ]
        with self._changed:
            for wish in wishes:
                self._new.remove(wish)
                asked = Wish(WishKind.START) if wish is None else wish
                names = {str(table).lower() for table in accepted}
                if unknown := [each for each in asked.tables if each.lower() not in names]:
                    LOG.warning(
                        "no table of the task's filter is called %s: there is nothing to read",
                        ", ".join(unknown),
                    )
                for table in filter(asked.is_for, accepted):
                    known = self._courses.get(table)
                    if known is not None and (wish is None or known.is_wanted):
                        continue
                    course = self._courses[table] = _Course(table, TableProgress(where=asked.where))
                    self._set(course, TableState.WAITING)

    def _is_outdated(self, reader: ChunkReader, course: _Course) -> bool:
        """Whether the table was altered since it was described; then it is described again."""
        if (was := course.selected) is None:
            return False
        now = reader.describe(course.table)
        if now is not None and (now.expressions, now.key) == (was.expressions, was.key):
            return False
        with self._changed:
            self._forget_read()
            course.selected = None
            course.rewind(course.latest.after)
        return True

    def _fail(self, course: _Course, state: TableState, reason: str) -> None:
        LOG.warning("the snapshot of %s ends: %s", course.table, reason)
        with self._changed:
            self._forget_read()
            self._rest(course, state, reason)

    def _describe(self, reader: ChunkReader, course: _Course) -> None:
        with self._changed:
            altered = self._alterations(course.table)
        window = self._open(course, ("",))
        if window is None or window.begun is None:
            return
        reader.settle(window.begun, lambda: self._is_over)
        reader.end()
        with self._changed:
            self._close(window)
        selected = reader.describe(course.table)
        if selected is None:
            self._fail(course, TableState.DROPPED, "the table no longer exists, or is not readable")
            return
        progress = course.progress
        until, estimated = progress.until, progress.estimated_rows
        after = course.after
        if selected.key is not None:
            if after is not None and not _fits(selected, after):
                after, until = None, None  # the table's key has changed
            if until is None or not _fits(selected, until):
                until = reader.greatest(selected, progress.where)
        known_rows, row_bytes = reader.estimate(course.table)
        if not progress.started_ms:
            estimated = known_rows
        with self._changed:
            if not course.is_wanted:  # described again once it is, with all that is noted here
                return
            course.selected, course.altered = selected, altered
            course.after = after
            course.most_rows = min(FIRST_ROWS, CHUNK_BYTES // max(row_bytes, 1)) or 1
            course.progress = replace(
                course.progress,
                state=TableState.RUNNING,
                until=until,
                estimated_rows=estimated,
                started_ms=progress.started_ms or _now_ms(),
            )
            self._unsaved[course.table] = course.progress
        LOG.info("the snapshot of %s continues %s", course.table, _how(selected))

    def _read(self, reader: ChunkReader, course: _Course, selected: SelectedTable) -> None:
        turn, after, altered = course.turn, course.after, course.altered
        progress = course.progress
        if selected.key is None and course.tries >= TRIES:
            self._fail(course, TableState.FAILED, _TOO_BUSY)
            return
        course.tries += 1
        window = self._open(course, selected.key_names)
        if window is None or window.begun is None:
            return
        reader.settle(window.begun, lambda: self._is_over)
        if self._is_over:
            return
        if selected.key is None:
            read, is_last = reader.table(selected, progress.where), True
        else:
            wanted = course.most_rows
            read = reader.chunk(selected, after, progress.until, wanted, progress.where)
            is_last = read.count < wanted and not read.is_cut
            course.most_rows = rows_for(CHUNK_BYTES, read.count, read.bytes)
        with self._changed:
            if course.turn != turn or not course.is_wanted:
                self._close(window)
                return
            course.after, course.is_read = read.last or after, is_last
            self._chunks.append(
                _Chunk(course, turn, altered, selected, window, after, read, is_last)
            )
            if self._is_at_edge:
                self._send_due()


def _fits(selected: SelectedTable, bound: Bound) -> bool:
    """Whether a stored bound can belong to the table's key."""
    key = selected.key
    if key is None or len(bound) != len(key.columns):
        return False
    try:
        return all(map(checked, key.columns, bound))
    except ValueError:
        return False


def _passes(error: pymysql.Error, code: int) -> bool:
    """Whether the same statement may be answered later. The driver's classes do not tell: an
    unknown column is an OperationalError, too."""
    is_of_server = code >= 1000 and code not in _OF_CLIENT
    return isinstance(error, _AWAY) and (not is_of_server or code in _PASSING)


def _refusal(error: pymysql.Error, where: str) -> str:
    code = error.args[0] if error.args else 0
    said = f"{code}: {error.args[1]}" if code == _NO_COLUMN else str(code)
    if not where:
        return f"the server refuses to read it ({said})"
    return (
        f"the server refuses to read it with the condition of its start ({said}): start its "
        "snapshot again, with a condition that holds for its columns"
    )


def _how(selected: SelectedTable) -> str:
    if selected.key is None:
        return "by one consistent read, as it has no key"
    return f"by {', '.join(selected.key_names)}"


def _named(wish: Wish) -> str:
    return ", ".join(wish.tables) or "all tables"


def _now_ms() -> int:
    return int(time.time() * 1000)


_INTERRUPTED = (
    "the process ended while rows of this table, which has no key, were on their way: some of them "
    "may be in Kafka. Empty the table at the targets, then start its snapshot again"
)
_OF_BOTH_SIDES = (
    "the task now leaves out what came from the other side: a snapshot would send such rows back, "
    "older than on that side"
)
_TOO_BUSY = (
    f"the table has no key, and was changed each of the {TRIES} times that it was read: give it a "
    "primary key, or start its snapshot again when nobody writes to it"
)
