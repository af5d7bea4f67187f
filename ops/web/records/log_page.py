"""The page of a task's log: searched, and followed while it grows."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from fastapi import APIRouter, Request
from starlette.responses import Response

from cdcbus.ops.web import actions
from cdcbus.ops.web.bus import bus_of
from cdcbus.ops.web.pages.live import stream
from cdcbus.ops.web.pages.rendering import live_parts, page
from cdcbus.ops.web.pages.shared import task_address
from cdcbus.ops.web.records.log_search import LEVELS, search

router = APIRouter()
# The longest search takes a fraction of a second.
FOLLOW_SECONDS = 4.0


@router.get("/tasks/{task_id}/log")
def log_page(request: Request, task_id: str, q: str = "", level: str = "") -> Response:
    values = {"q": q, "level": level, "levels": LEVELS, **_values(request, task_id, q, level)}
    live = f"/live{task_address(task_id)}/log?{urlencode({'q': q, 'level': level})}"
    return page(request, "log.html", values, section="/", live=live)


@router.get("/live/tasks/{task_id}/log")
def log_live(request: Request, task_id: str, q: str = "", level: str = "") -> Response:
    # Checked before the stream begins: later the answer can no longer be a 404.
    actions.known_task(bus_of(request), task_id)
    return stream(
        request, lambda: live_parts("log.html", _values(request, task_id, q, level)), FOLLOW_SECONDS
    )


def _values(request: Request, task_id: str, word: str, level: str) -> dict[str, Any]:
    bus = bus_of(request)
    status = actions.known_task(bus, task_id)
    found = search(status, bus.settings.log_of(task_id), word, level)
    return {"status": status, "found": found}
