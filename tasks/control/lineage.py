"""Where rows come from and where they go: source table -> topic -> task -> target table, derived
from the tasks alone. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from cdcbus.consumer.config import LoadTask
from cdcbus.plugins.errors import ConfigError
from cdcbus.plugins.kafka.config import PublishConfig
from cdcbus.plugins.loaders.jdbc_url import read_url
from cdcbus.plugins.rowchange import TableId
from cdcbus.plugins.transform.mapper import Mapper
from cdcbus.plugins.transform.selectors import is_pattern, leads_to, source_of
from cdcbus.producer.config import FetchTask
from cdcbus.producer.table_filter import TableFilter
from cdcbus.tasks.control.lineage_topics import (
    ANY,
    ANY_TABLE,
    ruled_tables,
    table_in,
    table_of,
    topics_of,
)


@dataclass(frozen=True, slots=True, order=True)
class Way:
    """One way of rows. A text is empty where no known task fills it in: `fetch_task` for a topic
    that no task writes, `load_task` for one that no task reads.

    `source` is a table, or the filter as it is written where the task does not name its tables.
    `*` in `source` and `target` stands for any name. Where `load_task` sends rows on to another
    topic, `onward` is their way from there, as if it had fetched them.
    """

    source: str
    server: str
    fetch_task: str
    topic: str
    load_task: str = ""
    target: str = ""
    database: str = ""
    onward: Way | None = None

    def holds(self, word: str) -> bool:
        """Whether a word is part of a source, topic or target, any case."""
        for hop in self.hops():
            for text in (hop.source, hop.topic, hop.target):
                if word.casefold() in text.casefold():
                    return True
        return False

    def hops(self) -> Iterator[Way]:
        """The parts of the way: from topic to topic, and from the last one to the target."""
        yield replace(self, onward=None)
        if self.onward:
            yield from self.onward.hops()


@dataclass(frozen=True, slots=True)
class Selection:
    """A table that a task selects: the text to show, and its name, with `*` for any."""

    text: str
    table: TableId


def ways(tasks: Sequence[FetchTask | LoadTask], word: str = "") -> list[Way]:
    """All ways that contain the word, sorted. Tasks meet where they name the same topic. A word
    that is a table's whole name is also followed through filters that let this table pass
    without naming it."""
    fetches = [task for task in tasks if isinstance(task, FetchTask)]
    loads = [task for task in tasks if isinstance(task, LoadTask)]
    asked = _tables(word)
    topics: set[str] = set()
    for feed in fetches:
        topics |= _topics(feed, asked)
    for reader in loads:
        topics.update(reader.source.topics)
    found: set[Way] = set()
    for topic in topics:
        found.update(_ways_of(topic, fetches, loads, asked))
    sent_on: set[Way] = set()
    for way in found:
        if way.onward:
            sent_on.update(way.onward.hops())
    return sorted(way for way in found if way.holds(word) and not _is_known(way, sent_on))


def _is_known(way: Way, sent_on: set[Way]) -> bool:
    """Whether a way that no fetch task begins is the continuation of one in `sent_on`."""
    if way.fetch_task:
        return False
    for hop in sent_on:
        is_same = (hop.topic, hop.load_task) == (way.topic, way.load_task)
        if is_same and (ANY in way.source or hop.target.casefold() == way.target.casefold()):
            return True
    return False


def _topics(feed: FetchTask, asked: set[TableId]) -> set[str]:
    """The topics that a fetch task is known to write to."""
    topics: set[str] = set()
    for selection in _passing(feed, _named(feed), asked):
        for name in _sent(feed, selection.table):
            topics.update(topics_of(name, feed.publish))
    return topics


def _ways_of(
    topic: str, fetches: list[FetchTask], loads: list[LoadTask], asked: set[TableId]
) -> Iterator[Way]:
    readers = [task for task in loads if topic in task.source.topics]
    # A table that one task names may pass the filter of another, which does not name it.
    named: set[TableId] = set()
    for feed in fetches:
        if topic in _topics(feed, asked):
            named |= _named(feed)
    for reader in readers:
        named |= _named_by_reader(reader)
    feeds = []
    for feed in fetches:
        if selections := _selected_for(topic, feed, named, asked):
            feeds.append(feed)
            yield from _fed(feed, topic, selections, readers, loads)
    for reader in readers:
        for table in _unfed(reader, topic, feeds):
            yield from _onward(Way(str(table), "", "", topic), table, reader, loads)


def _selected_for(
    topic: str, feed: FetchTask, named: set[TableId], asked: set[TableId]
) -> list[Selection]:
    """The tables of a fetch task whose rows go to a topic."""
    # A topic named after a table tells of a table that no task may name.
    names = set(named)
    for own in _selections(feed):
        for sent in _sent(feed, own.table):
            if table := table_in(topic, sent.schema, feed.publish):
                names.add(table)
    tables = set[TableId]().union(*(_sources(feed, name) for name in names))
    passing = _passing(feed, tables, asked)
    return [
        each
        for each in passing
        if any(topic in topics_of(sent, feed.publish) for sent in _sent(feed, each.table))
    ]


def _sent(feed: FetchTask, table: TableId) -> list[TableId]:
    """What records of a fetch task call a table."""
    if str(table).upper() == str(feed.transform.heartbeats or "").upper():
        return [table]
    return [route.target for route in Mapper(feed.transform.rules).routes(table)]


def _sources(feed: FetchTask, name: TableId) -> set[TableId]:
    """The tables that records of a fetch task may call so, as far as its mapper names them; and the
    table of this name."""
    rules = [rule for rule in feed.transform.rules if leads_to(rule, name)]
    # one that names the table says more than one for its schema
    naming = [rule for rule in rules if rule.table] or rules
    sources = {source_of(rule, name) for rule in naming}
    return {name, *(each for each in sources if not any(map(is_pattern, each)))}


def _unfed(reader: LoadTask, topic: str, feeds: list[FetchTask]) -> list[TableId]:
    """The tables that a consumer task expects in a topic and that no known task writes there."""
    named = _named_by_reader(reader)
    if not feeds:
        return _one_spelling(named) or [ANY_TABLE]
    if not reader.named_tables:
        return []
    return [table for table in named if not _is_fed(table, topic, feeds)]


def _is_fed(table: TableId, topic: str, feeds: list[FetchTask]) -> bool:
    for feed in feeds:
        accepts = TableFilter(feed.tables).accepts
        for source in _sources(feed, table):
            sent = {str(name).upper() for name in _sent(feed, source)}
            is_sent = accepts(source) and str(table).upper() in sent
            if is_sent and topic in topics_of(table, feed.publish):
                return True
    return False


def _fed(
    feed: FetchTask,
    topic: str,
    selections: list[Selection],
    readers: list[LoadTask],
    loads: list[LoadTask],
) -> Iterator[Way]:
    """The ways of one fetch task. A table that no reader takes ends at the topic; a filter does
    not, where tables that it lets pass go on."""
    taken = {}
    for selection in selections:
        taken[selection] = [
            (reader, name)
            for name in _sent(feed, selection.table)
            for reader in readers
            if topic in topics_of(name, feed.publish) and _takes(reader, name)
        ]
    is_read = any(taken.values())
    for selection, takers in taken.items():
        head = _head(feed, topic, selection)
        for reader, name in takers:
            yield from _onward(head, name, reader, loads)
        if not takers and not (is_read and ANY in selection.table):
            yield head


def _onward(head: Way, table: TableId, reader: LoadTask, loads: list[LoadTask]) -> Iterator[Way]:
    """The ways of a table through a consumer task. `loads`: who may read what it sends on."""
    # Without the task itself, a task that reads its own topic would never end.
    others = [task for task in loads if task is not reader]
    for route in Mapper(reader.rules).routes(table):
        way = replace(
            head, load_task=reader.task_id, target=str(route.target), database=_database(reader)
        )
        is_last = True
        if isinstance(reader.target, PublishConfig):
            for onward in _sent_on(reader.task_id, reader.target, route.target, others):
                is_last = False
                yield replace(way, onward=onward)
        if is_last:
            yield way


def _sent_on(
    task_id: str, config: PublishConfig, table: TableId, loads: list[LoadTask]
) -> Iterator[Way]:
    """The ways of a table after the task that sends it on."""
    topics = topics_of(table, config)
    for reader in loads:
        for topic in reader.source.topics:
            own = table_in(topic, table.schema, config) if ANY in table else None
            if own or topic in topics:
                for taken in _taken(reader, own or table):
                    yield from _onward(Way(str(taken), "", task_id, topic), taken, reader, loads)


def _taken(reader: LoadTask, table: TableId) -> list[TableId]:
    """The tables that a consumer task takes of one whose name may contain `*`."""
    if ANY in table and reader.named_tables:
        return [named for named in _named_by_reader(reader) if _fits(named, table)]
    return [table] if _takes(reader, table) else []


def _fits(table: TableId, pattern: TableId) -> bool:
    return all(
        part == ANY or part.casefold() == name.casefold()
        for name, part in zip(table, pattern, strict=True)
    )


def _head(feed: FetchTask, topic: str, selection: Selection) -> Way:
    server = feed.source.shown.replace(", ", ",")
    return Way(selection.text, server, feed.task_id, topic)


def _selections(feed: FetchTask) -> list[Selection]:
    """What a fetch task names: its includes, else its regular expressions, else all."""
    selections = []
    if feed.tables.includes:
        tables = TableFilter(feed.tables)
        for name in feed.tables.includes:
            for table in _tables(name):
                if tables.accepts(table):
                    selections.append(Selection(str(table), table))
    for regex in feed.tables.include_patterns:
        selections.append(Selection(_plain(regex), table_of(regex)))
    if selections or feed.tables.includes:
        return selections
    for regex in feed.tables.regexes:
        selections.append(Selection(_plain(regex), table_of(regex)))
    if not selections:
        selections.append(Selection(str(ANY_TABLE), ANY_TABLE))
    return [each for each in selections if str(each.table).upper() not in feed.tables.excludes]


def _named(feed: FetchTask) -> set[TableId]:
    """The tables that a fetch task selects by name, or has a topic for."""
    tables = TableFilter(feed.tables)
    named = {table for table in ruled_tables(feed.publish) if tables.accepts(table)}
    for selection in _selections(feed):
        if ANY not in selection.table:
            named.add(selection.table)
    return named


def _named_by_reader(reader: LoadTask) -> set[TableId]:
    """The tables that a consumer task names: its includes, else those of its mapper rules."""
    named: set[TableId] = set()
    for name in reader.includes:
        named |= _tables(name)
    if reader.named_tables:
        return named
    for rule in reader.rules:
        if rule.schema:
            named.add(TableId(_selected(rule.schema), _selected(rule.table)))
    return named


def _selected(pair: tuple[str, str] | None) -> str:
    return ANY if pair is None or is_pattern(pair[0]) else pair[0]


def _passing(feed: FetchTask, named: set[TableId], asked: set[TableId]) -> list[Selection]:
    """The tables that a fetch task selects itself, and those named elsewhere that its filter lets
    pass."""
    own = _selections(feed)
    tables = TableFilter(feed.tables)
    # The word that was asked for may be any text: without regular expressions every filter would
    # let it pass as a table.
    candidates = _one_spelling(named | asked if feed.tables.regexes else named)
    is_open = any(selection.table == ANY_TABLE for selection in own)
    by_text = {selection.text.casefold(): selection for selection in own}
    for table in candidates:
        # A whole schema is only worth a line where the task names no table.
        if tables.accepts(table) and (is_open or ANY not in table):
            by_text[str(table).casefold()] = Selection(str(table), table)
    return list(by_text.values())


def _takes(reader: LoadTask, table: TableId) -> bool:
    """Whether the task writes rows of a table. Where it names its tables, a pattern is none of
    them."""
    if ANY in table:
        return not reader.named_tables
    return reader.selects(table)


def _database(reader: LoadTask) -> str:
    """The target's address without its secrets; empty where it cannot be read here."""
    if isinstance(reader.target, PublishConfig):
        return f"topic {reader.target.topic} at {reader.target.servers}"
    try:
        return read_url(reader.target).shown
    except ConfigError:
        return ""


def _one_spelling(tables: set[TableId]) -> list[TableId]:
    """Each table once. Lists of tables are in upper case, which sorts first, so that the source's
    own spelling wins."""
    by_name = {str(table).casefold(): table for table in sorted(tables)}
    return list(by_name.values())


def _tables(name: str) -> set[TableId]:
    schema, dot, table = name.partition(".")
    return {TableId(schema, table)} if schema and dot and table else set()


def _plain(regex: str) -> str:
    table = table_of(regex)
    return regex if ANY in table else str(table)
