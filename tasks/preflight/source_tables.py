"""Checks which source tables a fetch task would read, and that they have the columns that it
needs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from cdcbus.plugins.errors import ConfigError
from cdcbus.plugins.kafka.config import PublishConfig
from cdcbus.plugins.kafka.record_key import key_columns
from cdcbus.plugins.rowchange import Column, Table, TableId
from cdcbus.plugins.transform.mapper import Mapper
from cdcbus.plugins.transform.processor import make_processor
from cdcbus.plugins.transform.route import Route
from cdcbus.producer import mapped_tables
from cdcbus.producer.config import FetchTask
from cdcbus.producer.mapped_tables import check_mapper
from cdcbus.producer.server import connection as servers
from cdcbus.producer.server.foreign_keys import unlogged_actions
from cdcbus.producer.table_filter import TableFilter
from cdcbus.tasks.first_of import first_of
from cdcbus.tasks.preflight.result import (
    IDLE_REMEDY,
    CheckResult,
    error,
    ok,
    overheard,
    warning,
)

if TYPE_CHECKING:
    from cdcbus.producer.server.connection import Connection

SYSTEM = ("information_schema", "performance_schema", "mysql", "sys")
NAMES_SHOWN = 10
FILTER = "source tables"


def check_tables(task: FetchTask, connection: Connection) -> list[CheckResult]:
    """Checks the tables that the task's filter accepts, and the columns of its partition keys."""
    query = (
        "SELECT table_schema, table_name FROM information_schema.tables WHERE table_type IN "
        "('BASE TABLE', 'SYSTEM VERSIONED') AND table_schema NOT IN %s"
    )
    tables = [TableId(*row) for row in servers.query(connection, query, (SYSTEM,))]
    read = list(filter(TableFilter(task.tables).accepts, tables))
    keyed = _keyed(connection, {table.schema for table in read})
    seen = list(describe_filter(task, read, keyed))
    seen += describe_actions(unlogged_actions(connection, read))
    mapper = Mapper(task.transform.rules)
    # Partition keys name tables as records do, which is after mapping.
    by_name: dict[str, Route] = {}
    for table in read:
        for route in mapper.routes(table):
            by_name[str(route.target).upper()] = route
    for name in sorted(task.publish.partition_keys):
        found = by_name.get(name)
        if found is None:
            seen.append(describe_partition_key(name, None, [], task.publish))
            continue
        source = Table(found.source, tuple(map(Column, _columns(connection, found.source))), ())
        columns = [column.name for column in found.columns(source)]
        key = [found.wanted(column) or "" for column in _primary_key(connection, found.source)]
        seen.append(describe_partition_key(name, found.target, columns, task.publish, key))
    return seen


def check_rules(task: FetchTask) -> Iterator[CheckResult]:
    """Checks that the task's mapper and event processor can be applied. Raises what these raise."""
    if task.transform.processor:
        make_processor(task.transform.processor)
        yield ok("event processor", f"{task.transform.processor} can be imported here")
    if task.transform.rules or task.publish.key_rules:
        with overheard(mapped_tables.__name__) as heard:
            check_mapper(task)
        for sentence in heard:
            yield warning("mapper", sentence, IDLE_REMEDY)
        yield ok("mapper", "mapper and partition keys can be applied to the tables that are read")


def describe_filter(
    task: FetchTask, read: list[TableId], keyed: set[TableId]
) -> Iterator[CheckResult]:
    """The results of the filter. `read`: the tables that it accepts. `keyed`: those with a key."""
    if not read:
        found = "no table that this user sees matches consumer.source.filter, includes and excludes"
        yield warning(
            FILTER,
            found,
            "Correct them, or GRANT SELECT on the tables; tables that are created later are read "
            "as well.",
        )
    else:
        yield ok(FILTER, f"{len(read)} read: {_listed(read)}")
    # Includes are in upper case.
    names = {str(table).upper() for table in read}
    if absent := sorted(task.tables.includes - names):
        yield warning(
            FILTER,
            f"in consumer.includes, but missing or filtered out: {', '.join(absent)}",
            "Correct the names.",
        )
    if bare := [table for table in read if table not in keyed]:
        found = (
            f"without primary key: {_listed(bare)}; their records have no key, and targets "
            "cannot merge them"
        )
        yield warning(
            FILTER, found, "Give them a primary key, or leave them out with consumer.excludes."
        )


def describe_actions(tables: list[TableId]) -> Iterator[CheckResult]:
    """The result for tables of which the server changes or deletes rows without logging that."""
    if tables:
        yield warning(
            "foreign keys",
            "the binlog does not have the rows that ON DELETE or ON UPDATE of these tables' "
            f"foreign keys (CASCADE, SET NULL) changes or deletes: {_listed(tables)}; they stay at "
            "targets as they were",
            "Give the tables the same foreign keys at the target, delete and change children "
            "before parents, or run cdcbus verify --repair from time to time.",
        )


def describe_partition_key(
    name: str,
    table: TableId | None,
    columns: list[str],
    config: PublishConfig,
    primary_key: Sequence[str] = (),
) -> CheckResult:
    """Whether the columns of one `partitionKey` line exist and are in the primary key; a row could
    otherwise change its partition."""
    subject = f"partitionKey {name}"
    if table is None:
        return warning(
            subject, "the task reads no such table", "Correct the name, or remove the line."
        )
    try:
        names = key_columns(Table(table, tuple(map(Column, columns)), ()), config)
    except ConfigError as cause:
        return error(subject, str(cause), "Correct the column's name in the task file.")
    if outside := [column for column in names if primary_key and column not in primary_key]:
        found = (
            f"columns {', '.join(names)}; changes of one row may be in two partitions, as these "
            f"are not in the primary key: {', '.join(outside)}"
        )
        remedy = (
            "Use columns of the primary key if you can: readers other than cdcbus may apply the "
            "changes in the wrong order, and cdcbus consumer tasks keep a version of each row "
            "beside the target table, which takes time."
        )
        return warning(subject, found, remedy)
    return ok(subject, f"columns {', '.join(names)}")


def _keyed(connection: Connection, schemas: Iterable[str]) -> set[TableId]:
    """The tables with a primary key, or with a unique key of whole NOT NULL columns, which the
    binlog treats as one unless MariaDB keeps it by a hash."""
    names = tuple(schemas)
    if not names:
        return set()
    is_hash = (
        "index_type = 'HASH' AND NOT EXISTS (SELECT 1 FROM information_schema.tables AS t WHERE "
        "t.table_schema = s.table_schema AND t.table_name = s.table_name AND t.engine IN "
        "('MEMORY', 'ndbcluster'))"
    )
    query = (
        "SELECT table_schema, table_name, index_name, MAX(nullable = 'YES' OR sub_part IS NOT "
        f"NULL OR ({is_hash})) FROM information_schema.statistics AS s"
        " WHERE non_unique = 0 AND table_schema IN %s GROUP BY table_schema, table_name, index_name"
    )
    keyed = set()
    for schema, table, key, is_unfit in servers.query(connection, query, (names,)):
        if key == "PRIMARY" or not is_unfit:
            keyed.add(TableId(schema, table))
    return keyed


def _columns(connection: Connection, table: TableId) -> list[str]:
    query = (
        "SELECT column_name FROM information_schema.columns WHERE table_schema = %s AND "
        "table_name = %s ORDER BY ordinal_position"
    )
    return _names(connection, query, table)


def _primary_key(connection: Connection, table: TableId) -> list[str]:
    query = (
        "SELECT column_name FROM information_schema.statistics"
        " WHERE table_schema = %s AND table_name = %s AND index_name = 'PRIMARY' ORDER BY "
        "seq_in_index"
    )
    return _names(connection, query, table)


def _names(connection: Connection, query: str, table: TableId) -> list[str]:
    """The result of a query for one column."""
    return [name for (name,) in servers.query(connection, query, table)]


def _listed(tables: Iterable[TableId]) -> str:
    return first_of(sorted(map(str, tables)), NAMES_SHOWN)
