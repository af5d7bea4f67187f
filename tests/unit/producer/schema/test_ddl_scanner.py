"""DDL found between two places of a binlog, whose events come without a server."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator

import pytest
from pymysqlreplication.constants import BINLOG

from cdcbus.plugins.errors import PositionLost, SourceUnavailable, UnreadableEvent
from cdcbus.plugins.rowchange import TableId
from cdcbus.producer.binlog import coordinates
from cdcbus.producer.binlog.coordinates import SPAN, BinlogCoordinates
from cdcbus.producer.binlog.event_types import HEADER
from cdcbus.producer.ddl.statements import changes
from cdcbus.producer.ddl.table_changes import Dropped, Unread
from cdcbus.producer.schema import ddl_scanner
from cdcbus.producer.schema.ddl_scanner import DdlScan

FILE = "mysql-bin.000007"


def at(pos: int) -> BinlogCoordinates:
    return BinlogCoordinates(FILE, pos)


def event(kind: int, body: bytes, end: int) -> bytes:
    return HEADER.pack(1, kind, 1, HEADER.size + len(body), end, 0) + body


def rotate(pos: int, file: str = FILE) -> bytes:
    """The event that each stream begins with."""
    return event(BINLOG.ROTATE_EVENT, struct.pack("<Q", pos) + file.encode(), 0)


def ddl(sql: str, end: int) -> bytes:
    schema = b"shop"
    head = struct.pack("<IIBHH", 1, 0, len(schema), 0, 0)
    return event(BINLOG.QUERY_EVENT, head + schema + b"\0" + sql.encode(), end)


def found(scan: DdlScan, after: int, until: int) -> list[tuple[bytes, int]]:
    return [(one.sql, one.end.pos) for one in scan.between(at(after), at(until))]


def no_file_after(_: str, __: BinlogCoordinates) -> str:
    return ""


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
    scan = DdlScan(server.events, 0, {}, "9.7.0", no_file_after)
    assert found(scan, 1000, 1500) == BOTH
    assert server.asked == [at(1000), at(1000), at(1200), at(1200)]


@pytest.mark.usefixtures("no_pause")
def test_what_the_server_does_not_send_for_long_is_unavailable_and_not_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ddl_scanner, "WAIT_SECONDS", 0.0)
    server = Server(STATEMENTS, [1200])
    scan = DdlScan(server.events, 0, {}, "9.7.0", no_file_after)
    with pytest.raises(SourceUnavailable, match=rf"only to {FILE}:1200.* to {FILE}:1500"):
        scan.between(at(1000), at(1500))
    server.sent_to = [1500]
    assert found(scan, 1000, 1500) == BOTH


def head(end: int, algorithm: bytes = b"\0") -> bytes:
    """The first event of a file."""
    body = struct.pack("<H", 4) + b"9.7.0".ljust(50, b"\0") + bytes(60) + algorithm
    return with_checksum(event(BINLOG.FORMAT_DESCRIPTION_EVENT, body, end))


def with_checksum(data: bytes) -> bytes:
    return data + struct.pack("<I", zlib.crc32(data))


HEAD = head(0)


@pytest.mark.parametrize("first", [HEAD, head(126)])
@pytest.mark.parametrize("is_in_one", [False, True])
def test_the_repeated_head_of_a_file_is_not_taken_for_an_event_behind_4_gb(
    first: bytes, *, is_in_one: bool
) -> None:
    """Whether it has no offset, or its own."""
    place, end = 3_000_000_000, 3_000_000_200
    events = [rotate(place), first, ddl("ALTER TABLE t ADD c INT", end)]
    lists = [events] if is_in_one else [[each] for each in events]
    scan = DdlScan(lambda _: iter(lists), 0, {}, "9.7.0", no_file_after)
    assert found(scan, place, end) == [(b"ALTER TABLE t ADD c INT", end)]


def test_a_damaged_event_may_have_changed_any_table(caplog: pytest.LogCaptureFixture) -> None:
    """Statements are found before it and behind it, though their places are not sent."""
    first, second = (with_checksum(ddl(sql, 0)) for sql in ("DROP TABLE a", "DROP TABLE b"))
    gtid = with_checksum(event(BINLOG.MARIADB_GTID_EVENT, bytes(23), 1000))
    damaged = gtid.replace(b"\0\0\0\0", b"\0\1\0\0", 1)
    stream = [rotate(1000 - len(gtid)), head(0, b"\1"), damaged, first, damaged, second]
    scan = DdlScan(lambda _: iter([stream]), 0, {}, "11.4.5-MariaDB", no_file_after)
    ends = [1000, 1000 + len(first), 1000 + len(first) + len(gtid)]
    ends.append(ends[-1] + len(second))
    statements = scan.between(at(1000 - len(gtid)), at(ends[-1]))
    assert [one.end.pos for one in statements] == ends
    assert [changes(one.sql, one.schema) for one in statements] == [
        [Unread(None)],
        [Dropped(TableId("shop", "a"))],
        [Unread(None)],
        [Dropped(TableId("shop", "b"))],
    ]
    assert f"looking for DDL: {FILE}:{1000 - len(gtid)}: the checksum" in caplog.text


def test_a_damaged_head_of_a_file_ends_the_search() -> None:
    damaged = head(250, b"\1").replace(b"9.7.0", b"9.6.0")
    scan = DdlScan(lambda _: iter([[rotate(4), damaged]]), 0, {}, "9.7.0", no_file_after)
    with pytest.raises(UnreadableEvent, match=f"^{FILE}:4: the checksum"):
        scan.between(at(4), at(300))


def test_a_place_beyond_4_gb_is_reached_from_the_head_of_its_file() -> None:
    """A request has 32 bits for the offset, and so has an event."""
    asked = []

    def events(place: BinlogCoordinates) -> Iterator[list[bytes]]:
        asked.append(place)
        yield [rotate(4), head(120)]
        for end in (1_000_000_000, 3_000_000_000, 4_900_000_000, 5_000_000_000, 5_000_000_300):
            yield [ddl(f"ALTER TABLE t ADD c{end} INT", end % SPAN)]

    scan = DdlScan(events, 0, {}, "9.7.0", no_file_after)
    last = (b"ALTER TABLE t ADD c5000000300 INT", 5_000_000_300)
    assert found(scan, 5_000_000_000, 5_000_000_300) == [last]
    earlier = (b"ALTER TABLE t ADD c5000000000 INT", 5_000_000_000)
    assert found(scan, 4_900_000_000, 5_000_000_300) == [earlier, last]
    assert found(scan, 4_900_000_000, 5_000_000_300) == [earlier, last]
    assert asked == [at(4), at(4)]


def test_a_transaction_of_mariadb_with_more_than_4_gb_is_passed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its inner events carry no offsets."""
    span = 1 << 12
    monkeypatch.setattr(coordinates, "SPAN", span)
    gtid, row = event(BINLOG.MARIADB_GTID_EVENT, bytes(23), 1000), event(0, bytes(481), 0)
    commit = 1000 + 12 * len(row) + 31
    events = [
        rotate(900),
        HEAD,
        gtid,
        *[row] * 12,
        event(BINLOG.XID_EVENT, bytes(12), commit % span),
    ]
    events.append(ddl("ALTER TABLE t ADD c INT", commit % span + 200))
    assert commit > span
    scan = DdlScan(lambda _: iter([events]), 0, {}, "11.4.5-MariaDB", no_file_after)
    assert found(scan, 900, commit + 200) == [(b"ALTER TABLE t ADD c INT", commit + 200)]


@pytest.mark.usefixtures("no_pause")
def test_a_file_that_breaks_off_is_left_for_the_next_one() -> None:
    """Its last transaction never counted; without a next file, the server does not hold it."""
    following = BinlogCoordinates("mysql-bin.000008", 4)
    asked = []

    def events(place: BinlogCoordinates) -> Iterator[list[bytes]]:
        asked.append(place)
        yield [rotate(place.pos, place.file)]
        if place == following:
            yield [ddl("ALTER TABLE t ADD d INT", 500)]
            return
        yield [ddl("ALTER TABLE t ADD c INT", 1200)]
        raise PositionLost("event log truncated in the middle of event; consider ...")

    until = BinlogCoordinates(following.file, 500)
    scan = DdlScan(events, 0, {}, "9.7.0", lambda file, __: following.file if file == FILE else "")
    assert [one.end for one in scan.between(at(1000), until)] == [at(1200), until]
    assert asked == [at(1000), following]
    with pytest.raises(PositionLost):
        DdlScan(events, 0, {}, "9.7.0", no_file_after).between(at(1000), until)
