"""Turns row changes into records of other topics: mapped, keyed, and in another format. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

from cdcbus.plugins.contracts import TargetColumn, TargetTable
from cdcbus.plugins.errors import ConfigError
from cdcbus.plugins.kafka.config import PublishConfig
from cdcbus.plugins.kafka.record_key import (
    Record,
    key_columns,
    key_text,
    marked_pair,
    not_whole,
    split_key_change,
)
from cdcbus.plugins.kafka.topic_names import topic_of
from cdcbus.plugins.registry import make_converter, make_forwarding_converter
from cdcbus.plugins.rowchange import Op, RowChange, Table, TableId
from cdcbus.plugins.transform.mapper import Mapper
from cdcbus.plugins.transform.plan import Plan
from cdcbus.plugins.transform.route import Route

# The number of tables whose ways are kept.
TABLES = 1_000


class Way(NamedTuple):
    """How rows of a table are mapped, the topic that they go to, and the columns of their key."""

    plan: Plan
    topic: str
    key: tuple[str, ...]


class Written(NamedTuple):
    """The records of one row change under one name: two where its key changes."""

    topic: str
    table: TableId
    op: Op
    records: list[Record]


class RecordTransform:
    """The mapper, keys, topics and format of one task. `forwards`: its rows are read from other
    records. Thread-safe."""

    def __init__(self, mapper: Mapper, config: PublishConfig, *, forwards: bool = False) -> None:
        self._mapper = mapper
        self._config = config
        make = make_forwarding_converter if forwards else make_converter
        self._converter = make(config.converter)
        self._ways = lru_cache(maxsize=TABLES)(self._new_ways)
        self._last: tuple[Table, tuple[Way, ...]] | None = None
        # Of each table whose records do not tell of all its columns: as its last insert was.
        self._inserted: dict[TableId, Table] = {}

    def ways(self, table: Table) -> tuple[Way, ...]:
        """The ways of a table's rows. Raises ConfigError where the table lacks a column that the
        task file names."""
        # By identity, as this runs for each row, and comparing columns would dominate the cost.
        if self._last is not None:
            last_table, ways = self._last
            if last_table is table:
                return ways
        ways = self._ways(table)
        self._last = table, ways
        return ways

    def records(self, change: RowChange) -> Iterator[Written]:
        """Yields the records of a change, for each way of its table. Raises DataError for a change
        that the format or the key cannot hold, UnreadableEvent where images lack columns of the
        key; ConfigError."""
        for way in self.ways(change.table):
            yield self.written(way, change)

    def written(self, way: Way, change: RowChange) -> Written:
        """The records of a change for one of its table's ways. Raises what `records` raises."""
        plan, topic, key = way
        mapped = plan.map(change)
        parts = list(split_key_change(mapped, key))
        if not change.table.is_described:
            self._look_at(change, plan, is_split=len(parts) > 1)
        records: list[Record] = []
        for part in parts:
            value = self._converter.to_bytes(part)
            records.append({"key": key_text(part, key), "value": value})
        return Written(topic, mapped.table.id, mapped.op, marked_pair(records))

    def _look_at(self, change: RowChange, plan: Plan, *, is_split: bool) -> None:
        """Raises UnreadableEvent for a change of the key that lacks columns which the last insert
        had: its row would be sent without them. Nothing else tells that it is not whole."""
        if change.op is Op.INSERT:
            self._inserted[change.table.id] = change.table
        known = self._inserted.get(change.table.id)
        if is_split and known is not None:
            row = {**(change.before or {}), **(change.after or {})}
            lacking = [name for name in known.lacking(row) if self._is_sent(plan, name)]
            if lacking:
                raise not_whole(change, lacking)

    def _is_sent(self, plan: Plan, column: str) -> bool:
        """Whether the task sends a column of the table, which this record can lack."""
        for route in self._mapper.routes(plan.source.id):
            if route.target == plan.target.id and route.wanted(column) is not None:
                return True
        return False

    def _new_ways(self, table: Table) -> tuple[Way, ...]:
        return tuple(self._way(route, table) for route in self._mapper.routes(table.id))

    def _way(self, route: Route, table: Table) -> Way:
        plan = _described(route.plan(table, _as_it_comes(route, table)))
        key: tuple[str, ...] = ()
        # A TRUNCATE can come without columns, and has no key.
        if table.columns:
            key = key_columns(plan.table, self._config)
        return Way(plan, topic_of(plan.table.id, self._config), key)


def _described(plan: Plan) -> Plan:
    """The plan with the types of masked cells, which are text whatever they were before: a topic's
    records carry their types."""
    if not plan.masks:
        return plan
    # Target column -> its mask.
    masks = {plan.names[column]: mask for column, mask in plan.masks.items()}
    columns = []
    for column in plan.table.columns:
        mask = masks.get(column.name)
        if mask is not None:
            column = mask.column(column)
        columns.append(column)
    return replace(plan, table=replace(plan.table, columns=tuple(columns)))


def _as_it_comes(route: Route, table: Table) -> TargetTable:
    """A topic as a target table: it has the columns that the mapper selects, and the key under
    their names. Raises ConfigError where the mapper leaves out a column of the key."""
    left_out = [name for name in table.key if route.wanted(name) is None]
    if left_out:
        raise ConfigError(
            f"mapper[i] leaves out column {', '.join(left_out)}, which is part of the key of "
            f"{table.id}: rows could not be told apart; keep it, or mask it with hash"
        )
    columns = {column.name: TargetColumn(column.name, "") for column in route.columns(table)}
    key = tuple(route.wanted(name) or name for name in table.key)
    return TargetTable(route.target, columns, key)
