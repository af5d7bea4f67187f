"""Decides which rows of a chunk are still valid when the stream reaches it. Pure.

A chunk is read at some moment between two places of the binlog: everything before `begun` is
visible to readers of the tables, and everything that the chunk has seen is before `high`. Rows that
the stream brings from `begun` on are newer than the chunk's, or the same: these are removed from
the chunk, and the rest can be sent once the stream has passed `high`, at a transaction boundary.
Later changes follow in the stream.

A table without a key is read in one consistent view. Changes that the stream brings meanwhile are
held: those that are in the view are dropped, those that are not are sent after its rows, and one of
which neither is certain makes it void.

A row is identified by the bytes of its key, regardless of which keys the column's collation treats
as equal: a change of the row that was read is logged with exactly these bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from cdcbus.plugins.positions import BinlogPosition
from cdcbus.plugins.rowchange import RowChange, TableId
from cdcbus.producer.binlog.coordinates import BinlogCoordinates
from cdcbus.producer.binlog.gtid import MysqlGtids
from cdcbus.producer.source.row_events import Rows

MOST_KEYS = 200_000
MOST_HELD_BYTES = 64_000_000
EVENT_BYTES = 300
"""About what an event takes besides its rows."""
KeyTexts = tuple[str | None, ...]


@dataclass(frozen=True, slots=True)
class View:
    """Where in the binlog a consistent view is: it contains all changes before `low`, all
    transactions of the GTIDs `executed`, and nothing from `high` on. `is_exact`: it also contains
    what is in between, except that an XA COMMIT may be logged before it is seen."""

    low: BinlogCoordinates
    high: BinlogCoordinates
    executed: MysqlGtids | None = None
    is_exact: bool = False

    def contains(self, rows: Rows) -> bool | None:
        """Whether it contains changes; None if that is not certain."""
        origin = rows.origin
        place = BinlogCoordinates(origin.file, origin.pos)
        if place < self.low or (self.executed and origin.gtid and self.executed.has(origin.gtid)):
            return True
        if place < self.high:
            return True if self.is_exact and not rows.is_xa else None
        return False


@dataclass(slots=True)
class Window:
    """The window of one chunk of a table, which is paged by the columns `key`; none: it is read in
    one view. `begun`: None until the stream is at a boundary. `touched`: keys whose complete rows,
    or deletions, the stream has brought since; `cut`: keys of which it has brought images that lack
    columns. `view`: that of a table without a key, None while it is not known; `held`: the changes
    that are not in it, in order."""

    table: TableId
    key: tuple[str, ...]
    begun: BinlogPosition | None = None
    is_void: bool = False
    touched: set[KeyTexts] = field(default_factory=set)
    cut: set[KeyTexts] = field(default_factory=set)
    view: View | None = None
    held: list[Rows] = field(default_factory=list)
    _held_bytes: int = 0

    def hold(self, rows: Rows) -> None:
        """Takes changes of a table without a key, which are not sent. If there are too many to
        remember, the chunk becomes void: the next view contains them."""
        # What comes before the window begins is in the view.
        if self.is_void or self.begun is None:
            return
        if self.view is not None:
            is_contained = self.view.contains(rows)
            if is_contained:
                return
            self.is_void = is_contained is None
        self.held.append(rows)
        self._held_bytes += len(rows.body) + EVENT_BYTES
        self.is_void |= self._held_bytes > MOST_HELD_BYTES
        if self.is_void:
            self.held.clear()

    def set_view(self, view: View) -> None:
        """Says where the view is."""
        self.view = view
        held, self.held, self._held_bytes = self.held, [], 0
        for rows in held:
            self.hold(rows)

    def later(self) -> list[Rows]:
        """The held changes, marked as whole transactions: other tables' rows were sent before."""
        for _, rows in groupby(self.held, _transaction):
            own = list(rows)
            for each in own:
                each.is_first, each.is_last = each is own[0], each is own[-1]
        return self.held

    def see(self, changes: Sequence[RowChange]) -> None:
        """Notes changes of the table's rows. If there are too many to remember, as when the stream
        lags far behind, the chunk becomes void: it is read again once the stream is there."""
        if len(self.touched) + len(self.cut) > MOST_KEYS:
            self.is_void = True
        if self.is_void:
            self.touched.clear()
            self.cut.clear()
            return
        if not self.key:
            self.is_void |= bool(changes)
            return
        for change in changes:
            after = change.after
            is_whole = after is None or len(after) == len(change.table.columns)
            touched = self.cut
            if is_whole:
                touched = self.touched
            is_known = False
            for row in (change.before, after):
                if row is not None and all(name in row for name in self.key):
                    touched.add(tuple(row[name] for name in self.key))
                    # The row that was read is the one before the change; an INSERT has none.
                    is_known |= row is change.before or change.before is None
            self.is_void |= not is_known  # the images do not say which row it was

    def left(
        self, rows: Iterable[bytes], key_texts: Callable[[bytes], tuple[str, ...]]
    ) -> Iterable[bytes] | None:
        """The rows that no change has touched, in order; None if the chunk must be read again: it
        is void, or has rows of which the stream has brought some columns only."""
        if self.is_void:
            return None
        if not self.touched and not self.cut:
            return rows
        keyed = [(key_texts(row), row) for row in rows]
        if any(key in self.cut for key, _ in keyed):
            return None
        return [row for key, row in keyed if key not in self.touched]


def _transaction(rows: Rows) -> tuple[str, int]:
    """What the rows of one transaction have in common; MySQL without GTIDs says only when it was
    committed."""
    return rows.origin.gtid, rows.origin.commit_us
