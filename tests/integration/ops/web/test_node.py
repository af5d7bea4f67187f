"""The pages of a node that runs: where they are, what happens to them, and that they never keep
a node from its work."""

from __future__ import annotations

import re
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.support.processes.bus import Bus, open_bus, resting_text
from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration


@pytest.fixture
def bus(zookeeper: str, name: str, tmp_path: Path) -> Iterator[Bus]:
    with open_bus(zookeeper, name, tmp_path) as opened:
        yield opened


def said(bus: Bus, node_id: str) -> str:
    return (bus.folder / f"{node_id}.log").read_text(encoding="utf-8")


def test_a_node_serves_its_pages_until_it_ends(bus: Bus) -> None:
    node = bus.node("n1", CDCBUS_HTTP_BIND="127.0.0.1:0")
    wait_until(lambda: "node n1 takes tasks" in said(bus, "n1"), "the node")
    served = re.search(r"node n1 serves (http://127\.0\.0\.1:\d+)\n", said(bus, "n1"))
    assert served is not None
    with httpx.Client(base_url=served[1], trust_env=False, timeout=60) as web:
        wait_until(lambda: web.get("/api/nodes").json() != [], "the node in ZooKeeper")
        assert web.get("/healthz").json()["status"] == "ok"
        assert web.get("/api/nodes/n1").json()["process_id"] == node.pid
        assert f"process {node.pid}, the node" in web.get("/inspect/node/jstack").text
        assert "CDCBUS_HTTP_TOKEN" in web.post("/api/nodes/n1/drain").json()["error"]
        node.send_signal(signal.SIGTERM)
        assert node.wait(60) == 0
        with pytest.raises(httpx.ConnectError):
            web.get("/healthz")
    assert "Traceback" not in said(bus, "n1")


def test_a_node_shows_the_log_that_it_writes_for_a_task(bus: Bus) -> None:
    bus.load(resting_text("242", "127.0.0.1:1", "t"))
    bus.node("n1", CDCBUS_HTTP_BIND="127.0.0.1:0", CDCBUS_NODE_LOGDIRECTORY="logs/of tasks")
    wait_until(lambda: "node n1 takes tasks" in said(bus, "n1"), "the node")
    served = re.search(r"node n1 serves (http://127\.0\.0\.1:\d+)\n", said(bus, "n1"))
    assert served is not None
    bus.tasks.want("242", is_working=True, by="ada")
    log = bus.folder / "logs" / "of tasks" / "242.log"
    wait_until(lambda: log.exists() and log.stat().st_size > 0, "the task's log")
    time = log.read_text(encoding="utf-8")[: len("2026-11-26 03:00:00,000")]
    with httpx.Client(base_url=served[1], trust_env=False, timeout=60) as web:
        for page in ("/tasks/242", "/tasks/242/log"):
            assert time in web.get(page).text


def test_a_port_in_use_costs_a_node_its_pages_only(bus: Bus) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        bus.node("n1", CDCBUS_HTTP_BIND=f"127.0.0.1:{port}")
        wait_until(lambda: "node n1 takes tasks" in said(bus, "n1"), "the node")
    assert (
        f"http.bind=127.0.0.1:{port} cannot be bound (Address already in use); this node runs "
        "without pages" in said(bus, "n1")
    )


def test_a_node_that_is_open_to_others_needs_a_token(bus: Bus) -> None:
    node = bus.node("n1", CDCBUS_HTTP_BIND="0.0.0.0:0")
    assert node.wait(60) == 1
    assert (
        "http.bind=0.0.0.0:0 is open to other machines; set http.token too, or bind to 127.0.0.1"
        in said(bus, "n1")
    )
    node = bus.node("n2", CDCBUS_HTTP_BIND="0.0.0.0:0", CDCBUS_HTTP_TOKEN="0123456789abcdef")
    wait_until(lambda: "node n2 takes tasks" in said(bus, "n2"), "the node")
    assert "0123456789abcdef" not in said(bus, "n2")


def test_a_token_that_is_too_short_is_refused(bus: Bus) -> None:
    node = bus.node("n1", CDCBUS_HTTP_BIND="127.0.0.1:0", CDCBUS_HTTP_TOKEN="secret")
    assert node.wait(60) == 1
    assert "http.token: wrong value; expected 16 or more characters" in said(bus, "n1")
    assert "secret\n" not in said(bus, "n1")
