"""Leads from one site to another where a redirect would not work."""

from __future__ import annotations

import html

from starlette.requests import HTTPConnection
from starlette.responses import HTMLResponse

from cdcbus.ops.web.access.origin import is_tls
from cdcbus.ops.web.oidc.provider import Provider

HINT = "cdcbus_hint"
PAGE = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>cdcbus</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="refresh" content="0; url={address}">
<link rel="icon" href="/static/icon.svg" type="image/svg+xml">
<link rel="stylesheet" href="/static/console.css">
<script src="/static/theme.js"></script></head><body><main><h1>One moment</h1>
<p><a href="{address}">{text}</a></p></main></body></html>"""


def onward(address: str, text: str) -> HTMLResponse:
    """A page that leads to another on its own. After a request from another site, a redirect would
    not bring along a cookie that is SameSite=Strict; after a form, it could not lead to another
    site, as our policy says `form-action 'self'`."""
    return HTMLResponse(PAGE.format(address=html.escape(address), text=html.escape(text)))


def address_of(connection: HTTPConnection, provider: Provider) -> str:
    """The console's address for browsers."""
    if provider.settings.address is not None:
        return provider.settings.address
    host = connection.headers.get("host", "")
    scheme = "https" if is_tls(connection) else "http"
    return f"{scheme}://{host}"
