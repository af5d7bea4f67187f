"""XA transactions: their rows are in the binlog where they are prepared, and count only from their
XA COMMIT on, which follows later.

Layout: "XA_prepare_event" of the MySQL sources: one phase or two, then the xid's format number, the
sizes of its two parts, and the parts.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable
from dataclasses import dataclass

from cdcbus.plugins.errors import UnreadableEvent
from cdcbus.plugins.positions import BinlogPosition
from cdcbus.producer.source.row_events import Rows

MAX_BYTES = 1 << 26
FINISH = re.compile(rb"XA (COMMIT|ROLLBACK) (.+)", re.DOTALL)
_PREPARE = struct.Struct("<BIII")


def prepared_xid(body: bytes) -> bytes | None:
    """The xid in an XA_PREPARE event's body, spelled as in the text of XA COMMIT; None if the event
    also commits the transaction (ONE PHASE)."""
    is_one_phase, form, first, second = _PREPARE.unpack_from(body)
    if is_one_phase:
        return None
    parts = body[_PREPARE.size : _PREPARE.size + first + second]
    return f"X'{parts[:first].hex()}',X'{parts[first:].hex()}',{form}".encode()


@dataclass(frozen=True, slots=True)
class Open:
    """A transaction that is prepared but not finished: its rows, the transaction edge before it,
    and when it was prepared, in epoch seconds."""

    xid: bytes
    rows: list[Rows]
    before: BinlogPosition
    prepared_s: int


class Prepared:
    """The transactions that are prepared but neither committed nor rolled back, with at most
    MAX_BYTES of rows."""

    def __init__(self) -> None:
        self._open: dict[bytes, Open] = {}

    @property
    def oldest(self) -> Open | None:
        """The transaction prepared first: reading must be able to resume before it."""
        return next(iter(self._open.values()), None)

    def check(self, more: Iterable[Rows]) -> None:
        """Raises UnreadableEvent when the held rows and the given ones are too many."""
        held = sum(len(rows.body) for rows in more)
        for each in self._open.values():
            held += sum(len(rows.body) for rows in each.rows)
        if held > MAX_BYTES:
            raise UnreadableEvent(
                "XA transactions that are prepared and not committed hold more than "
                f"{MAX_BYTES >> 20} MB of rows, too many to keep until "
                "their commit; finish them on the server (XA RECOVER lists them), or set the "
                "position past them and copy their rows by hand"
            )

    def hold(self, transaction: Open) -> None:
        """Keeps a prepared transaction. Raises UnreadableEvent when its rows are too many."""
        self.check(transaction.rows)
        self._open[transaction.xid] = transaction

    def drop(self, xid: bytes) -> None:
        """Drops a transaction that is rolled back."""
        self._open.pop(xid, None)

    def take(self, xid: bytes) -> list[Rows]:
        """Removes a committed transaction and returns its rows. Raises UnreadableEvent if reading
        began after it was prepared."""
        try:
            return self._open.pop(xid).rows
        except KeyError:
            raise UnreadableEvent(
                "the commit of an XA transaction that was prepared before the position where "
                "reading began; set the position to a place "
                "before its XA PREPARE, or, to continue without its rows, past this event"
            ) from None
