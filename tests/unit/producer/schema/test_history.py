"""A stored schema history on a binlog that is not the one it was stored on, without a server."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from typing import cast

import pytest
from pymysqlreplication.constants import FIELD_TYPE as TYPE

from cdcbus.plugins.errors import PositionLost, SourceUnavailable
from cdcbus.plugins.rowchange import TableId
from cdcbus.producer.binlog.coordinates import BinlogCoordinates
from cdcbus.producer.ddl.table_schema import TableColumn, TableSchema
from cdcbus.producer.decoding.column_types import BinlogColumn
from cdcbus.producer.decoding.table_map import TableMap
from cdcbus.producer.schema.ddl_scanner import DdlScan, Statement
from cdcbus.producer.schema.history import SchemaHistory
from cdcbus.producer.schema.history_codec import FOLLOWED
from cdcbus.producer.schema.schema_reader import SchemaReader, UnopenedTable
from cdcbus.producer.schema.table_versions import MemorySchemas

TABLE = TableId("s", "t")
SWAP = "ALTER TABLE t RENAME COLUMN a TO b, RENAME COLUMN b TO a"


def at(file: int, pos: int) -> BinlogCoordinates:
    return BinlogCoordinates(f"mysql-bin.{file:06}", pos)


def swap(end: BinlogCoordinates) -> Statement:
    return Statement(end, 1, "s", SWAP.encode())


class Server:
    """One with a table of two columns, and a binlog of some files that were created at one time."""

    folds_names = False

    def __init__(self) -> None:
        self.names = ("a", "b")
        self.statements: list[Statement] = []
        self.first_file, self.now = 1, at(1, 1000)
        self.created_at_ms = 1000
        self.sizes: dict[int, int] = {}  # of files that have lost their end
        self.is_broken = False  # it cannot open its table
        self.is_damaged = False  # it notices an event that is, and sends none behind it

    def still_there(self, place: BinlogCoordinates) -> BinlogCoordinates:
        for number, size in self.sizes.items():
            if place.file == at(number, 4).file and size < place.pos:
                return at(number + 1, 4)
        return place

    def end(self) -> BinlogCoordinates:
        return self.now

    def start(self) -> BinlogCoordinates:
        return at(self.first_file, 4)

    def tables(self) -> list[TableId]:
        return [TABLE]

    def read(self, table: TableId) -> tuple[TableSchema, BinlogCoordinates]:
        if self.is_broken:
            raise UnopenedTable(f"source table {table} cannot be opened: the server says 1194")
        return self.read_all([table])[0][table], self.now

    def read_all(
        self, tables: Sequence[TableId]
    ) -> tuple[dict[TableId, TableSchema], BinlogCoordinates]:
        if self.is_broken:
            return {}, self.now
        columns = tuple(TableColumn(name, "int", "", True) for name in self.names)
        return dict.fromkeys(tables, TableSchema(columns, (), "utf8mb4")), self.now

    def default_charset(self, _: str) -> str:
        return "utf8mb4"

    def files(self) -> list[BinlogCoordinates]:
        return [self.start()]

    def between(self, after: BinlogCoordinates, until: BinlogCoordinates) -> list[Statement]:
        if self.is_damaged and after < until:
            raise PositionLost("1236 binlog event did not pass crc check")
        if self.still_there(after) != after:
            raise PositionLost("position > file size")
        return [one for one in self.statements if after < one.end <= until]

    def created_ms(self, file: str) -> int:
        if file < at(self.first_file, 4).file:
            raise PositionLost(f"{file} is gone")
        return self.created_at_ms


def history(server: Server, entries: dict[str, str], *, is_begun: bool = True) -> SchemaHistory:
    return SchemaHistory(
        MemorySchemas(entries),
        cast(SchemaReader, server),
        cast(DdlScan, server),
        lambda _: True,
        "here",
        server.created_ms,
        is_needed=True,
        is_begun=is_begun,
    )


def names(history: SchemaHistory, place: BinlogCoordinates) -> list[str]:
    row = TableMap(TABLE, (BinlogColumn("", TYPE.LONG), BinlogColumn("", TYPE.LONG)))
    return [column.name for column in history.complete(row, place).columns]


@pytest.fixture
def entries() -> dict[str, str]:
    """What a task has stored that followed a swap of columns up to the third file."""
    entries: dict[str, str] = {}
    server = Server()
    list(history(server, entries).begin(at(1, 1000)))
    server.now, server.names, server.statements = at(3, 450), ("b", "a"), [swap(at(3, 400))]
    started = history(server, entries)
    list(started.begin(at(3, 450)))
    assert names(started, at(1, 1000)) == ["a", "b"]
    assert names(started, at(3, 450)) == ["b", "a"]
    assert json.loads(entries[FOLLOWED])["logfileName"] == "mysql-bin.000003"
    return entries


def swapped_back() -> Server:
    """The server after a RESET of its binlog, which has grown past the old one since. The table was
    still swapped then, and was swapped back in the second file."""
    server = Server()
    server.now, server.created_at_ms = at(5, 50), 2000
    server.statements = [swap(at(2, 100))]
    return server


def test_places_of_a_binlog_that_was_reset_mean_nothing_in_the_one_that_has_outgrown_it(
    entries: dict[str, str],
) -> None:
    server = swapped_back()
    started = history(server, entries)
    list(started.begin(at(1, 4)))
    started.follow(server.statements[0], at(2, 50))
    assert names(started, at(2, 500)) == ["a", "b"]
    assert names(started, at(3, 500)) == ["a", "b"]
    assert json.loads(entries[FOLLOWED])["fileTimestamp"] == 2000


def test_a_history_of_the_binlog_that_is_read_is_kept_by_a_start_at_an_older_place(
    entries: dict[str, str],
) -> None:
    server = Server()
    server.now, server.names, server.statements = at(3, 500), ("b", "a"), [swap(at(3, 400))]
    before = dict(entries)
    list(history(server, entries).begin(at(1, 1000)))
    assert entries == before


def test_a_history_whose_last_file_is_gone_is_begun_anew(entries: dict[str, str]) -> None:
    server = swapped_back()
    server.first_file = 4
    started = history(server, entries)
    list(started.begin(at(4, 4)))
    assert names(started, at(4, 100)) == ["a", "b"]
    assert json.loads(entries[FOLLOWED])["logfileName"] == "mysql-bin.000004"


@pytest.mark.parametrize("is_damaged", [False, True])
def test_a_history_is_forgotten_with_the_reason(
    entries: dict[str, str], caplog: pytest.LogCaptureFixture, *, is_damaged: bool
) -> None:
    """A damaged event makes the binlog no other one."""
    server = Server()
    server.now, server.is_damaged = at(3, 500), is_damaged
    if not is_damaged:
        server.created_at_ms = 2000
    list(history(server, entries).begin(at(3, 500)))
    [line] = [line for line in caplog.messages if "the tables are read again" in line]
    assert ("belongs to another binlog" in line) != is_damaged
    assert ("the binlog is damaged behind it (1236" in line) == is_damaged


def test_a_history_is_kept_by_a_source_that_has_lost_the_end_of_the_last_file() -> None:
    entries: dict[str, str] = {}
    server = Server()
    list(history(server, entries).begin(at(1, 900)))
    server.sizes, server.now = {1: 800}, at(2, 3000)
    server.names, server.statements = ("b", "a"), [swap(at(2, 3000))]
    started = history(server, entries)
    list(started.begin(at(2, 4)))
    assert names(started, at(2, 100)) == ["a", "b"]


def test_a_history_stored_without_the_time_of_its_file_is_kept_and_completed(
    entries: dict[str, str],
) -> None:
    followed = json.loads(entries[FOLLOWED])
    del followed["fileTimestamp"]
    entries[FOLLOWED] = json.dumps(followed)
    server = Server()
    server.now, server.names, server.statements = at(3, 500), ("b", "a"), [swap(at(3, 400))]
    started = history(server, entries)
    list(started.begin(at(3, 500)))
    assert names(started, at(1, 1000)) == ["a", "b"]
    assert json.loads(entries[FOLLOWED]) == {**followed, "offset": 500, "fileTimestamp": 1000}


def test_a_history_is_kept_where_the_file_before_the_position_is_gone() -> None:
    """The position of an idle source moves into a new file once, maybe right after a start."""
    entries: dict[str, str] = {}
    server = Server()
    started = history(server, entries)
    list(started.begin(at(1, 1000)))
    started.passed(at(2, 4))
    server.first_file, server.now = 2, at(2, 500)
    server.names, server.statements = ("b", "a"), [swap(at(2, 400))]
    started = history(server, entries)
    list(started.begin(at(2, 4)))
    assert names(started, at(2, 100)) == ["a", "b"]


def test_within_a_file_what_was_passed_is_stored_once_in_a_while() -> None:
    entries: dict[str, str] = {}
    started = history(Server(), entries)
    list(started.begin(at(1, 1000)))
    before = dict(entries)
    started.passed(at(1, 2000))
    assert entries == before


def test_a_history_says_that_it_was_read_on_from_once_that_is_so() -> None:
    """A first start stores its tables before its position: cut short in between, it is a first
    start again."""
    server, entries = Server(), dict[str, str]()

    def stored(place: BinlogCoordinates, *, is_begun: bool) -> tuple[int, bool]:
        list(history(server, entries, is_begun=is_begun).begin(place))
        fields = json.loads(entries[FOLLOWED])
        return fields["offset"], fields["isBegun"]

    assert stored(at(1, 400), is_begun=False) == (400, False)
    assert stored(at(1, 500), is_begun=False) == (500, False)
    # What was followed is not undone where reading begins earlier.
    assert stored(at(1, 400), is_begun=True) == (500, True)
    assert stored(at(1, 600), is_begun=False) == (600, True)


def broken() -> tuple[Server, SchemaHistory]:
    """A server that cannot open its table, and a history that begins there."""
    server = Server()
    server.is_broken = True
    started = history(server, {})
    list(started.begin(at(1, 900)))
    return server, started


def test_rows_of_a_table_that_cannot_be_opened_wait_until_it_is_repaired() -> None:
    server, started = broken()
    row = TableMap(TABLE, (BinlogColumn("u", TYPE.STRING, (16, 0), charset="binary"),))
    for read in (partial(names, started), partial(started.typed, row)):
        with pytest.raises(SourceUnavailable, match="cannot be opened: the server says 1194"):
            read(at(1, 950))
    server.is_broken = False
    assert names(started, at(1, 950)) == ["a", "b"]


def test_rows_before_a_version_that_is_kept_need_no_table_that_can_be_opened() -> None:
    """The position was set back, and nothing has altered the table since."""
    entries: dict[str, str] = {}
    server = Server()
    list(history(server, entries).begin(at(1, 900)))
    server.is_broken = True
    started = history(server, entries)
    list(started.begin(at(1, 100)))
    assert names(started, at(1, 150)) == ["a", "b"]


def test_a_table_that_cannot_be_opened_is_taken_from_ddl_that_shows_it() -> None:
    server, started = broken()
    create = b"CREATE TABLE t (c INT, d INT)"
    server.statements = [Statement(at(1, 500), 1, "s", create)]
    assert names(started, at(1, 950)) == ["c", "d"]


def test_ddl_of_a_table_that_cannot_be_opened_stops_nothing() -> None:
    server, started = broken()
    server.statements = [swap(at(1, 950))]
    started.follow(server.statements[0], at(1, 900))
    with pytest.raises(SourceUnavailable, match="1194"):
        names(started, at(1, 960))
