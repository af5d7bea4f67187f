"""What every Loader promises, on a real server. Mix it into a test class that provides `server`."""

import logging
import re
import threading
import traceback
from collections.abc import Iterator, Sequence

import pytest

from cdcbus.plugins.contracts import AppliedOffset, Counts, Loader, OffsetTable, TableBatch, TargetTable, Writes
from cdcbus.plugins.errors import ConfigError, TargetError, TargetMisconfigured, TargetRejected, TargetUnavailable, UniqueViolation
from cdcbus.plugins.loaders import make_loader
from cdcbus.plugins.rowchange import Cell, TableId
from tests.contract.target_server import TargetServer

Cells = tuple[Cell, ...]
ALL_BYTES = "".join(map(chr, range(256)))
NAME = 'se"lect `%s` %d Größe'


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
    def write(loader: Loader, table: TargetTable, *writes: Writes, deletes: Sequence[Cells] = (), truncate: bool = False) -> Counts:
        with loader.transaction() as transaction:
            return transaction.write(TableBatch(table, truncate, deletes, writes))

    @staticmethod
    def rows(server: TargetServer, columns: str = "id, v") -> list[tuple[object, ...]]:
        return server.rows(f"SELECT {columns} FROM {{schema}}.t ORDER BY 1")

    # Tables

    def test_a_table_is_found_in_exact_spelling_then_in_any_case(self, server: TargetServer, loader: Loader) -> None:
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

    def test_a_table_tells_columns_key_and_other_unique_keys(self, server: TargetServer, loader: Loader) -> None:
        table = self.table(server, loader, "v int not null, b int, a varchar(7), primary key (a, b)")
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

    def test_a_column_that_the_target_computes_is_told_apart(self, server: TargetServer, loader: Loader) -> None:
        table = self.table(server, loader, "id int primary key, v int, twice int generated always as (v * 2) stored")
        assert [name for name, column in table.columns.items() if column.is_generated] == ["twice"]
        self.write(loader, table, Writes(("id", "v"), [("1", "4")]))
        assert self.rows(server, "id, twice") == [(1, 8)]

    # Values

    @pytest.mark.parametrize(
        ("kind", "cells"),
        [
            ("text", ["", "null", "NULL", "\\N", "\\", "'\"`\\'", "{1,NULL}", "a\tb\r\nc", " %s %(a)s :a %% ", "x" * 100_000]),
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
        ],
    )
    def test_values_arrive_as_they_were(self, server: TargetServer, loader: Loader, kind: str, cells: list[Cell]) -> None:
        type_, read = server.types[kind]
        table = self.table(server, loader, f"id int primary key, v {type_}")
        cells = [*cells, None]
        rows = [(str(place), cell) for place, cell in enumerate(cells)]
        for _ in range(2):  # inserted, then updated
            assert self.write(loader, table, Writes(("id", "v"), rows)) == Counts(written=len(rows))
            assert [cell for _, cell in self.rows(server, f"id, {read.format('v')}")] == cells

    def test_all_bytes_arrive(self, server: TargetServer, loader: Loader) -> None:
        type_, read = server.types["binary"]
        table = self.table(server, loader, f"id int primary key, v {type_}")
        cells = [ALL_BYTES, "", None, "\\x00", "'"]
        self.write(loader, table, Writes(("id", "v"), [(str(place), cell) for place, cell in enumerate(cells)]))
        expected = [None if cell is None else cell.encode("latin-1").hex() for cell in cells]
        assert [cell for _, cell in self.rows(server, f"id, {read.format('v')}")] == expected

    def test_reserved_words_mixed_case_and_signs_are_names_like_others(self, server: TargetServer, loader: Loader) -> None:
        q = server.quoted
        table = self.table(server, loader, f"{q('Key')} int primary key, {q(NAME)} int, {q('from')} int unique", name=NAME)
        plain = self.table(server, loader, f"{q('Key')} int primary key, {q(NAME)} int")
        for each in (table, plain):
            columns = ("Key", NAME, *(["from"] if each is table else []))
            self.write(loader, each, Writes(columns, [("1", "2", "3")[: len(columns)], ("4", "5", "6")[: len(columns)]]))
            counts = self.write(loader, each, Writes(("Key", NAME), [("1", "9")], may_insert=False), deletes=[("4",)])
            assert counts == Counts(written=1, deleted=1)
            assert server.rows(f"SELECT {q(NAME)} FROM {{schema}}.{q(each.id.table)}") == [(9,)]

    # Operations

    @pytest.mark.parametrize("unique", ["", " unique"])
    def test_rows_are_inserted_updated_and_counted(self, server: TargetServer, loader: Loader, unique: str) -> None:
        table = self.table(server, loader, f"a int, b varchar(9), v int{unique}, w int default 7, primary key (a, b)")
        everything = Writes(("b", "a", "v"), [("x", "1", "10"), ("y", "1", "20")])
        assert self.write(loader, table, everything) == Counts(written=2)
        assert self.write(loader, table, everything) == Counts(written=2)
        missing = Writes(("a", "b", "w"), [("1", "x", "5"), ("1", "z", "6")], may_insert=False)
        assert self.write(loader, table, missing) == Counts(written=1, missed=1)
        both = Writes(("a", "b", "v"), [("1", "x", None), ("3", "x", "30")])
        assert self.write(loader, table, both, deletes=[("1", "y"), ("1", "Q"), ("9", "y")]) == Counts(written=2, deleted=1, missed=2)
        assert self.rows(server, "a, b, v, w") == [(1, "x", None, 5), (3, "x", 30, 7)]

    def test_an_update_that_changes_nothing_is_no_miss(self, server: TargetServer, loader: Loader) -> None:
        table = self.table(server, loader, "id int primary key, v int")
        rows = [("1", "1"), ("2", "2")]
        self.write(loader, table, Writes(("id", "v"), rows))
        assert self.write(loader, table, Writes(("id", "v"), rows, may_insert=False)) == Counts(written=2)

    def test_columns_that_an_insert_needs_may_be_left_out_where_the_row_is_there(self, server: TargetServer, loader: Loader) -> None:
        table = self.table(server, loader, "id int primary key, v int, needed int not null, given int not null default 7")
        assert [name for name, column in table.columns.items() if column.is_required] == ["id", "needed"]
        self.write(loader, table, Writes(("id", "v", "needed"), [("1", "1", "1"), ("2", "2", "2")]))
        assert self.write(loader, table, Writes(("id", "v"), [("1", "5"), ("2", None)])) == Counts(written=2)
        assert self.rows(server, "id, v, needed, given") == [(1, 5, 1, 7), (2, None, 2, 7)]
        with pytest.raises(TargetRejected, match="needed"):
            self.write(loader, table, Writes(("id", "v"), [("1", "6"), ("3", "3")]))

    @pytest.mark.parametrize("may_insert", [True, False])
    def test_a_table_of_key_columns_only(self, server: TargetServer, loader: Loader, may_insert: bool) -> None:
        table = self.table(server, loader, "id int, v int, primary key (id, v)")
        self.write(loader, table, Writes(("id", "v"), [("1", "1")]))
        counts = self.write(loader, table, Writes(("id", "v"), [("1", "1"), ("2", "2")], may_insert))
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
        assert self.write(loader, table, Writes(("id", "v"), [(one, "3")], may_insert=False)) == Counts(written=1)
        assert self.write(loader, table, deletes=[(other,)]) == Counts(deleted=1)
        assert self.rows(server, "v") == [(3,)]

    def test_more_rows_than_a_statement_holds(self, server: TargetServer, loader: Loader) -> None:
        table = self.table(server, loader, "id int primary key, v text, u int unique")
        rows = [(str(place), f"{place} " * 50, str(place)) for place in range(5_000)]
        assert self.write(loader, table, Writes(("id", "v", "u"), rows)) == Counts(written=5_000)
        assert self.write(loader, table, Writes(("id", "v", "u"), rows, may_insert=False)) == Counts(written=5_000)
        assert server.rows("SELECT count(*), sum(id), sum(u) FROM {schema}.t WHERE length(v) > 50") == [(5_000, 12_497_500, 12_497_500)]
        assert self.write(loader, table, deletes=[(key,) for key, _, _ in rows[1:]]) == Counts(deleted=4_999)

    def test_a_target_column_widened_meanwhile_takes_wider_cells(self, server: TargetServer, loader: Loader) -> None:
        table = self.table(server, loader, "id int primary key, v varchar(3), d decimal(5, 1), u int unique")
        self.write(loader, table, Writes(("id", "v", "d"), [("1", "abc", "1.5")]))
        server.execute(f"ALTER TABLE {{schema}}.t {server.types['widen v'][0]}, {server.types['widen d'][0]}")
        self.write(loader, table, Writes(("id", "v", "d"), [("1", "abcdef", "1.2345")]))
        assert [(str(v), str(d)) for v, d in self.rows(server, "v, d")] == [("abcdef", "1.2345")]

    def test_a_row_never_touches_another_by_a_second_unique_key(self, server: TargetServer, loader: Loader) -> None:
        table = self.table(server, loader, "id int primary key, v varchar(9) unique")
        self.write(loader, table, Writes(("id", "v"), [("1", "a"), ("2", "b")]))
        with pytest.raises(UniqueViolation, match=rf"table {server.schema}\.t: .*unique"):
            self.write(loader, table, Writes(("id", "v"), [("3", "a")]))
        assert self.rows(server) == [(1, "a"), (2, "b")]

    def test_rows_that_hold_unique_values_of_others_make_way_and_no_others_do(self, server: TargetServer, loader: Loader) -> None:
        table = self.table(server, loader, "id int primary key, v varchar(9) unique, a int, b int, unique (a, b)")
        cells = [("1", "a", "1", "1"), ("2", "b", "1", "2"), ("3", "c", "2", "1"), ("4", None, None, "9"), ("5", "e", "5", "5")]
        self.write(loader, table, Writes(("id", "v", "a", "b"), cells))
        moved = TableBatch(table, writes=[Writes(("id", "v", "a", "b"), [("3", "a", "1", "2"), ("4", None, None, "9")])])
        with loader.transaction() as transaction:
            assert transaction.displace(moved) == 2
            transaction.write(moved)
        assert self.rows(server, "id, v, a, b") == [(3, "a", 1, 2), (4, None, None, 9), (5, "e", 5, 5)]

    # Transactions

    def test_a_truncate_is_undone_with_its_transaction(self, server: TargetServer, loader: Loader) -> None:
        table = self.table(server, loader, "id int primary key, v int")
        self.write(loader, table, Writes(("id", "v"), [("1", "1")]))
        with pytest.raises(KeyError), loader.transaction() as transaction:
            transaction.write(TableBatch(table, truncate=True, writes=[Writes(("id", "v"), [("2", "2")])]))
            raise KeyError
        assert self.rows(server) == [(1, 1)]
        self.write(loader, table, Writes(("id", "v"), [("2", "2")]), truncate=True)
        assert self.rows(server) == [(2, 2)]

    def test_what_a_savepoint_held_is_undone_and_the_transaction_goes_on(self, server: TargetServer, loader: Loader) -> None:
        table = self.table(server, loader, "id int primary key, v varchar(9) unique")
        self.write(loader, table, Writes(("id", "v"), [("1", "a"), ("2", "b")]))
        with loader.transaction() as transaction:
            with pytest.raises(UniqueViolation), transaction.savepoint():
                transaction.write(TableBatch(table, deletes=[("2",)]))
                transaction.write(TableBatch(table, writes=[Writes(("id", "v"), [("3", "a")])]))
            for key, cell in (("1", "c"), ("3", "a")):
                transaction.write(TableBatch(table, writes=[Writes(("id", "v"), [(key, cell)])]))
        assert self.rows(server) == [(1, "c"), (2, "b"), (3, "a")]

    def test_a_savepoint_that_holds_is_kept(self, server: TargetServer, loader: Loader) -> None:
        table = self.table(server, loader, "id int primary key, v int")
        with loader.transaction() as transaction, transaction.savepoint():
            transaction.write(TableBatch(table, writes=[Writes(("id", "v"), [("1", "1")])]))
        assert self.rows(server) == [(1, 1)]

    def test_offsets_come_and_go_with_the_rows(self, server: TargetServer, loader: Loader) -> None:
        table = self.table(server, loader, "id int primary key, v int")
        assert loader.applied_offsets() == []
        stored = [AppliedOffset("Orders", 0, 5, 2**40), AppliedOffset("orders", 0, 2**33, 7), AppliedOffset("orders", 1, 0, 0)]
        with loader.transaction() as transaction:
            transaction.write(TableBatch(table, writes=[Writes(("id", "v"), [("1", "1")])]))
            for offset in (AppliedOffset("Orders", 0, 4, 3), *stored):
                transaction.store_offset(offset)
        with pytest.raises(KeyError), loader.transaction() as transaction:
            transaction.write(TableBatch(table, writes=[Writes(("id", "v"), [("2", "2")])]))
            transaction.store_offset(AppliedOffset("Orders", 0, 6, 8))
            raise KeyError
        assert set(loader.applied_offsets()) == set(stored)
        assert self.rows(server) == [(1, 1)]

    def test_each_task_has_offsets_of_its_own(self, server: TargetServer, loader: Loader) -> None:
        other = make_loader("JdbcBatch", server.target(task_id="other"))
        with loader.transaction() as transaction:
            transaction.store_offset(AppliedOffset("orders", 0, 5, 1))
        assert other.applied_offsets() == []
        other.close()

    def test_many_lanes_may_start_at_once_where_nothing_is_yet(self, server: TargetServer, loader: Loader) -> None:
        others = [make_loader("JdbcBatch", server.target(task_id=f"task {number}")) for number in range(4)]
        everybody = threading.Barrier(8)

        def run(lane: int) -> None:
            everybody.wait(timeout=30)
            with others[lane % 4].transaction() as transaction:
                transaction.store_offset(AppliedOffset("orders", lane, lane, 1))

        lanes = [threading.Thread(target=run, args=(lane,)) for lane in range(8)]
        for lane in lanes:
            lane.start()
        for lane in lanes:
            lane.join(timeout=60)
        assert [sorted(offset.partition for offset in other.applied_offsets()) for other in others] == [[0, 4], [1, 5], [2, 6], [3, 7]]
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
                    transaction.write(TableBatch(table, writes=[Writes(("id", "v"), [(number, number)])]))
                    transaction.store_offset(AppliedOffset("orders", 0, 5, 1))
        assert poor.applied_offsets() == []
        assert self.rows(server) == [(1, 1), (2, 2)]
        [message] = [record.getMessage() for record in caplog.records]
        assert message.startswith("task poor keeps no offsets in the target: ")
        poor.close()

    def test_a_look_at_the_offset_table_makes_none(self, server: TargetServer, loader: Loader) -> None:
        assert loader.offset_table() == OffsetTable(False, True)
        assert loader.offset_table() == OffsetTable(False, True)
        with loader.transaction() as transaction:
            transaction.store_offset(AppliedOffset("orders", 0, 5, 1))
        assert loader.offset_table() == OffsetTable(True, True, [AppliedOffset("orders", 0, 5, 1)])

    def test_a_look_tells_that_the_offset_table_cannot_be_made(self, server: TargetServer) -> None:
        poor = make_loader("JdbcBatch", server.without_rights_to_create())
        assert poor.offset_table() == OffsetTable(False, False)
        poor.close()

    # Failures

    def test_a_deadlock_is_unavailable_also_inside_a_savepoint(self, server: TargetServer, loader: Loader) -> None:
        table = self.table(server, loader, "id int primary key, v int")
        self.write(loader, table, Writes(("id", "v"), [("1", "0"), ("2", "0")]))
        both_hold_one = threading.Barrier(2)
        outcomes: list[type[Exception] | None] = []

        def run(keys: tuple[str, str]) -> None:
            try:
                with loader.transaction() as transaction, transaction.savepoint():
                    transaction.write(TableBatch(table, writes=[Writes(("id", "v"), [(keys[0], keys[0])])]))
                    both_hold_one.wait(timeout=30)
                    transaction.write(TableBatch(table, writes=[Writes(("id", "v"), [(keys[1], keys[0])])]))
                outcomes.append(None)
            except Exception as error:
                outcomes.append(type(error))

        lanes = [threading.Thread(target=run, args=(keys,)) for keys in (("1", "2"), ("2", "1"))]
        for lane in lanes:
            lane.start()
        for lane in lanes:
            lane.join(timeout=60)
        assert sorted(outcomes, key=str) == [TargetUnavailable, None]
        [(_, one), (_, two)] = self.rows(server)
        assert (one, two) in ((1, 1), (2, 2))

    def test_a_connection_lost_in_a_transaction_is_unavailable_then_all_is_well(self, server: TargetServer, loader: Loader) -> None:
        table = self.table(server, loader, "id int primary key, v int")
        batch = TableBatch(table, writes=[Writes(("id", "v"), [("1", "1")])])
        with pytest.raises(TargetUnavailable), loader.transaction() as transaction, transaction.savepoint():
            transaction.write(batch)
            assert server.kill_connections() >= 1
            transaction.write(batch)
        assert self.rows(server) == []
        with loader.transaction() as transaction:
            transaction.write(batch)
        assert self.rows(server) == [(1, 1)]

    def test_a_connection_lost_before_the_commit_is_unavailable(self, server: TargetServer, loader: Loader) -> None:
        table = self.table(server, loader, "id int primary key, v int")
        with pytest.raises(TargetUnavailable), loader.transaction() as transaction:
            transaction.write(TableBatch(table, writes=[Writes(("id", "v"), [("1", "1")])]))
            server.kill_connections()
        assert self.rows(server) == []

    def test_a_connection_lost_while_idle_is_not_noticed(self, server: TargetServer, loader: Loader) -> None:
        table = self.table(server, loader, "id int primary key, v int")
        assert server.kill_connections() >= 1
        self.write(loader, table, Writes(("id", "v"), [("1", "1")]))
        assert self.rows(server) == [(1, 1)]

    def test_a_row_locked_for_too_long_is_unavailable(self, server: TargetServer, loader: Loader) -> None:
        table = self.table(server, loader, "id int primary key, v int")
        self.write(loader, table, Writes(("id", "v"), [("1", "1")]))
        impatient = make_loader("JdbcBatch", server.target(url=server.target().url + server.impatient))
        held = server.hold("UPDATE {schema}.t SET v = 2")
        next(held)
        with pytest.raises(TargetUnavailable):
            self.write(impatient, table, Writes(("id", "v"), [("1", "3")]))
        del held
        self.write(impatient, table, Writes(("id", "v"), [("1", "3")]))
        assert self.rows(server) == [(1, 3)]
        impatient.close()

    @pytest.mark.parametrize(
        ("what", "error"), [("password", TargetMisconfigured), ("database", TargetMisconfigured), ("port", TargetUnavailable)]
    )
    def test_a_target_that_cannot_be_entered(
        self, server: TargetServer, what: str, error: type[TargetError], caplog: pytest.LogCaptureFixture
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
            ("varchar(3)", "SECRET", False),
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
        self, server: TargetServer, loader: Loader, type_: str, cell: Cell, named: bool, unique: bool
    ) -> None:
        name = server.types[type_][0] if type_ in server.types else type_
        table = self.table(server, loader, f"id int primary key, v {name}{', u int unique' if unique else ''}")
        with pytest.raises(TargetRejected) as refused:
            self.write(loader, table, Writes(("id", "v"), [("1", cell)]))
        assert type(refused.value) is TargetRejected
        message = str(refused.value)
        assert f"table {server.schema}.t" in message
        assert "SECRET" not in message
        assert "4242" not in message
        assert not named or re.search(r"(?i)column [\"'`]?v\b|`\w+\.v`", message)  # MariaDB calls the check of a JSON column `t.v`
        assert "SECRET" not in "".join(traceback.format_exception(refused.value))

    def test_a_broken_reference_is_rejected_by_name(self, server: TargetServer, loader: Loader) -> None:
        server.execute("CREATE TABLE {schema}.parent (id int primary key)")
        constraint = "constraint has_parent foreign key (v) references {schema}.parent (id)"
        table = self.table(server, loader, f"id int primary key, v int, {constraint}")
        with pytest.raises(TargetRejected, match="has_parent"):
            self.write(loader, table, Writes(("id", "v"), [("1", "4242")]))

    def test_a_table_dropped_meanwhile_is_rejected(self, server: TargetServer, loader: Loader) -> None:
        table = self.table(server, loader, "id int primary key, v int")
        server.execute("DROP TABLE {schema}.t")
        with pytest.raises(TargetRejected, match=r"\.t"):
            self.write(loader, table, Writes(("id", "v"), [("1", "1")]))
