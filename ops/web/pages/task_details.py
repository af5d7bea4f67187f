"""What the page of a task shows beside its charts: positions, settings, findings, its log."""

from __future__ import annotations

import socket
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from cdcbus.ops.web.bus import WebBus
from cdcbus.plugins.errors import PositionError
from cdcbus.plugins.positions import BinlogPosition, kafka_positions_from_json
from cdcbus.tasks.config.diagnostics import Diagnostic, Severity
from cdcbus.tasks.config.keys.task import find_key
from cdcbus.tasks.config.parser import Entry, is_inline_secret
from cdcbus.tasks.config.read_task import Inspection
from cdcbus.tasks.editing.masked import MASK
from cdcbus.tasks.zookeeper.position.history import Change, histories, positions_of
from cdcbus.tasks.zookeeper.status import Status

LOG_LINES = 100
LOG_BYTES = 64 << 10


@dataclass(frozen=True, slots=True)
class StoredPosition:
    """A stored position as pairs of words: one for each partition, or one for a binlog."""

    swimlane: str
    words: Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Setting:
    """A line of a task's text; `shown` holds no secret."""

    key: str
    shown: str
    is_secret: bool


def places(bus: WebBus, task_id: str) -> list[StoredPosition]:
    """The stored positions."""
    found = []
    for swimlane, text in positions_of(bus.client, task_id).items():
        try:
            words = _in_words(text or "")
        except PositionError:
            words = [("not readable", "set it again: cdcbus offset set")]
        found.append(StoredPosition(swimlane, words))
    return found


def _in_words(stored: str) -> list[tuple[str, str]]:
    """Raises PositionError."""
    if not stored.strip():
        return []
    # Only positions in topics name one.
    if '"topic"' not in stored:
        return [("binlog", str(BinlogPosition.from_json(stored)))]
    words = []
    for each in kafka_positions_from_json(stored):
        words.append((f"partition {each.partition}", f"next offset {each.next_offset:,}"))
    return words


def position_changes(bus: WebBus, task_id: str) -> list[tuple[str, Change]]:
    """The positions that operators have set, newest first, with their swimlanes."""
    found: list[tuple[str, Change]] = []
    for swimlane, changes in histories(bus.client, task_id).items():
        for change in changes:
            found.append((swimlane, change))
    # Times are to the second: of one second the last change is the newest as well.
    return sorted(found, key=lambda each: each[1].at)[::-1]


def settings(entries: Iterable[Entry]) -> list[Setting]:
    """A task's lines. Values that are a secret, or contain one, are masked; placeholders are
    shown."""
    found = []
    for entry in entries:
        is_hidden = is_inline_secret(entry.key, find_key(entry.key), entry.written)
        shown = MASK if is_hidden else entry.written
        found.append(Setting(entry.key, shown, is_hidden))
    return found


def diagnostics_of(inspection: Inspection) -> list[Diagnostic]:
    """Errors and warnings, errors first."""
    return [
        *inspection.diagnostics.of(Severity.ERROR),
        *inspection.diagnostics.of(Severity.WARNING),
    ]


def why_not_here(status: Status, log: Path) -> str:
    """Why a task's log is not `log`, the file where this node writes one; empty where it is."""
    run = status.run
    if run is None or not run.log:
        return "No node has run it yet."
    if run.host != socket.gethostname():
        return f"It is on {run.host}, {run.log}: look at the pages of the node there."
    # Whoever can write to ZooKeeper can write any path there, the key file's for example.
    if run.log != str(log):
        return (
            f"It is {run.log}, but this node would write it to {log}: look at the pages of the "
            f"node that ran it, or print it on this host: cdcbus task logs {status.task_id}"
        )
    return ""


def log_tail(status: Status, log: Path) -> tuple[list[str], str]:
    """The last lines of a task's log where it is `log`, the file where this node writes one; else
    why it cannot be shown."""
    if missing := why_not_here(status, log):
        return [], missing
    try:
        with log.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - LOG_BYTES))
            text = file.read().decode("utf-8", "replace")
    except OSError as error:
        return [], f"{log} cannot be read: {error.strerror}."
    lines = text.splitlines()
    if size > LOG_BYTES:
        del lines[0]  # only its end was read
    return lines[-LOG_LINES:], ""
