"""Checks before the first row that mapper and partition keys fit the source's current tables."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator
from contextlib import closing
from itertools import filterfalse

from cdcbus.plugins.errors import ConfigError
from cdcbus.plugins.rowchange import Column, Table, TableId
from cdcbus.plugins.transform.idle_columns import idle_columns, idle_rules
from cdcbus.plugins.transform.mapper import Mapper
from cdcbus.plugins.transform.record_transform import RecordTransform
from cdcbus.producer.config import FetchTask
from cdcbus.producer.ddl.table_schema import TableSchema
from cdcbus.producer.schema.schema_reader import SchemaReader
from cdcbus.producer.server import connection as servers
from cdcbus.producer.source.event_tables import is_own_table
from cdcbus.producer.table_filter import TableFilter, is_named

LOG = logging.getLogger(__name__)
READ_SECONDS = 60.0


def check_mapper(task: FetchTask) -> None:
    """Raises ConfigError, which names every selected table that the mapper or a record key by
    pattern does not fit, and what a connection raises. Warns of columns that rules withhold and
    that no table has. Queries the source only if the task has such rules."""
    if not task.transform.rules and not task.publish.key_rules:
        return
    accepts = TableFilter(task.tables).accepts
    with (
        closing(servers.connect(task.source, READ_SECONDS)) as connection,
        servers.reported(task.source),
    ):
        reader = SchemaReader(connection)
        tables = list(filter(accepts, reader.tables()))
        if task.elsewhere.marks:
            # The rows of these are left out, with those of the transactions that they mark.
            tables = list(filterfalse(is_own_table, tables))
        if not tables:
            return
        schemas, unopened = reader.schemas(tables)
    if wrong := list(unfit(task, schemas)):
        raise ConfigError("; ".join(wrong))
    for sentence in idle(task, schemas, unopened):
        LOG.warning("%s", sentence)


def unfit(task: FetchTask, schemas: dict[TableId, TableSchema]) -> Iterator[str]:
    """Yields a sentence for each table that the mapper does not fit."""
    transform = task.transform
    mapper = Mapper(transform.rules, transform.includes, transform.excludes)
    records = RecordTransform(mapper, task.publish)
    for name, schema in sorted(schemas.items()):
        if is_named(name, transform.heartbeats):
            continue
        columns = tuple(map(Column, schema.names))
        try:
            records.ways(Table(name, columns, schema.key))
        except ConfigError as error:
            yield str(error)


def idle(
    task: FetchTask, schemas: dict[TableId, TableSchema], unopened: Collection[TableId] = ()
) -> Iterator[str]:
    """Yields a sentence for each rule that withholds something and has no table, and for each
    column that rules withhold or choose, and that no table has; tables that are `unopened` may have
    any column."""
    # An event processor may move rows to other tables, and rename columns.
    if task.transform.processor:
        return
    rules = task.transform.rules
    mapper = Mapper(rules)
    yield from idle_rules(mapper, rules, [*schemas, *unopened])
    if not unopened:
        columns = {name: schema.names for name, schema in schemas.items()}
        yield from idle_columns(mapper, columns)
