"""Where rows come from and where they go: source table -> topic -> task -> target table, told from tasks alone. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from cdcbus.consumer.mapper import Mapper, is_pattern
from cdcbus.consumer.task import LoadTask
from cdcbus.plugins.errors import ConfigError
from cdcbus.plugins.loaders.jdbc_url import read_url
from cdcbus.plugins.rowchange import TableId
from cdcbus.producer.filter import TableFilter
from cdcbus.producer.task import FetchTask, FilterConfig

ANY = "*"  # in a TableId: whatever the name is
ANY_TABLE = TableId(ANY, ANY)
LITERAL = re.compile(r"([\w-]+)\\?\.([\w-]+)")
SCHEMA = re.compile(r"([\w-]+)\\?\.")


@dataclass(frozen=True, slots=True, order=True)
class Way:
    """One way of rows. Empty text where no known task says it: a topic that nobody fills has no `fetch_task`, one that nobody reads no
    `load_task`. `source` is a table, or the filter as it is written where the task does not name its tables; `*` in it and in `target`
    stands for any name."""

    source: str
    server: str
    fetch_task: str
    topic: str
    load_task: str = ""
    target: str = ""
    database: str = ""

    def holds(self, word: str) -> bool:
        """Whether a word is part of the source, topic or target, any case."""
        return any(word.casefold() in text.casefold() for text in (self.source, self.topic, self.target))


@dataclass(frozen=True, slots=True)
class Selection:
    """What a task selects: the text to show, and the table, with `*` for what it does not name."""

    text: str
    table: TableId


def ways(tasks: Sequence[FetchTask | LoadTask], word: str = "") -> list[Way]:
    """All ways that hold the word, sorted. Tasks meet where they name the same topic. A word that is a table's whole name is also followed
    through filters that let this table pass without naming it."""
    fetches = [task for task in tasks if isinstance(task, FetchTask)]
    loads = [task for task in tasks if isinstance(task, LoadTask)]
    topics = {task.publish.topic for task in fetches} | {topic for task in loads for topic in task.source.topics}
    found = {way for topic in topics for way in _ways_of(topic, fetches, loads, _tables(word))}
    return sorted(way for way in found if way.holds(word))


def _ways_of(topic: str, fetches: list[FetchTask], loads: list[LoadTask], asked: set[TableId]) -> Iterator[Way]:
    feeds = [task for task in fetches if task.publish.topic == topic]
    readers = [task for task in loads if topic in task.source.topics]
    named = {table for task in feeds for table in _named(task)} | {table for task in readers for table in _wanted(task)}
    for feed in feeds:
        yield from _fed(feed, _passing(feed, named, asked), readers)
    for reader in readers:
        for table in _unfed(reader, feeds):
            yield from _onward(Way(str(table), "", "", topic), table, reader)


def _unfed(reader: LoadTask, feeds: list[FetchTask]) -> list[TableId]:
    """What a consumer task waits for that no known task writes."""
    if not feeds:
        return _one_spelling(_wanted(reader)) or [ANY_TABLE]
    filters = [TableFilter(feed.tables) for feed in feeds]
    return [table for table in _wanted(reader) if reader.includes and not any(tables.accepts(table) for tables in filters)]


def _fed(feed: FetchTask, selections: list[Selection], readers: list[LoadTask]) -> Iterator[Way]:
    """The ways of one fetch task. What nobody takes ends at the topic; a filter does not, where tables that it lets pass go on."""
    taken = {selection: [reader for reader in readers if _takes(reader, selection.table)] for selection in selections}
    is_read = any(taken.values())
    for selection, takers in taken.items():
        head = _head(feed, selection)
        for reader in takers:
            yield from _onward(head, selection.table, reader)
        if not takers and not (is_read and ANY in selection.table):
            yield head


def _onward(head: Way, table: TableId, reader: LoadTask) -> Iterator[Way]:
    for route in Mapper(reader.rules).routes(table):
        yield replace(head, load_task=reader.task_id, target=str(route.target), database=_database(reader))


def _head(feed: FetchTask, selection: Selection) -> Way:
    server = ",".join(f"{host}:{port}" for host, port in feed.source.addresses)
    return Way(selection.text, server, feed.task_id, feed.publish.topic)


def _selections(feed: FetchTask) -> list[Selection]:
    """What a fetch task names: its includes, else its regular expressions, else everything."""
    if feed.tables.includes:
        tables = TableFilter(feed.tables)
        return [Selection(str(table), table) for name in feed.tables.includes for table in _tables(name) if tables.accepts(table)]
    selections = [Selection(_plain(regex), _table_of(regex)) for regex in feed.tables.regexes] or [Selection(str(ANY_TABLE), ANY_TABLE)]
    return [selection for selection in selections if str(selection.table).upper() not in feed.tables.excludes]


def _named(feed: FetchTask) -> set[TableId]:
    return {selection.table for selection in _selections(feed) if ANY not in selection.table}


def _wanted(reader: LoadTask) -> set[TableId]:
    """What a consumer task names: its includes, else the tables and schemas that it has rules for."""
    if reader.includes:
        return {table for name in reader.includes for table in _tables(name)}
    return {TableId(_selected(rule.schema), _selected(rule.table)) for rule in reader.rules if rule.schema}


def _selected(pair: tuple[str, str] | None) -> str:
    return ANY if pair is None or is_pattern(pair[0]) else pair[0]


def _passing(feed: FetchTask, named: set[TableId], asked: set[TableId]) -> list[Selection]:
    """What a fetch task selects itself, and what of the tables named elsewhere its filter lets pass. A table that was asked for may be
    any text, so that only regular expressions vouch for it; a schema is only worth a line where the task names none."""
    own = _selections(feed)
    tables = TableFilter(feed.tables)
    candidates = _one_spelling(named | asked if feed.tables.regexes else named)
    is_open = any(selection.table == ANY_TABLE for selection in own)
    others = [Selection(str(table), table) for table in candidates if tables.accepts(table) and (is_open or ANY not in table)]
    return [*{selection.text.casefold(): selection for selection in [*own, *others]}.values()]


def _takes(reader: LoadTask, table: TableId) -> bool:
    """Whether the task writes rows of a table; where it names its tables, only they count, not the filter that lets them pass."""
    if ANY in table:
        return not reader.includes
    return TableFilter(FilterConfig((), reader.includes, reader.excludes)).accepts(table)


def _database(reader: LoadTask) -> str:
    """The target's address without its secrets; nothing where it is incomplete here."""
    try:
        return read_url(reader.target).shown
    except ConfigError:
        return ""


def _one_spelling(tables: set[TableId]) -> list[TableId]:
    """Each table once: lists hold upper case, so any other spelling is the source's own."""
    return [*{str(table).casefold(): table for table in sorted(tables)}.values()]


def _tables(name: str) -> set[TableId]:
    schema, dot, table = name.partition(".")
    return {TableId(schema, table)} if schema and dot and table else set()


def _table_of(regex: str) -> TableId:
    if literal := LITERAL.fullmatch(regex):
        return TableId(literal[1], literal[2])
    schema = SCHEMA.match(regex)
    return TableId(schema[1], ANY) if schema else ANY_TABLE


def _plain(regex: str) -> str:
    table = _table_of(regex)
    return regex if ANY in table else str(table)
