"""A place in one server's binlog: also one where reading cannot go on, within a transaction."""

from __future__ import annotations

from dataclasses import dataclass
from functools import total_ordering
from typing import Final

SPAN: Final = 1 << 32
"""Events carry their places modulo this; a file with a large transaction may be longer."""


@total_ordering
@dataclass(frozen=True, slots=True)
class BinlogCoordinates:
    """A byte of a binlog file. Of two places in the files of one server the earlier one is less:
    files are numbered."""

    file: str
    pos: int

    def __lt__(self, other: BinlogCoordinates) -> bool:
        return (_number(self.file), self.pos) < (_number(other.file), other.pos)

    def __str__(self) -> str:
        return f"{self.file}:{self.pos}"


def carried(before: int, low: int) -> int:
    """The whole place of an event, which carries only its low digits, `low`. The events before it
    end at `before`. A little back, as at a file's head, is no turn of the counter."""
    pos = before - before % SPAN + low
    return pos + SPAN if before - pos > SPAN // 2 else pos


def _number(file: str) -> int:
    """The suffix of a binlog file's name; it gains a digit after 999999."""
    digits = file.rpartition(".")[2]
    return int(digits) if digits.isascii() and digits.isdigit() else 0
