"""The loaders on real servers: what all promise, and what is each one's own."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import psycopg
import pyarrow as pa
import pymysql
import pytest

from cdcbus.ops.stack.addresses import Database
from cdcbus.plugins.contracts import (
    Counts,
    JdbcTarget,
    Loader,
    Swaps,
    TableBatch,
    TargetTable,
    Writes,
    ZeroDate,
)
from cdcbus.plugins.errors import RowConflict, TargetRejected, TargetUnavailable
from cdcbus.plugins.loaders import make_loader
from cdcbus.plugins.loaders.cells.arrow_rows import ColumnRows
from cdcbus.plugins.loaders.dialects.postgresql.dialect import MERGE_ROWS
from cdcbus.plugins.mysql.connection import MysqlConnection
from cdcbus.plugins.rowchange import Column, TableId
from tests.contract.loader import LoaderContract
from tests.contract.target_server import TargetServer
from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration
POOR = "cdcbus_poor"


@dataclass(frozen=True)
class PostgresqlServer:
    at: Database
    schema: str

    types = {
        "text": ("text", "{}::text"),
        "short": ("varchar(20)", "{}"),
        "whole": ("bigint", "{}::text"),
        "unsigned": ("numeric(20)", "{}::text"),
        "decimal": ("numeric(30, 10)", "{}::text"),
        "double": ("double precision", "replace({}::text, 'e+', 'e')"),
        "float": ("real", ""),
        "moment": ("timestamp(6)", "to_char({}, 'YYYY-MM-DD HH24:MI:SS.US')"),
        "day": ("date", "{}::text"),
        "instant": ("timestamptz", "to_char({} AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.US')"),
        "clock": ("time(6)", "to_char({}, 'HH24:MI:SS.US')"),
        "flag": ("boolean", "{}::int::text"),
        "bits": ("bit(8)", "{}::int::text"),
        "binary": ("bytea", "encode({}, 'hex')"),
        "short binary": ("bytea", ""),
        "document": ("jsonb", "{}::text"),
        "label": ("text", "{}"),
        "narrow whole": ("int default 7 not null", ""),
        "narrow large": ("bigint default 7", ""),
        "narrow moment": ("timestamp(0) default '2001-01-01'", ""),
        "narrow instant": ("timestamptz(3) default now() not null", ""),
        "narrow clock": ("time(0) default '01:02:03'", ""),
        "narrow day": ("date default '2001-01-01'", ""),
        "narrow bits": ("bit(3) default B'101' not null", ""),
        "narrow more bits": ("bit(2) default B'11'", ""),
        "wide whole": ("", "{}::text"),
        "wide large": ("", "{}::text"),
        "wide moment": ("", "to_char({}, 'YYYY-MM-DD HH24:MI:SS.US')"),
        "wide instant": ("", "to_char({} AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.US')"),
        "wide clock": ("", "to_char({}, 'HH24:MI:SS.US')"),
        "wide day": ("", "to_char({}, 'YYYY-MM-DD HH24:MI:SS.US')"),
        "wide bits": ("", "{}::int::text"),
        "wide more bits": (
            "",
            "({0}::bigint::numeric + CASE WHEN {0}::bigint < 0 THEN 18446744073709551616 ELSE 0 "
            "END)::text",
        ),
        "widen v": ("ALTER v TYPE text", ""),
        "widen d": ("ALTER d TYPE numeric(9, 4)", ""),
    }

    @property
    def missing_database(self) -> str:
        return f"jdbc:postgresql://{self.at.host}:{self.at.port}/no_such_database"

    impatient = "&options=-c%20lock_timeout=200"

    def target(self, **changes: str | int) -> JdbcTarget:
        url = f"jdbc:postgresql://{self.at.host}:{self.at.port}/{self.at.database}?currentSchema={self.schema}"
        return replace(JdbcTarget(url, self.at.user, self.at.password, "contract"), **changes)  # type: ignore[arg-type]

    def without_rights_to_create(self) -> JdbcTarget:
        with self.connected() as connection:
            if not connection.execute(
                "SELECT 1 FROM pg_roles WHERE rolname = %s", [POOR]
            ).fetchone():
                connection.execute(f"CREATE ROLE {POOR} LOGIN PASSWORD '{POOR}'")
            connection.execute(f"GRANT USAGE ON SCHEMA {self.schema} TO {POOR}")
            connection.execute(
                f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {self.schema} TO "
                f"{POOR}"
            )
        return self.target(user=POOR, password=POOR, task_id="poor")

    def quoted(self, name: str) -> str:
        return '"' + name.replace('"', '""') + '"'

    def execute(self, sql: str) -> None:
        with self.connected() as connection:
            connection.execute(sql.replace("{schema}", self.schema).encode())

    def rows(self, sql: str) -> list[tuple[object, ...]]:
        with self.connected() as connection:
            return connection.execute(sql.replace("{schema}", self.schema).encode()).fetchall()

    def kill_connections(self) -> int:
        """They are known by the name that the loader gives them."""
        with self.connected() as connection:
            query = (
                "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE "
                "application_name = 'cdcbus contract'"
            )
            return len(connection.execute(query).fetchall())

    def hold(self, sql: str) -> Iterator[None]:
        with self.connected() as connection, connection.transaction():
            connection.execute(sql.replace("{schema}", self.schema).encode())
            yield

    @contextmanager
    def connected(self) -> Iterator[psycopg.Connection[Any]]:
        at = self.at
        with psycopg.connect(
            host=at.host,
            port=at.port,
            user=at.user,
            password=at.password,
            dbname=at.database,
            autocommit=True,
        ) as connection:
            yield connection


@dataclass(frozen=True)
class MysqlServer:
    at: Database
    schema: str

    types = {
        "text": ("longtext", "{}"),
        "short": ("varchar(20) COLLATE utf8mb4_bin", "{}"),
        "whole": ("bigint", "CAST({} AS char)"),
        "unsigned": ("bigint unsigned", "CAST({} AS char)"),
        "decimal": ("decimal(30, 10)", "CAST({} AS char)"),
        "double": ("double", "CAST({} AS char)"),
        "float": ("float", ""),
        "moment": ("datetime(6)", "CAST({} AS char)"),
        "day": ("date", "CAST({} AS char)"),
        "instant": ("timestamp(6) null", "CAST({} AS char)"),
        "clock": ("time(6)", "CAST({} AS char)"),
        "flag": ("tinyint(1)", "CAST({} AS char)"),
        "bits": ("bit(8)", "CAST({} + 0 AS char)"),
        "binary": ("longblob", "LOWER(HEX({}))"),
        "short binary": ("varbinary(20)", ""),
        "document": ("json", "CAST({} AS char)"),
        "label": ("enum('small', 'it''s')", "{}"),
        "narrow whole": ("int default 7 not null", ""),
        "narrow large": ("bigint default 7", ""),
        "narrow moment": ("datetime default '2001-01-01 00:00:00'", ""),
        "narrow instant": (
            "timestamp(3) not null default current_timestamp(3) on update current_timestamp(3) "
            "comment 'a\\\\'",
            "",
        ),
        "narrow clock": ("time default '01:02:03'", ""),
        "narrow day": ("date default '2001-01-01'", ""),
        "narrow bits": ("bit(3) default b'101' not null", ""),
        "narrow more bits": ("bit(2) default b'11'", ""),
        **dict.fromkeys(
            ("wide whole", "wide large", "wide moment", "wide instant", "wide clock", "wide day"),
            ("", "CAST({} AS char)"),
        ),
        **dict.fromkeys(("wide bits", "wide more bits"), ("", "CAST({} + 0 AS char)")),
        "widen v": ("MODIFY v varchar(30)", ""),
        "widen d": ("MODIFY d decimal(9, 4)", ""),
    }

    impatient = "?sessionVariables=innodb_lock_wait_timeout=1"

    @property
    def missing_database(self) -> str:
        return f"jdbc:mysql://{self.at.host}:{self.at.port}/no_such_database"

    def target(self, **changes: str | int) -> JdbcTarget:
        url = f"jdbc:mysql://{self.at.host}:{self.at.port}/{self.schema}"
        return replace(JdbcTarget(url, self.at.user, self.at.password, "contract"), **changes)  # type: ignore[arg-type]

    def without_rights_to_create(self) -> JdbcTarget:
        # MariaDB's anonymous local user would be preferred to the first
        for host in ("%", "localhost"):
            self.execute(f"CREATE USER IF NOT EXISTS {POOR}@'{host}' IDENTIFIED BY '{POOR}'")
            self.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON {{schema}}.* TO {POOR}@'{host}'")
        return self.target(user=POOR, password=POOR, task_id="poor")

    def quoted(self, name: str) -> str:
        return "`" + name.replace("`", "``") + "`"

    def execute(self, sql: str) -> None:
        with self.connected() as connection, connection.cursor() as cursor:
            cursor.execute(sql.replace("{schema}", self.schema))

    def rows(self, sql: str) -> list[tuple[object, ...]]:
        with self.connected() as connection, connection.cursor() as cursor:
            cursor.execute(sql.replace("{schema}", self.schema))
            return list(cursor.fetchall())

    def kill_connections(self) -> int:
        query = "SELECT id FROM information_schema.processlist WHERE db = '{schema}'"
        ids = self.rows(query)
        for (number,) in ids:
            self.execute(f"KILL {number}")
        while self.rows(query):
            pass
        return len(ids)

    def hold(self, sql: str) -> Iterator[None]:
        with self.connected() as connection, connection.cursor() as cursor:
            cursor.execute("BEGIN")
            cursor.execute(sql.replace("{schema}", self.schema))
            yield

    @contextmanager
    def connected(self) -> Iterator[pymysql.Connection[Any]]:
        at = self.at
        with MysqlConnection(
            host=at.host, port=at.port, user=at.user, password=at.password, charset="utf8mb4", autocommit=True,
            init_command="SET time_zone = '+00:00'",
        ) as connection:  # fmt: skip
            yield connection


class ForeignMysqlServer(MysqlServer):
    """Where the test's user may not make others: without a default schema there is no place for
    a table either."""

    def without_rights_to_create(self) -> JdbcTarget:
        return self.target(url=f"jdbc:mysql://{self.at.host}:{self.at.port}", task_id="poor")


class TestPostgresql(LoaderContract):
    @pytest.fixture
    def server(self, postgresql: Database, name: str) -> Iterator[PostgresqlServer]:
        server = PostgresqlServer(postgresql, name)
        server.execute("CREATE SCHEMA {schema}")
        yield server
        server.execute("DROP SCHEMA {schema} CASCADE")

    def test_types_that_no_other_target_has(self, server: PostgresqlServer, loader: Loader) -> None:
        server.execute("CREATE TYPE {schema}.\"Mood\" AS ENUM ('so so', 'good')")
        server.execute("CREATE DOMAIN {schema}.short AS varchar(5)")
        server.execute("CREATE DOMAIN {schema}.raw AS bytea")
        columns = (
            'm {schema}."Mood", n int[], u uuid, d {schema}.short, r {schema}.raw, c '
            'char(4), b varbit, x "char"'
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
        )
        writes = Writes(tuple(table.columns), [row, ("8", *[None] * 8)])
        for may_insert in (True, True, False):
            self.write(loader, table, replace(writes, may_insert=may_insert))
        assert self.rows(server, "id, m::text, n, u::text, d, encode(r, 'hex'), c, b, x::text") == [
            (7, "so so", [1, None, 3], row[3], "abcde", "00ff", "ab  ", "101", "z"),
            (8, *[None] * 8),
        ]

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


class MysqlContract(LoaderContract):
    def test_zero_dates_and_zero_ids_pass(self, server: MysqlServer, loader: Loader) -> None:
        columns = "d date, t datetime(3), s timestamp null, y year, u int unique"
        table = self.table(server, loader, f"id int auto_increment primary key, {columns}")
        row = ("0", "0000-00-00", "2024-00-00 00:00:00.000", "0000-00-00 00:00:00", "0000", "0")
        for _ in range(2):
            self.write(loader, table, Writes(tuple(table.columns), [row]))
        assert self.rows(
            server, "id, CAST(d AS char), CAST(t AS char), CAST(s AS char), CAST(y AS char)"
        ) == [(0, *row[1:4], "0000")]

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


def schema_on(server: MysqlServer) -> Iterator[MysqlServer]:
    server.execute("CREATE DATABASE {schema} CHARACTER SET utf8mb4")
    yield server
    server.execute("DROP DATABASE {schema}")


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
