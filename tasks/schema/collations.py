"""Which texts collations of MySQL and MariaDB treat as equal, by their names. Pure."""

from __future__ import annotations

import re
from typing import Final

UNICODE: Final = ("utf8", "utf8mb3", "utf8mb4", "ucs2", "utf16", "utf16le", "utf32")
WIDE: Final = ("utf8mb4", "utf16", "utf16le", "utf32", "gb18030")
"""Character sets that have all characters."""


def charset_of(collation: str) -> str:
    """The character set of a collation, with which its name begins."""
    return collation.partition("_")[0]


def pads(collation: str) -> bool:
    """Whether a collation ignores trailing blanks."""
    return not re.search(r"^$|^binary$|_0900_|_nopad_", collation.lower())


def folding(collation: str) -> int:
    """How many different texts a collation treats as equal: 0 none, 1 those that differ in trailing
    blanks, 2 a few more, though case and accents count, 3 case, 4 case and accents."""
    name = collation.lower()
    # No collation, bytes, and the binary collations that do not pad.
    if not name or name == "binary" or name.endswith(("_0900_bin", "_nopad_bin")):
        return 0
    if name.endswith("_bin"):
        return 1
    if name.endswith("_cs"):
        return 2
    if "_as_ci" in name:
        return 3
    return 4


def merges(source: str, target: str) -> bool:
    """Whether the target's collation surely treats texts as equal that differ by the source's."""
    return folding(target) > folding(source) or (pads(target) and not pads(source))


def may_merge(source: str, target: str) -> bool:
    """Whether texts that differ by the source's collation can be equal by the target's, which folds
    no more, as each has letters of its own: `ß` is `s` by general_ci and `ss` by unicode_ci."""
    # ASCII has no letters of which collations think differently.
    if charset_of(source) == "ascii":
        return False
    return folding(target) > 1 and _letters(source) != _letters(target)


def _letters(collation: str) -> str:
    """What decides which letters a collation compares: `0900` of `utf8mb4_0900_ai_ci`."""
    charset = charset_of(collation)
    letters = collation.lower().removeprefix(f"{charset}_")
    letters = re.sub("_nopad(?=_|$)|^nopad_", "", letters)
    letters = re.sub("_?(ai_ci|as_ci|as_cs|ci|cs)$", "", letters)
    # MySQL's name for what MariaDB calls UCA 14.0.0.
    if letters == "0900":
        letters = "uca1400"
    # The collations of other character sets have rules of their own under the same names.
    return letters if charset in UNICODE else f"{charset}_{letters}"
