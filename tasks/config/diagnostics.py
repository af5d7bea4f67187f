"""What reading a task file finds, each with its line: errors, warnings, notes."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class Severity(StrEnum):
    """ERROR: the task cannot run. WARNING: it runs, but not as the file reads. NOTE: a key that
    this release answers otherwise."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One sentence about one key. `line` counts from 1; 0 where it is about the file as a whole
    (a key that is missing)."""

    severity: Severity
    line: int
    key: str
    sentence: str

    def located(self, file: str) -> str:
        """`file:line: key: sentence`, without the parts that do not apply."""
        place = f"{file}:{self.line}" if self.line else file
        return f"{place}: {self.key}: {self.sentence}" if self.key else f"{place}: {self.sentence}"


@dataclass(slots=True)
class Diagnostics:
    """Collects diagnostics, so that one run reports all of them."""

    found: list[Diagnostic] = field(default_factory=list)

    def add(self, severity: Severity, line: int, key: str, sentence: str) -> None:
        self.found.append(Diagnostic(severity, line, printable(key), printable(sentence)))

    def error(self, line: int, key: str, sentence: str) -> None:
        self.add(Severity.ERROR, line, key, sentence)

    def warning(self, line: int, key: str, sentence: str) -> None:
        self.add(Severity.WARNING, line, key, sentence)

    def note(self, line: int, key: str, sentence: str) -> None:
        self.add(Severity.NOTE, line, key, sentence)

    def of(self, severity: Severity) -> list[Diagnostic]:
        """The diagnostics of one severity, by line."""
        found = [each for each in self.found if each.severity is severity]
        return sorted(found, key=lambda each: (each.line, each.key))


def printable(text: str) -> str:
    """Text for one line of a terminal, which a file must not be able to control."""
    return "".join(
        character if character.isprintable() else repr(character)[1:-1] for character in text
    )
