"""How cells have ended: as JSON, and as tables in Markdown. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from tests.matrix.cells import Cell, Fault, Load, Victim, every_combination


@dataclass(frozen=True, slots=True)
class Outcome:
    """`wrong`: a sentence for each broken promise. `seconds`: from the end of the fault until
    source and target were equal and both tasks worked. `fault_seconds`: how long the fault lasted.
    `by_states`: whether states and alarms were checked, too."""

    cell: Cell
    seconds: float
    wrong: tuple[str, ...] = ()
    fault_seconds: float = 30.0
    by_states: bool = True


def to_json(outcomes: Iterable[Outcome]) -> str:
    """A line for each cell, in the order of the table, and one for each that is left out."""
    found = {outcome.cell: outcome for outcome in outcomes}
    rows = []
    for cell in every_combination():
        if cell in found:
            rows.append(_row(found[cell]))
        elif cell.why_not:
            rows.append(_names(cell) | {"left_out": cell.why_not})
    return "[\n" + ",\n".join(map(json.dumps, rows)) + "\n]\n"


def from_json(text: str) -> list[Outcome]:
    return [_outcome(row) for row in json.loads(text) if "left_out" not in row]


def _names(cell: Cell) -> dict[str, Any]:
    return {"victim": cell.victim, "fault": cell.fault, "load": cell.load}


def _row(outcome: Outcome) -> dict[str, Any]:
    return _names(outcome.cell) | {
        "seconds": round(outcome.seconds, 1),
        "wrong": list(outcome.wrong),
        "fault_seconds": outcome.fault_seconds,
        "by_states": outcome.by_states,
    }


def _outcome(row: dict[str, Any]) -> Outcome:
    cell = Cell(Victim(row["victim"]), Fault(row["fault"]), Load(row["load"]))
    wrong = tuple(row["wrong"])
    return Outcome(cell, row["seconds"], wrong, row["fault_seconds"], row["by_states"])


def table(outcomes: Iterable[Outcome]) -> str:
    """A row for each victim and fault, a column for each load."""
    found = {outcome.cell: outcome for outcome in outcomes}
    lines = [
        f"| | {' | '.join(Load)} |",
        f"|---|{'---|' * len(Load)}",
    ]
    for victim in Victim:
        for fault in Fault:
            cells = [Cell(victim, fault, load) for load in Load]
            if any(cell in found for cell in cells):
                row = [_shown(cell, found.get(cell)) for cell in cells]
                lines.append(f"| {victim} {fault} | {' | '.join(row)} |")
    return "\n".join(lines) + "\n"


def _shown(cell: Cell, outcome: Outcome | None) -> str:
    if outcome is None:
        return "-" if cell.why_not else ""
    if outcome.wrong:
        return "; ".join(outcome.wrong)
    length = "" if outcome.fault_seconds == 30 else f" ({outcome.fault_seconds:g})"
    states = "" if outcome.by_states else "*"
    return f"{outcome.seconds:.0f} s{length}{states}"


def left_out() -> str:
    """The reasons, each with its victims and faults."""
    found: dict[tuple[str, str], list[str]] = {}
    for victim, what, why in _left_out():
        found.setdefault((what, why), []).append(victim)
    lines = ["| | left out | why |", "|---|---|---|"]
    for (what, why), victims in found.items():
        lines.append(f"| {', '.join(victims)} | {what} | {why} |")
    return "\n".join(lines) + "\n"


def _left_out() -> Iterator[tuple[str, str, str]]:
    """Victim, what is left out, and why."""
    reasons: dict[tuple[str, str], dict[Fault, list[Load]]] = {}
    for cell in every_combination():
        if why := cell.why_not:
            faults = reasons.setdefault((cell.victim, why), {})
            faults.setdefault(cell.fault, []).append(cell.load)
    for (victim, why), faults in reasons.items():
        loads = next(iter(faults.values()))
        words = ", ".join(faults) if len(loads) == len(Load) else ", ".join(loads)
        yield victim, words, why
