"""What every Loader promises, on a real server. Mix it into a test class that provides `server`."""

import json
import logging
import re
import threading
import traceback
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pyarrow as pa
import pytest

from cdcbus.plugins.contracts import (
    AppliedOffset,
    Counts,
    Details,
    Loader,
    Moves,
    OffsetTable,
    Swaps,
    TableBatch,
    TargetTable,
    Writes,
)
from cdcbus.plugins.errors import (
    ConfigError,
    OffsetConflict,
    RowConflict,
    TargetError,
    TargetMisconfigured,
    TargetRejected,
    TargetTableUnfit,
    TargetUnavailable,
)
from cdcbus.plugins.loaders import make_loader
from cdcbus.plugins.loaders.cells.arrow_rows import ColumnRows
from cdcbus.plugins.rowchange import Cell, Column, TableId
from tests.contract.target_server import TargetServer

Cells = tuple[Cell, ...]
ALL_BYTES = "".join(map(chr, range(256)))
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


class LoaderContract:
    @pytest.fixture
    def loader(self, server: TargetServer) -> Iterator[Loader]:
        loader = make_loader("JdbcBatch", server.target())
        yield loader
        loader.close()

    @staticmethod
    def table(server: TargetServer, loader: Loader, columns: str, name: str = "t") -> TargetTable:
        server.execute(f"CREATE TABLE {{schema}}.{server.quoted(name)} ({columns})")
        table = loader.table(TableId(server.schema, name))
        assert table is not None
        return table

    @staticmethod
    def write(
        loader: Loader,
        table: TargetTable,
        *writes: Writes,
        deletes: Sequence[Cells] = (),
        truncate: bool = False,
    ) -> Counts:
        with loader.transaction() as transaction:
            return transaction.write(TableBatch(table, truncate, deletes, writes))

    @staticmethod
    def swap(
        loader: Loader,
        table: TargetTable,
        *pairs: tuple[Cells | None, Cells | None],
        may_insert: bool = True,
    ) -> Counts:
        with loader.transaction() as transaction:
            return transaction.write(
                TableBatch(table, swaps=[Swaps(tuple(table.columns), pairs, may_insert)])
            )

    @staticmethod
    def rows(server: TargetServer, columns: str = "id, v") -> list[tuple[object, ...]]:
        return server.rows(f"SELECT {columns} FROM {{schema}}.t ORDER BY 1")

    # Tables

    def test_a_table_is_found_in_exact_spelling_then_in_any_case(
        self, server: TargetServer, loader: Loader
    ) -> None:
        assert loader.table(TableId(server.schema, "orders")) is None
        found = self.table(server, loader, "id bigint primary key", name="Orders")
        assert loader.table(TableId(server.schema.upper(), "ORDERS")) == found
        assert found.id == TableId(server.schema, "Orders")
        server.execute(f"CREATE TABLE {{schema}}.{server.quoted('ORDERS')} (id bigint primary key)")
        loader.refresh(TableId(server.schema.upper(), "ORDERS"))
        with pytest.raises(ConfigError, match="all match"):
            loader.table(TableId(server.schema, "orders"))
        again = loader.table(TableId(server.schema, "ORDERS"))
        assert again is not None
        assert again.id.table == "ORDERS"

    def test_a_table_tells_columns_key_and_other_unique_keys(
        self, server: TargetServer, loader: Loader
    ) -> None:
        table = self.table(
            server, loader, "v int not null, b int, a varchar(7), primary key (a, b)"
        )
        assert list(table.columns) == ["v", "b", "a"]
        assert table.key == ("a", "b")
        assert table.columns["a"].length == 7
        assert [column.is_nullable for column in table.columns.values()] == [False, False, False]
        assert table.unique_keys == ()
        server.execute("CREATE UNIQUE INDEX one ON {schema}.t (v)")
        assert loader.table(table.id) is table
        loader.refresh(table.id)
        changed = loader.table(table.id)
        assert changed is not None
        assert changed.unique_keys == (("v",),)

    def test_a_column_that_the_target_computes_is_told_apart(
        self, server: TargetServer, loader: Loader
    ) -> None:
        table = self.table(
            server,
            loader,
            "id int primary key, v int, twice int generated always as (v * 2) stored",
        )
        assert [name for name, column in table.columns.items() if column.is_generated] == ["twice"]
        self.write(loader, table, Writes(("id", "v"), [("1", "4")]))
        assert self.rows(server, "id, twice") == [(1, 8)]

    # Values

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

    # Operations

    @pytest.mark.parametrize("unique", ["", " unique"])
    def test_rows_are_inserted_updated_and_counted(
        self, server: TargetServer, loader: Loader, unique: str
    ) -> None:
        table = self.table(
            server,
            loader,
            f"a int, b varchar(9), v int{unique}, w int default 7, primary key (a, b)",
        )
        everything = Writes(("b", "a", "v"), [("x", "1", "10"), ("y", "1", "20")])
        assert self.write(loader, table, everything) == Counts(written=2)
        assert self.write(loader, table, everything) == Counts(written=2)
        missing = Writes(("a", "b", "w"), [("1", "x", "5"), ("1", "z", "6")], may_insert=False)
        assert self.write(loader, table, missing) == Counts(written=1, missed=1)
        both = Writes(("a", "b", "v"), [("1", "x", None), ("3", "x", "30")])
        assert self.write(
            loader, table, both, deletes=[("1", "y"), ("1", "Q"), ("9", "y")]
        ) == Counts(written=2, deleted=1, missed=2)
        with loader.transaction() as transaction:
            passing = TableBatch(table, deletes=[("7", "x"), ("8", "x")], passing=1)
            assert transaction.write(passing) == Counts(missed=1)
        assert self.rows(server, "a, b, v, w") == [(1, "x", None, 5), (3, "x", 30, 7)]

    @pytest.mark.parametrize("columns", ["v int", "v int unique", "v int, w int not null"])
    @pytest.mark.parametrize("count", [1, 5, 3000])
    def test_rows_that_should_have_been_there_are_counted_though_they_are_inserted(
        self, server: TargetServer, loader: Loader, columns: str, count: int
    ) -> None:
        table = self.table(server, loader, f"id int primary key, {columns}")
        names = tuple(table.columns)

        def rows(*, first: int, new: int) -> ColumnRows:
            cells = [
                [str(first + at) for at in range(count)],
                *[[str(new + at) for at in range(count)]] * (len(names) - 1),
            ]
            return ColumnRows([pa.array(column) for column in cells])

        assert self.write(
            loader, table, Writes(names, rows(first=0, new=0), expected=count)
        ) == Counts(written=count, missed=count)
        for _ in range(2):  # the second time they are equal
            assert self.write(
                loader, table, Writes(names, rows(first=0, new=count), expected=count)
            ) == Counts(written=count)
        if count > 1:
            half = count // 2
            late = Writes(names, rows(first=half, new=2 * count), expected=count - half + 1)
            assert self.write(loader, table, late) == Counts(written=count, missed=1)
            everything = [
                row for part in (0, half) for row in rows(first=part, new=3 * count + part)
            ]
            there = {row[0]: row for row in everything}
            assert self.write(
                loader, table, Writes(names, [*there.values()], expected=len(there))
            ) == Counts(written=len(there))

    def test_an_update_that_changes_nothing_is_no_miss(
        self, server: TargetServer, loader: Loader
    ) -> None:
        table = self.table(server, loader, "id int primary key, v int")
        rows = [("1", "1"), ("2", "2")]
        self.write(loader, table, Writes(("id", "v"), rows))
        assert self.write(loader, table, Writes(("id", "v"), rows, may_insert=False)) == Counts(
            written=2
        )

    def test_columns_that_an_insert_needs_may_be_left_out_where_the_row_is_there(
        self, server: TargetServer, loader: Loader
    ) -> None:
        table = self.table(
            server,
            loader,
            "id int primary key, v int, needed int not null, given int not null default 7",
        )
        assert [name for name, column in table.columns.items() if column.is_required] == [
            "id",
            "needed",
        ]
        self.write(loader, table, Writes(("id", "v", "needed"), [("1", "1", "1"), ("2", "2", "2")]))
        assert self.write(loader, table, Writes(("id", "v"), [("1", "5"), ("2", None)])) == Counts(
            written=2
        )
        assert self.rows(server, "id, v, needed, given") == [(1, 5, 1, 7), (2, None, 2, 7)]
        with pytest.raises(TargetRejected, match="needed"):
            self.write(loader, table, Writes(("id", "v"), [("1", "6"), ("3", "3")]))

    @pytest.mark.parametrize("may_insert", [True, False])
    def test_a_table_of_key_columns_only(
        self, server: TargetServer, loader: Loader, may_insert: bool
    ) -> None:
        table = self.table(server, loader, "id int, v int, primary key (id, v)")
        self.write(loader, table, Writes(("id", "v"), [("1", "1")]))
        counts = self.write(
            loader, table, Writes(("id", "v"), [("1", "1"), ("2", "2")], may_insert)
        )
        assert counts == (Counts(written=2) if may_insert else Counts(written=1, missed=1))
        assert self.rows(server) == [(1, 1), (2, 2)][: counts.written]

    @pytest.mark.parametrize(
        ("kind", "one", "other"),
        [
            ("short", "it's", "It's"),
            ("short", "\\", "\\\\"),
            ("day", "2024-02-29", "2024-03-01"),
            ("unsigned", "9007199254740993", "9007199254740992"),
            ("decimal", "9007199254740993.0000000001", "9007199254740993.0000000002"),
            ("short binary", "\xff\x00", "\xff\x01"),
            ("bits", "1", "2"),
            ("moment", "2024-02-29 23:59:59.123456", "2024-02-29 23:59:59.123457"),
        ],
    )
    @pytest.mark.parametrize("unique", ["", " unique"])
    def test_keys_of_many_types_are_told_apart(
        self, server: TargetServer, loader: Loader, kind: str, one: str, other: str, unique: str
    ) -> None:
        table = self.table(server, loader, f"id {server.types[kind][0]} primary key, v int{unique}")
        self.write(loader, table, Writes(("id", "v"), [(one, "1"), (other, "2")]))
        assert self.write(
            loader, table, Writes(("id", "v"), [(one, "3")], may_insert=False)
        ) == Counts(written=1)
        assert self.write(loader, table, deletes=[(other,)]) == Counts(deleted=1)
        assert self.rows(server, "v") == [(3,)]

    def test_more_rows_than_a_statement_holds(self, server: TargetServer, loader: Loader) -> None:
        table = self.table(server, loader, "id int primary key, v text, u int unique")
        rows = [(str(place), f"{place} " * 50, str(place)) for place in range(5_000)]
        assert self.write(loader, table, Writes(("id", "v", "u"), rows)) == Counts(written=5_000)
        assert self.write(
            loader, table, Writes(("id", "v", "u"), rows, may_insert=False)
        ) == Counts(written=5_000)
        assert server.rows(
            "SELECT count(*), sum(id), sum(u) FROM {schema}.t WHERE length(v) > 50"
        ) == [(5_000, 12_497_500, 12_497_500)]
        assert self.write(loader, table, deletes=[(key,) for key, _, _ in rows[1:]]) == Counts(
            deleted=4_999
        )

    def test_a_target_column_widened_meanwhile_takes_wider_cells(
        self, server: TargetServer, loader: Loader
    ) -> None:
        table = self.table(
            server, loader, "id int primary key, v varchar(3), d decimal(5, 1), u int unique"
        )
        self.write(loader, table, Writes(("id", "v", "d"), [("1", "abc", "1.5")]))
        server.execute(
            f"ALTER TABLE {{schema}}.t {server.types['widen v'][0]}, {server.types['widen d'][0]}"
        )
        self.write(loader, table, Writes(("id", "v", "d"), [("1", "abcdef", "1.2345")]))
        assert [(str(v), str(d)) for v, d in self.rows(server, "v, d")] == [("abcdef", "1.2345")]

    def test_a_row_never_touches_another_by_a_second_unique_key(
        self, server: TargetServer, loader: Loader
    ) -> None:
        table = self.table(server, loader, "id int primary key, v varchar(9) unique")
        self.write(loader, table, Writes(("id", "v"), [("1", "a"), ("2", "b")]))
        with pytest.raises(RowConflict, match=rf"table {server.schema}\.t: .*unique"):
            self.write(loader, table, Writes(("id", "v"), [("3", "a")]))
        assert self.rows(server) == [(1, "a"), (2, "b")]

    def test_a_row_never_touches_another_by_a_unique_key_that_the_table_has_got_meanwhile(
        self, server: TargetServer, loader: Loader
    ) -> None:
        for kind in ("int", server.types["short"][0], server.types["moment"][0]):
            table = self.table(
                server, loader, f"id {kind} not null, k int, v varchar(9), primary key (id, k)"
            )
            one, other = (
                ("2024-03-31 02:30:00.5", "2024-03-31 02:30:01") if "time" in kind else ("1", "2")
            )
            self.write(loader, table, Writes(("id", "k", "v"), [(one, "1", "a"), (one, "2", "b")]))
            server.execute("CREATE UNIQUE INDEX one ON {schema}.t (v)")
            again = Writes(("id", "k", "v"), [(one, "1", "a"), (one, "2", "c"), (one, "3", None)])
            assert self.write(loader, table, again) == Counts(written=3)
            for known in (table, loader.table(table.id)):
                with pytest.raises(
                    RowConflict if known is not table else (RowConflict, TargetUnavailable)
                ):
                    self.write(
                        loader,
                        known or table,
                        Writes(("id", "k", "v"), [(one, "2", "d"), (other, "1", "a")]),
                    )
                loader.is_altered(table)
            assert self.rows(server, "k, v") == [(1, "a"), (2, "c"), (3, None)]
            server.execute("DROP TABLE {schema}.t")
            loader.refresh(table.id)

    def test_a_unique_key_without_nullable_columns_is_the_key_where_there_is_no_other(
        self, server: TargetServer, loader: Loader
    ) -> None:
        table = self.table(
            server, loader, "v int unique, a int not null, b int not null, unique (b, a)"
        )
        assert (table.key, table.unique_keys) == (("b", "a"), (("v",),))
        rows = Writes(("v", "a", "b"), [("1", "1", "1"), ("2", "1", "2")])
        for _ in range(2):
            assert self.write(loader, table, rows) == Counts(written=2)
        assert self.write(loader, table, deletes=[("1", "1")]) == Counts(deleted=1)
        assert self.rows(server, "v, a, b") == [(2, 1, 2)]

    def test_a_row_gets_another_key_and_keeps_its_other_columns(
        self, server: TargetServer, loader: Loader
    ) -> None:
        """Also without the table of offsets."""
        columns = "a int, b int, v varchar(9), w varchar(9), primary key (a, b)"
        table = self.table(server, loader, columns)
        assert table.can_move
        rows = [("1", "1", "x", "kept"), ("1", "2", "y", "other"), ("3", "1", "z", "there")]
        self.write(loader, table, Writes(("a", "b", "v", "w"), rows))
        poor = make_loader("JdbcBatch", server.without_rights_to_create())
        update = Writes(("a", "b", "v"), [("2", "1", "new")], may_insert=False)

        def move(by: Loader, *pairs: tuple[Cells, Cells], may_repeat: bool = True) -> Counts:
            moves = Moves(pairs, may_repeat)
            with by.transaction() as transaction:
                return transaction.write(TableBatch(table, moves=moves, writes=[update]))

        pairs = ((("1", "1"), ("2", "1")), (("8", "8"), ("9", "9")))
        assert move(loader, *pairs) == Counts(written=1)
        left = [(1, 2, "y", "other"), (2, 1, "new", "kept"), (3, 1, "z", "there")]
        assert server.rows("SELECT a, b, v, w FROM {schema}.t ORDER BY 1") == left
        # What comes again finds no row under the old key, or one that came again, too.
        assert move(poor, *pairs) == Counts(written=1)
        self.write(loader, table, Writes(("a", "b", "v"), [("1", "1", "x")]))
        assert move(poor, *pairs) == Counts(written=1, deleted=1)
        assert server.rows("SELECT a, b, v, w FROM {schema}.t ORDER BY 1") == left
        with pytest.raises(RowConflict):
            move(loader, (("1", "2"), ("3", "1")), may_repeat=False)
        assert server.rows("SELECT a, b, v, w FROM {schema}.t ORDER BY 1") == left
        poor.close()

    # Tables without a key

    def test_of_equal_rows_without_a_key_one_goes_at_a_time(
        self, server: TargetServer, loader: Loader
    ) -> None:
        table = self.table(server, loader, "id int, v varchar(9)")
        assert (table.key, table.unique_keys) == ((), ())
        three = [(None, ("1", "a"))] * 3
        assert self.swap(loader, table, *three, (None, ("2", None))) == Counts(written=4)
        pairs = (
            (("1", "a"), None),
            (("1", "a"), ("1", "b")),
            (("2", None), ("2", "c")),
            (("9", "a"), None),
            (("9", "b"), ("9", "c")),
        )
        assert self.swap(loader, table, *pairs, may_insert=False) == Counts(
            written=2, deleted=1, missed=2
        )
        assert sorted(self.rows(server), key=str) == [(1, "a"), (1, "b"), (2, "c")]
        assert self.swap(loader, table, (("9", "b"), ("9", "c"))) == Counts(written=1, missed=1)
        with loader.transaction() as transaction:
            transaction.write(
                TableBatch(table, truncate=True, swaps=[Swaps(("id", "v"), [(None, ("3", "x"))])])
            )
        assert self.rows(server) == [(3, "x")]

    @pytest.mark.parametrize(
        ("kind", "one", "other"),
        [
            ("text", "a", "A"),
            ("text", "a", "a "),
            ("text", "", None),
            ("text", "é😀'\\", "e"),
            ("short", "null", None),
            ("decimal", "9007199254740993.0000000001", "9007199254740993.0000000002"),
            ("double", "0.1", "0.2"),
            ("float", "0.1", "0.2"),
            ("whole", "9007199254740993", "9007199254740992"),
            ("unsigned", "18446744073709551615", "0"),
            ("moment", "2024-02-29 23:59:59.123456", "2024-02-29 23:59:59.123457"),
            ("instant", "2024-02-29 23:59:59.123456", "2024-02-29 23:59:59.123457"),
            ("day", "2024-02-29", "2024-03-01"),
            ("clock", "23:59:59.999999", "00:00:00.000000"),
            ("flag", "1", "0"),
            ("bits", "5", "6"),
            ("binary", ALL_BYTES, ""),
            ("short binary", "\xff\x00", "\xff"),
            ("document", '{"a": [1, "é😀", null]}', "[]"),
            ("label", "it's", "small"),
        ],
    )
    def test_a_row_without_a_key_is_found_by_cells_of_many_types_to_the_last_byte(
        self, server: TargetServer, loader: Loader, kind: str, one: Cell, other: Cell
    ) -> None:
        table = self.table(server, loader, f"v {server.types[kind][0]}, id int")
        assert self.swap(loader, table, (None, (one, "1")), (None, (other, "1"))) == Counts(
            written=2
        )
        assert self.swap(loader, table, ((one, "1"), (one, "2"))) == Counts(written=1)
        assert self.swap(loader, table, ((other, "1"), (other, "3"))) == Counts(written=1)
        assert self.swap(loader, table, ((one, "2"), None)) == Counts(deleted=1)
        assert self.rows(server, "id") == [(3,)]

    def test_rows_without_a_key_need_the_table_of_offsets(
        self, server: TargetServer, loader: Loader
    ) -> None:
        table = self.table(server, loader, "id int, v int")
        poor = make_loader("JdbcBatch", server.without_rights_to_create())
        with pytest.raises(
            TargetMisconfigured,
            match=rf"target table {server.schema}\.t has no key, and table cdcbus_position could "
            r"not",
        ):
            self.swap(poor, table, (None, ("1", "1")))
        assert self.rows(server) == []
        poor.close()

    # Columns that come later

    def test_a_table_grows_by_the_source_s_columns_and_keeps_all_else(
        self, server: TargetServer, loader: Loader
    ) -> None:
        q = server.quoted
        columns = (
            f"id int primary key, v varchar(3) default 'x' not null, {q('N%')} smallint "
            "default 7, d decimal(5, 2), w varchar(99)"
        )
        table = self.table(server, loader, columns)
        self.write(loader, table, Writes(("id", "v"), [("1", "abc")]))
        source = [
            *(
                Column("ID", "int(11)"),
                Column("v", "varchar(40)"),
                Column("N%", "bigint(20)"),
                Column("d", "decimal(9,4)"),
            ),
            *(
                Column("w", "varchar(9)"),
                Column("New %s", "varchar(5)"),
                Column("doc", "json"),
                Column("at", "datetime(6)"),
            ),
        ]
        for _ in range(2):  # the second time there is nothing left to do
            table = loader.evolve(table, source)
        assert loader.table(table.id) is table
        assert list(table.columns) == ["id", "v", "N%", "d", "w", "New %s", "doc", "at"]
        assert (table.columns["v"].length, table.columns["w"].length) == (40, 99)
        assert (table.columns["d"].length, table.columns["d"].scale) == (9, 4)
        assert (table.columns["v"].is_nullable, table.columns["v"].is_required) == (False, False)
        row = (
            "2",
            "y" * 40,
            str(2**63 - 1),
            "12345.6789",
            "new",
            "[]",
            "2024-02-29 23:59:59.123456",
        )
        self.write(loader, table, Writes(("id", "v", "N%", "d", "New %s", "doc", "at"), [row]))
        self.write(loader, table, Writes(("id",), [("3",)]))
        assert self.rows(server, f"id, v, {q('N%')}") == [
            (1, "abc", 7),
            (2, "y" * 40, 2**63 - 1),
            (3, "x", 7),
        ]

    def test_columns_made_wider_keep_what_they_hold_and_take_what_the_source_s_do(
        self, server: TargetServer, loader: Loader
    ) -> None:
        """Each with a default, which keeps its meaning as well."""
        rows = [
            ("whole", "int unsigned", "-5", "4294967295", "7"),
            ("large", "bigint unsigned", "-9223372036854775808", "18446744073709551615", "7"),
            (
                "moment",
                "datetime(6)",
                "2024-02-29 23:59:59.000000",
                "2024-02-29 23:59:59.123456",
                "2001-01-01 00:00:00.000000",
            ),
            (
                "instant",
                "timestamp(6)",
                "2024-02-29 23:59:59.500000",
                "2024-02-29 23:59:59.123456",
                None,
            ),
            ("clock", "time(6)", "23:59:59.000000", "23:59:59.999999", "01:02:03.000000"),
            (
                "day",
                "datetime(6)",
                "2024-02-29 00:00:00.000000",
                "2024-02-29 23:59:59.123456",
                "2001-01-01 00:00:00.000000",
            ),
            ("bits", "bit(8)", "5", "255", "5"),
            ("more bits", "bit(64)", "3", "18446744073709551615", "3"),
        ]
        kinds, types, before, after, defaults = zip(*rows, strict=True)
        names = [f"c{number}" for number in range(len(rows))]
        narrow, wide = (
            [server.types[f"{size} {kind}"] for kind in kinds] for size in ("narrow", "wide")
        )
        columns = ", ".join(
            f"{name} {type_}" for name, (type_, _) in zip(names, narrow, strict=True)
        )
        table = self.table(server, loader, f"id int primary key, {columns}")
        cells = [
            cell.removesuffix(" 00:00:00.000000") if kind == "day" else cell
            for kind, cell in zip(kinds, before, strict=True)
        ]
        self.write(loader, table, Writes(("id", *names), [("1", *cells)]))
        source = [Column(name, type_) for name, type_ in zip(names, types, strict=True)]
        for _ in range(2):  # the second time there is nothing left to do
            table = loader.evolve(table, source)
        assert loader.table(table.id) is table
        self.write(
            loader, table, Writes(("id", *names), [("2", *after)]), Writes(("id",), [("3",)])
        )
        read = ", ".join(
            expression.format(name) for name, (_, expression) in zip(names, wide, strict=True)
        )
        first, second, third = self.rows(server, f"id, {read}")
        assert (first[1:], second[1:]) == (before, after)
        assert [cell for cell, default in zip(third[1:], defaults, strict=True) if default] == [
            cell for cell in defaults if cell
        ]
        assert third[4] is not None

    def test_a_column_that_somebody_else_adds_at_the_same_moment_is_no_error(
        self, server: TargetServer, loader: Loader
    ) -> None:
        table = self.table(server, loader, "id int primary key")
        others = [
            make_loader("JdbcBatch", server.target(task_id=f"task {number}")) for number in range(4)
        ]
        together = threading.Barrier(4)
        grown: list[TargetTable] = []

        def run(other: Loader) -> None:
            other.table(table.id)
            together.wait(timeout=30)
            grown.append(
                other.evolve(table, [Column("id", "int"), *(Column(name, "int") for name in "abc")])
            )

        threads = [threading.Thread(target=run, args=(other,)) for other in others]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=60)
        assert [sorted(each.columns) for each in grown] == [["a", "b", "c", "id"]] * 4
        for other in others:
            other.close()

    def test_a_table_cannot_grow_without_the_right_to(
        self, server: TargetServer, loader: Loader
    ) -> None:
        table = self.table(server, loader, "id int primary key")
        poor = make_loader("JdbcBatch", server.without_rights_to_create())
        if server.without_rights_to_create().user == server.target().user:
            pytest.skip("this server has no user without rights")
        with pytest.raises(TargetMisconfigured, match="new column new of table"):
            poor.evolve(table, [Column("new", "int")])
        poor.close()

    # Other loaders

    def test_a_dry_run_logs_statements_without_cells_and_changes_nothing(
        self, server: TargetServer, loader: Loader, caplog: pytest.LogCaptureFixture
    ) -> None:
        table = self.table(server, loader, "id int primary key, v varchar(20)")
        unkeyed = self.table(server, loader, "id int, v varchar(20)", name="u")
        self.write(loader, table, Writes(("id", "v"), [("1", "a")]))
        dry = make_loader("JdbcSqlDebug", server.target())
        assert (dry.is_dry_run, loader.is_dry_run) == (True, False)
        swaps = [
            Swaps(
                ("id", "v"),
                [
                    (("42", "SECRET"), None),
                    (("43", "SECRET"), ("44", "SECRET")),
                    (None, ("45", "SECRET")),
                ],
            )
        ]
        with caplog.at_level(logging.INFO), dry.transaction() as transaction:
            writes = [
                Writes(("id", "v"), [("42", "SECRET")] * 20),
                Writes(("id", "v"), [("42", "SECRET")], may_insert=False),
            ]
            assert transaction.write(TableBatch(table, True, [("1",)], writes)) == Counts(
                written=21, deleted=1
            )
            with transaction.savepoint():
                assert transaction.write(TableBatch(unkeyed, swaps=swaps)) == Counts(
                    written=2, deleted=1
                )
            transaction.store_offset(AppliedOffset("orders", 0, 5, 1), None)
        assert dry.evolve(table, [Column("new", "int")]) is table
        assert dry.applied_offsets() == loader.applied_offsets() == []
        assert self.rows(server) == [(1, "a")]
        messages = [
            record.getMessage() for record in caplog.records if "would run" in record.getMessage()
        ]
        assert all(message.startswith("task contract would run") for message in messages)
        assert "for 20 rows: INSERT" in "".join(messages)
        assert "SECRET" not in caplog.text
        assert not re.search(r"\b4[2345]\b", caplog.text)
        dry.close()

    def test_a_loader_tells_whether_it_takes_merged_changes(
        self, server: TargetServer, loader: Loader
    ) -> None:
        single = make_loader("JdbcSingle", server.target())
        assert (loader.is_merging, single.is_merging) == (True, False)
        table = self.table(server, loader, "id int primary key, v int")
        assert self.write(single, table, Writes(("id", "v"), [("1", "1")])) == Counts(written=1)
        single.close()

    # Transactions

    def test_a_truncate_is_undone_with_its_transaction(
        self, server: TargetServer, loader: Loader
    ) -> None:
        table = self.table(server, loader, "id int primary key, v int")
        self.write(loader, table, Writes(("id", "v"), [("1", "1")]))
        with pytest.raises(KeyError), loader.transaction() as transaction:
            transaction.write(
                TableBatch(table, truncate=True, writes=[Writes(("id", "v"), [("2", "2")])])
            )
            raise KeyError
        assert self.rows(server) == [(1, 1)]
        self.write(loader, table, Writes(("id", "v"), [("2", "2")]), truncate=True)
        assert self.rows(server) == [(2, 2)]

    def test_what_a_savepoint_held_is_undone_and_the_transaction_goes_on(
        self, server: TargetServer, loader: Loader
    ) -> None:
        table = self.table(server, loader, "id int primary key, v varchar(9) unique")
        self.write(loader, table, Writes(("id", "v"), [("1", "a"), ("2", "b")]))
        with loader.transaction() as transaction:
            with pytest.raises(RowConflict), transaction.savepoint():
                transaction.write(TableBatch(table, deletes=[("2",)]))
                transaction.write(TableBatch(table, writes=[Writes(("id", "v"), [("3", "a")])]))
            for key, cell in (("1", "c"), ("3", "a")):
                transaction.write(TableBatch(table, writes=[Writes(("id", "v"), [(key, cell)])]))
        assert self.rows(server) == [(1, "c"), (2, "b"), (3, "a")]

    def test_what_came_before_a_savepoint_is_not_undone_with_it(
        self, server: TargetServer, loader: Loader
    ) -> None:
        table = self.table(server, loader, "id int primary key, v int")
        new = [TableBatch(table, writes=[Writes(("id", "v"), [(key, "1")])]) for key in "1234"]
        with loader.transaction() as transaction:
            with pytest.raises(KeyError), transaction.savepoint():  # the transaction's beginning
                with transaction.savepoint():
                    transaction.write(new[0])
                raise KeyError
            transaction.write(new[1])
            with pytest.raises(KeyError), transaction.savepoint():
                transaction.write(new[2])
                raise KeyError
            with pytest.raises(KeyError), transaction.savepoint():
                transaction.write(new[3])
                raise KeyError
            transaction.store_offset(AppliedOffset("orders", 0, 5, 1), None)
            with pytest.raises(KeyError), transaction.savepoint():
                raise KeyError
        assert self.rows(server) == [(2, 1)]
        assert loader.applied_offsets() == [AppliedOffset("orders", 0, 5, 1)]

    def test_a_savepoint_that_holds_is_kept(self, server: TargetServer, loader: Loader) -> None:
        table = self.table(server, loader, "id int primary key, v int")
        with loader.transaction() as transaction, transaction.savepoint():
            transaction.write(TableBatch(table, writes=[Writes(("id", "v"), [("1", "1")])]))
        assert self.rows(server) == [(1, 1)]

    def test_offsets_come_and_go_with_the_rows(self, server: TargetServer, loader: Loader) -> None:
        table = self.table(server, loader, "id int primary key, v int")
        assert loader.applied_offsets() == []
        stored = [
            AppliedOffset("Orders", 0, 5, 2**40),
            AppliedOffset("orders", 0, 2**33, 7),
            AppliedOffset("orders", 1, 0, 0),
        ]
        with loader.transaction() as transaction:
            transaction.write(TableBatch(table, writes=[Writes(("id", "v"), [("1", "1")])]))
            transaction.store_offset(first := AppliedOffset("Orders", 0, 4, 3), None)
            for offset, seen in zip(stored, (first, None, None), strict=True):
                transaction.store_offset(offset, seen)
        with pytest.raises(KeyError), loader.transaction() as transaction:
            transaction.write(TableBatch(table, writes=[Writes(("id", "v"), [("2", "2")])]))
            transaction.store_offset(AppliedOffset("Orders", 0, 6, 8), stored[0])
            raise KeyError
        assert set(loader.applied_offsets()) == set(stored)
        assert self.rows(server) == [(1, 1)]

    @pytest.mark.parametrize("noticed_by", ["fence", "look", "commit"])
    def test_a_table_of_offsets_dropped_meanwhile_is_an_empty_one_from_then_on(
        self, server: TargetServer, loader: Loader, noticed_by: str
    ) -> None:
        first = AppliedOffset("orders", 0, 5, 1)
        with loader.transaction() as transaction:
            transaction.store_offset(first, None)
        server.execute("DROP TABLE {schema}.cdcbus_position")
        with pytest.raises(TargetTableUnfit, match="cdcbus_position"):
            if noticed_by == "fence":
                loader.fence()
            elif noticed_by == "look":
                loader.applied_offsets()
            else:
                with loader.transaction() as transaction:
                    transaction.store_offset(AppliedOffset("orders", 0, 6, 1), first)
        assert (loader.fence(), loader.applied_offsets()) == ([], [])
        with pytest.raises(OffsetConflict), loader.transaction() as transaction:
            transaction.store_offset(AppliedOffset("orders", 0, 6, 1), first)

    @pytest.mark.parametrize("seen", [None, AppliedOffset("orders", 0, 5, 1)])
    def test_of_two_that_have_seen_the_same_offset_one_commits(
        self, server: TargetServer, loader: Loader, seen: AppliedOffset | None
    ) -> None:
        """The second waits for the first, which it has no other way to know of, and is undone."""
        table = self.table(server, loader, "id int primary key, v int")
        if seen:
            with loader.transaction() as transaction:
                transaction.store_offset(seen, None)
        both_write = threading.Barrier(2)

        def apply(number: int) -> bool:
            try:
                with loader.transaction() as transaction:
                    transaction.write(
                        TableBatch(table, writes=[Writes(("id", "v"), [(str(number), "1")])])
                    )
                    both_write.wait(timeout=60)
                    transaction.store_offset(AppliedOffset("orders", 0, 6 + number, 2), seen)
            except OffsetConflict as error:
                assert (
                    f"{seen.next_offset if seen else 'no offset'} of orders[0] for task contract"
                    in str(error)
                )
                return False
            return True

        with ThreadPoolExecutor(2) as pool:
            done = list(pool.map(apply, range(2)))
        winner = done.index(True)
        assert done.count(True) == 1
        assert loader.applied_offsets() == [AppliedOffset("orders", 0, 6 + winner, 2)]
        assert self.rows(server) == [(winner, 1)]

    def test_a_fence_ends_what_has_seen_an_earlier_epoch_however_often_it_commits(
        self, server: TargetServer, loader: Loader
    ) -> None:
        with loader.transaction() as transaction:
            for partition in (0, 1):
                transaction.store_offset(AppliedOffset("orders", partition, 5, 1), None)
        first = loader.fence()
        assert first is not None and first == [
            AppliedOffset("orders", partition, 5, 1, 1) for partition in (0, 1)
        ]
        with loader.transaction() as transaction:
            transaction.store_offset(later := replace(first[0], next_offset=6), first[0])
        second = loader.fence()
        assert second is not None and {*second} == {
            replace(later, epoch=2),
            replace(first[1], epoch=2),
        }
        for seen in (later, first[1]):  # also one that has not moved
            with pytest.raises(OffsetConflict), loader.transaction() as transaction:
                transaction.store_offset(replace(seen, next_offset=9), seen)
        assert {*loader.applied_offsets()} == {*second}
        with loader.transaction() as transaction:
            transaction.store_offset(replace(second[0], next_offset=9), second[0])

    def test_a_fence_waits_for_a_transaction_under_way(
        self, server: TargetServer, loader: Loader
    ) -> None:
        first = AppliedOffset("orders", 0, 5, 1)
        with loader.transaction() as transaction:
            transaction.store_offset(first, None)
        with ThreadPoolExecutor(1) as pool:
            with loader.transaction() as transaction:
                transaction.store_offset(replace(first, next_offset=6), first)
                fencing = pool.submit(loader.fence)
                with pytest.raises(TimeoutError):
                    fencing.result(0.5)
            assert fencing.result(30) == [AppliedOffset("orders", 0, 6, 1, 1)]

    def test_details_of_other_versions_are_kept(self, server: TargetServer, loader: Loader) -> None:
        details = Details.from_json('{"topicId":"a","own":{"b":[1]},"x":"é"}')
        with loader.transaction() as transaction:
            transaction.store_offset(
                first := AppliedOffset("orders", 0, 5, 1, details=details), None
            )
        assert loader.applied_offsets() == [first]
        with loader.transaction() as transaction:
            transaction.store_offset(
                replace(first, next_offset=6, details=replace(details, topic_id="c")), first
            )
        [(text,)] = server.rows("SELECT details FROM {schema}.cdcbus_position")
        assert json.loads(str(text)) == {"topicId": "c", "own": {"b": [1]}, "x": "é"}

    def old_offset_table(self, server: TargetServer) -> None:
        """As versions before had it, with a row of the tasks `contract` and `poor`."""
        loader = make_loader("JdbcBatch", server.target())
        with loader.transaction() as transaction:
            transaction.store_offset(AppliedOffset("orders", 0, 5, 1), None)
        loader.close()
        for column in ("epoch", "details"):
            server.execute(f"ALTER TABLE {{schema}}.cdcbus_position DROP COLUMN {column}")

    def test_a_table_of_earlier_versions_is_completed(self, server: TargetServer) -> None:
        self.old_offset_table(server)
        dry, loader = (
            make_loader("JdbcSqlDebug", server.target()),
            make_loader("JdbcBatch", server.target()),
        )
        assert dry.fence() == dry.applied_offsets() == [AppliedOffset("orders", 0, 5, 1)]
        assert loader.fence() == [AppliedOffset("orders", 0, 5, 1, 1)]
        for each in (dry, loader):
            each.close()

    def test_a_table_of_earlier_versions_that_may_not_be_altered_is_refused_with_the_statement(
        self, server: TargetServer
    ) -> None:
        self.old_offset_table(server)
        poor = make_loader("JdbcBatch", server.without_rights_to_create())
        for _ in range(2):
            with pytest.raises(
                TargetMisconfigured,
                match=r"cdcbus_position lacks column epoch, .* run ALTER TABLE .* ADD ",
            ):
                poor.fence()
        poor.close()

    def test_without_an_offset_table_there_is_nothing_to_fence(self, server: TargetServer) -> None:
        poor = make_loader("JdbcBatch", server.without_rights_to_create())
        assert poor.fence() is None
        poor.close()

    def test_each_task_has_offsets_of_its_own(self, server: TargetServer, loader: Loader) -> None:
        other = make_loader("JdbcBatch", server.target(task_id="other"))
        with loader.transaction() as transaction:
            transaction.store_offset(AppliedOffset("orders", 0, 5, 1), None)
        assert other.applied_offsets() == []
        other.close()

    def test_many_partitions_may_start_at_once_where_nothing_is_yet(
        self, server: TargetServer, loader: Loader
    ) -> None:
        others = [
            make_loader("JdbcBatch", server.target(task_id=f"task {number}")) for number in range(4)
        ]
        everybody = threading.Barrier(8)

        def run(partition: int) -> None:
            everybody.wait(timeout=30)
            with others[partition % 4].transaction() as transaction:
                transaction.store_offset(AppliedOffset("orders", partition, partition, 1), None)

        partitions = [threading.Thread(target=run, args=(partition,)) for partition in range(8)]
        for partition in partitions:
            partition.start()
        for partition in partitions:
            partition.join(timeout=60)
        assert [
            sorted(offset.partition for offset in other.applied_offsets()) for other in others
        ] == [[0, 4], [1, 5], [2, 6], [3, 7]]
        for other in others:
            other.close()

    def test_without_the_right_to_make_its_table_it_goes_on_and_says_so_once(
        self, server: TargetServer, loader: Loader, caplog: pytest.LogCaptureFixture
    ) -> None:
        table = self.table(server, loader, "id int primary key, v int")
        poor = make_loader("JdbcBatch", server.without_rights_to_create())
        with caplog.at_level(logging.WARNING):
            for number in ("1", "2"):
                with poor.transaction() as transaction:
                    transaction.write(
                        TableBatch(table, writes=[Writes(("id", "v"), [(number, number)])])
                    )
                    transaction.store_offset(AppliedOffset("orders", 0, 5, 1), None)
        assert poor.applied_offsets() == []
        assert self.rows(server) == [(1, 1), (2, 2)]
        [message] = [record.getMessage() for record in caplog.records]
        assert message.startswith("task poor keeps no offsets in the target: ")
        poor.close()

    def test_a_look_at_the_offset_table_makes_none(
        self, server: TargetServer, loader: Loader
    ) -> None:
        assert loader.offset_table() == OffsetTable(False, True)
        assert loader.offset_table() == OffsetTable(False, True)
        with loader.transaction() as transaction:
            transaction.store_offset(AppliedOffset("orders", 0, 5, 1), None)
        assert loader.offset_table() == OffsetTable(True, True, [AppliedOffset("orders", 0, 5, 1)])

    def test_a_look_tells_that_the_offset_table_cannot_be_made(self, server: TargetServer) -> None:
        poor = make_loader("JdbcBatch", server.without_rights_to_create())
        assert poor.offset_table() == OffsetTable(False, False)
        poor.close()

    # Failures

    def test_a_deadlock_is_unavailable_also_inside_a_savepoint(
        self, server: TargetServer, loader: Loader
    ) -> None:
        table = self.table(server, loader, "id int primary key, v int")
        self.write(loader, table, Writes(("id", "v"), [("1", "0"), ("2", "0")]))
        both_hold_one = threading.Barrier(2)
        outcomes: list[type[Exception] | None] = []

        def run(keys: tuple[str, str]) -> None:
            try:
                with loader.transaction() as transaction, transaction.savepoint():
                    transaction.write(
                        TableBatch(table, writes=[Writes(("id", "v"), [(keys[0], keys[0])])])
                    )
                    both_hold_one.wait(timeout=30)
                    transaction.write(
                        TableBatch(table, writes=[Writes(("id", "v"), [(keys[1], keys[0])])])
                    )
                outcomes.append(None)
            except Exception as error:
                outcomes.append(type(error))

        partitions = [
            threading.Thread(target=run, args=(keys,)) for keys in (("1", "2"), ("2", "1"))
        ]
        for partition in partitions:
            partition.start()
        for partition in partitions:
            partition.join(timeout=60)
        assert sorted(outcomes, key=str) == [TargetUnavailable, None]
        [(_, one), (_, two)] = self.rows(server)
        assert (one, two) in ((1, 1), (2, 2))

    def test_a_connection_lost_in_a_transaction_is_unavailable_then_all_is_well(
        self, server: TargetServer, loader: Loader
    ) -> None:
        table = self.table(server, loader, "id int primary key, v int")
        batch = TableBatch(table, writes=[Writes(("id", "v"), [("1", "1")])])
        with (
            pytest.raises(TargetUnavailable),
            loader.transaction() as transaction,
            transaction.savepoint(),
        ):
            transaction.write(batch)
            assert server.kill_connections() >= 1
            transaction.write(batch)
        assert self.rows(server) == []
        with loader.transaction() as transaction:
            transaction.write(batch)
        assert self.rows(server) == [(1, 1)]

    def test_a_connection_lost_before_the_commit_is_unavailable(
        self, server: TargetServer, loader: Loader
    ) -> None:
        table = self.table(server, loader, "id int primary key, v int")
        with pytest.raises(TargetUnavailable), loader.transaction() as transaction:
            transaction.write(TableBatch(table, writes=[Writes(("id", "v"), [("1", "1")])]))
            server.kill_connections()
        assert self.rows(server) == []

    def test_a_connection_lost_while_idle_is_not_noticed(
        self, server: TargetServer, loader: Loader
    ) -> None:
        table = self.table(server, loader, "id int primary key, v int")
        assert server.kill_connections() >= 1
        self.write(loader, table, Writes(("id", "v"), [("1", "1")]))
        assert self.rows(server) == [(1, 1)]

    def test_a_row_locked_for_too_long_is_unavailable(
        self, server: TargetServer, loader: Loader
    ) -> None:
        table = self.table(server, loader, "id int primary key, v int")
        self.write(loader, table, Writes(("id", "v"), [("1", "1")]))
        impatient = make_loader(
            "JdbcBatch", server.target(url=server.target().url + server.impatient)
        )
        held = server.hold("UPDATE {schema}.t SET v = 2")
        next(held)
        with pytest.raises(TargetUnavailable):
            self.write(impatient, table, Writes(("id", "v"), [("1", "3")]))
        del held
        self.write(impatient, table, Writes(("id", "v"), [("1", "3")]))
        assert self.rows(server) == [(1, 3)]
        impatient.close()

    @pytest.mark.parametrize(
        ("what", "error"),
        [
            ("password", TargetMisconfigured),
            ("database", TargetMisconfigured),
            ("port", TargetUnavailable),
        ],
    )
    def test_a_target_that_cannot_be_entered(
        self,
        server: TargetServer,
        what: str,
        error: type[TargetError],
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        url = server.target().url
        target = {
            "password": server.target(password="wrong-secret"),
            "database": server.target(url=server.missing_database),
            "port": server.target(url=url.replace(url.split("/")[2], "127.0.0.1:1")),
        }[what]
        loader = make_loader("JdbcBatch", target)
        with pytest.raises(error) as refused, loader.transaction():
            pass
        assert caplog.records == []
        assert type(refused.value) is error
        assert "wrong-secret" not in str(refused.value)
        loader.close()
        loader.close()

    @pytest.mark.parametrize(
        ("type_", "cell", "named"),
        [
            ("int", "SECRET", True),
            ("smallint", "4242424242", True),
            ("varchar(3)", "SECRET", True),
            ("int not null", None, True),
            ("int check (v < 5)", "4242", False),
            ("binary", "SECRET\u0100", True),
            ("bits", "SECRET", True),
            ("moment", "2024-02-30 SECRET", True),
            ("document", '{"SECRET"', True),
            ("decimal", "SECRET", True),
            ("text", "SECRET\ud800", False),
        ],
    )
    @pytest.mark.parametrize("unique", [False, True])
    def test_a_cell_that_does_not_fit_is_rejected_without_being_shown(
        self,
        server: TargetServer,
        loader: Loader,
        type_: str,
        cell: Cell,
        named: bool,
        unique: bool,
    ) -> None:
        name = server.types[type_][0] if type_ in server.types else type_
        table = self.table(
            server, loader, f"id int primary key, v {name}{', u int unique' if unique else ''}"
        )
        with pytest.raises(TargetRejected) as refused:
            self.write(loader, table, Writes(("id", "v"), [("1", cell)]))
        assert type(refused.value) is TargetRejected
        message = str(refused.value)
        assert f"table {server.schema}.t" in message
        assert "SECRET" not in message
        assert "4242" not in message
        # MariaDB calls the check of a JSON column `t.v`
        assert not named or re.search(r"(?i)column [\"'`]?v\b|`\w+\.v`", message)
        assert "SECRET" not in "".join(traceback.format_exception(refused.value))

    def test_a_broken_reference_is_rejected_by_name(
        self, server: TargetServer, loader: Loader
    ) -> None:
        server.execute("CREATE TABLE {schema}.parent (id int primary key)")
        constraint = "constraint has_parent foreign key (v) references {schema}.parent (id)"
        table = self.table(server, loader, f"id int primary key, v int, {constraint}")
        with pytest.raises(TargetRejected, match="has_parent"):
            self.write(loader, table, Writes(("id", "v"), [("1", "4242")]))

    def test_a_table_dropped_meanwhile_is_not_the_rows_fault(
        self, server: TargetServer, loader: Loader
    ) -> None:
        table = self.table(server, loader, "id int primary key, v int")
        server.execute("DROP TABLE {schema}.t")
        with pytest.raises(TargetTableUnfit, match=r"\.t"):
            self.write(loader, table, Writes(("id", "v"), [("1", "1")]))
