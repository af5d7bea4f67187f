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
from cdcbus.plugins.loaders.dialect import QUOTING, run_plain
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
                run_plain(connection, sql)
    except DBAPIError:
        if find(database, task_id, table) is None:  # else somebody has made it at the same moment
            raise
    return find(database, task_id, table)


def place_of(database: Database, task_id: str, table: TargetTable | None) -> TableId:
    """The name of the table with the versions of a target table's rows; None: of `EVERY`."""
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
    """The key's columns come from a query, which gives them types and collations."""
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
    number = "NUMBER(19)" if dialect == "oracle" else "BIGINT"
    characters = "VARCHAR2(60)" if dialect == "oracle" else "VARCHAR(60)"
    return [
        f"CREATE TABLE {made} AS {query}",
        f"ALTER TABLE {made} ADD {came} {number} DEFAULT 0 NOT NULL",
        f"ALTER TABLE {made} ADD {place} {characters} DEFAULT '{NO_PLACE}' NOT NULL",
        f"ALTER TABLE {made} ADD PRIMARY KEY ({key})",
    ]


def is_any_there(
    connection: Connection, database: Database, task_id: str, tables: Sequence[TargetTable | None]
) -> bool:
    """Whether one of the tables with versions exists; None: that of `EVERY`."""
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
    """Deletes, in all tables of the task, the rows whose last change came before that time."""
    dialect = database.dialect.name
    quoted = QUOTING[dialect]
    schema = place_of(database, task_id, None).schema
    with database.engine.begin() as connection:
        names = connection.execute(text(NAMES[dialect]), {"schema": schema}).scalars().all()
        for name in names:
            if not name.startswith(_names_begin(task_id)) or name.endswith(EVERY):
                continue
            table = quoted.table(TableId(schema, name))
            came = quoted.name(VERSION[0])
            connection.execute(
                text(f"DELETE FROM {table} WHERE {came} < :before_ms"), {"before_ms": before_ms}
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
