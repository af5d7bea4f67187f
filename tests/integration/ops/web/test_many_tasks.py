"""The overview with 500 tasks, in a real browser: found as one types, sorted, changed together;
by keyboard, and by the rules of axe."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Page, expect

from tests.support.console import (
    CHROMIUM,
    PATIENCE_MS,
    open_browser,
    open_page,
    put_tasks,
    stumbles,
    stumbles_everywhere,
)
from tests.support.processes.bus import Bus, open_bus, resting_text
from tests.support.web import TOKEN, pages

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium; apt-get install chromium"),
]
TASKS = 500
ROWS = ".tasks tbody tr:not(.why)"


@pytest.fixture
def bus(zookeeper: str, name: str, tmp_path: Path) -> Iterator[Bus]:
    with open_bus(zookeeper, name, tmp_path) as opened:
        texts = {}
        for number in range(TASKS):
            task_id = f"ORDER_CENTER_SETTLEMENT_{number:03}"
            texts[task_id] = resting_text(
                task_id, "127.0.0.1:1", task_id, tags="orders,late" if number < 3 else "orders"
            )
        put_tasks(opened.client, texts)
        yield opened


@pytest.fixture
def web(bus: Bus) -> Iterator[httpx.Client]:
    with pages(bus.address) as client:
        yield client


@pytest.fixture
def page(web: httpx.Client) -> Iterator[Page]:
    expect.set_options(timeout=PATIENCE_MS)
    base = str(web.base_url).rstrip("/")
    with open_browser() as browser, open_page(browser, base) as opened:
        yield opened


def test_500_tasks_are_found_sorted_and_changed_together(bus: Bus, page: Page) -> None:
    expect(page.locator(ROWS)).to_have_count(TASKS)
    assert stumbles(page) == []

    # As one types, without a button; what is ticked stays so when rows come and go.
    page.get_by_label("Task, table, topic").press_sequentially("center_settlement_49")
    expect(page.locator(ROWS)).to_have_count(10)
    assert stumbles_everywhere(page) == []
    page.get_by_label("Choose ORDER_CENTER_SETTLEMENT_499").check()
    page.get_by_label("Task, table, topic").press("End")
    page.get_by_label("Task, table, topic").press_sequentially("9")
    expect(page.locator(ROWS)).to_have_count(1)
    expect(page.locator("#number_chosen")).to_have_text("1 chosen")
    assert page.url.endswith("/?q=center_settlement_499")

    # By keyboard alone: a column, a tag, all of them, stop.
    page.goto(page.url.partition("?")[0] + "?tag=late")
    expect(page.locator(ROWS)).to_have_count(3)
    page.get_by_role("link", name="Task", exact=True).focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**sort=task")
    page.get_by_role("link", name="Task", exact=True).focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**sort=-task")
    expect(page.locator("[aria-sort=descending]")).to_have_text("Task")
    expect(page.locator(ROWS).first).to_contain_text("SETTLEMENT_002")
    page.get_by_label("all shown").focus()
    page.keyboard.press("Space")
    expect(page.locator("#number_chosen")).to_have_text("3 chosen")
    page.get_by_role("button", name="Start", exact=True).focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**done=start*")
    expect(page.locator(".note.good")).to_have_text("3 tasks are ordered to start.")
    started = [
        number
        for number in range(5)
        if bus.tasks.wanted(f"ORDER_CENTER_SETTLEMENT_{number:03}") is not None
    ]
    assert started == [0, 1, 2]
    assert {each["what"] for each in bus.json("audit")} == {"task start"}

    # Silence has a length; the filter stays.
    page.get_by_label("all shown").check()
    page.get_by_label("Silence for").select_option("2h")
    page.get_by_role("button", name="Silence").click()
    page.wait_for_url("**tag=late*done=silence*")
    expect(page.locator(ROWS).filter(has_text="silent")).to_have_count(3)


def test_one_task_that_refuses_does_not_keep_the_others(bus: Bus, web: httpx.Client) -> None:
    base = str(web.base_url).rstrip("/")
    web.headers.update({"accept": "text/html", "origin": base})
    web.post("/login", data={"name": "ada", "token": TOKEN})
    known = "ORDER_CENTER_SETTLEMENT_007"
    answer = web.post("/tasks", data={"what": "start", "task": ["<b>nobody</b>", known]})
    assert answer.status_code == 409
    assert "&lt;b&gt;nobody&lt;/b&gt;: there is no such task" in answer.text
    assert "1 task is ordered to start." in answer.text
    assert bus.tasks.wanted(known) is not None
    for data in ({"what": "start"}, {"what": "drop", "task": known}):
        assert web.post("/tasks", data=data).status_code in (409, 422)
    evil = {"origin": "http://evil"}
    stop = {"what": "stop", "task": known}
    assert web.post("/tasks", data=stop, headers=evil).status_code == 403
