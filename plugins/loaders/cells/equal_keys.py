"""Keys whose texts the target takes for equal, though the source may tell them apart: `a` and
`A`. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from cdcbus.plugins.contracts import TargetTable
from cdcbus.plugins.errors import TargetRejected
from cdcbus.plugins.loaders.cells.canonical import FILLED_UP, WHOLE
from cdcbus.plugins.rowchange import Cell

Key = tuple[Cell, ...]


def folds(table: TargetTable) -> bool:
    """Whether keys with different texts may be one there."""
    return any(table.columns[name].is_folding for name in table.key)


def spelling_of(table: TargetTable) -> Callable[[Key], Key]:
    """What must be the same to the last byte in a key that is sent and in that of its row. Of
    other types the target's texts are others."""
    columns = [table.columns[name] for name in table.key]
    places = [
        place for place, column in enumerate(columns) if column.is_folding or column.type in WHOLE
    ]
    # which loses the blanks at its end
    short = {place for place in places if columns[place].type in FILLED_UP}
    return lambda key: tuple(
        (key[place] or "").rstrip(" ") if place in short else key[place] for place in places
    )


def as_spelled(table: TargetTable, keys: Sequence[Key], found: Iterable[Key]) -> list[Key]:
    """Those of the keys that are found as they are."""
    spelling = spelling_of(table)
    known = {spelling(key) for key in found}
    return [key for key in keys if spelling(key) in known]


PLAIN: Final = re.compile(r"[ -~]*")
"""Texts of which `folded` tells whether they may be equal, but under PostgreSQL's own
collations."""


def are_plain(table: TargetTable, keys: Iterable[Key]) -> bool:
    """Whether keys that `folded` tells apart differ there for sure."""
    places = [place for place, name in enumerate(table.key) if table.columns[name].is_folding]
    if table.dialect == "postgresql" and any(
        table.columns[table.key[place]].type != "citext" for place in places
    ):
        return False
    return all(PLAIN.fullmatch(key[place] or "") for key in keys for place in places)


def refuse_alike(table: TargetTable) -> None:
    """Raises TargetRejected, as rows of one batch are one there."""
    names = ", ".join(name for name in table.key if table.columns[name].is_folding)
    raise TargetRejected(
        f"target table {table.id} takes keys that differ for equal, so two source rows may become "
        f"one: give column {names} of its key a "
        "collation that tells them apart, as the source's does"
    )


def refuse_others(table: TargetTable, keys: Iterable[Key], found: Iterable[Key]) -> None:
    """Raises TargetRejected where a row that is there has the key of another source row."""
    spelling = spelling_of(table)
    sent = {spelling(key) for key in keys}
    if any(spelling(key) not in sent for key in found):
        names = ", ".join(name for name in table.key if table.columns[name].is_folding)
        raise TargetRejected(
            f"target table {table.id} has a row whose key is spelled otherwise and equal there, "
            "so two source rows would become one: "
            f"give column {names} of its key a collation that tells them apart, as the source's "
            "does"
        )


def refuse_rounded(
    table: TargetTable, found: Iterable[Key], error: type[TargetRejected] = TargetRejected
) -> None:
    """Raises the error where rows are there already whose keys are those of new ones as the
    columns round them."""
    if any(True for _ in found):
        raise error(
            f"target table {table.id} has a row already whose key ({', '.join(table.key)}) is "
            "that of a new one as its columns round them: "
            "two source rows would become one, or a record came twice. Give the key columns as "
            "many digits as the source's have"
        )
