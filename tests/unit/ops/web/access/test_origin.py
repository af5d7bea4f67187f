"""Which requests count as this machine's own, and who is told apart from whom."""

from __future__ import annotations

import pytest
from starlette.requests import HTTPConnection

from cdcbus.ops.web.access.origin import Entrance, client_of, is_tls, way_in

HERE = {"host": "127.0.0.1:8190"}


def request(
    headers: dict[str, str], peer: str = "127.0.0.1", version: str = "1.1"
) -> HTTPConnection:
    raw = [(name.encode(), text.encode()) for name, text in {**HERE, **headers}.items()]
    return HTTPConnection(
        {
            "type": "http",
            "scheme": "http",
            "path": "/",
            "query_string": b"",
            "server": ("127.0.0.1", 8190),
            "headers": raw,
            "client": (peer, 4711),
            "http_version": version,
        }
    )


WAYS = [
    {"x-forwarded-for": "10.0.0.1"},
    {"x-forwarded-proto": "https"},
    {"x-forwarded-anything": ""},
    {"forwarded": "for=10.0.0.1"},
    {"via": "1.1 squid"},
    {"x-real-ip": "10.0.0.1"},
    {"host": "cdcbus.example"},
    {"host": ""},
    {"host": "[::1"},
    {"sec-fetch-site": "same-origin", "referer": "https://cdcbus.example/tasks"},
]


@pytest.mark.parametrize("headers", WAYS)
def test_after_one_request_by_another_way_none_is_of_this_machine(headers: dict[str, str]) -> None:
    entrance = Entrance(is_loopback=True, is_closed=False)
    assert entrance.is_here(request({}))
    assert not entrance.is_here(request(headers))
    assert not entrance.is_here(request({}))


def test_a_proxy_that_asks_as_nginx_does_by_itself_is_another_way() -> None:
    assert way_in(request({}, version="1.0"))


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"host": "localhost:8190"},
        {"host": "[::1]:8190"},
        {"sec-fetch-site": "same-origin", "referer": "http://127.0.0.1:8190/tasks"},
        {"sec-fetch-site": "cross-site", "referer": "https://wiki.example/"},
        {"sec-fetch-site": "same-origin"},
    ],
)
def test_a_browser_and_a_program_on_this_machine_are_here(headers: dict[str, str]) -> None:
    assert Entrance(is_loopback=True, is_closed=False).is_here(request(headers))


@pytest.mark.parametrize(("is_loopback", "is_closed"), [(False, False), (True, True)])
def test_where_all_is_closed_nobody_is_here(is_loopback: bool, is_closed: bool) -> None:
    assert not Entrance(is_loopback, is_closed).is_here(request({}))


def test_the_log_says_once_what_has_closed_the_pages(caplog: pytest.LogCaptureFixture) -> None:
    entrance = Entrance(is_loopback=True, is_closed=False)
    for _ in range(2):
        entrance.is_here(request({"via": "secret-of-a-header"}))
    assert len(caplog.messages) == 1
    assert "http.closed=true" in caplog.text
    assert "secret-of-a-header" not in caplog.text


@pytest.mark.parametrize(
    ("headers", "peer", "client"),
    [
        ({}, "10.0.0.7", "10.0.0.7"),
        ({"x-forwarded-for": "1.2.3.4"}, "10.0.0.7", "10.0.0.7"),  # anybody may say so
        ({"x-forwarded-for": "6.6.6.6, 10.0.0.1"}, "127.0.0.1", "10.0.0.1"),
        ({"x-real-ip": "10.0.0.1"}, "127.0.0.1", "10.0.0.1"),
        ({"x-forwarded-for": "x" * 5000}, "127.0.0.1", "unknown"),
        ({}, "2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ({}, "127.0.0.1", "127.0.0.1"),
    ],
)
def test_clients_are_told_apart_by_what_the_nearest_proxy_says(
    headers: dict[str, str], peer: str, client: str
) -> None:
    assert client_of(request(headers, peer)) == client


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, False),
        ({"origin": "http://127.0.0.1"}, False),
        ({"origin": "https://cdcbus.example"}, True),
        ({"x-forwarded-proto": "HTTPS"}, True),
        ({"x-forwarded-proto": "https, http"}, False),
        ({"forwarded": "for=10.0.0.1;proto=https"}, True),
    ],
)
def test_tls_before_a_proxy_is_seen(headers: dict[str, str], expected: bool) -> None:
    assert is_tls(request(headers)) is expected
