"""Keys whose texts the target treats as equal, though the source may distinguish them: `a` and
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
    """Whether keys with different texts may be equal at the target."""
    return bool(_folding(table))


def _folding(table: TargetTable) -> list[int]:
    """The places in the key of the columns that treat different texts as equal."""
    columns = enumerate(map(table.columns.__getitem__, table.key))
    return [place for place, column in columns if column.is_folding]


def _folding_names(table: TargetTable) -> str:
    return ", ".join(table.key[place] for place in _folding(table))


def spelling_of(table: TargetTable) -> Callable[[Key], Key]:
    """Returns a function from a key to the cells that must be the same to the last byte in a sent
    key and in its row's key. Cells of other types are left out: the target spells them
    differently."""
    places = []
    padded = set()  # these lose trailing blanks
    for place, name in enumerate(table.key):
        column = table.columns[name]
        if column.is_folding or column.type in WHOLE:
            places.append(place)
        if column.type in FILLED_UP:
            padded.add(place)
    if not padded:
        return lambda key: tuple(key[place] for place in places)
    return lambda key: tuple(
        (key[place] or "").rstrip(" ") if place in padded else key[place] for place in places
    )


def texts_of(table: TargetTable) -> Callable[[Key], Key]:
    """Returns a function from a key to the cells in which keys that the target treats as equal can
    differ."""
    places = [place for place, name in enumerate(table.key) if table.columns[name].is_folding]
    short = {place for place in places if table.columns[table.key[place]].type in FILLED_UP}
    return lambda key: tuple(
        (key[place] or "").rstrip(" ") if place in short else key[place] for place in places
    )


def respelled(table: TargetTable, key: Key, texts: Key) -> Key:
    """The key of another row that the target treats as equal, with the texts from `texts_of`."""
    left = iter(texts)
    return tuple(
        next(left) if table.columns[name].is_folding else cell
        for name, cell in zip(table.key, key, strict=True)
    )


def as_spelled(table: TargetTable, keys: Sequence[Key], found: Iterable[Key]) -> list[Key]:
    """The keys that are found with the same spelling."""
    spelling = spelling_of(table)
    known = set(map(spelling, found))
    return [key for key in keys if spelling(key) in known]


PLAIN: Final = re.compile(r"[ -~]*")
"""Texts for which `folded` decides whether they may be equal, except under PostgreSQL's own
collations."""


def are_plain(table: TargetTable, keys: Iterable[Key]) -> bool:
    """Whether keys that `folded` distinguishes certainly differ at the target."""
    places = _folding(table)
    if table.dialect == "postgresql":
        types = {table.columns[table.key[place]].type for place in places}
        if types - {"citext"}:
            return False
    return all(PLAIN.fullmatch(key[place] or "") for key in keys for place in places)


def refuse_alike(table: TargetTable) -> None:
    """Raises TargetRejected, as the target treats rows of one batch as equal."""
    raise TargetRejected(
        f"target table {table.id} takes keys that differ for equal, so two source rows may become "
        f"one: give column {_folding_names(table)} of its key a "
        "collation that tells them apart, as the source's does"
    )


def refuse_others(
    table: TargetTable,
    keys: Iterable[Key],
    found: Iterable[Key],
    error: type[TargetRejected] = TargetRejected,
) -> None:
    """Raises the error if an existing row has the key of another source row."""
    spelling = spelling_of(table)
    sent = set(map(spelling, keys))
    if not sent.issuperset(map(spelling, found)):
        raise error(
            f"target table {table.id} has a row whose key is spelled otherwise and equal there, "
            "so two source rows would become one: "
            f"give column {_folding_names(table)} of its key a collation that tells them apart, "
            "as the source's does"
        )


def refuse_rounded(
    table: TargetTable, found: Iterable[Key], error: type[TargetRejected] = TargetRejected
) -> None:
    """Raises the error if existing rows have the keys of new ones, as rounded by the columns."""
    if next(iter(found), None) is not None:
        raise error(
            f"target table {table.id} has a row already whose key ({', '.join(table.key)}) is "
            "that of a new one as its columns round them: "
            "two source rows would become one, or a record came twice. Give the key columns as "
            "many digits as the source's have"
        )
