"""Rows are inserted, updated, moved and deleted, with a key and without."""

import pyarrow as pa
import pytest

from cdcbus.plugins.contracts import (
    Counts,
    Loader,
    Moves,
    Swaps,
    TableBatch,
    Writes,
)
from cdcbus.plugins.errors import (
    RowConflict,
    TargetMisconfigured,
    TargetRejected,
    TargetUnavailable,
)
from cdcbus.plugins.loaders import make_loader
from cdcbus.plugins.loaders.cells.arrow_rows import ColumnRows
from cdcbus.plugins.rowchange import Cell
from tests.contract.loader.base import ALL_BYTES, Cells, LoaderBase
from tests.contract.target_server import TargetServer


class Rows(LoaderBase):
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
