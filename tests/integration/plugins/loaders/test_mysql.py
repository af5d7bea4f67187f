"""The loader for MySQL and MariaDB on real servers: what all loaders promise, and what is its own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from sqlalchemy import Engine, event

from cdcbus.ops.stack.addresses import Database
from cdcbus.plugins.contracts import Counts, Loader, TableBatch, TargetTable, Writes
from cdcbus.plugins.errors import RowConflict, TargetRejected, TargetUnavailable
from cdcbus.plugins.loaders import make_loader
from cdcbus.plugins.loaders.cells.arrow_rows import ColumnRows
from cdcbus.plugins.loaders.identity import known_tables
from cdcbus.plugins.rowchange import Column, TableId
from tests.contract.loader import LoaderContract
from tests.contract.target_server import TargetServer
from tests.support.servers.target_servers import ForeignMysqlServer, MysqlServer, schema_on
from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration


class MysqlContract(LoaderContract):
    def test_tables_of_which_others_delete_rows_are_not_looked_at(
        self, server: MysqlServer
    ) -> None:
        """In two directions of replication the applications do."""
        loader = make_loader("JdbcBatch", server.target(mark="from_a"))
        table = self.table(server, loader, "id int primary key, v int")
        self.write(loader, table, Writes(("id", "v"), [("1", "1")]))
        assert loader.lost_tables() == []
        server.execute("DELETE FROM {schema}.t")
        server.execute("TRUNCATE TABLE {schema}.t")
        assert loader.lost_tables() == []
        loader.close()

    def test_a_row_that_was_written_under_a_former_key_is_not_looked_for(
        self, server: MysqlServer, loader: Loader
    ) -> None:
        table = self.table(server, loader, "id int primary key, v int")
        self.write(loader, table, Writes(("id", "v"), [("1", "1")]))
        server.execute("ALTER TABLE {schema}.t DROP PRIMARY KEY, ADD PRIMARY KEY (v)")
        loader.refresh(table.id)
        found = loader.table(table.id)
        assert found is not None
        assert found.key == ("v",)
        assert loader.lost_tables() == []

    def test_columns_grow_where_the_server_prints_names_without_quotes(
        self, server: MysqlServer
    ) -> None:
        target = server.target()
        address = f"{target.url}?sessionVariables=sql_quote_show_create=0"
        loader = make_loader("JdbcBatch", replace(target, url=address))
        table = self.table(server, loader, "id int primary key, v varchar(3)")
        table = loader.evolve(table, [Column("v", "varchar(30)")])
        assert table.columns["v"].length == 30
        loader.close()

    def test_a_look_reads_the_storage_of_all_tables_at_once_and_ends_in_time(
        self, server: MysqlServer, loader: Loader, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        tables = [
            self.table(server, loader, "id int primary key, v int", name=f"t{number}")
            for number in range(5)
        ]
        asked: list[str] = []

        def note(_: Any, __: Any, statement: str, *___: Any) -> None:
            asked.append(statement)

        event.listen(Engine, "before_cursor_execute", note)
        try:
            for table in tables:
                self.write(loader, table, Writes(("id", "v"), [("1", "1")]))
            assert loader.lost_tables() == []
            assert sum(["FROM information_schema.innodb_" in sql for sql in asked]) == 1
            for table in tables:
                server.execute(f"DROP TABLE {{schema}}.{table.id.table}")
            asked.clear()
            monkeypatch.setattr(known_tables, "LOOK_SECONDS", 0)
            assert loader.lost_tables() == []
            # That of the notes, and one more.
            assert sum(["CAST(create_time AS CHAR)" in sql for sql in asked]) == 2
        finally:
            event.remove(Engine, "before_cursor_execute", note)

    def test_zero_dates_and_zero_ids_pass(self, server: MysqlServer, loader: Loader) -> None:
        columns = "d date, t datetime(3), s timestamp null, y year, u int unique"
        table = self.table(server, loader, f"id int auto_increment primary key, {columns}")
        row = ("0", "0000-00-00", "2024-00-00 00:00:00.000", "0000-00-00 00:00:00", "0000", "0")
        for _ in range(2):
            self.write(loader, table, Writes(tuple(table.columns), [row]))
        assert self.rows(
            server, "id, CAST(d AS char), CAST(t AS char), CAST(s AS char), CAST(y AS char)"
        ) == [(0, *row[1:4], "0000")]

    @pytest.mark.parametrize(
        "columns",
        ["t text not null, v int, primary key (t(10))", "a int, v int, unique ((a + 1))"],
        ids=["prefix", "expression"],
    )
    def test_a_row_that_comes_twice_into_a_table_with_a_key_on_less_than_columns_is_explained(
        self, server: MysqlServer, loader: Loader, columns: str
    ) -> None:
        if "((" in columns and "MariaDB" in str(server.rows("SELECT VERSION()")):
            pytest.skip("MariaDB has no keys on expressions")
        loader.fence()
        table = self.table(server, loader, columns)
        assert table.key == ()
        self.swap(loader, table, (None, ("1", "2")))
        with pytest.raises(RowConflict, match=r"1062: .* rows are not found by it, and one that"):
            self.swap(loader, table, (None, ("1", "2")))

    def test_a_unique_key_cannot_come_while_a_transaction_writes_and_is_known_to_the_next_attempt(
        self, server: MysqlServer, loader: Loader
    ) -> None:
        table = self.table(server, loader, "id int auto_increment primary key, v int")
        waiting = (
            "SELECT 1 FROM information_schema.processlist WHERE state = 'Waiting for table "
            "metadata lock' AND info LIKE '%{schema}%'"
        )
        with ThreadPoolExecutor(1) as pool:
            with loader.transaction() as transaction:
                transaction.write(
                    TableBatch(table, writes=[Writes(("id", "v"), [("1", "1"), ("2", "1")])])
                )
                altered = pool.submit(server.execute, "ALTER TABLE {schema}.t ADD UNIQUE (v)")
                wait_until(lambda: bool(server.rows(waiting)), "the other waits")
                transaction.write(TableBatch(table, writes=[Writes(("id", "v"), [("2", "2")])]))
                assert not altered.done()
            altered.result(timeout=30)
        taken = Writes(("id", "v"), [("1", "5"), ("3", "2")])
        with pytest.raises(
            TargetUnavailable,
            match=rf"table {server.schema}\.t: it has got a unique key meanwhile, and is looked "
            r"at again",
        ):
            self.write(loader, table, taken)
        assert self.rows(server) == [(1, 1), (2, 2)]
        known = loader.table(table.id)
        assert known is not None
        assert known.unique_keys == (("v",),)
        with pytest.raises(RowConflict):
            self.write(loader, known, taken)
        assert self.rows(server) == [(1, 1), (2, 2)]

    def test_the_largest_numbers_are_written_though_their_texts_are_above_them(
        self, server: MysqlServer, loader: Loader
    ) -> None:
        table = self.table(
            server,
            loader,
            "id int primary key, f float, g float(10,2) unsigned zerofill, d double(20,5), "
            "w float(99,9)",
        )
        rows = [
            ("1", "3.4028235e+38", "100000000.0", "1000000000000000.0", "3.4028235e+38"),
            ("2", "-3.4028235E38", None, "-1e15", None),
            ("3", "0.1", "0.5", None, "0.5"),
        ]
        arrays = ColumnRows([pa.array(cells, pa.string()) for cells in zip(*rows, strict=True)])
        for given in (rows, arrays):
            self.write(loader, table, Writes(tuple(table.columns), given))
            assert self.rows(server, "id, f * 1e0, g * 1e0, d * 1e0, w * 1e0")[:2] == [
                (1, 3.4028234663852886e38, 1e8, 1e15, 3.4028234663852886e38),
                (2, -3.4028234663852886e38, None, -1e15, None),
            ]
            server.execute("DELETE FROM {schema}.t")
        for name, cell in (("f", "3.4028236e+38"), ("f", "-1e39"), ("g", "1e300"), ("d", "1.1e15")):
            with pytest.raises(TargetRejected):
                self.write(loader, table, Writes(("id", name), [("1", cell)]))

    def test_a_fraction_becomes_a_whole_number_without_an_error(
        self, server: MysqlServer, loader: Loader
    ) -> None:
        """So the log warns of such a column."""
        table = self.table(server, loader, "id int primary key, v bigint")
        self.write(loader, table, Writes(("id", "v"), [("1", "1.20"), ("2", "1.50")]))
        assert self.rows(server) == [(1, 1), (2, 2)]

    @pytest.mark.parametrize("cell", ["5", "0", "", "70", "2024.0", "2156"])
    def test_no_number_becomes_another_year(
        self, server: MysqlServer, loader: Loader, cell: str
    ) -> None:
        table = self.table(server, loader, "id int primary key, y year")
        rows = [("1", cell), ("2", None), ("3", "2155")]
        for given in (rows, ColumnRows(list(map(pa.array, zip(*rows, strict=True))))):
            with pytest.raises(TargetRejected):
                self.write(loader, table, Writes(("id", "y"), given))
        self.write(loader, table, Writes(("id", "y"), rows[1:]))
        assert self.rows(server, "id, y") == [(2, None), (3, 2155)]

    def test_the_largest_float_is_found_in_a_table_without_a_key(
        self, server: MysqlServer, loader: Loader
    ) -> None:
        table = self.table(server, loader, "id int, f float")
        largest = "3.4028235e+38"
        assert self.swap(loader, table, (None, ("1", largest))) == Counts(written=1)
        assert self.swap(loader, table, (("1", largest), ("2", largest))) == Counts(written=1)
        assert self.rows(server, "id") == [(2,)]

    def test_a_column_made_wider_keeps_its_character_set_and_comment(
        self, server: MysqlServer, loader: Loader
    ) -> None:
        definition = (
            "varchar(3) CHARACTER SET latin1 COLLATE latin1_bin NOT NULL DEFAULT 'a,)' "
            "COMMENT 'it''s `v`, (x)'"
        )
        table = self.table(
            server,
            loader,
            f"id int primary key, v {definition}, e enum('a)','b') NULL, f float, u int unsigned",
        )
        source = [
            Column("v", "varchar(30)"),
            Column("e", "enum('a)','b','c')"),
            Column("f", "double"),
            Column("u", "bigint unsigned"),
        ]
        loader.evolve(table, source)
        facts = "column_type, collation_name, is_nullable, column_comment"
        of_t = "table_schema = '{schema}' AND table_name = 't'"
        [_, v, e, f, u] = server.rows(
            f"SELECT {facts} FROM information_schema.columns WHERE {of_t} ORDER BY ordinal_position"
        )
        assert v == ("varchar(30)", "latin1_bin", "NO", "it's `v`, (x)")
        assert e[0] == "enum('a)','b','c')"
        assert f[0] == "double"
        assert str(u[0]).startswith("bigint") and str(u[0]).endswith("unsigned")
        self.write(loader, loader.table(table.id) or table, Writes(("id",), [("1",)]))
        assert self.rows(server) == [(1, "a,)")]

    def test_labels_come_behind_those_that_are_there(
        self, server: MysqlServer, loader: Loader
    ) -> None:
        definition = (
            "e enum('b','it''s','C') NOT NULL DEFAULT 'C' COMMENT 'a\\\\b', s "
            "set('x','y') CHARACTER SET latin1 DEFAULT 'x,y'"
        )
        table = self.table(
            server,
            loader,
            f"id int primary key, {definition}, u int unsigned, y year, o enum('?'), d double "
            "unsigned",
        )
        self.write(
            loader,
            table,
            Writes(("id", "e", "s", "y"), [("1", "it's", "y", "2024"), ("2", "b", "x", "0000")]),
        )
        source = [
            *(
                Column("e", "enum('new','c','b','ü (,)''')"),
                Column("s", "set('z','x')"),
                Column("u", "int"),
            ),
            *(Column("y", "smallint"), Column("o", "enum('?','a')"), Column("d", "double")),
        ]
        for _ in range(2):
            table = loader.evolve(table, source)
        row = ("3", "ü (,)'", "x,z", "-1", "-5", "-1.5")
        self.write(
            loader, table, Writes(("id", "e", "s", "u", "y", "d"), [row]), Writes(("id",), [("4",)])
        )
        assert [column.declared.replace("(20)", "").replace("(6)", "") for column in table.columns.values()][1:] == [
            "enum('b','it''s','C','new','ü (,)''')", "set('x','y','z')", "bigint", "smallint", "enum('?')", "double",
        ]  # fmt: skip
        assert self.rows(server, "id, e, CAST(s AS char), y, e + 0, CAST(s + 0 AS char)") == [
            (1, "it's", "y", 2024, 2, "2"), (2, "b", "x", 0, 1, "1"), (3, "ü (,)'", "x,z", -5, 5, "5"), (4, "C", "x,y", None, 3, "3"),
        ]  # fmt: skip
        comment = (
            "SELECT column_comment FROM information_schema.columns WHERE table_schema = "
            "'{schema}' AND column_name = 'e'"
        )
        assert server.rows(comment) == [("a\\b",)]

    def test_times_years_and_bytes_of_a_geometry(self, server: MysqlServer, loader: Loader) -> None:
        table = self.table(server, loader, "id int primary key, t time(6), y year, g geometry")
        self.write(loader, table, Writes(("id", "t", "y"), [("1", "-838:59:59.000000", "2155")]))
        assert self.rows(server, "CAST(t AS char), CAST(y AS char)") == [
            ("-838:59:59.000000", "2155")
        ]
        for column, cell in (("t", "839:00:00"), ("y", "2156"), ("g", "SECRET")):
            with pytest.raises(
                TargetRejected, match=f"column '?{column}|the server refuses the rows"
            ):
                self.write(loader, table, Writes(("id", column), [("1", cell)]))

    @pytest.mark.parametrize("unique", ["", ", u int unique"])
    @pytest.mark.parametrize("copies", [1, 20, 1200])
    def test_an_invalid_value_of_an_enum_is_written_and_nothing_else_of_its_row_touched(
        self, server: MysqlServer, loader: Loader, unique: str, copies: int
    ) -> None:
        columns = "e enum('a','b') NOT NULL, f enum('c',''), v varchar(2), "
        follows = (
            "at timestamp(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3) ON UPDATE CURRENT_TIMESTAMP(3)"
        )
        table = self.table(server, loader, f"id int primary key, {columns}{follows}{unique}")
        names, moment = ("id", "e", "f", "v", "at"), "2001-02-03 04:05:06.789"
        rows = [(str(number), ("", "b")[number % 2], "", "v", moment) for number in range(copies)]
        arrays = ColumnRows([pa.array(cells) for cells in zip(*rows, strict=True)])
        expected = [
            (number, row[1], 2 * (number % 2), "", 2, "v", moment)
            for number, row in enumerate(rows)
        ]
        forms: tuple[dict[str, Any], ...] = (
            {"rows": rows},
            {"rows": arrays},
            {"rows": rows, "may_insert": False},
            {"rows": rows, "expected": copies},
        )
        for form in forms:
            self.write(loader, table, Writes(names, **form))
            assert self.rows(server, "id, e, e + 0, f, f + 0, v, CAST(at AS char)") == expected
            server.execute("UPDATE {schema}.t SET e = 'a', f = 'c'")
        # strict mode is there for all other statements
        with pytest.raises(TargetRejected, match="column 'v'"):
            self.write(loader, table, Writes(names, [("0", "", "", "long", moment)]))

    @pytest.mark.parametrize("copies", [3, 20])
    def test_an_invalid_value_of_an_enum_is_written_to_rows_that_are_there_only(
        self, server: MysqlServer, loader: Loader, copies: int
    ) -> None:
        table = self.table(server, loader, "id int primary key, e enum('a','b')")
        server.execute("INSERT INTO {schema}.t VALUES (1, 'b'), (3, 'b')")
        rows = [(str(number), "") for number in range(2, 2 + copies)]
        assert self.write(loader, table, Writes(("id", "e"), rows, may_insert=False)) == Counts(
            written=1, missed=copies - 1
        )
        assert self.write(
            loader, table, Writes(("id", "e"), [("4", "")], may_insert=False)
        ) == Counts(missed=1)
        assert self.rows(server, "id, e, e + 0") == [(1, "b", 2), (3, "", 0)]

    def test_an_invalid_value_of_an_enum_leaves_no_label_where_its_key_is_rounded(
        self, server: MysqlServer, loader: Loader
    ) -> None:
        table = self.table(server, loader, "id decimal(3,1) primary key, e enum('a','b')")
        server.execute("INSERT INTO {schema}.t VALUES (1, 'b')")
        rows = [(f"{number}.04", "") for number in range(1, 12)]
        with pytest.raises(
            TargetRejected, match=r"column e \(enum\): a cell has .* with one that is rounded"
        ):
            self.write(loader, table, Writes(("id", "e"), rows))
        assert self.write(loader, table, Writes(("id", "e"), rows, may_insert=False)) == Counts(
            missed=11
        )
        assert self.rows(server, "id + 0e0, e") == [(1, "b")]

    @pytest.mark.parametrize(
        "keys", ["primary key (e, id)", "primary key (id), unique (e, id)", "index (id)"]
    )
    def test_an_invalid_value_of_an_enum_is_refused_where_it_cannot_be_written_and_fits_an_empty_label(
        self, server: MysqlServer, loader: Loader, keys: str
    ) -> None:
        table = self.table(server, loader, f"id int not null, e enum('a','b') not null, {keys}")

        def write(table: TargetTable) -> None:
            if table.key:
                self.write(loader, table, Writes(("id", "e"), [("1", "")]))
            else:
                self.swap(loader, table, (None, ("1", "")))

        refused = (
            rf"target table {server.schema}\.t, column e \(enum\): a cell has none of its "
            r"labels; an empty one is MySQL's mark"
        )
        with pytest.raises(TargetRejected, match=refused):
            write(table)
        server.execute("ALTER TABLE {schema}.t MODIFY e enum('a','b','') not null")
        assert loader.is_altered(table)
        write(loader.table(table.id) or table)
        assert self.rows(server, "id, e") == [(1, "")]

    def test_spatial_rows_without_a_key_are_found(
        self, server: MysqlServer, loader: Loader
    ) -> None:
        table = self.table(server, loader, "id int, v point")
        point = "\xe6\x10\0\0\x01\x01\0\0\0" + "\0" * 16
        self.swap(loader, table, (None, ("1", point)))
        assert self.swap(loader, table, (("1", point), None)) == Counts(deleted=1)

    def test_a_column_that_follows_updates_by_itself_takes_the_source_s_value(
        self, server: MysqlServer, loader: Loader
    ) -> None:
        for unique in ("", ", u int unique"):
            stamp = "timestamp not null default current_timestamp on update current_timestamp"
            table = self.table(server, loader, f"id int primary key, v int, s {stamp}{unique}")
            for number in ("1", "2"):
                self.write(
                    loader, table, Writes(("id", "v", "s"), [("1", number, "2001-02-03 04:05:06")])
                )
            assert self.rows(server, "CAST(s AS char)") == [("2001-02-03 04:05:06",)]
            server.execute("DROP TABLE {schema}.t")
            loader.refresh(table.id)

    @pytest.mark.parametrize(
        "column",
        [
            "int not null auto_increment unique",
            "timestamp not null default current_timestamp",
            "timestamp(3) not null default '2001-02-03 04:05:06'",
        ],
    )
    def test_no_value_of_the_server_s_own_takes_the_place_of_null(
        self, server: MysqlServer, loader: Loader, column: str
    ) -> None:
        table = self.table(server, loader, f"id int primary key, v {column}")
        value = "7" if column.startswith("int") else "2001-02-03 04:05:06"
        self.write(loader, table, Writes(("id", "v"), [("1", value)]))
        before = self.rows(server)
        rows = [(number, None) for number in "123"]
        for given in (rows[:1], rows, ColumnRows(list(map(pa.array, zip(*rows, strict=True))))):
            for may_insert in (True, False):
                with pytest.raises(TargetRejected, match=r"t, column v \(\w+\): a cell has NULL"):
                    self.write(loader, table, Writes(("id", "v"), given, may_insert))
        assert self.rows(server) == before

    def test_no_value_of_the_server_s_own_takes_the_place_of_null_in_a_table_without_a_key(
        self, server: MysqlServer, loader: Loader
    ) -> None:
        table = self.table(server, loader, "id int not null auto_increment, v int, key (id)")
        self.swap(loader, table, (None, ("1", "1")))
        for old in (None, ("1", "1")):
            with pytest.raises(TargetRejected, match="a cell has NULL"):
                self.swap(loader, table, (old, (None, "2")))
        assert self.swap(loader, table, ((None, "1"), None)) == Counts(missed=1)
        assert self.rows(server) == [(1, 1)]

    def test_spatial_columns_take_the_source_s_bytes(
        self, server: MysqlServer, loader: Loader
    ) -> None:
        table = self.table(server, loader, "id int primary key, g point not null")
        server.execute("CREATE TABLE {schema}.source (g point)")
        server.execute("INSERT INTO {schema}.source VALUES (ST_GeomFromText('POINT(1 2)', 4326))")
        [(point,)] = server.rows("SELECT g FROM {schema}.source")
        assert isinstance(point, bytes)
        self.write(loader, table, Writes(("id", "g"), [("1", point.decode("latin-1"))]))
        assert self.rows(server, "g") == [(point,)]

    def test_characters_that_the_column_s_set_lacks_are_named(
        self, server: MysqlServer, loader: Loader
    ) -> None:
        table = self.table(
            server, loader, "id int primary key, v varchar(20) CHARACTER SET utf8mb3"
        )
        with pytest.raises(
            TargetRejected,
            match="text has characters that column v cannot hold: check its character set",
        ):
            self.write(loader, table, Writes(("id", "v"), [("1", "😀")]))

    def test_a_row_longer_than_the_server_takes_is_rejected_not_retried(
        self, server: MysqlServer, loader: Loader
    ) -> None:
        table = self.table(server, loader, "id int primary key, v longtext")
        [(limit,)] = server.rows("SELECT @@max_allowed_packet")
        assert isinstance(limit, int)
        what = (
            rf"table {server.schema}\.t: a row takes \d+ bytes, but max_allowed_packet is {limit}"
        )
        with pytest.raises(TargetRejected, match=what):
            self.write(loader, table, Writes(("id", "v"), [("1", "x" * limit)]))
        self.write(loader, table, Writes(("id", "v"), [("1", "x" * (limit - 1000))]))

    def test_a_table_with_an_odd_type_is_reflected(
        self, server: MysqlServer, loader: Loader
    ) -> None:
        server.execute(
            "CREATE TABLE {schema}.odd (id int primary key, g geometrycollection, b bit(3), e "
            "set('a', 'b'))"
        )
        table = loader.table(TableId(server.schema, "odd"))
        assert isinstance(table, TargetTable)
        assert (table.columns["b"].length, table.columns["e"].type) == (3, "set")


class TestMariadb(MysqlContract):
    @pytest.fixture
    def server(self, mariadb: Database, name: str) -> Iterator[MysqlServer]:
        yield from schema_on(MysqlServer(mariadb, name))


@pytest.mark.source
@pytest.mark.skipif(
    "CDCBUS_TEST_SOURCE" not in os.environ,
    reason="the stack has no MySQL: CDCBUS_TEST_SOURCE names one",
)
class TestMysql(MysqlContract):
    @pytest.fixture
    def server(self, source: Database, name: str) -> Iterator[MysqlServer]:
        yield from schema_on(ForeignMysqlServer(source, name))

    def test_a_table_of_earlier_versions_that_may_not_be_altered_is_refused_with_the_statement(
        self, server: TargetServer
    ) -> None:
        """Nobody here lacks that right: an address without a database has no place for the
        table, and nothing is fenced."""
        self.old_offset_table(server)
        poor = make_loader("JdbcBatch", server.without_rights_to_create())
        assert poor.fence() is None
        poor.close()
