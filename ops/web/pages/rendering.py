"""Templates to pages. A page's live parts are the blocks of its template whose names begin with
`live_`: the page shows them, its stream sends those that have changed."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from fastapi import Request
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.responses import HTMLResponse

from cdcbus import __version__
from cdcbus.ops.web.auth import is_logged_in
from cdcbus.ops.web.bus import bus_of
from cdcbus.ops.web.pages import charts, formatting

PARTS = "live_"


def _environment() -> Environment:
    made = Environment(
        loader=FileSystemLoader(Path(__file__).parents[1] / "templates"),
        autoescape=True,
        # A misspelled name is an error, not an empty place.
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(
        count=formatting.count,
        duration=formatting.duration,
        size=formatting.size,
        plural=formatting.plural,
        moment=formatting.moment,
        parted=formatting.parted,
        segment=lambda text: quote(str(text), safe=""),
    )
    made.globals.update(sparkline=charts.sparkline, line_chart=charts.line_chart)
    # Macros for all templates; after the filters, which they use.
    made.globals["parts"] = made.get_template("parts.html").module
    return made


TEMPLATES = _environment()


def page(
    request: Request,
    template: str,
    values: Mapping[str, Any],
    section: str = "",
    live: str = "",
    status: int = 200,
) -> HTMLResponse:
    """`section`: the page of the menu that this belongs to. `live`: the address of the stream of
    its live parts."""
    bus = bus_of(request)
    # As it was asked for: `request.url` also depends on the Host header.
    here = request.scope["path"]
    if request.url.query:
        here += f"?{request.url.query}"
    frame = {
        "section": section,
        "live": live,
        "here": here,
        "operator": request.state.operator,
        "is_logged_in": is_logged_in(request),
        "has_token": bus.has_way_in and request.state.operator is None,
        "node_id": bus.node_id,
        "zookeeper": bus.settings.zookeeper,
        "version": __version__,
    }
    return HTMLResponse(
        TEMPLATES.get_template(template).render({**frame, **_with_clock(values)}), status
    )


def live_parts(template: str, values: Mapping[str, Any]) -> dict[str, str]:
    """The live parts of a page, by the id of the element that holds each."""
    found = TEMPLATES.get_template(template)
    context = found.new_context(_with_clock(values))
    parts = {}
    for name, block in found.blocks.items():
        if name.startswith(PARTS):
            parts[name] = "".join(block(context))
    return parts


def _with_clock(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values with a function `ago`, which has one clock for the whole page."""
    now = time.time()
    return {"ago": lambda stamp: formatting.ago(stamp, now), **values}
