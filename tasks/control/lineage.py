"""Where rows come from and where they go: source table -> topic -> task -> target table, told
from tasks alone. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from cdcbus.consumer.config import LoadTask
from cdcbus.consumer.transform.mapper import Mapper, is_pattern
from cdcbus.plugins.errors import ConfigError
from cdcbus.plugins.kafka.config import PublishConfig
from cdcbus.plugins.loaders.jdbc_url import read_url
from cdcbus.plugins.rowchange import TableId
from cdcbus.producer.config import FetchTask, FilterConfig
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
    """One way of rows. Empty text where no known task says it: a topic that nobody fills has no
    `fetch_task`, one that nobody reads no `load_task`. `source` is a table, or the filter as it
    is written where the task does not name its tables; `*` in it and in `target` stands for any
    name. Where `load_task` sends rows on to another topic, `onward` is their way from there, as
    if it had fetched them."""

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
        return any(
            word.casefold() in text.casefold()
            for hop in self.hops()
            for text in (hop.source, hop.topic, hop.target)
        )

    def hops(self) -> Iterator[Way]:
        """From topic to topic, and from the last one to the target."""
        yield replace(self, onward=None)
        if self.onward:
            yield from self.onward.hops()


@dataclass(frozen=True, slots=True)
class Selection:
    """What a task selects: the text to show, and the table, with `*` for what it does not name."""

    text: str
    table: TableId


def ways(tasks: Sequence[FetchTask | LoadTask], word: str = "") -> list[Way]:
    """All ways that hold the word, sorted. Tasks meet where they name the same topic. A word
    that is a table's whole name is also followed through filters that let this table pass
    without naming it."""
    fetches = [task for task in tasks if isinstance(task, FetchTask)]
    loads = [task for task in tasks if isinstance(task, LoadTask)]
    asked = _tables(word)
    topics = {topic for task in fetches for topic in _topics(task, asked)} | {
        topic for task in loads for topic in task.source.topics
    }
    found = {way for topic in topics for way in _ways_of(topic, fetches, loads, asked)}
    sent_on = {hop for way in found if way.onward for hop in way.onward.hops()}
    return sorted(way for way in found if way.holds(word) and not _is_known(way, sent_on))


def _is_known(way: Way, sent_on: set[Way]) -> bool:
    """Whether a way that no fetch task begins goes on from what another task sends."""
    same = [
        hop
        for hop in sent_on
        if not way.fetch_task and (hop.topic, hop.load_task) == (way.topic, way.load_task)
    ]
    return any(ANY in way.source or hop.target.casefold() == way.target.casefold() for hop in same)


def _topics(feed: FetchTask, asked: set[TableId]) -> set[str]:
    """The topics that a fetch task is known to write to."""
    return {
        topic
        for selection in _passing(feed, _named(feed), asked)
        for topic in topics_of(selection.table, feed.publish)
    }


def _ways_of(
    topic: str, fetches: list[FetchTask], loads: list[LoadTask], asked: set[TableId]
) -> Iterator[Way]:
    readers = [task for task in loads if topic in task.source.topics]
    writers = [task for task in fetches if topic in _topics(task, asked)]
    named = {table for task in writers for table in _named(task)} | {
        table for task in readers for table in _wanted(task)
    }
    feeds = [(task, found) for task in fetches if (found := _going(topic, task, named, asked))]
    for feed, selections in feeds:
        yield from _fed(feed, topic, selections, readers, loads)
    for reader in readers:
        for table in _unfed(reader, topic, [feed for feed, _ in feeds]):
            yield from _onward(Way(str(table), "", "", topic), table, reader, loads)


def _going(
    topic: str, feed: FetchTask, named: set[TableId], asked: set[TableId]
) -> list[Selection]:
    """What of a fetch task's tables goes to a topic."""
    after = {
        table
        for own in _selections(feed)
        if (table := table_in(topic, own.table.schema, feed.publish))
    }
    return [
        selection
        for selection in _passing(feed, named | after, asked)
        if topic in topics_of(selection.table, feed.publish)
    ]


def _unfed(reader: LoadTask, topic: str, feeds: list[FetchTask]) -> list[TableId]:
    """What a consumer task waits for that no known task writes."""
    if not feeds:
        return _one_spelling(_wanted(reader)) or [ANY_TABLE]
    filters = [(TableFilter(feed.tables), feed.publish) for feed in feeds]
    return [
        table
        for table in _wanted(reader)
        if reader.includes
        and not any(
            tables.accepts(table) and topic in topics_of(table, publish)
            for tables, publish in filters
        )
    ]


def _fed(
    feed: FetchTask,
    topic: str,
    selections: list[Selection],
    readers: list[LoadTask],
    loads: list[LoadTask],
) -> Iterator[Way]:
    """The ways of one fetch task. What nobody takes ends at the topic; a filter does not, where
    tables that it lets pass go on."""
    taken = {
        selection: [reader for reader in readers if _takes(reader, selection.table)]
        for selection in selections
    }
    is_read = any(taken.values())
    for selection, takers in taken.items():
        head = _head(feed, topic, selection)
        for reader in takers:
            yield from _onward(head, selection.table, reader, loads)
        if not takers and not (is_read and ANY in selection.table):
            yield head


def _onward(head: Way, table: TableId, reader: LoadTask, loads: list[LoadTask]) -> Iterator[Way]:
    """`loads`: who may read what it sends on."""
    others = [task for task in loads if task is not reader]
    for route in Mapper(reader.rules).routes(table):
        way = replace(
            head, load_task=reader.task_id, target=str(route.target), database=_database(reader)
        )
        behind = (
            _behind(reader.task_id, reader.target, route.target, others)
            if isinstance(reader.target, PublishConfig)
            else ()
        )
        yield from [replace(way, onward=onward) for onward in behind] or [way]


def _behind(
    task_id: str, config: PublishConfig, table: TableId, loads: list[LoadTask]
) -> Iterator[Way]:
    """The ways of a table behind the task that sends it on."""
    topics = topics_of(table, config)
    for reader in loads:
        for topic in reader.source.topics:
            own = table_in(topic, table.schema, config) if ANY in table else None
            if own or topic in topics:
                for taken in _taken(reader, own or table):
                    yield from _onward(Way(str(taken), "", task_id, topic), taken, reader, loads)


def _taken(reader: LoadTask, table: TableId) -> list[TableId]:
    """What of a table, in which `*` may stand, a consumer task takes."""
    if ANY in table and reader.includes:
        return [wanted for wanted in _wanted(reader) if _fits(wanted, table)]
    return [table] if _takes(reader, table) else []


def _fits(table: TableId, pattern: TableId) -> bool:
    return all(
        part == ANY or part.casefold() == name.casefold()
        for name, part in zip(table, pattern, strict=True)
    )


def _head(feed: FetchTask, topic: str, selection: Selection) -> Way:
    server = ",".join(f"{host}:{port}" for host, port in feed.source.addresses)
    return Way(selection.text, server, feed.task_id, topic)


def _selections(feed: FetchTask) -> list[Selection]:
    """What a fetch task names: its includes, else its regular expressions, else everything."""
    if feed.tables.includes:
        tables = TableFilter(feed.tables)
        return [
            Selection(str(table), table)
            for name in feed.tables.includes
            for table in _tables(name)
            if tables.accepts(table)
        ]
    selections = [Selection(_plain(regex), table_of(regex)) for regex in feed.tables.regexes] or [
        Selection(str(ANY_TABLE), ANY_TABLE)
    ]
    return [
        selection
        for selection in selections
        if str(selection.table).upper() not in feed.tables.excludes
    ]


def _named(feed: FetchTask) -> set[TableId]:
    """What a fetch task selects by name, or has a topic for."""
    tables = TableFilter(feed.tables)
    ruled = {table for table in ruled_tables(feed.publish) if tables.accepts(table)}
    return {
        selection.table for selection in _selections(feed) if ANY not in selection.table
    } | ruled


def _wanted(reader: LoadTask) -> set[TableId]:
    """What a consumer task names: its includes, else the tables and schemas that it has rules
    for."""
    if reader.includes:
        return {table for name in reader.includes for table in _tables(name)}
    return {
        TableId(_selected(rule.schema), _selected(rule.table))
        for rule in reader.rules
        if rule.schema
    }


def _selected(pair: tuple[str, str] | None) -> str:
    return ANY if pair is None or is_pattern(pair[0]) else pair[0]


def _passing(feed: FetchTask, named: set[TableId], asked: set[TableId]) -> list[Selection]:
    """What a fetch task selects itself, and what of the tables named elsewhere its filter lets
    pass. A table that was asked for may be any text, so that only regular expressions vouch for
    it; a schema is only worth a line where the task names none."""
    own = _selections(feed)
    tables = TableFilter(feed.tables)
    candidates = _one_spelling(named | asked if feed.tables.regexes else named)
    is_open = any(selection.table == ANY_TABLE for selection in own)
    others = [
        Selection(str(table), table)
        for table in candidates
        if tables.accepts(table) and (is_open or ANY not in table)
    ]
    return [*{selection.text.casefold(): selection for selection in [*own, *others]}.values()]


def _takes(reader: LoadTask, table: TableId) -> bool:
    """Whether the task writes rows of a table; where it names its tables, only they count, not
    the filter that lets them pass."""
    if ANY in table:
        return not reader.includes
    return TableFilter(FilterConfig((), reader.includes, reader.excludes)).accepts(table)


def _database(reader: LoadTask) -> str:
    """The target's address without its secrets; nothing where it is incomplete here."""
    if isinstance(reader.target, PublishConfig):
        return f"topic {reader.target.topic} at {reader.target.servers}"
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


def _plain(regex: str) -> str:
    table = table_of(regex)
    return regex if ANY in table else str(table)
