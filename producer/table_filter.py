"""Selects the tables to read: canal's regular expressions and porter's lists."""

from __future__ import annotations

import re
from collections.abc import Sequence

from cdcbus.plugins.errors import ConfigError
from cdcbus.plugins.rowchange import TableId
from cdcbus.plugins.transform.table_list import TableList, is_selected
from cdcbus.producer.config import FilterConfig


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

    def _decide(self, name: str) -> bool:
        if name.upper() == self._heartbeats:
            return True
        if self._regexes and not any(regex.fullmatch(name) for regex in self._regexes):
            return False
        if any(regex.fullmatch(name) for regex in self._black):
            return False
        return is_selected(name, self._includes, self._excludes)


def _compiled(key: str, regexes: Sequence[str]) -> list[re.Pattern[str]]:
    try:
        return [re.compile(regex, re.IGNORECASE) for regex in regexes]
    except re.error as error:
        raise ConfigError(
            f"{key}: {error.pattern!r} is not a regular expression: {error}"
        ) from error
