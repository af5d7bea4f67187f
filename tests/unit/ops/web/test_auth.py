"""Who may do what over HTTP: each way to ask, on loopback and elsewhere, with and without a
token."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from cdcbus.ops.web import auth
from cdcbus.ops.web.access.guesses import FREE_GUESSES, Guesses
from cdcbus.ops.web.access.origin import is_loopback
from cdcbus.ops.web.access.sessions import new_session
from cdcbus.ops.web.app import make_app
from cdcbus.ops.web.bus import WebBus
from cdcbus.tasks.control.bus_settings import read_bus_settings

TOKEN = "0123456789abcdef-token"
HERE = {"host": "127.0.0.1:8190"}
SAME = {**HERE, "origin": "http://127.0.0.1:8190"}
BEARER = {**HERE, "authorization": f"Bearer {TOKEN}"}
BUS = WebBus(None, read_bus_settings({}, None, {}), "n1", TOKEN)
APPS: dict[tuple[str, str | None], FastAPI | None] = {}
OPEN, SILENT = replace(BUS, host="0.0.0.0"), replace(BUS, token=None)


def ask(
    bus: WebBus, method: str, path: str, headers: dict[str, str], **more: Any
) -> httpx.Response:
    """What the pages answer. The application is made once for each kind of bus, as that takes a
    while."""
    app = APPS.setdefault((bus.host, bus.token), None) or make_app(bus)
    APPS[bus.host, bus.token] = app

    async def asked() -> httpx.Response:
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(app, raise_app_exceptions=False),
            base_url="http://127.0.0.1:8190",
        ) as client:
            return await client.request(method, path, headers=headers, **more)

    return asyncio.run(asked())


def cookie(bus: WebBus = BUS, name: str = "ada", at: float | None = None) -> dict[str, str]:
    session = new_session(name, time.time() if at is None else at)
    return {"cookie": f"{auth.COOKIE}={session.cookie(bus.token or '')}"}


@pytest.mark.parametrize(
    ("bus", "method", "headers", "status"),
    [
        (BUS, "GET", HERE, 200),
        (SILENT, "GET", HERE, 200),
        (BUS, "GET", {"host": "localhost"}, 200),
        (BUS, "GET", {"host": "[::1]:8190"}, 200),
        (BUS, "GET", {"host": "evil.example:8190"}, 401),
        (BUS, "GET", {"host": "127.0.0.1.evil.example"}, 401),
        (BUS, "GET", {"host": "localhost.evil.example"}, 401),
        (BUS, "GET", {"host": ""}, 401),
        (BUS, "GET", {"host": "[::1"}, 401),
        (BUS, "POST", {"host": "evil.example:8190", "origin": "http://evil.example:8190"}, 401),
        (BUS, "GET", {**HERE, "x-forwarded-for": "10.0.0.1"}, 401),
        (BUS, "GET", {**HERE, "forwarded": "for=10.0.0.1"}, 401),
        (BUS, "GET", {**BEARER, "host": "cdcbus.example"}, 200),
        (BUS, "GET", {**HERE, "authorization": "Bearer wrong"}, 401),
        (BUS, "GET", {**HERE, "authorization": f"Basic {TOKEN}"}, 401),
        (BUS, "POST", HERE, 401),
        (BUS, "POST", SAME, 401),
        (SILENT, "POST", SAME, 403),
        (SILENT, "POST", {**HERE, "authorization": "Bearer "}, 401),
        (BUS, "POST", BEARER, 405),  # let pass
        (BUS, "DELETE", HERE, 401),
        (BUS, "POST", {**SAME, **cookie()}, 405),
        (BUS, "POST", {**HERE, **cookie()}, 403),
        (BUS, "POST", {**SAME, **cookie(), "origin": "http://127.0.0.1:9999"}, 403),
        (BUS, "POST", {**SAME, **cookie(), "origin": "null"}, 403),
        (BUS, "POST", {**SAME, **cookie(at=0)}, 401),
        (BUS, "POST", {**SAME, **cookie(replace(BUS, token=TOKEN + "2"))}, 401),
        (SILENT, "POST", {**SAME, **cookie(replace(BUS, token=""))}, 403),
        (OPEN, "GET", HERE, 401),
        (OPEN, "GET", {"host": "node7.example"}, 401),
        (OPEN, "GET", {**BEARER, "host": "node7.example"}, 200),
        (OPEN, "GET", {**HERE, **cookie()}, 200),
        (OPEN, "POST", HERE, 401),
    ],
)
def test_who_may_do_what(bus: WebBus, method: str, headers: dict[str, str], status: int) -> None:
    answer = ask(bus, method, "/api/openapi.json", headers)
    assert answer.status_code == status, answer.text
    assert TOKEN not in answer.text
    if status != 200:
        assert answer.json()["error"]


@pytest.mark.parametrize(
    "path",
    [
        "/login",
        "/static/%2e%2e/auth.py",
        "/static/%2e%2e%2fauth.py",
        "/static//etc/passwd",
        "/static/console.css",
    ],
)
def test_elsewhere_login_and_static_files_are_free_and_lead_nowhere_else(path: str) -> None:
    answer = ask(OPEN, "GET", path, HERE)
    assert answer.status_code == (200 if path in ("/login", "/static/console.css") else 404)
    assert "hmac" not in answer.text


def test_a_node_without_token_says_how_to_get_one() -> None:
    assert "CDCBUS_HTTP_TOKEN" in ask(SILENT, "POST", "/api/tasks/x/start", HERE).json()["error"]
    assert (
        "CDCBUS_HTTP_TOKEN"
        in ask(SILENT, "POST", "/login", SAME, data={"name": "ada", "token": ""}).json()["error"]
    )


def test_logging_in_gives_a_cookie_that_no_script_and_no_other_site_gets() -> None:
    answer = ask(
        BUS,
        "POST",
        "/login",
        SAME,
        data={"name": "ada", "token": TOKEN, "next": "/tasks/shop?tab=errors"},
    )
    assert (answer.status_code, answer.headers["location"]) == (303, "/tasks/shop?tab=errors")
    kept = answer.headers["set-cookie"]
    assert "HttpOnly" in kept
    assert "SameSite=strict" in kept
    assert TOKEN not in kept
    assert (
        ask(
            BUS, "POST", "/api/openapi.json", {**SAME, "cookie": kept.partition(";")[0]}
        ).status_code
        == 405
    )


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"name": "ada", "token": "wrong"}, 401),
        ({"name": "ada"}, 401),
        ({"name": "", "token": TOKEN}, 400),
        ({"name": "ada lovelace\n", "token": TOKEN}, 400),
        ({"name": "a" * 41, "token": TOKEN}, 400),
    ],
)
def test_a_wrong_login_gives_none(fields: dict[str, str], status: int) -> None:
    answer = ask(BUS, "POST", "/login", SAME, data=fields)
    assert answer.status_code == status
    assert "set-cookie" not in answer.headers


def test_another_site_cannot_log_somebody_in() -> None:
    stranger = {**HERE, "origin": "http://evil.example"}
    assert (
        ask(BUS, "POST", "/login", stranger, data={"name": "ada", "token": TOKEN}).status_code
        == 403
    )


@pytest.mark.parametrize(
    "after",
    [
        "//evil.example",
        "https://evil.example",
        "/\\evil.example",
        "javascript:alert(1)",
        "/%0d%0ax",
        "/a\r\nb",
    ],
)
def test_after_the_login_one_stays_here(after: str) -> None:
    answer = ask(BUS, "POST", "/login", SAME, data={"name": "ada", "token": TOKEN, "next": after})
    assert answer.headers["location"] in ("/", "/%0d%0ax")
    assert "evil" not in ask(BUS, "GET", "/login", HERE, params={"next": after}).text


def test_people_without_a_session_are_led_to_the_login() -> None:
    answer = ask(OPEN, "GET", "/tasks/shop", {**HERE, "accept": "text/html"})
    assert (answer.status_code, answer.headers["location"]) == (303, "/login?next=/tasks/shop")


@pytest.mark.parametrize(
    ("path", "known", "length"),
    [
        ("/api/nodes/n1/limit", BEARER, None),
        ("/api/nodes/n1/limit", BEARER, "1100000"),
        ("/api/nodes/n1/limit", BEARER, "-1"),
        ("/api/nodes/n1/limit", BEARER, "x"),
        ("/login", SAME, None),
        ("/login", SAME, "70000"),
    ],
)
def test_a_body_that_is_too_large_is_refused_before_it_is_read(
    path: str, known: dict[str, str], length: str | None
) -> None:
    async def endless() -> Any:
        while True:
            yield b" " * 1024

    headers = {**known, **({} if length is None else {"content-length": length})}
    assert ask(BUS, "POST", path, headers, content=endless()).status_code == 413


def test_who_is_known_may_send_the_text_of_a_large_task_and_strangers_little() -> None:
    form = {"name": "ada", "token": TOKEN, "next": "x" * 200_000}
    assert ask(BUS, "POST", "/login", SAME, data=form).status_code == 413
    assert ask(BUS, "POST", "/login", BEARER, data=form).status_code == 303


def test_a_form_may_have_a_field_for_each_of_thousands_of_tasks() -> None:
    form = {"name": "ada", "token": TOKEN, "task": [f"shop-{each}" for each in range(3_000)]}
    assert ask(BUS, "POST", "/login", BEARER, data=form).status_code == 303


def test_every_answer_tells_browsers_to_be_careful() -> None:
    for path in ("/login", "/nowhere", "/api/openapi.json"):
        headers = ask(BUS, "GET", path, HERE).headers
        assert (
            headers["x-content-type-options"],
            headers["x-frame-options"],
            headers["cache-control"],
        ) == ("nosniff", "DENY", "no-store")
        assert "default-src 'self'" in headers["content-security-policy"]


def test_behind_tls_the_cookie_is_for_tls_only() -> None:
    fields = {"name": "ada", "token": TOKEN}
    behind = {"host": "cdcbus.example", "origin": "https://cdcbus.example"}
    kept = ask(replace(BUS, host="::"), "POST", "/login", behind, data=fields).headers["set-cookie"]
    assert "; Secure" in kept
    assert "Secure" not in ask(BUS, "POST", "/login", SAME, data=fields).headers["set-cookie"]


def test_after_wrong_tokens_a_client_waits_and_even_the_right_one_is_not_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # No second passes, however slow the machine is.
    monkeypatch.setattr(auth, "time", SimpleNamespace(monotonic=lambda: 1000.0))
    bus = replace(BUS, guesses=Guesses(), host="10.0.0.9")
    for number in range(FREE_GUESSES):
        wrong = {**HERE, "authorization": f"Bearer {number}"}
        assert ask(bus, "GET", "/api/openapi.json", wrong).status_code == 401
    refused = ask(bus, "GET", "/api/openapi.json", BEARER)
    assert refused.status_code == 429
    assert "was not checked" in refused.json()["error"]
    fields = {"name": "ada", "token": TOKEN}
    assert ask(bus, "POST", "/login", SAME, data=fields).status_code == 429
    # Who has a session goes on.
    assert ask(bus, "GET", "/api/openapi.json", {**HERE, **cookie()}).status_code == 200


def test_the_token_is_not_in_what_a_bus_looks_like() -> None:
    assert TOKEN not in repr(BUS)


@pytest.mark.parametrize(
    ("host", "is_it"),
    [
        ("127.0.0.1", True),
        ("127.8.8.8", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("10.0.0.1", False),
        ("", False),
        ("x", False),
    ],
)
def test_which_addresses_are_loopback(host: str, is_it: bool) -> None:
    assert is_loopback(host) is is_it
