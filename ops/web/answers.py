"""Refusals: a sentence and a status, as JSON for programs and as a page for people."""

from __future__ import annotations

import html
from collections.abc import Iterable

from starlette.responses import HTMLResponse, JSONResponse, Response

from cdcbus.plugins.error_policy import Action, policy_of
from cdcbus.plugins.errors import CdcError, PositionConflict

PROGRAMS = ("/api/", "/inspect/", "/alarm/", "/metrics", "/healthz")
PAGE = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>cdcbus</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="/static/icon.svg" type="image/svg+xml">
<link rel="stylesheet" href="/static/console.css">
<script src="/static/theme.js"></script></head><body><main><h1>{title}</h1><p>{sentence}</p>
<p>{again}<a href="/">To the overview</a></p></main></body></html>"""
AGAIN = '<a href="">Try again</a> · '
TITLES = {
    404: "Not found",
    409: "Not possible now",
    413: "Too large",
    422: "Not understood",
    500: "Internal error",
    503: "Unavailable",
}


class Refused(Exception):
    """A refused request: the answer is a sentence, and nothing was changed."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status, self.sentence = status, sentence


def status_of_error(error: CdcError) -> int:
    """503: something is unreachable, try again. 409: the request is valid, but the current state
    does not allow it."""
    # The same again would not help.
    if isinstance(error, PositionConflict):
        return 409
    if policy_of(error).action is Action.RETRY:
        return 503
    return 409


def refusal(
    path: str,
    accept: str,
    status: int,
    sentence: str,
    headers: Iterable[tuple[str, str]] = (),
    *,
    is_get: bool = False,
) -> Response:
    """The answer for a program or a person, whichever `path` and `accept` of the request say.
    `is_get`: a page of a server that is away leads to itself, as it may be back."""
    if path.startswith(PROGRAMS) or "text/html" not in accept:
        return JSONResponse({"error": sentence}, status, dict(headers))
    page = PAGE.format(
        title=TITLES.get(status, "Refused"),
        sentence=html.escape(sentence),
        again=AGAIN if is_get and status == 503 else "",
    )
    return HTMLResponse(page, status, dict(headers))
