"""The thread that reads the tables of snapshots, chunk by chunk, in parallel with the stream."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from threading import Condition, Thread
from typing import Final

import pymysql

from cdcbus.plugins.errors import SourceUnavailable, UnreadableEvent
from cdcbus.producer.binlog.coordinates import BinlogCoordinates
from cdcbus.producer.config import FetchTask
from cdcbus.producer.schema.schema_reader import HiddenColumns
from cdcbus.producer.server.connection import Server
from cdcbus.producer.server.errors import AWAY, passes
from cdcbus.producer.snapshot.chunk_sender import LOOK_SECONDS, Chunk, ChunkSender
from cdcbus.producer.snapshot.chunks import CHUNK_BYTES, FIRST_ROWS, Bound, checked, rows_for
from cdcbus.producer.snapshot.columns import SelectedTable
from cdcbus.producer.snapshot.courses import Course, Courses, now_ms
from cdcbus.producer.snapshot.progress import TableState
from cdcbus.producer.snapshot.reader import ChunkReader, Read, SpoolError, VisibilityUnknown
from cdcbus.producer.snapshot.refusals import GONE, final_state, refusal
from cdcbus.producer.snapshot.window import View, Window

LOG = logging.getLogger(__name__)
CHUNKS_AHEAD = 3
"""The most chunks that wait for the stream."""
TRIES: Final = 5  # attempts to read a table without a key
VIEWS: Final = 20  # attempts in each to begin it while nobody changes the table
AGAIN_SECONDS: Final = (0.5, 1.0, 2.0, 5.0, 10.0)
_TOO_BUSY: Final = (
    "the table has no key, and was changed too much, or by too many transactions at a time, each "
    f"of the {TRIES} times that it was read: give it a primary key, or start its snapshot again "
    "when nobody writes to it"
)


class ChunkThread:
    """Reads tables until the sender `is_over`. It holds `changed` where it touches what the
    stream's thread uses, and never while it asks the source. `failure`: what ended it."""

    def __init__(
        self,
        task: FetchTask,
        server: Server,
        changed: Condition,
        courses: Courses,
        sender: ChunkSender,
    ) -> None:
        self._task, self._server = task, server
        self._changed, self._courses, self._sender = changed, courses, sender
        self._reader: ChunkReader | None = None
        self._thread: Thread | None = None
        self.failure: BaseException | None = None

    def start(self) -> None:
        """Begins to read; nothing on a second call."""
        if self._thread is None:
            thread = Thread(target=self._run, name="snapshot", daemon=True)
            thread.start()
            # Only now: a thread that could not be started cannot be waited for.
            self._thread = thread

    def interrupt(self) -> None:
        """Ends the statement that the source is answering. The caller holds `changed`."""
        if self._reader is not None:
            self._reader.interrupt()

    def join(self) -> None:
        """Waits for the thread's end. It may have begun to ask the source since it was
        interrupted, and that can be made to wait for long."""
        if self._thread is None:
            return
        self._thread.join(LOOK_SECONDS)
        while self._thread.is_alive():
            with self._changed:
                self.interrupt()
            self._thread.join(LOOK_SECONDS)

    def _run(self) -> None:
        failures = 0
        while not self._sender.is_over:
            reader = None
            try:
                reader = self._reader = ChunkReader(self._task.source, self._server)
                while self._is_on():
                    self._step(reader)
                    failures = 0
            except SpoolError:
                # That table has failed; others are read by another reader.
                continue
            except (SourceUnavailable, OSError, EOFError, *AWAY) as error:
                pause = AGAIN_SECONDS[min(failures, len(AGAIN_SECONDS) - 1)]
                failures += 1
                LOG.warning("the snapshot is retried in %g s: %s", pause, error)
                with self._changed:
                    self._sender.close_unread()
                    self._changed.wait_for(lambda: self._sender.is_over, pause)
            except BaseException as error:
                # Raised on the stream's thread, at its next turn.
                with self._changed:
                    self.failure = error
                return
            finally:
                self._reader = None
                if reader is not None:
                    reader.close()

    def _is_on(self) -> bool:
        with self._changed:
            return not self._sender.is_over

    def _step(self, reader: ChunkReader) -> None:
        """Takes up operators' wishes, reads a chunk, or waits for something to do."""
        with self._changed:
            wishes = list(self._courses.to_find)
        if wishes:
            accepted = self._courses.accepted(reader.tables())
            with self._changed:
                for wish in wishes:
                    self._courses.begin(wish, accepted)
        with self._changed:
            course = self._courses.next_to_read()
            is_full = len(self._sender.chunks) >= CHUNKS_AHEAD
            # Otherwise chunks are sent while the next rows are read.
            is_sending = is_full or course is None or course.selected is None
            if is_sending and self._sender.send_due():
                return
            if course is None or is_full:
                self._changed.wait(LOOK_SECONDS)
                return
            selected, turn = course.selected, course.turn
        try:
            if selected is None:
                self._describe(reader, course)
            else:
                self._read(reader, course, selected)
        except (VisibilityUnknown, HiddenColumns, UnreadableEvent) as error:
            self._fail(course, turn, TableState.FAILED, str(error))
        except SpoolError as error:
            self._fail(course, turn, TableState.FAILED, str(error))
            # The rest of the rows is still on its way to this reader.
            raise
        except pymysql.Error as error:
            self._judge(error, reader, course, turn, selected)

    def _judge(
        self,
        error: pymysql.Error,
        reader: ChunkReader,
        course: Course,
        turn: int,
        was: SelectedTable | None,
    ) -> None:
        """Ends the table's snapshot by an error of the server, or has the table described again.
        Raises an error that may pass."""
        if end := final_state(error):
            self._fail(course, turn, *end)
        elif passes(error):
            raise error
        elif not self._is_outdated(reader, course, was):
            self._fail(course, turn, TableState.FAILED, refusal(error, course.progress.where))

    def _is_outdated(self, reader: ChunkReader, course: Course, was: SelectedTable | None) -> bool:
        """Whether the table was altered since it was described as `was`, by which it was read; then
        it is described again."""
        if was is None:
            return False
        with self._changed:
            if course.selected is not was:
                # The stream has met the ALTER first.
                self._sender.close_unread()
                return True
        try:
            now = reader.describe(course.table)
        except (VisibilityUnknown, HiddenColumns, UnreadableEvent, pymysql.Error):
            now = None  # the next step describes it again, and judges this
        if now is not None and (now.expressions, now.key) == (was.expressions, was.key):
            return False
        with self._changed:
            self._sender.close_unread()
            course.selected = None
            course.rewind(course.latest.after)
        return True

    def _fail(self, course: Course, turn: int, state: TableState, reason: str) -> None:
        """Ends the snapshot, unless it is in another turn: what was read is no longer true."""
        with self._changed:
            self._sender.close_unread()
            if course.turn == turn and course.is_wanted:
                LOG.warning("the snapshot of %s ends: %s", course.table, reason)
                self._courses.rest(course, state, reason)

    # Describing a table.

    def _describe(self, reader: ChunkReader, course: Course) -> None:
        with self._changed:
            turn, altered = course.turn, self._sender.alterations(course.table)
        # No rows are read in this window: it gives the boundary at which the table is described.
        window = self._sender.open(course.table, ("",))
        if window is None or window.begun is None:
            return
        reader.settle(window.begun, lambda: self._sender.is_over)
        reader.end()
        with self._changed:
            self._sender.close(window)
        selected = reader.describe(course.table)
        if selected is None:
            reader.look(course.table)
            # It can be read by now, as it was created or renamed since: it was gone all the same.
            self._fail(course, turn, TableState.DROPPED, GONE)
            return
        after, until = _bounds(reader, course, selected)
        known_rows, row_bytes = reader.estimate(course.table)
        with self._changed:
            # Then it is described again, with all that is noted here: paused, or begun anew.
            if course.turn != turn or not course.is_wanted:
                return
            is_keyless = not selected.table.table.key
            if is_keyless and course.progress.is_unconfirmed:
                self._courses.refuse_unconfirmed(course)
                return
            if after is None and course.after is not None:
                LOG.info("%s is read anew, as its key has changed", course.table)
                course.begin_anew()
            progress = course.progress
            estimated = progress.estimated_rows
            if not progress.started_ms:
                estimated = known_rows
            course.selected, course.altered = selected, altered
            course.after = after
            course.most_rows = min(FIRST_ROWS, CHUNK_BYTES // max(row_bytes, 1)) or 1
            begun = replace(
                progress,
                state=TableState.RUNNING,
                key=selected.key_order,
                is_keyless=is_keyless,
                until=until,
                estimated_rows=estimated,
                started_ms=progress.started_ms or now_ms(),
            )
            self._courses.update(course, begun)
        LOG.info("the snapshot of %s continues %s", course.table, _how(selected))

    # Reading its rows.

    def _read(self, reader: ChunkReader, course: Course, selected: SelectedTable) -> None:
        # As they are now: the stream's thread may rewind the table while it is read.
        turn, after, altered = course.turn, course.after, course.altered
        # Only a table without a key: changes of it can make the whole read void.
        if selected.key is None and course.tries >= TRIES:
            self._fail(course, turn, TableState.FAILED, _TOO_BUSY)
            return
        course.tries += 1
        has_views = selected.key is None and reader.has_views(course.table)
        window = self._begun(reader, course, selected, has_views)
        if window is None or window.begun is None:
            return
        read, is_last = self._next_rows(reader, course, selected, after)
        with self._changed:
            if window.view is not None:
                read = replace(read, high=window.view.high)
            elif selected.key is None:
                begun = BinlogCoordinates(window.begun.file, window.begun.pos)
                window.set_view(View(begun, read.high))
            if course.turn != turn or not course.is_wanted:
                self._sender.close(window)
                return
            course.after, course.is_read = read.last or after, is_last
            self._sender.chunks.append(
                Chunk(course, turn, altered, selected, window, after, read, is_last)
            )

    def _next_rows(
        self, reader: ChunkReader, course: Course, selected: SelectedTable, after: Bound | None
    ) -> tuple[Read, bool]:
        """Reads the next rows of a table, and meanwhile sends the chunks that wait. Returns also
        whether these rows are the table's last."""
        # A thread of its own receives the answer to its end: however long Kafka takes for the rows
        # before it, no query stays open at the source.
        with ThreadPoolExecutor(1, "snapshot-answer") as receiving:
            answer = receiving.submit(_rows, reader, course, selected, after)
            with self._changed:
                self._sender.send_due()
            return answer.result()

    def _begun(
        self, reader: ChunkReader, course: Course, selected: SelectedTable, has_views: bool
    ) -> Window | None:
        """Begins a window, and the transaction that reads in it; None at the end, and where each
        of several views has become void at once."""
        for _ in range(VIEWS):
            window = self._sender.open(course.table, selected.key_names)
            if window is None or window.begun is None:
                return None
            reader.settle(window.begun, lambda: self._sender.is_over)
            if self._sender.is_over:
                return None
            if not has_views:
                return window
            view = reader.view(window.begun)
            with self._changed:
                window.set_view(view)
                # The stream mostly tells soon whether it is void, before anything is read.
                is_known = partial(self._is_known, window, view)
                self._changed.wait_for(is_known, LOOK_SECONDS)
                if not window.is_void:
                    return window
                self._sender.close(window)
            reader.end()
        return None

    def _is_known(self, window: Window, view: View) -> bool:
        return self._sender.is_over or window.is_void or self._sender.has_passed(view.high)


def _bounds(
    reader: ChunkReader, course: Course, selected: SelectedTable
) -> tuple[Bound | None, Bound | None]:
    """The keys after which, and up to which, a table is read."""
    if selected.key is None:
        return None, None  # a key that it may have later is another one
    after, until = course.after, course.progress.until
    is_other = not course.progress.is_by(selected.key_order)
    if is_other or (after is not None and not _fits(selected, after)):
        after, until = None, None
    if until is None or not _fits(selected, until):
        until = reader.greatest(selected, course.progress.where)
    return after, until


def _fits(selected: SelectedTable, bound: Bound) -> bool:
    """Whether a stored bound can belong to the table's key."""
    key = selected.key
    if key is None or len(bound) != len(key.columns):
        return False
    try:
        return all(map(checked, key.columns, bound))
    except ValueError:
        return False


def _rows(
    reader: ChunkReader, course: Course, selected: SelectedTable, after: Bound | None
) -> tuple[Read, bool]:
    """The next rows of a table, and whether they are its last."""
    progress = course.progress
    if selected.key is None:
        return reader.table(selected, progress.where), True
    wanted = course.most_rows
    read = reader.chunk(selected, after, progress.until, wanted, progress.where)
    course.most_rows = rows_for(CHUNK_BYTES, read.count, read.bytes)
    return read, read.count < wanted and not read.is_cut


def _how(selected: SelectedTable) -> str:
    if selected.key is None:
        return "by one consistent read, as it has no key"
    return f"by {', '.join(selected.key_names)}"
