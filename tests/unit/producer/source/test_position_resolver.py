"""Places in a binlog whose events come without a server."""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

import pymysql
import pytest
from pymysqlreplication.constants import BINLOG

from cdcbus.plugins.errors import (
    PositionLost,
    SourceBehind,
    SourceUnavailable,
    UnreadableEvent,
)
from cdcbus.plugins.positions import BinlogPosition, Published
from cdcbus.producer.binlog import coordinates
from cdcbus.producer.binlog.event_types import HEADER
from cdcbus.producer.binlog.gtid import GtidSet, MysqlGtids
from cdcbus.producer.config import SourceConfig
from cdcbus.producer.server import connection as servers
from cdcbus.producer.server.connection import Server
from cdcbus.producer.server.errors import source_error
from cdcbus.producer.source import position_resolver
from cdcbus.producer.source.position_resolver import Begin, Binlog

if TYPE_CHECKING:
    from cdcbus.producer.server.connection import Connection

FILE = "mysql-bin.000007"
SPAN = 1 << 12  # stands for 4 GB


def event(kind: int, body: bytes, end: int, second: int = 1) -> bytes:
    return HEADER.pack(second, kind, 1, HEADER.size + len(body), end % SPAN, 0) + body


def with_checksum(data: bytes) -> bytes:
    return data + struct.pack("<I", zlib.crc32(data))


ROTATE = event(BINLOG.ROTATE_EVENT, struct.pack("<Q", 4) + FILE.encode(), 0)
HEAD = with_checksum(event(BINLOG.FORMAT_DESCRIPTION_EVENT, b"\4\0" + bytes(61), 250))


class Sent(Binlog):
    """A binlog of which these events are sent, one list each time that it is read."""

    def __init__(self, events: list[list[bytes]], version: str = "11.4.5-MariaDB") -> None:
        server = Server(version, "", 1, has_checksum=False, has_gtids=True, charsets={})
        super().__init__(cast("Connection", None), server, SourceConfig((("h", 1),), "u"))
        self.sent = events
        self.starts: list[BinlogPosition | GtidSet] = []

    @contextmanager
    def _events(self, start: BinlogPosition | GtidSet) -> Iterator[Iterator[bytes]]:
        self.starts.append(start)
        yield iter(self.sent.pop(0))


@pytest.mark.parametrize("has_offsets", [False, True], ids=["MariaDB", "MySQL"])
def test_a_transaction_behind_4_gb_begins_where_it_does(
    monkeypatch: pytest.MonkeyPatch, *, has_offsets: bool
) -> None:
    """Events have 32 bits for the offset; on MariaDB those within a transaction have none."""
    monkeypatch.setattr(coordinates, "SPAN", SPAN)
    events = [ROTATE, HEAD, event(BINLOG.MARIADB_GTID_EVENT, bytes(21), 300)]
    pos = 300
    for _ in range(9):
        pos += 500
        events.append(event(BINLOG.WRITE_ROWS_EVENT_V1, bytes(481), pos if has_offsets else 0))
    pos += 31
    events.append(event(BINLOG.XID_EVENT, bytes(12), pos))
    events.append(event(BINLOG.MARIADB_GTID_EVENT, bytes(21), pos + 40))
    assert pos > SPAN
    begins: list[Begin] = []
    start, end = BinlogPosition(FILE, 4), BinlogPosition(FILE, pos + 40)
    assert Sent([events])._first(start, end, begins.append) is None  # type: ignore[arg-type]
    assert begins == [Begin(FILE, 260, 1000, 1000), Begin(FILE, pos, 1000, 1000)]


def test_a_damaged_event_stops_a_search_and_leaves_the_gtids_before_a_place_unknown() -> None:
    head = with_checksum(event(BINLOG.FORMAT_DESCRIPTION_EVENT, b"\4\0" + bytes(60) + b"\1", 0))
    damaged = with_checksum(event(BINLOG.XID_EVENT, bytes(8), 300)).replace(b"\1", b"\2")
    sent = [ROTATE, head, damaged]
    start, end = BinlogPosition(FILE, 4), BinlogPosition(FILE, 300)
    binlog = Sent([sent, sent], "9.4.0")
    with pytest.raises(UnreadableEvent, match=rf"^{FILE}:\d+: the checksum"):
        binlog._first(start, end, lambda _: True)
    assert binlog._gtids_before(FILE, 300) == ""


def test_edges_behind_a_damaged_event_are_known_unless_the_server_breaks_off_there(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A place within an event must not count as one: the rest of its file would be skipped."""
    head = with_checksum(event(BINLOG.FORMAT_DESCRIPTION_EVENT, b"\4\0" + bytes(60) + b"\1", 0))
    damaged = with_checksum(event(BINLOG.XID_EVENT, bytes(8), 300)).replace(b"\1", b"\2")
    # The head says its length without its checksum here.
    damaged_end = len(head) + len(damaged)
    whole = with_checksum(event(BINLOG.XID_EVENT, bytes(8), damaged_end + 31))
    monkeypatch.setattr(Binlog, "_file_names", lambda _: [FILE, "next"])

    def noticed() -> Iterator[bytes]:
        yield from (ROTATE, head)
        raise PositionLost("event read from binlog did not pass crc check")

    for pos, is_edge in ((damaged_end, True), (damaged_end + 31, True), (damaged_end + 9, False)):
        place = coordinates.BinlogCoordinates(FILE, pos)
        sent = [ROTATE, head, damaged, whole]
        assert Sent([sent], "9.4.0").is_edge(place) is is_edge
        following = "next" if is_edge else ""
        assert Sent([sent], "9.4.0").file_after_break(FILE, place) == following
        broken_off = Sent(cast("list[list[bytes]]", [noticed(), noticed()]), "9.4.0")
        assert broken_off.is_edge(place) is None
        assert broken_off.file_after_break(FILE, place) == ""
    assert Sent([[ROTATE, head, damaged]], "9.4.0")._gtids_before(FILE, 350) == ""
    [line] = caplog.messages
    assert line.startswith(f"the GTIDs before {FILE}:350 are not known, as the event at {FILE}:")
    assert "set the position" not in line


UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
LISTED = {
    "9.4.0": (BINLOG.PREVIOUS_GTIDS_LOG_EVENT, MysqlGtids.parse(f"{UUID}:1-5").to_bytes()),
    "11.4.5-MariaDB": (
        BINLOG.MARIADB_GTID_GTID_LIST_EVENT,
        struct.pack("<IIIQ", 1, 0, 1, 5),
    ),
}


@pytest.mark.parametrize("version", LISTED)
def test_it_is_known_where_no_transaction_with_a_gtid_has_come_yet(version: str) -> None:
    kind, some = LISTED[version]
    head, none = [ROTATE, HEAD], event(kind, bytes(8 if version == "9.4.0" else 4), 300)
    begin = event(
        BINLOG.GTID_LOG_EVENT if version == "9.4.0" else BINLOG.MARIADB_GTID_EVENT, bytes(42), 400
    )
    end = event(BINLOG.XID_EVENT, bytes(8), 500)

    def is_before(sent: list[bytes], pos: int, gtid: str = "") -> bool:
        return Sent([sent], version).is_before_gtids(BinlogPosition(FILE, pos, gtid=gtid))

    assert is_before([*head, none, begin, end], 300)
    assert is_before([*head, none], 300)
    assert not is_before([*head, none, begin, end], 500)
    assert not is_before([*head, event(kind, some, 300), begin, end], 300)
    assert not is_before([*head, none, begin, end], 300, "0-1-1")
    assert not is_before([*head, begin, end], 500)
    checked = with_checksum(event(BINLOG.FORMAT_DESCRIPTION_EVENT, b"\4\0" + bytes(60) + b"\1", 0))
    damaged = with_checksum(none)[:-1] + b"?"
    assert not is_before([ROTATE, checked, damaged], 300)


class AtEnd(Sent):
    """A MySQL whose clock is at 9 s, and whose last transaction ends at 400."""

    def latest(self) -> BinlogPosition:
        return BinlogPosition(FILE, 400)

    def _newest_before_ms(self, file: str) -> int:
        return 0

    def _file_names(self) -> list[str]:
        return [FILE]

    def _named(self, file: str, pos: int, gtid: str = "") -> BinlogPosition:
        return BinlogPosition(file, pos)


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servers, "now_ms", lambda _: 9000)
    monkeypatch.setattr(position_resolver, "PAUSE_SECONDS", 0)


BEFORE = [ROTATE, HEAD, event(BINLOG.ANONYMOUS_GTID_LOG_EVENT, bytes(21), 330)]
AFTER = [
    event(BINLOG.ROTATE_EVENT, struct.pack("<Q", 330) + FILE.encode(), 0),
    event(BINLOG.ANONYMOUS_GTID_LOG_EVENT, bytes(21), 370, 2),
    event(BINLOG.XID_EVENT, bytes(12), 400, 2),
]


def test_a_transaction_that_the_server_does_not_send_yet_is_found() -> None:
    binlog = AtEnd([BEFORE, [], AFTER], "9.4.0")
    assert binlog.at_time(2000) == BinlogPosition(FILE, 330)
    assert binlog.starts[1:] == [BinlogPosition(FILE, 330)] * 2


def test_the_end_is_that_before_the_search() -> None:
    """What is committed after the last event was sent is no part of what was searched."""
    binlog = AtEnd([BEFORE, AFTER], "9.4.0")
    binlog.latest = iter([BinlogPosition(FILE, 400), BinlogPosition(FILE, 500)]).__next__  # type: ignore[method-assign]
    assert binlog.at_time(3000) == BinlogPosition(FILE, 400)


def test_a_server_that_never_sends_what_it_has_written_is_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(position_resolver, "WAIT_SECONDS", -1)
    message = f"sends its binlog only to {FILE}:330, and has written it to {FILE}:400"
    with pytest.raises(SourceUnavailable, match=message):
        AtEnd([BEFORE, []], "9.4.0").at_time(2000)


def ms(minute: int, second: int = 0) -> int:
    return (60 * minute + second) * 1000


class Behind(Sent):
    """A server whose clock is ten minutes behind; it was made the source at 30:00 by the other
    one's clock, at 20:00 by its own, and has begun a file since."""

    span_ms = 1
    files = {
        "b.1": (ms(0), [ms(10), ms(29, 30), ms(30), ms(20, 10)]),
        "b.2": (ms(22), [ms(22, 5), ms(24)]),
    }

    def _file_names(self) -> list[str]:
        return list(self.files)

    def created_ms(self, file: str) -> int:
        return self.files[file][0]

    def _newest_before_ms(self, file: str) -> int:
        created_ms, commits = self.files[file]
        return max(created_ms, commits[0])

    def latest(self) -> BinlogPosition:
        return BinlogPosition("b.2", 2)

    def _named(self, file: str, pos: int, gtid: str = "") -> BinlogPosition:
        return BinlogPosition(file, pos)

    def _first(
        self, start: Any, end: BinlogPosition, is_wanted: Callable[[Begin], bool]
    ) -> Begin | None:
        for file in self._file_names()[self._file_names().index(start.file) :]:
            for number, commit_ms in enumerate(self.files[file][1]):
                if is_wanted(begin := Begin(file, number, commit_ms, self.span_ms)):
                    return begin
        return None


@pytest.mark.parametrize("now_ms", [ms(25), ms(45)], ids=["before that time", "after it"])
def test_what_a_server_whose_clock_is_behind_has_committed_itself_is_not_left_out(
    monkeypatch: pytest.MonkeyPatch, now_ms: int
) -> None:
    monkeypatch.setattr(servers, "now_ms", lambda _: now_ms)
    monkeypatch.setattr("time.time_ns", lambda: (now_ms + ms(10)) * 1_000_000)
    binlog = Behind([], "9.4.0")
    # 29:00 less the ten minutes: the first transaction since is in the older file
    assert binlog.from_time(ms(30), ms(1)) == BinlogPosition("b.1", 1)


@pytest.mark.parametrize(("span_ms", "expected"), [(1, ("b.2", 1)), (1000, ("b.2", 0))])
def test_only_a_time_that_is_known_in_whole_seconds_stands_for_its_second(
    monkeypatch: pytest.MonkeyPatch, span_ms: int, expected: tuple[str, int]
) -> None:
    monkeypatch.setattr(servers, "now_ms", lambda _: ms(40))
    binlog = Behind([], "9.4.0")
    binlog.files = {"b.2": binlog.files["b.2"]}
    binlog.span_ms = span_ms
    assert binlog.at_time(ms(22, 5)) == BinlogPosition("b.2", 0)
    assert binlog.at_time(ms(22, 5) + 1) == BinlogPosition(*expected)


def test_a_gap_before_the_oldest_file_is_not_hidden_by_a_clock_that_is_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its files are timed by that clock, too: what it calls 0:00 was ten minutes past."""
    monkeypatch.setattr(servers, "now_ms", lambda _: ms(25))
    monkeypatch.setattr("time.time_ns", lambda: ms(35) * 1_000_000)
    binlog = Behind([], "9.4.0")
    with pytest.raises(PositionLost, match="begins with"):
        binlog.from_time(ms(5), ms(1))
    # Twelve minutes past: the file is older.
    assert binlog.from_time(ms(12), ms(1)).file == "b.1"


class SetBack(Behind):
    """A server whose clock was set back by an hour at 60:00, in its second file."""

    files = {
        "b.1": (ms(1), [ms(2), ms(20)]),
        "b.2": (ms(30), [ms(31), ms(46), ms(59), ms(0)]),
        "b.3": (ms(15), [ms(16), ms(40)]),
        "b.4": (ms(50), [ms(51)]),
    }


@pytest.mark.parametrize(
    ("minute", "expected", "is_said"),
    [(45, ("b.2", 1), True), (55, ("b.2", 2), True), (25, ("b.2", 0), False)],
)
def test_transactions_before_the_clock_was_set_back_are_not_left_out(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    minute: int,
    expected: tuple[str, int],
    *,
    is_said: bool,
) -> None:
    monkeypatch.setattr(servers, "now_ms", lambda _: ms(70))
    assert SetBack([], "9.4.0").at_time(ms(minute)) == BinlogPosition(*expected)
    said = "its binlog's times go back between b.2 (1970-01-01 00:31:00 UTC) and b.3"
    assert (said in caplog.text) is is_said


def test_a_file_that_is_timed_by_its_first_transaction_hides_none_before_the_next_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As at a replica whose source's clock is ahead; the last file has none yet."""
    monkeypatch.setattr(servers, "now_ms", lambda _: ms(70))
    binlog = Behind([], "9.4.0")
    binlog.files = {"b.1": (ms(0), [ms(1)]), "b.2": (ms(20), [ms(25)]), "b.3": (ms(22), [0])}
    assert binlog.at_time(ms(23)) == BinlogPosition("b.2", 0)


def not_opened(code: int, text: str) -> SourceUnavailable:
    """What is said of a file that is listed and was removed with rm, or whose key is lost."""
    error = pymysql.err.OperationalError(code, text)
    found = source_error(error, SourceConfig((("h", 1),), "u"))
    found.__cause__ = error
    assert isinstance(found, SourceUnavailable)
    return found


class Files(Sent):
    """A server with these files, by their numbers: the minute in which each was created and had its
    only transaction, or why it cannot be read. It reads on in the next file, as servers do.
    `purged`: of the files before that number, the server has none any more once it was asked for
    one. `opened` are those that were read from."""

    def __init__(
        self, files: Mapping[int, int | Exception], purged: int = 0, version: str = "9.4.0"
    ) -> None:
        super().__init__([], version)
        self.files, self.purged, self.opened = dict(files), purged, list[str]()

    def _file_names(self) -> list[str]:
        return [f"b.{number}" for number in self.files]

    @contextmanager
    def _events(self, start: BinlogPosition | GtidSet) -> Iterator[Iterator[bytes]]:
        assert isinstance(start, BinlogPosition)
        self.opened.append(start.file)
        yield self._sent(int(start.file[2:]))

    def _sent(self, first: int) -> Iterator[bytes]:
        for gone in [number for number in self.files if number < self.purged]:
            del self.files[gone]
        if first not in self.files:
            raise PositionLost("Could not find first log file name in binary log index file")
        for number, minute in self.files.items():
            if number < first:
                continue
            if isinstance(minute, Exception):
                raise minute
            yield event(BINLOG.ROTATE_EVENT, struct.pack("<Q", 4) + f"b.{number}".encode(), 0)
            yield with_checksum(
                event(BINLOG.FORMAT_DESCRIPTION_EVENT, b"\4\0" + bytes(61), 250, 60 * minute)
            )
            yield event(BINLOG.ANONYMOUS_GTID_LOG_EVENT, bytes(21), 290, 60 * minute)

    def latest(self) -> BinlogPosition:
        return BinlogPosition(f"b.{max(self.files)}", 290)

    def _named(self, file: str, pos: int, gtid: str = "") -> BinlogPosition:
        return BinlogPosition(file, pos)


@pytest.fixture
def at_70(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servers, "now_ms", lambda _: ms(70))


UNREAD = [
    *(not_opened(1236, "Could not open log file"), not_opened(29, "File './b.2' not found")),
    *(PositionLost("cut"), UnreadableEvent("b.2:4: damaged")),
]
IDS = ["MySQL", "MariaDB", "cut", "damaged"]


@pytest.mark.usefixtures("at_70")
@pytest.mark.parametrize("error", UNREAD, ids=IDS)
def test_a_file_that_cannot_be_read_hides_no_time_behind_it(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    binlog = Files({1: 10, 2: error, 3: 30, 4: 40, 5: 50})
    assert binlog.at_time(ms(50)).file == "b.5"
    assert f"{error}; looking for 1970-01-01 00:50:00 UTC without b.2" in caplog.text
    # All before it is older.
    assert binlog.at_time(ms(31)).file == "b.4"


@pytest.mark.usefixtures("at_70")
@pytest.mark.parametrize("error", UNREAD, ids=IDS)
def test_a_file_that_cannot_be_read_and_may_hold_the_time_is_an_error(error: Exception) -> None:
    before: dict[int, int | Exception] = {1: 10, 2: error}
    first: dict[int, int | Exception] = {2: error, 3: 30}
    for place, files in (("b.1:290", before), ("b.2:4", first)):
        words = re.escape(str(error))
        if isinstance(error, SourceUnavailable):
            words = f"{re.escape(place)}: {words}"
        with pytest.raises(type(error), match=f"^{words}"):
            Files(files).at_time(ms(15))
    # Or the file before it does.
    assert Files({1: 10, 2: error, 3: 30}).at_time(ms(10)).file == "b.1"


@pytest.mark.usefixtures("at_70")
def test_files_that_are_purged_during_a_search_are_not_looked_for() -> None:
    files = {1: 10, 2: 20, 3: 30, 4: 40}
    assert Files(files, purged=3).at_time(ms(40)).file == "b.4"
    with pytest.raises(
        PositionLost, match=r"begins with b\.3 at .* 00:30:00 UTC, after the wanted"
    ):
        Files(files, purged=3).at_time(ms(15))


def test_an_oldest_file_that_cannot_be_read_keeps_no_failover_from_going_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(servers, "now_ms", lambda _: ms(70))
    monkeypatch.setattr("time.time_ns", lambda: ms(70) * 1_000_000)
    for error in UNREAD:
        assert Files({1: error, 2: 20, 3: 30}).from_time(ms(29), ms(1)).file == "b.3"


@pytest.mark.usefixtures("at_70")
def test_a_head_within_the_second_of_the_commit_before_it_is_no_time_that_goes_back(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A head has whole seconds, MySQL's commit times are finer: FLUSH came in the same second."""
    binlog = Files({1: 10, 2: 20, 3: 20})
    times = {"b.1": ms(10), "b.2": ms(20) + 700, "b.3": ms(20)}
    monkeypatch.setattr(binlog, "_newest_before_ms", times.__getitem__)
    binlog.at_time(ms(30))
    assert not caplog.messages
    times["b.3"] -= 1000
    binlog.at_time(ms(30))
    assert "go back between b.2 (1970-01-01 00:20:00" in caplog.text


@pytest.mark.parametrize("error", UNREAD, ids=IDS)
def test_an_oldest_file_that_cannot_be_read_hides_no_lost_position(error: Exception) -> None:
    binlog = Files({2: error, 3: 30})
    binlog._files = lambda: [(name, 290) for name in binlog._file_names()]  # type: ignore[method-assign]
    with pytest.raises(PositionLost, match=r"not hold b\.1:9: .* when b\.2 begins cannot be read"):
        binlog.check(BinlogPosition("b.1", 9))


@pytest.mark.usefixtures("at_70")
def test_a_server_that_is_away_ends_a_search() -> None:
    with pytest.raises(SourceUnavailable, match="cannot be reached"):
        Files({1: 10, 2: SourceUnavailable("cannot be reached"), 3: 30}).at_time(ms(30))


@pytest.mark.usefixtures("at_70")
def test_each_head_is_read_once_and_none_behind_the_time(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(position_resolver, "_SAID_FILES", 3)
    caplog.set_level("INFO")
    binlog = Files({number: number for number in range(1, 61)})
    binlog.at_time(ms(2))
    assert not caplog.messages
    assert binlog.at_time(ms(5)).file == "b.5"
    assert [line for line in caplog.messages if "in the heads of its binlog files, 60" in line]
    # The two last searches began in these.
    assert sorted(binlog.opened) == ["b.1", "b.1", "b.2", "b.3", "b.4", "b.4", "b.5"]


class Stopped(Exception):
    pass


@pytest.mark.usefixtures("at_70")
def test_a_search_ends_where_its_caller_does_not_proceed() -> None:
    binlog = Files({1: 10, 2: 20, 3: 30})

    def proceed() -> None:
        if len(binlog.opened) == 2:
            raise Stopped

    binlog._proceed = proceed
    with pytest.raises(Stopped):
        binlog.at_time(ms(30))
    assert binlog.opened == ["b.1", "b.2"]


def test_a_server_without_a_transaction_of_that_time_is_no_place_to_go_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What it has committed may be timed by a clock that is behind: its end would be no answer."""
    monkeypatch.setattr("time.time_ns", lambda: 9_000_000_000)
    with pytest.raises(PositionLost, match=r"holds no transaction of .* or later: it lacks what"):
        Behind([], "9.4.0").from_time(ms(60), ms(1))


class Held(Sent):
    """A server with these files, by their sizes; each was created in the minute of its number."""

    def __init__(self, version: str, **sizes: int) -> None:
        super().__init__([], version)
        self.sizes = {f"b.{name[1:]}": size for name, size in sizes.items()}

    def _files(self) -> list[tuple[str, int]]:
        return list(self.sizes.items())

    def created_ms(self, file: str) -> int:
        return ms(int(file[2:]))

    def _named(self, file: str, pos: int, gtid: str = "") -> BinlogPosition:
        return BinlogPosition(file, pos, gtid=gtid, file_created_ms=self.created_ms(file))

    def latest(self) -> BinlogPosition:
        return BinlogPosition("b.2", 500)

    def _first(self, *_: Any) -> None:
        return None


@pytest.fixture
def executed(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """What a server says of its GTIDs: what it `lacks` of a MySQL set, its binlog's `last`, and
    each server's last in its `state`."""
    said = {"lacks": "", "last": "0-1-200", "state": "0-1-200"}

    def missing(_: object, gtid: str) -> str:
        return said["lacks"] if said["lacks"] in gtid else ""

    monkeypatch.setattr(servers, "missing_gtids", missing)
    monkeypatch.setattr(servers, "purged_gtids", lambda *_: "")
    monkeypatch.setattr(servers, "logged_gtids", lambda _: said["last"])
    monkeypatch.setattr(servers, "gtid_states", lambda _: (said["state"], ""))
    return said


def at_xa(published: Published, gtid: str = "") -> BinlogPosition:
    """A position before an XA transaction that is still prepared."""
    return BinlogPosition("b.1", 300, 7, gtid, ms(1, 5), "me", ms(1), published)


@pytest.mark.parametrize("version", ["9.4.0", "11.4.5-MariaDB"])
@pytest.mark.parametrize(
    ("published", "words"),
    [
        (Published("b.3", 100, "", ms(3)), "does not hold b.3:100: it has b.1 to b.2"),
        (Published("b.2", 501, "", ms(2)), "does not hold b.2:501.* b.2 is 500 bytes long"),
        (Published("b.2", 400, "", ms(5)), "its b.2 is of .* the binlog was reset"),
    ],
    ids=["no such file", "shorter", "another file"],
)
def test_what_is_published_ahead_is_held_by_the_server_like_a_position(
    executed: dict[str, str], version: str, published: Published, words: str
) -> None:
    with pytest.raises(PositionLost, match=words + r".* though reading resumes at b\.1:300$"):
        Held(version, b1=400, b2=500).check(at_xa(published))


@pytest.mark.parametrize("version", ["9.4.0", "11.4.5-MariaDB"])
@pytest.mark.parametrize(
    "published",
    [
        Published("b.2", 500, "", ms(2)),
        Published("b.2", 500),  # as stored before it said when its file was begun
        Published("b.1", 400),
        Published("b.1", 450, "", ms(1)),  # lost with the power, and the next file was begun
        Published("b.1", 450),
    ],
)
def test_what_is_published_ahead_and_held_goes_with_the_position(
    executed: dict[str, str], version: str, published: Published
) -> None:
    position = at_xa(published)
    found = Held(version, b1=400, b2=500).check(position)
    assert (found.file, found.pos, found.batch_id) == ("b.1", 300, 7)
    assert (found.timestamp_ms, found.published) == (ms(1, 5), published)


def test_gtids_that_are_published_ahead_and_lost_are_noticed_on_the_same_server(
    executed: dict[str, str],
) -> None:
    position = at_xa(Published("b.2", 400, f"{UUID}:1-9"), f"{UUID}:1-5")
    binlog = Held("9.4.0", b1=400, b2=500)
    assert binlog.check(position).published == position.published
    executed["lacks"] = f"{UUID}:1-9"
    with pytest.raises(PositionLost, match=rf"not executed {UUID}:1-9.*lost them"):
        binlog.check(position)


def test_another_mysql_server_that_lacks_what_is_published_ahead_is_behind(
    executed: dict[str, str],
) -> None:
    position = at_xa(Published("x.9", 400, f"{UUID}:1-9"), f"{UUID}:1-5")
    binlog = Held("9.4.0", b1=400, b2=500)
    assert binlog.after_gtids(position).published == position.published
    executed["lacks"] = f"{UUID}:1-9"
    with pytest.raises(SourceBehind, match=f"not executed {UUID}:1-9"):
        binlog.after_gtids(position)


def test_numbers_of_another_mariadb_server_are_not_taken_for_what_is_published_ahead(
    executed: dict[str, str],
) -> None:
    """A replica that took over without the last transactions gives their numbers to its own."""
    position = at_xa(Published("x.9", 400, "0-1-150"), "0-1-100")
    binlog = Held("11.4.5-MariaDB", b1=400, b2=500)
    executed |= {"last": "0-2-160", "state": "0-1-150,0-2-160"}
    assert binlog.after_gtids(position).published == position.published
    executed |= {"last": "0-2-140", "state": "0-1-130,0-2-140"}
    with pytest.raises(SourceBehind, match="not executed 0-1-150"):
        binlog.after_gtids(position)
    executed |= {"last": "0-2-160", "state": "0-1-130,0-2-160"}
    with pytest.raises(PositionLost, match=r"not executed 0-1-150.* gone on without") as raised:
        binlog.after_gtids(position)
    assert not isinstance(raised.value, SourceBehind)
