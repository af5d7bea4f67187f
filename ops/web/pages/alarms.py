"""The page of alarms: what is raised, who accepted its notices, which tasks are silent."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Form, Request
from starlette.responses import RedirectResponse, Response

from cdcbus.ops.alarms.added_channels import channel_names
from cdcbus.ops.alarms.silence import duration_seconds
from cdcbus.ops.alarms.state import Notice
from cdcbus.ops.alarms.store import NOBODY, AlarmNodes
from cdcbus.ops.web import actions
from cdcbus.ops.web.answers import Refused
from cdcbus.ops.web.auth import has_all_tasks, operator_of
from cdcbus.ops.web.bus import WebBus, bus_of
from cdcbus.ops.web.pages.live import stream
from cdcbus.ops.web.pages.rendering import live_parts, page
from cdcbus.ops.web.pages.shared import DONE, task_address
from cdcbus.plugins.errors import PositionError
from cdcbus.tasks.zookeeper.connection import is_silence
from cdcbus.tasks.zookeeper.tasks import TaskNodes
from cdcbus.tasks.zookeeper.znode import STAMP

NOTICES = 50  # of alarms, shown
DURATIONS = ("30m", "1h", "2h", "4h", "8h", "1d", "3d", "7d")
OFF = "off"


router = APIRouter()


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
    """The alarms of a task. `notices`: newest first. `silent_until`: empty if it is not silent."""

    task_id: str
    raised: Sequence[RaisedRow]
    notices: Sequence[NoticeRow]
    silent_until: str
    silent_by: str


def alarms_of(bus: WebBus, task_id: str) -> ShownAlarms:
    """The alarms of a task; where ZooKeeper refuses them, that is one. Raises
    PositionUnavailable."""
    nodes = AlarmNodes(bus.client)
    try:
        known, _ = nodes.get(task_id)
        silence = nodes.silence(task_id)
    except PositionError as error:
        if is_silence(error):
            raise
        refused = RaisedRow(task_id, "zookeeper", str(error), "", 1, "")
        return ShownAlarms(task_id, [refused], [], "", "")
    raised = []
    for rule, alarm in known.raised.items():
        since = _stamp(alarm.since)
        by = known.reported_by(rule)
        raised.append(RaisedRow(task_id, rule, alarm.sentence, since, alarm.times, by))
    sent = [(notice, NOBODY) for notice in known.waiting]
    sent += [(each.notice, each.by) for each in known.sent]
    sent.sort(key=lambda each: each[0].at, reverse=True)
    notices = [_row(task_id, notice, by) for notice, by in sent]
    silent_until = silent_by = ""
    if silence.is_on(time.time()):
        silent_until, silent_by = _stamp(silence.until), silence.by
    return ShownAlarms(task_id, raised, notices, silent_until, silent_by)


def destinations(bus: WebBus) -> str:
    """The channels by which this node notifies people, in words; empty without any."""
    return ", ".join(channel_names(bus.settings.alarm))


def _row(task_id: str, notice: Notice, by: str) -> NoticeRow:
    return NoticeRow(
        task_id, _stamp(notice.at), notice.kind.value, notice.rule, notice.sentence, by
    )


def _stamp(epoch_seconds: float) -> str:
    """A time in the form that znodes have."""
    return time.strftime(STAMP, time.gmtime(epoch_seconds))


@router.get("/alarms")
def alarms_page(request: Request, done: str = "") -> Response:
    bus = bus_of(request)
    values = {
        **_alarm_values(request),
        "tasks": TaskNodes(bus.client).ids(),
        "durations": DURATIONS,
        "destinations": destinations(bus),
        "done": DONE.get(done, ""),
    }
    return page(request, "alarms.html", values, section="/alarms", live="/live/alarms")


@router.get("/live/alarms")
def alarms_live(request: Request) -> Response:
    return stream(request, lambda: live_parts("alarms.html", _alarm_values(request)))


def _alarm_values(request: Request) -> dict[str, Any]:
    bus = bus_of(request)
    raised: list[RaisedRow] = []
    notices: list[NoticeRow] = []
    silent = []
    for task_id in TaskNodes(bus.client).ids():
        shown = alarms_of(bus, task_id)
        raised += shown.raised
        notices += shown.notices
        if shown.silent_until:
            silent.append(shown)
    raised.sort(key=lambda alarm: alarm.since, reverse=True)
    notices.sort(key=lambda notice: notice.at, reverse=True)
    return {
        "raised": raised,
        "silent": silent,
        "notices": notices[:NOTICES],
        # The form can silence all tasks together.
        "is_logged_in": has_all_tasks(request),
    }


@router.post("/alarms/silence")
def silence_tasks(
    request: Request, duration: Annotated[str, Form(alias="for")], task: Annotated[str, Form()] = ""
) -> Response:
    """Silences a task, or without one all existing tasks."""
    bus = bus_of(request)
    task_ids = [task] if task else TaskNodes(bus.client).ids()
    actions.silence(bus, task_ids, _silence_seconds(duration), operator_of(request))
    return RedirectResponse(f"/alarms?done={_silenced(duration)}", 303)


@router.post("/tasks/{task_id}/silence")
def silence_task(
    request: Request, task_id: str, duration: Annotated[str, Form(alias="for")]
) -> Response:
    actions.silence(bus_of(request), [task_id], _silence_seconds(duration), operator_of(request))
    return RedirectResponse(task_address(task_id, f"?done={_silenced(duration)}"), 303)


def _silence_seconds(duration: str) -> float:
    try:
        return 0.0 if duration == OFF else duration_seconds(duration)
    except ValueError as error:
        raise Refused(422, f"for how long: {error}") from error


def _silenced(duration: str) -> str:
    return "told" if duration == OFF else "silence"
