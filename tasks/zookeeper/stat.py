"""The values that a task's `stat` node is made of."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import astuple, dataclass, fields
from typing import Any

TABLES_REPORTED = 200


@dataclass(frozen=True, slots=True)
class Percentiles:
    """Half, 95 % and 99 % of the rows took no longer than this, in seconds."""

    p50: float
    p95: float
    p99: float


@dataclass(frozen=True, slots=True)
class TableCounts:
    """Row changes of a table since the task was started. `rows`: all; `inserted`, `updated`,
    `deleted`, `truncated`: by what happened at the source. At a target also `failed`: went to
    dead letters; `missed`: updates and deletes that hit no row; `dropped`: lack a column;
    `superseded`: another row forbade them, and a later change of the same row has made them
    void."""

    swimlane: str
    table: str
    rows: int = 0
    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    truncated: int = 0
    failed: int = 0
    missed: int = 0
    dropped: int = 0
    superseded: int = 0


def to_json(counts: Iterable[TableCounts]) -> list[list[Any]]:
    """Short: the values in their order, of the TABLES_TOLD tables that have most rows."""
    return [
        list(astuple(each))
        for each in sorted(counts, key=lambda each: -each.rows)[:TABLES_REPORTED]
    ]


def from_json(value: Any) -> tuple[TableCounts, ...]:
    """What is not of that form is left out."""
    length = len(fields(TableCounts))
    rows = value if isinstance(value, list) else ()
    return tuple(TableCounts(*row) for row in rows if isinstance(row, list) and len(row) == length)
