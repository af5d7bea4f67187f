"""Selects the tables to read: canal's regular expressions and porter's lists."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from cdcbus.plugins.errors import ConfigError
from cdcbus.plugins.rowchange import TableId
from cdcbus.plugins.transform.table_list import (
    TableList,
    is_selected,
    matches_any,
    split_outside_brackets,
)
from cdcbus.producer.config import FilterConfig

# Expressions that match no dot.
_NAME: Final = re.compile(r"[\w\-()|?:*+]+")
# Behind the characters with which all that an expression matches begins.
_OPEN: Final = re.compile(r"[\w\-]?[?*{]|[^\w\-]")
# An expression whose part before the dot is the name of a schema, or names in brackets.
_NAMED: Final = re.compile(
    r"\^?(?:\((?:\?:)?([\w|-]+)\)|((?:[\w-]|\\[^\w.])+))(?:\\\.|\[\.\]|\.(?=[\w-]+\$?$))"
)
# Names that only an expression for all tables has in common.
_ANY_TABLES: Final = ("a", "z_9", "Q")


def is_named(table: TableId, name: TableId | None) -> bool:
    """Whether a table has the name that a task file gives, in any case."""
    return name is not None and str(table).upper() == str(name).upper()


class TableFilter:
    """Decides once per table. Regular expressions match the whole `schema.table`, ignoring case;
    lists hold upper-case SCHEMA.TABLE. The `heartbeats` table always passes."""

    def __init__(self, config: FilterConfig, heartbeats: TableId | None = None) -> None:
        self._regexes = _compiled("consumer.source.filter", config.regexes)
        self._black = _compiled("consumer.source.blackFilter", config.black_regexes)
        self._includes = TableList(config.includes, config.include_patterns)
        self._excludes = TableList(config.excludes, config.exclude_patterns)
        self._heartbeats = str(heartbeats or "").upper()
        self._decided: dict[TableId, bool] = {}

    def accepts(self, table: TableId) -> bool:
        """Whether rows of the table are wanted."""
        decided = self._decided.get(table)
        if decided is None:
            decided = self._decided[table] = self._decide(str(table))
        return decided

    def may_accept_any(self, schema: str) -> bool:
        """Whether rows of some table of the schema may be wanted; True where the expressions leave
        that open."""
        names = [f"{schema}.{table}" for table in _ANY_TABLES]
        if any(all(map(regex.fullmatch, names)) for regex in self._black):
            return False
        if self._regexes and not any(_may_match(schema, regex.pattern) for regex in self._regexes):
            return False
        if schema.upper() in {name.partition(".")[0] for name in self._includes.names}:
            return True
        patterns = self._includes.patterns
        if self._includes and not any(_may_match(schema, pattern) for pattern in patterns):
            return False
        return not all(matches_any(name, self._excludes.patterns) for name in names)

    def named_schemas(self) -> tuple[set[str], bool]:
        """The schemas of which tables are wanted for sure, in lower case, and whether expressions
        may want tables of others."""
        names = {_schema(name) for name in self._includes.names if self._decide(name)}
        seen = [_named(pattern) for pattern in self._includes.patterns]
        is_open = None in seen or not self._includes
        regexes = [_named(regex.pattern) for regex in self._regexes]
        is_open = is_open and (None in regexes or not regexes)
        for some in (*seen, *regexes):
            names.update(filter(self.may_accept_any, some or ()))
        return names, is_open

    def _decide(self, name: str) -> bool:
        if name.upper() == self._heartbeats:
            return True
        if self._regexes and not any(regex.fullmatch(name) for regex in self._regexes):
            return False
        if any(regex.fullmatch(name) for regex in self._black):
            return False
        return is_selected(name, self._includes, self._excludes)


def _schema(name: str) -> str:
    return name.partition(".")[0].lower()


def _named(pattern: str) -> set[str] | None:
    """The schemas whose tables an expression matches, in lower case; None where it leaves them
    open."""
    names: set[str] = set()
    for each in split_outside_brackets(pattern, "|"):
        found = _NAMED.match(each)
        if found is None:
            return None
        names.update((found[1] or found[2]).replace("\\", "").lower().split("|"))
    return names - {""}


def _may_match(schema: str, pattern: str) -> bool:
    """Whether the expression may match tables of a schema."""
    return any(_may_begin(schema, each) for each in split_outside_brackets(pattern, "|"))


def _may_begin(schema: str, pattern: str) -> bool:
    """Whether an expression without alternatives may match tables of a schema: as its text before
    the dot says, or, where that does not end at the dot for sure, as its first characters do."""
    head = pattern.removeprefix("^").split(r"\.")[0]
    if _NAME.fullmatch(head):
        try:
            return re.fullmatch(head, schema, re.IGNORECASE) is not None
        except re.error:  # its brackets are closed behind the dot
            pass
    first = _OPEN.split(head, 1)[0]
    return f"{schema}.".lower().startswith(first.lower())


def _compiled(key: str, regexes: Sequence[str]) -> list[re.Pattern[str]]:
    try:
        return [re.compile(regex, re.IGNORECASE) for regex in regexes]
    except re.error as error:
        raise ConfigError(
            f"{key}: {error.pattern!r} is not a regular expression: {error}"
        ) from error
