"""The pages while ZooKeeper is away: they say so, in time, and come back by themselves."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from tests.support.servers.line import Line
from tests.support.waiting import wait_until
from tests.support.web import BEARER, pages

pytestmark = pytest.mark.integration


PATHS = (
    "/healthz", "/metrics", "/api/tasks", "/api/tasks/7", "/api/tasks/7/positions", "/api/tasks/7/stop", "/api/nodes", "/api/topics",
    "/api/audit", "/inspect/node/info", "/inspect/node/error",
)  # fmt: skip


def test_while_zookeeper_is_away_every_page_says_so_and_nothing_hangs(
    zookeeper: str, name: str
) -> None:
    line = Line(zookeeper)
    try:
        with pages(f"{line.address}/{name}") as web:
            assert web.get("/healthz").status_code == 200
            line.cut()

            def ask(path: str) -> httpx.Response:
                if path.endswith("/stop"):
                    return web.post(path, headers=BEARER)
                return web.get(path)

            with ThreadPoolExecutor(len(PATHS)) as pool:
                answers = list(pool.map(ask, PATHS))
            assert [answer.status_code for answer in answers] == [503] * len(PATHS)
            for answer in answers:
                assert "ZooKeeper does not answer" in answer.text
            page = web.get("/nodes", headers={"accept": "text/html"})
            assert (page.status_code, '<a href="">Try again</a>' in page.text) == (503, True)
            assert web.get("/inspect/node/jstack").status_code == 200
            assert web.get("/login").status_code == 200
            line.mend()
            wait_until(lambda: web.get("/healthz").status_code == 200, "the pages to come back")
    finally:
        line.close()
