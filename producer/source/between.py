"""What lies between two places of a binlog."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import pymysql

from cdcbus.producer.binlog.coordinates import BinlogCoordinates
from cdcbus.producer.server import connection as servers

if TYPE_CHECKING:
    from cdcbus.producer.server.connection import Connection

NO_ROWS: Final = frozenset(
    ("Rotate", "Stop", "Format_desc", "Previous_gtids", "Gtid_list", "Binlog_checkpoint")
)
"""Types of the events at a file's head and end."""
MOST_EVENTS: Final = 20
NOT_SHOWN: Final = (1227, 1220, 1142)
"""Errors for a user without the right, and for a file or place that is not there."""
ROWS: Final = ("Write_rows", "Update_rows", "Delete_rows", "Transaction_payload")
"""How the types of events with rows begin, of either server, compressed or not."""


def is_nothing_between(
    connection: Connection, place: BinlogCoordinates, end: BinlogCoordinates
) -> bool:
    """Whether no transaction lies between two places. A position moves with transactions only, so
    it stays in an old file when a server begins a new one and is then idle. Returns False where it
    cannot tell."""
    try:
        names = [name for name, _ in servers.binlog_files(connection)]
        if place.file not in names or end.file not in names:
            return False
        files = names[names.index(place.file) : names.index(end.file) + 1]
        for file in files:
            start = f"FROM {place.pos}" if file == place.file else ""
            sql = f"SHOW BINLOG EVENTS IN %s {start} LIMIT {MOST_EVENTS}"
            events = servers.query(connection, sql, (file,))
            if len(events) == MOST_EVENTS:
                return False
            for _, pos, kind, *_ in events:
                if kind not in NO_ROWS and not (file == end.file and int(pos) >= end.pos):
                    return False
    except pymysql.OperationalError as error:
        if error.args[0] not in NOT_SHOWN:
            raise
        return False
    return True


def has_more_after_edge(
    connection: Connection, edge: BinlogCoordinates, end: BinlogCoordinates
) -> bool:
    """Whether a transaction ends at this place, and another one lies between it and `end`. Returns
    False where it cannot tell."""
    events = _events(connection, edge, 1)
    # None follow at the end of its file.
    if events is None or (events and int(events[0][1]) != edge.pos):
        return False
    return edge < end and not is_nothing_between(connection, edge, end)


def has_more_after_rows(
    connection: Connection, rows: BinlogCoordinates, end: BinlogCoordinates
) -> bool:
    """Whether an event with rows begins at this place, and a transaction lies between its own and
    `end`. Returns False where it cannot tell."""
    events = _events(connection, rows, MOST_EVENTS)
    if not events or int(events[0][1]) != rows.pos or not events[0][2].startswith(ROWS):
        return False
    for _, _, kind, _, end_pos, info in events:
        if kind in ("Xid", "Transaction_payload") or (kind == "Query" and info == "COMMIT"):
            here = BinlogCoordinates(rows.file, int(end_pos))
            return here < end and not is_nothing_between(connection, here, end)
    # Its transaction is long: whether another one follows is not looked for.
    return False


def _events(
    connection: Connection, place: BinlogCoordinates, most: int
) -> Sequence[Sequence[Any]] | None:
    """The events from a place on, as the server shows them; None where it does not."""
    sql = f"SHOW BINLOG EVENTS IN %s FROM {place.pos} LIMIT {most}"
    try:
        return servers.query(connection, sql, (place.file,))
    except pymysql.OperationalError as error:
        if error.args[0] not in NOT_SHOWN:
            raise
        return None
