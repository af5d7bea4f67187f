"""Routes the rows of a table: one topic, key and writer for each of its names in records."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import NamedTuple

from cdcbus.plugins.contracts import Converter
from cdcbus.plugins.errors import DataError, UnreadableEvent
from cdcbus.plugins.kafka.config import PublishConfig
from cdcbus.plugins.kafka.record_key import (
    Record,
    key_columns,
    key_text,
    marked_pair,
    split_key_change,
)
from cdcbus.plugins.kafka.topic_names import topic_of
from cdcbus.plugins.rowchange import NO_ORIGIN, Op, RowChange, Table, TableDdl, TableId
from cdcbus.plugins.transform.mapper import Mapper
from cdcbus.plugins.transform.processor import Processor
from cdcbus.plugins.transform.record_transform import RecordTransform, Way
from cdcbus.producer.config import RowTransform
from cdcbus.producer.decoding.table import DecodableTable
from cdcbus.producer.publish.codegen import TableWriter
from cdcbus.producer.publish.key_changes import KeyChanges
from cdcbus.producer.publish.mapped_columns import record_columns
from cdcbus.producer.publish.row_batching import RecordLimits
from cdcbus.producer.source.row_events import Rows
from cdcbus.producer.table_filter import is_named


class Made(NamedTuple):
    """Records of one event for one topic and one name, in order; `key` are the columns of their
    keys. `is_joined`: they are records of many rows already."""

    topic: str
    table: TableId
    key: tuple[str, ...]
    records: list[Record]
    is_joined: bool = False


class _Route(NamedTuple):
    """The topic, key and writer of a table under one name; `mapped`: its columns there."""

    topic: str
    table: TableId
    key: tuple[str, ...]
    writer: TableWriter
    mapped: Table


class TableRoutes:
    """The routes of one task's rows. `process`: its event processor; `need` is called with each
    topic before the first write to it; `partitions_of` as in KeyChanges; `limits_of` gives the
    limits of a topic's records of many rows, None = each row has its own; `on_code` as in
    TableWriter."""

    def __init__(
        self,
        config: PublishConfig,
        converter: Converter,
        transform: RowTransform,
        process: Processor | None,
        need: Callable[[str], None],
        partitions_of: Callable[[str], int],
        limits_of: Callable[[str], RecordLimits] | None,
        *,
        takes_partial: bool,
        on_code: Callable[[int], None],
    ) -> None:
        self._config, self._converter, self._transform = config, converter, transform
        self._process, self._need, self._limits_of = process, need, limits_of
        self._takes_partial, self._on_code = takes_partial, on_code
        self._key_changes = KeyChanges(partitions_of)
        self._mapper = Mapper(transform.rules, transform.includes, transform.excludes)
        self._mapped = RecordTransform(self._mapper, config)
        self._unmapped = RecordTransform(Mapper(()), config)
        self._routes: dict[DecodableTable, tuple[_Route, ...]] = {}
        self._processors: dict[DecodableTable, TableWriter] = {}
        self._processed: dict[tuple[str, TableId], Made] = {}

    def clear(self) -> None:
        """Drops the writers and their code."""
        self._routes.clear()
        self._processors.clear()

    def is_processed(self, table: TableId) -> bool:
        """Whether the table's rows go through the event processor, which may turn them into any
        others."""
        return self._process is not None and not self._is_own(table)

    def made(self, rows: Rows, first_row: int) -> tuple[list[Made], int]:
        """Returns the records of an event, and the number of its row changes. Raises
        UnreadableEvent, also for a row that the mapper or the event processor cannot take;
        ConfigError if the task file names something that the table does not have."""
        if self.is_processed(rows.table.table.id):
            writer = self._processors.get(rows.table) or self._new_processor(rows.table)
            self._processed = {}
            _, count = writer.records(rows, first_row)
            return list(self._processed.values()), count
        made = []
        count = 0
        for route in self._routes.get(rows.table) or self._new_routes(rows):
            joined = None
            if self._limits_of is not None:
                joined = route.writer.joined(rows, first_row, self._limits_of(route.topic))
            records, count = joined or route.writer.records(rows, first_row)
            made.append(
                Made(route.topic, route.table, route.key, records, is_joined=joined is not None)
            )
        return made, count

    def of_changes(self, changes: Iterable[RowChange]) -> list[Made]:
        """The records of row changes of one table. Raises as `made`."""
        self._processed = {}
        for change in changes:
            if self.is_processed(change.table.id):
                self._process_one(change)
            else:
                self._collect(self._mapped, change)
        return list(self._processed.values())

    def truncate(self, ddl: TableDdl) -> list[Made]:
        """The records of a TRUNCATE. Raises UnreadableEvent if other tables share the table's name
        in records, and as `made`."""
        change = RowChange(
            Table(ddl.table, (), ()), Op.TRUNCATE, None, None, ddl.origin, is_last=True
        )
        transform = self._transform_of(ddl.table)
        for way in transform.ways(change.table):
            if way.plan.is_shared:
                raise UnreadableEvent(_shared_refused(ddl, way.plan.table.id))
        self._processed = {}
        if self.is_processed(ddl.table):
            self._process_one(change)
        else:
            self._collect(transform, change)
        return list(self._processed.values())

    def ddl(self, ddl: TableDdl) -> Iterator[TableDdl]:
        """Yields the statement under each name of its table. Its text is the source's, with the
        source's names; it is omitted if records must not hold everything in the table, as the text
        could reveal what they hide."""
        if self._is_own(ddl.table):
            yield ddl
            return
        for route in self._mapper.routes(ddl.table):
            rule = route.rule
            is_hiding = self._process is not None or any(
                (rule.included, rule.ignored, rule.masks, _names_one_of(ddl.sql, rule.computed))
            )
            yield TableDdl(route.target, ddl.kind, "" if is_hiding else ddl.sql, ddl.origin)

    def own_names(self, table: TableId) -> tuple[TableId, ...]:
        """The names in records that no other table has, unless the event processor gives it
        others."""
        if self._is_own(table):
            return (table,)
        return tuple(route.target for route in self._mapper.routes(table) if not route.is_shared)

    def _is_own(self, table: TableId) -> bool:
        """Whether it is the task's heartbeat table, which readers recognize by its name."""
        return is_named(table, self._transform.heartbeats)

    def _transform_of(self, table: TableId) -> RecordTransform:
        if self._is_own(table):
            return self._unmapped
        return self._mapped

    def _new_processor(self, table: DecodableTable) -> TableWriter:
        writer = self._processors[table] = TableWriter(
            table,
            _Plain(self._converter),
            (),
            self._process_one,
            takes_partial=self._takes_partial,
            on_code=self._on_code,
        )
        return writer

    def _process_one(self, change: RowChange) -> list[Record]:
        """Processes a row change; returns nothing, as the results are kept by topic and name."""
        assert self._process is not None
        with placed(change):
            changes = self._process(change)
        for each in changes:
            if each.origin is NO_ORIGIN:  # a new row change: it gets the origin of its source
                each = replace(each, origin=change.origin, row=change.row)
            self._collect(self._mapped, each)
        return []

    def _collect(self, transform: RecordTransform, change: RowChange) -> None:
        with placed(change):
            for way in transform.ways(change.table):
                name = way.topic, way.plan.table.id
                if name not in self._processed:
                    self._need(way.topic)
                    self._processed[name] = Made(*name, way.key, [])
                self._processed[name].records.extend(transform.written(way, change).records)

    def _new_routes(self, rows: Rows) -> tuple[_Route, ...]:
        table = rows.table
        is_mapped = self._transform.rules and not self._is_own(table.table.id)
        routes = tuple(self._mapped_routes(table)) if is_mapped else (self._as_it_is(table),)
        # Here, so that a missing topic stops the task before a row is made for it.
        for route in routes:
            self._need(route.topic)
            self._key_changes.look(
                route.topic, table.table.id, route.mapped, route.key, rows.origin
            )
        self._routes[table] = routes
        return routes

    def _as_it_is(self, table: DecodableTable) -> _Route:
        name = table.table.id
        # key patterns do not apply to the heartbeat table
        config = self._config
        if self._is_own(name):
            config = replace(config, key_rules=())
        topic, key = topic_of(name, config), key_columns(table.table, config)

        def row_at_a_time(change: RowChange) -> list[Record]:
            return marked_pair(
                [
                    {"key": key_text(part, key), "value": self._converter.to_bytes(part)}
                    for part in split_key_change(change, key)
                ]
            )

        writer = TableWriter(
            table,
            self._converter,
            key,
            row_at_a_time,
            takes_partial=self._takes_partial,
            on_code=self._on_code,
        )
        return _Route(topic, name, key, writer, table.table)

    def _mapped_routes(self, table: DecodableTable) -> Iterator[_Route]:
        for way in self._mapped.ways(table.table):
            columns = record_columns(table, way.plan, way.key)
            writer = TableWriter(
                table,
                self._converter if columns is not None else _Plain(self._converter),
                way.key,
                row_at_a_time(self._mapped, way),
                columns=columns,
                takes_partial=self._takes_partial,
                on_code=self._on_code,
            )
            yield _Route(way.topic, way.plan.table.id, way.key, writer, way.plan.table)


def _names_one_of(sql: str, columns: Iterable[str]) -> bool:
    """Whether a statement names one of these columns, which computed ones replace."""
    return any(
        re.search(rf"(?<![\w$]){re.escape(name)}(?![\w$])", sql, re.IGNORECASE) for name in columns
    )


def row_at_a_time(transform: RecordTransform, way: Way) -> Callable[[RowChange], list[Record]]:
    """Returns the plain reference for the records of a mapped row; it raises UnreadableEvent."""

    def records(change: RowChange) -> list[Record]:
        with placed(change):
            return transform.written(way, change).records

    return records


@contextmanager
def placed(change: RowChange) -> Iterator[None]:
    """Raises a DataError of the block as UnreadableEvent with the row's place in the binlog, where
    the task stops."""
    try:
        yield
    except DataError as error:
        origin = change.origin
        # Changes of another package's source have no place.
        where = f"table {change.table.id}"
        if origin.file:
            where = f"{origin.file}:{origin.pos}"
        raise UnreadableEvent(f"{where}: {error}") from error


def _shared_refused(ddl: TableDdl, name: TableId) -> str:
    return (
        f"{ddl.origin.file}:{ddl.origin.pos}: TRUNCATE of {ddl.table}, whose rows mapper[i] sends "
        f"out as {name} beside those of other tables: targets would lose these too. Once all "
        "before it is applied, delete the table's rows at the targets, and continue with "
        "loader.source.truncate=false"
    )


class _Plain:
    """Hides the templates of a converter, so that rows take the row-at-a-time path."""

    def __init__(self, converter: Converter) -> None:
        self.to_bytes, self.from_bytes = converter.to_bytes, converter.from_bytes
