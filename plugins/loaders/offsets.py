"""The table `cdcbus_position` in a target: how far each Kafka partition has been applied there, in the same transaction as the rows."""

from __future__ import annotations

from typing import Final

from sqlalchemy import BigInteger, Column, Connection, Integer, MetaData, String, Table, and_, select, text
from sqlalchemy.dialects import mysql
from sqlalchemy.exc import DBAPIError

from cdcbus.plugins.contracts import AppliedOffset, TargetTable
from cdcbus.plugins.errors import TargetMisconfigured, UnsafeOffsetTable
from cdcbus.plugins.loaders.engine import Database
from cdcbus.plugins.loaders.reflect import reflect
from cdcbus.plugins.loaders.sql import SqlDialect
from cdcbus.plugins.rowchange import TableId

TABLE: Final = "cdcbus_position"


def _text(length: int) -> String:
    """Case counts in task and topic names, also where the database's default says otherwise."""
    return String(length).with_variant(mysql.VARCHAR(length, charset="utf8mb4", collation="utf8mb4_bin"), "mysql", "mariadb")


SHAPE: Final = Table(
    TABLE,
    MetaData(),
    Column("task", _text(191), primary_key=True),
    Column("topic", _text(249), primary_key=True),
    Column("partition", Integer, primary_key=True, autoincrement=False),
    Column("next_offset", BigInteger, nullable=False),
    Column("mzxid", BigInteger, nullable=False),
    mysql_engine="InnoDB",
    mariadb_engine="InnoDB",
)


def open_table(database: Database) -> TargetTable | None:
    """The table in the connection's default schema, made if it is not there. Raises TargetMisconfigured without such a schema, DBAPIError
    where the table cannot be made."""
    table = find_table(database)
    if table is not None:
        if table.unsafe:
            raise UnsafeOffsetTable(table.unsafe)
        return table
    try:
        with database.engine.begin() as connection:
            SHAPE.create(connection, checkfirst=False)
    except DBAPIError:
        if find_table(database) is None:  # else somebody has made it at the same moment
            raise
    return find_table(database)


def find_table(database: Database) -> TargetTable | None:
    """The table if it is there. Raises TargetMisconfigured where the address names no place for it, DBAPIError."""
    with database.engine.connect() as connection:
        schema = database.engine.dialect.default_schema_name  # known from the first connection on
        if not schema:
            raise TargetMisconfigured(f"{database.shown}: table {TABLE} has no place, as the address names no database")
        return reflect(connection, database.dialect.catalog, database.dialect.name, TableId(schema, TABLE))


def may_create(connection: Connection, dialect: SqlDialect) -> bool | None:
    """Whether the user may make tables in the default schema; None where that cannot be asked. Rights by way of a role may be missed."""
    sql = dialect.catalog.may_create
    return bool(connection.execute(text(sql)).scalar_one()) if sql else None


def store(connection: Connection, task_id: str, offset: AppliedOffset, seen: AppliedOffset | None) -> bool:
    """Whether the offset stands there now in place of the one that was seen. Raises DBAPIError for a first one that is not the first."""
    progress = {"next_offset": offset.next_offset, "mzxid": offset.mzxid}
    if seen is None:
        connection.execute(SHAPE.insert().values(task=task_id, topic=offset.topic, partition=offset.partition, **progress))
        return True
    columns = SHAPE.c
    lane = and_(columns.task == task_id, columns.topic == offset.topic, columns.partition == offset.partition)
    is_seen = and_(columns.next_offset == seen.next_offset, columns.mzxid == seen.mzxid)
    return connection.execute(SHAPE.update().where(lane, is_seen).values(**progress)).rowcount == 1


def load(connection: Connection, task_id: str) -> list[AppliedOffset]:
    columns = SHAPE.c
    query = select(columns.topic, columns.partition, columns.next_offset, columns.mzxid).where(columns.task == task_id)
    return [AppliedOffset(*row) for row in connection.execute(query)]
