"""The databases of the targets, asked by their own drivers and not by the loaders."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import psycopg
import pymysql

from cdcbus.ops.stack.addresses import Database
from cdcbus.plugins.contracts import JdbcTarget
from cdcbus.plugins.mysql.connection import MysqlConnection

POOR = "cdcbus_poor"


@dataclass(frozen=True)
class PostgresqlServer:
    """A schema of PostgreSQL. `types`: what a column holds -> its declaration, and the SQL that shows
    a cell as text."""

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
    """A schema of MySQL or MariaDB; `types` as above."""

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

    def without_rights_to_tables_but(self, *tables: str) -> JdbcTarget:
        """As a user who sees only these tables of the schema, and may read and write their rows."""
        user = f"{POOR}_in_few"
        for host in ("%", "localhost"):
            self.execute(f"CREATE USER IF NOT EXISTS {user}@'{host}' IDENTIFIED BY '{POOR}'")
            for table in tables:
                self.execute(
                    f"GRANT SELECT, INSERT, UPDATE, DELETE ON {{schema}}.{table} TO {user}@'{host}'"
                )
        return self.target(user=user, password=POOR)

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


def schema_on(server: MysqlServer) -> Iterator[MysqlServer]:
    server.execute("CREATE DATABASE {schema} CHARACTER SET utf8mb4")
    yield server
    server.execute("DROP DATABASE {schema}")
