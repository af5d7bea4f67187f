"""The loader for PostgreSQL on a real server: what all loaders promise, and what is its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pyarrow as pa
import pytest

from cdcbus.ops.stack.addresses import Database
from cdcbus.plugins.contracts import (
    Counts,
    Loader,
    Swaps,
    TableBatch,
    TargetColumn,
    Writes,
    ZeroDate,
)
from cdcbus.plugins.errors import TargetRejected
from cdcbus.plugins.loaders import make_loader
from cdcbus.plugins.loaders.cells.arrow_rows import ColumnRows
from cdcbus.plugins.loaders.dialects.postgresql.dialect import MERGE_ROWS
from cdcbus.plugins.loaders.sqlalchemy_loader import JdbcBatch
from cdcbus.plugins.rowchange import Column
from tests.contract.loader import LoaderContract
from tests.support.servers.target_servers import POOR, PostgresqlServer
from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration


class TestPostgresql(LoaderContract):
    @pytest.fixture
    def server(self, postgresql: Database, name: str) -> Iterator[PostgresqlServer]:
        server = PostgresqlServer(postgresql, name)
        server.execute("CREATE SCHEMA {schema}")
        yield server
        server.execute("DROP SCHEMA {schema} CASCADE")

    @pytest.mark.parametrize("rights", ["", "SELECT", "SELECT, DELETE"])
    def test_a_table_of_notes_without_rights_on_it_is_done_without(
        self,
        server: PostgresqlServer,
        loader: Loader,
        caplog: pytest.LogCaptureFixture,
        rights: str,
    ) -> None:
        """Another task has created it, or the rights were taken meanwhile."""
        notes = f"{server.schema}.cdcbus_tables"
        table = self.table(server, loader, "id int primary key, v int")
        assert loader.lost_tables() == []
        poor, next_run = [
            make_loader("JdbcBatch", server.without_rights_to_create()) for _ in range(2)
        ]
        self.write(poor, table, Writes(("id", "v"), [("1", "1")]))
        assert poor.table(table.id) == table
        assert poor.lost_tables() == []
        server.execute(f"GRANT TRUNCATE ON {{schema}}.t TO {POOR}")
        server.execute(f"REVOKE ALL ON {notes} FROM {POOR}")
        if rights:
            server.execute(f"GRANT {rights} ON {notes} TO {POOR}")
        caplog.set_level("INFO")
        for run in (poor, next_run):
            server.execute("TRUNCATE {schema}.t")
            assert len(run.lost_tables()) == (run is poor)
            self.write(run, table, Writes(("id", "v"), [("1", "1")]), truncate=True)
            assert run.table(table.id) == table
            assert run.lost_tables() == []
            server.execute("TRUNCATE {schema}.t")
            assert len(run.lost_tables()) == 1
            run.accept_tables()
            assert run.lost_tables() == []
            [said] = [text for text in caplog.messages if "GRANT" in text]
            assert f"GRANT SELECT, INSERT, DELETE ON {notes} TO {POOR}" in said
            caplog.clear()
            run.close()

    def test_types_that_no_other_target_has(self, server: PostgresqlServer, loader: Loader) -> None:
        server.execute("CREATE TYPE {schema}.\"Mood\" AS ENUM ('so so', 'good')")
        server.execute("CREATE DOMAIN {schema}.short AS varchar(5)")
        server.execute("CREATE DOMAIN {schema}.raw AS bytea")
        server.execute("CREATE DOMAIN {schema}.raw2 AS {schema}.raw")
        columns = (
            'm {schema}."Mood", n int[], u uuid, d {schema}.short, r {schema}.raw, c '
            'char(4), b varbit, x "char", r2 {schema}.raw2'
        )
        table = self.table(
            server, loader, f"id int generated always as identity primary key, {columns}"
        )
        row = (
            "7",
            "so so",
            "{1,NULL,3}",
            "6f1d2c9e-0000-4000-8000-000000000001",
            "abcde",
            "\x00\xff",
            "ab",
            "5",
            "z",
            "\xff\xe9",
        )
        writes = Writes(tuple(table.columns), [row, ("8", *[None] * 9)])
        for may_insert in (True, True, False):
            self.write(loader, table, replace(writes, may_insert=may_insert))
        shown = "id, m::text, n, u::text, d, encode(r, 'hex'), c, b, x::text, encode(r2, 'hex')"
        assert self.rows(server, shown) == [
            (7, "so so", [1, None, 3], row[3], "abcde", "00ff", "ab  ", "101", "z", "ffe9"),
            (8, *[None] * 9),
        ]

    def test_a_domain_over_domains_is_its_base_type(self, server: PostgresqlServer) -> None:
        target = server.target()
        loader = make_loader("JdbcBatch", replace(target, url=f"{target.url},public"))
        server.execute("CREATE EXTENSION IF NOT EXISTS citext SCHEMA public")
        server.execute("CREATE TYPE {schema}.mood AS ENUM ('good')")
        columns: list[str] = []
        for name, base in {
            "plain": "public.citext",
            "short": "varchar(5)",
            "exact": "numeric(9,2)",
            "moment": "timestamp(3)",
            "mood": "{schema}.mood",
        }.items():
            for number, below in enumerate([base, f"{{schema}}.{name}0", f"{{schema}}.{name}1"]):
                server.execute(f"CREATE DOMAIN {{schema}}.{name}{number} AS {below}")
            columns.append(f"{name} {{schema}}.{name}2")
        table = self.table(server, loader, ", ".join([*columns, "primary key (plain)"]))
        assert [replace(column, name="") for column in table.columns.values()] == [
            TargetColumn("", "citext", is_nullable=False, is_required=True, is_folding=True),
            TargetColumn("", "character varying", 5),
            TargetColumn("", "numeric", 9, scale=2),
            TargetColumn("", "timestamp without time zone", 3),
            TargetColumn("", "mood", declared="enum('good')"),
        ]
        self.write(loader, table, Writes(("plain",), [("a",)]))
        with pytest.raises(TargetRejected, match="spelled otherwise"):
            self.write(loader, table, Writes(("plain",), [("A",)]))
        assert isinstance(loader, JdbcBatch)
        with loader._database.engine.connect() as connection:
            assert loader._database.dialect.is_coarse(connection, table)
        loader.close()

    def test_a_fraction_is_refused_by_a_column_of_whole_numbers(
        self, server: PostgresqlServer, loader: Loader
    ) -> None:
        """So no warning says that it is rounded."""
        table = self.table(server, loader, "id int primary key, v bigint")
        with pytest.raises(TargetRejected, match="column v"):
            self.write(loader, table, Writes(("id", "v"), [("1", "1.20")]))

    def test_an_enum_type_gets_the_source_s_labels_behind_its_own(
        self, server: PostgresqlServer, loader: Loader
    ) -> None:
        server.execute("CREATE TYPE {schema}.\"Mood x\" AS ENUM ('so so', 'it''s')")
        server.execute('CREATE DOMAIN {schema}.felt AS {schema}."Mood x"')
        columns = "m {schema}.\"Mood x\" DEFAULT 'so so', d {schema}.felt, t text, s varchar(3)"
        table = self.table(server, loader, f"id int primary key, {columns}")
        self.write(loader, table, Writes(("id", "m"), [("1", "it's")]))
        labels = "enum('%new%','it''s','SO SO')"
        for _ in range(2):
            table = loader.evolve(table, [Column(name, labels) for name in ("m", "d", "t", "s")])
        self.write(loader, table, Writes(("id", "m", "d", "t"), [("2", "%new%", "SO SO", "%new%")]))
        assert self.rows(server, "id, m::text, d::text, t") == [
            (1, "it's", None, None),
            (2, "%new%", "SO SO", "%new%"),
        ]
        assert table.columns["m"].declared == "enum('so so','it''s','%new%','SO SO')"

    def test_rows_that_should_have_been_there_are_counted_in_a_partitioned_table(
        self, server: PostgresqlServer, loader: Loader
    ) -> None:
        table = self.table(server, loader, "id int primary key, v int) PARTITION BY RANGE (id")
        server.execute(
            "CREATE TABLE {schema}.low PARTITION OF {schema}.t FOR VALUES FROM (0) TO (10)"
        )
        server.execute(
            "CREATE TABLE {schema}.high PARTITION OF {schema}.t FOR VALUES FROM (10) TO (20)"
        )
        rows = [("5", "1"), ("15", "1")]
        assert self.write(loader, table, Writes(("id", "v"), rows[:1])) == Counts(written=1)
        assert self.write(loader, table, Writes(("id", "v"), rows, expected=2)) == Counts(
            written=2, missed=1
        )

    def test_many_new_rows_are_copied_and_what_cannot_be_is_said_as_ever(
        self, server: PostgresqlServer, loader: Loader
    ) -> None:
        server.execute("CREATE TABLE {schema}.statements (sql text)")
        server.execute(
            "CREATE FUNCTION {schema}.note() RETURNS trigger LANGUAGE plpgsql AS "
            "'BEGIN INSERT INTO {schema}.statements VALUES (current_query()); RETURN NULL; END'"
        )
        table = self.table(
            server,
            loader,
            "id int generated always as identity primary key, v varchar(3), w timestamp",
        )
        server.execute(
            "CREATE TRIGGER noted AFTER INSERT ON {schema}.t EXECUTE FUNCTION {schema}.note()"
        )

        def writes(first: int, *cells: str) -> Writes:
            ids = pa.array([str(first + at) for at in range(len(cells) * 500)])
            columns = [ids, pa.array(cells * 500), pa.nulls(len(ids), pa.string())]
            return Writes(("id", "v", "w"), ColumnRows(columns), are_new=True)

        self.write(loader, table, writes(0, "a"))
        self.write(loader, table, writes(100, "b"))
        assert server.rows("SELECT left(sql, 6) FROM {schema}.statements") == [
            ('COPY "',),
            ("INSERT",),
        ]
        assert server.rows("SELECT v, count(*) FROM {schema}.t GROUP BY v ORDER BY v") == [
            ("a", 100),
            ("b", 500),
        ]
        with pytest.raises(
            TargetRejected, match=r"SQLSTATE 22001: value too long for type character varying\(3\)"
        ):
            self.write(loader, table, writes(1000, "abcd"))
        with pytest.raises(
            TargetRejected,
            match=r"column v \(character varying\): a cell has the character U\+0000",
        ):
            self.write(loader, table, writes(1000, "a\0b"))

    def test_thousands_of_rows_are_merged_from_a_copy_and_what_does_not_fit_is_said_as_ever(
        self, server: PostgresqlServer, loader: Loader
    ) -> None:
        server.execute("CREATE TYPE {schema}.\"Mood\" AS ENUM ('so so', 'good')")
        server.execute("CREATE DOMAIN {schema}.short AS varchar(5)")
        server.execute("CREATE TABLE {schema}.statements (sql text)")
        server.execute(
            "CREATE FUNCTION {schema}.note() RETURNS trigger LANGUAGE plpgsql AS "
            "'BEGIN INSERT INTO {schema}.statements VALUES (current_query()); RETURN NULL; END'"
        )
        columns = (
            'm {schema}."Mood", n int[], d {schema}.short, r bytea, b bit(8), j json, "per '
            '%% ""cent""" timestamptz, w int default 7'
        )
        table = self.table(
            server, loader, f"id int generated always as identity primary key, {columns}"
        )
        server.execute(
            "CREATE TRIGGER noted AFTER INSERT ON {schema}.t EXECUTE FUNCTION {schema}.note()"
        )

        def writes(*rows: tuple[str | None, ...]) -> Writes:
            cells = zip(*rows * (MERGE_ROWS // len(rows)), strict=True)
            columns = [
                pa.array(map(str, range(MERGE_ROWS))),
                *(pa.array(column, pa.string()) for column in cells),
            ]
            return Writes(tuple(table.columns)[:-1], ColumnRows(columns))

        row = (
            "so so",
            "{1,NULL,3}",
            "a'\"\\",
            "\x00\xff",
            "5",
            '{"a":  1}',
            "2024-03-31 02:30:00.999999",
        )
        nothing = ("good", None, "", "", None, None, None)
        assert self.write(loader, table, writes(row, nothing), writes(nothing, row)) == Counts(
            written=2 * MERGE_ROWS
        )
        assert server.rows(
            "SELECT count(*), bool_and(sql LIKE 'INSERT %FROM pg_temp.cdcbus_stage ON %') FROM "
            "{schema}.statements"
        ) == [(2, True)]
        found = "m::text, n, d, encode(r, 'hex'), b::int, j::text, w, count(*), min(id), max(id)"
        assert server.rows(
            f"SELECT {found} FROM {{schema}}.t GROUP BY 1, 2, 3, 4, 5, 6, 7 ORDER BY 1"
        ) == [
            ("good", None, "", "", None, None, 7, MERGE_ROWS // 2, 0, MERGE_ROWS - 2),
            (
                "so so",
                [1, None, 3],
                "a'\"\\",
                "00ff",
                5,
                '{"a":  1}',
                7,
                MERGE_ROWS // 2,
                1,
                MERGE_ROWS - 1,
            ),
        ]
        with pytest.raises(
            TargetRejected, match=r"SQLSTATE 22001: value too long for type character varying\(5\)"
        ):
            self.write(loader, table, writes((row[0], row[1], "abcdef", *row[3:])))

    @pytest.mark.parametrize("key", ["id", "id, twin"])
    def test_many_rows_are_looked_up_by_their_key_however_large_the_table_is(
        self, server: PostgresqlServer, loader: Loader, key: str
    ) -> None:
        server.execute("CREATE TABLE {schema}.scans (count int)")
        server.execute(
            "CREATE FUNCTION {schema}.note() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN INSERT "
            "INTO {schema}.scans "
            "SELECT seq_scan FROM pg_stat_xact_user_tables WHERE relid = TG_RELID; RETURN NULL; "
            "END'"
        )
        table = self.table(
            server, loader, f"id int, twin int, v int, primary key ({key})) WITH (fillfactor = 10"
        )
        server.execute("INSERT INTO {schema}.t SELECT i, i, i FROM generate_series(1, 100000) i")
        server.execute("VACUUM ANALYZE {schema}.t")
        server.execute(
            "CREATE TRIGGER noted AFTER UPDATE OR DELETE ON {schema}.t EXECUTE FUNCTION "
            "{schema}.note()"
        )
        keys = [(str(i),) * len(table.key) for i in range(1, 100_000, 49)]
        updates = Writes((*table.key, "v"), [(*cells, "0") for cells in keys], may_insert=False)
        assert self.write(loader, table, updates) == Counts(written=len(keys))
        assert self.write(loader, table, deletes=keys) == Counts(deleted=len(keys))
        assert server.rows("SELECT count FROM {schema}.scans") == [(0,), (0,)]

    @pytest.mark.parametrize(
        ("type_", "state", "cell", "fits"),
        [
            ("varchar(3)", "22001", "SECR", "éé漢"),
            ("char(3)", "22001", "SECR", "abc  "),
            ("short", "22001", "SECRET", "ab"),
            ("bit(3)", "22026", "15", "5"),
            ("bit varying(3)", "22001", "15", "5"),
            ("numeric(5, 2)", "22003", "-999.996", "-999.994"),
        ],
    )
    def test_what_is_too_long_is_never_cut_and_its_column_is_named(
        self, server: PostgresqlServer, loader: Loader, type_: str, state: str, cell: str, fits: str
    ) -> None:
        """PostgreSQL itself does not name it."""
        server.execute("CREATE DOMAIN {schema}.short AS varchar(5)")
        type_ = type_.replace("short", f"{server.schema}.short")
        table = self.table(
            server, loader, f"id int primary key, v {type_}, w {type_}, x {type_}, y text"
        )
        names, rows = (
            tuple(table.columns),
            [("1", fits, fits, None, "SECRET"), ("2", None, cell, fits, "SECRET")],
        )
        unkeyed = self.table(server, loader, f"w {type_}, n int", name="u")
        self.swap(loader, unkeyed, (None, (fits, "1")), (None, (None, "2")))
        ways: list[Callable[[], Counts]] = [
            lambda: self.write(loader, table, Writes(names, rows)),
            lambda: self.write(loader, table, Writes(names, rows, may_insert=False)),
            lambda: self.write(loader, table, Writes(names, rows, expected=2)),
            lambda: self.write(
                loader,
                table,
                Writes(
                    names, ColumnRows([pa.array(cells) for cells in zip(*rows * 300, strict=True)])
                ),
            ),
            lambda: self.swap(loader, unkeyed, (None, (cell, "1"))),
            lambda: self.swap(loader, unkeyed, ((fits, "1"), (cell, "1"))),
        ]
        self.write(loader, table, Writes(("id",), [("2",)]))
        for way in ways:
            with pytest.raises(
                TargetRejected,
                match=rf"^target table {server.schema}\.[tu], column w: SQLSTATE {state}: ",
            ) as refused:
                way()
            assert cell not in str(refused.value).partition("SQLSTATE")[2]
        with pytest.raises(TargetRejected, match="one of the columns v, x: SQLSTATE"):
            self.write(loader, table, Writes(names, [("2", cell, fits, cell, None)]))
        assert self.rows(server, "id, v") == [(2, None)]
        self.write(loader, table, Writes(names, rows[:1]))

    def test_a_cell_that_is_no_array_is_refused_by_its_column(
        self, server: PostgresqlServer, loader: Loader
    ) -> None:
        table = self.table(server, loader, "id int primary key, v int[], w text")
        for cell in ("[1]", "{SECRET}"):
            with pytest.raises(
                TargetRejected,
                match=rf"target table {server.schema}\.t, column v: SQLSTATE 22P02: a cell does "
                r"not fit$",
            ):
                self.write(loader, table, Writes(("id", "v", "w"), [("1", cell, "a")]))

    def test_a_zero_character_is_named(self, server: PostgresqlServer, loader: Loader) -> None:
        table = self.table(server, loader, "id int primary key, v text")
        with pytest.raises(
            TargetRejected, match=r"column v \(text\): a cell has the character U\+0000"
        ):
            self.write(loader, table, Writes(("id", "v"), [("1", "a\0b")]))

    @pytest.mark.parametrize("type_", ["date", "timestamp", "timestamptz"])
    @pytest.mark.parametrize("cell", ["0000-00-00", "2024-00-00", "2024-02-00", "0000-01-01"])
    def test_zero_dates_follow_the_policy(
        self, server: PostgresqlServer, loader: Loader, type_: str, cell: str
    ) -> None:
        cell += "" if type_ == "date" else " 00:00:00.000000"
        table = self.table(server, loader, f"id int primary key, v {type_}")
        rows = Writes(("id", "v"), [("1", cell), ("2", "2024-02-29"), ("3", None)])
        with pytest.raises(
            TargetRejected,
            match=r"column v \(.*\): a cell has a zero or partly zero date: loader\.zeroDate",
        ):
            self.write(loader, table, rows)
        day = "v::date::text"
        if type_ == "timestamptz":
            day = "(v AT TIME ZONE 'UTC')::date::text"
        for policy, stored in ((ZeroDate.NULL, None), (ZeroDate.EPOCH, "1970-01-01")):
            other = make_loader("JdbcBatch", server.target(zero_date=policy))
            self.write(other, table, rows)
            assert self.rows(server, f"id, {day}") == [(1, stored), (2, "2024-02-29"), (3, None)]
            other.close()

    @pytest.mark.parametrize("policy", list(ZeroDate))
    def test_a_zero_date_in_a_key_is_refused_by_every_policy(
        self, server: PostgresqlServer, policy: ZeroDate
    ) -> None:
        """1970-01-01 is another row."""
        loader = make_loader("JdbcBatch", server.target(zero_date=policy))
        table = self.table(server, loader, "id date primary key, v int")
        self.write(loader, table, Writes(("id", "v"), [("1970-01-01", "1")]))
        with pytest.raises(TargetRejected, match=r"column id .* zero date"):
            self.write(loader, table, Writes(("id", "v"), [("0000-00-00", "2")]))
        with pytest.raises(TargetRejected, match=r"column id .* zero date"):
            self.write(loader, table, deletes=[("0000-00-00",)])
        assert self.rows(server, "id::text, v") == [("1970-01-01", 1)]
        loader.close()

    def test_a_time_of_more_than_a_day_fits_an_interval_and_no_time(
        self, server: PostgresqlServer, loader: Loader
    ) -> None:
        table = self.table(server, loader, "id int primary key, v interval, w time")
        self.write(
            loader,
            table,
            Writes(("id", "v"), [("1", "838:59:59.000000"), ("2", "-00:00:01.500000")]),
        )
        assert self.rows(server, "id, v::text") == [(1, "838:59:59"), (2, "-00:00:01.5")]
        with pytest.raises(TargetRejected, match="a cell does not fit, column w"):
            self.write(loader, table, Writes(("id", "w"), [("1", "24:00:01")]))

    def test_a_column_that_is_added_for_a_time_takes_all_of_them(
        self, server: PostgresqlServer, loader: Loader
    ) -> None:
        """By each of the ways in which rows are written and found."""
        table = self.table(server, loader, "id int primary key")
        unkeyed = self.table(server, loader, "id int", name="u")
        columns = [Column("id", "int"), Column("v", "time(6)")]
        for _ in range(2):  # the second time it is wide enough
            table = loader.evolve(table, columns)
            unkeyed = loader.evolve(unkeyed, columns)
        cells = [
            "-838:59:59.000000",
            "838:59:59.000000",
            "12:00:00.123456",
            "-00:00:00.000001",
            "00:00:00.000000",
        ]
        expected = ["-838:59:59", "838:59:59", "12:00:00.123456", "-00:00:00.000001", "00:00:00"]
        for copies in (1, 200, 2000):
            ids = pa.array(map(str, range(5 * copies)))
            rows = Writes(
                ("id", "v"), ColumnRows([ids, pa.array(cells * copies)]), are_new=copies == 200
            )
            self.write(loader, table, rows)
            assert [cell for _, cell in self.rows(server, "id, v::text")] == expected * copies
            self.write(loader, table, truncate=True)
        self.swap(loader, unkeyed, *((None, ("1", cell)) for cell in cells))
        pairs = [(("1", cell), ("2", cell) if cell in cells[:2] else None) for cell in cells]
        assert self.swap(loader, unkeyed, *pairs) == Counts(written=2, deleted=3)
        assert server.rows("SELECT id, v::text FROM {schema}.u ORDER BY v") == [
            (2, "-838:59:59"),
            (2, "838:59:59"),
        ]

    def test_a_table_is_emptied_before_its_deferred_foreign_keys_are_checked(
        self, server: PostgresqlServer, loader: Loader
    ) -> None:
        self.table(server, loader, "id int primary key", name="parent")
        key = "REFERENCES {schema}.parent DEFERRABLE INITIALLY DEFERRED"
        table = self.table(server, loader, f"id int primary key, v int {key}")
        with loader.transaction() as transaction:
            for batch in (
                TableBatch(table, writes=[Writes(("id", "v"), [("1", "7")])]),
                TableBatch(table, truncate=True, writes=[Writes(("id", "v"), [("2", None)])]),
            ):
                transaction.write(batch)
        assert self.rows(server) == [(2, None)]

    def test_bytes_of_a_geometry_fit_bytea(self, server: PostgresqlServer, loader: Loader) -> None:
        table = self.table(server, loader, "id int primary key, v bytea, p point")
        self.write(loader, table, Writes(("id", "v"), [("1", "\xe6\x10\0\0\x01")]))
        assert self.rows(server, "encode(v, 'hex')") == [("e610000001",)]
        with pytest.raises(
            TargetRejected, match=r"column p \(point\): a cell has the character U\+0000"
        ):
            self.write(loader, table, Writes(("id", "p"), [("1", "\xe6\x10\0\0\x01")]))

    def test_years_and_flags(self, server: PostgresqlServer, loader: Loader) -> None:
        table = self.table(server, loader, "id int primary key, v smallint, w boolean")
        self.write(
            loader, table, Writes(("id", "v", "w"), [("1", "0000", "0"), ("2", "2155", "1")])
        )
        assert self.rows(server, "id, v, w") == [(1, 0, False), (2, 2155, True)]
        with pytest.raises(TargetRejected, match="a cell does not fit, column w"):
            self.write(loader, table, Writes(("id", "w"), [("1", "2")]))

    @pytest.mark.parametrize("type_", ["text", "varchar(9)", "char(4)", "text[]", "citext"])
    def test_a_row_without_a_key_is_found_to_the_last_byte_whatever_the_collation(
        self, server: PostgresqlServer, loader: Loader, type_: str
    ) -> None:
        server.execute(
            "CREATE COLLATION {schema}.ci (provider = icu, locale = 'und-u-ks-level2', "
            "deterministic = false)"
        )
        server.execute("CREATE EXTENSION IF NOT EXISTS citext SCHEMA public")
        of_schema = f"public.{type_}" if type_ == "citext" else type_
        table = self.table(server, loader, f"v {of_schema} COLLATE {{schema}}.ci, id int")
        one, other = ("{a}", "{A}") if type_ == "text[]" else ("a", "A")
        self.swap(loader, table, (None, (one, "1")), (None, (other, "1")))
        assert self.swap(loader, table, ((other, "1"), (other, "2"))) == Counts(written=1)
        assert self.swap(loader, table, ((other, "1"), None)) == Counts(missed=1)
        assert self.swap(loader, table, ((other, "2"), None)) == Counts(deleted=1)
        assert self.swap(loader, table, ((one, "1"), None)) == Counts(deleted=1)

    def test_rows_without_a_key_in_partitioned_tables(
        self, server: PostgresqlServer, loader: Loader
    ) -> None:
        table = self.table(server, loader, "id int, v int) PARTITION BY RANGE (id")
        server.execute(
            "CREATE TABLE {schema}.low PARTITION OF {schema}.t FOR VALUES FROM (0) TO (10)"
        )
        server.execute(
            "CREATE TABLE {schema}.high PARTITION OF {schema}.t FOR VALUES FROM (10) TO (20)"
        )
        self.swap(loader, table, (None, ("1", "1")), (None, ("11", "11")))
        assert self.swap(loader, table, (("11", "11"), None), (("1", "1"), ("12", "2"))) == Counts(
            written=1, deleted=1
        )
        assert self.rows(server) == [(12, 2)]

    def test_two_partitions_take_two_of_equal_rows(
        self, server: PostgresqlServer, loader: Loader
    ) -> None:
        table = self.table(server, loader, "id int, v json")
        self.swap(loader, table, (None, ("1", "{}")), (None, ("1", "{}")))
        swaps = TableBatch(table, swaps=[Swaps(("id", "v"), [(("1", "{}"), None)])])
        with ThreadPoolExecutor(1) as pool:
            with loader.transaction() as one:
                assert one.write(swaps) == Counts(deleted=1)
                other = pool.submit(self.swap, loader, table, (("1", "{}"), None))
                wait_until(
                    lambda: bool(server.rows("SELECT 1 FROM pg_locks WHERE NOT granted")),
                    "the other waits",
                )
            assert other.result(timeout=30) == Counts(deleted=1)
        assert self.rows(server, "id") == []

    def test_partitioned_tables(self, server: PostgresqlServer, loader: Loader) -> None:
        table = self.table(server, loader, "id int primary key, v int) PARTITION BY RANGE (id")
        server.execute("CREATE TABLE {schema}.low PARTITION OF {schema}.t DEFAULT")
        self.write(loader, table, Writes(("id", "v"), [("1", "1"), ("2", "2")]))
        assert self.write(
            loader, table, Writes(("id", "v"), [("1", "5")], may_insert=False), deletes=[("2",)]
        ) == Counts(1, 1)
        assert self.rows(server) == [(1, 5)]
