"""Decides which rows of a chunk are still valid when the stream reaches it. Pure.

A chunk is read at some moment between two places of the binlog: everything before `begun` is
visible to readers of the tables, and everything that the chunk has seen is before `high`. Rows that
the stream brings from `begun` on are newer than the chunk's, or the same: these are removed from
the chunk, and the rest can be sent once the stream has passed `high`, at a transaction boundary.
Later changes follow in the stream.

A row is identified by the bytes of its key, regardless of which keys the column's collation treats
as equal: a change of the row that was read is logged with exactly these bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from cdcbus.plugins.positions import BinlogPosition
from cdcbus.plugins.rowchange import RowChange, TableId

MOST_KEYS = 200_000
KeyTexts = tuple[str | None, ...]


def reached(position: BinlogPosition) -> BinlogPosition:
    """The place before which everything is published: while an XA transaction is prepared, it is
    after the place where reading would resume."""
    published = position.published
    if published is None:
        return position
    return BinlogPosition(
        published.file,
        published.pos,
        gtid=published.gtid,
        timestamp_ms=position.timestamp_ms,
        server_uuid=position.server_uuid,
    )


@dataclass(slots=True)
class Window:
    """The window of one chunk of a table, which is paged by the columns `key`; none: any change of
    the table makes the chunk void. `begun`: None until the stream is at a boundary. `touched`: keys
    whose complete rows, or deletions, the stream has brought since; `cut`: keys of which it has
    brought images that lack columns."""

    table: TableId
    key: tuple[str, ...]
    begun: BinlogPosition | None = None
    is_void: bool = False
    touched: set[KeyTexts] = field(default_factory=set)
    cut: set[KeyTexts] = field(default_factory=set)

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
