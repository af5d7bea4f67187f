"""The privileges of a source's user, from the lines of SHOW GRANTS. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

NEEDED: Final = {
    "REPLICATION SLAVE": {"REPLICATION SLAVE", "REPLICATION REPLICA"},
    # the second is MariaDB's name since 10.5
    "REPLICATION CLIENT": {"REPLICATION CLIENT", "BINLOG MONITOR", "SUPER"},
}
"""The privileges that reading a binlog requires, and the names under which they are granted."""
_GRANT = re.compile(r"GRANT (?P<what>.+?) ON (?P<where>.+?) TO ", re.IGNORECASE)
_ROLE = re.compile(r"GRANT (?:(?! ON ).)+ TO ", re.IGNORECASE)
_ALL = {"ALL", "ALL PRIVILEGES"}
_EVERYWHERE = "*.*"


@dataclass(frozen=True, slots=True)
class Grants:
    """`held`: scope -> privileges. `has_roles`: the user has a role; its privileges are in `held`
    only while it is active."""

    held: Mapping[str, set[str]]
    has_roles: bool

    @property
    def lacking(self) -> list[str]:
        """The needed privileges that are not held."""
        everywhere = self.held.get(_EVERYWHERE, set())
        return [name for name, spellings in NEEDED.items() if not everywhere & (spellings | _ALL)]

    @property
    def readable(self) -> list[str]:
        """The scopes whose tables can be read."""
        selecting = {"SELECT"} | _ALL
        return sorted(where for where, privileges in self.held.items() if privileges & selecting)


def read_grants(lines: Iterable[str]) -> Grants:
    """Parses the lines of SHOW GRANTS."""
    held: dict[str, set[str]] = {}
    has_roles = False
    for line in lines:
        has_roles |= bool(_ROLE.match(line))
        if found := _GRANT.match(line):
            held.setdefault(found["where"].replace("`", ""), set()).update(_names(found["what"]))
    return Grants(held, has_roles)


def _names(privileges: str) -> Iterator[str]:
    """The names in a list of privileges. Some are followed by columns, whose commas end no name."""
    for name in re.split(r",(?![^(]*\))", privileges):
        yield re.sub(r"\s*\(.*", "", name).strip().upper()
