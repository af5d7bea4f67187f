"""Computed cells: text with `{COLUMN}` in it, as in `mapper[i].expression.FULL_NAME={FIRST}
{LAST:upper}`. Pure.

A column is in braces, optionally with a colon and a function: `upper`, `lower`, `trim`, or `a-b`
for its characters a to b, counted from 1, both included. `{@schema}` and `{@table}` are the source
table's names; `{{` and `}}` are literal braces.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from string import Formatter

from cdcbus.plugins.rowchange import Cell, Row, TableId

FUNCTIONS: Mapping[str, Callable[[str], str]] = {
    "": str,
    "upper": str.upper,
    "lower": str.lower,
    "trim": str.strip,
}
SLICE = re.compile(r"([0-9]{1,9})-([0-9]{1,9})")


@dataclass(frozen=True, slots=True)
class Reference:
    """A column, in any case, and the function for its cell: a name of FUNCTIONS, or `a-b`."""

    column: str
    function: str = ""

    def text(self, cell: str) -> str:
        part = SLICE.fullmatch(self.function)
        if part:
            return cell[int(part[1]) - 1 : int(part[2])]
        return FUNCTIONS[self.function](cell)


@dataclass(frozen=True, slots=True)
class Expression:
    """Texts and references, in order. An expression without references is a constant."""

    parts: tuple[str | Reference, ...]

    @property
    def columns(self) -> frozenset[str]:
        """The columns that it uses, as the task file spells them."""
        found = set[str]()
        for part in self.parts:
            if isinstance(part, Reference) and not part.column.startswith("@"):
                found.add(part.column)
        return frozenset(found)

    def cell(self, source: TableId, row: Row) -> Cell:
        """The value for a row that has all its columns in this spelling; NULL when one of them is
        NULL. Raises KeyError for a missing column."""
        values: dict[str, Cell] = {"@schema": source.schema, "@table": source.table}
        # Looked up first: a missing column raises KeyError even where another one is NULL.
        for column in self.columns:
            values[column] = row[column]
        texts: list[str] = []
        for part in self.parts:
            if isinstance(part, str):
                texts.append(part)
                continue
            cell = values[part.column]
            if cell is None:
                return None
            texts.append(part.text(cell))
        return "".join(texts)

    def bound(self, names: Mapping[str, str]) -> Expression:
        """The expression with columns as the source spells them. `names`: lower case -> the
        source's spelling. Columns without one keep theirs."""
        return Expression(tuple(_bound(part, names) for part in self.parts))


def _bound(part: str | Reference, names: Mapping[str, str]) -> str | Reference:
    if isinstance(part, str):
        return part
    return Reference(names.get(part.column.lower(), part.column), part.function)


def constant(text: str) -> Expression:
    return Expression((text,))


def read_expression(text: str) -> Expression:
    """The expression of a task file's text. Raises ValueError for unpaired braces, an empty name
    or an unknown function."""
    parts: list[str | Reference] = []
    for literal, column, function, conversion in Formatter().parse(text):
        if literal:
            parts.append(literal)
        if column is not None:
            parts.append(_reference(column.strip(), function or "", conversion))
    return Expression(tuple(parts))


def _reference(column: str, function: str, conversion: str | None) -> Reference:
    is_unknown = column.startswith("@") and column not in ("@schema", "@table")
    if not column or conversion or is_unknown:
        raise ValueError("not a column")
    found = SLICE.fullmatch(function)
    is_slice = found is not None and 1 <= int(found[1]) <= int(found[2])
    if function not in FUNCTIONS and not is_slice:
        raise ValueError("not a function")
    return Reference(column, function)
