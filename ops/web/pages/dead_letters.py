"""What the pages show of dead letters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cdcbus.consumer.records.dead_letters import OpenDeadLetter
from cdcbus.ops.services.dead_letter_fields import original_of
from cdcbus.ops.services.dead_letters import FetchLetter
from cdcbus.ops.services.row_view import printable

SHOWN = 200  # the newest letters of a task
VALUE_CHARACTERS = 4000  # of a record's part
PLACES = ("table", "position", "row", "bytes")  # of a fetch task's letter; its key holds cells


@dataclass(frozen=True, slots=True)
class LetterRow:
    """A letter. `parts`: of its record, by name; with cells only for those who may see them."""

    record: str
    time: str
    reason: str
    parts: Sequence[tuple[str, str]]


def letter_row(each: OpenDeadLetter | FetchLetter, shows_cells: bool) -> LetterRow:
    parts = original_of(each) if shows_cells or isinstance(each, FetchLetter) else {}
    if not shows_cells:
        parts = {name: parts[name] for name in PLACES if name in parts}
    time = each.time[:19].replace("T", " ")
    return LetterRow(
        each.dead_letter.record,
        time,
        each.dead_letter.reason,
        [(name, _shown(part)) for name, part in parts.items() if part],
    )


def _shown(part: object) -> str:
    text = printable(
        ", ".join(f"{name}={value}" for name, value in part.items())
        if isinstance(part, dict)
        else str(part)
    )
    return (
        text
        if len(text) <= VALUE_CHARACTERS
        else f"{text[:VALUE_CHARACTERS]}… ({len(text):,} characters)"
    )
