"""Logging in with a token, and out again."""

from __future__ import annotations

import html
import time
from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Form, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from cdcbus.ops.web.access.origin import is_tls
from cdcbus.ops.web.access.sessions import SESSION_SECONDS, new_session
from cdcbus.ops.web.answers import Refused
from cdcbus.ops.web.auth import COOKIE, NAME, NO_TOKEN, own_page, person_of, session_of
from cdcbus.ops.web.bus import WebBus, bus_of
from cdcbus.ops.web.sign_in.onward import HINT, address_of, onward

router = APIRouter(include_in_schema=False)
LOGIN = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>cdcbus: log in</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="/static/icon.svg" type="image/svg+xml">
<link rel="stylesheet" href="/static/console.css">
<script src="/static/theme.js"></script></head><body><main><h1>Log in</h1>{refusal}{ways}
</main></body></html>"""
PROVIDER = """<p><a class="button primary" id="provider" href="/login/oidc?next={next}">Sign in with
{host}</a></p>"""
TOKEN = """<p>{sentence}</p>
<form method="post" action="/login"><input type="hidden" name="next" value="{next}">
<p><label>Your name, for the audit
<input name="name" required pattern="[A-Za-z0-9_.@\\-]{{1,40}}" autocomplete="username"></label></p>
<p><label>Your token, or that of this node
<input name="token" type="password" required autocomplete="current-password"></label></p>
<p><button>Log in</button></p></form>"""
BY_TOKEN = "Changes need the token of this node, which is its setting http.token."
OR_BY_TOKEN = "Or with a token, as http.token or http.person.NAME.token has it:"


def login_form(bus: WebBus, next: str, refusal: str = "", status: int = 200) -> HTMLResponse:
    """A page with the ways in that this node has. `refusal`: why the last attempt failed."""
    # `next` comes with the address, so only paths of our own are accepted.
    ways, after = "", html.escape(own_page(next))
    if bus.provider is not None:
        ways += PROVIDER.format(next=quote(own_page(next)), host=html.escape(bus.provider.host))
    if bus.everybody or bus.provider is None:
        ways += TOKEN.format(sentence=OR_BY_TOKEN if ways else BY_TOKEN, next=after)
    note = ""
    if refusal:
        note = f'<div class="note bad" role="alert"><p>{html.escape(refusal)}</p></div>'
    return HTMLResponse(LOGIN.format(refusal=note, ways=ways), status)


@router.get("/login")
def login_page(request: Request, next: str = "/") -> HTMLResponse:
    return login_form(bus_of(request), next)


@router.post("/login")
def login(
    request: Request,
    name: Annotated[str, Form()] = "",
    token: Annotated[str, Form()] = "",
    next: Annotated[str, Form()] = "/",
) -> Response:
    bus = bus_of(request)
    if not bus.everybody:
        raise Refused(403, NO_TOKEN)
    if not NAME.fullmatch(name):
        return login_form(bus, next, "A name has 1 to 40 letters, digits, or . _ @ -", 400)
    try:
        person = person_of(bus, token, request)
    except Refused as refused:
        return login_form(bus, next, f"Refused: {refused.sentence}.", refused.status)
    if person is None:
        return login_form(bus, next, "This is not the token of this node.", 401)
    # The node's token has no name, but must not borrow a person's: the audit would name that one.
    if name != person.name and (person.name or bus.is_person(name)):
        return login_form(bus, next, "This name and this token are not of one person.", 401)
    answer = RedirectResponse(own_page(next), 303)
    keep_session(request, answer, new_session(name, time.time()).cookie(person.token))
    return answer


@router.post("/logout")
def logout(request: Request) -> Response:
    """The cookie is invalid afterwards, wherever it was copied to. While ZooKeeper is unreachable,
    the answer says that only this node knows of it. A person who came from a provider is sent
    there, to log out there as well."""
    bus = bus_of(request)
    found = session_of(bus, request)
    if found is not None:
        bus.ended_sessions.end(bus.client, found[0])
    answer: Response = RedirectResponse("/", 303)
    if found is not None and found[1].is_from_provider and bus.provider is not None:
        after = f"{address_of(request, bus.provider)}/login"
        end = bus.provider.end_address(request.cookies.get(HINT, ""), after)
        if end:
            answer = onward(end, f"Also log out at {bus.provider.host}")
        answer.delete_cookie(HINT, path="/logout", httponly=True, samesite="strict")
    answer.delete_cookie(COOKIE, httponly=True, samesite="strict", secure=is_tls(request))
    return answer


def keep_session(request: Request, answer: Response, cookie: str) -> None:
    """Gives the browser a session."""
    answer.set_cookie(
        COOKIE,
        cookie,
        max_age=SESSION_SECONDS,
        httponly=True,
        samesite="strict",
        secure=is_tls(request),
    )
