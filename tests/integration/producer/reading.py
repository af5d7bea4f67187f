"""Reads a piece of a real server's binlog with `BinlogSource`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pymysql
from pymysql.cursors import Cursor

from cdcbus.ops.stack.addresses import Database
from cdcbus.plugins.contracts import Converter, SchemaStore
from cdcbus.plugins.converters.canal_row import CanalRow
from cdcbus.plugins.converters.ogg_json import OggJson
from cdcbus.plugins.kafka.config import PublishConfig
from cdcbus.plugins.kafka.record_key import Record, key_text, split_key_change
from cdcbus.plugins.mysql.connection import MysqlConnection
from cdcbus.plugins.positions import BinlogPosition
from cdcbus.plugins.rowchange import RowChange, TableDdl
from cdcbus.producer.config import FetchTask, FilterConfig, SourceConfig
from cdcbus.producer.publish.codegen import TableWriter
from cdcbus.producer.server.connection import latest_position
from cdcbus.producer.source.binlog_source import BinlogSource
from cdcbus.producer.source.row_events import Batch, Rows

IDLE_LIMIT = 1000  # heartbeats and events that say nothing: then what was waited for does not come


def fetch_task(
    source: Database,
    name: str,
    *,
    servers: str = "",
    tables: FilterConfig | None = None,
    converter: str = "canalRow",
    partition_keys: dict[str, tuple[str, ...]] | None = None,
) -> FetchTask:
    """A task called `name` that reads the schema `name` and writes to the topic `name`."""
    return FetchTask(
        task_id=name,
        swimlane=name,
        source=source_config(source),
        tables=tables or FilterConfig(regexes=(rf"{name}\..*",)),
        publish=PublishConfig(servers, name, converter, partition_keys or {}),
        position_interval_seconds=0.1,
    )


def source_config(source: Database) -> SourceConfig:
    return SourceConfig(((source.host, source.port),), source.user, source.password)


def connect(source: Database, *, local_infile: bool = False) -> pymysql.Connection[Cursor]:
    """A connection of its own, for what changes its session."""
    return MysqlConnection(
        host=source.host,
        port=source.port,
        user=source.user,
        password=source.password,
        charset="utf8mb4",
        autocommit=True,
        local_infile=local_infile,
    )


def position(cursor: Cursor) -> BinlogPosition:
    """The end of the binlog now, by file and place alone."""
    return replace(latest_position(cursor.connection), gtid="")


def is_at_least(found: BinlogPosition, wanted: BinlogPosition) -> bool:
    reached = found.published or found
    return (reached.file, reached.pos) >= (wanted.file, wanted.pos)


def read_batches(
    task: FetchTask,
    start: BinlogPosition,
    end: BinlogPosition,
    read_bytes: int = 1,
    schemas: SchemaStore | None = None,
) -> list[Batch]:
    """What is between two transaction edges, without what says nothing; an event in each batch
    unless more is read at once."""
    batches: list[Batch] = []
    if is_at_least(start, end):
        return batches
    idle = 0
    with BinlogSource(task, schemas) as source:
        for batch in source.batches(source.locate(start), read_bytes):
            if batch.edge is None and not batch.closed and not batch.opened:
                idle += 1
                assert idle < IDLE_LIMIT, (
                    f"the binlog source does not reach {end}; it gave {batches[-1:]}"
                )
                continue
            idle = 0
            batches.append(batch)
            if batch.edge is not None and is_at_least(batch.edge, end):
                return batches
    raise AssertionError("the binlog source ended")


def changes_of(batches: list[Batch]) -> list[RowChange]:
    """The row changes, numbered within their transactions."""
    changes: list[RowChange] = []
    row = 0
    for batch in batches:
        for rows in (*batch.closed, *batch.opened):
            if not isinstance(rows, Rows):
                continue
            if rows.is_first:
                row = 0
            found = rows.changes(row)
            assert_generated_alike(rows, row, found)
            changes += found
            row += len(found)
    return changes


def ddl_of(batches: list[Batch]) -> list[TableDdl]:
    """The DDL, in order."""
    return [part for batch in batches for part in batch.closed if isinstance(part, TableDdl)]


def assert_generated_alike(rows: Rows, first_row: int, changes: list[RowChange]) -> None:
    """What generated code makes of the rows is what the row-at-a-time path makes of their
    changes."""
    for converter in (CanalRow(), OggJson()):
        key = rows.table.table.key

        def plain(
            change: RowChange, converter: Converter = converter, key: tuple[str, ...] = key
        ) -> list[Record]:
            return [
                {"key": key_text(part, key), "value": converter.to_bytes(part)}
                for part in split_key_change(change, key)
            ]

        made, count = TableWriter(rows.table, converter, key, plain).records(rows, first_row)
        assert count == len(changes)
        assert list(map(_timeless, made)) == [
            _timeless(record) for change in changes for record in plain(change)
        ]


def _timeless(record: Record) -> tuple[bytes, dict[str, Any]]:
    """Key and value of a record, without the time at which it was made."""
    value = json.loads(record["value"])
    return record["key"], {
        name: member for name, member in value.items() if name not in ("ts", "current_ts")
    }


def read(
    task: FetchTask, start: BinlogPosition, end: BinlogPosition, schemas: SchemaStore | None = None
) -> list[RowChange]:
    """The row changes between two transaction edges."""
    return changes_of(read_batches(task, start, end, schemas=schemas))


@contextmanager
def global_variable(source: Database, name: str, value: str | int) -> Iterator[None]:
    """A server variable at `value` for a while."""
    with connect(source) as connection, connection.cursor() as cursor:
        cursor.execute(f"SELECT @@global.{name}")
        ((before,),) = cursor.fetchall()
        cursor.execute(f"SET GLOBAL {name} = %s", (value,))
        try:
            yield
        finally:
            cursor.execute(f"SET GLOBAL {name} = %s", (before,))
