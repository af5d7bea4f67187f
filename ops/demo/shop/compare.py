"""Source and target, row by row."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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
    """A row that is not the same on both sides, and how: `missing`, `extra`, or the names of the
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
    """What differs, keys in the source's order, then those that only the target has."""
    differences = []
    for key, row in source.items():
        found = target.get(key)
        if found is None:
            differences.append(Difference(key, "missing"))
        elif found != row:
            columns = (
                column.name
                for column, here, there in zip(table.columns, row, found, strict=True)
                if here != there
            )
            differences.append(Difference(key, ", ".join(columns)))
    differences += [Difference(key, "extra") for key in target if key not in source]
    return Comparison(table, len(source), len(target), differences)


def canonical_rows(table: Table, rows: Iterable[tuple[Any, ...]]) -> Rows:
    """A table's rows as a driver gives them, columns in the table's order, as canonical text by
    key."""
    places = [[column.name for column in table.columns].index(name) for name in table.key]
    kinds = [column.kind for column in table.columns]
    texts = (
        tuple(canonical(kind, value) for kind, value in zip(kinds, row, strict=True))
        for row in rows
    )
    return {tuple(row[place] for place in places): row for row in texts}


def read_rows(server: str, database: Database, table: Table) -> Rows:
    """All rows of a table on one of the stack's databases. Raises CdcError when it cannot be
    read."""
    columns = ", ".join(_expression(server, column.name, column.kind) for column in table.columns)
    return canonical_rows(
        table,
        sql.execute(
            server, database, f"SELECT {columns} FROM {table} ORDER BY {', '.join(table.key)}"
        ).rows,
    )


def compare_shops(source: Database, server: str, target: Database) -> list[Comparison]:
    """Every table of the shop at the source and at the target that is called `server`."""
    return [
        compare(table, read_rows("source", source, table), read_rows(server, target, table))
        for table in TABLES
    ]


def _expression(server: str, column: str, kind: Kind) -> str:
    if server == "postgresql":
        return f"{column}::text" if kind is Kind.JSON else column
    # MariaDB prints only six digits of a 4-byte float; as part of a sum it is an 8-byte one.
    return f"{column} + 0e0" if kind is Kind.FLOAT else column
