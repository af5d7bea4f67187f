"""The application that a node serves: `auth` admits requests; `api`, `porter`, `health` and
`metrics` answer programs, `pages` answer people.

A page is served whole; where it has a `live` address, its stream reads the same values again. Pages
hold no cell values except rows of topics and dead letters, which need the token if one is set.
"""

from __future__ import annotations

import logging
from pathlib import Path

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.staticfiles import StaticFiles

from cdcbus import __version__
from cdcbus.ops.web import api, auth, health, metrics, porter
from cdcbus.ops.web.answers import Refused, refusal, status_of_error
from cdcbus.ops.web.bus import WebBus
from cdcbus.ops.web.editing import edit_page, move, new_page
from cdcbus.ops.web.pages import (
    alarms,
    dead_letters,
    lineage,
    nodes,
    overview,
    task_page,
    topics,
)
from cdcbus.ops.web.records import letter_row, log_page, search_page
from cdcbus.ops.web.sign_in import by_provider, login
from cdcbus.plugins.errors import CdcError

LOG = logging.getLogger(__name__)
STATIC = Path(__file__).parent / "static"


def make_app(bus: WebBus) -> FastAPI:
    """Builds the application. Every error becomes one sentence that repeats nothing of the
    request."""
    app = FastAPI(
        title="cdcbus",
        version=__version__,
        openapi_url="/api/openapi.json",
        # Both pages would load scripts of another site, which our policy forbids.
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        # The size of a body is limited instead: all tasks of an overview can be ticked.
        form_limits={"max_fields": auth.KNOWN_BODY_BYTES},
    )
    app.state.bus = bus
    for page in (
        overview,
        edit_page,
        move,
        new_page,
        task_page,
        nodes,
        alarms,
        search_page,
        log_page,
        topics,
        lineage,
        letter_row,
        dead_letters,
    ):
        app.include_router(page.router, include_in_schema=False)
    for way in (login, by_provider):
        app.include_router(way.router)
    for part in (api, porter, health, metrics):
        app.include_router(part.router)
    app.include_router(porter.alarm_router)
    app.mount("/static", StaticFiles(directory=STATIC))
    app.add_middleware(auth.Guard, bus=bus)
    _add_error_handlers(app)
    return app


def _add_error_handlers(app: FastAPI) -> None:
    app.add_exception_handler(Refused, _on_refused)
    app.add_exception_handler(CdcError, _on_error)
    app.add_exception_handler(RequestValidationError, _on_invalid)
    app.add_exception_handler(HTTPException, _on_http)
    app.add_exception_handler(Exception, _on_unexpected)


def _on_refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, Refused)
    return _answer(request, error.status, error.sentence)


def _on_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, CdcError)
    return _answer(request, status_of_error(error), str(error))


def _on_invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    # Not the other members of an error, which repeat what was sent.
    sentences: dict[str, str] = {}  # the last one of each place
    for each in error.errors():
        place = ".".join(map(str, each["loc"]))
        sentences[place] = f"{place}: {each['msg']}"
    return _answer(request, 422, "; ".join(sentences.values()))


def _on_http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    sentence = {404: "there is no such page", 405: "this page does not take this method"}.get(
        error.status_code, str(error.detail)
    )
    return _answer(request, error.status_code, sentence)


def _on_unexpected(request: Request, error: Exception) -> Response:
    LOG.error(
        "a page of this node failed with an unexpected %s", type(error).__name__, exc_info=error
    )
    return _answer(
        request,
        500,
        f"unexpected {type(error).__name__}; please report it, with the log of the node",
    )


def _answer(request: Request, status: int, sentence: str) -> Response:
    accept = request.headers.get("accept", "")
    is_get = request.method == "GET"
    return refusal(request.scope["path"], accept, status, sentence, is_get=is_get)
