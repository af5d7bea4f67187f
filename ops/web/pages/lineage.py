"""The page of lineage."""

from __future__ import annotations

from urllib.parse import urlencode

from fastapi import APIRouter, Request
from starlette.responses import Response

from cdcbus.ops.web.overview.task_rows import TaskRow
from cdcbus.ops.web.pages.formatting import duration
from cdcbus.ops.web.pages.lineage_graph import TaskState, graph
from cdcbus.ops.web.pages.rendering import page
from cdcbus.ops.web.pages.shared import shared
from cdcbus.plugins.task_status import State
from cdcbus.tasks.lineage.ways import ways

router = APIRouter()
ZOOMS = (50, 75, 100, 150, 200)  # per cent
LATE_SECONDS, TOO_LATE_SECONDS = 10.0, 300.0


@router.get("/lineage")
def lineage_page(request: Request, q: str = "", zoom: int = 100) -> Response:
    found = ways(shared(request).tasks.all(), q.strip())
    states = {row.status.task_id: state_of(row) for row in shared(request).overviews.rows()}
    values = {
        "q": q,
        "ways": found,
        "graph": graph(found, states),
        "states": states,
        "zoom": zoom if zoom in ZOOMS else 100,
        "zooms": [(each, _address(q, each)) for each in ZOOMS],
    }
    return page(request, "lineage.html", values, section="/lineage")


def state_of(row: TaskRow) -> TaskState:
    """The label of a task in the diagram, and its level."""
    status = row.status
    seconds = status.stat.lag_seconds if status.stat else None
    words = status.state.value
    if status.state in (State.WORKING, State.RETRYING) and seconds is not None:
        words += f", lag {duration(seconds)}"
    return TaskState(words, _level(status.state, seconds))


def _level(state: State, seconds: float | None) -> str:
    lag = seconds or 0.0
    if state is State.ERROR or lag >= TOO_LATE_SECONDS:
        return "bad"
    if state is State.RETRYING or lag >= LATE_SECONDS:
        return "warn"
    if state is State.WORKING:
        return "good"
    return ""


def _address(q: str, zoom: int) -> str:
    fields: dict[str, str | int] = {"zoom": zoom}
    if q:
        fields = {"q": q, "zoom": zoom}
    return f"/lineage?{urlencode(fields)}"
