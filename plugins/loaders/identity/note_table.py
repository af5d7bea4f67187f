"""The table `cdcbus_tables` in a target: which tables a task's rows went to, and rows of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import orjson
from sqlalchemy import Column, Connection, MetaData, Table, select, text
from sqlalchemy.exc import DBAPIError

from cdcbus.plugins.loaders.catalog import Catalog
from cdcbus.plugins.loaders.engine import Database
from cdcbus.plugins.loaders.offset_table import exact_text
from cdcbus.plugins.rowchange import TableId

TABLE: Final = "cdcbus_tables"
# Keys beyond that are not kept.
KEY_CHARACTERS: Final = 1000

RowKey = Mapping[str, str]
"""The key of a row, by its columns."""

SHAPE: Final = Table(
    TABLE,
    MetaData(),
    Column("task", exact_text(191), primary_key=True),
    Column("table_schema", exact_text(128), primary_key=True),
    Column("table_name", exact_text(128), primary_key=True),
    Column("made", exact_text(64)),
    Column("storage", exact_text(128)),
    Column("row_key", exact_text(KEY_CHARACTERS)),
    mysql_engine="InnoDB",
    mariadb_engine="InnoDB",
)


@dataclass(frozen=True, slots=True)
class Identity:
    """What distinguishes a table from another one of the same name. `made` changes only where it is
    made anew, empty where the server does not tell that; `storage` also where its rows move."""

    made: str
    storage: str


@dataclass(frozen=True, slots=True)
class Note:
    """A table that rows of the task went to. `rows`: some that it had then, the newest first."""

    identity: Identity
    rows: tuple[RowKey, ...] = ()


def identity_of(
    connection: Connection, catalog: Catalog, name: TableId, storages: Mapping[TableId, str]
) -> Identity | None:
    """What the table is now; None if it is missing, or is no table. `storages`: what
    `Catalog.storages` says of it, if anything. Raises DBAPIError."""
    if not catalog.identity:
        return None
    row = connection.execute(text(catalog.identity), name._asdict()).first()
    if row is None:
        return None
    made, storage = (str(each or "") for each in row)
    if name in storages:
        storage = f"{storage} {storages[name]}"
    return Identity(made, storage)


def open_table(database: Database) -> TableId:
    """The name of the table, which is created if it is missing. Raises TargetMisconfigured without
    a schema for it, DBAPIError if it cannot be created."""
    place = TableId(database.need_schema(f"table {TABLE}"), TABLE)
    if _exists(database, place):
        return place
    try:
        with database.engine.begin() as connection:
            SHAPE.create(connection, checkfirst=False)
    except DBAPIError:
        if not _exists(database, place):  # else another process created it at the same moment
            raise
    return place


def _exists(database: Database, place: TableId) -> bool:
    with database.engine.connect() as connection:
        return identity_of(connection, database.dialect.catalog, place, {}) is not None


def forget(connection: Connection, task_id: str) -> None:
    """Removes the notes of a task. Raises DBAPIError."""
    connection.execute(SHAPE.delete().where(SHAPE.c.task == task_id))


def forget_table(connection: Connection, task_id: str, name: TableId) -> None:
    """Removes the note of a table. Raises DBAPIError."""
    columns = SHAPE.c
    of_table = SHAPE.delete().where(
        columns.task == task_id,
        columns.table_schema == name.schema,
        columns.table_name == name.table,
    )
    connection.execute(of_table)


def load(connection: Connection, task_id: str) -> dict[TableId, Note]:
    """The notes of a task. Raises DBAPIError."""
    columns = SHAPE.c
    query = select(
        columns.table_schema, columns.table_name, columns.made, columns.storage, columns.row_key
    ).where(columns.task == task_id)
    found = {}
    for schema, table, made, storage, key in connection.execute(query):
        found[TableId(schema, table)] = Note(Identity(made or "", storage or ""), _row_keys(key))
    return found


def _row_keys(value: str | None) -> tuple[RowKey, ...]:
    try:
        keys = orjson.loads(value or "[]")
    except orjson.JSONDecodeError:
        return ()
    return tuple(keys) if isinstance(keys, list) else ()


def _to_json(keys: Sequence[RowKey]) -> str | None:
    """As many of the keys as the column holds."""
    for count in range(len(keys), 0, -1):
        found = orjson.dumps(keys[:count]).decode()
        if len(found) <= KEY_CHARACTERS:
            return found
    return None


def store(connection: Connection, task_id: str, notes: Mapping[TableId, Note]) -> None:
    """Stores notes in place of former ones. Raises DBAPIError."""
    for name in notes:
        forget_table(connection, task_id, name)
    for name, note in notes.items():
        row = {
            "task": task_id,
            "table_schema": name.schema,
            "table_name": name.table,
            "made": note.identity.made,
            "storage": note.identity.storage,
            "row_key": _to_json(note.rows),
        }
        connection.execute(SHAPE.insert().values(**row))
