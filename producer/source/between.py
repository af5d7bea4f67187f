"""Whether any transaction lies between two places of a binlog."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

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
NO_RIGHT: Final = (1227, 1220, 1142)


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
        if error.args[0] not in NO_RIGHT:
            raise
        return False
    return True
