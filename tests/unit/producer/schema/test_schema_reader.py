"""What is asked of a server for its tables, with answers in place of a server; those of real ones
are in tests/integration/producer."""

from __future__ import annotations

from typing import Any

import pymysql
import pytest

from cdcbus.plugins.rowchange import TableId
from cdcbus.producer.binlog.coordinates import BinlogCoordinates
from cdcbus.producer.schema import schema_reader
from cdcbus.producer.schema.schema_reader import SchemaReader, UnopenedTable


@pytest.mark.parametrize(
    ("size", "there"),
    [
        (1000, BinlogCoordinates("b.000001", 900)),
        (900, BinlogCoordinates("b.000001", 900)),
        (800, BinlogCoordinates("b.000002", 4)),
        # it cannot be opened, which says nothing of its end
        (0, BinlogCoordinates("b.000001", 900)),
    ],
)
def test_a_lost_end_of_a_file_is_passed(
    monkeypatch: pytest.MonkeyPatch, size: int, there: BinlogCoordinates
) -> None:
    monkeypatch.setattr(
        schema_reader, "binlog_files", lambda _: [("b.000001", size), ("b.000002", 9)]
    )
    monkeypatch.setattr(SchemaReader, "_ask", lambda *_: [(0, "9.7.0")])
    connection: Any = None
    assert SchemaReader(connection).still_there(BinlogCoordinates("b.000001", 900)) == there


@pytest.mark.parametrize(
    ("version", "found"),
    [
        ("11.4.5-MariaDB-log", ["a", "b", "c"]),
        ("5.5.5-10.6.2-MariaDB", ["a", "b", "c"]),
        ("5.7.44-log", ["a", "b", "c"]),
        # its tables are in a dictionary, which shows all of them at any time
        ("8.0.36", ["a", "b"]),
        ("9.7.0", ["a", "b"]),
    ],
)
def test_a_table_whose_files_are_renamed_just_then_is_in_the_list(
    monkeypatch: pytest.MonkeyPatch, version: str, found: list[str]
) -> None:
    lists = [["a", "b"], ["b", "c"], ["a", "b", "c"]]

    def ask(_: SchemaReader, query: str, *__: object) -> list[tuple[object, ...]]:
        if "information_schema.tables" in query:
            return [("s", name) for name in lists.pop(0)]
        return [(0, version)]

    monkeypatch.setattr(SchemaReader, "_ask", ask)
    connection: Any = None
    tables = SchemaReader(connection).tables()
    assert tables == [TableId("s", name) for name in found]


class Tables:
    """Stands for a connection to a server with the tables `s.a` and `s.b`. `error`: what it says of
    the latter."""

    open = True

    def __init__(self, error: pymysql.Error) -> None:
        self.error = error

    def ask(self, query: str, *_: object) -> list[tuple[object, ...]]:
        if query == "SELECT 1 FROM `s`.`b` LIMIT 0":
            raise self.error
        if "information_schema.columns" in query:
            return [("s", "a", "id", "int", None, "NO", None)]
        if "information_schema.tables" in query:
            return [("s", "a", "utf8mb4_bin", "BASE TABLE", "InnoDB")]
        return [(0, "9.7.0")] if "VERSION()" in query else []


@pytest.fixture
def reader(
    monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> tuple[SchemaReader, pymysql.Error]:
    connection: Any = Tables(request.param)
    monkeypatch.setattr(SchemaReader, "_ask", lambda _, *query: connection.ask(*query))
    monkeypatch.setattr(SchemaReader, "end", lambda _: BinlogCoordinates("b.000001", 900))
    return SchemaReader(connection), request.param


BROKEN = [
    pymysql.OperationalError(1812, "Tablespace is missing for table `s`.`b`."),
    pymysql.OperationalError(1194, "Table 'b' is marked as crashed and should be repaired"),
    pymysql.InternalError(145, "Table './s/b' is marked as crashed and should be repaired"),
    pymysql.InternalError(29, "File './s/b.MYD' not found (OS errno 2 - No such file)"),
    pymysql.InternalError(29, "File './s/b.MYD' not found (Errcode: 13 \"Permission denied\")"),
    pymysql.InternalError(13, "Can't get stat of './s/b.MYD' (OS errno 2 - No such file)"),
    pymysql.InternalError(9, "Unexpected EOF found when reading file './s/b.MYD' (Errcode: 175)"),
    pymysql.OperationalError(1016, "Can't open file: 'b.MYI' (errno: 145)"),
    pymysql.OperationalError(1030, "Got error 127 from storage engine"),
    pymysql.OperationalError(1030, 'Got error 130 "Incorrect file format" from storage engine'),
    pymysql.OperationalError(1030, "Got error 176 - 'wrong crc' from storage engine"),
    pymysql.ProgrammingError(1146, "Table 's.b' doesn't exist"),
    pymysql.OperationalError(1429, "Unable to connect to foreign data source"),
]
OF_THE_SERVER = [
    pymysql.OperationalError(2013, "Lost connection"),
    pymysql.OperationalError(1053, "Server shutdown in progress"),
    pymysql.OperationalError(1205, "Lock wait timeout exceeded"),
    pymysql.InternalError(23, "Out of resources when opening file './s/b.MYD' (OS errno 24)"),
    pymysql.InternalError(29, "File './s/b.MYD' not found (OS errno 5 - Input/output error)"),
    pymysql.InternalError(5, "Out of memory (Needed 1024 bytes)"),
    pymysql.InternalError(20, "Disk is full writing '/tmp/x' (OS errno 28)"),
    pymysql.InternalError(1, "Can't create/write to file '/tmp/x' (OS errno 13)"),
    pymysql.OperationalError(1016, "Can't open file: './s/b.frm' (errno: 24)"),
    pymysql.OperationalError(1030, 'Got error 28 "No space left on device" from storage engine'),
    pymysql.OperationalError(1030, "Got error 122 - 'Internal error' from storage engine"),
]
A, B = TableId("s", "a"), TableId("s", "b")


@pytest.mark.parametrize("reader", BROKEN, indirect=True)
def test_a_table_that_cannot_be_opened_is_left_out(
    reader: tuple[SchemaReader, pymysql.Error], caplog: pytest.LogCaptureFixture
) -> None:
    asked, error = reader
    found, _ = asked.read_all([A, B])
    schemas, unopened = asked.schemas([A, B])
    assert list(found) == list(schemas) == [A]
    is_there = error.args[0] != 1146
    assert (B in unopened) is is_there
    assert (
        f"table s.b cannot be opened, so its columns are not known: the server says "
        f"{error.args[0]} {error.args[1]}" in caplog.text
    ) is is_there


@pytest.mark.parametrize("reader", [BROKEN[0], BROKEN[4]], indirect=True)
def test_who_needs_a_table_that_cannot_be_opened_is_told_why(
    reader: tuple[SchemaReader, pymysql.Error], caplog: pytest.LogCaptureFixture
) -> None:
    asked, error = reader
    with pytest.raises(UnopenedTable, match=f"table s.b cannot be opened.*says {error.args[0]} "):
        asked.read(B)
    assert not caplog.records


@pytest.mark.parametrize("reader", [*BROKEN[:1], *OF_THE_SERVER], indirect=True)
def test_a_snapshot_is_told_what_the_server_says(
    reader: tuple[SchemaReader, pymysql.Error],
) -> None:
    with pytest.raises(type(reader[1])):
        reader[0].read_whole(B)


@pytest.mark.parametrize("reader", OF_THE_SERVER, indirect=True)
def test_what_the_whole_server_cannot_do_just_now_says_nothing_of_a_table(
    reader: tuple[SchemaReader, pymysql.Error],
) -> None:
    with pytest.raises(type(reader[1])):
        reader[0].read_all([A, B])
