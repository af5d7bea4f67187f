"""The tables `cdcbus_row_...` in a target: the version of each row, for a table whose rows have
changes in several Kafka partitions.

Their key is the table's own, with the same types and collations, so that the target itself decides
which texts are one row.
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
from cdcbus.plugins.loaders.dialect import QUOTING, run_plain
from cdcbus.plugins.loaders.engine import Database
from cdcbus.plugins.rowchange import TableId

PREFIX: Final = "cdcbus_row_"
NO_PLACE: Final = "-"
"""Not empty, as an empty text is NULL in Oracle."""


EVERY: Final = "every"
"""In place of a table's part of the name: if this table exists, each of the task's tables must have
one."""


def name_of(task_id: str, table: TargetTable) -> str:
    """The name of a table's versions. It changes with the key's columns and their types."""
    columns = []
    for key, column in zip(table.key, table.key_columns, strict=True):
        columns.append((key, column.type, column.length, column.scale, column.declared))
    return _names_begin(task_id) + _short((*table.id, columns))


def _names_begin(task_id: str) -> str:
    return f"{PREFIX}{_short(task_id)}_"


def _short(what: object) -> str:
    return sha256(repr(what).encode()).hexdigest()[:10]


def find(database: Database, task_id: str, table: TargetTable) -> TargetTable | None:
    """The table with the versions, None if it does not exist. Raises TargetMisconfigured if the
    address names no database for it, DBAPIError."""
    with database.engine.connect() as connection:
        return reflect(
            connection,
            database.dialect.catalog,
            database.dialect.name,
            place_of(database, task_id, table),
        )


def make(database: Database, task_id: str, table: TargetTable) -> TargetTable | None:
    """Creates the table with the versions. Raises as `find`, and DBAPIError if it cannot be
    created."""
    name = place_of(database, task_id, table)
    try:
        with database.engine.begin() as connection:
            for sql in create_sqls(database.dialect.name, name, table):
                run_plain(connection, sql)
    except DBAPIError:
        if find(database, task_id, table) is None:  # else another process created it just now
            raise
    return find(database, task_id, table)


def place_of(database: Database, task_id: str, table: TargetTable | None) -> TableId:
    """The name of the table with the versions of a target table's rows; for None that of `EVERY`.
    Raises TargetMisconfigured."""
    schema = database.schema
    if not schema:
        raise TargetMisconfigured(
            f"{database.shown}: the versions of rows have no place, as the address names no "
            "database"
        )
    if table is None:
        return TableId(schema, _names_begin(task_id) + EVERY)
    return TableId(schema, name_of(task_id, table))


def create_sqls(dialect: str, name: TableId, table: TargetTable) -> list[str]:
    """The statements that create the table. The key's columns come from a query, which gives them
    their types and collations."""
    quoted = QUOTING[dialect]
    made = quoted.table(name)
    key = quoted.names(table.key)
    came, place = map(quoted.name, VERSION)
    query = f"SELECT {key} FROM {quoted.table(table.id)} WHERE 1 = 0"
    if dialect == "mysql":
        # in one statement, as a server may require a primary key (sql_require_primary_key)
        columns = (
            f"{came} BIGINT NOT NULL DEFAULT 0, {place} VARCHAR(60) NOT NULL DEFAULT '{NO_PLACE}'"
        )
        return [f"CREATE TABLE {made} ({columns}, PRIMARY KEY ({key})) ENGINE=InnoDB AS {query}"]
    number, characters = "BIGINT", "VARCHAR(60)"
    if dialect == "oracle":
        number, characters = "NUMBER(19)", "VARCHAR2(60)"
    return [
        f"CREATE TABLE {made} AS {query}",
        f"ALTER TABLE {made} ADD {came} {number} DEFAULT 0 NOT NULL",
        f"ALTER TABLE {made} ADD {place} {characters} DEFAULT '{NO_PLACE}' NOT NULL",
        f"ALTER TABLE {made} ADD PRIMARY KEY ({key})",
    ]


def is_any_there(
    connection: Connection, database: Database, task_id: str, tables: Sequence[TargetTable | None]
) -> bool:
    """Whether one of the tables with versions exists; None stands for that of `EVERY`."""
    dialect = database.dialect.name
    for table in tables:
        name = place_of(database, task_id, table)
        parameters: dict[str, str] = name._asdict()
        if dialect == "postgresql":  # to_regclass takes the whole name
            parameters = {"name": QUOTING[dialect].table(name)}
        if connection.execute(text(IS_THERE[dialect]), parameters).scalar():
            return True
    return False


def make_every(database: Database, task_id: str) -> bool:
    """Creates the table of `EVERY`. Returns False if it existed already."""
    place = place_of(database, task_id, None)
    try:
        with database.engine.begin() as connection:
            quoted = QUOTING[database.dialect.name].table(place)
            connection.exec_driver_sql(f"CREATE TABLE {quoted} (cdcbus_ms INTEGER)")
    except DBAPIError:
        with database.engine.connect() as connection:
            if not is_any_there(connection, database, task_id, [None]):
                raise
        return False
    return True


def prune(database: Database, task_id: str, before_ms: int) -> None:
    """Deletes the versions of rows whose last change came before that time, in all tables of the
    task."""
    dialect = database.dialect.name
    quoted = QUOTING[dialect]
    schema = place_of(database, task_id, None).schema
    came = quoted.name(VERSION[0])
    with database.engine.begin() as connection:
        found = connection.execute(text(NAMES[dialect]), {"schema": schema})
        for name in found.scalars().all():
            if not name.startswith(_names_begin(task_id)) or name.endswith(EVERY):
                continue
            table = quoted.table(TableId(schema, name))
            delete = text(f"DELETE FROM {table} WHERE {came} < :before_ms")
            connection.execute(delete, {"before_ms": before_ms})


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
    """A version from the cells that were read."""
    if place == NO_PLACE:
        place = ""
    return RowVersion(int(came_ms), place)
