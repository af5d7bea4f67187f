"""Groups notices of many tasks into few messages, by cause, and rates their severity. Pure."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from cdcbus.ops.alarms.channels import Message, Receiver
from cdcbus.ops.alarms.rules import OF_STATE
from cdcbus.ops.alarms.state import Kind, Notice
from cdcbus.plugins.task_status import State

NAMED = 10  # tasks in a subject


class Severity(StrEnum):
    """CRITICAL: a task waits for an operator, or rows are lost, or may soon be."""

    WARNING = "warning"
    CRITICAL = "critical"

    def is_for(self, least: str) -> bool:
        """Whether a channel that wants alarms of severity `least` or worse gets this one."""
        return least == Severity.WARNING or self is Severity.CRITICAL


CRITICAL = frozenset(
    (
        "error",
        "silent",
        "target-behind",
        "late-records",
        "skipped",
        "retention",
        "retention-bytes",
    )
)
# A server in the sentence of an outage: what it is, and its address, or several of one cluster.
_SERVER = re.compile(
    r"\b(?P<what>ZooKeeper|Kafka|source|postgresql|mysql|mariadb|oracle)\b[^;]*?"
    r"(?P<place>[\w.\-\[\]]*[\w\]]:\d{2,5}(?:,[\w.\-\[\]]*[\w\]]:\d{2,5})*)"
)
# All others are kinds of targets.
_NAMES = {"ZooKeeper": "ZooKeeper", "Kafka": "Kafka", "source": "source"}


@dataclass(frozen=True, slots=True)
class Entry:
    """A notice of a task that must be sent. `receivers`: the people of the task."""

    task_id: str
    notice: Notice
    state: State
    receivers: tuple[Receiver, ...] = ()

    @property
    def severity(self) -> Severity:
        return severity_of(self.notice.rule)

    @property
    def cause(self) -> str:
        return cause_of(self.notice)


def severity_of(rule: str) -> Severity:
    if rule in CRITICAL:
        return Severity.CRITICAL
    return Severity.WARNING


def cause_of(notice: Notice) -> str:
    """What the tasks of one message have in common: a server that is away, else the alarm."""
    # An error is the task's own, whatever server its sentence names.
    if notice.rule in OF_STATE and notice.rule != "error":
        if found := _SERVER.search(notice.sentence):
            return f"{_NAMES.get(found['what'], 'target')} {found['place']}"
        if "ZooKeeper does not answer" in notice.sentence:
            return "ZooKeeper"
    return notice.rule


def groups(entries: Iterable[Entry]) -> list[list[Entry]]:
    """The entries by cause and kind, oldest first; groups in the order of their first entries."""
    found: dict[tuple[str, Kind], list[Entry]] = {}
    for entry in sorted(entries, key=lambda each: each.notice.at):
        found.setdefault((entry.cause, entry.notice.kind), []).append(entry)
    return list(found.values())


def is_due(group: Sequence[Entry], now: float, digest_seconds: float) -> bool:
    """Whether it is time to send a group. Others may join it until the digest is due, but critical
    ones do not wait, nor those of a clock that was ahead."""
    is_critical = any(entry.severity is Severity.CRITICAL for entry in group)
    return is_critical or not 0 <= now - group[0].notice.at < digest_seconds


def subject_of(group: Sequence[Entry]) -> str:
    """A group in one line, even where its sentences have several."""
    tasks = list(dict.fromkeys(entry.task_id for entry in group))
    if len(tasks) == 1:
        # Of several notices of one task the newest says most.
        return _subject_of_one(group[-1])
    names = ", ".join(tasks[:NAMED])
    if len(tasks) > NAMED:
        names += ", ..."
    return f"{_what_of(group[0])}: {len(tasks)} tasks ({names})"


def _what_of(entry: Entry) -> str:
    cause, kind = entry.cause, entry.notice.kind
    if cause == entry.notice.rule:
        if kind is Kind.CLEARED:
            return f"{cause} is over"
        return cause
    # The cause is a server that is away.
    if kind is Kind.CLEARED:
        return f"{cause} is back"
    if kind is Kind.REPEATED:
        return f"{cause} is still away"
    return f"{cause} is away"


def _subject_of_one(entry: Entry) -> str:
    notice = entry.notice
    if notice.kind is Kind.CLEARED:
        words = f" is over; the task is {entry.state}"
    else:
        again = f" ({notice.times} times)" if notice.times > 1 else ""
        words = f"{again}: {notice.sentence}"
    return " ".join(f"task {entry.task_id}: {notice.rule}{words}".split())


def message_of(group: Sequence[Entry], node_id: str) -> Message:
    """The message of a group; docs/alarms.md describes the fields."""
    first = group[0]
    since = min(entry.notice.since for entry in group)
    tasks = []
    receivers: dict[Receiver, None] = {}  # each person once, in the order of the tasks
    severity = Severity.WARNING
    for entry in group:
        tasks.append(_as_fields(entry))
        receivers.update(dict.fromkeys(entry.receivers))
        if entry.severity is Severity.CRITICAL:
            severity = Severity.CRITICAL
    fields = {
        "task": first.task_id,
        "kind": first.notice.kind.value,
        "rule": first.notice.rule,
        "sentence": first.notice.sentence,
        "state": first.state.value,
        "since": utc(since),
        "at": utc(first.notice.at),
        "times": first.notice.times,
        "node": node_id,
        "severity": severity,
        "cause": first.cause,
        "tasks": tasks,
    }
    return Message(subject_of(group), fields, tuple(receivers))


def _as_fields(entry: Entry) -> dict[str, str]:
    return {
        "task": entry.task_id,
        "rule": entry.notice.rule,
        "sentence": entry.notice.sentence,
        "state": entry.state.value,
        "since": utc(entry.notice.since),
    }


def utc(epoch_seconds: float) -> str:
    """A time as messages have it."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(epoch_seconds))
