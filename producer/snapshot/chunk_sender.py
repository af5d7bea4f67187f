"""Sends chunks of rows to Kafka at a transaction boundary, once the stream has passed what they
have seen (`window.py`)."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from threading import Condition

from cdcbus.plugins.positions import BinlogPosition
from cdcbus.plugins.rowchange import Origin, TableId
from cdcbus.producer.binlog.coordinates import BinlogCoordinates
from cdcbus.producer.ddl.named_tables import Named
from cdcbus.producer.ddl.statements import changes
from cdcbus.producer.ddl.table_changes import SchemaAltered, SchemaDropped
from cdcbus.producer.publish.delivery import Deliveries
from cdcbus.producer.publish.publisher import KafkaPublisher
from cdcbus.producer.schema.ddl_scanner import Statement
from cdcbus.producer.server.connection import Server
from cdcbus.producer.snapshot.chunks import Bound
from cdcbus.producer.snapshot.columns import SelectedTable
from cdcbus.producer.snapshot.courses import Course, Sent, now_ms
from cdcbus.producer.snapshot.progress import TableProgress, TableState
from cdcbus.producer.snapshot.progress_saver import ProgressSaver
from cdcbus.producer.snapshot.reader import Read
from cdcbus.producer.snapshot.rows import key_texts, row_events
from cdcbus.producer.snapshot.window import Window
from cdcbus.producer.source.ddl_events import named_at_server
from cdcbus.producer.source.row_events import Batch, Part, Rows

LOG = logging.getLogger(__name__)
LOOK_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Chunk:
    """Rows of a table that were read after `after`. `altered`: the number of the table's
    alterations before."""

    course: Course
    turn: int
    altered: int
    selected: SelectedTable
    window: Window
    after: Bound | None
    read: Read
    is_last: bool

    def progress(self, before: TableProgress) -> TableProgress:
        """The table's progress once Kafka has the chunk, too."""
        state = TableState.RUNNING
        if self.is_last:
            state = TableState.DONE
        return replace(
            before,
            state=state,
            rows=before.rows + self.read.count,
            bytes=before.bytes + self.read.bytes,
            chunks=before.chunks + 1,
            after=self.read.last or before.after,
            has_held_back=before.has_held_back and not self.is_last,
            updated_ms=now_ms(),
        )


class ChunkSender:
    """The chunks that wait for the stream, and where the stream is. The stream's thread and the
    reading thread share it: who calls it holds `changed`, except for `open`.

    `chunks`: those that wait, in the order in which they were read. `is_over`: nothing is read or
    sent any more."""

    def __init__(
        self,
        start: BinlogPosition,
        changed: Condition,
        saver: ProgressSaver,
        server: Server,
        publisher: KafkaPublisher,
        deliver: Deliveries,
        has_more: Callable[[], bool],
        epoch: str,
        on_sent: Callable[[int], None],
    ) -> None:
        self._changed, self._saver = changed, saver
        self._server, self._epoch = server, epoch
        self._publisher, self._deliver = publisher, deliver
        self._has_more, self._on_sent = has_more, on_sent
        self._alterations = _Alterations(folds_names=server.folds_names)
        self._windows: list[Window] = []
        self.chunks: deque[Chunk] = deque()
        self.is_over = False
        self._passed: BinlogCoordinates
        self._reach(start)

    # Where the stream is.

    def alter(self, statement: Statement) -> list[Named]:
        """Takes note of a DDL statement of the stream. Returns the tables that it names, without
        temporary ones."""
        return self._alterations.take(statement)

    def alterations(self, table: TableId) -> int:
        """How often the table may have been altered."""
        return self._alterations.of(table)

    def passed(self, batch: Batch) -> None:
        """Takes note of a batch of the stream, whose closed parts were sent, and sends the chunks
        that are due."""
        self._see(batch.closed)
        if batch.edge is not None:
            self._reach(batch.edge)
        if batch.between is not None and self._is_at_edge and not batch.opened:
            self._passed = max(self._passed, batch.between)
        self.send_due()
        # Only now: chunks that were due are older than the transaction that begins.
        self._see(batch.opened)
        self._is_at_edge &= not batch.opened

    def _reach(self, edge: BinlogPosition) -> None:
        self._edge, self._here, self._is_at_edge = edge, edge.reached, True
        # No transaction begins between the edge and this place, which can be in a later file.
        self._passed = BinlogCoordinates(self._here.file, self._here.pos)

    def hold_back(self, rows: Rows) -> None:
        """Takes rows of a table without a key that are not sent: what is being read of it may lack
        them."""
        for window in self._windows_of(rows.table.table.id):
            window.hold(rows)

    def has_passed(self, place: BinlogCoordinates) -> bool:
        """Whether the stream has passed a place between two transactions."""
        return place <= self._passed

    def _see(self, parts: Iterable[Part]) -> None:
        if not self._windows:
            return
        for part in parts:
            if not isinstance(part, Rows):
                continue
            windows = self._windows_of(part.table.table.id)
            if windows:  # else the rows need not be decoded
                changes = part.changes()
                for window in windows:
                    window.see(changes)

    def _windows_of(self, table: TableId) -> list[Window]:
        return [each for each in self._windows if each.table == table and not each.is_void]

    # Windows.

    def open(self, table: TableId, key: tuple[str, ...]) -> Window | None:
        """Opens a window, waits for the next boundary, where it begins, and returns it; None at the
        end. For the reading thread, without the lock."""
        with self._changed:
            window = Window(table, key)
            self._windows.append(window)
            while not self.is_over:
                if self._is_at_edge:
                    window.begun = self._here
                    return window
                self._changed.wait(LOOK_SECONDS)
            return None

    def close(self, window: Window) -> None:
        """Ends a window."""
        self._windows = [each for each in self._windows if each is not window]

    def close_unread(self) -> None:
        """Ends the windows of chunks that are not read, and will not be."""
        self._windows = [chunk.window for chunk in self.chunks]

    # Sending: only at a boundary, by the thread that has the turn.

    def send_due(self) -> bool:
        """Sends the chunks that the stream has passed, if it is at a boundary. Returns whether
        there were any."""
        if self.is_over or not self._is_at_edge:
            return False
        waiting, is_sent = len(self.chunks), False
        while self.chunks and self.has_passed(self.chunks[0].read.high):
            chunk = self.chunks.popleft()
            self.close(chunk.window)
            is_sent |= self._send(chunk)
        # The stream may bring no edge for long, and nothing else would commit these rows.
        if is_sent:
            self._deliver.reached(self._edge, self._has_more)
        self._changed.notify_all()
        return len(self.chunks) < waiting

    def _send(self, chunk: Chunk) -> bool:
        """Sends a chunk. Returns whether it did; else the chunk no longer counts, or is read
        again."""
        course, table = chunk.course, chunk.selected.table
        if chunk.turn != course.turn or not course.is_wanted:
            return False
        if chunk.altered != self.alterations(course.table):
            LOG.info("%s was altered while its rows were read: they are read again", course.table)
            course.selected = None
            course.rewind(chunk.after)
            return False
        texts = partial(key_texts, table=table, columns=chunk.selected.key_columns)
        rows = chunk.window.left(chunk.read.rows, texts)
        if rows is None:
            course.rewind(chunk.after)
            return False
        edge, later = None, chunk.window.later()
        if chunk.selected.key is None:
            # Before its rows are sent: a restart could not tell which of them Kafka has. From here
            # on the stream sends its changes, also where there were no rows.
            self._saver.save_sending(course)
            edge = self._here
        count = self._publisher.send(row_events(table, rows, self._origin(chunk.read)))
        count += self._publisher.send(later)
        self._on_sent(count)
        course.sent.append(Sent(self._publisher.sent, chunk.progress(course.latest), edge))
        course.tries = 0
        return True

    def _origin(self, read: Read) -> Origin:
        here = self._here
        return Origin(
            here.file,
            here.pos,
            "",
            self._server.server_id,
            max(read.high_us, here.timestamp_ms * 1000),
            self._server.server_uuid,
            self._epoch,
            is_snapshot=True,
        )


class _Alterations:
    """Counts the statements of the stream that may have altered a table."""

    def __init__(self, *, folds_names: bool) -> None:
        self._folds_names = folds_names
        self._by_name: dict[str, int] = {}  # table in lower case -> number of alterations
        self._of_all = 0

    def of(self, table: TableId) -> int:
        return self._of_all + self._by_name.get(str(table).lower(), 0)

    def take(self, statement: Statement) -> list[Named]:
        """Counts a statement. Returns the tables that it names, without temporary ones."""
        found = named_at_server(statement, folds_names=self._folds_names)
        if found is None or _is_of_schema(statement):
            self._of_all += 1
            return []
        real = [one for one in found if not one.is_temporary]
        for one in real:
            if one.if_missing:  # a table that was there is as it was
                continue
            for table in filter(None, (one.table, one.was, one.other)):
                name = str(table).lower()
                self._by_name[name] = self._by_name.get(name, 0) + 1
        return real


def _is_of_schema(statement: Statement) -> bool:
    """Whether it drops or alters a schema, also by CREATE OR REPLACE."""
    found = changes(statement.sql, statement.schema, statement.session)
    return any(isinstance(change, SchemaAltered | SchemaDropped) for change in found)
