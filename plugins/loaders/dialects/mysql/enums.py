"""MySQL's mark of an invalid ENUM value, number 0, an empty cell in row changes. Pure.

Strict mode refuses to write it in any form, and without strict mode other cells would be truncated.
So a row is written with one of the labels instead, and then marked by a statement that writes
nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import pyarrow.compute as pc

from cdcbus.plugins.contracts import TargetTable, Writes
from cdcbus.plugins.loaders.cells.arrow_rows import ColumnRows
from cdcbus.plugins.loaders.schema_evolution import labels_of
from cdcbus.plugins.rowchange import Cell

Keys = Sequence[tuple[Cell, ...]]


def marks_held_back(table: TargetTable, writes: Writes) -> tuple[Writes, Mapping[str, Keys]]:
    """Returns rows that strict mode accepts, and by column the keys of rows to mark afterwards;
    nearly always `writes` itself and no keys."""
    labels = {}  # by the place of a column that holds marks
    for name, label in _labels(table, writes.columns).items():
        place = writes.columns.index(name)
        if _has_mark(writes, place):
            labels[place] = label
    if not labels:
        return writes, {}
    marks: dict[str, list[tuple[Cell, ...]]] = {writes.columns[place]: [] for place in labels}
    rows = []
    for row, key in zip(writes.rows, writes.rows_of(table.key), strict=True):
        cells = list(row)
        for place, label in labels.items():
            if row[place] == "":
                cells[place] = label
                marks[writes.columns[place]].append(key)
        rows.append(tuple(cells))
    return replace(writes, rows=rows), marks


def _labels(table: TargetTable, columns: Iterable[str]) -> dict[str, str]:
    """A label for each column in which an empty cell is the mark. Key columns are left out, as the
    label may be another row's key; so are labels that MySQL's catalog may misspell."""
    if not table.key or () in table.unique_keys:
        return {}
    in_keys = set(table.key).union(*table.unique_keys)
    found = {}
    for name in columns:
        if table.columns[name].type != "enum" or name in in_keys:
            continue
        labels = labels_of(table.columns[name].declared)
        if "" in labels:
            continue
        for label in labels:
            if "?" not in label and "\\" not in label:
                found[name] = label
                break
    return found


def _has_mark(writes: Writes, place: int) -> bool:
    if isinstance(writes.rows, ColumnRows):
        return bool(pc.any(pc.equal(writes.rows.arrays[place], "")).as_py())
    return any(row[place] == "" for row in writes.rows)
