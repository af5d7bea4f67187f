"""The tables `cdcbus_row_...` in a target: the version of each row, for a table whose rows have
changes in several Kafka partitions.

Their key is the table's own, with the same types and collations, so that the target itself decides
which texts are one row. If the table's key is altered, theirs is, too.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from time import monotonic
from typing import Final

from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError

from cdcbus.plugins.contracts import VERSION, RowVersion, TargetTable
from cdcbus.plugins.errors import TargetMisconfigured, TargetUnavailable
from cdcbus.plugins.loaders.catalog import hold, reflect
from cdcbus.plugins.loaders.dialect import QUOTING, run_plain
from cdcbus.plugins.loaders.dialects.mysql.errors import is_form_refused
from cdcbus.plugins.loaders.engine import Database
from cdcbus.plugins.rowchange import TableId

LOG = logging.getLogger(__name__)
PREFIX: Final = "cdcbus_row_"
NO_PLACE: Final = "-"
"""Not empty, as an empty text is NULL in Oracle."""
PRUNED_ROWS: Final = 10_000
"""With the longest keys some ten megabytes of a server's log."""
PRUNE_SECONDS: Final = 5.0


EVERY: Final = "every"
"""In place of a table's part of the name: if this table exists, each of the task's tables must have
one."""


def name_of(task_id: str, table: TargetTable) -> str:
    """The name of a table's versions."""
    return _names_begin(task_id) + _short(tuple(table.id))


def former_name_of(task_id: str, table: TargetTable) -> str:
    """The name that the table got at first, which changed with the key's columns and types."""
    columns = []
    for key, column in zip(table.key, table.key_columns, strict=True):
        columns.append((key, column.type, column.length, column.scale, column.declared))
    return _names_begin(task_id) + _short((*table.id, columns))


def _names_begin(task_id: str) -> str:
    return f"{PREFIX}{_short(task_id)}_"


def _short(what: object) -> str:
    return sha256(repr(what).encode()).hexdigest()[:10]


def find(database: Database, task_id: str, table: TargetTable) -> TargetTable | None:
    """The table with the versions, None if it does not exist. Raises TargetMisconfigured if there
    is no schema for it, DBAPIError."""
    with database.engine.connect() as connection:
        place = place_of(database, task_id, table)
        former = place._replace(table=former_name_of(task_id, table))
        for name in (place, former):
            if hold(connection, database.dialect.catalog, name) is False:
                continue
            found = reflect(connection, database.dialect.catalog, database.dialect.name, name)
            if found is not None:
                return found
    return None


def make(database: Database, task_id: str, table: TargetTable) -> TargetTable | None:
    """Creates the table with the versions. Raises as `find`, and DBAPIError if it cannot be
    created."""
    name = place_of(database, task_id, table)
    try:
        _run_all(database, create_sqls(database.dialect.name, name, table))
    except DBAPIError as error:
        found = find(database, task_id, table)
        if found is not None:  # another process created it just now
            return found
        if database.dialect.name != "mysql" or not is_form_refused(error):
            raise
        with database.engine.connect() as connection:
            types = _types_of(connection, database, table.id)
        _run_all(database, [create_typed_sql(name, table, types)])
    return find(database, task_id, table)


def _run_all(database: Database, statements: Sequence[str]) -> None:
    with database.engine.begin() as connection:
        for sql in statements:
            run_plain(connection, sql)


def fit(database: Database, task_id: str, table: TargetTable, found: TargetTable) -> TargetTable:
    """Gives the table with the versions that was found the key of the target table, which may have
    been altered since, and returns it. It is altered in place: so no version is lost, and other
    processes continue with the same table. Raises TargetMisconfigured if it cannot be altered,
    DBAPIError."""
    place = place_of(database, task_id, table)
    name = database.dialect.name
    quoted = QUOTING[name]
    if found.id != place:
        rename = f"ALTER TABLE {quoted.table(found.id)} RENAME TO {quoted.name(place.table)}"
        _alter(database, table, rename, lambda: find(database, task_id, table) != found)
    if set(found.columns) - set(VERSION) != set(table.key):
        raise TargetMisconfigured(
            f"{database.shown}: target table {table.id} has another key now "
            f"({', '.join(table.key)}), and table {place} has the versions of its rows by the "
            "former one. Without these an older change of a row could replace a newer one: give "
            "the target table its former key until the task has applied all earlier records; then "
            f"stop the task, drop table {place}, change the key, and start the task"
        )
    if types := _other_types(database, table, place):
        retype = retype_sql(name, place, table, types)
        _alter(database, table, retype, lambda: not _other_types(database, table, place))
        LOG.warning(
            "task %s: the key of target table %s has been altered, and that of table %s, which "
            "keeps the versions of its rows, with it",
            task_id,
            table.id,
            place,
        )
    fitting = find(database, task_id, table) or found
    # an altered key can have its columns in another order
    return replace(fitting, key=table.key)


def _other_types(database: Database, table: TargetTable, place: TableId) -> dict[str, str]:
    """The types of the target table's key columns that are of another one in the table with the
    versions."""
    with database.engine.connect() as connection:
        wanted = _types_of(connection, database, table.id)
        known = _types_of(connection, database, place)
    differing = {}
    for key in table.key:
        # a column that is gone is noticed when the row is written
        if key in wanted and wanted[key] != known.get(key):
            differing[key] = wanted[key]
    return differing


def _types_of(connection: Connection, database: Database, name: TableId) -> dict[str, str]:
    hold(connection, database.dialect.catalog, name)
    types = {}
    for column, type_ in connection.execute(text(database.dialect.catalog.types), name._asdict()):
        types[column] = type_
    return types


def _alter(database: Database, table: TargetTable, sql: str, is_done: Callable[[], bool]) -> None:
    try:
        with database.engine.begin() as connection:
            run_plain(connection, sql)
    except DBAPIError as error:
        if is_done():  # by another process, just now
            return
        diagnosis = database.dialect.diagnose(error, ())
        if diagnosis.error is TargetUnavailable:
            raise
        raise TargetMisconfigured(
            f"{database.shown}: the versions of rows of table {table.id} are kept by its key as it "
            f"was, and their table cannot be altered ({diagnosis.text}). Without these an older "
            f"change of a row could replace a newer one: run {sql} as its owner, or another "
            "statement with that result, then start the task again"
        ) from None


def place_of(database: Database, task_id: str, table: TargetTable | None) -> TableId:
    """The name of the table with the versions of a target table's rows; for None that of `EVERY`.
    Raises TargetMisconfigured."""
    schema = database.need_schema("the versions of rows")
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
        return [f"CREATE TABLE {made} ({_mysql_columns(table)}) ENGINE=InnoDB AS {query}"]
    number, characters = "BIGINT", "VARCHAR(60)"
    if dialect == "oracle":
        number, characters = "NUMBER(19)", "VARCHAR2(60)"
    return [
        f"CREATE TABLE {made} AS {query}",
        f"ALTER TABLE {made} ADD {came} {number} DEFAULT 0 NOT NULL",
        f"ALTER TABLE {made} ADD {place} {characters} DEFAULT '{NO_PLACE}' NOT NULL",
        f"ALTER TABLE {made} ADD PRIMARY KEY ({key})",
    ]


def create_typed_sql(name: TableId, table: TargetTable, types: Mapping[str, str]) -> str:
    """The statement that creates the table in MySQL where a server takes no query for that.
    `types`: of the key's columns."""
    quoted = QUOTING["mysql"]
    columns = [_mysql_column(key, types[key]) for key in table.key]
    return (
        f"CREATE TABLE {quoted.table(name)} ({', '.join(columns)}, {_mysql_columns(table)}) "
        "ENGINE=InnoDB"
    )


def _mysql_columns(table: TargetTable) -> str:
    """The columns of the version, and the key."""
    quoted = QUOTING["mysql"]
    came, place = map(quoted.name, VERSION)
    return (
        f"{came} BIGINT NOT NULL DEFAULT 0, {place} VARCHAR(60) NOT NULL DEFAULT '{NO_PLACE}', "
        f"PRIMARY KEY ({quoted.names(table.key)})"
    )


def _mysql_column(name: str, type_: str) -> str:
    default = ""
    if type_.startswith("timestamp"):  # else it could get ON UPDATE CURRENT_TIMESTAMP
        default = " DEFAULT 0"
    return f"{QUOTING['mysql'].name(name)} {type_} NOT NULL{default}"


def create_every_sql(dialect: str, name: TableId) -> str:
    """The statement that creates the table of `EVERY`. It has a primary key, as a server may
    require one (sql_require_primary_key)."""
    engine = " ENGINE=InnoDB" if dialect == "mysql" else ""
    return f"CREATE TABLE {QUOTING[dialect].table(name)} (cdcbus_ms INTEGER PRIMARY KEY){engine}"


def retype_sql(dialect: str, name: TableId, table: TargetTable, types: Mapping[str, str]) -> str:
    """The statement that gives key columns of the table with the versions these types. It fails
    where a key would be shortened."""
    quoted = QUOTING[dialect]
    changes = []
    for key, type_ in types.items():
        column = quoted.name(key)
        if dialect == "postgresql":
            # the cast reads texts, and is to no length, as a cast to one would shorten them
            cast = f"CAST({column} AS {table.columns[key].type})"
            changes.append(f"ALTER COLUMN {column} TYPE {type_} USING {cast}")
        elif dialect == "mysql":
            changes.append(f"MODIFY COLUMN {_mysql_column(key, type_)}")
        else:
            changes.append(f"{column} {type_}")
    change = ", ".join(changes)
    if dialect == "oracle":
        change = f"MODIFY ({change})"
    return f"ALTER TABLE {quoted.table(name)} {change}"


def is_any_there(
    connection: Connection, database: Database, task_id: str, tables: Sequence[TargetTable | None]
) -> bool:
    """Whether one of the tables with versions exists; None stands for that of `EVERY`."""
    dialect = database.dialect.name
    for table in tables:
        name = place_of(database, task_id, table)
        former = name
        if table is not None:
            former = name._replace(table=former_name_of(task_id, table))
        held = [hold(connection, database.dialect.catalog, each) for each in {name, former}]
        if any(held):
            return True
        if None not in held:
            continue
        parameters: dict[str, str] = {**name._asdict(), "former": former.table}
        if dialect == "postgresql":  # to_regclass takes the whole name
            quoted = QUOTING[dialect]
            parameters = {"name": quoted.table(name), "former": quoted.table(former)}
        if connection.execute(text(IS_THERE[dialect]), parameters).scalar():
            return True
    return False


def make_every(database: Database, task_id: str) -> bool:
    """Creates the table of `EVERY`. Returns False if it existed already."""
    place = place_of(database, task_id, None)
    try:
        with database.engine.begin() as connection:
            connection.exec_driver_sql(create_every_sql(database.dialect.name, place))
    except DBAPIError:
        with database.engine.connect() as connection:
            if not is_any_there(connection, database, task_id, [None]):
                raise
        return False
    return True


def prune(
    database: Database,
    task_id: str,
    before_ms: Callable[[], int],
    behind: str,
    on_turn: Callable[[str], None],
) -> None:
    """Deletes the versions of rows whose last change came before the time that `before_ms` returns,
    in the tables of the task, if there are any: in transactions of PRUNED_ROWS, as a cluster
    refuses large ones, and for PRUNE_SECONDS, as nothing is applied meanwhile. The tables take
    turns, from the one that follows `behind`. `on_turn` gets each one's name before its turn, also
    where that fails; the next call goes on behind the last one: else one with much to delete, or
    which refuses it, would take all the time of each call."""
    dialect = database.dialect.name
    quoted = QUOTING[dialect]
    schema = place_of(database, task_id, None).schema
    with database.engine.connect() as connection:
        found = connection.execute(text(NAMES[dialect]), {"schema": schema})
        every = found.scalars().all()
    names = []
    for name in every:
        if name.startswith(_names_begin(task_id)) and not name.endswith(EVERY):
            names.append(name)
    if not names or (before := before_ms()) <= 0:
        return
    left = deque(sorted(names, key=lambda name: (name <= behind, name)))
    until = monotonic() + PRUNE_SECONDS
    while left and monotonic() < until:
        name = left.popleft()
        on_turn(name)
        sql = text(prune_sql(dialect, quoted.table(TableId(schema, name))))
        with database.engine.begin() as connection:
            deleted = connection.execute(sql, {"before_ms": before}).rowcount
        if deleted >= PRUNED_ROWS:
            left.append(name)


def prune_sql(dialect: str, quoted: str) -> str:
    """Deletes at most PRUNED_ROWS versions from the table, whose name is quoted."""
    is_old = f"{QUOTING[dialect].name(VERSION[0])} < :before_ms"
    match dialect:
        case "mysql":
            return f"DELETE FROM {quoted} WHERE {is_old} LIMIT {PRUNED_ROWS}"
        case "oracle":
            return f"DELETE FROM {quoted} WHERE {is_old} AND ROWNUM <= {PRUNED_ROWS}"
    old = f"SELECT ctid FROM {quoted} WHERE {is_old} LIMIT {PRUNED_ROWS}"
    return f"DELETE FROM {quoted} WHERE ctid = ANY(ARRAY({old}))"


_IN_SCHEMA: Final = "information_schema.tables WHERE table_schema = :schema"
_OF_OWNER: Final = "all_tables WHERE owner = :schema"
IS_THERE: Final = {
    "postgresql": "SELECT COALESCE(to_regclass(:name), to_regclass(:former)) IS NOT NULL",
    # one by one, as MariaDB looks through the whole schema for a list of names
    "mysql": f"SELECT (SELECT COUNT(*) FROM {_IN_SCHEMA} AND table_name = :table) "
    f"+ (SELECT COUNT(*) FROM {_IN_SCHEMA} AND table_name = :former)",
    "oracle": f"SELECT COUNT(*) FROM {_OF_OWNER} AND table_name IN (:table, :former)",
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
