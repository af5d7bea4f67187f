"""Classifies the error numbers of a database. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

from cdcbus.plugins.errors import (
    RowConflict,
    TargetError,
    TargetMisconfigured,
    TargetRejected,
    TargetTableUnfit,
    TargetUnavailable,
)

NOT_OF_ROW = "the server refuses the statement, and not for what a row holds"


def codes(*groups: str) -> frozenset[int]:
    """Parses numbers separated by blanks; `1839-1867` is a range, both ends included."""
    found: set[int] = set()
    for word in " ".join(groups).split():
        first, _, last = word.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return frozenset(found)


@dataclass(frozen=True, slots=True)
class ErrorCodes:
    """The known numbers. Only errors of one row can become a dead letter; an unlisted number stops
    the task. docs/targets.md has the same table."""

    unavailable: frozenset[int]
    misconfigured: frozenset[int]
    unfit: frozenset[int]  # the table
    conflicts: frozenset[int]  # with another row
    of_row: frozenset[int]

    def class_of(self, number: int) -> type[TargetError]:
        """The error class of a number."""
        if number in self.unavailable:
            return TargetUnavailable
        if number in self.misconfigured:
            return TargetMisconfigured
        if number in self.unfit:
            return TargetTableUnfit
        if number in self.conflicts:
            return RowConflict
        if number in self.of_row:
            return TargetRejected
        return TargetError


def known_names(words: str, text: str, columns: Collection[str]) -> list[str]:
    """The column names in a driver's text; `words`: a pattern for its words. Only columns of the
    batch are returned: anything else may be a cell."""
    return [word for word in re.findall(words, text) if word in columns]
