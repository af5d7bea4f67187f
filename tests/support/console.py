"""The console in a real browser, without a node: pages that axe also checks."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from axe_playwright_python.sync_playwright import Axe
from kazoo.client import KazooClient
from playwright.sync_api import Browser, Page, sync_playwright

from cdcbus.tasks.config.read_task import inspect_text
from cdcbus.tasks.zookeeper.dist_nodes import DistNodes
from cdcbus.tasks.zookeeper.task_configs import dists_of, texts_of
from tests.support.web import TOKEN

CHROMIUM = shutil.which("chromium")
WIDE, NARROW = {"width": 1280, "height": 860}, {"width": 390, "height": 800}
PATIENCE_MS = 90_000
ARGUMENTS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run"]
AT_ONCE = 100  # tasks in one transaction
SERIOUS = ("serious", "critical")


@contextmanager
def open_browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(
            executable_path=CHROMIUM, args=ARGUMENTS, timeout=PATIENCE_MS
        )
        yield opened
        opened.close()


@contextmanager
def open_page(browser: Browser, base: str) -> Iterator[Page]:
    """A page of a person who is logged in. Fails at the end if a script has failed on it."""
    page = browser.new_page(viewport=WIDE)  # type: ignore[arg-type]
    page.set_default_timeout(PATIENCE_MS)
    wrong: list[str] = []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.goto(f"{base}/login")
    page.get_by_label("Your name").fill("ada")
    page.get_by_label("Token").fill(TOKEN)
    page.keyboard.press("Enter")
    page.wait_for_url(f"{base}/")
    yield page
    page.close()
    assert wrong == []


def stumbles(page: Page) -> list[str]:
    """What axe finds serious on the page as it is now, and whether it is wider than its window."""
    found = []
    for each in Axe().run(page).response["violations"]:
        if each["impact"] in SERIOUS:
            found.append(f"{each['id']}: {each['nodes'][0]['html']}")
    if page.evaluate("document.documentElement.scrollWidth > innerWidth"):
        found.append("wider than the window")
    return found


def stumbles_everywhere(page: Page) -> list[str]:
    """The same wide and narrow, in light and dark."""
    found = []
    for size in (WIDE, NARROW):
        for scheme in ("light", "dark"):
            page.set_viewport_size(size)  # type: ignore[arg-type]
            page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
            found += [f"{size['width']} {scheme} {each}" for each in stumbles(page)]
    page.set_viewport_size(WIDE)  # type: ignore[arg-type]
    return found


def put_tasks(client: KazooClient, texts: Mapping[str, str]) -> None:
    """Imports many tasks in few transactions, by id."""
    dists = {}
    for task_id, text in texts.items():
        inspection = inspect_text(text, {}, sources=lambda _: None)
        task = inspection.ready(task_id).task
        dists[task_id] = dists_of(task, texts_of(inspection.entries, task_id, {}))
    task_ids = list(dists)
    for at in range(0, len(task_ids), AT_ONCE):
        some = {task_id: dists[task_id] for task_id in task_ids[at : at + AT_ONCE]}
        DistNodes(client).put(some, is_replacing=True)
