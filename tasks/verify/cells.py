"""The common form in which cells of source and target are compared: what the loader would make of
the source's cell, and what the target shows of its own. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Decimal
from typing import Any, Final
from uuid import UUID

from cdcbus.plugins.contracts import TargetColumn, ZeroDate
from cdcbus.plugins.loaders.cells.canonical import CLOCK, MOMENTS, hold_of
from cdcbus.plugins.loaders.cells.oracle_types import as_elsewhere, family
from cdcbus.plugins.loaders.dialect import ZERO_DATE
from cdcbus.plugins.loaders.dialects.oracle.cells import TEXT_TYPES
from cdcbus.plugins.rowchange import Cell

Form = Callable[[Cell], Cell]


def as_it_is(cell: Cell) -> Cell:
    return cell


JSON_TYPES: Final = frozenset(("json", "jsonb"))
# PostgreSQL quotes "bit", which would otherwise be bit(1).
BIT_STRINGS: Final = frozenset(('"bit"', "bit varying"))
VARYING: Final = frozenset(("varchar", "character varying"))
BOOLEANS: Final = {"1": "true", "0": "false", "t": "true", "f": "false"}
BYTE_TYPES: Final = frozenset(("RAW", "BLOB", "LONG RAW"))
# Python's own context rounds to 28 digits, and has no large exponents.
ALL_DIGITS: Final = Context(prec=MAX_PREC, Emin=MIN_EMIN, Emax=MAX_EMAX)
# A date that went into a column with a time.
DAY: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


@dataclass(frozen=True, slots=True)
class Forms:
    """How the cells of one target column are compared. `expected`: forms what the loader is given;
    `actual`: forms what the target shows as text; `shown`: forms a cell of either for people."""

    expected: Form
    actual: Form
    shown: Form = as_it_is


def forms_of(column: TargetColumn, zero_date: ZeroDate, *, is_json: bool = False) -> Forms:
    """The forms of a target column. `is_json`: the source column is JSON, so the order of members
    does not count, even in a target that stores it as text."""
    # PostgreSQL quotes a type's name that has capital letters
    if column.type.isupper() and not column.type.startswith('"'):
        return _oracle_forms(column, zero_date, is_json=is_json)
    if is_json or column.type in JSON_TYPES:
        return Forms(_some(json_form), _some(json_form), _some(shown_json))
    # The binlog brings the bits as a number, PostgreSQL shows them as digits 0 and 1.
    if column.type in BIT_STRINGS:
        return Forms(_some(_number), _some(lambda bits: str(int(bits, 2))))
    # A source has 1 and 0; PostgreSQL's texts are true and false, or t and f.
    if column.type == "boolean":
        form = _some(lambda cell: BOOLEANS.get(cell, cell))
        return Forms(form, form)
    if column.type == "uuid":
        return Forms(_some(_uuid), _some(_uuid))
    form = _held(column)
    # Selected in hexadecimal digits; bytes are latin-1 texts in row changes.
    if column.type == "bytea":
        return Forms(form, _some(lambda digits: bytes.fromhex(digits).decode("latin-1")))
    # The session, and thus all that the loader writes, is in UTC.
    if column.type == "time with time zone":
        return Forms(form, lambda cell: form(cell and cell.removesuffix("+00")))
    if column.type in VARYING and (most := column.length):
        # Excess blanks are cut at the target without an error, so that is no difference.
        return Forms(_some(lambda cell: _cut(cell, most)), form)
    if zero_date is ZeroDate.REJECT or column.type not in MOMENTS | {"date"}:
        return Forms(form, form)
    # The same substitute that the loader writes.
    instead = "1970-01-01" if zero_date is ZeroDate.EPOCH else None

    def expected(cell: Cell) -> Cell:
        if cell is not None and ZERO_DATE.match(cell):
            return form(instead)
        return form(cell)

    return Forms(expected, form)


def _oracle_forms(column: TargetColumn, zero_date: ZeroDate, *, is_json: bool) -> Forms:
    """The forms of an Oracle column. There an empty text, or zero bytes, is NULL; where NULL is not
    allowed, an empty text is one blank."""
    kind = family(column.type)
    if kind in TEXT_TYPES:
        return _oracle_texts(column, kind, is_json=is_json)
    if kind in BYTE_TYPES:
        return Forms(lambda cell: cell or None, as_it_is)
    if kind == "INTERVAL DAY":
        # Both sides as seconds: the driver returns a duration, see `sides`.
        seconds = _held(TargetColumn(column.name, "NUMBER"))
        return Forms(_some(_seconds), seconds)
    form = _held(as_elsewhere(column))
    if kind not in ("DATE", "TIMESTAMP"):
        return Forms(form, form)
    instead = {ZeroDate.EPOCH: "1970-01-01", ZeroDate.NULL: None}

    def moment(cell: Cell) -> Cell:
        if cell is not None and zero_date in instead and ZERO_DATE.match(cell):
            cell = instead[zero_date]
        # Oracle's DATE drops a fraction.
        if cell is not None and kind == "DATE":
            cell = cell.partition(".")[0]
        return form(cell)

    return Forms(moment, form)


def _oracle_texts(column: TargetColumn, kind: str, *, is_json: bool) -> Forms:
    # The loader writes one blank where '' would be NULL and NULL is not allowed.
    empty = None if column.is_nullable else " "
    end = _some(json_form) if is_json else as_it_is
    # Oracle pads these with blanks to their length.
    if kind in ("CHAR", "NCHAR"):
        end = _some(lambda cell: cell.rstrip(" "))

    def expected(cell: Cell) -> Cell:
        if cell == "":
            return end(empty)
        return end(cell)

    return Forms(expected, end, _some(shown_json) if is_json else as_it_is)


def _seconds(cell: str) -> str:
    """The seconds of a time that may be negative."""
    found = CLOCK.fullmatch(cell)
    if found is None:
        return cell
    sign, hours, minutes, seconds, fraction = found.groups()
    whole = int(hours) * 3600 + int(minutes) * 60 + int(seconds)
    number = Decimal(f"{sign}{whole}.{fraction or 0}").normalize()
    # Without a sign: -0 and 0 are one time.
    return format(number, "f") if number else "0"


def _some(form: Callable[[str], str]) -> Form:
    return lambda cell: None if cell is None else form(cell)


def _held(column: TargetColumn) -> Form:
    hold = hold_of(column)
    if hold is None:
        return as_it_is
    held = hold
    if column.type in MOMENTS:
        return _some(lambda cell: _short(held(_with_time(cell))))
    return _some(held)


def _with_time(cell: str) -> str:
    return f"{cell} 00:00:00" if DAY.fullmatch(cell) else cell


def _short(moment: str) -> str:
    """The moment without trailing zeros of a fraction, which zero dates keep."""
    if "." not in moment:
        return moment
    return moment.rstrip("0").rstrip(".")


def _cut(cell: str, most: int) -> str:
    """The cell as a server stores it: excess blanks are cut; other excess characters it refuses."""
    if cell[most:].strip(" "):
        return cell
    return cell[:most]


def _uuid(cell: str) -> str:
    try:
        return str(UUID(cell))
    except ValueError:
        return cell


def _number(cell: str) -> str:
    return str(int(cell)) if cell.isdecimal() else cell


def json_form(cell: str) -> str:
    """One text for all spellings of a JSON value: members sorted, numbers by value. A text that is
    not JSON stays as it is."""
    try:
        value = json.loads(cell, parse_float=_plain, parse_int=_plain, object_pairs_hook=_members)
        return json.dumps(value, separators=(",", ":"))
    # Deep nesting exceeds Python's recursion limit; such texts are compared as they are.
    except (ValueError, RecursionError):
        return cell


def shown_json(cell: str) -> str:
    """A text of `json_form` as JSON. What that has left as it is has no marked objects."""
    try:
        return _shown(json.loads(cell))
    except (ValueError, RecursionError, KeyError, TypeError):
        return cell


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_shown, value))}]"
    if not isinstance(value, dict):
        return json.dumps(value, ensure_ascii=False)
    kind, content = value[""]
    if kind == "number":
        return str(content)
    members = [f"{json.dumps(name, ensure_ascii=False)}: {_shown(one)}" for name, one in content]
    return f"{{{', '.join(members)}}}"


def _plain(number: str) -> Any:
    """A number as a marked object, which no other JSON text becomes."""
    try:
        value = Decimal(number).normalize(ALL_DIGITS)
    # Not even this context holds its exponent: compared as it is spelled.
    except ArithmeticError:
        return {"": ["number", number]}
    # -0 and 0 are one number.
    if value == 0:
        value = abs(value)
    return {"": ["number", str(value)]}


def _members(pairs: list[tuple[str, Any]]) -> Any:
    """An object's members, sorted. The last of several with one name counts, as in both kinds of
    target."""
    return {"": ["object", sorted(dict(pairs).items(), key=lambda pair: pair[0])]}
