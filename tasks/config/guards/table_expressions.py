"""Finds expressions for tables that match no dot, and so no `schema.table`."""

from __future__ import annotations

import re
from collections.abc import Callable

from cdcbus.tasks.config.keys.types import REGEXES
from cdcbus.tasks.config.settings import Settings

# Without any of these an expression matches no dot.
DOTS = re.compile(r"[.\[\\]")


def selecting(settings: Settings) -> tuple[str, ...]:
    """The expressions for tables that are read. Warns of those that match none: a file of porter
    may have one beside others, and nothing more is read due to it."""
    return _expressions(settings, "consumer.source.filter", settings.warn)


def withholding(settings: Settings) -> tuple[str, ...]:
    """The expressions for tables that are not read. Reports those that match none as unsafe: what
    they were to withhold would be read."""
    return _expressions(settings, "consumer.source.blackFilter", settings.unsafe)


def _expressions(
    settings: Settings, name: str, report: Callable[[str, str], None]
) -> tuple[str, ...]:
    found = settings.get(name, REGEXES) or ()
    for part in found:
        if not DOTS.search(part):
            report(
                name,
                f"{part} matches no schema.table: write {part}\\\\..* for a schema, .*\\\\.{part} "
                "for a table",
            )
    return found
