"""The tables `cdcbus_row_...` in a target: of a table whose rows have changes in several Kafka
partitions, the version of each row.

Their key is the table's own, of the same types and collations, so that the target itself says which
texts are one row.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import Final

from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError

from cdcbus.plugins.contracts import VERSION, RowVersion, TargetTable
from cdcbus.plugins.errors import TargetMisconfigured
from cdcbus.plugins.loaders.catalog import reflect
from cdcbus.plugins.loaders.dialect import QUOTING
from cdcbus.plugins.loaders.engine import Database
from cdcbus.plugins.rowchange import TableId

PREFIX: Final = "cdcbus_row_"
NO_PLACE: Final = "-"
"""Not empty, which is NULL to Oracle."""


EVERY: Final = "every"
"""In place of a table's part of a name: there is such a table where each of the task's tables is
to have one."""


def name_of(task_id: str, table: TargetTable) -> str:
    """Another one once the key's columns are others, or of other types."""
    columns = [
        (name, its.type, its.length, its.scale, its.declared)
        for name, its in ((each, table.columns[each]) for each in table.key)
    ]
    return _names_begin(task_id) + _short((*table.id, columns))


def _names_begin(task_id: str) -> str:
    return f"{PREFIX}{_short(task_id)}_"


def _short(what: object) -> str:
    return sha256(repr(what).encode()).hexdigest()[:10]


def find(database: Database, task_id: str, table: TargetTable) -> TargetTable | None:
    """Raises TargetMisconfigured where the address names no place for it, DBAPIError."""
    with database.engine.connect() as connection:
        return reflect(
            connection,
            database.dialect.catalog,
            database.dialect.name,
            place_of(database, task_id, table),
        )


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


def place_of(database: Database, task_id: str, table: TargetTable | None) -> TableId:
    """Of the table; None: of `EVERY`."""
    schema = database.engine.dialect.default_schema_name  # known from the first connection on
    if not schema:
        raise TargetMisconfigured(
            f"{database.shown}: the versions of rows have no place, as the address names no "
            "database"
        )
    return TableId(schema, name_of(task_id, table) if table else _names_begin(task_id) + EVERY)


def create_sqls(dialect: str, name: TableId, table: TargetTable) -> list[str]:
    """The key's columns come from a query, which gives them types and collations."""
    quoted = QUOTING[dialect]
    made, key = quoted.table(name), quoted.names(table.key)
    came, place = map(quoted.name, VERSION)
    query = f"SELECT {key} FROM {quoted.table(table.id)} WHERE 1 = 0"
    if dialect == "mysql":
        columns = (
            f"{came} BIGINT NOT NULL DEFAULT 0, {place} VARCHAR(60) NOT NULL DEFAULT '{NO_PLACE}'"
        )
        return [f"CREATE TABLE {made} ({columns}, PRIMARY KEY ({key})) ENGINE=InnoDB AS {query}"]
    number, characters = (
        ("NUMBER(19)", "VARCHAR2(60)") if dialect == "oracle" else ("BIGINT", "VARCHAR(60)")
    )
    added = (
        f"{came} {number} DEFAULT 0 NOT NULL",
        f"{place} {characters} DEFAULT '{NO_PLACE}' NOT NULL",
    )
    return [
        f"CREATE TABLE {made} AS {query}",
        *(f"ALTER TABLE {made} ADD {column}" for column in added),
        f"ALTER TABLE {made} ADD PRIMARY KEY ({key})",
    ]


def is_any_there(
    connection: Connection, database: Database, task_id: str, tables: Sequence[TargetTable | None]
) -> bool:
    """None: that of `EVERY`."""
    dialect = database.dialect.name
    for name in (place_of(database, task_id, table) for table in tables):
        parameters = (
            {"name": QUOTING[dialect].table(name)} if dialect == "postgresql" else name._asdict()
        )
        if connection.execute(text(IS_THERE[dialect]), parameters).scalar():
            return True
    return False


def make_every(database: Database, task_id: str) -> bool:
    """Whether it was made just now."""
    place = place_of(database, task_id, None)
    try:
        with database.engine.begin() as connection:
            connection.exec_driver_sql(
                f"CREATE TABLE {QUOTING[database.dialect.name].table(place)} (cdcbus_ms INTEGER)"
            )
    except DBAPIError:
        with database.engine.connect() as connection:
            if not is_any_there(connection, database, task_id, [None]):
                raise
        return False
    return True


def prune(database: Database, task_id: str, before_ms: int) -> None:
    """In all tables of the task: rows whose last change came before that time."""
    quoted, schema = QUOTING[database.dialect.name], place_of(database, task_id, None).schema
    with database.engine.begin() as connection:
        for (name,) in connection.execute(
            text(NAMES[database.dialect.name]), {"schema": schema}
        ).all():
            if name.startswith(_names_begin(task_id)) and not name.endswith(EVERY):
                table = quoted.table(TableId(schema, name))
                connection.execute(
                    text(f"DELETE FROM {table} WHERE {quoted.name(VERSION[0])} < :before_ms"),
                    {"before_ms": before_ms},
                )


_IN_SCHEMA: Final = "information_schema.tables WHERE table_schema = :schema"
_OF_OWNER: Final = "all_tables WHERE owner = :schema"
IS_THERE: Final = {
    "postgresql": "SELECT to_regclass(:name) IS NOT NULL",
    "mysql": f"SELECT COUNT(*) FROM {_IN_SCHEMA} AND table_name = :table",
    "oracle": f"SELECT COUNT(*) FROM {_OF_OWNER} AND table_name = :table",
}
NAMES: Final = {
    "postgresql": f"SELECT table_name FROM {_IN_SCHEMA} AND table_name LIKE '{PREFIX}%'",
    "mysql": f"SELECT table_name FROM {_IN_SCHEMA} AND table_name LIKE '{PREFIX}%'",
    "oracle": f"SELECT table_name FROM {_OF_OWNER} AND table_name LIKE '{PREFIX}%'",
}


def version(came_ms: int, place: str) -> RowVersion:
    """As it was read."""
    return RowVersion(int(came_ms), "" if place == NO_PLACE else place)
