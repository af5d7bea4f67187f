"""What is marked on the charts of a task: failures, definitions of tables, positions set by hand.
Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final

from cdcbus.ops.web.series.series import Mark
from cdcbus.tasks.runtime.occurrences import SENTENCE_CHARACTERS, Occurrence
from cdcbus.tasks.zookeeper.position.history import Change
from cdcbus.tasks.zookeeper.tasks import Failure
from cdcbus.tasks.zookeeper.znode import STAMP

WORDS: Final = {
    "error": "error",
    "retrying": "trying again",
    "ddl": "table definition",
    "applied": "target table altered",
    "set": "position set by hand",
}
"""For people, by a mark's kind."""


def marks_of(
    failures: Sequence[Failure],
    changes: Sequence[tuple[str, Change]],
    occurrences: Sequence[Occurrence] = (),
) -> list[Mark]:
    """All marks by time, numbered. Occurrences record each time that a failure came, so a failure
    among them is not marked again."""
    marks = [Mark(each.at, each.kind, each.sentence) for each in occurrences]
    known = {each.sentence for each in occurrences}
    for failure in failures:
        at = _epoch(failure.at)
        if at is not None and _cut(failure.sentence) not in known:
            marks.append(Mark(at, "error", failure.sentence))
    for _, change in changes:
        at = _epoch(change.at)
        if at is not None:
            marks.append(Mark(at, "set", f"{change.by}: {change.how}"))
    marks.sort(key=lambda mark: mark.at)
    return [replace(mark, number=number) for number, mark in enumerate(marks, 1)]


def _cut(sentence: str) -> str:
    """The sentence as an occurrence has it."""
    line = " ".join(sentence.split())
    if len(line) <= SENTENCE_CHARACTERS:
        return line
    return f"{line[: SENTENCE_CHARACTERS - 1]}…"


def _epoch(stamp: str) -> int | None:
    try:
        return int(datetime.strptime(stamp, STAMP).replace(tzinfo=UTC).timestamp())
    except ValueError:
        return None
