"""Checks that the source user's grants are enough for a fetch task."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from cdcbus.producer.server.privileges import NEEDED, read_grants
from cdcbus.tasks.preflight.result import CheckResult, error, ok, warning


def describe_grants(lines: Iterable[str], has_full_metadata: bool) -> Iterator[CheckResult]:
    """One result per privilege that the task needs. `lines`: the output of SHOW GRANTS, which
    lacks the privileges of inactive roles."""
    grants = read_grants(lines)
    report = error
    # A role may have the privilege and be inactive only in this session.
    if grants.has_roles:
        report = warning
    for name in NEEDED:
        if name not in grants.lacking:
            yield ok(f"grant {name}", "granted")
        else:
            yield report(
                f"grant {name}",
                "not granted",
                f"GRANT {name} ON *.* TO that user, or make a role with this privilege a default "
                "role.",
            )
    for table in grants.partly_readable:
        yield warning(
            f"grant SELECT ({table})",
            "granted on some columns only: a snapshot, a direct load, verify and schema refuse a "
            "table of which columns are hidden",
            f"GRANT SELECT ON {table} TO that user, if one of these is to read it.",
        )
    if not has_full_metadata:
        if grants.readable:
            yield ok("grant SELECT", f"granted on {', '.join(grants.readable)}")
        else:
            found = "not granted; without FULL row metadata the task looks up columns at the source"
            yield report(
                "grant SELECT",
                found,
                "GRANT SELECT on the tables that are read, or set binlog_row_metadata=FULL.",
            )
