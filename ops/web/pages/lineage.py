"""The page of lineage."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from cdcbus.ops.web.pages.lineage_graph import graph
from cdcbus.ops.web.pages.rendering import page
from cdcbus.ops.web.pages.shared import shared
from cdcbus.tasks.control.lineage import ways

router = APIRouter()


@router.get("/lineage")
def lineage_page(request: Request, q: str = "") -> Response:
    found = sorted(
        {hop for way in ways(shared(request).tasks.all(), q.strip()) for hop in way.hops()}
    )
    return page(
        request, "lineage.html", {"q": q, "ways": found, "graph": graph(found)}, section="/lineage"
    )
