"""Each page of the console by the rules of axe, wide and narrow, in light and dark; the longest
names that porter's world has are in it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Page, expect

from cdcbus.ops.stack.addresses import Database
from cdcbus.plugins.task_status import State
from cdcbus.tasks.runtime.delay_history import DelayHistory, DelayStep, step_of
from cdcbus.tasks.runtime.occurrences import DDL, ERROR, RETRYING, Occurrence, Occurrences
from cdcbus.tasks.runtime.throughput_history import Minute, ThroughputHistory, minute_of
from cdcbus.tasks.zookeeper.stat import Percentiles
from cdcbus.tasks.zookeeper.tasks import Run, TaskNodes
from tests.support.console import (
    CHROMIUM,
    NARROW,
    PATIENCE_MS,
    open_browser,
    open_page,
    stumbles_everywhere,
)
from tests.support.processes.bus import FROM_KAFKA, Bus, fetch_text, open_bus, resting_text
from tests.support.waiting import wait_until
from tests.support.web import pages

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium; apt-get install chromium"),
]
LONG = "ORDER_CENTER_WAREHOUSE_SETTLEMENT_DETAIL_HISTORY_TO_WAREHOUSE_MIRROR"
FORWARD = """\
loader.loaderName=KAFKA_SYNC
loader.source.servers={kafka}
loader.source.topic={topic}
loader.source.oggJson=false
"""
# Each text of the picture, as drawn, is inside of its box.
RUN_OUT = """() => [...document.querySelectorAll(".graph g")].filter((g) => {
  const box = g.querySelector("rect").getBoundingClientRect();
  return [...g.querySelectorAll("text")].some((text) => {
    const drawn = text.getBoundingClientRect();
    return drawn.left < box.left || drawn.right > box.right + 0.5;
  });
}).map((g) => g.textContent)"""


@pytest.fixture
def bus(
    zookeeper: str,
    name: str,
    tmp_path: Path,
    kafka: str,
    source: Database,
    make_topic: Callable[..., str],
) -> Iterator[Bus]:
    """A way through two topics."""
    make_topic(name)
    make_topic(f"{name}-{LONG}")
    with open_bus(zookeeper, name, tmp_path) as opened:
        opened.load(fetch_text("fetch", source, kafka, name, tags="orders"))
        forward = (FROM_KAFKA + FORWARD).format(task_id=LONG, kafka=kafka, topic=name, more="")
        forward = forward.replace(
            f"loader.source.topic={name}\n", f"loader.source.topic={name}-{LONG}\n"
        )
        opened.load(forward)
        opened.load(resting_text("last", kafka, f"{name}-{LONG}"))
        yield opened


@pytest.fixture
def web(bus: Bus, source: Database) -> Iterator[httpx.Client]:
    with pages(bus.address, SOURCE_PASSWORD=source.password, TARGET_PASSWORD="x") as client:
        yield client


@pytest.fixture
def page(web: httpx.Client) -> Iterator[Page]:
    expect.set_options(timeout=PATIENCE_MS)
    with open_browser() as browser, open_page(browser, str(web.base_url).rstrip("/")) as opened:
        yield opened


def test_no_page_has_a_serious_finding(page: Page, web: httpx.Client, name: str, bus: Bus) -> None:
    """More than 20 s: axe looks at fourteen pages."""
    now = int(time.time())
    delays = DelayStep(step_of(now) - 300, {"source_to_read": Percentiles(0.1, 0.2, 0.3)})
    DelayHistory(bus.client).put("fetch", [delays])
    # An operator's JSON and a path without blanks in the sentence of an error.
    reason = f"/datas/task/{LONG}/position/{name}: not a Kafka position: {'{' + LONG + '}'}"
    nodes = TaskNodes(bus.client)
    nodes.want(LONG, is_working=True, by="ada")
    desired = nodes.wanted(LONG)
    assert desired is not None
    nodes.put_run(LONG, Run(State.ERROR, reason, desired.order, node_id="n"))
    Occurrences(bus.client).add(
        "fetch", [Occurrence(now - 60, kind, f"a {kind}") for kind in (DDL, ERROR, RETRYING)]
    )
    found = {}
    for path in (
        "/tasks/fetch?range=1h",
        "/tasks/fetch?range=30d",
        f"/tasks/{LONG}",
        "/tasks/fetch/edit",
        "/tasks/fetch/versions",
        "/tasks/fetch/log",
        "/lineage",
        "/lineage?zoom=50",
        "/topics",
        f"/topics/{name}?task=fetch",
        f"/topics/{name}/find?task=fetch&op=INSERT",
        f"/topics/{name}/readers?task=fetch",
        "/nodes",
        "/letters",
        "/alarms",
    ):
        page.goto(str(web.base_url).rstrip("/") + path)
        found[path] = stumbles_everywhere(page)
    assert {path: each for path, each in found.items() if each} == {}


def test_a_narrow_page_of_a_task_has_its_charts_of_delays(
    page: Page, web: httpx.Client, bus: Bus
) -> None:
    delays = DelayStep(step_of(int(time.time())) - 300, {"read": Percentiles(0.1, 0.2, 0.3)})
    DelayHistory(bus.client).put("fetch", [delays])
    page.set_viewport_size(NARROW)  # type: ignore[arg-type]
    page.goto(str(web.base_url).rstrip("/") + "/tasks/fetch?range=1h")
    expect(page.locator("#live_stages figure")).to_be_visible()


def test_the_way_through_two_topics_is_drawn_once_and_no_name_runs_out(
    page: Page, web: httpx.Client
) -> None:
    page.goto(str(web.base_url).rstrip("/") + "/lineage")
    assert page.evaluate(RUN_OUT) == []
    expect(page.locator(".graph g.task")).to_have_count(3)
    page.get_by_role("link", name=f"task {LONG}").focus()
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/tasks/{LONG}")


def test_a_mark_stands_out_in_all_charts_when_its_line_is_in_focus(
    page: Page, web: httpx.Client, bus: Bus
) -> None:
    now = int(time.time())
    found = [Occurrence(now - 60 * back, ERROR, f"failure {back}") for back in (9, 5)]
    Occurrences(bus.client).add("fetch", found)
    page.goto(str(web.base_url).rstrip("/") + "/tasks/fetch?range=1h")
    page.get_by_text("What happened in this time").focus()
    page.keyboard.press("Enter")
    line = page.locator("tr[data-mark]", has_text="failure 9")
    line.focus()
    expect(page.locator(".plot .mark.lit")).to_have_count(page.locator(".plot").count())
    expect(page.locator(".plot .mark.lit title").first).to_contain_text("failure 9")


def test_a_chart_has_the_readers_time_with_utc_beside_it(bus: Bus, web: httpx.Client) -> None:
    now = minute_of(time.time())
    minutes = [Minute(now - 60 * back, 7, None, 1.0, "WORKING") for back in range(30, 0, -1)]
    ThroughputHistory(bus.client).put("fetch", minutes)
    with open_browser() as browser:
        page = browser.new_page(timezone_id="Asia/Shanghai")
        page.goto(str(web.base_url).rstrip("/") + "/tasks/fetch?range=1h")
        label = page.locator(".chart .x span").last

        def has_both() -> bool:
            # Read at once: the chart moves on with each minute.
            at, text = label.evaluate("span => [span.dataset.at, span.textContent]")
            utc = datetime.fromtimestamp(int(at), UTC)
            return bool(text == f"{utc + timedelta(hours=8):%H:%M}{utc:%H:%M} UTC")

        wait_until(has_both, "the reader's time and UTC beside it")
        expect(page.locator("footer")).to_contain_text("Asia/Shanghai")
        # The live parts, which come as the node's text, keep it.
        expect(page.locator("#pulse")).to_have_text("live")
        expect(page.locator(".chart .x small").last).to_contain_text("UTC")
        page.close()
