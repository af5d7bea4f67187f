"""A fetch task as a writer of topics: the tables that it names, accepts and sends. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from cdcbus.plugins.rowchange import TableId
from cdcbus.plugins.transform.mapper import Mapper
from cdcbus.plugins.transform.selectors import is_pattern, leads_to, source_of
from cdcbus.producer.config import FetchTask
from cdcbus.producer.table_filter import TableFilter
from cdcbus.tasks.lineage.topics import (
    ANY,
    ANY_TABLE,
    ruled_tables,
    table_in,
    table_of,
    tables_in,
    topics_of,
    written_topics,
)


@dataclass(frozen=True, slots=True)
class Selection:
    """A table that a task selects: the text to show, and its name, with `*` for any name."""

    text: str
    table: TableId


class Writer:
    """A fetch task; each property is computed once, as every topic uses it. `asked`: the table that
    was asked for, which the task may accept without naming it."""

    def __init__(self, task: FetchTask, asked: set[TableId]) -> None:
        self.task = task
        self.server = task.source.shown.replace(", ", ",")
        self.fixed_topics = written_topics(task.publish)
        self._asked = asked
        self._filter = TableFilter(task.tables)
        self._mapper = Mapper(task.transform.rules)
        self._heartbeats = str(task.transform.heartbeats or "").upper()

    @cached_property
    def selections(self) -> list[Selection]:
        """What the task selects: its includes, else its regular expressions, else all tables."""
        config = self.task.tables
        selections = []
        for name in config.includes:
            for table in tables_in(name):
                if self._filter.accepts(table):
                    selections.append(Selection(str(table), table))
        for regex in config.include_patterns:
            selections.append(_by_regex(regex))
        if selections or config.includes:
            return selections
        for regex in config.regexes:
            selections.append(_by_regex(regex))
        if not selections:
            selections.append(Selection(str(ANY_TABLE), ANY_TABLE))
        return [each for each in selections if str(each.table).upper() not in config.excludes]

    @cached_property
    def named(self) -> set[TableId]:
        """The tables that the task selects by name, or has a topic for."""
        named: set[TableId] = set()
        for table in ruled_tables(self.task.publish):
            if self._filter.accepts(table):
                named.add(table)
        for selection in self.selections:
            if ANY not in selection.table:
                named.add(selection.table)
        return named

    @cached_property
    def topics(self) -> set[str]:
        """The topics that the task is known to write to."""
        topics: set[str] = set()
        for selection in self._passing(self.named):
            for name in self.sent(selection.table):
                topics |= topics_of(name, self.task.publish)
        return topics

    def selected_for(self, topic: str, named: set[TableId]) -> list[Selection]:
        """The tables whose rows go to a topic. `named`: those that any task of the topic names,
        which this task's filter may accept without naming them."""
        sources: set[TableId] = set()
        for name in named | self._tables_in(topic):
            sources |= self.sources(name)
        return [each for each in self._passing(sources) if self._sends(each.table, topic)]

    def sends_as(self, name: TableId, topic: str) -> bool:
        """Whether the task sends rows to a topic under this name of a table."""
        if topic not in topics_of(name, self.task.publish):
            return False
        upper = str(name).upper()
        for source in self.sources(name):
            # The filter first: of many tasks at one topic, most do not accept the table.
            if not self._filter.accepts(source):
                continue
            if any(str(sent).upper() == upper for sent in self.sent(source)):
                return True
        return False

    def sent(self, table: TableId) -> list[TableId]:
        """The names that records use for a table."""
        if str(table).upper() == self._heartbeats:
            return [table]
        return [route.target for route in self._mapper.routes(table)]

    def sources(self, name: TableId) -> set[TableId]:
        """The tables for which records may use this name, as far as the mapper names them; and the
        table with this name."""
        rules = [rule for rule in self.task.transform.rules if leads_to(rule, name)]
        # A rule that names the table takes precedence over one for its schema.
        naming = [rule for rule in rules if rule.table] or rules
        sources = {name}
        for rule in naming:
            source = source_of(rule, name)
            if not any(map(is_pattern, source)):
                sources.add(source)
        return sources

    def _tables_in(self, topic: str) -> set[TableId]:
        """The tables that the topic is named after, which perhaps no task names."""
        tables: set[TableId] = set()
        for selection in self.selections:
            for sent in self.sent(selection.table):
                if table := table_in(topic, sent.schema, self.task.publish):
                    tables.add(table)
        return tables

    def _sends(self, table: TableId, topic: str) -> bool:
        return any(topic in topics_of(sent, self.task.publish) for sent in self.sent(table))

    def _passing(self, named: set[TableId]) -> list[Selection]:
        """The tables that the task itself selects, and those named elsewhere that its filter
        accepts."""
        # The word that was asked for may be any text: without regular expressions every filter
        # would accept it as a table.
        candidates = named
        if self.task.tables.regexes:
            candidates = named | self._asked
        is_open = any(selection.table == ANY_TABLE for selection in self.selections)
        by_text = {selection.text.casefold(): selection for selection in self.selections}
        for table in one_spelling(candidates):
            # A whole schema is only worth a line where the task names no table.
            if self._filter.accepts(table) and (is_open or ANY not in table):
                by_text[str(table).casefold()] = Selection(str(table), table)
        return list(by_text.values())


def one_spelling(tables: Iterable[TableId]) -> list[TableId]:
    """Each table once. Lists of tables are in upper case, which sorts first, so the source's own
    spelling wins."""
    by_name = {str(table).casefold(): table for table in sorted(tables)}
    return list(by_name.values())


def _by_regex(regex: str) -> Selection:
    table = table_of(regex)
    if ANY in table:
        return Selection(regex, table)
    return Selection(str(table), table)
