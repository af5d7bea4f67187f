"""Cells as a target column stores them: two texts of one number or time become the same text. Pure.

Numbers and times are rounded to the column's digits, FLOAT to its own precision, intervals without
seconds are cut, BINARY is padded, UUIDs and addresses are spelled in one way.
Texts are unchanged: the collation decides which are equal, see `folded`. An unreadable cell is
unchanged, too, for the target to refuse.
"""

from __future__ import annotations

import re
import struct
import unicodedata
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from ipaddress import ip_address, ip_interface, ip_network
from math import floor
from typing import Final
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc

from cdcbus.plugins.contracts import TargetColumn, TargetTable
from cdcbus.plugins.loaders.cells.arrow_literals import has_any
from cdcbus.plugins.loaders.cells.numbers import POINT, SCALED, WHOLE_BYTES, is_number, rounds
from cdcbus.plugins.loaders.cells.oracle_types import as_elsewhere
from cdcbus.plugins.rowchange import Cell

Hold = Callable[[str], str]
Key = tuple[Cell, ...]

WHOLE: Final = frozenset(WHOLE_BYTES)
SINGLE: Final = frozenset(("float", "real"))
DOUBLE: Final = frozenset(("double", "double precision"))
NUMBERS: Final = WHOLE | SCALED | SINGLE | DOUBLE
MOMENTS: Final = frozenset(
    ("datetime", "timestamp", "timestamp without time zone", "timestamp with time zone")
)
FROM_2000: Final = frozenset(("timestamp without time zone", "timestamp with time zone"))
"""PostgreSQL's types, which count from the year 2000, and round halves before it down."""
FILLED_UP: Final = frozenset(("char", "bpchar"))
"""Types in which trailing blanks are insignificant."""
CLOCKS: Final = frozenset(("time", "time without time zone", "time with time zone", "interval"))
"""PostgreSQL's interval holds a MySQL TIME, which may exceed a day."""
UUID_TEXT: Final = "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"
"""How servers show a UUID."""
EXACT: Final = Context(prec=200, rounding=ROUND_HALF_UP)
CLOCK: Final = re.compile(r"(-?)([0-9]+):([0-9]{2}):([0-9]{2})(?:\.([0-9]{1,6}))?")
MOMENT: Final = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[ T][0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,6})?"
)


def hold_of(column: TargetColumn) -> Hold | None:
    """The function that converts a cell to what the column stores; None if it keeps the text."""
    # Oracle's, which has a time of day.
    if column.type == "DATE":
        return lambda cell: _moment(cell.partition(".")[0], 0)
    column = as_elsewhere(column)
    # for times: their columns have six digits if the catalog names none
    digits = column.length
    if digits is None:
        digits = 6
    if column.type in WHOLE:
        return lambda cell: _decimal(cell, 0)
    if column.type in SCALED:
        return lambda cell: _decimal(cell, column.scale)
    if column.type in SINGLE or column.type in DOUBLE:
        hold = _single if column.type in SINGLE else _double
        if point := POINT.match(column.declared):
            scale = float(f"1e{point[2]}")
            return lambda cell: hold(_at_point(cell, scale))
        return hold
    if column.type in MOMENTS:
        return lambda cell: _moment(cell, digits, is_early=column.type in FROM_2000)
    if column.type in CLOCKS:
        return lambda cell: _clock(cell, digits)
    if column.type == "date":
        return _day
    if column.type in FILLED_UP:
        return lambda cell: cell.rstrip(" ")
    if column.type == "binary" and column.length is not None:
        return lambda cell: cell.ljust(column.length or 0, "\0")
    if column.type in SPELLINGS:
        spell = SPELLINGS[column.type]
        return lambda cell: _spelled(spell, cell)
    return None


def holding(table: TargetTable, names: Sequence[str]) -> Callable[[Key], Key]:
    """The function that converts the cells of these columns to what the table stores: equal keys
    become equal, except for texts."""
    return _reading([hold_of(table.columns[name]) for name in names])


def _reading(readings: Sequence[Hold | None]) -> Callable[[Key], Key]:
    if not any(readings):
        return lambda cells: cells
    if len(readings) == 1 and (only := readings[0]) is not None:
        # nearly all keys have one column, and need no loop
        return lambda cells: (cells[0] if cells[0] is None else only(cells[0]),)
    return lambda cells: _each(readings, cells)


def _each(readings: Sequence[Hold | None], cells: Key) -> Key:
    """The cells converted by their columns' readings; None keeps a cell."""
    return tuple(
        cell if read is None or cell is None else read(cell)
        for cell, read in zip(cells, readings, strict=True)
    )


def exact_of(column: TargetColumn) -> Hold | None:
    """Like `hold_of`, but with all digits of a cell."""
    column = as_elsewhere(column)
    if column.type in NUMBERS:
        return lambda cell: _decimal(cell, None)
    if column.type in MOMENTS:
        return lambda cell: _moment(cell, 6)
    if column.type in CLOCKS:
        return lambda cell: _clock(cell, 6)
    if column.type in ("date", "binary", *FILLED_UP, *SPELLINGS):
        return str  # all of the cell, as it is
    return None


def exactly(table: TargetTable, names: Sequence[str]) -> Callable[[Key], Key]:
    """The function that converts the cells of these columns without rounding."""
    return _reading([exact_of(table.columns[name]) for name in names])


def may_round(column: TargetColumn) -> bool:
    """Whether the column may store less than a cell says."""
    column = as_elsewhere(column)
    if column.type in SCALED:
        return column.scale is not None
    if column.type in MOMENTS or column.type in CLOCKS:
        return column.length is not None
    return column.type in (*NUMBERS, "date", "binary", *FILLED_UP, *SPELLINGS)


TIME_DIGITS: Final = re.compile(r"(?:datetime|timestamp|time)(?:\(([0-9])\))?", re.IGNORECASE)


def holds_less(column: TargetColumn, source_type: str) -> bool:
    """Whether the column has fewer digits than the source's, whose type is MySQL's text, or drops
    the time of day or the end of a text; False if unknown."""
    column = as_elsewhere(column)
    if column.type in LOSING:
        return LOSING[column.type].match(source_type) is not None
    if column.type in MOMENTS or column.type in CLOCKS:
        found = TIME_DIGITS.match(source_type)
        return bool(found and column.length is not None and column.length < int(found[1] or 0))
    return rounds(source_type.lower(), column)


LOSING: Final = {
    "date": re.compile("datetime|timestamp", re.IGNORECASE),
    "binary": re.compile("varbinary|.*blob", re.IGNORECASE),
    **dict.fromkeys(FILLED_UP, re.compile("varchar|.*text", re.IGNORECASE)),
}
"""Target types, and the source types of which they do not keep everything."""
KEEPING: Final = {
    "date": re.compile("date$", re.IGNORECASE),
    "binary": re.compile("binary", re.IGNORECASE),
    **dict.fromkeys(FILLED_UP, re.compile("char|enum|set", re.IGNORECASE)),
}
"""The same target types, and the source types that leave off what they do."""


def is_kept(column: TargetColumn, source_type: str) -> bool:
    """Whether the column, by both types, keeps apart all that the source's does; False if
    unknown."""
    if holds_less(column, source_type):
        return False
    keeping = KEEPING.get(as_elsewhere(column).type)
    if keeping and keeping.match(source_type):
        return True
    return hold_of(column) is None or not may_round(column) or is_number(source_type.lower())


def is_spelled_freely(column: TargetColumn, source_type: str) -> bool:
    """Whether the source's column, of this MySQL type, holds texts of which the target's column
    stores only the value: `01` and `1` in a number, or a UUID in capitals. Of an unknown type only
    the target's column counts; numbers are then taken for numbers at the source, too."""
    if not source_type:
        return column.type in SPELLINGS
    is_exact = as_elsewhere(column).type in FILLED_UP or column.type == "binary"
    return TEXTS.match(source_type) is not None and not is_exact and hold_of(column) is not None


def is_rounded(column: TargetColumn, cells: pa.Array) -> bool:
    """Whether the column stores less than one of the cells says."""
    hold = hold_of(column)
    exact = exact_of(column)
    if hold is None or exact is None or not may_round(column):
        return False
    if column.type in SPELLINGS:
        return not held_column(column, cells).equals(cells)
    for cell in pc.unique(cells).to_pylist():
        if cell is not None and exact(hold(cell)) != exact(cell):
            return True
    return False


def held_column(column: TargetColumn, cells: pa.Array) -> pa.Array:
    """Converts many cells to what the column stores. Integers in the sources' notation are
    recognized by one check of all of them."""
    hold = hold_of(column)
    if hold is None or (column.type in WHOLE and _are_whole(cells)):
        return cells
    if column.type == "uuid" and pc.all(pc.match_substring_regex(cells, UUID_TEXT)).as_py():
        return cells
    known = cells.dictionary_encode()
    distinct = known.dictionary.to_pylist()
    held = pa.array([cell if cell is None else hold(cell) for cell in distinct], pa.string())
    return held.take(known.indices)


def _are_whole(cells: pa.Array) -> bool:
    """Whether no cell has a point, an exponent, a plus sign, or a leading zero."""
    if has_any(cells, ".", "e", "E", "+", "-0"):
        return False
    has_zero = pc.and_(pc.starts_with(cells, "0"), pc.greater(pc.binary_length(cells), 1))
    return not pc.any(has_zero).as_py()


def _decimal(cell: str, scale: int | None) -> str:
    """The number rounded to `scale`; None: with all its digits."""
    # most cells are integers in canonical form
    if not scale and cell.isdecimal() and cell.isascii() and cell[0] != "0":
        return cell
    try:
        number = Decimal(cell)
        if not number.is_finite():
            return cell
        if scale is None:
            rounded = number.normalize(EXACT)
        else:
            rounded = number.quantize(Decimal(1).scaleb(-scale), context=EXACT)
    except InvalidOperation:
        return cell
    if rounded == 0:
        rounded = abs(rounded)  # without the sign
    return format(rounded, "f")


def _day(cell: str) -> str:
    if MOMENT.fullmatch(cell):
        return cell[:10]
    return cell


def _spelled(spell: Callable[[str], object], cell: str) -> str:
    try:
        return str(spell(cell))
    except ValueError:
        return cell


SHOWN_UUID: Final = re.compile(UUID_TEXT)
# What servers take; Python takes more, which must stay as it is for the target to refuse.
ANY_UUID: Final = re.compile(r"\{?[0-9a-fA-F]{4}(?:-?[0-9a-fA-F]{4}){7}\}?")
ADDRESS: Final = re.compile(r"[0-9a-fA-F:.]+(?:/[0-9]{1,3})?")
HARDWARE_GROUPS: Final = ([6, 6], [4, 4, 4], [12], [8, 8], [4, 4, 4, 4], [16])
HARDWARE_PARTS: Final = re.compile("[0-9a-fA-F]{1,2}([:-])(?:[0-9a-fA-F]{1,2}\\1)*[0-9a-fA-F]{1,2}")
HARDWARE_DIGITS: Final = re.compile("[0-9a-f]{12}|[0-9a-f]{16}")


def _uuid(cell: str) -> str:
    if SHOWN_UUID.match(cell):
        return cell
    if not ANY_UUID.fullmatch(cell):
        raise ValueError
    return str(UUID(cell))


def _interface(cell: str) -> object:
    if not ADDRESS.fullmatch(cell):
        raise ValueError
    found = ip_interface(cell)
    # A single address is shown without the length of its prefix.
    if found.network.prefixlen == found.max_prefixlen:
        return found.ip
    return found


def _network(cell: str) -> object:
    if not ADDRESS.fullmatch(cell):
        raise ValueError
    return ip_network(cell)


def _hardware_address(cell: str) -> str:
    parts = re.split("[-:.]", cell.lower())
    if HARDWARE_PARTS.fullmatch(cell) and len(parts) in (6, 8):
        parts = [part.zfill(2) for part in parts]
    elif list(map(len, parts)) not in HARDWARE_GROUPS:
        raise ValueError
    digits = "".join(parts)
    if not HARDWARE_DIGITS.fullmatch(digits):
        raise ValueError
    return ":".join(re.findall("..", digits))


SPELLINGS: Final[dict[str, Callable[[str], object]]] = {
    "uuid": _uuid,
    "inet": _interface,
    "cidr": _network,
    **dict.fromkeys(("inet4", "inet6"), ip_address),
    **dict.fromkeys(("macaddr", "macaddr8"), _hardware_address),
}
"""Types with several texts for one value, and a function that makes the one that servers show. It
raises ValueError where the target may refuse the text."""
TEXTS: Final = re.compile(r"(?:var)?char|(?:tiny|medium|long)?text|enum", re.IGNORECASE)


def _double(cell: str) -> str:
    try:
        # + 0.0 takes the sign off a zero
        return repr(float(cell) + 0.0)
    except ValueError:
        return cell


def _single(cell: str) -> str:
    """The number in single precision, with the fewest digits that distinguish it, like sources
    write it."""
    try:
        packed = struct.pack("f", float(cell) + 0.0)
    except (ValueError, OverflowError):
        return cell
    number = struct.unpack("f", packed)[0]
    # six digits are always kept by single precision, nine always suffice
    for digits in range(6, 9):
        short = float(f"{number:.{digits}g}")
        if struct.pack("f", short) == packed:
            return repr(short)
    return repr(number)


def _at_point(cell: str, scale: float) -> str:
    """The number rounded as MySQL and MariaDB round a FLOAT or DOUBLE that has digits after the
    point; `scale`: ten to their power. What is behind the next smaller whole number is rounded to
    the nearest, as its double has it, and halves to an even digit."""
    try:
        number = float(cell)
        whole = floor(number)
        return repr(whole + round((number - whole) * scale) / scale)
    except (ValueError, OverflowError):
        return cell


EPOCH: Final = datetime(2000, 1, 1)


def _moment(cell: str, digits: int, *, is_early: bool = False) -> str:
    if not MOMENT.fullmatch(cell):
        return cell
    step = _step(digits)
    try:
        moment = datetime.fromisoformat(cell)
        half = step // 2
        if is_early and moment < EPOCH and step > 1:
            half -= 1
        rounded = (moment.microsecond + half) // step * step
        moment += timedelta(microseconds=rounded - moment.microsecond)
    except (ValueError, OverflowError):
        return cell  # a zero date
    return str(moment)  # without digits after the point if they are zeros


def _step(digits: int) -> int:
    """The distance between two times with `digits` fractional digits, in microseconds."""
    step: int = 10 ** (6 - min(digits, 6))
    return step


UNITS: Final = {-2: 60_000_000, -4: 3_600_000_000}
"""The microseconds of what an interval has last, by its length, see `TargetColumn`."""


def _clock(cell: str, digits: int) -> str:
    match = CLOCK.fullmatch(cell)
    if match is None:
        return cell
    sign, hours, minutes, seconds, fraction = match.groups()
    whole = (int(hours) * 60 + int(minutes)) * 60 + int(seconds)
    micros = whole * 1_000_000 + int((fraction or "").ljust(6, "0"))
    if digits < 0:
        step = UNITS.get(digits)
        micros = micros // step * step if step else 0
    else:
        # halves are rounded up, away from zero: the sign is apart
        step = _step(digits)
        micros = (micros + step // 2) // step * step
    whole, rest = divmod(micros, 1_000_000)
    text = f"{whole // 3600:02}:{whole // 60 % 60:02}:{whole % 60:02}"
    if rest:
        text += f".{rest:06}"
    if micros == 0:
        return text  # without the sign
    return sign + text


ALIKE: Final = str.maketrans(
    {
        "æ": "ae",
        "œ": "oe",
        "ø": "o",
        "đ": "d",
        "ð": "d",
        "ł": "l",
        "ħ": "h",
        "ı": "i",
        "ŋ": "n",
        "þ": "th",
    }
)


def folded(cell: str) -> str:
    """A form that is the same for all texts that a collation may treat as equal: without case,
    accents, marks, trailing blanks. A collation may still distinguish texts with the same form."""
    if not cell.isascii():
        parts = unicodedata.normalize("NFKD", cell.casefold()).casefold()
        # M: marks, such as accents; C: control and other invisible characters
        letters = [each for each in parts if unicodedata.category(each)[0] not in "MC"]
        cell = "".join(letters).translate(ALIKE).replace("ss", "s")
    return cell.lower().rstrip(" ").replace("ss", "s")
