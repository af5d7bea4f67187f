"""The tables `cdcbus_row_...` in a target: of a table whose rows have changes in several Kafka partitions, the version of each row.

Their key is the table's own, of the same types and collations, so that the target itself says which texts are one row.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import Final

from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError

from cdcbus.plugins.contracts import VERSION, RowVersion, TargetTable
from cdcbus.plugins.errors import TargetMisconfigured
from cdcbus.plugins.loaders.engine import Database
from cdcbus.plugins.loaders.reflect import reflect
from cdcbus.plugins.loaders.sql import QUOTING
from cdcbus.plugins.rowchange import TableId

PREFIX: Final = "cdcbus_row_"
NO_PLACE: Final = "-"
"""Not empty, which is NULL to Oracle."""


def name_of(task_id: str, table: TargetTable) -> str:
    """Another one once the key's columns are others, or of other types."""
    columns = [(name, its.type, its.length, its.scale, its.declared) for name, its in ((each, table.columns[each]) for each in table.key)]
    return PREFIX + sha256(repr((task_id, *table.id, columns)).encode()).hexdigest()[:16]


def find(database: Database, task_id: str, table: TargetTable) -> TargetTable | None:
    """Raises TargetMisconfigured where the address names no place for it, DBAPIError."""
    with database.engine.connect() as connection:
        return reflect(connection, database.dialect.catalog, database.dialect.name, place_of(database, task_id, table))


def make(database: Database, task_id: str, table: TargetTable) -> TargetTable | None:
    """Raises as `find`, and DBAPIError where it cannot be made."""
    name = place_of(database, task_id, table)
    try:
        with database.engine.begin() as connection:
            for sql in create_sqls(database.dialect.name, name, table):
                connection.exec_driver_sql(sql, execution_options={"no_parameters": True})
    except DBAPIError:
        if find(database, task_id, table) is None:  # else somebody has made it at the same moment
            raise
    return find(database, task_id, table)


def place_of(database: Database, task_id: str, table: TargetTable) -> TableId:
    schema = database.engine.dialect.default_schema_name  # known from the first connection on
    if not schema:
        raise TargetMisconfigured(f"{database.shown}: the versions of rows of {table.id} have no place, as the address names no database")
    return TableId(schema, name_of(task_id, table))


def create_sqls(dialect: str, name: TableId, table: TargetTable) -> list[str]:
    """The key's columns come from a query, which gives them types and collations."""
    quoted = QUOTING[dialect]
    made, key = quoted.table(name), quoted.names(table.key)
    came, place = map(quoted.name, VERSION)
    query = f"SELECT {key} FROM {quoted.table(table.id)} WHERE 1 = 0"
    if dialect == "mysql":
        columns = f"{came} BIGINT NOT NULL DEFAULT 0, {place} VARCHAR(60) NOT NULL DEFAULT '{NO_PLACE}'"
        return [f"CREATE TABLE {made} ({columns}, PRIMARY KEY ({key})) ENGINE=InnoDB AS {query}"]
    number, characters = ("NUMBER(19)", "VARCHAR2(60)") if dialect == "oracle" else ("BIGINT", "VARCHAR(60)")
    added = (f"{came} {number} DEFAULT 0 NOT NULL", f"{place} {characters} DEFAULT '{NO_PLACE}' NOT NULL")
    return [
        f"CREATE TABLE {made} AS {query}",
        *(f"ALTER TABLE {made} ADD {column}" for column in added),
        f"ALTER TABLE {made} ADD PRIMARY KEY ({key})",
    ]


def is_any_there(connection: Connection, database: Database, task_id: str, tables: Sequence[TargetTable]) -> bool:
    names = (place_of(database, task_id, table) for table in tables)
    return any(connection.execute(text(database.dialect.catalog.names), name._asdict()).first() for name in names)


def prune_sql(dialect: str, versions: TargetTable) -> str:
    """Of rows whose last change came before the time `:came_ms`."""
    quoted = QUOTING[dialect]
    return f"DELETE FROM {quoted.table(versions.id)} WHERE {quoted.name(VERSION[0])} < :came_ms"


def version(came_ms: int, place: str) -> RowVersion:
    """As it was read."""
    return RowVersion(int(came_ms), "" if place == NO_PLACE else place)
