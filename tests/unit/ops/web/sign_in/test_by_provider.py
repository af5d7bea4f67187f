"""Signing in through a provider: a browser that goes there and back over real HTTP, and those who
try to come in otherwise."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import jwt
import pytest
from fastapi import FastAPI

from cdcbus.ops.web.answers import Refused
from cdcbus.ops.web.app import make_app
from cdcbus.ops.web.bus import WebBus
from cdcbus.ops.web.oidc.attempt import new_attempt
from cdcbus.ops.web.oidc.provider import Provider
from cdcbus.tasks.control.bus_settings import read_bus_settings
from tests.support.servers.oidc import CLIENT, Claims, TestProvider, provider_running, settings_text

HOST = "http://cdcbus.example"
TOKEN = "0123456789abcdef-token"
PAGE = "/api/openapi.json"  # one that needs no ZooKeeper


class Browser:
    """Asks a node, and the provider; keeps the node's cookies."""

    def __init__(self, app: FastAPI) -> None:
        self.app = app
        self.cookies = httpx.Cookies()

    def ask(self, method: str, path: str, **more: Any) -> httpx.Response:
        async def asked() -> httpx.Response:
            async with httpx.AsyncClient(
                transport=httpx.ASGITransport(self.app, raise_app_exceptions=False),
                base_url=HOST,
                cookies=self.cookies,
                trust_env=False,
            ) as client:
                answer = await client.request(method, path, **more)
                self.cookies = client.cookies
                return answer

        return asyncio.run(asked())

    def begin(self, after: str = "/") -> str:
        """Goes to the provider; gives where that sends it back to."""
        answer = self.ask("GET", "/login/oidc", params={"next": after})
        assert answer.status_code == 303, answer.text
        there = httpx.get(answer.headers["location"], trust_env=False, verify=False)
        return there.headers["location"]

    def sign_in(self, after: str = "/") -> httpx.Response:
        return self.ask("GET", self.begin(after))

    def status(self, method: str = "GET", path: str = PAGE) -> int:
        return self.ask(method, path, headers={"origin": HOST}).status_code


@pytest.fixture(scope="module")
def running() -> Iterator[TestProvider]:
    with provider_running() as provider:
        yield provider


@pytest.fixture
def provider(running: TestProvider) -> TestProvider:
    running.reset()
    return running


@pytest.fixture(scope="module")
def app(running: TestProvider, tmp_path_factory: pytest.TempPathFactory) -> FastAPI:
    """For most tests the same, as it takes a while to make."""
    return make_app(bus_with(tmp_path_factory.mktemp("node"), running))


@pytest.fixture
def browser(app: FastAPI) -> Browser:
    return Browser(app)


def bus_with(folder: Path, provider: TestProvider, more: str = "", **fields: Any) -> WebBus:
    file = folder / "cdcbus.properties"
    file.write_text(settings_text(provider, more), encoding="utf-8")
    settings = read_bus_settings({}, file, {})
    assert settings.errors() == []
    assert settings.http_oidc is not None
    return WebBus(None, settings, "n1", provider=Provider(settings.http_oidc), **fields)


def test_a_person_comes_in_with_what_her_groups_may_do(
    browser: Browser, provider: TestProvider
) -> None:
    assert browser.status() == 401
    answer = browser.sign_in("/tasks/shop?tab=errors")
    assert answer.status_code == 200
    assert 'content="0; url=/tasks/shop?tab=errors"' in answer.text
    (kept,) = [
        each for each in answer.headers.get_list("set-cookie") if each.startswith("cdcbus_session")
    ]
    assert "HttpOnly" in kept
    assert "SameSite=strict" in kept
    assert browser.status() == 200
    assert browser.status("POST") == 405  # let pass
    assert browser.status("POST", "/api/nodes/n1/nothing") == 403
    provider.claims["groups"] = ["cdc admins", "others"]
    browser.sign_in()
    assert browser.status("POST", "/api/nodes/n1/nothing") == 404


def test_each_page_needs_a_session_or_a_token_also_on_this_machine(
    browser: Browser, provider: TestProvider
) -> None:
    here = {"host": "127.0.0.1"}
    assert browser.ask("GET", PAGE, headers=here).status_code == 401
    assert browser.ask("GET", "/login", headers=here).status_code == 200
    assert "Your token" not in browser.ask("GET", "/login").text
    led = browser.ask("GET", "/tasks/shop", headers={"accept": "text/html"})
    assert led.headers["location"] == "/login?next=/tasks/shop"


def test_tokens_of_scripts_go_on_beside(tmp_path: Path, provider: TestProvider) -> None:
    browser = Browser(make_app(bus_with(tmp_path, provider, token=TOKEN)))
    bearer = {"authorization": f"Bearer {TOKEN}"}
    assert browser.ask("GET", PAGE, headers=bearer).status_code == 200
    page = browser.ask("GET", "/login").text
    assert "Your token" in page
    assert f"Sign in with\n{urlsplit(provider.address).netloc}" in page
    assert browser.sign_in().status_code == 200
    assert browser.status("POST") == 405


def test_a_change_with_such_a_session_comes_from_a_page_of_ours(
    browser: Browser, provider: TestProvider
) -> None:
    browser.sign_in()
    for origin in ("http://evil.example", "null", ""):
        headers = {"origin": origin} if origin else {}
        assert browser.ask("POST", PAGE, headers=headers).status_code == 403


def query_of(back: str) -> dict[str, str]:
    return {key: each[0] for key, each in parse_qs(urlsplit(back).query).items()}


def refused(browser: Browser, answer: httpx.Response, sentence: str) -> None:
    """Nobody is in, the page says why and lets one try again, and the log has no secret."""
    assert answer.status_code in (400, 401, 403, 503), answer.text
    assert sentence in answer.text
    assert "/login/oidc?next=" in answer.text
    assert "cdcbus_session" not in str(answer.headers)
    assert browser.status() == 401


def test_an_answer_for_another_browser_is_refused(app: FastAPI, provider: TestProvider) -> None:
    mine, others = Browser(app), Browser(app)
    back = others.begin()
    refused(mine, mine.ask("GET", back), "was not begun here")
    mine.begin()
    refused(mine, mine.ask("GET", back), "for another sign-in (state)")
    assert others.ask("GET", back).status_code == 200


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"state": "x"}, "for another sign-in (state)"),
        ({"state": None}, "for another sign-in (state)"),
        ({"code": "x"}, "does not take this code"),
        ({"code": None}, "sent no code"),
        ({"iss": "https://evil.example"}, "of another issuer"),
        ({"error": "access_denied"}, "does not let you in: access_denied"),
        ({"error": "<script>"}, "an error without a code"),
    ],
)
def test_an_answer_that_somebody_changed_is_refused(
    change: dict[str, str | None], sentence: str, browser: Browser, provider: TestProvider
) -> None:
    query: dict[str, Any] = {**query_of(browser.begin()), **change}
    params = {key: each for key, each in query.items() if each is not None}
    answer = browser.ask("GET", "/login/oidc/back", params=params)
    refused(browser, answer, sentence)
    assert "<script>" not in answer.text.partition("<body>")[2]


def test_a_code_and_its_answer_count_once(browser: Browser, provider: TestProvider) -> None:
    back = browser.begin()
    before = httpx.Cookies(browser.cookies)
    assert browser.ask("GET", back).status_code == 200
    browser.cookies.delete("cdcbus_session")
    refused(browser, browser.ask("GET", back), "was not begun here")
    browser.cookies = before  # somebody kept the cookie as well
    refused(browser, browser.ask("GET", back), "does not take this code")


NOW = int(time.time())


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"nonce": "another"}, "not for this sign-in (nonce)"),
        ({"nonce": None}, "not for this sign-in (nonce)"),
        ({"nonce": 1}, "not for this sign-in (nonce)"),
        ({"aud": "another"}, "for another client"),
        ({"aud": []}, "lacks a claim"),
        ({"aud": [CLIENT, "another"]}, "for another client (azp)"),
        ({"aud": [CLIENT, "another"], "azp": "another"}, "for another client (azp)"),
        ({"azp": "another"}, "for another client (azp)"),
        ({"iss": "https://evil.example"}, "of another issuer"),
        ({"iss": None}, "lacks a claim"),
        ({"exp": NOW - 120}, "has ended"),
        ({"exp": None}, "lacks a claim"),
        ({"exp": "soon"}, "cannot be read"),
        ({"iat": NOW + 3600}, "is not valid yet"),
        ({"iat": None}, "lacks a claim"),
        ({"nbf": NOW + 3600}, "is not valid yet"),
        ({"sub": None}, "lacks a claim"),
        ({"groups": ["nobody"]}, "none of the groups"),
        ({"groups": None}, "none of the groups"),
        ({"groups": {"ops": True}}, "none of the groups"),
        ({"preferred_username": "a\nb"}, "http.oidc.nameClaim"),
        ({"preferred_username": "<b>"}, "http.oidc.nameClaim"),
        ({"preferred_username": ""}, "http.oidc.nameClaim"),
        ({"preferred_username": ["ada"]}, "http.oidc.nameClaim"),
    ],
)
def test_a_token_that_is_not_for_us_lets_nobody_in(
    change: Claims, sentence: str, browser: Browser, provider: TestProvider
) -> None:
    provider.altered = lambda claims: {
        key: each for key, each in {**claims, **change}.items() if each is not None
    }
    refused(browser, browser.sign_in(), sentence)


def unsigned(claims: Claims) -> str:
    return jwt.encode(claims, "", "none")


def signed_by_secret(claims: Claims) -> str:
    return jwt.encode(claims, "a secret: with + and %" * 2, "HS256", {"kid": "1"})


def signed_by_another(claims: Claims) -> str:
    return TestProvider().token(claims)


@pytest.mark.parametrize(
    ("signed", "sentence"),
    [
        (unsigned, "not signed by an algorithm"),
        (signed_by_secret, "not signed by an algorithm"),
        (signed_by_another, "wrong signature"),
        (lambda claims: unsigned(claims) + "x", "cannot be read"),
        (lambda _: "no token", "cannot be read"),
    ],
)
def test_a_token_that_others_could_have_made_lets_nobody_in(
    signed: Callable[[Claims], str], sentence: str, browser: Browser, provider: TestProvider
) -> None:
    provider.signed = signed
    refused(browser, browser.sign_in(), sentence)


def test_clocks_may_differ_a_little(browser: Browser, provider: TestProvider) -> None:
    now = int(time.time())
    provider.altered = lambda claims: {**claims, "iat": now + 30, "nbf": now + 30, "exp": now - 20}
    assert browser.sign_in().status_code == 200


def test_a_new_key_of_the_provider_is_asked_for(browser: Browser, provider: TestProvider) -> None:
    assert browser.sign_in().status_code == 200
    before = provider.asked.count("/keys")
    provider.rotate()
    assert browser.sign_in().status_code == 200
    assert browser.sign_in().status_code == 200
    assert provider.asked.count("/keys") == before + 1
    provider.signed = lambda claims: jwt.encode(claims, provider.key, "ES256", {"kid": "unknown"})
    answer = browser.sign_in()
    assert "a key that it does not publish" in answer.text


def test_a_provider_that_is_away_is_a_sentence_and_takes_nobody_else_along(
    tmp_path: Path, provider: TestProvider
) -> None:
    bus = bus_with(tmp_path, provider, token=TOKEN)
    provider.is_failing = True
    browser = Browser(make_app(bus))
    answer = browser.ask("GET", "/login/oidc")
    assert answer.status_code == 503
    assert "answers HTTP 502; try again later" in answer.text
    assert browser.ask("GET", PAGE, headers={"authorization": f"Bearer {TOKEN}"}).status_code == 200
    provider.is_failing = False
    assert browser.sign_in().status_code == 200  # it is not remembered as away
    assert bus.provider is not None
    nobody = Provider(replace(bus.provider.settings, issuer="http://127.0.0.1:9"))
    with pytest.raises(Refused, match=r"127\.0\.0\.1:9 is away \(no connection\)"):
        nobody.address(new_attempt("/", HOST))


@pytest.mark.parametrize(
    ("metadata", "sentence"),
    [
        ({"issuer": "https://evil.example"}, "names another issuer"),
        ({"token_endpoint": None}, "publishes no token_endpoint"),
        ({"token_endpoint": "http://evil.example/token"}, "publishes no token_endpoint"),
        ({"authorization_endpoint": "javascript://127.0.0.1/"}, "no authorization_endpoint"),
    ],
)
def test_a_provider_that_tells_something_else_of_itself_is_not_asked(
    metadata: Claims, sentence: str, tmp_path: Path, provider: TestProvider
) -> None:
    provider.metadata = metadata
    asked = bus_with(tmp_path, provider).provider
    assert asked is not None
    with pytest.raises(Refused, match=sentence) as refused:
        asked.address(new_attempt("/", HOST))
    assert refused.value.status == 503


def test_a_wrong_secret_is_said_without_it(tmp_path: Path, provider: TestProvider) -> None:
    bus = bus_with(tmp_path, provider)
    provider.secret = "another"
    answer = Browser(make_app(bus)).sign_in()
    assert "invalid_client" in answer.text
    assert "http.oidc.clientSecret" in answer.text
    assert "a secret: with" not in answer.text
    assert "a secret: with" not in repr(bus)


def test_a_public_client_needs_no_secret(tmp_path: Path, provider: TestProvider) -> None:
    provider.secret = None
    browser = Browser(make_app(bus_with(tmp_path, provider)))
    assert browser.sign_in().status_code == 200
    assert browser.status() == 200
    # Nobody else could have signed the session: there is nothing that two nodes share.
    elsewhere = bus_with(tmp_path, provider).provider
    assert elsewhere is not None
    assert elsewhere.session_of(browser.cookies["cdcbus_session"]) is None


def test_a_session_holds_on_each_node_and_goes_by_what_its_settings_say(
    browser: Browser, tmp_path: Path, provider: TestProvider
) -> None:
    browser.sign_in()
    assert browser.status("POST") == 405
    lowered = Browser(make_app(bus_with(tmp_path, provider, "http.oidc.group.ops.role=read\n")))
    lowered.cookies = browser.cookies
    assert (lowered.status(), lowered.status("POST")) == (200, 403)
    assert lowered.status("GET", "/letters/shop/row?record=t/0/1") == 403  # cells


def test_what_a_cookie_says_counts_only_as_it_was_signed(
    browser: Browser, provider: TestProvider
) -> None:
    browser.sign_in()
    kept = browser.cookies["cdcbus_session"]
    told, key, signature = kept.split(".")
    for forged in (f"{told}x.{key}.{signature}", f"{told}.9{key}.{signature}", f"{told}.{key}."):
        browser.cookies = httpx.Cookies({"cdcbus_session": forged})
        assert browser.status() == 401


def test_groups_may_be_for_some_tasks_and_all_of_a_persons_count(
    tmp_path: Path, provider: TestProvider
) -> None:
    more = (
        "http.oidc.group.shop.value=/cdc/shop\nhttp.oidc.group.shop.role=operate\n"
        "http.oidc.group.shop.tasks=shop-*\nhttp.oidc.group.all.value=*\n"
    )
    provider.claims["groups"] = ["/cdc/shop"]
    browser = Browser(make_app(bus_with(tmp_path, provider, more)))
    browser.sign_in()
    assert browser.status("POST", "/api/tasks/shop-1/nothing") == 404
    assert browser.status("POST", "/api/tasks/bank-1/nothing") == 403
    assert browser.status("GET", "/api/tasks/bank-1/nothing") == 404
    assert browser.status("POST", "/alarms/silence") == 403
    assert browser.status("GET", "/topics/shop/find") == 403  # rows of all tasks
    refusal = browser.ask("POST", "/api/tasks/bank-1/nothing", headers={"origin": HOST}).json()
    assert "ada, who has the tasks shop-* only; see http.oidc.group.*.tasks" in refusal["error"]


def test_roles_may_be_a_claim_in_a_claim_and_come_from_the_providers_page_of_a_user(
    tmp_path: Path, provider: TestProvider
) -> None:
    more = "http.oidc.groupsClaim=realm_access.roles\nhttp.oidc.nameClaim=email\n"
    browser = Browser(make_app(bus_with(tmp_path, provider, more)))
    provider.claims = {"email": "ada@example.com"}
    provider.userinfo = {"realm_access": {"roles": ["ops"]}}
    assert browser.sign_in().status_code == 200
    assert browser.status("POST") == 405
    provider.userinfo["sub"] = "another"
    assert "another person" in browser.sign_in().text
    provider.userinfo["sub"] = "u-1"
    provider.claims["email_verified"] = False
    assert "not verified" in browser.sign_in().text


@pytest.mark.parametrize("said", [False, "false", None])
def test_an_address_that_is_not_verified_gives_no_rights(
    tmp_path: Path, provider: TestProvider, said: object
) -> None:
    more = "http.oidc.groupsClaim=email\n"
    browser = Browser(make_app(bus_with(tmp_path, provider, more)))
    provider.claims = {"email": "admin@corp.example", "email_verified": said}
    assert "not verified" in browser.sign_in().text


@pytest.mark.parametrize(
    "after", ["//evil.example", "https://evil.example", "/\\evil.example", "javascript:alert(1)"]
)
def test_after_signing_in_one_stays_here(
    after: str, browser: Browser, provider: TestProvider
) -> None:
    answer = browser.sign_in(after)
    assert 'content="0; url=/"' in answer.text
    assert "evil" not in answer.text


def test_the_provider_sends_people_back_to_the_address_that_settings_name(
    browser: Browser, tmp_path: Path, provider: TestProvider
) -> None:
    named = Browser(
        make_app(bus_with(tmp_path, provider, "http.oidc.address=https://cdc.example/\n"))
    )
    answer = named.ask("GET", "/login/oidc")
    told = query_of(answer.headers["location"])
    assert told["redirect_uri"] == "https://cdc.example/login/oidc/back"
    assert told["scope"] == "openid profile email"
    behind = browser.ask("GET", "/login/oidc", headers={"x-forwarded-proto": "https"})
    assert query_of(behind.headers["location"])["redirect_uri"].startswith("https://cdcbus.example")
    assert "; Secure" in behind.headers["set-cookie"]
