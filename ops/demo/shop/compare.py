"""Source and target, row by row."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from cdcbus.ops.demo.shop.canonical import canonical
from cdcbus.ops.demo.shop.schema import TABLES, Kind, Table
from cdcbus.ops.stack import sql
from cdcbus.ops.stack.addresses import Database

Key = tuple[str | None, ...]
Rows = Mapping[Key, tuple[str | None, ...]]


@dataclass(frozen=True, slots=True)
class Difference:
    """A row that differs between source and target. `how`: `missing`, `extra`, or the names of the
    columns that differ."""

    key: Key
    how: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """A table at the source and at one target."""

    table: Table
    source_rows: int
    target_rows: int
    differences: list[Difference] = field(default_factory=list)

    @property
    def is_equal(self) -> bool:
        return not self.differences


def compare(table: Table, source: Rows, target: Rows) -> Comparison:
    """The differences, keys in the source's order, then those that only the target has."""
    differences = []
    for key, row in source.items():
        other = target.get(key)
        if other is None:
            differences.append(Difference(key, "missing"))
        elif other != row:
            differences.append(Difference(key, ", ".join(_differing(table, row, other))))
    for key in target:
        if key not in source:
            differences.append(Difference(key, "extra"))
    return Comparison(table, len(source), len(target), differences)


def _differing(
    table: Table, row: tuple[str | None, ...], other: tuple[str | None, ...]
) -> Iterator[str]:
    """The names of the columns in which two rows differ."""
    for column, here, there in zip(table.columns, row, other, strict=True):
        if here != there:
            yield column.name


def canonical_rows(table: Table, rows: Iterable[tuple[Any, ...]]) -> Rows:
    """A table's rows as canonical text, by key. `rows`: as a driver returns them, columns in the
    table's order."""
    names = [column.name for column in table.columns]
    kinds = [column.kind for column in table.columns]
    key_places = [names.index(name) for name in table.key]
    found = {}
    for row in rows:
        texts = tuple(map(canonical, kinds, row))
        found[tuple(texts[place] for place in key_places)] = texts
    return found


def read_rows(server: str, database: Database, table: Table) -> Rows:
    """All rows of a table on one of the stack's databases. Raises CdcError when it cannot be
    read."""
    columns = ", ".join(_expression(server, column.name, column.kind) for column in table.columns)
    query = f"SELECT {columns} FROM {table} ORDER BY {', '.join(table.key)}"
    return canonical_rows(table, sql.execute(server, database, query).rows)


def compare_shops(source: Database, server: str, target: Database) -> list[Comparison]:
    """Every table of the shop, at the source and at the target called `server`."""
    comparisons = []
    for table in TABLES:
        source_rows = read_rows("source", source, table)
        target_rows = read_rows(server, target, table)
        comparisons.append(compare(table, source_rows, target_rows))
    return comparisons


def _expression(server: str, column: str, kind: Kind) -> str:
    if server == "postgresql":
        # As text: the driver would parse it, and numbers would lose digits.
        if kind is Kind.JSON:
            return f"{column}::text"
    elif kind is Kind.FLOAT:
        # MariaDB prints only six digits of a 4-byte float. A sum makes it an 8-byte one.
        return f"{column} + 0e0"
    return column
