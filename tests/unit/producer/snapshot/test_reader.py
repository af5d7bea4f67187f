"""What the reader of chunks asks a server, and what it makes of the answers, without a server."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pymysql
import pytest

from cdcbus.plugins.errors import SourceUnavailable
from cdcbus.plugins.positions import BinlogPosition
from cdcbus.plugins.rowchange import TableId
from cdcbus.producer.binlog.coordinates import BinlogCoordinates
from cdcbus.producer.config import SourceConfig
from cdcbus.producer.ddl.table_schema import TableColumn, TableSchema, UniqueKey
from cdcbus.producer.server import connection as servers
from cdcbus.producer.server.connection import Server
from cdcbus.producer.snapshot import reader as reading
from cdcbus.producer.snapshot.columns import selected_table
from cdcbus.producer.snapshot.reader import ChunkReader, Spool, SpoolError, VisibilityUnknown
from cdcbus.producer.snapshot.rows import images, key_texts
from cdcbus.producer.snapshot.window import View
from cdcbus.producer.source.position_resolver import Binlog

ORDERS = TableId("shop", "orders")
SCHEMA = TableSchema(
    (TableColumn("id", "int", is_nullable=False), TableColumn("note", "text", "latin1")),
    (UniqueKey("PRIMARY", ("id",)),),
    "latin1",
)
SELECTED = selected_table(ORDERS, SCHEMA, has_metadata=True)
MYSQL = Server("8.4.0", "uuid", 7, True, True, {})
OLD = Server("5.7.0", "uuid", 7, True, False, {})
MARIADB = Server("10.11.1-MariaDB", "", 7, True, True, {})
BEGUN = BinlogPosition("bin.000002", 50, gtid="u:1-9")
END = b"\xfe\0\0\x02\0"
Answer = Sequence[Sequence[Any]]


def row(number: int, note: str = "n") -> bytes:
    return b"".join(bytes((len(cell),)) + cell for cell in (str(number).encode(), note.encode()))


class World:
    """A server that gives the `answers` to what begins so, the last one again and again; the rows
    of SELECTs come as `packets`, in pieces of the given size. As a connection, and its cursor."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[str] = []
        self.answers: dict[str, list[Answer | Exception]] = {
            "SHOW GLOBAL VARIABLES": [[("server_uuid", "uuid"), ("server_id", "7")]],
            "SHOW BINARY LOG STATUS": [[("bin.000003", 9, "", "", "u:1-\n12")]],
            "SELECT UNIX_TIMESTAMP": [[(5_000_000,)]],
            "SELECT CONNECTION_ID": [[(11,)]],
        }
        self.packets: list[bytes] = []
        self.piece = 1 << 20
        self.data = b""
        self.slept: list[float] = []
        self.seconds = 0.0
        self.closed = 0
        self._found: Answer = []
        self._rfile = self._sock = self
        self.shut: list[int] = []
        monkeypatch.setattr(servers, "connect", lambda *_: self)
        monkeypatch.setattr(reading, "time", self)

    def reader(self, server: Server = MYSQL) -> ChunkReader:
        if server.is_mariadb:
            self.answers["SHOW GLOBAL VARIABLES"] = [[("server_id", "7")]]
        found = ChunkReader(SourceConfig((("h", 1),), "u"), server)
        self.asked.clear()
        return found

    def close(self) -> None:
        self.closed += 1

    # As a cursor

    def cursor(self) -> World:
        return self

    def __enter__(self) -> World:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def execute(self, sql: str, _: object = None) -> None:
        self.asked.append(sql)
        self._found = []
        for begin, answers in self.answers.items():
            if sql.startswith(begin):
                answer = answers.pop(0) if len(answers) > 1 else answers[0]
                if isinstance(answer, Exception):
                    raise answer
                self._found = answer

    def fetchall(self) -> Answer:
        return self._found

    # As the driver's inside

    def _execute_command(self, _: int, sql: str) -> None:
        self.asked.append(sql)
        self.data = b"".join(
            len(each).to_bytes(3, "little") + bytes((number % 256,)) + each
            for number, each in enumerate(self.packets)
        )

    def _read_packet(self) -> World:
        return self

    def read_length_encoded_integer(self) -> int:
        return 2

    def read1(self, size: int) -> bytes:
        size = min(size, self.piece)
        found, self.data = self.data[:size], self.data[size:]
        return found

    def shutdown(self, how: int) -> None:
        self.shut.append(how)
        raise OSError("it is closed already")

    # As the clock

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.seconds += seconds
        assert len(self.slept) < 5_000, "it waits for ever"

    def monotonic(self) -> float:
        return self.seconds


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


def never() -> bool:
    return False


def ids(rows: Iterable[bytes]) -> list[int]:
    """The first column of row images."""
    return [int(key_texts(each, SELECTED.table, (0,))[0]) for each in rows]


def test_another_server_than_the_streams_is_refused_and_let_go(world: World) -> None:
    world.answers["SHOW GLOBAL VARIABLES"] = [[("server_uuid", "other"), ("server_id", "7")]]
    with pytest.raises(SourceUnavailable, match="from server other, the binlog from uuid"):
        world.reader()
    assert world.closed == 1


@pytest.mark.parametrize(
    ("server", "limit"), [(MYSQL, "max_execution_time"), (MARIADB, "max_statement_time")]
)
def test_the_session_reads_without_a_limit_of_time_also_where_the_server_knows_none(
    world: World, server: Server, limit: str
) -> None:
    world.answers["SET SESSION max_"] = [pymysql.OperationalError(1193, "unknown")]
    world.answers["SHOW GLOBAL VARIABLES"] = [[("server_id", "7")]]
    if not server.is_mariadb:
        world.answers["SHOW GLOBAL VARIABLES"] = [[("server_uuid", "uuid"), ("server_id", "7")]]
    ChunkReader(SourceConfig((("h", 1),), "u"), server)
    assert f"SET SESSION {limit} = 0" in world.asked
    assert "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ" in world.asked


def test_a_reader_can_be_interrupted_also_when_its_connection_is_gone(world: World) -> None:
    world.reader().interrupt()
    assert world.shut == [2]


# When a view is late enough


def test_mysql_with_gtids_is_waited_for_until_it_has_executed_what_the_stream_has_brought(
    world: World,
) -> None:
    world.answers["SELECT GTID_SUBTRACT"] = [[("u:9",)], [("u:9",)], [("",)]]
    world.reader().settle(BEGUN, never)
    assert [sql.partition("(")[0] for sql in world.asked] == [
        *["SELECT GTID_SUBTRACT"] * 3,
        "START TRANSACTION WITH CONSISTENT SNAPSHOT",
    ]


@pytest.mark.parametrize(
    ("is_before", "asked"), [(True, "SELECT GTID_SUBTRACT"), (False, "ROLLBACK")]
)
def test_mysql_that_has_executed_nothing_yet_is_not_taken_for_one_without_gtids(
    world: World, monkeypatch: pytest.MonkeyPatch, is_before: bool, asked: str
) -> None:
    """To wait for others takes the privilege PROCESS."""
    monkeypatch.setattr(Binlog, "is_before_gtids", lambda *_: is_before)
    world.answers["SELECT GTID_SUBTRACT"] = [[("",)]]
    world.answers["SELECT trx_id"] = [[("1", 11)]]
    world.reader().settle(BinlogPosition("bin.000001", 158), never)
    assert any(sql.startswith(asked) for sql in world.asked)
    assert ("SELECT CONNECTION_ID()" in world.asked) is not is_before


def test_waiting_ends_without_a_view_when_all_is_over(world: World) -> None:
    world.answers["SELECT GTID_SUBTRACT"] = [[("u:9",)]]
    world.reader().settle(BEGUN, lambda: len(world.slept) == 2)
    assert not any(sql.startswith("START") for sql in world.asked)


def test_a_long_wait_is_said_once(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.answers["SELECT GTID_SUBTRACT"] = [[("u:9",)]]
    world.reader().settle(BEGUN, lambda: world.seconds > reading.SAID_SECONDS * 2)
    assert caplog.text.count("is not seen by all sessions") == 1
    assert "bin.000002:50" in caplog.text


def test_mariadb_is_asked_for_views_until_one_is_as_late_as_the_stream(world: World) -> None:
    def view(file: str, pos: int) -> Answer:
        return [("Binlog_snapshot_file", file), ("Binlog_snapshot_position", str(pos))]

    world.answers["SHOW STATUS"] = [view("bin.000001", 999), view("bin.000002", 50)]
    world.reader(MARIADB).settle(BEGUN, never)
    begin, status = "START TRANSACTION WITH CONSISTENT SNAPSHOT", "SHOW STATUS LIKE"
    assert [sql.partition(" 'b")[0] for sql in world.asked] == [
        *("XA RECOVER", begin, status, "ROLLBACK"),
        *(begin, status),
    ]


def test_a_mariadb_that_does_not_say_where_its_views_are_is_not_guessed_at(world: World) -> None:
    world.answers["SHOW STATUS"] = [[("Binlog_snapshot_file", "")]]
    with pytest.raises(VisibilityUnknown, match="binlog_snapshot_file"):
        world.reader(MARIADB).settle(BEGUN, never)


def test_mariadb_knows_where_a_view_is(world: World) -> None:
    place = [("Binlog_snapshot_file", "bin.000002"), ("Binlog_snapshot_position", "70")]
    world.answers["SHOW STATUS"] = [place]
    begun, exact = BinlogCoordinates("bin.000002", 50), BinlogCoordinates("bin.000002", 70)
    assert world.reader(MARIADB).view(BEGUN) == View(begun, exact, is_exact=True)


def test_mariadb_is_given_time_to_show_an_xa_commit_that_it_has_logged(world: World) -> None:
    world.answers["SHOW STATUS"] = [
        [("Binlog_snapshot_file", "bin.000002"), ("Binlog_snapshot_position", "50")]
    ]
    logged, prepared = (1, 1, 0, b"a"), (1, 1, 0, b"b")
    world.answers["XA RECOVER"] = [[logged, prepared], [logged, prepared], [prepared]]
    reader = world.reader(MARIADB)
    reader.settle(BEGUN, never)
    assert world.seconds >= reading.XA_SECONDS
    assert world.asked.index("START TRANSACTION WITH CONSISTENT SNAPSHOT") > 3
    # What is only prepared is waited for once.
    before = world.seconds
    reader.settle(BEGUN, never)
    assert world.seconds == before


def test_mysql_without_gtids_knows_between_which_places_a_view_is(world: World) -> None:
    low, high = BinlogCoordinates("bin.000002", 50), BinlogCoordinates("bin.000003", 9)
    assert world.reader(OLD).view(BEGUN) == View(low, high)


def test_without_gtids_all_that_had_written_something_is_waited_for_and_nobody_later(
    world: World,
) -> None:
    own, one, two, new = ("1", 11), ("2", 22), ("3", 33), ("4", 44)
    stale = [one]
    world.answers["SELECT trx_id"] = [stale, [own, one, two], [two, new], [new]]
    world.reader(OLD).settle(BEGUN, never)
    # a list without a transaction of its own is an old one, and `new` began later
    assert len([sql for sql in world.asked if sql.startswith("SELECT trx_id")]) == 4
    assert world.asked[-1].startswith("START TRANSACTION")
    assert [sql for sql in world.asked if sql == "ROLLBACK"] == ["ROLLBACK"]


def test_a_user_who_may_not_see_transactions_is_told_which_privilege_it_takes(
    world: World,
) -> None:
    world.answers["SELECT trx_id"] = [pymysql.OperationalError(1227, "denied")]
    with pytest.raises(VisibilityUnknown, match="privilege PROCESS"):
        world.reader(OLD).settle(BEGUN, never)
    world.answers["SELECT trx_id"] = [pymysql.OperationalError(2013, "gone")]
    with pytest.raises(pymysql.OperationalError, match="gone"):
        world.reader(OLD).settle(BEGUN, never)


# Rows


@pytest.mark.parametrize("piece", [1, 3, 7, 1 << 20])
def test_a_chunk_has_all_rows_its_last_key_and_the_servers_end_however_they_come(
    world: World, piece: int
) -> None:
    world.packets, world.piece = [row(3), row(254), row(5), END], piece
    found = world.reader()
    read = found.chunk(SELECTED, ("2",), ("9",), 3, "note > ''")
    assert (ids(read.rows), read.count, read.last) == ([3, 254, 5], 3, ("5",))
    assert (read.high, read.high_us) == (BinlogCoordinates("bin.000003", 9), 5_000_000)
    assert (read.bytes, read.is_cut) == (sum(map(len, read.rows)), False)
    assert "(`id` > 2) AND (`id` <= 9) AND (note > '')" in world.asked[0]
    assert world.asked[1] == "ROLLBACK"


def test_a_chunk_without_rows_has_no_last_key(world: World) -> None:
    world.packets = [END]
    read = world.reader().chunk(SELECTED, None, None, 3, "")
    assert (ids(read.rows), read.last, read.count) == ([], None, 0)


def test_rows_that_are_too_large_together_are_cut_off_and_read_later(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    [one] = images([row(1)], SELECTED)
    monkeypatch.setattr(reading, "MOST_BYTES", len(one))
    monkeypatch.setattr(reading, "READ_BYTES", 1)
    world.packets, world.piece = [*map(row, range(1, 6)), END], 1
    read = world.reader().chunk(SELECTED, None, None, 9, "")
    assert (ids(read.rows), read.last, read.is_cut) == ([1, 2], ("2",), True)


def test_an_error_among_the_rows_is_raised_and_no_end_of_them(world: World) -> None:
    error = b"\xff" + (1317).to_bytes(2, "little") + b"#70100stopped"
    world.packets = [row(1), error]
    with pytest.raises(pymysql.err.MySQLError, match="stopped"):
        world.reader().chunk(SELECTED, None, None, 9, "")


def test_a_connection_that_ends_among_the_rows_is_no_end_of_them(world: World) -> None:
    world.packets = [row(1)]
    with pytest.raises(EOFError):
        world.reader().chunk(SELECTED, None, None, 9, "")


def test_the_greatest_key_is_that_of_the_row_that_comes_and_none_of_an_empty_table(
    world: World,
) -> None:
    world.packets = [row(42), END]
    assert world.reader().greatest(SELECTED, "id < 50") == ("42",)
    assert "WHERE (id < 50) ORDER BY `id` DESC LIMIT 1" in world.asked[-1]
    world.packets = [END]
    assert world.reader().greatest(SELECTED, "") is None


def test_the_key_of_the_nth_row_is_found_by_the_key_alone(world: World) -> None:
    world.packets = [b"\x028" + b"8", END]
    assert world.reader().nth_key(SELECTED, ("1",), ("99",), 10) == ("88",)
    assert world.asked[-1].endswith("LIMIT 1 OFFSET 9")
    world.packets = [END]
    assert world.reader().nth_key(SELECTED, ("1",), ("99",), 10) is None


def test_the_rows_between_two_keys_come_as_they_do(world: World) -> None:
    world.packets = [row(1), row(2), END]
    found = list(world.reader().between(SELECTED, None, ("2",)))
    assert ids(each for some in found for each in some) == [1, 2]
    assert "WHERE (`id` <= 2)" in world.asked[-1]


def test_a_whole_table_is_read_at_once_and_can_be_gone_through_twice(world: World) -> None:
    world.packets = [row(7), row(7), row(8, "x" * 200), END]
    read = world.reader().table(SELECTED, "")
    assert (ids(read.rows), ids(read.rows)) == ([7, 7, 8], [7, 7, 8])
    assert (read.count, read.last) == (3, None)
    assert read.bytes == sum(map(len, read.rows))


def test_a_spool_gives_back_rows_of_any_length() -> None:
    spool = Spool()
    rows = [b"", b"a", b"b" * 70_000]
    spool.add(rows[:1])
    spool.add(rows[1:])
    assert list(spool) == rows
    assert (spool.count, spool.bytes) == (3, 70_001)


def test_a_spool_without_room_says_where_and_for_how_much(monkeypatch: pytest.MonkeyPatch) -> None:
    """An OSError would be taken for one of the network, and the table read again and again."""
    monkeypatch.setattr(tempfile, "tempdir", "/var/full")
    full = partial(Path.open, Path("/dev/full"), "w+b")
    monkeypatch.setattr(tempfile, "TemporaryFile", full)
    spool = Spool()
    with pytest.raises(SpoolError, match="/var/full has taken 1 bytes of them: No space left"):
        spool.add([b"a"])
    monkeypatch.undo()
    monkeypatch.setattr(tempfile, "tempdir", "/no/folder")
    with pytest.raises(SpoolError, match="/no/folder has taken 0 bytes of them: No such file"):
        Spool()


# What a table is


def test_a_guess_of_rows_is_none_where_the_server_has_none(world: World) -> None:
    world.answers["SELECT table_rows"] = [[(5, 30)], [(None, None)], []]
    found = world.reader()
    assert [found.estimate(ORDERS) for _ in range(3)] == [(5, 30), (0, 0), (0, 0)]


def test_tables_have_the_names_of_their_rows_where_the_server_lists_them_as_typed(
    world: World,
) -> None:
    """lower_case_table_names=2. Without it, tables whose names differ only in case are others."""
    typed = TableId("Shop", "Orders")
    world.answers["SELECT @@lower_case_table_names"] = [[(2, "8.4.0")]]
    world.answers["SELECT table_schema, table_name"] = [[tuple(typed)]]
    assert world.reader(replace(MYSQL, folds_names=True)).tables() == [ORDERS]
    assert world.reader().tables() == [typed]


def test_tables_are_described_by_a_connection_of_their_own_which_is_let_go(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Schemas:
        def __init__(self, connection: World) -> None:
            assert connection is world

        def tables(self) -> list[TableId]:
            return [ORDERS]

        def read_whole(self, table: TableId) -> TableSchema | None:
            return SCHEMA if table == ORDERS else None

    monkeypatch.setattr(reading, "SchemaReader", Schemas)
    found = world.reader()
    assert found.tables() == [ORDERS]
    described = found.describe(ORDERS)
    assert described is not None
    assert (described.key, described.expressions) == (SELECTED.key, SELECTED.expressions)
    assert found.describe(TableId("shop", "gone")) is None
    assert world.closed == 3


def test_the_server_says_why_a_table_cannot_be_described(world: World) -> None:
    found = world.reader()
    found.look(TableId("shop", "odd`name"))
    assert world.asked == ["SELECT 1 FROM `shop`.`odd``name` LIMIT 0"]
    world.answers["SELECT 1 "] = [pymysql.OperationalError(1142, "denied")]
    with pytest.raises(pymysql.OperationalError, match="1142"):
        found.look(ORDERS)
