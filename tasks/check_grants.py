"""What a source user's grants mean for a fetch task."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from cdcbus.tasks.observations import Observation, error, ok, warning

GRANT = re.compile(r"GRANT (?P<what>.+?) ON (?P<where>.+?) TO ", re.IGNORECASE)
ROLE = re.compile(r"GRANT (?:(?! ON ).)+ TO ", re.IGNORECASE)
NEEDED = (
    # What is needed, and the names under which it may have been granted; MariaDB 10.5 renamed the second.
    ("REPLICATION SLAVE", {"REPLICATION SLAVE", "REPLICATION REPLICA"}),
    ("REPLICATION CLIENT", {"REPLICATION CLIENT", "BINLOG MONITOR"}),
)
ALL = {"ALL", "ALL PRIVILEGES"}
EVERYWHERE = "*.*"


def describe_grants(lines: Iterable[str], has_full_metadata: bool) -> Iterator[Observation]:
    """One observation per privilege that the task needs. `lines` are SHOW GRANTS'; what a role that is not active gives is not in them."""
    lines = list(lines)
    held = _privileges(lines)
    report = warning if any(ROLE.match(line) for line in lines) else error
    for name, spellings in NEEDED:
        if held.get(EVERYWHERE, set()) & (spellings | ALL):
            yield ok(f"grant {name}", "granted")
        else:
            yield report(f"grant {name}", "not granted", f"GRANT {name} ON *.* TO that user, or make the role that has it a default role.")
    if not has_full_metadata:
        places = [where for where, privileges in held.items() if privileges & ({"SELECT"} | ALL)]
        if places:
            yield ok("grant SELECT", f"granted on {', '.join(sorted(places))}")
        else:
            found = "not granted; without FULL row metadata the columns of rows are looked up at the source"
            yield report("grant SELECT", found, "GRANT SELECT on the tables that are read, or set binlog_row_metadata=FULL.")


def _privileges(lines: Iterable[str]) -> dict[str, set[str]]:
    """Where -> what."""
    held: dict[str, set[str]] = {}
    for line in lines:
        if found := GRANT.match(line):
            names = (re.sub(r"\s*\(.*", "", name).strip().upper() for name in re.split(r",(?![^(]*\))", found["what"]))
            held.setdefault(found["where"].replace("`", ""), set()).update(names)
    return held
