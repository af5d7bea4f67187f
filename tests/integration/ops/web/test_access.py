"""Who gets in at pages that are served for real, by each way that a proxy leaves."""

from __future__ import annotations

import socket

import httpx
import pytest

from cdcbus.plugins.errors import ConfigError
from tests.support.waiting import wait_until
from tests.support.web import BEARER, TOKEN, pages

pytestmark = pytest.mark.integration


def asked_by_nginx(web: httpx.Client) -> str:
    """The first line of the answer to a proxy with nothing but `proxy_pass` in its settings."""
    host, port = web.base_url.host, web.base_url.port
    assert port is not None
    with socket.create_connection((host, port)) as connection:
        connection.sendall(
            f"GET /api/nodes HTTP/1.0\r\nHost: {host}:{port}\r\nConnection: close\r\n\r\n".encode()
        )
        return connection.makefile("rb").readline().decode().strip()


def test_a_proxy_with_its_default_headers_opens_no_page(zookeeper: str) -> None:
    with pages(zookeeper) as web:
        assert web.get("/api/nodes").status_code == 200
        assert "401" in asked_by_nginx(web)
        # What comes by it next may show nothing at all.
        assert web.get("/api/nodes").status_code == 401
        assert web.get("/metrics").status_code == 401
        assert web.get("/api/nodes", headers=BEARER).status_code == 200
        assert web.get("/healthz").status_code in (200, 503)


def test_one_setting_wants_the_token_for_every_page(zookeeper: str) -> None:
    with pages(zookeeper, CDCBUS_HTTP_CLOSED="true") as web:
        for path in ("/", "/api/tasks", "/metrics", "/inspect/node/info", "/api/openapi.json"):
            assert web.get(path).status_code == 401, path
            assert web.get(path, headers=BEARER).status_code == 200, path
        assert web.get("/login").status_code == 200


def test_without_a_token_nobody_could_get_in_and_that_is_refused(zookeeper: str) -> None:
    with (
        pytest.raises(ConfigError, match=r"http\.closed=true .* set http\.token too"),
        pages(zookeeper, token="", CDCBUS_HTTP_CLOSED="true"),
    ):
        pass


def test_without_a_token_a_proxy_closes_all_and_the_sentence_says_what_to_set(
    zookeeper: str,
) -> None:
    with pages(zookeeper, token="") as web:
        assert web.get("/api/nodes").status_code == 200
        assert web.get("/api/nodes", headers={"X-Forwarded-Proto": "https"}).status_code == 403
        refused = web.get("/api/nodes")
        assert refused.status_code == 403
        assert "set http.token" in refused.json()["error"]


def logged_in(web: httpx.Client) -> dict[str, str]:
    """The headers of a person's browser after a log-in."""
    own = {"origin": str(web.base_url).rstrip("/")}
    answer = web.post("/login", headers=own, data={"name": "ada", "token": TOKEN})
    assert answer.status_code == 303
    cookie = answer.headers["set-cookie"].partition(";")[0]
    web.cookies.clear()
    return {**own, "cookie": cookie}


def test_who_logs_out_takes_the_session_from_every_node_wherever_the_cookie_was_copied(
    zookeeper: str,
) -> None:
    with (
        pages(zookeeper, CDCBUS_HTTP_CLOSED="true") as one,
        pages(zookeeper, node_id="n2", CDCBUS_HTTP_CLOSED="true") as two,
    ):
        copied, other = logged_in(one), logged_in(one)
        assert two.get("/api/tasks", headers=copied).status_code == 200
        assert one.post("/logout", headers=copied).status_code == 303
        assert one.get("/api/tasks", headers=copied).status_code == 401
        wait_until(lambda: two.get("/api/tasks", headers=copied).status_code == 401, "the other")
        assert one.get("/api/tasks", headers=other).status_code == 200
    with pages(zookeeper, CDCBUS_HTTP_CLOSED="true") as again:  # a start knows of it, too
        assert again.get("/api/tasks", headers=copied).status_code == 401
        assert again.get("/api/tasks", headers=other).status_code == 200
