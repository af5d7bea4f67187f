"""Snapshots and direct loads in the console and the API over a real ZooKeeper: what they say, to
whom, and what they ask of the task.

With CDCBUS_WRITE_SCREENSHOTS=1 the picture in docs/images is taken anew.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import expect, sync_playwright

from cdcbus.ops.stack.addresses import Database
from cdcbus.plugins.rowchange import TableId
from cdcbus.producer.snapshot.progress import TableProgress, TableState, Wish, WishKind
from cdcbus.tasks.snapshots.direct import DirectLoad, direct_load, put_direct_load
from cdcbus.tasks.snapshots.store import ZooKeeperSnapshots, snapshot_path, wishes_of
from tests.integration.ops.web.test_browser import ARGUMENTS, CHROMIUM, IMAGES, STUMBLES, WRITES
from tests.support.processes.bus import Bus, fetch_text, open_bus, resting_text
from tests.support.web import BEARER, TOKEN, pages

pytestmark = pytest.mark.integration

NOWHERE = Database("127.0.0.1", 1, "u", "p", "")
KEY = "'a-key-of-a-row'"
TABLES = {
    TableId("shop", "items"): TableProgress(
        TableState.FAILED,
        7_000,
        bytes=900_000,
        estimated_rows=20_000,
        started_ms=1_000,
        updated_ms=3_000,
        reason="shop.items: its key was altered",
    ),
    TableId("shop", "orders"): TableProgress(
        TableState.RUNNING,
        1_500_000,
        bytes=30_000_000,
        estimated_rows=6_000_000,
        after=(KEY,),
        until=(KEY,),
        started_ms=1_000,
        updated_ms=11_000,
    ),
    TableId("shop", "people"): TableProgress(
        TableState.DONE,
        3_000,
        bytes=40_000,
        estimated_rows=2_900,
        where="id < 3001",
        started_ms=1_000,
        updated_ms=2_000,
    ),
}
PAGE, API = "/tasks/7", "/api/tasks/7/snapshot"


@pytest.fixture
def bus(zookeeper: str, name: str, tmp_path: Path) -> Iterator[Bus]:
    """A fetch task, 7, and a consumer task, 242, of one topic; neither has run."""
    with open_bus(zookeeper, name, tmp_path) as opened:
        text = fetch_text("7", NOWHERE, "127.0.0.1:1", name)
        opened.load(text.replace("${env:SOURCE_PASSWORD}", "${env:TARGET_PASSWORD}"))
        opened.load(resting_text("242", "127.0.0.1:1", name))
        yield opened


@pytest.fixture
def web(bus: Bus) -> Iterator[httpx.Client]:
    with pages(bus.address, TARGET_PASSWORD="s3cret") as client:
        client.headers.update({"accept": "text/html", "origin": str(client.base_url).rstrip("/")})
        yield client


def log_in(web: httpx.Client) -> None:
    answer = web.post("/login", data={"name": "ada", "token": TOKEN, "next": "/"})
    assert answer.status_code == 303


def text(web: httpx.Client, path: str) -> str:
    """What a page says, without its marks."""
    answer = web.get(path)
    assert answer.status_code == 200, answer.text
    assert KEY not in answer.text.replace("&#39;", "'")
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", answer.text))


def wished(bus: Bus, name: str) -> list[Wish]:
    return list(wishes_of(bus.client, snapshot_path("7", name)).values())


def test_a_page_shows_how_far_each_table_is_and_why_one_has_failed_but_no_key(
    web: httpx.Client, bus: Bus, name: str
) -> None:
    assert "No snapshot was taken" in text(web, PAGE)
    ZooKeeperSnapshots(bus.client, "7", name).save(TABLES)
    said = text(web, PAGE)
    assert "Snapshots 1 of 3 tables done" in said
    assert "shop.orders running 25 % 1,500,000 6,000,000 30 MB 150,000 30 s" in said
    assert "shop.items failed 35 % 7,000 20,000" in said
    assert "its key was altered" in said
    assert re.search("shop.people done 100 % 3,000 2,900 .* only rows with id &lt; 3001", said)
    assert "No snapshot was taken" not in text(web, "/tasks/242")
    assert "shop.orders" not in text(web, "/tasks/242")


def test_the_api_says_the_same_without_keys_of_rows(web: httpx.Client, bus: Bus, name: str) -> None:
    ZooKeeperSnapshots(bus.client, "7", name).save(TABLES)
    answer = web.get(API)
    assert KEY not in answer.text
    found = answer.json()
    assert (found["is_direct"], found["wishes"]) == (False, [])
    assert found["tables"][1] == {
        "table": "shop.orders",
        "state": "running",
        "rows": 1_500_000,
        "estimated_rows": 6_000_000,
        "bytes": 30_000_000,
        "rows_per_second": 150_000.0,
        "seconds_left": 30,
        "where": "",
        "reason": "",
    }
    assert found["tables"][0]["reason"] == "shop.items: its key was altered"


def test_buttons_wish_of_the_task_what_the_commands_do_for_those_who_may(
    web: httpx.Client, bus: Bus, name: str
) -> None:
    ZooKeeperSnapshots(bus.client, "7", name).save(TABLES)
    assert web.post(f"{PAGE}/snapshot/start").headers["location"].startswith("/login")
    log_in(web)
    evil = {"origin": "http://evil.example"}
    assert web.post(f"{PAGE}/snapshot/start", headers=evil).status_code == 403
    assert wished(bus, name) == []
    page = web.get(PAGE).text
    for kind in WishKind:
        assert f"/tasks/7/snapshot/{kind}" in page
        answer = web.post(f"{PAGE}/snapshot/{kind}", data={"table": "shop.orders"})
        assert answer.headers["location"] == f"{PAGE}?done=snapshot"
    web.post(f"{PAGE}/snapshot/pause", data={"table": ""})
    orders = ("shop.orders",)
    assert wished(bus, name) == [*(Wish(kind, orders) for kind in WishKind), Wish(WishKind.PAUSE)]
    said = text(web, f"{PAGE}?done=snapshot")
    assert "sees it within seconds, or when it starts" in said
    assert "not seen by the task yet: stop shop.orders" in said
    assert "not seen by the task yet: pause all tables" in said
    assert "ada@127.0.0.1 by HTTP snapshot pause task 7 done" in text(web, "/nodes")
    assert web.post(f"{PAGE}/snapshot/forget").status_code == 422
    assert web.post(f"{PAGE}/snapshot/start", data={"table": "orders"}).status_code == 409


def test_rows_without_a_key_are_sent_again_only_by_force(
    web: httpx.Client, bus: Bus, name: str
) -> None:
    done = TableProgress(TableState.DONE, 5, is_keyless=True)
    ZooKeeperSnapshots(bus.client, "7", name).save({TableId("shop", "log"): done})
    said = "Kafka may have rows of shop.log already"
    log_in(web)
    page = web.post(f"{PAGE}/snapshot/start", data={"table": "shop.log"})
    assert (page.status_code, said in page.text) == (409, True)
    answer = web.post(f"{API}/start", headers=BEARER)
    assert (answer.status_code, said in answer.json()["error"]) == (409, True)
    assert wished(bus, name) == []
    assert web.post(f"{API}/start", json={"force": True}, headers=BEARER).status_code == 202
    assert wished(bus, name) == [Wish(WishKind.START, is_confirmed=True)]


def test_the_api_takes_a_wish_and_refuses_what_is_not_possible(
    web: httpx.Client, bus: Bus, name: str
) -> None:
    assert web.post(f"{API}/start", headers={"accept": "application/json"}).status_code == 401
    body = {"tables": ["shop.orders"], "where": "id > 5"}
    answer = web.post(f"{API}/start", json=body, headers=BEARER)
    assert answer.status_code == 202, answer.text
    assert answer.json()["is_running"] is False
    assert "when it starts" in answer.json()["sentence"]
    assert web.post(f"{API}/resume", headers=BEARER).status_code == 202
    start = Wish(WishKind.START, ("shop.orders",), "id > 5")
    assert wished(bus, name) == [start, Wish(WishKind.RESUME)]
    assert web.get(API).json()["wishes"][0] == {**body, "kind": "start", "confirmed": False}
    for path, sent, status, sentence in (
        (f"{API}/start", {"where": "id > 5"}, 409, "tables that are named"),
        (f"{API}/pause", body, 409, "tables that are named"),
        (f"{API}/start", {"table": "shop.orders"}, 422, "table"),
        ("/api/tasks/242/snapshot/start", {}, 409, "task 242 reads topics"),
        ("/api/tasks/none/snapshot/start", {}, 404, "no such task"),
    ):
        answer = web.post(path, json=sent, headers=BEARER)
        assert (answer.status_code, sentence in answer.json()["error"]) == (status, True), path
    assert len(wished(bus, name)) == 2
    assert wishes_of(bus.client, snapshot_path("242", name)) == {}


def test_a_direct_load_is_shown_and_given_up_once_it_does_not_run(
    web: httpx.Client, bus: Bus, name: str
) -> None:
    put_direct_load(bus.client, "242", DirectLoad({}))
    ZooKeeperSnapshots(bus.client, "242", "direct").save(TABLES)
    log_in(web)
    said = text(web, "/tasks/242")
    assert "Direct load 1 of 3 tables done" in said
    assert "shop.orders running 25 % 1,500,000 6,000,000" in said
    assert "Give it up" in said
    assert web.get("/api/tasks/242/snapshot").json()["is_direct"] is True
    lock = f"/datas/task/242/lock/{name}"
    bus.client.create(lock, b'{"processId":77,"hostName":"h"}', makepath=True, ephemeral=True)
    refused = web.post("/tasks/242/snapshot/stop")
    assert (refused.status_code, "end it by Ctrl-C" in refused.text) == (409, True)
    bus.client.delete(lock)
    some = web.post("/tasks/242/snapshot/stop", data={"table": "shop.orders"})
    assert (some.status_code, "given up whole" in some.text) == (409, True)
    lost = "1 of 3 tables done, 1,510,000 rows (shop.orders 1,500,000, shop.items 7,000"
    unconfirmed = web.post("/tasks/242/snapshot/stop")
    assert (unconfirmed.status_code, lost in unconfirmed.text) == (409, True)
    unforced = web.post("/api/tasks/242/snapshot/stop", headers=BEARER)
    assert (unforced.status_code, lost in unforced.json()["error"]) == (409, True)
    assert "Lose its progress: 1,510,000 rows of 3 tables" in said
    load = direct_load(bus.client, "242")
    assert load is not None
    assert not load.is_void
    answer = web.post("/tasks/242/snapshot/stop", data={"confirmed": "true"})
    assert answer.headers["location"] == "/tasks/242?done=given-up"
    given_up = direct_load(bus.client, "242")
    assert given_up is not None
    assert given_up.is_given_up
    assert "empty them, and load them again" in text(web, "/tasks/242?done=given-up")
    assert "shop.orders" not in text(web, "/tasks/242")


def test_a_direct_load_that_is_done_cannot_be_given_up(web: httpx.Client, bus: Bus) -> None:
    put_direct_load(bus.client, "242", DirectLoad({}, is_done=True))
    ZooKeeperSnapshots(bus.client, "242", "direct").save(TABLES)
    log_in(web)
    assert "Give it up" not in text(web, "/tasks/242")
    assert web.post("/tasks/242/snapshot/stop").status_code == 409
    assert direct_load(bus.client, "242") is not None


def test_a_node_that_somebody_damaged_is_told_of_and_the_page_stays(
    web: httpx.Client, bus: Bus
) -> None:
    bus.client.create("/datas/task/242/snapshot/direct", b'{"offsets":7}', makepath=True)
    said = text(web, "/tasks/242")
    assert "/datas/task/242/snapshot/direct" in said
    assert "Positions" in said
    assert web.get("/api/tasks/242/snapshot").status_code == 409


@pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium; apt-get install chromium")
def test_in_a_browser_a_table_is_paused_its_bar_moves_and_others_have_no_such_part(
    web: httpx.Client, bus: Bus, name: str
) -> None:
    store = ZooKeeperSnapshots(bus.client, "7", name)
    store.save(TABLES)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        page = browser.new_page(base_url=str(web.base_url))
        page.goto("/login?next=/tasks/7")
        page.get_by_label("Your name").fill("ada")
        page.get_by_label("Token").fill(TOKEN)
        page.get_by_role("button", name="Log in").click()
        page.get_by_label("Snapshot of").select_option("shop.orders")
        page.get_by_role("button", name="Pause snapshot").click()
        expect(page.get_by_text("The order is stored: the task sees it")).to_be_visible()
        assert wished(bus, name) == [Wish(WishKind.PAUSE, ("shop.orders",))]
        assert page.evaluate(STUMBLES) == []
        if WRITES:
            part = page.locator("section", has=page.get_by_label("Snapshot of"))
            part.screenshot(path=IMAGES / "snapshots.png")
        page.get_by_label("Snapshot of").select_option("shop.people")
        paused = TableProgress(TableState.PAUSED, 3_000, estimated_rows=6_000)
        store.save({TableId("shop", "orders"): paused})
        bar = page.get_by_label("progress of shop.orders")
        expect(bar).to_have_attribute("value", "50", timeout=20_000)
        expect(page.get_by_label("Snapshot of")).to_have_value("shop.people")
        page.goto("/tasks/242")
        expect(page.get_by_role("heading", name="Positions")).to_be_visible()
        expect(page.get_by_text("Snapshots of existing rows")).to_be_hidden()
        put_direct_load(bus.client, "242", DirectLoad({}))
        expect(page.get_by_text("Snapshots of existing rows")).to_be_visible(timeout=20_000)
        browser.close()
