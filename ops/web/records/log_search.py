"""Searches the end of a task's log. Pure except for reading the file."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from pathlib import Path

from cdcbus.ops.web.pages.task_details import why_not_here
from cdcbus.tasks.zookeeper.status import Status

SEARCHED_BYTES = 16 << 20  # of the end of a log, at most
FOUND_LINES = 500  # the newest
LEVELS = ("ERROR", "WARNING", "INFO")
SHADES = {"ERROR": "bad", "WARNING": "warn"}


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line of the log. `level`: `bad`, `warn`, or empty."""

    text: str
    level: str


@dataclass(frozen=True, slots=True)
class FoundLines:
    """`lines`: the newest that fit, oldest first; `count`: all that fit. `is_cut`: whether only
    the end of the log was searched. `missing`: why it cannot be searched here."""

    lines: tuple[LogLine, ...] = ()
    count: int = 0
    is_cut: bool = False
    missing: str = ""


def search(status: Status, log: Path, word: str, level: str) -> FoundLines:
    """The lines that contain a word, any case, and have a level or a more severe one; empty: any.
    Lines without a level, as in a traceback, belong to the line before them. `log`: the file where
    this node writes the task's log."""
    if missing := why_not_here(status, log):
        return FoundLines(missing=missing)
    levels: tuple[str, ...] = ()
    if level in LEVELS:
        levels = LEVELS[: LEVELS.index(level) + 1]
    found: deque[LogLine] = deque(maxlen=FOUND_LINES)
    count = 0
    try:
        with log.open("rb") as file:
            size = file.seek(0, 2)
            # It may begin within a line, whose rest counts as a line.
            file.seek(max(0, size - SEARCHED_BYTES))
            current = ""
            for raw in file:
                text = raw.decode("utf-8", "replace").rstrip("\r\n")
                current = level_of(text) or current
                if levels and current not in levels:
                    continue
                if word.casefold() not in text.casefold():
                    continue
                count += 1
                found.append(LogLine(text, SHADES.get(current, "")))
    except OSError as error:
        return FoundLines(missing=f"{log} cannot be read: {error.strerror}.")
    return FoundLines(tuple(found), count, size > SEARCHED_BYTES)


def level_of(text: str) -> str:
    """The level of a line of our own logs; empty where it continues another one."""
    # Near the beginning only: a message can quote a line with another level.
    head = text[:80]
    for level in (*LEVELS, "DEBUG"):
        if f" {level} " in head:
            return level
    return ""
