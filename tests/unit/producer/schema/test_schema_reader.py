"""What is asked of a server for its tables, with answers in place of a server; those of real ones
are in tests/integration/producer."""

from __future__ import annotations

from typing import Any

import pytest

from cdcbus.plugins.rowchange import TableId
from cdcbus.producer.binlog.coordinates import BinlogCoordinates
from cdcbus.producer.schema import schema_reader
from cdcbus.producer.schema.schema_reader import SchemaReader


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
