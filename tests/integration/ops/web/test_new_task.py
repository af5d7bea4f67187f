"""A task made by steps in the console, over a real ZooKeeper and in a real browser: by keyboard,
without JavaScript, wide and narrow, light and dark."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Page, expect

from cdcbus.ops.web.serve import serving
from cdcbus.tasks.control.bus_settings import read_bus_settings
from cdcbus.tasks.editing.versions import versions_of
from tests.support.console import CHROMIUM, PATIENCE_MS, open_browser, stumbles_everywhere
from tests.support.processes.bus import Bus, open_bus, resting_text
from tests.support.web import BEARER, TOKEN, pages

pytestmark = pytest.mark.integration
ANSWERS = {
    "route": "kafka->postgresql",
    "id": "1084",
    "servers": "127.0.0.1:1",
    "topic": "shop",
    "tables": "shop.orders",
    "target": "127.0.0.1:2",
    "target_database": "store",
    "target_user": "loader",
    "source_schema": "shop",
    "target_schema": "public",
}
OLAF, RITA = "token-of-olaf-0123456", "token-of-rita-0123456"


@pytest.fixture
def bus(zookeeper: str, name: str, tmp_path: Path) -> Iterator[Bus]:
    with open_bus(zookeeper, name, tmp_path) as opened:
        opened.load(resting_text("other", "127.0.0.1:1", "t"))
        yield opened


@pytest.fixture
def web(bus: Bus) -> Iterator[httpx.Client]:
    with pages(bus.address, TARGET_PASSWORD="x") as client:
        client.headers.update({"accept": "text/html", **BEARER, "X-Operator": "ada"})
        yield client


def text_of(page: str) -> str:
    found = re.search(r"<textarea[^>]*>\n(.*?)</textarea>", page, re.DOTALL)
    assert found, page
    return html.unescape(found[1])


def test_steps_lead_to_a_text_that_is_checked_stored_and_started(
    bus: Bus, web: httpx.Client
) -> None:
    assert 'value="kafka-&gt;postgresql"' in web.get("/new-task").text
    assert "Choose a way." in web.post("/new-task", data={"at": "way", "go": "next"}).text
    chosen = {"route": ANSWERS["route"]}
    assert 'name="servers"' in web.post("/new-task", data={**chosen, "at": "way"}).text
    wrong = web.post("/new-task", data={**chosen, "topic": "a b", "at": "from"})
    assert wrong.status_code == 422
    assert "topics&#39; names separated by commas" in wrong.text
    text = text_of(web.post("/new-task", data={**ANSWERS, "at": "to"}).text)
    assert "taskId=1084" in text

    # A text with an error is not stored, and its line says so.
    sent = {**ANSWERS, "at": "text"}
    bad = text + "consumer.source.firstConsumeFrom=never\n"
    for go in ("check", "save", "start"):
        page = web.post("/new-task", data={**sent, "text": bad, "go": go}).text
        assert f'<span class="is-error">{len(text.splitlines()) + 1}</span>' in page
        assert text_of(page) == bad
        assert "Save and start" not in page
    assert bus.tasks.ids() == ["other"]

    # Neither is one over another task.
    taken = web.post(
        "/new-task", data={**sent, "text": text.replace("Id=1084", "Id=other"), "go": "start"}
    )
    assert taken.status_code == 409
    assert "task other exists already" in taken.text

    done = web.post("/new-task", data={**sent, "text": text + "tags=orders\n", "go": "start"})
    assert done.headers["location"] == "/tasks/1084?done=new-started"
    wanted = bus.tasks.wanted("1084")
    assert wanted is not None and wanted.is_working
    (version,) = versions_of(bus.client, "1084")
    assert (version.how, version.by) == ("task new", "ada@127.0.0.1 by HTTP")
    assert "tags=orders" in version.text
    assert "its start is ordered" in web.get("/tasks/1084?done=new-started").text


def test_a_person_makes_tasks_of_his_own_patterns_only(bus: Bus, tmp_path: Path) -> None:
    file = tmp_path / "cdcbus.properties"
    file.write_text(
        f"http.bind=127.0.0.1:0\nhttp.person.olaf.token={OLAF}\nhttp.person.olaf.role=operate\n"
        f"http.person.olaf.tasks=shop-*\nhttp.person.rita.token={RITA}\n",
        encoding="utf-8",
    )
    settings = read_bus_settings({"zookeeper": bus.address}, file, {"TARGET_PASSWORD": "x"})
    with (
        serving(settings, "n1") as address,
        httpx.Client(base_url=str(address), timeout=60, trust_env=False) as web,
    ):
        olaf, rita = ({"Authorization": f"Bearer {token}"} for token in (OLAF, RITA))
        sent = {**ANSWERS, "at": "to"}
        assert web.post("/new-task", data=sent, headers=rita).status_code == 403
        assert web.get("/new-task", headers=rita).status_code == 403
        assert web.post("/new-task", data=sent).status_code == 401
        text = text_of(web.post("/new-task", data=sent, headers=olaf).text)
        sent = {**ANSWERS, "at": "text", "go": "save"}
        refused = web.post("/new-task", data={**sent, "text": text}, headers=olaf)
        assert refused.status_code == 403
        assert "task 1084 is not for olaf" in refused.text
        own = text.replace("taskId=1084", "taskId=shop-1")
        assert web.post("/new-task", data={**sent, "text": own}, headers=olaf).status_code == 303
        assert sorted(bus.tasks.ids()) == ["other", "shop-1"]
        session = web.post(
            "/login", headers={"origin": str(address)}, data={"name": "olaf", "token": OLAF}
        )
        assert session.status_code == 303
        elsewhere = {"origin": "http://evil.example"}
        assert web.post("/new-task", data=sent, headers=elsewhere).status_code == 403


@pytest.fixture
def page(web: httpx.Client) -> Iterator[Page]:
    """Of a browser that runs no scripts."""
    expect.set_options(timeout=PATIENCE_MS)
    base = str(web.base_url).rstrip("/")
    with open_browser() as browser:
        opened = browser.new_page(base_url=base)
        opened.set_default_timeout(PATIENCE_MS)
        opened.goto("/login")
        opened.get_by_label("Your name").fill("ada")
        opened.get_by_label("Token").fill(TOKEN)
        opened.keyboard.press("Enter")
        opened.wait_for_url(f"{base}/")
        opened.route("**/static/console.js", lambda route: route.abort())
        yield opened


@pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium; apt-get install chromium")
def test_each_step_goes_by_keyboard_and_stumbles_nobody(bus: Bus, page: Page) -> None:
    """Without the console's script; axe looks at each step four times."""
    page.goto("/")
    page.get_by_role("link", name="New task").press("Enter")
    expect(page.get_by_role("heading", name="New task")).to_be_visible()
    assert stumbles_everywhere(page) == []
    page.get_by_role("radio").first.focus()
    for _ in range(3):
        page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.locator("[aria-current=step]")).to_have_text("From")
    page.keyboard.press("ControlOrMeta+a")  # the first field has the focus
    page.keyboard.type("1084")
    page.keyboard.press("Enter")  # nobody has said which topic
    expect(page.locator("#topic_wrong")).to_contain_text("Expected")
    assert stumbles_everywhere(page) == []
    expect(page.locator("#topic")).to_be_focused()
    page.keyboard.type("shop")
    page.keyboard.press("Enter")
    expect(page.locator("[aria-current=step]")).to_have_text("To")
    page.locator("#target_database").fill("store")
    page.keyboard.press("Enter")
    expect(page.get_by_role("textbox", name="Text of the new task")).to_have_value(
        re.compile("taskId=1084")
    )
    assert stumbles_everywhere(page) == []
    page.get_by_role("button", name="Back").press("Enter")
    expect(page.locator("#target_database")).to_have_value("store")
    page.get_by_role("button", name="Next").press("Enter")
    page.get_by_role("button", name="Save and start").press("Enter")
    page.wait_for_url("**/tasks/1084?done=new-started")
    assert bus.tasks.wanted("1084") is not None
