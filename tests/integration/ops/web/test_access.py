"""Who gets in at pages that are served for real, by each way that a proxy leaves."""

from __future__ import annotations

import socket
from pathlib import Path

import httpx
import pytest

from cdcbus.ops.web.serve import serving
from cdcbus.plugins.errors import ConfigError
from cdcbus.tasks.control.bus_settings import read_bus_settings
from tests.support.processes.bus import open_bus, resting_text
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
        pytest.raises(ConfigError, match=r"http\.closed=true .* set http\.token"),
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


def test_a_person_changes_what_is_hers_and_the_audit_has_her_name(
    zookeeper: str, name: str, tmp_path: Path
) -> None:
    settings = tmp_path / "cdcbus.properties"
    settings.write_text(
        "http.bind=127.0.0.1:0\nhttp.person.ada.token=token-of-ada-0123456\n"
        "http.person.ada.role=operate\nhttp.person.ada.tasks=shop-*\n",
        encoding="utf-8",
    )
    with open_bus(zookeeper, name, tmp_path) as bus:
        for task_id in ("shop-1", "bank-1"):
            bus.load(resting_text(task_id, "127.0.0.1:2", name))
        with (
            serving(read_bus_settings({"zookeeper": bus.address}, settings, {}), "n1") as address,
            httpx.Client(base_url=str(address), timeout=60, trust_env=False) as web,
        ):
            web.headers.update(
                {"Authorization": "Bearer token-of-ada-0123456", "X-Operator": "root"}
            )
            assert web.post("/api/tasks/shop-1/stop").status_code == 202
            refused = web.post("/api/tasks/bank-1/stop")
            assert refused.status_code == 403
            assert "http.person.ada.tasks" in refused.json()["error"]
            assert web.get("/api/tasks/bank-1").status_code == 403
            assert web.get("/tasks/shop-1").status_code == 200
            # What she may not use is not offered.
            overview = web.get("/").text
            assert 'type="checkbox"' not in overview
            assert "/new-task" in overview
            done = web.get("/api/audit").json()[-1]
            assert (done["on"], done["by"]) == ("task shop-1", "ada@127.0.0.1 by HTTP")
