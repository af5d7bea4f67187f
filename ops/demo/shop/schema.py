"""The demo's shop as data: its tables, and their DDL at the source and at each target."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

SCHEMA = "shop"


class Kind(StrEnum):
    """What a column's values mean, whatever the database: decides how they are compared."""

    TEXT = "text"
    WHOLE = "whole number"
    EXACT = "decimal number"
    FLOAT = "4-byte float"
    DOUBLE = "8-byte float"
    BYTES = "bytes"
    BITS = "bits"
    TRUTH = "truth"
    JSON = "document"
    MOMENT = "date and time"
    DAY = "date"
    CLOCK = "time of day"


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its type as CREATE TABLE spells it in MariaDB and in PostgreSQL. `labels` are
    those of an enum."""

    name: str
    kind: Kind
    mariadb: str
    postgresql: str
    is_nullable: bool = True
    labels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Table:
    """A table: `key` names its primary key's columns, `unique` those of a second unique key."""

    name: str
    key: tuple[str, ...]
    columns: tuple[Column, ...]
    unique: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{SCHEMA}.{self.name}"


def _enum(name: str, *labels: str) -> Column:
    listed = ", ".join(f"'{label}'" for label in labels)
    return Column(name, Kind.TEXT, f"ENUM({listed})", f"{SCHEMA}.{name}", False, labels)


# Types that are easily damaged on the way: integers beyond 63 bits, sets, bits, fractions of
# seconds, binary keys; and a second unique key.
TABLES = (
    Table(
        "customers",
        ("id",),
        (
            Column("id", Kind.WHOLE, "BIGINT UNSIGNED", "numeric(20)", False),
            Column("name", Kind.TEXT, "VARCHAR(80)", "varchar(80)", False),
            Column("email", Kind.TEXT, "VARCHAR(120)", "varchar(120)"),
            _enum("tier", "bronze", "silver", "gold"),
            Column("wants", Kind.TEXT, "SET('news','gifts','catalogue')", "text", False),
            Column("born", Kind.DAY, "DATE", "date"),
            Column("credit", Kind.EXACT, "DECIMAL(12,4)", "numeric(12,4)", False),
            Column("profile", Kind.JSON, "JSON", "jsonb"),
            Column("seen", Kind.MOMENT, "TIMESTAMP(6)", "timestamptz(6)"),
        ),
    ),
    Table(
        "products",
        ("sku",),
        (
            Column("sku", Kind.TEXT, "VARCHAR(20)", "varchar(20)", False),
            Column("title", Kind.TEXT, "VARCHAR(120)", "varchar(120)", False),
            Column("price", Kind.EXACT, "DECIMAL(10,2)", "numeric(10,2)", False),
            Column("weight", Kind.DOUBLE, "DOUBLE", "double precision"),
            Column("rating", Kind.FLOAT, "FLOAT", "real"),
            Column("stock", Kind.WHOLE, "INT UNSIGNED", "bigint", False),
            Column("is_sold", Kind.TRUTH, "TINYINT(1)", "boolean", False),
            Column("marks", Kind.BITS, "BIT(8)", "bit(8)", False),
            Column("picture", Kind.BYTES, "MEDIUMBLOB", "bytea"),
        ),
    ),
    Table(
        "orders",
        ("id",),
        (
            Column("id", Kind.WHOLE, "BIGINT", "bigint", False),
            Column("customer_id", Kind.WHOLE, "BIGINT UNSIGNED", "numeric(20)", False),
            _enum("state", "new", "paid", "sent", "returned"),
            Column("ordered", Kind.MOMENT, "DATETIME(3)", "timestamp(3)", False),
            Column("paid", Kind.MOMENT, "TIMESTAMP(6)", "timestamptz(6)"),
            Column("pick_up", Kind.CLOCK, "TIME(3)", "time(3)"),
            Column("total", Kind.EXACT, "DECIMAL(12,2)", "numeric(12,2)", False),
            Column("note", Kind.TEXT, "TEXT", "text"),
        ),
    ),
    Table(
        "order_lines",
        ("order_id", "line"),
        (
            Column("order_id", Kind.WHOLE, "BIGINT", "bigint", False),
            Column("line", Kind.WHOLE, "SMALLINT UNSIGNED", "integer", False),
            Column("sku", Kind.TEXT, "VARCHAR(20)", "varchar(20)", False),
            Column("quantity", Kind.WHOLE, "SMALLINT UNSIGNED", "integer", False),
            Column("price", Kind.EXACT, "DECIMAL(10,2)", "numeric(10,2)", False),
            Column("gift_code", Kind.BYTES, "VARBINARY(16)", "bytea"),
        ),
    ),
    Table(
        "payments",
        ("id",),
        (
            Column("id", Kind.BYTES, "BINARY(16)", "bytea", False),
            Column("order_id", Kind.WHOLE, "BIGINT", "bigint", False),
            Column("amount", Kind.EXACT, "DECIMAL(20,6)", "numeric(20,6)", False),
            Column("currency", Kind.TEXT, "CHAR(3)", "varchar(3)", False),
            Column("booked_year", Kind.WHOLE, "YEAR", "smallint", False),
        ),
    ),
    Table(
        "shelf_places",
        ("id",),
        (
            Column("id", Kind.WHOLE, "INT", "integer", False),
            Column("aisle", Kind.TEXT, "VARCHAR(4)", "varchar(4)", False),
            Column("place", Kind.WHOLE, "SMALLINT UNSIGNED", "integer", False),
            Column("label", Kind.TEXT, "VARCHAR(120)", "varchar(120)"),
        ),
        unique=("aisle", "place"),
    ),
    Table(
        "heartbeat",
        ("id",),
        (
            Column("id", Kind.WHOLE, "TINYINT", "smallint", False),
            Column("beat", Kind.MOMENT, "DATETIME(6)", "timestamp(6)", False),
        ),
    ),
)


def mariadb_ddl() -> list[str]:
    """The statements that create the empty shop on a MariaDB or MySQL server; an existing one is
    dropped."""
    statements = [
        f"DROP DATABASE IF EXISTS {SCHEMA}",
        f"CREATE DATABASE {SCHEMA} CHARACTER SET utf8mb4",
    ]
    for table in TABLES:
        columns = [f"{each.name} {each.mariadb} {_null(each)}" for each in table.columns]
        statements.append(_create(table, columns))
    return statements


def postgresql_ddl() -> list[str]:
    """The same in the current database of a PostgreSQL server, with its own types."""
    statements = [f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE", f"CREATE SCHEMA {SCHEMA}"]
    for table in TABLES:
        for column in table.columns:
            if column.labels:
                statements.append(f"CREATE TYPE {column.postgresql} AS {column.mariadb}")
        columns = [f"{each.name} {each.postgresql} {_null(each)}" for each in table.columns]
        statements.append(_create(table, columns))
    return statements


def _create(table: Table, columns: list[str]) -> str:
    keys = [f"PRIMARY KEY ({', '.join(table.key)})"]
    if table.unique:
        keys.append(f"UNIQUE ({', '.join(table.unique)})")
    return f"CREATE TABLE {table} ({', '.join([*columns, *keys])})"


def _null(column: Column) -> str:
    # NULL is also written out: without it, a TIMESTAMP of an older server would set itself.
    return "NULL" if column.is_nullable else "NOT NULL"
