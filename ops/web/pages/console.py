"""The pages for operators: overview, task, reset, nodes, alarms, topics, lineage, dead letters.
What they change goes through `actions`.

A page is served whole; where it says `live`, the same values are read again by its stream. Pages
hold no cell values but for the rows of a topic, which need the token where one is set.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any
from urllib.parse import quote, urlencode

from fastapi import APIRouter, Form, Query, Request
from starlette.responses import RedirectResponse, Response

from cdcbus.consumer.config import LoadTask
from cdcbus.ops.alarms.rules import OF_STATE
from cdcbus.ops.alarms.silence import duration_seconds
from cdcbus.ops.services.dead_letters import NO_REPLAY
from cdcbus.ops.services.topics import access_of
from cdcbus.ops.web import actions
from cdcbus.ops.web.answers import Refused, status_of_error
from cdcbus.ops.web.auth import is_logged_in, operator_of
from cdcbus.ops.web.bus import WebBus, bus_of
from cdcbus.ops.web.pages import alarms, topics
from cdcbus.ops.web.pages import tasks as views
from cdcbus.ops.web.pages.dead_letters import SHOWN, letter_row
from cdcbus.ops.web.pages.lineage_graph import graph
from cdcbus.ops.web.pages.live import stream
from cdcbus.ops.web.pages.rendering import live_parts, page
from cdcbus.plugins.errors import CdcError
from cdcbus.plugins.rowchange import Op
from cdcbus.plugins.task_status import State
from cdcbus.producer.config import FetchTask
from cdcbus.tasks.control.lineage import ways
from cdcbus.tasks.runtime.throughput_history import ThroughputHistory
from cdcbus.tasks.zookeeper.audit import actions as audited_actions
from cdcbus.tasks.zookeeper.node_registry import BusNodes, NodeInfo
from cdcbus.tasks.zookeeper.tasks import TaskNodes

ACTIONS = 30  # of the audit, shown
NOTICES = 50  # of alarms, shown
NEWEST = 50  # records of each partition that a topic's page reads
MOST_NEWEST = 1000
TAIL_SECONDS = 3.0
DONE = {
    "start": "Start is ordered: a node takes the task, as soon as one can.",
    "restart": "Restart is ordered.",
    "stop": "Stop is ordered: the task stores its position and ends.",
    "reset": "The position is set.",
    "undo": "The position is what it was before.",
    "silence": "It is silent: nothing is told for so long; what is still wrong then is.",
    "told": "The silence is over.",
    "replay": "The records are at the ends of their partitions, and their letters are settled.",
    "drop": "The letters are settled.",
}

router = APIRouter()


@dataclass(frozen=True, slots=True)
class _Shared:
    """What all requests share."""

    tasks: views.StoredTasks
    overviews: views.Overviews


def _shared(request: Request) -> _Shared:
    state = request.app.state
    if not hasattr(state, "console"):
        tasks = views.StoredTasks(state.bus)
        state.console = _Shared(tasks, views.Overviews(state.bus, tasks))
    shared: _Shared = state.console
    return shared


def _task_address(task_id: str, more: str = "") -> str:
    return f"/tasks/{quote(task_id, safe='')}{more}"


# Overview


@router.get("/")
def overview_page(request: Request, q: str = "", state: str = "") -> Response:
    live = f"/live/overview?{urlencode({'q': q, 'state': state})}"
    values = {"q": q, "state": state, "states": list(State), **_overview_values(request, q, state)}
    return page(request, "overview.html", values, section="/", live=live)


@router.get("/live/overview")
def overview_live(request: Request, q: str = "", state: str = "") -> Response:
    return stream(request, lambda: live_parts("overview.html", _overview_values(request, q, state)))


def _overview_values(request: Request, word: str, state: str) -> dict[str, Any]:
    nodes = _nodes(bus_of(request))
    found = views.overview(_shared(request).overviews.rows(), word, state)
    return {
        "overview": found,
        "is_filtered": bool(word or state),
        "nodes_there": sum(node.is_there for node in nodes),
        "nodes": nodes,
    }


# Task


@router.get("/tasks/{task_id}")
def task_page(request: Request, task_id: str, done: str = "") -> Response:
    live = f"/live{_task_address(task_id)}"
    values = {
        **_task_values(request, task_id),
        **_task_text(request, task_id),
        "durations": alarms.DURATIONS,
        "done": DONE.get(done, ""),
    }
    return page(request, "task.html", values, section="/", live=live)


@router.get("/live/tasks/{task_id}")
def task_live(request: Request, task_id: str) -> Response:
    actions.known_task(bus_of(request), task_id)
    return stream(request, lambda: live_parts("task.html", _task_values(request, task_id)))


def _task_values(request: Request, task_id: str) -> dict[str, Any]:
    bus = bus_of(request)
    status, nodes = actions.known_task(bus, task_id), TaskNodes(bus.client)
    lines, no_log = views.log_tail(status)
    return {
        "status": status,
        "is_logged_in": is_logged_in(request),
        "has_token": bus.token is not None,
        "here": _task_address(task_id),
        "charts": views.charts_of(ThroughputHistory(bus.client).read(task_id), time.time()),
        "places": views.places(bus, task_id),
        "changes": views.position_changes(bus, task_id),
        "alarms": alarms.alarms_of(bus, task_id),
        "of_state": OF_STATE,
        "failures": nodes.errors(task_id)[::-1],
        "log": lines,
        "no_log": no_log,
    }


def _task_text(request: Request, task_id: str) -> dict[str, Any]:
    """What the task's text says, which is not live."""
    tasks = _shared(request).tasks
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
    return {
        "route": None if task is None else views.route_of(task),
        "settings": views.settings(inspection.entries.values()),
        "findings": views.findings_of(inspection),
        "damage": "",
        "keeps_letters": task is not None and views.keeps_letters(task),
    }


@router.post("/tasks/{task_id}/start")
def start(request: Request, task_id: str) -> Response:
    actions.start(bus_of(request), task_id, operator_of(request))
    return RedirectResponse(_task_address(task_id, "?done=start"), 303)


@router.post("/tasks/{task_id}/restart")
def restart(request: Request, task_id: str) -> Response:
    actions.restart(bus_of(request), task_id, operator_of(request))
    return RedirectResponse(_task_address(task_id, "?done=restart"), 303)


@router.post("/tasks/{task_id}/stop")
def stop(request: Request, task_id: str) -> Response:
    actions.stop(bus_of(request), task_id, operator_of(request))
    return RedirectResponse(_task_address(task_id, "?done=stop"), 303)


# Reset


@router.get("/tasks/{task_id}/reset")
def reset_page(
    request: Request, task_id: str, to: str = "", topic: str = "", partition: str = ""
) -> Response:
    """Without a place: asks for it. With one: says what it means, before anything is set."""
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
    status = actions.known_task(bus, task_id)
    targets = {}
    if to and refusal is None:
        try:
            targets = actions.reset_preview(bus, task_id, to, topic or None, _partition(partition))
        except CdcError as error:
            refusal = error
    task = _shared(request).tasks.task(task_id)
    values = {
        "status": status,
        "route": None if task is None else views.route_of(task),
        "places": views.places(bus, task_id),
        "to": to,
        "topic": topic,
        "partition": partition,
        "targets": targets,
        "refusal": "" if refusal is None else str(refusal),
    }
    return page(
        request,
        "reset.html",
        values,
        section="/",
        status=200 if refusal is None else status_of_error(refusal),
    )


@router.post("/tasks/{task_id}/reset")
def reset(
    request: Request,
    task_id: str,
    to: Annotated[str, Form()],
    topic: Annotated[str, Form()] = "",
    partition: Annotated[str, Form()] = "",
    live: Annotated[bool, Form()] = False,
) -> Response:
    try:
        actions.reset(
            bus_of(request),
            task_id,
            to,
            operator_of(request),
            topic or None,
            _partition(partition),
            live,
        )
    except CdcError as error:
        return _reset_page(request, task_id, to, topic, partition, error)
    return RedirectResponse(_task_address(task_id, "?done=reset"), 303)


@router.post("/tasks/{task_id}/undo")
def undo(request: Request, task_id: str, swimlane: Annotated[str, Form()]) -> Response:
    actions.undo(bus_of(request), task_id, swimlane, operator_of(request))
    return RedirectResponse(_task_address(task_id, "?done=undo"), 303)


def _partition(text: str) -> int | None:
    if not text:
        return None
    if not text.isdecimal():
        raise Refused(422, "a partition is a whole number, such as 0")
    return int(text)


# Nodes


@router.get("/nodes")
def nodes_page(request: Request) -> Response:
    return page(request, "nodes.html", _node_values(request), section="/nodes", live="/live/nodes")


@router.get("/live/nodes")
def nodes_live(request: Request) -> Response:
    return stream(request, lambda: live_parts("nodes.html", _node_values(request)))


def _node_values(request: Request) -> dict[str, Any]:
    bus = bus_of(request)
    done = audited_actions(bus.client, ACTIONS)
    return {"nodes": _nodes(bus), "audit": done[::-1], "is_logged_in": is_logged_in(request)}


def _nodes(bus: WebBus) -> list[NodeInfo]:
    nodes = BusNodes(bus.client)
    return [info for node_id in nodes.ids() if (info := nodes.seen(node_id)) is not None]


@router.post("/nodes/{node_id}/drain")
def drain(request: Request, node_id: str) -> Response:
    actions.drain(bus_of(request), node_id, operator_of(request))
    return RedirectResponse("/nodes", 303)


@router.post("/nodes/{node_id}/resume")
def resume(request: Request, node_id: str) -> Response:
    actions.resume(bus_of(request), node_id, operator_of(request))
    return RedirectResponse("/nodes", 303)


@router.post("/nodes/{node_id}/limit")
def limit(
    request: Request, node_id: str, swimlanes: Annotated[int, Form(ge=0, lt=2**31)]
) -> Response:
    actions.limit(bus_of(request), node_id, swimlanes, operator_of(request))
    return RedirectResponse("/nodes", 303)


# Alarms


@router.get("/alarms")
def alarms_page(request: Request, done: str = "") -> Response:
    bus = bus_of(request)
    values = {
        **_alarm_values(request),
        "tasks": TaskNodes(bus.client).ids(),
        "durations": alarms.DURATIONS,
        "told_where": alarms.told_where(bus),
        "done": DONE.get(done, ""),
    }
    return page(request, "alarms.html", values, section="/alarms", live="/live/alarms")


@router.get("/live/alarms")
def alarms_live(request: Request) -> Response:
    return stream(request, lambda: live_parts("alarms.html", _alarm_values(request)))


def _alarm_values(request: Request) -> dict[str, Any]:
    bus = bus_of(request)
    known = [alarms.alarms_of(bus, task_id) for task_id in TaskNodes(bus.client).ids()]
    notices = sorted(
        (notice for each in known for notice in each.notices),
        key=lambda notice: notice.at,
        reverse=True,
    )
    return {
        "raised": sorted(
            (alarm for each in known for alarm in each.raised),
            key=lambda alarm: alarm.since,
            reverse=True,
        ),
        "silent": [each for each in known if each.silent_until],
        "notices": notices[:NOTICES],
        "is_logged_in": is_logged_in(request),
    }


@router.post("/alarms/silence")
def silence_tasks(
    request: Request, duration: Annotated[str, Form(alias="for")], task: Annotated[str, Form()] = ""
) -> Response:
    """Without a task: all that there are now."""
    bus = bus_of(request)
    actions.silence(
        bus,
        [task] if task else TaskNodes(bus.client).ids(),
        _silence_seconds(duration),
        operator_of(request),
    )
    return RedirectResponse(f"/alarms?done={_silenced(duration)}", 303)


@router.post("/tasks/{task_id}/silence")
def silence_task(
    request: Request, task_id: str, duration: Annotated[str, Form(alias="for")]
) -> Response:
    actions.silence(bus_of(request), [task_id], _silence_seconds(duration), operator_of(request))
    return RedirectResponse(_task_address(task_id, f"?done={_silenced(duration)}"), 303)


def _silence_seconds(duration: str) -> float:
    try:
        return 0.0 if duration == alarms.OFF else duration_seconds(duration)
    except ValueError as error:
        raise Refused(422, f"for how long: {error}") from error


def _silenced(duration: str) -> str:
    return "told" if duration == alarms.OFF else "silence"


# Topics


@router.get("/topics")
def topics_page(request: Request) -> Response:
    clusters = topics.clusters(_shared(request).tasks.all())
    return page(request, "topics.html", {"clusters": clusters}, section="/topics")


@dataclass(frozen=True, slots=True)
class _Tail:
    """What of a topic is to be shown."""

    topic: str
    task: str
    table: str = ""
    key: str = ""
    op: str = ""
    newest: int = NEWEST

    @property
    def query(self) -> str:
        return urlencode(
            {
                "task": self.task,
                "table": self.table,
                "key": self.key,
                "op": self.op,
                "newest": self.newest,
            }
        )


Newest = Annotated[int, Query(ge=1, le=MOST_NEWEST)]


@router.get("/topics/{topic}")
def topic_page(
    request: Request,
    topic: str,
    task: str = "",
    table: str = "",
    key: str = "",
    op: str = "",
    newest: Newest = NEWEST,
) -> Response:
    if (refused := _without_login(request)) is not None:
        return refused
    wanted = _Tail(topic, task or _task_of(request, topic), table, key, op, newest)
    live = f"/live/topics/{quote(topic, safe='')}?{wanted.query}"
    values = {"wanted": wanted, "ops": [each.value for each in Op], **_tail_values(request, wanted)}
    return page(request, "topic.html", values, section="/topics", live=live)


@router.get("/live/topics/{topic}")
def topic_live(
    request: Request,
    topic: str,
    task: str,
    table: str = "",
    key: str = "",
    op: str = "",
    newest: Newest = NEWEST,
) -> Response:
    if (refused := _without_login(request)) is not None:
        return refused
    wanted = _Tail(topic, task, table, key, op, newest)
    return stream(
        request, lambda: live_parts("topic.html", _tail_values(request, wanted)), TAIL_SECONDS
    )


def _without_login(request: Request) -> Response | None:
    """Where to go instead: what rows hold is for those who have the token, where there is one,
    also on loopback."""
    if bus_of(request).token is None or is_logged_in(request):
        return None
    return RedirectResponse(f"/login?next={quote(request.url.path)}", 303)


def _task_of(request: Request, topic: str) -> str:
    for task in _shared(request).tasks.all():
        if topic in topics.topics_of(task):
            return task.task_id
    raise Refused(404, f"no task names topic {topic}")


def _tail_values(request: Request, wanted: _Tail) -> dict[str, Any]:
    task = actions.stored_task(bus_of(request), wanted.task)
    tables = wanted.table.split()
    today = f"{datetime.now(UTC):%Y-%m-%d}"
    return {
        "today": today,
        "rows": topics.tail(
            task, wanted.topic, wanted.newest, tables, wanted.key.strip(), wanted.op.lower()
        ),
    }


# Lineage


@router.get("/lineage")
def lineage_page(request: Request, q: str = "") -> Response:
    found = sorted(
        {hop for way in ways(_shared(request).tasks.all(), q.strip()) for hop in way.hops()}
    )
    return page(
        request, "lineage.html", {"q": q, "ways": found, "graph": graph(found)}, section="/lineage"
    )


# Dead letters


@router.get("/letters")
def letters_page(request: Request) -> Response:
    bus, away = bus_of(request), dict[str, str]()
    keepers = [task for task in _shared(request).tasks.all() if views.keeps_letters(task)]
    rows = [
        {"task_id": task.task_id, "route": views.route_of(task), **_letter_count(bus, task, away)}
        for task in keepers
    ]
    return page(request, "letters.html", {"rows": rows}, section="/letters")


def _letter_count(
    bus: WebBus, task: FetchTask | LoadTask, away: dict[str, str]
) -> Mapping[str, Any]:
    """`away`: why a Kafka has not answered, which is asked once only, as that takes long."""
    servers = access_of(task).servers
    if servers not in away:
        try:
            dead_letters = actions.dead_letters(bus, task.task_id)
            return {
                "open": len(dead_letters),
                "newest": max((dead_letter.time for dead_letter in dead_letters), default=""),
                "away": "",
            }
        except CdcError as error:
            away[servers] = str(error)
    return {"open": None, "newest": "", "away": away[servers]}


@router.get("/letters/{task_id}")
def task_letters_page(request: Request, task_id: str, done: str = "") -> Response:
    """With the records themselves for those who may see rows."""
    bus = bus_of(request)
    dead_letters = sorted(
        actions.dead_letters(bus, task_id), key=lambda each: each.time, reverse=True
    )
    shows_cells = bus.token is None or is_logged_in(request)
    values = {
        "task_id": task_id,
        "open": len(dead_letters),
        "letters": [letter_row(each, shows_cells) for each in dead_letters[:SHOWN]],
        "no_replay": NO_REPLAY if isinstance(actions.stored_task(bus, task_id), FetchTask) else "",
        "done": DONE.get(done, ""),
    }
    return page(request, "task_letters.html", values, section="/letters")


Records = Annotated[Sequence[str], Form(alias="record", default_factory=tuple)]
TakesAll = Annotated[bool, Form(alias="all")]
IsForced = Annotated[bool, Form(alias="force")]


@router.post("/letters/{task_id}/replay")
def replay(
    request: Request,
    task_id: str,
    records: Records,
    takes_all: TakesAll = False,
    force: IsForced = False,
) -> Response:
    actions.dlq_replay(
        bus_of(request), task_id, _chosen(records, takes_all), operator_of(request), force
    )
    return RedirectResponse(f"/letters/{quote(task_id, safe='')}?done=replay", 303)


@router.post("/letters/{task_id}/drop")
def drop(request: Request, task_id: str, records: Records, takes_all: TakesAll = False) -> Response:
    actions.dlq_drop(bus_of(request), task_id, _chosen(records, takes_all), operator_of(request))
    return RedirectResponse(f"/letters/{quote(task_id, safe='')}?done=drop", 303)


def _chosen(records: Sequence[str], takes_all: bool) -> Sequence[str] | None:
    if not records and not takes_all:
        raise Refused(422, "no letter was chosen; go back and tick those that are meant")
    return None if takes_all else records
