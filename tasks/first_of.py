"""Lists in sentences for operators."""

from __future__ import annotations

from collections.abc import Iterable


def first_of(names: Iterable[object], most: int) -> str:
    """The first `most` names, and how many more there are: `a, b and 3 more`."""
    texts = list(map(str, names))
    shown = ", ".join(texts[:most])
    more = len(texts) - most
    return f"{shown} and {more} more" if more > 0 else shown
