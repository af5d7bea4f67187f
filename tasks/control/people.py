"""Who may do what over HTTP: people with tokens of their own, what each may do, and to which
tasks."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from fnmatch import fnmatchcase
from typing import Any

from cdcbus.plugins.errors import ConfigError
from cdcbus.tasks.config.keys.bus import TOKEN
from cdcbus.tasks.config.keys.definition import Key
from cdcbus.tasks.config.keys.types import NAMES, word

PERSON_KEY = re.compile(r"http\.person\.([\w.@-]{1,40})\.(token|role|tasks)", re.ASCII)


class Role(IntEnum):
    """Each may do what those before it may. READ: look at pages, without cells of rows. OPERATE:
    see cells, and change tasks. ADMINISTER: change nodes, too."""

    READ = 1
    OPERATE = 2
    ADMINISTER = 3


KINDS = {
    "token": Key("http.person.NAME.token", TOKEN, "", "A token of a person's own."),
    "role": Key(
        "http.person.NAME.role",
        word(*(role.name.lower() for role in Role)),
        "read",
        "What the person may do.",
    ),
    "tasks": Key("http.person.NAME.tasks", NAMES, "", "The person's tasks; absent: all."),
}


@dataclass(frozen=True, slots=True)
class Grant:
    """A role, and for which tasks. `tasks`: patterns of ids, `shop-*`; none: all."""

    role: Role
    tasks: tuple[str, ...] = ()

    def has(self, task_id: str) -> bool:
        """Whether a task is among them."""
        return not self.tasks or any(fnmatchcase(task_id, each) for each in self.tasks)


@dataclass(frozen=True, slots=True)
class Person:
    """`name`: empty for who has the node's own token, and says a name. Who signed in through a
    provider has no token, and `more` grants for more than one group there, the highest role
    first."""

    name: str
    token: str = field(repr=False)
    role: Role = Role.ADMINISTER
    tasks: tuple[str, ...] = ()
    more: tuple[Grant, ...] = ()

    @property
    def grants(self) -> tuple[Grant, ...]:
        return (Grant(self.role, self.tasks), *self.more)

    @property
    def is_from_provider(self) -> bool:
        return not self.token

    @property
    def setting(self) -> str:
        """The settings that say what the person may do."""
        return "http.oidc.group.*" if self.is_from_provider else f"http.person.{self.name}"

    def has(self, task_id: str) -> bool:
        """Whether a task is one of the person's."""
        return self.may(Role.READ, task_id)

    def may(self, role: Role, task_id: str | None = None) -> bool:
        """Whether the person has this role for a task; without one: for all tasks."""
        return any(
            grant.role >= role and (not grant.tasks if task_id is None else grant.has(task_id))
            for grant in self.grants
        )


def find_person_key(written: str) -> Key | None:
    found = PERSON_KEY.fullmatch(written)
    return KINDS[found[2]] if found else None


def people_of(values: Mapping[str, Any]) -> tuple[Person, ...]:
    """The people of these settings, by key. Raises ConfigError for a person without a token, and
    for a token that two have: it would not say who it is."""
    fields: dict[str, dict[str, Any]] = {}
    for key, value in values.items():
        if (found := PERSON_KEY.fullmatch(key)) and value is not None:
            fields.setdefault(found[1], {})[found[2]] = value
    for name, own in fields.items():
        if "token" not in own:
            raise ConfigError(f"http.person.{name} has no token; set http.person.{name}.token")
    people = tuple(
        Person(
            name,
            own["token"],
            Role[own.get("role", "read").upper()],
            own.get("tasks", ()),
        )
        for name, own in fields.items()
    )
    owners: dict[str, str] = {}
    if values.get("http.token"):
        owners[values["http.token"]] = "http.token"
    for person in people:
        other = owners.setdefault(person.token, f"http.person.{person.name}.token")
        if other != f"http.person.{person.name}.token":
            raise ConfigError(
                f"http.person.{person.name}.token is the same as {other}; give each person another"
            )
    return people
