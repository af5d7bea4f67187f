"""Golden source cases: the format of `tests/golden/source/*.sql`, which its README explains."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[2] / "golden" / "source"
SCHEMA = "$schema"
_ONLY = "-- only:"
_NEEDS = "-- needs: full metadata"
_EXPECTED = "-> "


@dataclass(slots=True)
class Expected:
    """One record as far as the case says it: key text, and members of its canalRow and oggJson
    forms."""

    key: str
    canal: dict[str, Any] = field(default_factory=dict)
    ogg: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class Part:
    """A statement, the lines it stands on, and the records that come when it is done."""

    lines: list[str] = field(default_factory=list)
    records: list[Expected] = field(default_factory=list)

    @property
    def sql(self) -> str:
        return "\n".join(line for line in self.lines if not line.startswith("-- ")).strip()


@dataclass(slots=True)
class Case:
    """`only` is mariadb, mysql, or empty for both. `needs_metadata`: its tables change, so rows
    must carry their columns."""

    parts: list[Part]
    only: str = ""
    needs_metadata: bool = False


def parse(text: str) -> Case:
    """Raises ValueError, naming the line, for what is no golden case."""
    case = Case([])
    part = Part()
    for number, line in enumerate(text.rstrip("\n").split("\n"), 1):
        if line.startswith(_EXPECTED):
            if part.sql or not case.parts:
                raise ValueError(
                    f"line {number}: an expected record stands after a statement, which ends with "
                    "; at the end of a line"
                )
            _expect(case.parts[-1].records, line.removeprefix(_EXPECTED), number)
            continue
        if line.startswith(_ONLY):
            case.only = line.removeprefix(_ONLY).strip()
        case.needs_metadata |= line == _NEEDS
        part.lines.append(line)
        if line.rstrip().endswith(";") and part.sql:
            case.parts.append(part)
            part = Part()
    if part.sql:
        raise ValueError(f"the last statement has no ; at its end: {part.sql}")
    return case


def _expect(records: list[Expected], text: str, number: int) -> None:
    kind, _, value = text.partition(" ")
    if kind == "key":
        records.append(Expected(json.loads(value)))
    elif kind in ("canal", "ogg") and records:
        getattr(records[-1], kind).update(json.loads(value))
    else:
        raise ValueError(
            f'line {number}: a record is `-> key "text"`, then `-> canal {{json}}` and `-> ogg '
            f"{{json}}`"
        )


def render(case: Case) -> str:
    """The text of a case, as `parse` reads it."""
    lines = []
    for part in case.parts:
        lines += part.lines
        for record in part.records:
            lines += [
                f"-> key {_compact(record.key)}",
                f"-> canal {_compact(record.canal)}",
                f"-> ogg {_compact(record.ogg)}",
            ]
    return "\n".join(lines) + "\n"


def _compact(value: Any) -> str:
    """JSON with letters as they are, and escapes for what an editor does not show or takes for
    the end of a line."""
    return re.sub(
        r"[\x7f-\xa0\xad\u2028\u2029]",
        lambda found: f"\\u{ord(found[0]):04x}",
        json.dumps(value, ensure_ascii=False),
    )
