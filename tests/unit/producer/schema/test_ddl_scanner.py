"""DDL found between two places of a binlog, whose events come without a server."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import pytest
from pymysqlreplication.constants import BINLOG

from cdcbus.plugins.errors import SourceUnavailable
from cdcbus.producer.binlog.coordinates import BinlogCoordinates
from cdcbus.producer.binlog.event_types import HEADER
from cdcbus.producer.schema import ddl_scanner
from cdcbus.producer.schema.ddl_scanner import DdlScan

FILE = "mysql-bin.000007"


def at(pos: int) -> BinlogCoordinates:
    return BinlogCoordinates(FILE, pos)


def event(kind: int, body: bytes, end: int) -> bytes:
    return HEADER.pack(1, kind, 1, HEADER.size + len(body), end, 0) + body


def rotate(pos: int) -> bytes:
    """The event that each stream begins with."""
    return event(BINLOG.ROTATE_EVENT, struct.pack("<Q", pos) + FILE.encode(), 0)


def ddl(sql: str, end: int) -> bytes:
    schema = b"shop"
    head = struct.pack("<IIBHH", 1, 0, len(schema), 0, 0)
    return event(BINLOG.QUERY_EVENT, head + schema + b"\0" + sql.encode(), end)


def found(scan: DdlScan, after: int, until: int) -> list[tuple[bytes, int]]:
    return [(one.sql, one.end.pos) for one in scan.between(at(after), at(until))]


class Server:
    """One that sends its DDL, with `ends`, up to the place that the next of `sent_to` names."""

    def __init__(self, statements: dict[int, str], sent_to: list[int]) -> None:
        self.statements, self.sent_to = statements, sent_to
        self.asked: list[BinlogCoordinates] = []

    def events(self, place: BinlogCoordinates) -> Iterator[list[bytes]]:
        self.asked.append(place)
        sent_to = self.sent_to.pop(0) if len(self.sent_to) > 1 else self.sent_to[0]
        yield [rotate(place.pos)]
        for end, sql in self.statements.items():
            if place.pos < end <= sent_to:
                yield [ddl(sql, end)]


@pytest.fixture
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ddl_scanner, "PAUSE_SECONDS", 0.0)


STATEMENTS = {1200: "ALTER TABLE t ADD c INT", 1500: "ALTER TABLE t ADD d INT"}
BOTH = [(sql.encode(), end) for end, sql in STATEMENTS.items()]


@pytest.mark.usefixtures("no_pause")
def test_what_the_server_has_written_and_does_not_send_yet_is_waited_for() -> None:
    server = Server(STATEMENTS, [1000, 1200, 1200, 1500])
    scan = DdlScan(server.events, 0, {}, "9.7.0")
    assert found(scan, 1000, 1500) == BOTH
    assert server.asked == [at(1000), at(1000), at(1200), at(1200)]


@pytest.mark.usefixtures("no_pause")
def test_what_the_server_does_not_send_for_long_is_unavailable_and_not_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ddl_scanner, "WAIT_SECONDS", 0.0)
    server = Server(STATEMENTS, [1200])
    scan = DdlScan(server.events, 0, {}, "9.7.0")
    with pytest.raises(SourceUnavailable, match=rf"only to {FILE}:1200.* to {FILE}:1500"):
        scan.between(at(1000), at(1500))
    server.sent_to = [1500]
    assert found(scan, 1000, 1500) == BOTH
