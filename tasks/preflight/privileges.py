"""What a source user's grants mean for a fetch task."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from cdcbus.producer.server.privileges import NEEDED, read_grants
from cdcbus.tasks.preflight.result import CheckResult, error, ok, warning


def describe_grants(lines: Iterable[str], has_full_metadata: bool) -> Iterator[CheckResult]:
    """One result per privilege that the task needs. `lines` are SHOW GRANTS'; what a role that
    is not active gives is not in them."""
    grants = read_grants(lines)
    report = warning if grants.has_roles else error
    for name in NEEDED:
        if name not in grants.lacking:
            yield ok(f"grant {name}", "granted")
        else:
            yield report(
                f"grant {name}",
                "not granted",
                f"GRANT {name} ON *.* TO that user, or make the role that has it a default role.",
            )
    if not has_full_metadata:
        if grants.readable:
            yield ok("grant SELECT", f"granted on {', '.join(grants.readable)}")
        else:
            found = (
                "not granted; without FULL row metadata the columns of rows are looked up at "
                "the source"
            )
            yield report(
                "grant SELECT",
                found,
                "GRANT SELECT on the tables that are read, or set binlog_row_metadata=FULL.",
            )
