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
_OF_COLUMNS = re.compile(r"\bSELECT\s*\(", re.IGNORECASE)
_ALL = {"ALL", "ALL PRIVILEGES"}
_EVERYWHERE = "*.*"


@dataclass(frozen=True, slots=True)
class Grants:
    """`held`: scope -> privileges. `has_roles`: the user has a role; its privileges are in `held`
    only while it is active. `by_column`: the tables of which columns are granted for SELECT."""

    held: Mapping[str, set[str]]
    has_roles: bool
    by_column: frozenset[str] = frozenset()

    @property
    def lacking(self) -> list[str]:
        """The needed privileges that are not held."""
        everywhere = self.held.get(_EVERYWHERE, set())
        return [name for name, spellings in NEEDED.items() if not everywhere & (spellings | _ALL)]

    @property
    def readable(self) -> list[str]:
        """The scopes whose tables can be read."""
        return sorted(
            where for where in self.held if self._selects(where) or where in self.by_column
        )

    @property
    def partly_readable(self) -> list[str]:
        """The tables of which only the columns can be read that are granted."""
        return sorted(
            table
            for table in self.by_column
            if not any(map(self._selects, (table, f"{table.partition('.')[0]}.*", _EVERYWHERE)))
        )

    def _selects(self, where: str) -> bool:
        return bool(self.held.get(where, set()) & ({"SELECT"} | _ALL))


def read_grants(lines: Iterable[str]) -> Grants:
    """Parses the lines of SHOW GRANTS."""
    held: dict[str, set[str]] = {}
    has_roles = False
    by_column: set[str] = set()
    for line in lines:
        has_roles |= bool(_ROLE.match(line))
        if found := _GRANT.match(line):
            where = found["where"].replace("`", "").replace("\\", "")
            held.setdefault(where, set()).update(_names(found["what"]))
            if _OF_COLUMNS.search(found["what"]):
                by_column.add(where)
    return Grants(held, has_roles, frozenset(by_column))


def _names(privileges: str) -> Iterator[str]:
    """The names in a list of privileges, without those on columns only, whose commas end no
    name."""
    for name in re.split(r",(?![^(]*\))", privileges):
        if "(" not in name:
            yield name.strip().upper()
