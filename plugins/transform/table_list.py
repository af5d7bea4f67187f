"""Lists of tables as in task files: names, and regular expressions that match several."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from cdcbus.plugins.transform.selectors import is_pattern

PLAIN_SCHEMA: Final = re.compile(r"([^\\\[\](){}*+?|^.]+)\.\*")
# What people write for a comma, with those of Chinese keyboards; or a space between two names.
OTHER_SEPARATOR: Final = re.compile("[;\uff0c\uff1b\u3001]")
TWO_NAMES: Final = re.compile(r"\.\S*\s+\S*\.")
# A piece of a regular expression: an escape, a class of characters, or a character.
PIECE: Final = re.compile(r"\\(?:.|\Z)|\[\^?\]?(?:\\.|[^\]\\])*\]|.", re.DOTALL)
WILDCARD: Final = re.compile(r"(?:^|(?<!\\))[\w$-]\*|^\*")


@dataclass(frozen=True, slots=True)
class TableList:
    """A list of tables. `names`: SCHEMA.TABLE in upper case. `patterns`: regular expressions that
    must match all of `schema.table`, in any case."""

    names: frozenset[str] = frozenset()
    patterns: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.names or self.patterns)


def is_selected(name: str, includes: TableList, excludes: TableList) -> bool:
    """Whether a task takes a table, `schema.table`. A table that `includes` names is always taken,
    as in porter; `excludes` applies to all others."""
    upper = name.upper()
    if upper in includes.names:
        return True
    if includes and not matches_any(name, includes.patterns):
        return False
    return upper not in excludes.names and not matches_any(name, excludes.patterns)


def matches_any(name: str, patterns: tuple[str, ...]) -> bool:
    """Whether one of the regular expressions matches the whole name, any case."""
    return any(_compiled(pattern).fullmatch(name) for pattern in patterns)


@lru_cache(maxsize=10_000)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)


def read_table_list(text: str) -> TableList:
    """Reads a comma-separated list of SCHEMA.TABLE, SCHEMA.* and regular expressions, whose own
    commas must be in brackets. Raises ValueError for an expression that would match other tables
    than it seems to: a dot alone is not a separator, nor is a star alone a wildcard."""
    names = set[str]()
    patterns: list[str] = []
    for element in map(str.strip, split_outside_brackets(text)):
        if not element:
            continue
        if OTHER_SEPARATOR.search(element) or TWO_NAMES.search(element):
            raise ValueError("separated otherwise than by commas")
        schema = PLAIN_SCHEMA.fullmatch(element)
        if schema:
            patterns.append(re.escape(schema[1]) + r"\..*")
        elif is_pattern(element):
            patterns.append(_pattern(element))
        elif "." in element.strip("."):
            names.add(element.upper())
        else:
            raise ValueError("not SCHEMA.TABLE")
    return TableList(frozenset(names), tuple(patterns))


def split_outside_brackets(text: str, separator: str = ",") -> list[str]:
    """The text split at separators that are neither in brackets nor escaped. Brackets that a class
    of characters holds are characters."""
    parts = [""]
    depth = 0
    for piece in PIECE.findall(text):
        if piece == separator and depth <= 0:
            parts.append("")
            continue
        parts[-1] += piece
        depth += (piece in "([{") - (piece in ")]}")
    return parts


def _pattern(element: str) -> str:
    try:
        re.compile(element)
    except (re.error, RecursionError, OverflowError) as error:
        raise ValueError("not a regular expression") from error
    has_separator = r"\." in element or "[.]" in element or element.startswith(".*")
    if not has_separator or WILDCARD.search(element):
        raise ValueError("a dot or a star that means something else")
    return element
