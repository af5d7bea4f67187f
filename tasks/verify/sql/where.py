"""A condition on the source's columns as SQL of both sides. Pure.

Only what means the same on both sides is accepted: columns, comparisons, numbers, texts, AND, OR,
NOT, IN, BETWEEN, LIKE, IS NULL. Collations may make a difference, which does no harm: rows that
only one side has are looked up by their keys afterwards.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from cdcbus.plugins.errors import ConfigError
from cdcbus.plugins.rowchange import TableId
from cdcbus.tasks.verify.sql.keys import EVERYTHING
from cdcbus.tasks.verify.sql.text import quoted

WORDS: Final = frozenset(
    ("and", "or", "not", "in", "between", "like", "is", "null", "true", "false")
)
TOKEN: Final = re.compile(
    r"\s*(?:(?P<text>'(?:[^'\\]|'')*')|(?P<number>[0-9]+(?:\.[0-9]+)?)|`(?P<quoted>[^`]+)`"
    r"|(?P<word>[^\W\d]\w*)|(?P<sign><=|>=|<>|!=|[=<>(),+*-]))"
)
OPENING: Final = ("sign", "(")
CLOSING: Final = ("sign", ")")


def condition(
    text: str, table: TableId, names: Mapping[str, str | None], dialect: str
) -> tuple[str, str]:
    """The condition in the SQL of the source and of the target. `names`: source column -> target
    column, None for one that is not copied unchanged. Raises ConfigError for a condition that
    cannot be expressed on both sides."""
    if not text:
        return EVERYTHING, EVERYTHING
    # MySQL's column names ignore case.
    by_lower = {name.lower(): name for name in names}
    own, theirs = [], []
    tokens = list(_tokens(text))
    _check_parentheses(tokens)
    for kind, token in tokens:
        if kind in ("text", "number", "sign") or (kind == "word" and token.lower() in WORDS):
            own.append(token)
            theirs.append(token)
            continue
        column = by_lower.get(token.lower())
        if column is None:
            raise ConfigError(
                f"--where: {token} is neither a column of source table {table} nor an accepted "
                f"keyword; its columns are {', '.join(names)}"
            )
        target = names[column]
        if target is None:
            raise ConfigError(
                f"--where: column {column} of source table {table} is not copied unchanged to the "
                "target, so the same rows cannot be selected there: use columns that are copied"
            )
        # Quoted, so that a name can never be read as SQL.
        own.append(quoted("mysql", column))
        theirs.append(quoted(dialect, target))
    return " ".join(own), " ".join(theirs)


def _check_parentheses(tokens: Sequence[tuple[str, str]]) -> None:
    """Raises ConfigError where they do not match: the condition is put between parentheses, which
    one of its own must not close."""
    depth = 0
    for token in tokens:
        depth += {OPENING: 1, CLOSING: -1}.get(token, 0)
        if depth < 0:
            break
    if depth:
        raise ConfigError(
            "--where has parentheses that do not match, so it would not select what it says: "
            "correct them; example: --where \"(id > 1000 OR id < 10) AND state = 'new'\""
        )


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    # What TOKEN does not match is refused, including comments, semicolons and backslashes.
    at = 0
    text = text.rstrip()
    while at < len(text):
        found = TOKEN.match(text, at)
        if found is None:
            raise ConfigError(
                f"--where cannot be read at character {at + 1}: expected columns, numbers, texts "
                "in single quotes without backslashes, = <> < <= > >=, AND, OR, NOT, IN, BETWEEN, "
                "LIKE, IS NULL and parentheses; example: --where \"id > 1000 AND state = 'new'\""
            )
        at = found.end()
        kind = found.lastgroup or ""
        yield kind, found[kind]
