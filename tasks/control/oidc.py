"""Settings for signing in at the console through an OpenID Connect provider: its address, and what
each of its groups may do."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from cdcbus.plugins.errors import ConfigError
from cdcbus.tasks.config.keys.bus import OIDC_KEYS
from cdcbus.tasks.config.keys.definition import Key
from cdcbus.tasks.config.keys.types import TEXT
from cdcbus.tasks.control.people import KINDS as PERSON_KINDS
from cdcbus.tasks.control.people import Grant, grant_of, own_settings

GROUP_KEY = re.compile(r"http\.oidc\.group\.([\w.@-]{1,40})\.(value|role|tasks)", re.ASCII)
ANYBODY = "*"
GROUP = "http.oidc.group.NAME"
KINDS = {
    "value": Key(f"{GROUP}.value", TEXT, "", "The group's value in the claim. If unset, NAME."),
    "role": replace(PERSON_KINDS["role"], name=f"{GROUP}.role"),
    "tasks": replace(PERSON_KINDS["tasks"], name=f"{GROUP}.tasks"),
}


@dataclass(frozen=True, slots=True)
class Group:
    """What people may do whose claim has `value`; `*`: everyone who can sign in."""

    name: str
    value: str
    grant: Grant


@dataclass(frozen=True, slots=True)
class OidcSettings:
    """The settings `http.oidc.*`. `address`: the console's address in browsers; None: the one that
    a request names. Without a `client_secret` only PKCE protects a sign-in."""

    issuer: str
    client_id: str
    groups: tuple[Group, ...]
    client_secret: str | None = field(default=None, repr=False)
    scopes: tuple[str, ...] = ("openid", "profile", "email")
    name_claim: str = "preferred_username"
    groups_claim: str = "groups"
    address: str | None = None

    def groups_of(self, values: frozenset[str]) -> tuple[str, ...]:
        """The names of the groups of a person whose claim has these values."""
        values |= {ANYBODY}
        return tuple(group.name for group in self.groups if group.value in values)

    def grants_of(self, names: frozenset[str]) -> tuple[Grant, ...]:
        """The current grants of the groups with these names; a removed group has none."""
        return tuple(group.grant for group in self.groups if group.name in names)


def find_group_key(written: str) -> Key | None:
    found = GROUP_KEY.fullmatch(written)
    if found is None:
        return None
    return KINDS[found[2]]


def oidc_of(values: Mapping[str, Any]) -> OidcSettings | None:
    """The settings from these values by key; None where no provider is set. Raises ConfigError
    where settings conflict, and where nobody could sign in."""
    groups = _groups(values)
    issuer = values["http.oidc.issuer"]
    if issuer is None:
        if key := _first_set(values, groups):
            raise ConfigError(f"{key} has no provider; set http.oidc.issuer, or remove it")
        return None
    if values["http.oidc.clientId"] is None:
        raise ConfigError(
            "http.oidc.issuer needs the id of a client at that provider; set http.oidc.clientId"
        )
    if not groups:
        raise ConfigError(
            "http.oidc.issuer is set, but nobody may do anything; name the groups that may, as "
            "http.oidc.group.NAME.role=operate"
        )
    scopes = tuple(values["http.oidc.scopes"])
    # Without openid the provider issues no ID token.
    if "openid" not in scopes:
        scopes = ("openid", *scopes)
    return OidcSettings(
        issuer,
        values["http.oidc.clientId"],
        groups,
        values["http.oidc.clientSecret"],
        scopes,
        values["http.oidc.nameClaim"],
        values["http.oidc.groupsClaim"],
        values["http.oidc.address"],
    )


def _first_set(values: Mapping[str, Any], groups: tuple[Group, ...]) -> str:
    """The first key that is set, or else that of a group; empty where there is none."""
    for key in OIDC_KEYS:
        # Keys with a default have a value without being set.
        if not key.default and values[key.name] is not None:
            return key.name
    if not groups:
        return ""
    return f"http.oidc.group.{groups[0].name}"


def _groups(values: Mapping[str, Any]) -> tuple[Group, ...]:
    groups: list[Group] = []
    for name, own in own_settings(GROUP_KEY, values).items():
        groups.append(Group(name, own.get("value", name), grant_of(own)))
    return tuple(groups)
