"""Signing in through a provider in a real browser, whose rules for cookies of other sites and for
forms count: provider and console are different sites."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from cdcbus.ops.web.auth import COOKIE
from cdcbus.ops.web.serve import serving
from cdcbus.tasks.control.bus_settings import read_bus_settings
from tests.support.console import CHROMIUM, PATIENCE_MS, open_browser, stumbles_everywhere
from tests.support.processes.bus import Bus, open_bus, resting_text
from tests.support.servers.oidc import TestProvider, provider_running, settings_text

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium; apt-get install chromium"),
]


@pytest.fixture
def bus(zookeeper: str, name: str, tmp_path: Path) -> Iterator[Bus]:
    with open_bus(zookeeper, name, tmp_path) as opened:
        opened.load(resting_text("1084", "127.0.0.1:1", "t"))
        yield opened


@pytest.fixture
def provider() -> Iterator[TestProvider]:
    with provider_running() as running:
        yield running


@pytest.fixture
def console(bus: Bus, provider: TestProvider, tmp_path: Path) -> Iterator[str]:
    """Its address as a browser asks for it: `localhost`, which is another site than `127.0.0.1`."""
    file = tmp_path / "cdcbus.properties"
    file.write_text(settings_text(provider, "http.bind=127.0.0.1:0\n"), encoding="utf-8")
    with serving(read_bus_settings({"zookeeper": bus.address}, file, {}), "n1") as address:
        assert address is not None
        yield address.replace("127.0.0.1", "localhost")


@pytest.fixture
def page() -> Iterator[Page]:
    expect.set_options(timeout=PATIENCE_MS)
    with open_browser() as browser:
        opened = browser.new_page()
        opened.set_default_timeout(PATIENCE_MS)
        yield opened


def test_a_person_signs_in_changes_something_and_logs_out_at_both(
    bus: Bus, console: str, provider: TestProvider, page: Page
) -> None:
    page.goto(f"{console}/tasks/1084")
    assert page.url == f"{console}/login?next=/tasks/1084"
    assert stumbles_everywhere(page) == []
    provider.is_asking = True  # so that the browser comes from a page of another site
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Let me in").click()
    page.wait_for_url(f"{console}/tasks/1084")
    expect(page.locator("header")).to_contain_text("ada")
    page.get_by_role("button", name="Start", exact=True).click()
    page.wait_for_url(f"{console}/tasks/1084?done=*")
    done = [(each["what"], each["by"]) for each in bus.json("audit")]
    assert ("task start", "ada@127.0.0.1 by HTTP") in done
    (kept,) = [each for each in page.context.cookies() if each["name"] == COOKIE]
    # What the browser comes back to is the login, with the session ended here and there.
    page.get_by_role("button", name="Log out").click()
    page.wait_for_url(f"{console}/login")
    (ended,) = provider.logged_out
    assert ended["post_logout_redirect_uri"] == f"{console}/login"
    assert ended["id_token_hint"].count(".") == 2
    # A copy of the cookie is worth nothing.
    page.context.add_cookies([{"name": COOKIE, "value": kept["value"], "url": console}])
    page.goto(f"{console}/tasks/1084")
    assert page.url == f"{console}/login?next=/tasks/1084"
