"""The table `cdcbus_position` in a target: how far each Kafka partition has been applied to it,
stored in the same transaction as the rows."""

from __future__ import annotations

from typing import Final

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Connection,
    Integer,
    MetaData,
    String,
    Table,
    and_,
    func,
    null,
    select,
    text,
)
from sqlalchemy.dialects import mysql
from sqlalchemy.exc import DBAPIError
from sqlalchemy.schema import CreateColumn

from cdcbus.plugins.contracts import AppliedOffset, Details, TargetTable
from cdcbus.plugins.errors import TargetMisconfigured, TargetUnavailable, UnsafeOffsetTable
from cdcbus.plugins.loaders.catalog import reflect
from cdcbus.plugins.loaders.dialect import QUOTING, SqlDialect, run_plain
from cdcbus.plugins.loaders.engine import Database
from cdcbus.plugins.rowchange import TableId

TABLE: Final = "cdcbus_position"
COUNTS: Final = "commits of a direct load"
"""In place of a topic, none of which can have blanks: the rows that count what the readers of a
direct load have committed."""


def exact_text(length: int) -> String:
    """A column type for task and topic names: case-sensitive, whatever the database's default."""
    return String(length).with_variant(
        mysql.VARCHAR(length, charset="utf8mb4", collation="utf8mb4_bin"), "mysql", "mariadb"
    )


SHAPE: Final = Table(
    TABLE,
    MetaData(),
    Column("task", exact_text(191), primary_key=True),
    Column("topic", exact_text(249), primary_key=True),
    Column("partition", Integer, primary_key=True, autoincrement=False),
    Column("next_offset", BigInteger, nullable=False),
    Column("mzxid", BigInteger, nullable=False),
    Column("epoch", BigInteger),
    Column("details", exact_text(2000)),
    mysql_engine="InnoDB",
    mariadb_engine="InnoDB",
)


ADDED: Final = (SHAPE.c.epoch, SHAPE.c.details)
"""The columns that earlier versions did not have."""


class OldOffsetTable(TargetMisconfigured):
    """The table has the layout of an earlier version, and cannot be altered."""


def open_table(database: Database) -> TargetTable | None:
    """The table in the connection's default schema, created if missing, and completed. Raises
    UnsafeOffsetTable, OldOffsetTable, TargetMisconfigured without such a schema, DBAPIError if the
    table cannot be created."""
    table = find_table(database)
    if table is not None:
        if table.unsafe:
            raise UnsafeOffsetTable(table.unsafe)
        return complete(database, table)
    try:
        with database.engine.begin() as connection:
            SHAPE.create(connection, checkfirst=False)
    except DBAPIError:
        if find_table(database) is None:  # else another process created it at the same moment
            raise
    return find_table(database)


def find_table(database: Database) -> TargetTable | None:
    """The table, None if it does not exist. Raises TargetMisconfigured if there is no schema
    for it, DBAPIError."""
    with database.engine.connect() as connection:
        schema = database.need_schema(f"table {TABLE}")
        return reflect(
            connection, database.dialect.catalog, database.dialect.name, TableId(schema, TABLE)
        )


def may_create(connection: Connection, dialect: SqlDialect) -> bool | None:
    """Whether the user may create tables in the default schema; None if that cannot be queried.
    Rights granted through a role may be missed."""
    sql = dialect.catalog.may_create
    if not sql:
        return None
    return bool(connection.execute(text(sql)).scalar_one())


def complete(database: Database, table: TargetTable) -> TargetTable:
    """Adds the columns that earlier versions did not have, and returns the table. Raises
    OldOffsetTable with the statement that adds them if the user may not, DBAPIError if the target
    is unavailable."""
    known = _names(table)
    missing = [column for column in ADDED if column.name not in known]
    if not missing:
        return table
    for column in missing:
        definition = CreateColumn(column).compile(dialect=database.engine.dialect)
        sql = f"ALTER TABLE {QUOTING[table.dialect].table(table.id)} ADD {definition}"
        try:
            with database.engine.begin() as connection:
                run_plain(connection, sql)
        except DBAPIError as error:
            found = find_table(database)  # another process may have added it at the same moment
            if found is not None and column.name in _names(found):
                continue
            diagnosis = database.dialect.diagnose(error, ())
            if diagnosis.error is TargetUnavailable:
                raise
            raise OldOffsetTable(
                f"{database.shown}: table {TABLE} lacks column {column.name}, by which one that "
                "has lost its task is kept from writing, and it cannot be added "
                f"({diagnosis.text}): run {sql} as its owner, then start the task again"
            ) from None
    return find_table(database) or table


def _names(table: TargetTable) -> set[str]:
    return set(map(str.lower, table.columns))


def store(
    connection: Connection, task_id: str, offset: AppliedOffset, seen: AppliedOffset | None
) -> bool:
    """Stores an offset in place of the one that was seen. Returns whether it did: False if another
    one was stored meanwhile. Raises DBAPIError if none was seen but one exists."""
    progress = {"next_offset": offset.next_offset, "mzxid": offset.position_version}
    if seen is None:
        row = {
            "task": task_id,
            "topic": offset.topic,
            "partition": offset.partition,
            "epoch": offset.epoch,
            **progress,
        }
        connection.execute(SHAPE.insert().values(**row, **_details(offset)))
        return True
    columns = SHAPE.c
    partition = and_(
        columns.task == task_id,
        columns.topic == offset.topic,
        columns.partition == offset.partition,
    )
    # part of the UPDATE itself: of two processes that have seen the same, only one stores
    is_seen = and_(
        columns.next_offset == seen.next_offset,
        columns.mzxid == seen.position_version,
        _epoch() == seen.epoch,
    )
    changed: dict[str, object] = dict(progress)
    if offset.details != seen.details:
        changed |= _details(offset)
    update = SHAPE.update().where(partition, is_seen).values(**changed)
    return connection.execute(update).rowcount == 1


def _epoch() -> ColumnElement[int]:
    # NULL in rows that an earlier version stored
    return func.coalesce(SHAPE.c.epoch, 0)


def _details(offset: AppliedOffset) -> dict[str, str]:
    return {"details": offset.details.to_json()}


def fence(connection: Connection, task_id: str) -> None:
    """Takes over a task's partitions for a new epoch, once commits in progress are done:
    unconditionally, so that a sequence of commits by another process cannot prevent it."""
    columns = SHAPE.c
    # locked in order, to avoid deadlocks
    rows = (
        select(columns.topic)
        .where(columns.task == task_id)
        .order_by(columns.topic, columns.partition)
    )
    connection.execute(rows.with_for_update()).all()
    connection.execute(SHAPE.update().where(columns.task == task_id).values(epoch=_epoch() + 1))


def load(
    connection: Connection,
    task_id: str,
    table: TargetTable,
    partition: tuple[str, int] | None = None,
) -> list[AppliedOffset]:
    """Returns a task's offsets, or only that of a partition. `table`: as found, possibly of an
    earlier version."""
    which: ColumnElement[bool] = SHAPE.c.topic != COUNTS
    if partition is not None:
        topic, number = partition
        which = and_(SHAPE.c.topic == topic, SHAPE.c.partition == number)
    return _load(connection, task_id, table, which)


def counts(connection: Connection, task_id: str, table: TargetTable) -> dict[int, AppliedOffset]:
    """Returns by reader how much a direct load of the task has committed: see COUNTS."""
    found = _load(connection, task_id, table, SHAPE.c.topic == COUNTS)
    return {each.partition: each for each in found}


def forget_counts(connection: Connection, task_id: str) -> None:
    columns = SHAPE.c
    connection.execute(SHAPE.delete().where(columns.task == task_id, columns.topic == COUNTS))


def _load(
    connection: Connection, task_id: str, table: TargetTable, which: ColumnElement[bool]
) -> list[AppliedOffset]:
    columns = SHAPE.c
    names = _names(table)
    # NULL for columns that the table does not have yet
    added = [column if column.name in names else null() for column in ADDED]
    query = select(
        columns.topic,
        columns.partition,
        columns.next_offset,
        columns.mzxid,
        *added,
    ).where(columns.task == task_id, which)
    found = []
    for topic, partition, next_offset, position_version, epoch, text_ in connection.execute(query):
        details = Details.from_json(text_)
        found.append(
            AppliedOffset(topic, partition, next_offset, position_version, epoch or 0, details)
        )
    return found
