"""Places in a binlog whose events come without a server."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, cast

import pytest
from pymysqlreplication.constants import BINLOG

from cdcbus.plugins.positions import BinlogPosition
from cdcbus.producer.binlog import coordinates
from cdcbus.producer.binlog.event_types import HEADER
from cdcbus.producer.binlog.gtid import GtidSet
from cdcbus.producer.config import SourceConfig
from cdcbus.producer.server.connection import Server
from cdcbus.producer.source.position_resolver import Begin, Binlog

if TYPE_CHECKING:
    from cdcbus.producer.server.connection import Connection

FILE = "mysql-bin.000007"
SPAN = 1 << 12  # stands for 4 GB


def event(kind: int, body: bytes, end: int) -> bytes:
    return HEADER.pack(1, kind, 1, HEADER.size + len(body), end % SPAN, 0) + body


class Sent(Binlog):
    """A binlog of which these events are sent."""

    def __init__(self, events: list[bytes]) -> None:
        server = Server("11.4.5-MariaDB", "", 1, has_checksum=False, has_gtids=True, charsets={})
        super().__init__(cast("Connection", None), server, SourceConfig((("h", 1),), "u"))
        self.sent = events

    @contextmanager
    def _events(self, start: BinlogPosition | GtidSet) -> Iterator[Iterator[bytes]]:
        yield iter(self.sent)


@pytest.mark.parametrize("has_offsets", [False, True], ids=["MariaDB", "MySQL"])
def test_a_transaction_behind_4_gb_begins_where_it_does(
    monkeypatch: pytest.MonkeyPatch, *, has_offsets: bool
) -> None:
    """Events have 32 bits for the offset; on MariaDB those within a transaction have none."""
    monkeypatch.setattr(coordinates, "SPAN", SPAN)
    rotate = event(BINLOG.ROTATE_EVENT, struct.pack("<Q", 4) + FILE.encode(), 0)
    head = event(BINLOG.FORMAT_DESCRIPTION_EVENT, b"\4\0" + b"11.4.5-MariaDB".ljust(60, b"\0"), 250)
    events = [rotate, head, event(BINLOG.MARIADB_GTID_EVENT, bytes(21), 300)]
    pos = 300
    for _ in range(9):
        pos += 500
        events.append(event(BINLOG.WRITE_ROWS_EVENT_V1, bytes(481), pos if has_offsets else 0))
    pos += 31
    events.append(event(BINLOG.XID_EVENT, bytes(12), pos))
    events.append(event(BINLOG.MARIADB_GTID_EVENT, bytes(21), pos + 40))
    assert pos > SPAN
    begins = list(Sent(events)._begins(BinlogPosition(FILE, 4)))
    assert begins == [Begin(FILE, 260, 1000), Begin(FILE, pos, 1000)]
