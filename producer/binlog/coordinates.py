"""Coordinates in one server's binlog, including those within a transaction, where reading cannot
resume."""

from __future__ import annotations

from dataclasses import dataclass
from functools import total_ordering
from typing import Final

SPAN: Final = 1 << 32
"""Events carry their offsets modulo this; a file with a large transaction can be longer."""
FIRST_EVENT: Final = 4
"""The offset after the four magic bytes that open a binlog file."""


@total_ordering
@dataclass(frozen=True, slots=True)
class BinlogCoordinates:
    """A byte offset in a binlog file. Coordinates of one server compare in binlog order, as its
    files are numbered."""

    file: str
    pos: int

    def __lt__(self, other: BinlogCoordinates) -> bool:
        return (_number(self.file), self.pos) < (_number(other.file), other.pos)

    def __str__(self) -> str:
        return f"{self.file}:{self.pos}"


def carried(before: int, low: int) -> int:
    """The full offset of an event that carries only its low 32 bits, `low`. The events before it
    end at `before`. A small step back, as at a file's head, is no wraparound."""
    pos = before - before % SPAN + low
    return pos + SPAN if before - pos > SPAN // 2 else pos


def _number(file: str) -> int:
    """The suffix of a binlog file's name; it gains a digit after 999999."""
    digits = file.rpartition(".")[2]
    return int(digits) if digits.isascii() and digits.isdigit() else 0
