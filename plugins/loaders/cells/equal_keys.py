"""Keys whose texts the target treats as equal, though the source may distinguish them: `a` and
`A`. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from cdcbus.plugins.contracts import TargetTable
from cdcbus.plugins.errors import TargetRejected
from cdcbus.plugins.loaders.cells.canonical import WHOLE, folded, holding
from cdcbus.plugins.rowchange import Cell

Key = tuple[Cell, ...]


def folds(table: TargetTable) -> bool:
    """Whether keys with different texts may be equal at the target."""
    return bool(folding_places(table))


def folding_places(table: TargetTable) -> list[int]:
    """The places in the key of the columns that treat different texts as equal."""
    places = []
    for place, column in enumerate(table.key_columns):
        if column.is_folding:
            places.append(place)
    return places


def folded_key(key: Key) -> Key:
    """A form that is the same for all keys that collations may treat as equal."""
    return tuple(cell and folded(cell) for cell in key)


def _folding_names(table: TargetTable) -> str:
    names = map(table.key.__getitem__, folding_places(table))
    return ", ".join(names)


def spelling_of(table: TargetTable) -> Callable[[Key], Key]:
    """Returns a function from a key to the cells that must be the same to the last byte in a sent
    key and in its row's key. Cells of other types are left out: the target spells them
    differently."""
    places = []
    for place, column in enumerate(table.key_columns):
        if column.is_folding or column.type in WHOLE:
            places.append(place)
    return _cells_at(table, places)


def texts_of(table: TargetTable) -> Callable[[Key], Key]:
    """Returns a function from a key to the cells in which keys that the target treats as equal can
    differ."""
    return _cells_at(table, folding_places(table))


def _cells_at(table: TargetTable, places: Sequence[int]) -> Callable[[Key], Key]:
    """Returns a function from a key to its cells at these places, as the table holds them: without
    blanks that the target has filled up, or would fill up, and without the zeros of ZEROFILL, which
    a server prints, but sources do not send. In Oracle one blank stands for an empty text."""
    held = holding(table, [table.key[place] for place in places])
    if table.dialect == "oracle":
        return lambda key: held(tuple(" " if key[place] == "" else key[place] for place in places))
    return lambda key: held(tuple(key[place] for place in places))


def respelled(table: TargetTable, key: Key, texts: Key) -> Key:
    """The key of another row that the target treats as equal, with the texts from `texts_of`."""
    cells = list(key)
    for place, text in zip(folding_places(table), texts, strict=True):
        cells[place] = text
    return tuple(cells)


def as_spelled(table: TargetTable, keys: Sequence[Key], found: Iterable[Key]) -> list[Key]:
    """The keys that are found with the same spelling."""
    spelling = spelling_of(table)
    known = set(map(spelling, found))
    return [key for key in keys if spelling(key) in known]


PLAIN: Final = re.compile(r"[ -~]*")
"""Texts for which `folded` decides whether they may be equal, except under PostgreSQL's own
collations."""
LETTERS: Final = re.compile(r"[0-9A-Za-z]*")
"""The same for Oracle, where some collations ignore punctuation."""


def are_plain(table: TargetTable, keys: Iterable[Key]) -> bool:
    """Whether keys that `folded` distinguishes certainly differ at the target."""
    places = folding_places(table)
    if table.dialect == "postgresql":
        for place in places:
            if table.key_columns[place].type != "citext":
                return False
    plain = LETTERS if table.dialect == "oracle" else PLAIN
    for key in keys:
        for place in places:
            if not plain.fullmatch(key[place] or ""):
                return False
    return True


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
