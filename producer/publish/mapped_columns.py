"""A table's columns as the mapper wants them in records, for the fast writers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from pymysqlreplication.constants import FIELD_TYPE as TYPE

from cdcbus.plugins.rowchange import Row, Table
from cdcbus.plugins.transform.cells.expression import Expression
from cdcbus.plugins.transform.cells.mask import Mask
from cdcbus.plugins.transform.plan import Plan
from cdcbus.producer.decoding.column_types import BinlogColumn, Reader
from cdcbus.producer.decoding.table import DecodableTable

ONLY_READ = TYPE.GEOMETRY
"""A type for which no writer has code of its own: the reader reads its cells."""


@dataclass(frozen=True, slots=True)
class Computed:
    """A computed column. `takes`: the source columns that it needs, by their source names."""

    name: str
    takes: frozenset[str]
    cell: Callable[[Row], str | None]


@dataclass(frozen=True, slots=True)
class RecordColumns:
    """`table`: the table that records describe. `names`: each source column's name in records, None
    = it is left out; `columns` and `readers` are the source's, except that readers of masked
    columns return the masked text. `computed` follow, in order."""

    table: Table
    names: tuple[str | None, ...]
    columns: tuple[BinlogColumn, ...]
    readers: tuple[Reader, ...]
    computed: tuple[Computed, ...] = ()

    @property
    def is_constant(self) -> bool:
        """Whether computed columns, if any, have the same value in every row."""
        return not any(each.takes for each in self.computed)


def as_they_are(table: DecodableTable) -> RecordColumns:
    """The columns of a table without a mapper."""
    names = tuple(None if column.is_hidden else column.name for column in table.columns)
    return RecordColumns(table.table, names, table.columns, table.readers)


def record_columns(table: DecodableTable, plan: Plan, key: tuple[str, ...]) -> RecordColumns | None:
    """Maps a table's columns by a plan. `key`: the record key's columns. None for cases that only
    the row-at-a-time path handles: computed keys, and expressions of masked or missing columns."""
    computed = tuple(
        Computed(name, made.columns, _cell(made, plan)) for name, made in plan.computed.items()
    )
    taken = frozenset[str]().union(*(each.takes for each in computed))
    known = frozenset(column.name for column in table.table.columns)
    # An expression takes the source's text, and the reader of a masked column has only the masked.
    if taken & plan.masks.keys() or taken - known:
        return None
    names = tuple(None if column.is_hidden else plan.names[column.name] for column in table.columns)
    # A computed column replaces one of the same name in any case.
    if not {*key, *plan.table.key}.issubset(names):
        return None
    columns, readers = [], []
    for column, read in zip(table.columns, table.readers, strict=True):
        mask = plan.masks.get(column.name)
        if mask is not None:
            column, read = replace(column, type=ONLY_READ), _masked(read, mask)
        columns.append(column)
        readers.append(read)
    return RecordColumns(plan.table, names, tuple(columns), tuple(readers), computed)


def _cell(made: Expression, plan: Plan) -> Callable[[Row], str | None]:
    return lambda row: made.cell(plan.source.id, row)


def _masked(read: Reader, mask: Mask) -> Reader:
    def masked(body: bytes, at: int) -> tuple[str, int]:
        text, at = read(body, at)
        return mask.cell(text) or "", at

    return masked
