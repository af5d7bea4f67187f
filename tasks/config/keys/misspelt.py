"""Whether an unknown key of a task file is a known one with a slip of the pen in it."""

from __future__ import annotations

import difflib
import re
from typing import Final

from cdcbus.tasks.config.keys.task import KEYS

ALIKE: Final = 0.8
"""How much of two parts of a key must be the same: `servers` and `server`, not `user` and
`userName`. Whole keys say little: most of `consumer.source.x` is the same in all of them."""


def misspelt_key(written: str) -> str | None:
    """The known key that an unknown one must have been meant for: each part between dots is that
    of the known one, or nearly. None where there is no such key, or where it has no effect, in any
    spelling."""
    parts = _parts(written)
    found: tuple[float, str] = (0.0, "")
    for name in KEYS:
        found = max(found, (_likeness(parts, _parts(name)), name))
    likeness, name = found
    if likeness < ALIKE or KEYS[name].is_idle:
        return None
    return name


def _parts(key: str) -> list[str]:
    """Numbers in brackets count as one, whatever stands around them, and case does not."""
    return re.sub(r"\[[^\]]*\]", "[i]", key).casefold().split(".")


def _likeness(written: list[str], known: list[str]) -> float:
    """Of the part that is least alike, 0 to 1; the names that users choose are not compared."""
    open_end = known[-1] == "*" or known[-1].startswith("<")
    fixed = known[:-1] if open_end else known
    if len(written) < len(known) or (len(written) > len(known) and not open_end):
        return 0.0
    pairs = zip(fixed, written, strict=False)
    return min((_part_likeness(*pair) for pair in pairs), default=0.0)


def _part_likeness(known: str, written: str) -> float:
    if known == written or (known.startswith("<") and written):
        return 1.0
    matcher = difflib.SequenceMatcher(None, known, written)
    if len(known) > 2 and sorted(known) == sorted(written):
        return 1.0 if matcher.ratio() > 0.5 else 0.0  # letters that have changed places
    return matcher.ratio()
