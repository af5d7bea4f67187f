"""Who may do what over HTTP: people with tokens of their own, their roles and their tasks."""

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
    """Roles, each including those before it. READ: look at pages, without cell values. OPERATE: see
    cell values, and change tasks. ADMINISTER: change nodes, too."""

    READ = 1
    OPERATE = 2
    ADMINISTER = 3


KINDS = {
    "token": Key("http.person.NAME.token", TOKEN, "", "The person's own token."),
    "role": Key(
        "http.person.NAME.role",
        word(*(role.name.lower() for role in Role)),
        "read",
        "What the person may do.",
    ),
    "tasks": Key("http.person.NAME.tasks", NAMES, "", "The person's tasks. If unset, all."),
}


@dataclass(frozen=True, slots=True)
class Grant:
    """A role for some tasks. `tasks`: patterns of ids, such as `shop-*`; empty: all tasks."""

    role: Role
    tasks: tuple[str, ...] = ()

    def has(self, task_id: str | None) -> bool:
        """Whether the grant covers a task; None: all tasks."""
        if not self.tasks:
            return True
        # Patterns do not cover all tasks, even if they match each of today's.
        if task_id is None:
            return False
        return any(fnmatchcase(task_id, each) for each in self.tasks)


@dataclass(frozen=True, slots=True)
class Person:
    """A person and what they may do. `name` is empty for the node's own token, whose user states a
    name. A person who signed in through a provider has no token, and `more` holds the grants of
    further groups, the highest role first."""

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
        """The settings that define what the person may do."""
        if self.is_from_provider:
            return "http.oidc.group.*"
        return f"http.person.{self.name}"

    def has(self, task_id: str) -> bool:
        """Whether the person may see a task."""
        return self.may(Role.READ, task_id)

    def may(self, role: Role, task_id: str | None = None) -> bool:
        """Whether the person has this role for a task; None: for all tasks."""
        # By grant: a role that one grant gives does not reach the tasks of another.
        return any(grant.role >= role and grant.has(task_id) for grant in self.grants)


def find_person_key(written: str) -> Key | None:
    found = PERSON_KEY.fullmatch(written)
    if found is None:
        return None
    return KINDS[found[2]]


def own_settings(pattern: re.Pattern[str], values: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The settings of each name in keys of this pattern, whose groups are the name and the rest:
    name -> rest -> value. Those without a value are left out."""
    found: dict[str, dict[str, Any]] = {}
    for key, value in values.items():
        if (matched := pattern.fullmatch(key)) and value is not None:
            found.setdefault(matched[1], {})[matched[2]] = value
    return found


def grant_of(own: Mapping[str, Any]) -> Grant:
    """The grant in the settings of one person or group."""
    return Grant(Role[own.get("role", "read").upper()], own.get("tasks", ()))


def people_of(values: Mapping[str, Any]) -> tuple[Person, ...]:
    """The people in these settings by key. Raises ConfigError for a person without a token, and for
    a shared token, which would not identify anyone."""
    people: list[Person] = []
    for name, own in own_settings(PERSON_KEY, values).items():
        if "token" not in own:
            raise ConfigError(f"http.person.{name} has no token; set http.person.{name}.token")
        grant = grant_of(own)
        people.append(Person(name, own["token"], grant.role, grant.tasks))
    owners: dict[str, str] = {}
    if values.get("http.token"):
        owners[values["http.token"]] = "http.token"
    for person in people:
        other = owners.setdefault(person.token, f"http.person.{person.name}.token")
        if other != f"http.person.{person.name}.token":
            raise ConfigError(
                f"http.person.{person.name}.token is the same as {other}; give each person another"
            )
    return tuple(people)
