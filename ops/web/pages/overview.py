"""The overview of all tasks."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from fastapi import APIRouter, Request
from starlette.responses import Response

from cdcbus.ops.web.bus import bus_of
from cdcbus.ops.web.pages import tasks as views
from cdcbus.ops.web.pages.live import stream
from cdcbus.ops.web.pages.nodes import known_nodes
from cdcbus.ops.web.pages.rendering import live_parts, page
from cdcbus.ops.web.pages.shared import shared
from cdcbus.plugins.task_status import State

router = APIRouter()


@router.get("/")
def overview_page(request: Request, q: str = "", state: str = "") -> Response:
    live = f"/live/overview?{urlencode({'q': q, 'state': state})}"
    values = {"q": q, "state": state, "states": list(State), **_overview_values(request, q, state)}
    return page(request, "overview.html", values, section="/", live=live)


@router.get("/live/overview")
def overview_live(request: Request, q: str = "", state: str = "") -> Response:
    return stream(request, lambda: live_parts("overview.html", _overview_values(request, q, state)))


def _overview_values(request: Request, word: str, state: str) -> dict[str, Any]:
    nodes = known_nodes(bus_of(request))
    found = views.overview(shared(request).overviews.rows(), word, state)
    return {
        "overview": found,
        "is_filtered": bool(word or state),
        "nodes_there": sum(node.is_there for node in nodes),
        "nodes": nodes,
    }
