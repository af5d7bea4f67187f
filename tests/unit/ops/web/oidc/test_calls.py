"""Asking a provider over real HTTP: whatever it answers is an object, or a sentence."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest

from cdcbus.ops.web.answers import Refused
from cdcbus.ops.web.oidc import calls
from cdcbus.ops.web.oidc.calls import AT_ONCE, Calls, Turned, oauth_code


@contextmanager
def answering(status: int, body: bytes, location: str = "") -> Iterator[tuple[str, list[str]]]:
    """The address of a server that answers so, and the requests that it got."""
    got: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            got.append(self.path)
            self.send_response(status)
            if location:
                self.send_header("Location", location)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", got
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.mark.parametrize(
    ("status", "body", "sentence"),
    [
        (200, b"<html>", "not JSON"),
        (200, b"[]", "another form"),
        (200, b"\xff", "not JSON"),
        (500, b"{}", "answers HTTP 500; try again later"),
        (304, b"", "answers HTTP 304"),
    ],
)
def test_an_answer_of_another_kind_is_a_sentence(status: int, body: bytes, sentence: str) -> None:
    with answering(status, body) as (url, _), pytest.raises(Refused) as refused:
        Calls().ask(url)
    assert refused.value.status == 503
    assert sentence in refused.value.sentence


def test_a_secret_is_not_sent_on_to_where_an_answer_leads() -> None:
    with (
        answering(200, b"{}") as (other, got),
        answering(302, b"", other) as (url, _),
        pytest.raises(Refused, match="answers HTTP 302"),
    ):
        Calls().ask(url, {"client_secret": "x"}, "Basic x")
    assert got == []


def test_an_endless_answer_is_not_read_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "ANSWER_BYTES", 10)
    with answering(200, b'{"a":"bcdefgh"}') as (url, _), pytest.raises(Refused, match="more than"):
        Calls().ask(url)


@pytest.mark.parametrize(
    ("body", "code"),
    [(b'{"error":"invalid_grant"}', "invalid_grant"), (b'{"error":5}', ""), (b"[]", ""), (b"", "")],
)
def test_a_no_has_its_code_where_it_says_one(body: bytes, code: str) -> None:
    with answering(400, body) as (url, _), pytest.raises(Turned) as turned:
        Calls().ask(url, {})
    assert (turned.value.status, turned.value.code) == (400, code)


@pytest.mark.parametrize("told", ["a b", "<b>", "x" * 61, "", None, 5])
def test_what_is_no_word_is_not_shown(told: object) -> None:
    assert oauth_code(told) == ""


def test_a_provider_that_says_nothing_takes_few_threads_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(calls, "ANSWER_SECONDS", 60.0)
    asking = Calls()
    found: list[str] = []

    def ask() -> None:
        try:
            asking.ask(url)
        except Refused as refused:
            found.append(refused.sentence)

    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        threads = [Thread(target=ask, daemon=True) for _ in range(AT_ONCE)]
        for thread in threads:
            thread.start()
        connected = [silent.accept()[0] for _ in range(AT_ONCE)]  # each of them waits now
        with pytest.raises(Refused, match="others wait for it already"):
            asking.ask(url)
        for each in connected:
            each.close()
        for thread in threads:
            thread.join(60)
    assert len(found) == AT_ONCE
    assert all("is away (no connection)" in sentence for sentence in found)


def test_no_answer_in_time_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "ANSWER_SECONDS", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(Refused, match=r"is away \(no answer in time\)"):
            Calls().ask(url)
