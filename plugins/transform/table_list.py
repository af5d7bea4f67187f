"""Lists of tables as task files have them: names, and regular expressions for several."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

# What makes an element a regular expression.
SIGNS: Final = re.compile(r"[\\\[\](){}*+?|^]")
PLAIN_SCHEMA: Final = re.compile(r"([^\\\[\](){}*+?|^.]+)\.\*")
WILDCARD: Final = re.compile(r"(?:^|(?<!\\))[\w$-]\*|^\*")


@dataclass(frozen=True, slots=True)
class TableList:
    """`names`: SCHEMA.TABLE in upper case. `patterns`: regular expressions, matched whole on
    `schema.table`, any case."""

    names: frozenset[str] = frozenset()
    patterns: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.names or self.patterns)


def is_selected(name: str, includes: TableList, excludes: TableList) -> bool:
    """Whether a table, `schema.table`, is one that a task takes. One that `includes` names is, as
    in porter; of those that a pattern there is for, `excludes` leaves some out."""
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
    """A comma list of SCHEMA.TABLE, SCHEMA.* and regular expressions, whose own commas stand in
    brackets. Raises ValueError for one that would match other tables than it seems to: a dot or a
    star of its own is no separator and no wildcard."""
    names = set[str]()
    patterns: list[str] = []
    for element in map(str.strip, _split(text)):
        if not element:
            continue
        schema = PLAIN_SCHEMA.fullmatch(element)
        if schema:
            patterns.append(re.escape(schema[1]) + r"\..*")
        elif SIGNS.search(element):
            patterns.append(_pattern(element))
        elif "." in element.strip("."):
            names.add(element.upper())
        else:
            raise ValueError("not SCHEMA.TABLE")
    return TableList(frozenset(names), tuple(patterns))


def _split(text: str) -> list[str]:
    """The text cut at commas outside of brackets."""
    parts = [""]
    depth = 0
    is_escaped = False
    for character in text:
        if character == "," and depth <= 0 and not is_escaped:
            parts.append("")
            continue
        parts[-1] += character
        if not is_escaped:
            depth += (character in "([{") - (character in ")]}")
        is_escaped = character == "\\" and not is_escaped
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
