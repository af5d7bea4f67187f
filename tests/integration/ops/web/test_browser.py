"""The console in a real browser, over a node that runs a real task: by keyboard and by mouse, in
light and dark, wide and narrow.

With CDCBUS_WRITE_SCREENSHOTS=1 the pictures in docs/images are taken anew.
"""

from __future__ import annotations

import math
import os
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright
from pymysql.cursors import Cursor

from cdcbus.ops.stack.addresses import Addresses, Database, free_port
from cdcbus.plugins.task_status import State
from cdcbus.tasks.runtime.throughput_history import Minute, ThroughputHistory, minute_of
from tests.support.processes.bus import Bus, fetch_text, load_text, open_bus, postgresql_schema
from tests.support.waiting import wait_until
from tests.support.web import TOKEN

CHROMIUM = shutil.which("chromium")
pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium; apt-get install chromium"),
]

WRITES = os.environ.get("CDCBUS_WRITE_SCREENSHOTS") == "1"
IMAGES = Path(__file__).parents[4] / "docs" / "images"
IMAGE_BYTES = 200_000
WIDE, NARROW = {"width": 1200, "height": 760}, {"width": 390, "height": 800}
PATIENCE_MS = 180_000
ARGUMENTS = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
TABLES = (
    "customers (id INT PRIMARY KEY, name VARCHAR(40), city VARCHAR(40) NULL)",
    "orders (id INT PRIMARY KEY, customer INT, amount DECIMAL(9, 2), state VARCHAR(10))",
)
# What somebody who does not see the page, or has no mouse, would stumble over.
STUMBLES = """() => {
  const found = [], all = (selector) => [...document.querySelectorAll(selector)];
  const name = (e) => e.getAttribute("aria-label") || (e.matches("a, button") ? e.textContent.trim() : e.labels.length);
  for (const e of all("input:not([type=hidden]), select, a[href], button")) if (!name(e)) found.push(`no name: ${e.outerHTML}`);
  for (const e of all("table")) if (!e.caption) found.push("a table without a caption");
  for (const e of all("th")) if (!e.scope) found.push(`no scope: ${e.outerHTML}`);
  for (const e of all("svg[role=img]")) if (!e.getAttribute("aria-label")) found.push("a picture without words");
  for (const e of all("[tabindex]")) if (e.tabIndex > 0) found.push("an order of its own");
  for (const e of all("[id]")) if (all(`[id="${e.id}"]`).length > 1) found.push(`id twice: ${e.id}`);
  const levels = all("h1, h2, h3, h4").map((e) => Number(e.nodeName[1]));
  if (levels[0] !== 1 || levels.filter((level) => level === 1).length !== 1) found.push(`headings: ${levels}`);
  levels.forEach((level, at) => { if (at && level > levels[at - 1] + 1) found.push(`headings: ${levels}`); });
  if (!document.documentElement.lang || all("main").length !== 1 || !document.title) found.push("no language, main part or title");
  if (document.documentElement.scrollWidth > innerWidth) found.push(`wider than the window: ${document.documentElement.scrollWidth}`);
  return found;
}"""


@pytest.fixture
def name(name: str) -> str:
    return "shop" if WRITES else name


@pytest.fixture
def address() -> str:
    return f"127.0.0.1:{free_port(set())}"


@pytest.fixture
def bus(
    stack: Addresses, name: str, source: Database, tmp_path: Path, address: str
) -> Iterator[Bus]:
    """Beside the tables of the target, which are there for longer than its tasks."""
    web = {"CDCBUS_HTTP_BIND": address, "CDCBUS_HTTP_TOKEN": TOKEN}
    passwords = {"SOURCE_PASSWORD": source.password, "TARGET_PASSWORD": stack.postgresql.password}
    with (
        postgresql_schema(stack, name) as run,
        open_bus(stack.zookeeper, name, tmp_path, **passwords, **web) as opened,
    ):
        for table in TABLES:
            run(f"CREATE TABLE {name}.{table}")
        yield opened


@pytest.fixture
def fetch(
    bus: Bus,
    stack: Addresses,
    kafka: str,
    source: Database,
    postgresql: Database,
    mariadb: Database,
    source_cursor: Cursor,
    name: str,
    make_topic: Callable[..., str],
) -> str:
    """A fetch task, not started; beside it consumer tasks, and one that must fail as it has no
    topic. Of two the last hours are known."""
    make_topic(name)
    for table in TABLES:
        source_cursor.execute(f"CREATE TABLE {table}")
    task_id = f"{name}-to-kafka"
    bus.load(fetch_text(task_id, source, kafka, name))
    failing = fetch_text("stock-to-kafka", source, kafka, name, restartRetries="0").replace(
        f"topic={name}\n", f"topic={name}-stock\n"
    )
    bus.load(failing)
    for kind, target in (("postgresql", postgresql), ("mariadb", mariadb)):
        url = f"jdbc:{kind}://{target.host}:{target.port}/{target.database}"
        bus.load(
            load_text(
                f"{name}-to-{kind}",
                stack,
                name,
                **{"loader.source.url": url, "loader.onError": "deadletter"},
            )
        )
    now = minute_of(time.time())
    known = [
        Minute(
            now - 60 * back,
            int(900 + 500 * math.sin(back / 25) + 90 * math.sin(back * 2.4)),
            None,
            3.1 if back == 70 else 0.25,
            "WORKING",
        )
        for back in range(170, 0, -1)
    ]
    ThroughputHistory(bus.client).put(task_id, known)
    ThroughputHistory(bus.client).put(
        f"{name}-to-postgresql",
        [replace(minute, lag_records=minute.rows // 300) for minute in known],
    )
    return task_id


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(
            executable_path=CHROMIUM, args=ARGUMENTS, timeout=PATIENCE_MS
        )
        yield opened
        opened.close()


class Look:
    """A page of the console, and what went wrong with it: errors it has told, and addresses it
    has asked that are not the node's."""

    def __init__(self, page: Page, base: str, folder: Path) -> None:
        self.page, self.base, self.wrong = page, base, list[str]()
        self._folder = folder
        page.set_default_timeout(PATIENCE_MS)
        expect.set_options(timeout=PATIENCE_MS)
        page.on(
            "console",
            lambda message: self.wrong.append(message.text) if message.type == "error" else None,
        )
        page.on("pageerror", lambda error: self.wrong.append(str(error)))
        page.on(
            "request",
            lambda request: (
                None if request.url.startswith(base) else self.wrong.append(request.url)
            ),
        )

    def at(self, path: str) -> None:
        self.page.goto(self.base + path)
        self.check()

    def check(self) -> None:
        assert self.page.evaluate(STUMBLES) == [], self.page.url

    def tab_to(self, selector: str) -> None:
        """By keyboard alone."""
        for _ in range(60):
            self.page.keyboard.press("Tab")
            if self.page.evaluate(
                "(selector) => document.activeElement.matches(selector)", selector
            ):
                return
        raise AssertionError(f"no Tab leads to {selector}")

    def take(self, picture: str) -> None:
        file = self._folder / f"{picture}.png"
        self.page.screenshot(path=file)
        assert 0 < file.stat().st_size < IMAGE_BYTES


def expect_text(look: Look, selector: str, text: str) -> None:
    """In any of them, without loading the page again."""
    expect(look.page.locator(selector).filter(has_text=text).first).to_be_visible()


def test_a_task_is_started_looked_at_stopped_and_reset_in_the_browser(
    bus: Bus,
    fetch: str,
    name: str,
    address: str,
    browser: Browser,
    source_cursor: Cursor,
    tmp_path: Path,
) -> None:
    """More than 20 s: a browser goes an operator's way page by page, beside a consumer task that
    starts."""
    node = bus.node("node-1")
    consumer = f"{name}-to-postgresql"
    bus.tasks.want(consumer, is_working=True, by="grace@127.0.0.1")  # Spark takes its time
    base, folder = f"http://{address}", IMAGES if WRITES else tmp_path
    folder.mkdir(exist_ok=True)
    wait_until(lambda: f"serves {base}" in bus.said(), "the pages")
    page = browser.new_page(viewport=WIDE, color_scheme="light")  # type: ignore[arg-type]
    look = Look(page, base, folder)

    # Log in and find the task: by keyboard.
    look.at("/")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "content"
    page.get_by_role("link", name="Log in").focus()
    page.keyboard.press("Enter")
    page.get_by_label("Your name").fill("ada")
    page.get_by_label("Token").fill(TOKEN)
    page.keyboard.press("Enter")
    expect_text(look, ".who", "ada")
    look.tab_to("input[name=q]")
    page.keyboard.type("to-kafka")
    page.keyboard.press("Enter")
    page.wait_for_url("**/?q=to-kafka*")
    expect(page.locator("tbody tr")).to_have_count(2)
    look.tab_to(f"a[href='/tasks/{fetch}']")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/tasks/{fetch}")
    look.check()

    # Start it; the page follows by itself, and says so to those who do not see it.
    bus("task", "start", "stock-to-kafka", code=1)
    look.tab_to("#start")
    page.keyboard.press("Enter")
    page.wait_for_url("**done=start")
    expect_text(look, "#live_head .state", "WORKING")
    source_cursor.executemany(
        "INSERT INTO customers VALUES (%s, %s, %s)",
        [(1, "Ada", "London"), (2, "Grace", None), (3, "Edsger", "Austin")],
    )
    for number in range(1, 9):
        source_cursor.execute(
            "INSERT INTO orders VALUES (%s, %s, %s, 'new')", (number, number % 3 + 1, number * 12.5)
        )
    for number in (1, 3, 5, 7):
        source_cursor.execute("UPDATE orders SET state = 'paid' WHERE id = %s", (number,))
    source_cursor.execute("DELETE FROM orders WHERE id = 8")
    source_cursor.execute("UPDATE customers SET city = 'New York' WHERE id = 2")
    expect_text(look, "#live_tables tr", f"{name}.orders")
    expect(
        page.locator("#live_figures > dl > div")
        .filter(has_text="Rows since its start")
        .locator("dd")
    ).to_have_text("17")
    expect_text(look, "#live_log", "reads the binlog from")
    look.at(f"/tasks/{fetch}")
    look.take("task")

    # Look around.
    page.get_by_role("link", name="Overview").click()
    expect_text(look, "#live_tasks tr", "ERROR")
    look.check()
    page.get_by_role("button", name="Dark theme").click()
    look.take("overview-dark")
    page.reload()
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    page.get_by_role("button", name="Dark theme").click()
    look.at(f"/topics/{name}?task={fetch}")
    expect_text(look, ".rows tr", "New York")
    look.take("topic")
    look.at("/lineage")
    look.take("lineage")
    for path in ("/topics", "/nodes", "/letters", f"/letters/{consumer}"):
        look.at(path)

    # The consumer task beside it, and the alarm of the one that has failed, which is silenced.
    look.at(f"/tasks/{consumer}")
    expect_text(look, "#live_head .state", "WORKING")
    expect_text(look, "#live_tables tr", f"{name}.customers")
    # rows that had to wait for Spark are not timed
    source_cursor.execute("UPDATE orders SET state = 'paid' WHERE id = 2")
    expect_text(look, "#live_delays tr", "source to target")
    expect_text(look, "#live_places tr", "next offset 18")
    expect(look.page.locator("#live_charts figure")).to_have_count(3)
    look.check()
    look.at("/alarms")
    expect_text(look, "#live_raised tr", "stock-to-kafka")
    expect_text(look, "#live_notices tr", "raised")
    page.get_by_label("Task").select_option("stock-to-kafka")
    page.get_by_label("For").select_option("2h")
    page.get_by_role("button", name="Silence", exact=True).click()
    page.wait_for_url("**done=silence")
    expect_text(look, "#live_silent tr", "ada@127.0.0.1 by HTTP")
    look.check()
    look.take("alarms")
    look.at("/")
    expect_text(look, "#live_tasks tr", "silent")
    look.take("overview")
    look.at("/tasks/stock-to-kafka")
    page.get_by_role("button", name="End silence").click()
    page.wait_for_url("**done=told")
    expect(page.locator("#live_alarms")).not_to_contain_text("Silent until")
    page.set_viewport_size(NARROW)  # type: ignore[arg-type]
    for path in (
        "/",
        "/alarms",
        f"/letters/{consumer}",
        f"/tasks/{consumer}",
        f"/tasks/{fetch}",
        f"/tasks/{fetch}/reset?to=earliest",
        f"/topics/{name}?task={fetch}",
        "/lineage",
        "/nodes",
        "/tasks/stock-to-kafka",
    ):
        look.at(path)
    page.set_viewport_size(WIDE)  # type: ignore[arg-type]

    # Stop it.
    look.at(f"/tasks/{fetch}")
    page.get_by_role("button", name="Stop", exact=True).click()
    page.wait_for_url("**done=stop")
    expect_text(look, "#live_head .state", "STOPPED")
    assert bus.status(fetch).state is State.STOPPED

    # Reset it: first what that means, and nothing is set; then for real.
    position = f"/datas/task/{fetch}/position/{name}"
    stored = bus.text(position)
    page.get_by_role("link", name="Reset position").click()
    page.get_by_role("textbox", name="Place").fill("earliest")
    page.keyboard.press("Enter")
    expect_text(look, ".sentences li", "repeats")
    assert bus.text(position) == stored
    look.check()
    page.get_by_role("button", name="Set the position").click()
    page.wait_for_url("**done=reset")
    expect_text(look, "#live_places", "ada@127.0.0.1 by HTTP")
    assert bus.text(position) != stored
    assert look.wrong == []

    # A node that ends does so at once, and the page says that what it shows is of before.
    node.terminate()
    assert node.wait(120) == 0
    expect_text(look, "#pulse", "this node does not answer; this is the state at")
    page.close()
