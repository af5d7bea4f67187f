"""Events to batches, with events put together here; what real servers send is in
tests/integration/producer."""

from __future__ import annotations

import struct
import tracemalloc
import zlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, cast

import pytest
from pymysqlreplication.constants import BINLOG
from pymysqlreplication.constants import FIELD_TYPE as TYPE

from cdcbus.plugins.errors import UnreadableEvent
from cdcbus.plugins.positions import BinlogPosition, Published
from cdcbus.plugins.rowchange import TableDdl
from cdcbus.producer.binlog.coordinates import SPAN
from cdcbus.producer.binlog.event_types import XA_PREPARE
from cdcbus.producer.config import DdlConfig, Elsewhere, FilterConfig
from cdcbus.producer.schema.schema_reader import UnopenedTable
from cdcbus.producer.server.connection import Server
from cdcbus.producer.source.binlog_source import askable
from cdcbus.producer.source.ddl_events import DdlReader
from cdcbus.producer.source.event_reader import NOTHING_ELSEWHERE, Reading
from cdcbus.producer.source.row_events import Batch, Part, Rows
from cdcbus.producer.table_filter import TableFilter
from tests.unit.producer.decoding.test_table_map import strings, table_map

UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
SERVER = Server(
    "9.0.0",
    "00000000-0000-0000-0000-000000000001",
    1,
    has_checksum=False,
    has_gtids=True,
    charsets={},
)
IGNORABLE = 0x80
IGNORABLE_KIND = 99
DDL = DdlConfig(definitions=True)


class NoHistory:
    """Stands for what is only asked about tables that do not describe themselves."""

    def follow(self, *_: Any) -> None: ...

    def passed(self, *_: Any) -> None: ...

    def server_started(self) -> None: ...

    def complete(self, *_: Any) -> Any:
        raise UnopenedTable("source table shop.b cannot be opened: the server says 1194")


class Binlog:
    """Writes events, each at the place where the one before ends."""

    def __init__(self, *, has_checksum: bool = False) -> None:
        self.pos = 4
        self.events: list[bytes] = []
        self.has_checksum = has_checksum

    def add(self, kind: int, body: bytes, flags: int = 0) -> int:
        """The place where it starts."""
        start = self.pos
        size = 19 + len(body) + 4 * self.has_checksum
        self.pos += size
        event = struct.pack("<IBIIIH", 1_700_000_000, kind, 7, size, self.pos % SPAN, flags) + body
        if self.has_checksum:
            event += struct.pack("<I", zlib.crc32(event))
        self.events.append(event)
        return start

    def query(self, sql: bytes) -> int:
        return self.add(
            BINLOG.QUERY_EVENT, bytes(8) + b"\x00" + bytes(2) + b"\x00\x00" + b"\0" + sql
        )

    def begin(self, times: bytes = (5_000_000).to_bytes(7, "little")) -> None:
        self.add(
            BINLOG.GTID_LOG_EVENT,
            b"\0"
            + bytes.fromhex(UUID.replace("-", ""))
            + struct.pack("<Q", 23)
            + bytes(17)
            + times,
        )
        self.query(b"BEGIN")
        self.add(BINLOG.TABLE_MAP_EVENT, table_map(bytes((TYPE.LONG,)), b"", (4, strings("id"))))

    def row(self, number: int) -> None:
        self.add(
            BINLOG.WRITE_ROWS_EVENT_V1,
            (77).to_bytes(6, "little") + bytes(2) + b"\x01\xff\x00" + struct.pack("<i", number),
        )

    def transaction(self, *numbers: int) -> None:
        self.begin()
        for number in numbers:
            self.row(number)
        self.add(BINLOG.XID_EVENT, bytes(8))

    def heartbeat(self, file: str = "bin.1") -> None:
        """The server says how far it is, and has nothing to send."""
        self.events.append(
            struct.pack(
                "<IBIIIH", 0, BINLOG.HEARTBEAT_LOG_EVENT, 7, 19 + len(file), self.pos % SPAN, 0
            )
            + file.encode()
        )

    def read(
        self,
        size: int = 1,
        published: Published | None = None,
        elsewhere: Elsewhere = NOTHING_ELSEWHERE,
    ) -> Iterator[Batch]:
        tables = TableFilter(FilterConfig(regexes=(r".*\..*",)))
        reading = Reading(
            BinlogPosition("bin.1", 4, published=published),
            replace(SERVER, has_checksum=self.has_checksum),
            tables,
            cast(Any, NoHistory()),
            DdlReader(tables, DDL),
            elsewhere=elsewhere,
        )
        return reading.batches(self.events[i : i + size] for i in range(0, len(self.events), size))


def numbers(parts: list[Part]) -> list[str]:
    """What the rows hold, and the kind of what is DDL."""
    return [
        text
        for part in parts
        for text in ([part.kind] if isinstance(part, TableDdl) else ids(part))
    ]


def ids(rows: Rows) -> list[str]:
    return [(change.after or {})["id"] or "" for change in rows.changes()]


def until_it_stops(batches: Iterator[Batch]) -> tuple[list[str], int, str]:
    """Rows, the last edge, and the sentence."""
    found: list[str] = []
    edge = 0
    with pytest.raises(UnreadableEvent) as raised:
        for batch in batches:
            found += numbers([*batch.closed, *batch.opened])
            edge = batch.edge.pos if batch.edge is not None else edge
    return found, edge, str(raised.value)


@pytest.mark.parametrize("size", [1, 100])
@pytest.mark.parametrize(
    ("kind", "words"), [(99, "number 99, unknown to this release"), (0x1A, "INCIDENT")]
)
def test_an_event_that_cannot_be_read_stops_by_name_after_what_is_before_it(
    kind: int, words: str, size: int
) -> None:
    binlog = Binlog()
    binlog.transaction(1, 2)
    edge = binlog.pos
    start = binlog.add(kind, b"")
    binlog.transaction(3)
    assert until_it_stops(binlog.read(size)) == (
        ["1", "2"],
        edge,
        f"bin.1:{start}: {sentence(kind)}",
    )
    assert words in sentence(kind)


def sentence(kind: int) -> str:
    binlog = Binlog()
    binlog.add(kind, b"")
    return until_it_stops(binlog.read())[2].partition(": ")[2]


@pytest.mark.parametrize("size", [1, 100])
def test_a_row_with_another_bit_stops_after_the_transactions_before_it(size: int) -> None:
    binlog = Binlog(has_checksum=True)
    binlog.transaction(1, 2)
    edge = binlog.pos
    binlog.begin()
    start = binlog.pos
    binlog.row(3)
    damaged = bytearray(binlog.events[-1])
    damaged[-5] ^= 4
    binlog.events[-1] = bytes(damaged)
    binlog.add(BINLOG.XID_EVENT, bytes(8))
    found, last, sentence = until_it_stops(binlog.read(size))
    assert (found, last) == (["1", "2"], edge)
    assert sentence.startswith(f"bin.1:{start}: the checksum (CRC32) of the binlog event does not")


def test_of_a_transaction_that_cannot_be_read_no_rows_come() -> None:
    binlog = Binlog()
    binlog.transaction(1)
    binlog.begin()
    binlog.row(2)
    binlog.row(3)
    binlog.query(b"INSERT INTO t VALUES (4)")
    assert until_it_stops(binlog.read(100))[0] == ["1"]


@pytest.mark.parametrize("size", [1, 100])
def test_a_table_that_cannot_be_opened_holds_back_nothing_of_what_is_before_it(size: int) -> None:
    binlog = Binlog()
    binlog.transaction(1)
    binlog.transaction(2)
    edge = binlog.pos
    binlog.begin()
    binlog.row(3)
    binlog.add(BINLOG.TABLE_MAP_EVENT, table_map(bytes((TYPE.LONG,)), b"", table="b"))
    binlog.row(4)
    closed: list[Part] = []
    edges = []
    with pytest.raises(UnopenedTable, match=r"^source table shop\.b cannot be opened"):
        for batch in binlog.read(size):
            closed += batch.closed
            edges.append(batch.edge.pos if batch.edge else 0)
            assert size == 1 or not batch.opened
    assert numbers(closed) == ["1", "2"]
    assert max(edges) == edge


def test_an_unknown_event_that_may_be_ignored_is() -> None:
    binlog = Binlog()
    binlog.add(99, b"whatever", IGNORABLE)
    binlog.transaction(1)
    assert [numbers(batch.closed) for batch in binlog.read(100)] == [["1"]]


def test_rows_that_are_rolled_back_do_not_come() -> None:
    binlog = Binlog()
    binlog.begin()
    binlog.row(1)
    binlog.row(2)
    binlog.query(b"ROLLBACK")
    edge = binlog.pos
    binlog.transaction(3)
    (batch,) = binlog.read(100)
    assert numbers(batch.closed) == ["3"]
    (first, *_) = [batch.edge for batch in binlog.read(6) if batch.edge is not None]
    assert first.pos == edge


def test_rows_that_are_rolled_back_after_some_have_come_stop() -> None:
    binlog = Binlog()
    binlog.begin()
    for number in range(3):
        binlog.row(number)
    binlog.query(b"ROLLBACK")
    found, edge, words = until_it_stops(binlog.read(1))
    assert (found, edge) == (["0", "1"], 0)
    assert "ROLLBACK of a transaction whose row changes have been sent in part" in words


def seconds(times: bytes) -> tuple[int, str]:
    binlog = Binlog()
    binlog.begin(times)
    binlog.row(1)
    binlog.query(b"COMMIT")
    ((rows,),) = (batch.closed for batch in binlog.read(100))
    assert isinstance(rows, Rows)
    return rows.origin.commit_us, rows.origin.server_uuid


def test_the_time_of_a_row_is_its_commit_on_the_first_server() -> None:
    here, first = 7_000_001, 5_000_003
    assert seconds(here.to_bytes(7, "little")) == (here, UUID)
    assert seconds((here | 1 << 55).to_bytes(7, "little") + first.to_bytes(7, "little")) == (
        first,
        UUID,
    )


def test_a_server_that_knows_only_seconds_gives_these() -> None:
    assert seconds(b"") == (1_700_000_000_000_000, UUID)


def edges(binlog: Binlog) -> list[int | None]:
    """The place of each batch's edge, a batch for each event."""
    return [None if batch.edge is None else batch.edge.pos for batch in binlog.read(1)]


def test_a_heartbeat_after_events_without_effect_moves_the_edge_once() -> None:
    binlog = Binlog()
    binlog.transaction(1)
    end = binlog.pos
    binlog.heartbeat()
    binlog.add(IGNORABLE_KIND, b"", IGNORABLE)
    later = binlog.pos
    binlog.heartbeat()
    binlog.heartbeat()
    binlog.transaction(2)
    times = [batch.edge.timestamp_ms for batch in binlog.read(1) if batch.edge is not None]
    assert [edge for edge in edges(binlog) if edge is not None] == [end, later, binlog.pos]
    # The time is that of the last transaction, after which another server's binlog is searched.
    assert times == [5_000] * 3


def test_a_heartbeat_beyond_four_gigabytes_moves_the_edge_to_the_whole_place() -> None:
    binlog = Binlog()
    binlog.transaction(1)
    for _ in range(3):
        binlog.pos += SPAN // 2 - 100
        binlog.add(IGNORABLE_KIND, b"", IGNORABLE)
    binlog.heartbeat()
    assert edges(binlog)[-1] == binlog.pos > SPAN


@pytest.mark.parametrize("file", ["bin.1", "bin.2"])
def test_a_heartbeat_moves_no_edge_within_a_transaction_or_to_another_file(file: str) -> None:
    binlog = Binlog()
    if file == "bin.1":
        binlog.begin()
        binlog.row(1)
    else:
        binlog.add(IGNORABLE_KIND, b"", IGNORABLE)
    binlog.heartbeat(file)
    assert set(edges(binlog)) == {None}


def test_a_heartbeat_moves_no_edge_back() -> None:
    binlog = Binlog()
    binlog.transaction(1)
    binlog.add(IGNORABLE_KIND, b"", IGNORABLE)
    binlog.pos -= 19
    binlog.heartbeat()
    assert edges(binlog)[-1] is None


def test_numbers_of_tables_are_forgotten_though_a_file_has_any_number_of_them() -> None:
    """A server that has more tables than its cache gives a table another number each time."""
    binlog, many = Binlog(), 20_000
    binlog.transaction(1)
    first, tables, row, end = binlog.events[:2], *binlog.events[2:]

    def numbered(event: bytes, number: int) -> bytes:
        return event[:19] + number.to_bytes(6, "little") + event[25:]

    binlog.events = [
        each for i in range(many) for each in (*first, numbered(tables, i), numbered(row, i), end)
    ]
    tracemalloc.start()
    try:
        found = sum(len(batch.closed) for batch in binlog.read(10))
        assert (found, tracemalloc.get_traced_memory()[0] < many * 20) == (many, True)
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("size", [1, 100])
def test_ddl_stands_between_the_rows_before_it_and_behind_it_and_ends_its_own_transaction(
    size: int,
) -> None:
    binlog = Binlog()
    binlog.transaction(1)
    binlog.query(b"TRUNCATE TABLE shop.t")
    edge = binlog.pos
    binlog.query(b"ALTER TABLE shop.t ADD c INT")
    binlog.transaction(2)
    batches = list(binlog.read(size))
    assert [number for batch in batches for number in numbers(batch.closed)] == [
        "1",
        "TRUNCATE",
        "ALTER",
        "2",
    ]
    if size == 1:
        (truncated,) = [batch for batch in batches if numbers(batch.closed) == ["TRUNCATE"]]
        assert truncated.edge is not None
        assert truncated.edge.pos == edge


def test_a_server_that_starts_has_no_temporary_tables() -> None:
    """After a crash, too, when the binlog does not have their DROP."""

    def kinds(started_s: int) -> list[str]:
        binlog = Binlog(has_checksum=True)
        binlog.query(b"CREATE TEMPORARY TABLE shop.t (id INT)")
        head = b"\4\0" + b"9.0.0".ljust(50, b"\0") + struct.pack("<I", started_s)
        binlog.add(BINLOG.FORMAT_DESCRIPTION_EVENT, head + bytes(40) + b"\1")
        binlog.query(b"DROP TABLE shop.t")
        return [kind for batch in binlog.read() for kind in numbers(batch.closed)]

    assert kinds(0) == []
    assert kinds(1_700_000_000) == ["ERASE"]


def test_the_ddl_of_create_table_select_comes_before_its_rows() -> None:
    binlog = Binlog()
    binlog.query(b"CREATE TABLE shop.u (id INT) START TRANSACTION")
    binlog.add(BINLOG.TABLE_MAP_EVENT, table_map(bytes((TYPE.LONG,)), b"", (4, strings("id"))))
    binlog.row(1)
    binlog.row(2)
    binlog.add(BINLOG.XID_EVENT, bytes(8))
    (batch,) = binlog.read(100)
    assert numbers(batch.closed) == ["CREATE", "1", "2"]


@pytest.mark.parametrize(
    "sql",
    [
        b"CREATE DEFINER=`r`@`%` PROCEDURE `p`()\nSTART TRANSACTION",
        b"CREATE EVENT e ON SCHEDULE EVERY 1 DAY DO START TRANSACTION",
    ],
)
def test_a_program_whose_body_starts_a_transaction_starts_none(sql: bytes) -> None:
    binlog = Binlog()
    binlog.query(sql)
    edges = [batch.edge for batch in binlog.read()]
    assert [edge and edge.pos for edge in edges] == [binlog.pos]


@pytest.mark.parametrize(
    ("server_uuid", "is_own"), [(SERVER.server_uuid, True), ("", False), (UUID, False)]
)
def test_a_place_beyond_four_gigabytes_is_read_up_to_on_its_own_server_only(
    server_uuid: str, is_own: bool
) -> None:
    """On another one reading goes by GTIDs, which must not be lost."""
    stored = BinlogPosition(
        "bin.7", SPAN + 9, gtid=f"{UUID}:1-5", server_uuid=server_uuid, file_created_ms=5000
    )
    published = Published("bin.7", SPAN + 9, stored.gtid, 5000)
    again = replace(stored, pos=4, gtid="", published=published)
    assert askable(stored, SERVER) == (again if is_own else stored)
    assert askable(replace(stored, pos=SPAN - 1), SERVER).pos == SPAN - 1


def test_what_cannot_be_read_before_a_position_is_passed() -> None:
    """In a file of more than 4 GB, which is read from its head."""
    binlog = Binlog()
    binlog.query(b"INSERT INTO shop.t VALUES (4)")
    binlog.query(b"CREATE TABLE shop.u SELECT * FROM shop.t")
    binlog.query(b"TRUNCATE TABLE `gr\xf6\xdfe`")
    binlog.add(0x1A, b"an incident")
    binlog.begin()
    binlog.events[-1] = binlog.events[-1].replace(bytes((TYPE.LONG,)), b"\xf0")  # of another type
    binlog.row(1)
    binlog.add(BINLOG.XID_EVENT, bytes(8))
    published = Published("bin.1", binlog.pos)
    binlog.transaction(2)
    (batch,) = binlog.read(100, published)
    assert numbers(batch.closed) == ["2"]
    assert until_it_stops(binlog.read(1, Published("bin.1", 4)))[0] == []


def test_a_statement_of_an_xa_transaction_stops_also_before_a_position() -> None:
    """Its XA COMMIT can be behind it."""
    binlog = Binlog()
    binlog.query(b"XA START X'61',X'',1")
    binlog.query(b"INSERT INTO shop.t VALUES (4)")
    published = Published("bin.1", binlog.pos)
    assert "logged as text" in until_it_stops(binlog.read(1, published))[2]


def test_what_is_published_beside_an_xa_transaction_says_when_its_file_was_begun() -> None:
    binlog = Binlog(has_checksum=True)
    binlog.add(BINLOG.FORMAT_DESCRIPTION_EVENT, b"\4\0" + b"9.0.0".ljust(94, b"\0") + b"\1")
    binlog.query(b"XA START X'61',X'',1")
    binlog.add(XA_PREPARE, struct.pack("<BIII", 0, 1, 1, 0) + b"a")
    binlog.transaction(1)
    (batch,) = binlog.read(100)
    assert batch.edge is not None
    assert batch.edge.pos == 4
    assert batch.edge.published == Published("bin.1", binlog.pos, "", 1_700_000_000_000)


def test_places_beyond_four_gigabytes_are_whole() -> None:
    """An event tells 32 bits of them; those between are of one that is far larger here than what
    is read of it."""
    binlog = Binlog()
    binlog.transaction(1)
    for _ in range(3):
        binlog.pos += SPAN // 2 - 100
        binlog.add(IGNORABLE_KIND, b"", IGNORABLE)
    binlog.transaction(2)
    [batch] = binlog.read(100)
    assert numbers(batch.closed) == ["1", "2"]
    assert batch.edge is not None
    assert batch.edge.pos == binlog.pos > SPAN
