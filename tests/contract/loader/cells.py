"""Cells arrive as they were."""

import pyarrow as pa
import pytest

from cdcbus.plugins.contracts import (
    Counts,
    Loader,
    Writes,
)
from cdcbus.plugins.loaders.cells.arrow_rows import ColumnRows
from cdcbus.plugins.rowchange import Cell
from tests.contract.loader.base import ALL_BYTES, LoaderBase
from tests.contract.target_server import TargetServer

NAME = 'se"lect `%s` %d Größe'
VALUES: list[tuple[str, list[Cell]]] = [
    (
        "text",
        [
            "",
            "null",
            "NULL",
            "\\N",
            "\\",
            "'\"`\\'",
            "{1,NULL}",
            "a\tb\r\nc",
            " %s %(a)s :a %% ",
            "x" * 100_000,
        ],
    ),
    ("text", ["😀 漢字 é", "\u2028\ufeff\x7f\x01"]),
    ("whole", ["0", "-9223372036854775808", "9223372036854775807"]),
    ("unsigned", ["18446744073709551615", "0"]),
    ("decimal", ["12345678901234567890.0123456789", "-0.0000000001", "0.0000000000"]),
    ("double", ["0.1", "-1.5", "1.7976931348623157e308"]),
    ("moment", ["2024-02-29 23:59:59.123456", "1970-01-01 00:00:01.000000"]),
    ("instant", ["2024-03-31 02:30:00.999999", "2024-10-27 00:30:00.000001"]),
    ("day", ["2024-02-29", "1000-01-01"]),
    ("clock", ["00:00:00.000000", "23:59:59.999999"]),
    ("flag", ["0", "1"]),
    ("bits", ["0", "5", "255"]),
    ("document", ['{"a": [1, "é😀", null]}', "[]"]),
    ("label", ["small", "it's"]),
]
SIGNS: list[tuple[str, list[Cell]]] = [
    ("text", [sign]) for sign in ("", "\t", "\n", "\r", "\\", "\\N", '"', "'", ",", " ", "a b, 'c'")
]
"""Each of which may stand for something, where many rows are written as text."""


class CellValues(LoaderBase):
    @pytest.mark.parametrize(("kind", "cells"), VALUES)
    def test_values_arrive_as_they_were(
        self, server: TargetServer, loader: Loader, kind: str, cells: list[Cell]
    ) -> None:
        type_, read = server.types[kind]
        table = self.table(server, loader, f"id int primary key, v {type_}")
        cells = [*cells, None]
        rows = [(str(place), cell) for place, cell in enumerate(cells)]
        for _ in range(2):  # inserted, then updated
            assert self.write(loader, table, Writes(("id", "v"), rows)) == Counts(written=len(rows))
            assert [cell for _, cell in self.rows(server, f"id, {read.format('v')}")] == cells

    @pytest.mark.parametrize(
        ("kind", "cells"),
        [*VALUES, *SIGNS, ("text", ["a\n\\.\nb", "\\."]), ("binary", [ALL_BYTES, "\\x00"])],
    )
    def test_many_new_rows_arrive_whether_they_are_new_or_not(
        self, server: TargetServer, loader: Loader, kind: str, cells: list[Cell]
    ) -> None:
        type_, read = server.types[kind]
        table = self.table(server, loader, f"id int primary key, v {type_}")
        cells = [*cells, None] * (1000 // (len(cells) + 1))
        rows = ColumnRows([pa.array(map(str, range(len(cells)))), pa.array(cells, pa.string())])
        for _ in range(2):
            assert self.write(loader, table, Writes(("id", "v"), rows, are_new=True)) == Counts(
                written=len(rows)
            )
            found = [cell for _, cell in self.rows(server, f"id, {read.format('v')}")]
            assert found == (
                cells
                if kind != "binary"
                else [cell and cell.encode("latin-1").hex() for cell in cells]
            )

    def test_digits_of_seconds_that_a_column_has_no_room_for_are_rounded(
        self, server: TargetServer, loader: Loader
    ) -> None:
        moment = server.types["moment"][0].replace("6", "3")
        table = self.table(
            server, loader, f"id int primary key, v {moment}, t time(3), u int unique"
        )
        late, clock = "2024-12-31 23:59:59.999600", "22:59:59.999600"
        # by way of a temporary table, where there is one
        rows = [(str(number), late, clock, str(number)) for number in range(20)]
        self.write(
            loader,
            table,
            Writes(tuple(table.columns), rows),
            Writes(("id", "v", "t"), [("20", late, clock)]),
        )
        found = self.rows(server, f"id, {server.types['moment'][1].format('v')}, t")
        assert {str(moment)[:23] for _, moment, _ in found} == {"2025-01-01 00:00:00.000"}
        assert {str(clock) for _, _, clock in found} == {"23:00:00"}

    def test_all_bytes_arrive(self, server: TargetServer, loader: Loader) -> None:
        type_, read = server.types["binary"]
        table = self.table(server, loader, f"id int primary key, v {type_}")
        cells = [ALL_BYTES, "", None, "\\x00", "'"]
        self.write(
            loader,
            table,
            Writes(("id", "v"), [(str(place), cell) for place, cell in enumerate(cells)]),
        )
        expected = [None if cell is None else cell.encode("latin-1").hex() for cell in cells]
        assert [cell for _, cell in self.rows(server, f"id, {read.format('v')}")] == expected

    def test_reserved_words_mixed_case_and_signs_are_names_like_others(
        self, server: TargetServer, loader: Loader
    ) -> None:
        q = server.quoted
        table = self.table(
            server,
            loader,
            f"{q('Key')} int primary key, {q(NAME)} int, {q('from')} int unique",
            name=NAME,
        )
        plain = self.table(server, loader, f"{q('Key')} int primary key, {q(NAME)} int")
        for each in (table, plain):
            columns = ("Key", NAME, *(["from"] if each is table else []))
            self.write(
                loader,
                each,
                Writes(columns, [("1", "2", "3")[: len(columns)], ("4", "5", "6")[: len(columns)]]),
            )
            again = Writes(
                columns,
                [("1", "2", "3")[: len(columns)], ("4", "5", "6")[: len(columns)]],
                expected=2,
            )
            assert self.write(loader, each, again) == Counts(written=2)
            counts = self.write(
                loader,
                each,
                Writes(("Key", NAME), [("1", "9")], may_insert=False),
                deletes=[("4",)],
            )
            assert counts == Counts(written=1, deleted=1)
            assert server.rows(f"SELECT {q(NAME)} FROM {{schema}}.{q(each.id.table)}") == [(9,)]
