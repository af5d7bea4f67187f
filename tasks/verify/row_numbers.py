"""Rows as numbers, which are added and subtracted by key.

A row becomes a number made from its digest; a bit above the digest counts the row. The numbers of a
key's rows at the source minus those at the target are zero where the key's rows are equal. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import blake2b
from itertools import islice
from typing import Final

from cdcbus.plugins.rowchange import Cell
from cdcbus.tasks.verify.report import Kind
from cdcbus.tasks.verify.subject import Cells

ONE: Final = 1 << 160
"""The number of a row, without its digest, which is smaller."""

Key = tuple[Cell, ...] | bytes
"""The cells of a row's key; the digest of a row without one."""


def numbered(cells: Cells, key: Sequence[int]) -> tuple[Key, int]:
    """A row's key, and the number that represents the row. `key`: the places of the key's cells,
    empty for rows without a key."""
    # surrogatepass, as decoded cells may hold lone surrogates.
    digest = blake2b(repr(cells).encode("utf-8", "surrogatepass"), digest_size=16).digest()
    number = int.from_bytes(digest, "big") + ONE
    if not key:
        return digest, number
    return tuple([cells[place] for place in key]), number


def rows_in(number: int) -> int:
    """How many rows a sum of their numbers stands for."""
    return number // ONE


def surplus_in(difference: int) -> int:
    """How many more rows the target has, by the source's sum minus the target's; else 0."""
    # Rounded, as the digests can make the difference a little larger or smaller.
    return max(0, (ONE // 2 - difference) // ONE)


def kind_of(rows: int, others: int) -> Kind:
    """What is wrong with a key that differs. `rows`, `others`: how many the two sides have."""
    if not others:
        return Kind.MISSING
    if others > rows:
        return Kind.EXTRA
    return Kind.MERGED if rows > others else Kind.DIFFERENT


def key_groups(keys: Iterable[Key], size: int) -> Iterator[list[tuple[Cell, ...]]]:
    """The keys in groups of this size, without digests, by which no row can be looked up."""
    rest = iter([key for key in keys if not isinstance(key, bytes)])
    while part := list(islice(rest, size)):
        yield part


def is_between(low: float, high: float) -> Callable[[Key], bool]:
    """A test whether a key's place among all, by its hash, is in this part. What is beyond 1 goes
    on at 0."""
    # Of the 32 bits that `_place` gives, so the parts share no key and leave none out.
    least, most = int(low * 2**32), int(high * 2**32)
    return lambda key: (_place(key) - least) % 2**32 < most - least


def _place(key: Key) -> int:
    if not isinstance(key, bytes):
        key = repr(key).encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(key, digest_size=4).digest(), "big")
