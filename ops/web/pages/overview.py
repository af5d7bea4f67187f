"""The overview of all tasks, and actions on several of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, Form, Request
from starlette.responses import RedirectResponse, Response

from cdcbus.ops.alarms.silence import duration_seconds
from cdcbus.ops.web import actions
from cdcbus.ops.web.answers import Refused
from cdcbus.ops.web.auth import has_all_tasks, is_logged_in, operator_of
from cdcbus.ops.web.bus import WebBus, bus_of
from cdcbus.ops.web.overview.task_rows import overview_of
from cdcbus.ops.web.pages.alarms import DURATIONS, OFF
from cdcbus.ops.web.pages.formatting import plural
from cdcbus.ops.web.pages.live import stream
from cdcbus.ops.web.pages.nodes import known_nodes
from cdcbus.ops.web.pages.rendering import live_parts, page
from cdcbus.ops.web.pages.shared import shared
from cdcbus.plugins.errors import CdcError
from cdcbus.plugins.task_status import State

router = APIRouter()

DONE = {
    "start": "ordered to start",
    "restart": "ordered to restart",
    "stop": "ordered to stop",
    "silence": "silent now",
    "told": "no longer silent",
}
REFUSALS = 20  # shown; the rest is counted


@dataclass(frozen=True, slots=True)
class Asked:
    """The tasks that an overview shows and their order, as its address has them."""

    q: str = ""
    state: str = ""
    tag: str = ""
    sort: str = ""

    @property
    def is_filtered(self) -> bool:
        return bool(self.q or self.state or self.tag)

    @property
    def query(self) -> str:
        return _query(asdict(self))

    @property
    def address(self) -> str:
        return f"/?{self.query}"

    def by(self, column: str) -> str:
        """The address of the same tasks sorted by a column; a second click reverses the order."""
        sort = column
        if self.sort == column:
            sort = f"-{column}"
        return replace(self, sort=sort).address

    def with_tag(self, tag: str) -> str:
        return replace(self, tag=tag).address


def _query(fields: dict[str, str]) -> str:
    return urlencode({name: value for name, value in fields.items() if value})


def _asked(q: str = "", state: str = "", tag: str = "", sort: str = "") -> Asked:
    return Asked(q.strip(), state, tag, sort)


AskedFor = Annotated[Asked, Depends(_asked)]


@router.get("/")
def overview_page(request: Request, asked: AskedFor, done: str = "", number: int = 0) -> Response:
    note = ""
    if done in DONE:
        note = _note(number, done)
    return _page(request, asked, note)


@router.get("/live/overview")
def overview_live(request: Request, asked: AskedFor) -> Response:
    return stream(request, lambda: live_parts("overview.html", _overview_values(request, asked)))


@router.get("/tasks")
def tasks_page(asked: AskedFor) -> Response:
    """The overview under the address that the pages of tasks let one expect."""
    return RedirectResponse(asked.address, 307)


@router.post("/tasks")
def change_chosen(
    request: Request,
    asked: AskedFor,
    what: Annotated[str, Form()],
    chosen: Annotated[Sequence[str], Form(alias="task", default_factory=tuple)],
    seconds: Annotated[str, Form(alias="for")] = OFF,
) -> Response:
    """Does the same with each task that was ticked. A refusal does not stop the others."""
    bus, who = bus_of(request), operator_of(request)
    if not chosen:
        raise Refused(422, "no task was chosen; go back and tick some")
    refusals = []
    for task_id in chosen:
        try:
            _change(bus, task_id, what, seconds, who)
        except (CdcError, Refused) as error:
            refusals.append(f"{task_id}: {error}")
    # Also after refusals, as the other tasks have changed.
    shared(request).overviews.changed()
    done = what
    if (what, seconds) == ("silence", OFF):
        done = "told"
    number = len(chosen) - len(refusals)
    # No redirect, which would lose the refusals.
    if refusals:
        note = ""
        if number:
            note = _note(number, done)
        return _page(request, asked, note, refusals)
    query = _query({**asdict(asked), "done": done, "number": str(number)})
    return RedirectResponse(f"/?{query}", 303)


def _note(number: int, done: str) -> str:
    return f"{plural(number, 'task is', 'tasks are')} {DONE[done]}."


def _change(bus: WebBus, task_id: str, what: str, seconds: str, who: str) -> None:
    match what:
        case "start":
            actions.start(bus, task_id, who)
        case "stop":
            actions.stop(bus, task_id, who)
        case "restart":
            actions.restart(bus, task_id, who)
        case "silence":
            actions.silence(bus, [task_id], _silence_seconds(seconds), who)
        case _:
            raise Refused(422, "tasks cannot do this; expected start, stop, restart or silence")


def _silence_seconds(duration: str) -> float:
    if duration == OFF:
        return 0.0
    try:
        return duration_seconds(duration)
    except ValueError as error:
        raise Refused(422, str(error)) from error


def _page(request: Request, asked: Asked, done: str, refusals: Sequence[str] = ()) -> Response:
    values = {
        "states": list(State),
        "durations": DURATIONS,
        "done": done,
        "refusals": refusals[:REFUSALS],
        "more_refusals": max(0, len(refusals) - REFUSALS),
        **_overview_values(request, asked),
    }
    live = f"/live/overview?{asked.query}"
    return page(request, "overview.html", values, "/", live, status=409 if refusals else 200)


def _overview_values(request: Request, asked: Asked) -> dict[str, Any]:
    nodes = known_nodes(bus_of(request))
    rows = shared(request).overviews.rows()
    return {
        "overview": overview_of(rows, asked.q, asked.state, asked.tag, asked.sort),
        "asked": asked,
        "is_logged_in": is_logged_in(request),
        # One request can name any tasks, so it is for those who have all.
        "may_choose": has_all_tasks(request),
        "nodes_there": sum(node.is_there for node in nodes),
        "nodes": nodes,
    }
