"""Series of numbers at equal steps of time, and what happened meanwhile. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

Values = Sequence[float | None]


@dataclass(frozen=True, slots=True)
class Mark:
    """Something that happened: epoch seconds, what kind of thing, and a sentence. `number`: the
    same for the mark in all charts and in the list beside them."""

    at: int
    kind: str
    sentence: str
    number: int = 0


def within(marks: Sequence[Mark], start: int, end: int) -> list[Mark]:
    """The marks of this time."""
    return [mark for mark in marks if start <= mark.at <= end]


@dataclass(frozen=True, slots=True)
class Line:
    """One more line of a chart."""

    name: str
    values: Values


@dataclass(frozen=True, slots=True)
class Series:
    """Values at equal steps of time, oldest first; None is not known. `start`: epoch seconds of
    the first. `marks`: what happened meanwhile. `more`: further lines of the same length, where
    `name` is that of the first."""

    title: str
    unit: str
    start: int
    step_seconds: int
    values: Values
    marks: Sequence[Mark] = ()
    name: str = ""
    more: Sequence[Line] = ()

    @property
    def end(self) -> int:
        """When the last step ends."""
        return self.start + self.step_seconds * len(self.values)

    @property
    def lines(self) -> list[Line]:
        """All of them, the first one first."""
        return [Line(self.name, self.values), *self.more]
