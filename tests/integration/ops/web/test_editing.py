"""Texts of tasks changed in the console, over a real ZooKeeper: checked, looked at, stored,
taken back."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from cdcbus.tasks.control.commands import order_taking
from cdcbus.tasks.editing.versions import versions_of
from cdcbus.tasks.zookeeper.node_registry import BusNodes
from tests.support.processes.bus import Bus, open_bus, resting_text
from tests.support.web import TOKEN, pages

pytestmark = pytest.mark.integration
SECRET = "ge<h>eim"
DIST = "/datas/task/1084/dist/t"


@pytest.fixture
def bus(zookeeper: str, name: str, tmp_path: Path) -> Iterator[Bus]:
    """With one task, as porter stored it: its password is written out."""
    with open_bus(zookeeper, name, tmp_path) as opened:
        opened.load(resting_text("1084", "127.0.0.1:1", "t"))
        stored = json.loads(opened.text(DIST) or "")
        stored["loader"]["source"] |= {"userName": "u", "password": SECRET}
        opened.client.set(DIST, json.dumps(stored).encode())
        yield opened


@pytest.fixture
def web(bus: Bus) -> Iterator[httpx.Client]:
    """Of a browser that is logged in."""
    with pages(bus.address) as client:
        client.headers.update({"accept": "text/html", "origin": str(client.base_url).rstrip("/")})
        client.post("/login", data={"name": "ada", "token": TOKEN})
        yield client


def form(page: str) -> dict[str, str]:
    """What the form of a page would send."""
    base = re.search(r'name="base" value="([^"]*)"', page)
    text = re.search(r'name="text" value="([^"]*)"', page) or re.search(
        r"<textarea[^>]*>\n(.*?)</textarea>", page, re.DOTALL
    )
    assert base and text
    return {"base": base[1], "text": html.unescape(text[1])}


def test_a_text_is_edited_checked_looked_at_stored_and_taken_back(
    bus: Bus, web: httpx.Client
) -> None:
    sent = form(web.get("/tasks/1084/edit").text)
    assert "loader.source.password=(secret, not shown)" in sent["text"]

    # A finding stands beside its line, and nothing is stored with an error in it.
    before = bus.text(DIST)
    line = len(sent["text"].splitlines()) + 1
    wrong = {**sent, "text": sent["text"] + "consumer.source.firstConsumeFrom=never\n"}
    for step in ("check", "review", "save", "restart"):
        answer = web.post("/tasks/1084/edit", data={**wrong, "step": step})
        assert re.search(rf'<span class="is-error">{line}</span>', answer.text), step
        assert "What changes" not in answer.text
    assert bus.text(DIST) == before

    # What changes is shown first; then it is stored, and the secret is still the same one.
    better = {**sent, "text": sent["text"].replace("taskId=1084", "taskId=1084\ntags=orders")}
    review = web.post("/tasks/1084/edit", data={**better, "step": "review"}).text
    assert "What changes" in review and "tags=orders</span>" in review
    assert bus.text(DIST) == before
    answer = web.post("/tasks/1084/edit", data={**form(review), "step": "restart"})
    assert answer.headers["location"] == "/tasks/1084?done=saved-restart"
    stored = json.loads(bus.text(DIST) or "")
    assert (stored["tags"], stored["loader"]["source"]["password"]) == ("orders", SECRET)
    assert bus.tasks.wanted("1084") is not None
    audit = [(each["what"], each["by"]) for each in bus.json("audit")]
    assert ("task edit", "ada@127.0.0.1 by HTTP") in audit

    # The versions: neither has the secret. The first one is taken back.
    found = versions_of(bus.client, "1084")
    assert [(each.how, "tags=orders" in each.text) for each in found] == [
        ("task import", False),
        ("task edit", True),
    ]
    for path in ("/tasks/1084/versions", "/tasks/1084/edit", "/tasks/1084/edit?version=1"):
        page = web.get(path).text
        assert html.escape(SECRET) not in page and SECRET not in page
    old = form(web.get("/tasks/1084/edit?version=1").text)
    assert "tags" not in old["text"]
    assert web.post("/tasks/1084/edit", data={**old, "step": "save"}).status_code == 303
    assert "tags" not in (bus.text(DIST) or "tags")
    assert len(versions_of(bus.client, "1084")) == 3


def test_two_who_edit_at_once_do_not_overwrite_each_other(bus: Bus, web: httpx.Client) -> None:
    mine = form(web.get("/tasks/1084/edit").text)
    bus.load(resting_text("1084", "127.0.0.1:1", "t", tags="theirs"), "--force")
    theirs = bus.text(DIST)
    mine["text"] += "nodeId=n1\n"
    answer = web.post("/tasks/1084/edit", data={**mine, "step": "save"})
    assert answer.status_code == 409
    assert "was changed by somebody else since you began" in answer.text
    assert "nodeId=n1" in answer.text  # what was written is not lost
    assert bus.text(DIST) == theirs


def test_a_task_is_not_edited_into_another_one_nor_by_somebody_who_is_not_logged_in(
    bus: Bus, web: httpx.Client
) -> None:
    sent = form(web.get("/tasks/1084/edit").text)
    other = {**sent, "text": sent["text"].replace("taskId=1084", "taskId=1085"), "step": "save"}
    assert "another task&#39;s id" in web.post("/tasks/1084/edit", data=other).text
    assert bus.text("/datas/task/1085/dist/t") is None
    web.cookies.clear()
    assert web.get("/tasks/1084/edit").headers["location"].startswith("/login")
    before = bus.text(DIST)
    refused = web.post("/tasks/1084/edit", data={**sent, "text": "x=1", "step": "save"})
    assert refused.status_code == 303
    assert bus.text(DIST) == before


def test_a_task_is_moved_to_a_node_that_takes_tasks_and_keeps_its_id(
    bus: Bus, web: httpx.Client
) -> None:
    nodes = BusNodes(bus.client)
    for node_id in ("n2", "drained"):
        nodes.register(node_id)
        nodes.put_stat(node_id, {"workLimit": 5, "tasks": {}})
    nodes.register("prod", "prod")
    nodes.put_stat("prod", {"workLimit": 5, "tasks": {}, "environment": "prod"})
    nodes.register("full")
    nodes.put_stat("full", {"workLimit": 1, "tasks": {"242": ["t"]}})
    order_taking(nodes, "drained", False, "ada")
    before = bus.text(DIST)
    for node_id, status in (("drained", 409), ("nobody", 404), ("prod", 409)):
        assert web.post("/tasks/1084/move", data={"node": node_id}).status_code == status
    assert bus.text(DIST) == before
    assert "<option>n2</option>" in web.get("/tasks/1084").text

    assert web.post("/tasks/1084/move", data={"node": "n2"}).status_code == 303
    assert "nodeId=n2" in versions_of(bus.client, "1084")[-1].text
    assert bus.tasks.wanted("1084") is None  # it did not run
    bus.tasks.want("1084", is_working=True, by="ada")
    order, moved = bus.tasks.wanted("1084"), bus.text(DIST)
    refused = web.post("/tasks/1084/move", data={"node": "full"})
    assert refused.status_code == 409
    assert "node full is full: it runs 1 of 1 swimlanes, and the task needs 1" in refused.text
    assert bus.text(DIST) == moved
    # Where it is already, it needs no more room.
    nodes.put_stat("full", {"workLimit": 1, "tasks": {"1084": ["t"]}})
    assert web.post("/tasks/1084/move", data={"node": "full"}).status_code == 303
    web.post("/tasks/1084/move", data={"node": ""})
    again = bus.tasks.wanted("1084")
    assert "nodeId" not in versions_of(bus.client, "1084")[-1].text
    assert order is not None and again is not None and again.order > order.order
    assert "task move to node n2" in [each["what"] for each in bus.json("audit")]
