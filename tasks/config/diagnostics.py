"""The errors, warnings and notes that reading a task file gives, each with its line."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

ALLOW: Final = "check.allow"
"""The key that lists the keys whose unsafe lines are intended."""


class Severity(StrEnum):
    """ERROR: the task cannot run. WARNING: it runs, but not as the file reads. NOTE: this release
    handles a key differently."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One sentence about one key. `line` counts from 1; 0 means the file as a whole (a missing
    key). `may_be_meant`: an error only until the file says that the line is intended.
    `is_unfilled`: a placeholder has no value here."""

    severity: Severity
    line: int
    key: str
    sentence: str
    may_be_meant: bool = False
    is_unfilled: bool = False

    def located(self, file: str) -> str:
        """`file:line: key: sentence`, without the parts that do not apply."""
        place = f"{file}:{self.line}" if self.line else file
        return ": ".join(filter(None, (place, self.key, self.sentence)))


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

    def unfilled(self, severity: Severity, line: int, key: str, sentence: str) -> None:
        """Reports a placeholder that has no value here."""
        self.found.append(
            Diagnostic(severity, line, printable(key), printable(sentence), is_unfilled=True)
        )

    def unsafe(self, line: int, key: str, sentence: str) -> None:
        """Reports a line that looks as if it protected rows, and does not: an error, which `allow`
        turns into a note."""
        self.found.append(
            Diagnostic(Severity.ERROR, line, printable(key), printable(sentence), may_be_meant=True)
        )

    def allow(self, keys: Collection[str]) -> set[str]:
        """Turns unsafe errors about these keys into notes, and adds to all others how to allow
        them. Returns the keys that had such an error."""
        # Called last, as only then every unsafe line has been found.
        allowed: set[str] = set()
        for i, each in enumerate(self.found):
            if not each.may_be_meant:
                continue
            if each.key in keys:
                allowed.add(each.key)
                sentence = f"{each.sentence} ({ALLOW} says that this is intended)"
                # Still a note: anyone who reads the check sees what the file waives.
                self.found[i] = replace(each, severity=Severity.NOTE, sentence=sentence)
            else:
                sentence = f"{each.sentence}; or write {ALLOW}={each.key} if this is intended"
                self.found[i] = replace(each, sentence=sentence)
        return allowed

    def of(self, severity: Severity) -> list[Diagnostic]:
        """The diagnostics of one severity, by line."""
        found = [each for each in self.found if each.severity is severity]
        return sorted(found, key=lambda each: (each.line, each.key))


def printable(text: str) -> str:
    """The text with unprintable characters escaped, so that no file and no cell can control the
    terminal."""
    return "".join(map(_printable, text))


def _printable(character: str) -> str:
    if character.isprintable():
        return character
    # `repr` has the escape, between quotes.
    return repr(character)[1:-1]
