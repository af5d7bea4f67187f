"""The pages of one task: its state, and the reset of its positions."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Form, Query, Request
from starlette.responses import RedirectResponse, Response

from cdcbus.ops.alarms.rules import OF_STATE
from cdcbus.ops.services.snapshots import Snapshots, snapshots_of
from cdcbus.ops.web import actions
from cdcbus.ops.web.answers import Refused, status_of_error
from cdcbus.ops.web.auth import is_logged_in, operator_of
from cdcbus.ops.web.bus import WebBus, bus_of
from cdcbus.ops.web.overview.stored_tasks import keeps_letters, route_of
from cdcbus.ops.web.pages import alarms
from cdcbus.ops.web.pages import task_details as details
from cdcbus.ops.web.pages.live import stream
from cdcbus.ops.web.pages.nodes import known_nodes
from cdcbus.ops.web.pages.rendering import live_parts, page
from cdcbus.ops.web.pages.shared import DONE, shared, task_address
from cdcbus.ops.web.series.delays import delay_charts
from cdcbus.ops.web.series.marks import WORDS, marks_of
from cdcbus.ops.web.series.queries import TaskCharts
from cdcbus.ops.web.series.series import Mark, Series
from cdcbus.ops.web.series.throughput import RANGES, throughput_charts
from cdcbus.plugins.errors import CdcError, ConfigError, PositionError, PositionUnavailable
from cdcbus.producer.snapshot.progress import Wish, WishKind
from cdcbus.tasks.runtime.delay_history import DelayHistory
from cdcbus.tasks.runtime.occurrences import Occurrences
from cdcbus.tasks.runtime.throughput_history import HOUR_SECONDS, ThroughputHistory
from cdcbus.tasks.verify.last import VerifyNodes, unknown
from cdcbus.tasks.zookeeper.status import Status
from cdcbus.tasks.zookeeper.tasks import TaskNodes

router = APIRouter()
DEFAULT_SECONDS = RANGES["1h"]  # of charts from Prometheus


@router.get("/tasks/{task_id}")
def task_page(
    request: Request, task_id: str, done: str = "", span: Annotated[str, Query(alias="range")] = ""
) -> Response:
    live = f"/live{task_address(task_id)}?range={quote(span)}"
    values = {
        **_task_values(request, task_id, span),
        **_task_text(request, task_id),
        "durations": alarms.DURATIONS,
        "ranges": list(RANGES),
        "range": span,
        "prometheus": shared(request).charts.shown,
        "other_nodes": _working_nodes(bus_of(request)),
        "done": DONE.get(done, ""),
    }
    return page(request, "task.html", values, section="/", live=live)


def _working_nodes(bus: WebBus) -> list[str]:
    return [node.node_id for node in known_nodes(bus) if node.status == "working"]


@router.get("/live/tasks/{task_id}")
def task_live(
    request: Request, task_id: str, span: Annotated[str, Query(alias="range")] = ""
) -> Response:
    # Before the stream begins, so that an unknown task is a 404.
    actions.known_task(bus_of(request), task_id)
    return stream(request, lambda: live_parts("task.html", _task_values(request, task_id, span)))


def _task_values(request: Request, task_id: str, span: str) -> dict[str, Any]:
    bus = bus_of(request)
    status, nodes = actions.known_task(bus, task_id), TaskNodes(bus.client)
    lines, no_log = details.log_tail(status, bus.settings.log_of(task_id))
    history, failures = ThroughputHistory(bus.client), nodes.errors(task_id)
    changes = details.position_changes(bus, task_id)
    marks = marks_of(failures, changes, Occurrences(bus.client).read(task_id))
    now = time.time()
    charted = shared(request).charts.charts(task_id, RANGES.get(span, DEFAULT_SECONDS), now, marks)
    found = charted.charts
    # Without Prometheus: what ZooKeeper keeps.
    if found is None:
        hours = history.read_hours(task_id) if span else ()
        charts = throughput_charts(history.read(task_id), now, hours, span, marks)
        found = TaskCharts(charts, _delay_charts(bus, task_id, charts, marks))
    verified = VerifyNodes(bus.client).last(task_id)
    newest_marks: Sequence[Mark] = ()
    if found.main:
        newest_marks = found.main[0].marks[::-1]
    return {
        "status": status,
        "is_logged_in": is_logged_in(request),
        "has_token": bus.has_way_in and request.state.operator is None,
        "here": task_address(task_id),
        "charts": found.main,
        "delay_charts": found.delays,
        "table_charts": found.tables,
        "no_prometheus": charted.why,
        "marks": newest_marks,
        "mark_words": WORDS,
        "rates": _table_rates(status),
        "places": details.places(bus, task_id),
        "changes": changes,
        "alarms": alarms.alarms_of(bus, task_id),
        "of_state": OF_STATE,
        **_snapshots(bus, task_id),
        "verified": verified,
        "unverified": unknown(verified) if verified else [],
        "failures": failures[::-1],
        "log": lines,
        "no_log": no_log,
    }


def _table_rates(status: Status) -> dict[tuple[str, str], float]:
    """Rows per second, by swimlane and table."""
    if status.stat is None:
        return {}
    return {(each.swimlane, each.table): each.rows_per_second for each in status.stat.table_rates}


def _delay_charts(
    bus: WebBus, task_id: str, charts: Sequence[Series], marks: Sequence[Mark]
) -> list[Series]:
    """The charts of delays, over the time of the other charts."""
    if not charts:
        return []
    history = DelayHistory(bus.client)
    is_by_hour = charts[0].step_seconds >= HOUR_SECONDS
    hours = history.read_hours(task_id) if is_by_hour else ()
    return delay_charts(history.read(task_id), hours, charts[0], marks)


def _snapshots(bus: WebBus, task_id: str) -> dict[str, Snapshots | str | None]:
    """The snapshots; None for a task that cannot have any. A damaged znode is a sentence: the rest
    of the page does not need it."""
    try:
        return {"snapshots": snapshots_of(bus.client, task_id), "no_snapshots": ""}
    except PositionUnavailable:
        # All other parts of the page need ZooKeeper as well.
        raise
    except PositionError as error:
        return {"snapshots": None, "no_snapshots": str(error)}
    except ConfigError:
        return {"snapshots": None, "no_snapshots": ""}


def _task_text(request: Request, task_id: str) -> dict[str, Any]:
    """What the task's text says, which is not live."""
    tasks = shared(request).tasks
    try:
        inspection = tasks.inspection(task_id)
    except CdcError as error:
        return {
            "route": None,
            "settings": [],
            "findings": [],
            "damage": str(error),
            "keeps_letters": False,
        }
    task = inspection.task
    route = None
    if task is not None:
        route = route_of(task)
    return {
        "route": route,
        "settings": details.settings(inspection.entries.values()),
        "findings": details.diagnostics_of(inspection),
        "damage": "",
        "keeps_letters": task is not None and keeps_letters(task),
    }


@router.post("/tasks/{task_id}/start")
def start(request: Request, task_id: str) -> Response:
    actions.start(bus_of(request), task_id, operator_of(request))
    return RedirectResponse(task_address(task_id, "?done=start"), 303)


@router.post("/tasks/{task_id}/restart")
def restart(request: Request, task_id: str) -> Response:
    actions.restart(bus_of(request), task_id, operator_of(request))
    return RedirectResponse(task_address(task_id, "?done=restart"), 303)


@router.post("/tasks/{task_id}/stop")
def stop(request: Request, task_id: str) -> Response:
    actions.stop(bus_of(request), task_id, operator_of(request))
    return RedirectResponse(task_address(task_id, "?done=stop"), 303)


@router.post("/tasks/{task_id}/snapshot/{kind}")
def snapshot(
    request: Request,
    task_id: str,
    kind: WishKind,
    table: Annotated[str, Form()] = "",
    confirmed: Annotated[bool, Form()] = False,
) -> Response:
    # The page has no such field for a start, whose rows could come twice.
    is_confirmed = confirmed and kind is WishKind.STOP
    what = Wish(kind, (table,) if table else (), is_confirmed=is_confirmed)
    ordered = actions.snapshot(bus_of(request), task_id, what, operator_of(request))
    done = "given-up" if ordered.gives_up else "snapshot"
    return RedirectResponse(task_address(task_id, f"?done={done}"), 303)


@router.get("/tasks/{task_id}/reset")
def reset_page(
    request: Request, task_id: str, to: str = "", topic: str = "", partition: str = ""
) -> Response:
    """Without a place, asks for it. With one, shows what it means before anything is set."""
    return _reset_page(request, task_id, to.strip(), topic.strip(), partition.strip())


def _reset_page(
    request: Request,
    task_id: str,
    to: str,
    topic: str,
    partition: str,
    refusal: CdcError | None = None,
) -> Response:
    bus = bus_of(request)
    known = actions.known_task(bus, task_id)
    preview = actions.Preview({}, {})
    # After a refused reset its reason is shown, and nothing is looked up again.
    if to and refusal is None:
        try:
            preview = actions.reset_preview(bus, task_id, to, topic or None, _partition(partition))
        except CdcError as error:
            refusal = error
    status, sentence = 200, ""
    if refusal is not None:
        status, sentence = status_of_error(refusal), str(refusal)
    route = None
    if (task := shared(request).tasks.task(task_id)) is not None:
        route = route_of(task)
    values = {
        "status": known,
        "route": route,
        "places": details.places(bus, task_id),
        "to": to,
        "topic": topic,
        "partition": partition,
        "targets": preview.targets,
        "shown": preview.to_json(),
        "refusal": sentence,
    }
    return page(request, "reset.html", values, section="/", status=status)


@router.post("/tasks/{task_id}/reset")
def reset(
    request: Request,
    task_id: str,
    to: Annotated[str, Form()],
    shown: Annotated[str, Form()],
    topic: Annotated[str, Form()] = "",
    partition: Annotated[str, Form()] = "",
    live: Annotated[bool, Form()] = False,
) -> Response:
    try:
        # Not looked up again: what was shown is what is confirmed.
        actions.reset_as_shown(bus_of(request), task_id, shown, to, operator_of(request), live)
    except CdcError as error:
        return _reset_page(request, task_id, to, topic, partition, error)
    return RedirectResponse(task_address(task_id, "?done=reset"), 303)


@router.post("/tasks/{task_id}/undo")
def undo(
    request: Request,
    task_id: str,
    swimlane: Annotated[str, Form()],
    at: Annotated[str, Form()],
    after: Annotated[str, Form()] = "",
) -> Response:
    actions.undo(bus_of(request), task_id, swimlane, operator_of(request), at=at, after=after)
    return RedirectResponse(task_address(task_id, "?done=undo"), 303)


def _partition(text: str) -> int | None:
    if not text:
        return None
    if not text.isdecimal():
        raise Refused(422, "a partition is a whole number, such as 0")
    return int(text)
