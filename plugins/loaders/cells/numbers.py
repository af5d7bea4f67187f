"""Which numbers of the source a numeric column of the target does not hold. Pure."""

from __future__ import annotations

import re
from typing import Final

from cdcbus.plugins.contracts import TargetColumn

DECIMAL: Final = frozenset(("decimal", "numeric", "NUMBER"))
SCALED: Final = DECIMAL | {"money"}
"""The types of a fixed number of digits after the point; PostgreSQL's money has that of the
database's locale."""
POINT: Final = re.compile(r"(?:float|double)\(([0-9]+),\s*([0-9]+)\)")
"""A FLOAT or DOUBLE of MySQL that rounds, with the number of its digits, and of those after the
point."""
WHOLE_BYTES: Final = {
    "tinyint": 1,
    "smallint": 2,
    "mediumint": 3,
    "int": 4,
    "integer": 4,
    "bigint": 8,
}
# The digits of the whole numbers that a type holds exactly, in bits.
SINGLE_BITS: Final = 24
DOUBLE_BITS: Final = 53
EXACT_BITS: Final = {
    **dict.fromkeys(("float", "real", "BINARY_FLOAT"), SINGLE_BITS),
    **dict.fromkeys(("double", "double precision", "BINARY_DOUBLE"), DOUBLE_BITS),
}
# The decimal digits that always come back from them.
DECIMAL_DIGITS: Final = {SINGLE_BITS: 6, DOUBLE_BITS: 15}
# Types of bits, and how many they have where none is declared; 64 are all that a source has.
BITS: Final = {"bit": 1, '"bit"': 1, "bit varying": 64}
INEXACT: Final = ("float", "double")
EXACT: Final = ("decimal", "numeric")


def is_number(source: str) -> bool:
    """Whether a source type of MySQL is one of numbers."""
    name = _name(source)
    return name in WHOLE_BYTES or name in (*INEXACT, *EXACT, "bit", "year")


def rounds(source: str, column: TargetColumn) -> bool:
    """Whether a column rounds some numbers of a source type of MySQL; False where that is
    unknown."""
    name = _name(source)
    if _whole(column.type, column.declared, column.length) is not None:
        return name in INEXACT or _scale(source) > 0
    if column.type in SCALED:
        return column.scale is not None and (name in INEXACT or column.scale < _scale(source))
    bits = EXACT_BITS.get(column.type)
    if bits is None:
        return False
    return _is_longer(name, source, bits) or _is_finer(name, source, column.declared)


def number_not_held(source: str, column: TargetColumn) -> str:
    """The reason why a column cannot hold all numbers of a source type of MySQL; empty where it
    can, or where that is unknown."""
    if rounds(source, column):
        return "rounds what is in"
    own = _whole(column.type, column.declared, column.length)
    if own is None:
        return ""
    least, most = _range(_name(source), source)
    if least < own[0] or most > own[1]:
        return "does not hold all of"
    return ""


def _name(source: str) -> str:
    return re.split(r"[( ]", source, maxsplit=1)[0]


def _is_longer(name: str, source: str, bits: int) -> bool:
    """Whether a source has numbers with more binary digits than these."""
    if name in INEXACT:
        return name == "double" and bits == SINGLE_BITS
    # A fraction has no end in binary digits, but a text of so few digits comes back the same.
    if _scale(source):
        return _digits(source) > DECIMAL_DIGITS[bits]
    return max(map(abs, _range(name, source))) > 1 << bits


def _is_finer(name: str, source: str, declared: str) -> bool:
    """Whether a source has more digits after the point than the declaration of a FLOAT or DOUBLE
    names."""
    own = POINT.match(declared)
    if own is None:
        return False
    theirs = POINT.match(source)
    if name in INEXACT and theirs is None:
        return True
    scale = int(theirs[2]) if theirs else _scale(source)
    return scale > int(own[2])


def _range(name: str, source: str) -> tuple[int, int]:
    """The least and the largest whole number of a source type."""
    if name in EXACT:
        most = 10 ** _digits(source) - 1
        return (0 if "unsigned" in source else -most), most
    if name == "year":
        return 0, 2155
    length = re.match(r"bit\(([0-9]+)", source)
    return _whole(name, source, int(length[1]) if length else None) or (0, 0)


def _digits(source: str) -> int:
    """The digits of a DECIMAL."""
    found = re.search("[0-9]+", source)
    return int(found[0]) if found else 10


def _scale(source: str) -> int:
    """The digits after the point of a DECIMAL."""
    found = re.match(r"(?:decimal|numeric)\([0-9]+,\s*([0-9]+)", source)
    return int(found[1]) if found else 0


def _whole(type_: str, declared: str, length: int | None) -> tuple[int, int] | None:
    """The least and the largest number of a type of whole numbers; None of any other type."""
    if type_ in BITS:
        return 0, (1 << (length or BITS[type_])) - 1
    if type_ not in WHOLE_BYTES:
        return None
    bits = 8 * WHOLE_BYTES[type_]
    if "unsigned" in declared:
        return 0, (1 << bits) - 1
    return -(1 << (bits - 1)), (1 << (bits - 1)) - 1
