"""Charts of a task from Prometheus, and from ZooKeeper where it does not answer; a small server
stands for Prometheus, and answers as its HTTP API does."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cdcbus.tasks.runtime.throughput_history import Minute, ThroughputHistory, minute_of
from tests.support.processes.bus import Bus, open_bus, resting_text
from tests.support.servers.prometheus_server import matrix, prometheus_server
from tests.support.web import pages

pytestmark = pytest.mark.integration


@pytest.fixture
def bus(zookeeper: str, name: str, tmp_path: Path, kafka: str) -> Iterator[Bus]:
    """A task with some minutes in ZooKeeper."""
    with open_bus(zookeeper, name, tmp_path) as opened:
        opened.load(resting_text("x", kafka, name))
        now = minute_of(time.time())
        minutes = [Minute(now - 60 * back, 77, None, 1.0, "WORKING") for back in range(9, 0, -1)]
        ThroughputHistory(opened.client).put("x", minutes)
        yield opened


def answers(path: str, arguments: dict[str, str]) -> list[object]:
    if path.endswith("/query"):
        return [{"metric": {"table": "shop.<b>"}, "value": [1.0, "9"]}]
    labels = {"table": "shop.<b>", "stage": "source_to_read", "quantile": "0.5"}
    return [matrix(labels, int(arguments["end"]), 1, ["1234"])]


def test_charts_come_from_prometheus_and_from_zookeeper_where_it_is_away(bus: Bus) -> None:
    with prometheus_server() as server:
        server.answer = answers
        environ = {
            "TARGET_PASSWORD": "x",
            "CDCBUS_PROMETHEUS_URL": server.address,
            "CDCBUS_PROMETHEUS_TOKEN": "t0ken-of-prometheus",
            "CDCBUS_PROMETHEUS_MATCH": 'env="a"',
        }
        with pages(bus.address, **environ) as web:
            page = web.get("/tasks/x?range=6h").text
            assert f"from Prometheus at {server.address}" in page
            assert re.search(r"Rows by table .*shop\.&lt;b&gt;", page, re.DOTALL)
            assert "last 1,234 a second" in page and "Highest 77" not in page
            assert server.headers["authorization"] == "Bearer t0ken-of-prometheus"
            assert all('{task="x",env="a"' in query for query in server.queries)
            count = len(server.asked)
            web.get("/tasks/x?range=6h")
            assert len(server.asked) == count
    with pages(bus.address, **environ) as web:
        page = web.get("/tasks/x?range=6h").text
        assert f"Prometheus at {server.address} cannot be reached" in page
        assert "The charts show what ZooKeeper keeps" in page and "Highest 77 a minute" in page
        assert "t0ken" not in page
