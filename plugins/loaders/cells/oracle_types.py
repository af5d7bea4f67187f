"""Oracle's types by the types of other databases that hold cells the same way. Pure."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from cdcbus.plugins.contracts import TargetColumn

KINDS: Final = {
    **dict.fromkeys(("NUMBER", "FLOAT"), "NUMBER"),
    "BINARY_FLOAT": "float",
    "BINARY_DOUBLE": "double",
    **dict.fromkeys(("DATE", "TIMESTAMP"), "datetime"),
    "INTERVAL DAY": "time",
    **dict.fromkeys(("CHAR", "NCHAR"), "char"),
}
# Of `TIMESTAMP(3) WITH TIME ZONE` and `INTERVAL DAY(2) TO SECOND(6)`.
_DIGITS: Final = re.compile(r"(?:TIMESTAMP|SECOND)\(([0-9])\)")


def family(type_: str) -> str:
    """`TIMESTAMP(6) WITH TIME ZONE` -> `TIMESTAMP`, `INTERVAL DAY(2) TO SECOND(6)` -> `INTERVAL
    DAY`."""
    return re.split(r" WITH | TO |\(", type_, maxsplit=1)[0]


def as_elsewhere(column: TargetColumn) -> TargetColumn:
    """The column with another database's type that holds cells the same way, except that a DATE
    drops a fraction; any other column as it is."""
    kind = family(column.type)
    if kind not in KINDS:
        return column
    length = column.length
    if kind == "DATE":
        length = 0
    elif digits := _DIGITS.search(column.type):
        length = int(digits[1])
    return replace(column, type=KINDS[kind], length=length)
