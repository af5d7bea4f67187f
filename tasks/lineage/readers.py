"""A consumer task as a reader of topics: the tables that it names and takes. Pure."""

from __future__ import annotations

from functools import cached_property

from cdcbus.consumer.config import LoadTask
from cdcbus.plugins.errors import ConfigError
from cdcbus.plugins.kafka.config import PublishConfig
from cdcbus.plugins.loaders.jdbc_url import read_url
from cdcbus.plugins.rowchange import TableId
from cdcbus.plugins.transform.mapper import Mapper
from cdcbus.plugins.transform.selectors import is_pattern
from cdcbus.tasks.lineage.topics import ANY, tables_in


class Reader:
    """A consumer task; each property is computed once."""

    def __init__(self, task: LoadTask) -> None:
        self.task = task
        self.mapper = Mapper(task.rules)

    @cached_property
    def named(self) -> set[TableId]:
        """The tables that the task names: its includes, else those of its mapper rules."""
        named: set[TableId] = set()
        for name in self.task.includes:
            named |= tables_in(name)
        if self.task.named_tables:
            return named
        # Without includes, the mapper shows which tables the task expects.
        for rule in self.task.rules:
            if rule.schema:
                named.add(TableId(_selected(rule.schema), _selected(rule.table)))
        return named

    @cached_property
    def database(self) -> str:
        """The target's address without secrets; empty where it cannot be read here."""
        target = self.task.target
        if isinstance(target, PublishConfig):
            return f"topic {target.topic} at {target.servers}"
        try:
            return read_url(target).shown
        # Such as an address with a placeholder that is not filled here.
        except ConfigError:
            return ""

    def takes(self, table: TableId) -> bool:
        """Whether the task writes rows of a table. A table with `*` in its name is not one of a
        task that names its tables."""
        if ANY in table:
            return not self.task.named_tables
        return self.task.selects(table)

    def taken(self, table: TableId) -> list[TableId]:
        """The tables that the task takes from one whose name may contain `*`."""
        if ANY in table and self.task.named_tables:
            return [named for named in self.named if _fits(named, table)]
        if not self.takes(table):
            return []
        return [table]


def _selected(pair: tuple[str, str] | None) -> str:
    if pair is None or is_pattern(pair[0]):
        return ANY
    return pair[0]


def _fits(table: TableId, pattern: TableId) -> bool:
    for name, part in zip(table, pattern, strict=True):
        if part != ANY and part.casefold() != name.casefold():
            return False
    return True
