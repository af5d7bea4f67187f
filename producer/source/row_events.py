"""Row events, still bytes, with everything needed to decode them, and the batches in which the
binlog source yields them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from cdcbus.plugins.errors import UnreadableEvent
from cdcbus.plugins.positions import BinlogPosition
from cdcbus.plugins.rowchange import Origin, RowChange, TableDdl
from cdcbus.producer.binlog.coordinates import BinlogCoordinates
from cdcbus.producer.decoding.row_image import OPS, Layout, layout, row_images
from cdcbus.producer.decoding.table import DecodableTable
from cdcbus.producer.schema.ddl_scanner import Statement


@dataclass(slots=True)
class Rows:
    """The rows of one binlog event. `body` follows the event's header, without checksum;
    `is_first` and `is_last` say whether the event is the first, or the last, of its
    transaction's row events that pass the filter; `is_xa`, whether an XA COMMIT has ended it."""

    table: DecodableTable
    kind: int
    body: bytes
    origin: Origin
    is_first: bool = False
    is_last: bool = False
    is_xa: bool = False

    def layout(self) -> tuple[Layout, int]:
        """The layout of the rows, and where in the body the first one starts. Raises
        UnreadableEvent."""
        with self._placed():
            return layout(self.kind, self.body, self.table)

    @contextmanager
    def _placed(self) -> Iterator[None]:
        try:
            yield
        except UnreadableEvent as error:
            raise UnreadableEvent(f"{self.origin.file}:{self.origin.pos}: {error}") from error

    def changes(self, first_row: int = 0) -> list[RowChange]:
        """The row changes, in order: the plain reference of what is sent. `first_row` is the first
        one's number in the transaction. Raises UnreadableEvent."""
        op, table, origin = OPS[self.kind], self.table.table, self.origin
        images = enumerate(row_images(self.kind, self.body, self.table), first_row)
        with self._placed():
            changes = [
                RowChange(table, op, before, after, origin, row) for row, (before, after) in images
            ]
        if changes:
            changes[-1].is_last = self.is_last
        return changes


Part = Rows | TableDdl
"""A part of a transaction. Most DDL is a transaction of its own."""


@dataclass(frozen=True, slots=True)
class Batch:
    """The result of one read of the stream, in binlog order: parts of transactions that end in it
    (`closed`), then the position after the last of these ends (`edge`), then parts of a transaction
    that continues (`opened`). `edge` is None when no transaction ended; it is also the end of the
    binlog, once, where an idle server is behind events of no transaction. While an XA transaction
    is prepared it is the edge before that, with what is `published` since. Without parts and edge
    the server is alive and has nothing new. `open_xa`: the xid of the oldest prepared transaction,
    and when it was prepared, in epoch seconds. `skipped`: the number of skipped statements that
    changed rows of the task's tables. `ddl`: all DDL statements. `between`: the place of the stream
    if it is between two transactions, as after the head of a file."""

    closed: list[Part]
    edge: BinlogPosition | None
    opened: list[Part]
    open_xa: tuple[str, int] | None = None
    skipped: int = 0
    ddl: tuple[Statement, ...] = ()
    between: BinlogCoordinates | None = None


@dataclass(slots=True)
class Filling:
    """A batch while it is filled. The first `closed` of its parts belong to transactions that have
    ended, the others to one that has not. `held`: the latest row event, which is not among them
    yet: only the next event shows whether it is the transaction's last."""

    parts: list[Part] = field(default_factory=list)
    closed: int = 0
    held: Rows | None = None
    skipped: int = 0
    statements: list[Statement] = field(default_factory=list)

    def hold(self, rows: Rows) -> None:
        """Adds a row event."""
        if self.held is not None:
            self.parts.append(self.held)
        self.held = rows

    def end_transaction(self) -> None:
        """Closes all parts."""
        if self.held is not None:
            self.held.is_last = True
            self.parts.append(self.held)
            self.held = None
        self.closed = len(self.parts)

    def open_rows(self) -> list[Rows]:
        """The row events of the transaction that has not ended, without the held one."""
        return [part for part in self.parts[self.closed :] if isinstance(part, Rows)]

    def take_open(self) -> list[Rows]:
        """Removes what belongs to the transaction that has not ended, and returns its rows."""
        rows = self.open_rows()
        del self.parts[self.closed :]
        if self.held is not None:
            self.held.is_last = True
            rows.append(self.held)
            self.held = None
        return rows

    def restart(self, kept: list[Part]) -> None:
        """Begins the next batch, with parts that were kept; the held row event stays."""
        self.parts = kept
        self.closed = 0
        self.skipped = 0
        self.statements = []
