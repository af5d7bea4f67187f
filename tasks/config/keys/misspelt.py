"""Which unknown keys make a task file invalid: keys that were clearly meant to have an effect."""

from __future__ import annotations

import difflib
import re
from functools import lru_cache
from typing import Final

from cdcbus.tasks.config.keys.task import KEYS

ALIKE: Final = 0.8
"""How similar two parts of a key must be: `servers` and `server`, not `user` and `userName`. Parts
are compared because whole keys are alike anyway: most of `consumer.source.x` is always the same."""

_OF_A_RULE: Final = re.compile(r"mapper\[", re.IGNORECASE)
_OF_RULES: Final = ", ".join(
    name.removeprefix("mapper[i].")
    for name, key in KEYS.items()
    if name.startswith("mapper[i].") and not key.is_idle
)


def unknown_key_refusal(written: str) -> str | None:
    """The reason why a file is refused for an unknown key; None where the key can be ignored, such
    as a misspelt one that has no effect here in any spelling."""
    meant = _nearly(written)
    if meant is not None:
        # A key without effect protects nothing in any spelling.
        if KEYS[meant].is_idle:
            return None
        return f"and it looks like {meant}: correct it"
    # Whatever follows mapper[i] was meant to change or withhold cells.
    if _OF_A_RULE.match(written):
        return f"and rows would pass as if it were not there: mapper[i] has {_OF_RULES}"
    return None


def _nearly(written: str) -> str | None:
    """The known key that an unknown one must stand for: each part between dots equals that of the
    known key, or nearly does. None where there is no such key."""
    parts = _parts(written)
    likeness, name = max((_likeness(parts, known), name) for name, known in _KNOWN.items())
    if likeness < ALIKE:
        return None
    return name


def _parts(key: str) -> list[str]:
    """The parts of a key in lower case, with `[i]` for anything in brackets."""
    return re.sub(r"\[[^\]]*\]", "[i]", key).casefold().split(".")


def _likeness(written: list[str], known: list[str]) -> float:
    """The likeness of the least similar part, 0 to 1, or 0 where it is less than ALIKE. Names that
    users choose are not compared."""
    open_end = known[-1] == "*" or known[-1].startswith("<")
    fixed = known[:-1] if open_end else known
    # A missing or an additional part makes another key; it is no typing error.
    if len(written) < len(known) or (len(written) > len(known) and not open_end):
        return 0.0
    least = 1.0 if fixed else 0.0
    for pair in zip(fixed, written, strict=False):
        # At the first that is not alike: a wrong file can have thousands of unknown keys.
        if (likeness := _part_likeness(*pair)) < ALIKE:
            return 0.0
        least = min(least, likeness)
    return least


@lru_cache(4096)
def _part_likeness(known: str, written: str) -> float:
    if known == written or (known.startswith("<") and written):
        return 1.0
    matcher = difflib.SequenceMatcher(None, known, written)
    # Upper bounds, by the lengths and by the letters.
    if matcher.real_quick_ratio() < ALIKE or matcher.quick_ratio() < ALIKE:
        return 0.0
    ratio = matcher.ratio()
    # Transposed letters.
    if len(known) > 2 and sorted(known) == sorted(written):
        return float(ratio > 0.5)
    return ratio


_KNOWN: Final = {name: _parts(name) for name in KEYS}
