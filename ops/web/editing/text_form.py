"""A task's text as a form shows it: lines with the findings beside them, and what has changed.
Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import unified_diff

from cdcbus.tasks.config.diagnostics import Diagnostic, Diagnostics, Severity
from cdcbus.tasks.config.parser import split_lines

SAME, ADDED, REMOVED, GAP = "same", "added", "removed", "gap"
_KINDS = {" ": SAME, "+": ADDED, "-": REMOVED, "@": GAP}
CONTEXT = 3  # unchanged lines around a change


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the text, by its number from 1. `worst`: the severity of its worst finding."""

    number: int
    findings: Sequence[Diagnostic]

    @property
    def worst(self) -> str:
        severities = {finding.severity for finding in self.findings}
        for severity in Severity:  # the most severe first
            if severity in severities:
                return str(severity)
        return ""


@dataclass(frozen=True, slots=True)
class DiffLine:
    """`kind`: `same`, `added`, `removed`, or `gap` for lines that are left out."""

    kind: str
    text: str

    @property
    def sign(self) -> str:
        return {ADDED: "+", REMOVED: "−", GAP: "⋯"}.get(self.kind, " ")


def plain(text: str) -> str:
    """What a browser sent, with line ends as in files."""
    # Forms send CRLF, whatever the text had.
    return text.replace("\r\n", "\n").replace("\r", "\n").rstrip() + "\n"


def lines_of(text: str, diagnostics: Diagnostics) -> list[Line]:
    """Each line with its findings. Those about the text as a whole are in `rest_of`."""
    by_line: dict[int, list[Diagnostic]] = {}
    for severity in Severity:
        for diagnostic in diagnostics.of(severity):
            by_line.setdefault(diagnostic.line, []).append(diagnostic)
    count = len(split_lines(text))
    return [Line(number, by_line.get(number, ())) for number in range(1, count + 1)]


def all_findings(diagnostics: Diagnostics) -> list[Diagnostic]:
    """Errors first, each kind by line."""
    found: list[Diagnostic] = []
    for severity in Severity:
        found += diagnostics.of(severity)
    return found


def difference(before: str, after: str) -> list[DiffLine]:
    """The difference between two texts, as lines; empty where they are the same."""
    found = list(unified_diff(split_lines(before), split_lines(after), lineterm="", n=CONTEXT))
    # The first two lines name files; the third marks what was left out before the first change.
    return [DiffLine(_KINDS[line[0]], line[1:]) for line in found[3:]]
