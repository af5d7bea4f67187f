"""The settings of an OpenID Connect provider: what is read, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from cdcbus.plugins.errors import ConfigError
from cdcbus.tasks.control.bus_settings import BusSettings, read_bus_settings
from cdcbus.tasks.control.oidc import Group, OidcSettings
from cdcbus.tasks.control.people import Grant, Role

ISSUER = "https://sso.example.com/realms/main"
LEAST = f"http.oidc.issuer={ISSUER}\nhttp.oidc.clientId=cdcbus\n"
OPS = "http.oidc.group.ops.role=operate\n"


def read(folder: Path, text: str) -> BusSettings:
    file = folder / "cdcbus.properties"
    file.write_text(text, encoding="utf-8")
    return read_bus_settings({}, file, {"OIDC": "a-secret"})


def test_without_a_provider_there_is_none(tmp_path: Path) -> None:
    settings = read(tmp_path, "")
    assert settings.http_oidc is None
    assert not settings.http_closed


def test_a_provider_needs_a_client_and_a_group_and_closes_all_pages(tmp_path: Path) -> None:
    settings = read(tmp_path, LEAST + OPS)
    assert settings.errors() == []
    assert settings.http_closed
    assert settings.http_oidc == OidcSettings(
        ISSUER, "cdcbus", (Group("ops", "ops", Grant(Role.OPERATE)),)
    )


def test_all_settings_are_read_and_the_secret_is_not_shown(tmp_path: Path) -> None:
    settings = read(
        tmp_path,
        LEAST + "http.oidc.clientSecret=${env:OIDC}\nhttp.oidc.scopes=email, groups\n"
        "http.oidc.nameClaim=email\nhttp.oidc.groupsClaim=realm_access.roles\n"
        "http.oidc.address=https://cdc.example:8443/\n"
        "http.oidc.group.shop.value=/cdc/shop team\nhttp.oidc.group.shop.tasks=shop-*, 51\n",
    )
    found = settings.http_oidc
    assert found == OidcSettings(
        ISSUER,
        "cdcbus",
        (Group("shop", "/cdc/shop team", Grant(Role.READ, ("shop-*", "51"))),),
        "a-secret",
        ("openid", "email", "groups"),
        "email",
        "realm_access.roles",
        "https://cdc.example:8443",
    )
    assert "a-secret" not in repr(found)
    assert found.groups_of(frozenset({"/cdc/shop team", "x"})) == ("shop",)
    assert found.groups_of(frozenset({"shop"})) == ()


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (LEAST, "nobody may do anything"),
        (f"http.oidc.issuer={ISSUER}\n{OPS}", "set http.oidc.clientId"),
        ("http.oidc.clientId=cdcbus\n", "http.oidc.clientId has no provider"),
        (OPS, "http.oidc.group.ops has no provider"),
        (LEAST + "http.oidc.group.ops.role=king\n", "expected one of read, "),
        (LEAST.replace("https", "http") + OPS, "expected an address with https://"),
        (LEAST.replace("main", "main?x=1") + OPS, "expected an address with https://"),
        (LEAST.replace("sso", "user:word@sso") + OPS, "expected an address with https://"),
        (LEAST.replace("https", "file") + OPS, "expected an address with https://"),
        (LEAST + OPS + "http.oidc.address=https://cdc.example/x\n", "nothing after them"),
        (LEAST + OPS + "http.oidc.address=cdc.example\n", "nothing after them"),
    ],
)
def test_what_would_let_nobody_in_or_the_wrong_one_is_refused(
    text: str, sentence: str, tmp_path: Path
) -> None:
    settings = read(tmp_path, text)
    with pytest.raises(ConfigError) as refused:
        assert settings.http_oidc
    assert sentence in str(refused.value)
    assert any(sentence in each for each in settings.errors())


def test_a_misspelt_key_is_warned_of(tmp_path: Path) -> None:
    (warning,) = read(tmp_path, "http.oidc.group.ops.rol=read\n").warnings
    assert "http.oidc.group.ops.rol: unknown key" in warning
    (warning,) = read(tmp_path, "http.oidc.clientID=x\n").warnings
    assert "http.oidc.clientId" in warning
