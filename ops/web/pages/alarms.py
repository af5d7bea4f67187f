"""What the pages show of alarms: what is raised, who was told of it, what is silent."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from cdcbus.ops.alarms.channels import channels_of
from cdcbus.ops.alarms.state import Notice
from cdcbus.ops.alarms.store import NOBODY, AlarmNodes
from cdcbus.ops.web.bus import WebBus
from cdcbus.ops.web.pages.formatting import STAMP

DURATIONS = ("30m", "1h", "2h", "4h", "8h", "1d", "3d", "7d")
OFF = "off"


@dataclass(frozen=True, slots=True)
class RaisedRow:
    """An alarm that is raised. `by`: which channel has accepted its last notice."""

    task_id: str
    rule: str
    sentence: str
    since: str
    times: int
    by: str


@dataclass(frozen=True, slots=True)
class NoticeRow:
    """A notice, and which channel has accepted it."""

    task_id: str
    at: str
    kind: str
    rule: str
    sentence: str
    by: str

    @property
    def is_waiting(self) -> bool:
        """Whether nobody has accepted it yet."""
        return self.by == NOBODY


@dataclass(frozen=True, slots=True)
class ShownAlarms:
    """Of one task. `notices`: the newest first. `silent_until`: empty where it is not silent."""

    task_id: str
    raised: Sequence[RaisedRow]
    notices: Sequence[NoticeRow]
    silent_until: str
    silent_by: str


def alarms_of(bus: WebBus, task_id: str) -> ShownAlarms:
    nodes = AlarmNodes(bus.client)
    known, silence = nodes.get(task_id)[0], nodes.silence(task_id)
    raised = [
        RaisedRow(task_id, rule, each.sentence, _stamp(each.since), each.times, known.told_by(rule))
        for rule, each in known.raised.items()
    ]
    told = [
        *((notice, NOBODY) for notice in known.waiting),
        *((sent.notice, sent.by) for sent in known.sent),
    ]
    notices = [
        _row(task_id, notice, by)
        for notice, by in sorted(told, key=lambda each: each[0].at, reverse=True)
    ]
    is_silent = silence.is_on(time.time())
    return ShownAlarms(
        task_id,
        raised,
        notices,
        _stamp(silence.until) if is_silent else "",
        silence.by if is_silent else "",
    )


def told_where(bus: WebBus) -> str:
    """By which channels this node tells people, in words; empty where by none."""
    return ", ".join(channel.name for channel in channels_of(bus.settings.alarm))


def _row(task_id: str, notice: Notice, by: str) -> NoticeRow:
    return NoticeRow(
        task_id, _stamp(notice.at), notice.kind.value, notice.rule, notice.sentence, by
    )


def _stamp(epoch_seconds: float) -> str:
    """As ZooKeeper's nodes have times."""
    return time.strftime(STAMP, time.gmtime(epoch_seconds))
