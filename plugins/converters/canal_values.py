"""Converts values as canal itself renders them to ours and back: ENUM and SET as numbers, BINARY
without its trailing zero bytes.

Everything else is the same text in both, except floating point numbers, which canal writes as Java
does, and TIMESTAMP: canal renders it in the time zone of its JVM, which no record names. A reader
can be given that zone; without it, and when writing, it is UTC.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import tzinfo
from decimal import Decimal
from functools import lru_cache

from cdcbus.plugins.errors import ConversionError
from cdcbus.plugins.rowchange import Column, Row, Table
from cdcbus.plugins.time_zone import in_utc

Rendering = Callable[[str], str]

_LABEL = re.compile(r"'((?:[^']|'')*)'")
_LENGTH = re.compile(r"binary\((\d+)\)", re.IGNORECASE)
# Base type -> the number of its largest signed value's bits, java.sql.Types number when signed.
_INTEGERS = {
    "tinyint": (7, -6),
    "smallint": (15, 5),
    "mediumint": (23, 4),
    "int": (31, 4),
    "bigint": (63, -5),
}


def ours(columns: Mapping[str, str], zone: tzinfo | None = None) -> dict[str, Rendering]:
    """The readings of canal's cells, for those of the columns (name -> MySQL type) whose text
    differs. `zone`: the zone of canal's JVM; None: UTC."""
    found = {}
    for name, mysql_type in columns.items():
        reading = _reading(name, mysql_type)
        if zone is not None and mysql_type.lower().startswith("timestamp"):
            reading = _timestamp_reading(name, zone)
        if reading is not None:
            found[name] = reading
    return found


def read_as(readings: Mapping[str, Rendering], row: Row) -> dict[str, str | None]:
    """A row of canal with our cells. Raises ConversionError naming a column whose number stands for
    no label."""
    return _with(readings, row)


def _with(renderings: Mapping[str, Rendering], row: Row) -> dict[str, str | None]:
    """The row with its cells rendered by their columns' renderings."""
    found = dict(row)
    for name, rendering in renderings.items():
        cell = found.get(name)
        if cell is not None:
            found[name] = rendering(cell)
    return found


def rendered(table: Table, row: Row) -> dict[str, str | None]:
    """A row as canal renders it. Raises ConversionError for a label that the column's type does
    not have."""
    return _with(_renderings(table.columns), row)


def mysql_types(table: Table) -> dict[str, str]:
    """Column -> its MySQL type, as in canal's `mysqlType`."""
    return {column.name: column.mysql_type for column in table.columns}


def sql_types(table: Table, row: Row) -> dict[str, int]:
    """canal's java.sql.Types numbers: an unsigned integer has its signed type's number unless
    this row's value is too large for it."""
    return {column.name: _sql_type(column, row.get(column.name)) for column in table.columns}


def _sql_type(column: Column, cell: str | None) -> int:
    base, _, rest = column.mysql_type.partition(" ")
    bits, signed = _INTEGERS.get(base.partition("(")[0], (0, 0))
    if not bits or "unsigned" not in rest or (cell is not None and int(cell) >> bits):
        return column.sql_type
    return signed


def _labels(mysql_type: str) -> list[str]:
    return [label.replace("''", "'") for label in _LABEL.findall(mysql_type)]


def _reading(name: str, mysql_type: str) -> Rendering | None:
    kind = mysql_type.lower()
    if kind.startswith("enum("):
        return _enum_reading(name, _labels(mysql_type))
    if kind.startswith("set("):
        return _set_reading(name, _labels(mysql_type))
    if kind == "binary":
        return lambda cell: cell.ljust(1, "\0")
    if found := _LENGTH.fullmatch(kind):
        length = int(found[1])
        return lambda cell: cell.ljust(length, "\0")
    return None


def _enum_reading(name: str, labels: list[str]) -> Rendering:
    texts = {str(number): label for number, label in enumerate(["", *labels])}

    def read(cell: str) -> str:
        return _known(name, texts.get(cell), labels)

    return read


def _set_reading(name: str, labels: list[str]) -> Rendering:
    def read(cell: str) -> str:
        # There are at most 64 labels, so the number has up to 20 digits.
        is_number = cell.isascii() and cell.isdigit() and len(cell) <= 20
        if not is_number or int(cell) >> len(labels):
            return _known(name, None, labels)
        bits = int(cell)
        chosen = [label for i, label in enumerate(labels) if bits >> i & 1]
        return _known(name, ",".join(chosen), labels)

    return read


def _timestamp_reading(name: str, zone: tzinfo) -> Rendering:
    def read(cell: str) -> str:
        try:
            return in_utc(zone, cell)
        except ValueError:
            raise ConversionError(
                f"column {name} holds no time that clocks of {zone} show: check "
                "consumer.source.timeZone, which must be the zone of canal's JVM"
            ) from None

    return read


def _known(name: str, text: str | None, labels: list[str]) -> str:
    if text is None:
        raise ConversionError(
            f"column {name} holds no number of one of its {len(labels)} labels; canal writes ENUM "
            "and SET as numbers"
        )
    # canal's type text does not show whether a backslash is an escape.
    if "\\" in text:
        raise ConversionError(
            f"column {name} holds a label with a backslash, which canal's mysqlType does not "
            "spell in one way only"
        )
    return text


@lru_cache(maxsize=10_000)
def _renderings(columns: tuple[Column, ...]) -> dict[str, Rendering]:
    found = {}
    for column in columns:
        rendering = _rendering(column)
        if rendering is not None:
            found[column.name] = rendering
    return found


def _rendering(column: Column) -> Rendering | None:
    kind = column.mysql_type
    if kind.startswith("enum("):
        return _enum_rendering(column.name, _labels(kind))
    if kind.startswith("set("):
        return _set_rendering(column.name, _labels(kind))
    if kind.startswith(("float", "double")):
        return java_float
    if kind.startswith("binary("):
        return lambda cell: cell.rstrip("\0")
    return None


def _enum_rendering(name: str, labels: list[str]) -> Rendering:
    numbers: dict[str, str] = {}
    for number, label in enumerate(labels, 1):
        # The first of two equal labels counts.
        numbers.setdefault(label, str(number))
    # MySQL's number for an invalid value.
    numbers.setdefault("", "0")

    def render(label: str) -> str:
        if label not in numbers:
            raise _without_number(name)
        return numbers[label]

    return render


def _without_number(name: str) -> ConversionError:
    return ConversionError(
        f"column {name} holds a label that its type does not have: canal's number for it "
        "is not known"
    )


def _set_rendering(name: str, labels: list[str]) -> Rendering:
    bits = {label: 1 << i for i, label in enumerate(labels)}

    def render(text: str) -> str:
        chosen = set(text.split(",")) if text else set[str]()
        if not bits.keys() >= chosen:
            raise _without_number(name)
        return str(sum(bits[label] for label in chosen))

    return render


def java_float(text: str) -> str:
    """A floating point number as Java prints it: `100.0`, `1.0E10`, `1.0E-4`."""
    value = Decimal(text)
    sign = "-" if value.is_signed() else ""
    if not value:
        return f"{sign}0.0"
    # Java uses an exponent below 10^-3, and from 10^7 on.
    if -3 <= value.adjusted() < 7:
        whole, _, fraction = f"{abs(value):f}".partition(".")
        return f"{sign}{whole}.{fraction.rstrip('0') or '0'}"
    digits = "".join(map(str, value.as_tuple().digits)).rstrip("0")
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{value.adjusted()}"
