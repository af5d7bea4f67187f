"""Where rows come from and where they go: source table -> topic -> task -> target table, derived
from the tasks alone. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from cdcbus.consumer.config import LoadTask
from cdcbus.plugins.kafka.config import PublishConfig
from cdcbus.plugins.rowchange import TableId
from cdcbus.producer.config import FetchTask
from cdcbus.tasks.lineage.readers import Reader
from cdcbus.tasks.lineage.topics import (
    ANY,
    ANY_TABLE,
    table_in,
    tables_in,
    topics_of,
    written_topics,
)
from cdcbus.tasks.lineage.writers import Selection, Writer, one_spelling


@dataclass(frozen=True, slots=True, order=True)
class Way:
    """One way of rows. A text is empty where no known task provides it: `fetch_task` for a topic
    that no task writes, `load_task` for one that no task reads.

    `source` is a table, or the filter as written if the task does not name its tables. `*` in
    `source` and `target` stands for any name. Where `load_task` sends rows on to another topic,
    `onward` is their way from there, as if it had fetched them.
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
        """Whether a word is part of a source, topic or target, in any case."""
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


class _Tasks:
    """Tasks by the topics that they share, so that each topic involves only its own tasks: a bus
    has hundreds, most with a topic of their own."""

    def __init__(self, tasks: Sequence[FetchTask | LoadTask], asked: set[TableId]) -> None:
        self.readers: list[Reader] = []
        self.readers_of: dict[str, list[Reader]] = defaultdict(list)
        self.known_writers_of: dict[str, list[Writer]] = defaultdict(list)
        self._fixed_writers_of: dict[str, list[Writer]] = defaultdict(list)
        # Tasks whose topics are named after tables or schemas: they may write any topic.
        self._other_writers: list[Writer] = []
        for task in tasks:
            if isinstance(task, FetchTask):
                self._add_writer(Writer(task, asked))
            else:
                self._add_reader(Reader(task))

    def _add_writer(self, writer: Writer) -> None:
        for topic in writer.topics:
            self.known_writers_of[topic].append(writer)
        if writer.fixed_topics is None:
            self._other_writers.append(writer)
            return
        for topic in writer.fixed_topics:
            self._fixed_writers_of[topic].append(writer)

    def _add_reader(self, reader: Reader) -> None:
        self.readers.append(reader)
        for topic in set(reader.task.source.topics):
            self.readers_of[topic].append(reader)

    def topics(self) -> set[str]:
        """The topics that tasks are known to write, or read."""
        return {*self.known_writers_of, *self.readers_of}

    def writers_of(self, topic: str) -> list[Writer]:
        """The tasks that may write a topic."""
        return [*self._fixed_writers_of.get(topic, ()), *self._other_writers]

    def readers_behind(self, config: PublishConfig) -> Iterator[tuple[str, Reader]]:
        """The tasks that read what a task may send on, with the topic."""
        topics = written_topics(config)
        # Those that are named after tables may be any.
        if topics is None:
            topics = set(self.readers_of)
        for topic in topics:
            for reader in self.readers_of.get(topic, ()):
                yield topic, reader


def ways(tasks: Sequence[FetchTask | LoadTask], word: str = "") -> list[Way]:
    """All ways that contain the word, sorted. Tasks meet where they name the same topic. A word
    that is a table's full name is also followed through filters that accept this table without
    naming it."""
    known = _Tasks(tasks, tables_in(word))
    found: set[Way] = set()
    for topic in known.topics():
        found.update(_ways_of(topic, known))
    # A part of a longer way is not shown again on its own.
    continued = _Continued(found)
    return sorted(way for way in found if way.holds(word) and not continued.has(way))


class _Continued:
    """The ways from topics that tasks send rows on to, which are parts of longer ways."""

    def __init__(self, found: set[Way]) -> None:
        # By topic and reader: the target tables, any case.
        self._targets: dict[tuple[str, str], set[str]] = defaultdict(set)
        for way in found:
            if way.onward:
                for hop in way.onward.hops():
                    self._targets[hop.topic, hop.load_task].add(hop.target.casefold())

    def has(self, way: Way) -> bool:
        """Whether a way without a fetch task is the continuation of another way."""
        if way.fetch_task:
            return False
        targets = self._targets.get((way.topic, way.load_task), set())
        if ANY in way.source:
            return bool(targets)
        return way.target.casefold() in targets


def _ways_of(topic: str, tasks: _Tasks) -> Iterator[Way]:
    readers = tasks.readers_of.get(topic, [])
    # A table that one task names may pass the filter of another that does not name it.
    named: set[TableId] = set()
    for writer in tasks.known_writers_of.get(topic, ()):
        named |= writer.named
    for reader in readers:
        named |= reader.named
    writers = []
    for writer in tasks.writers_of(topic):
        if selections := writer.selected_for(topic, named):
            writers.append(writer)
            yield from _fed(writer, topic, selections, readers, tasks)
    for reader in readers:
        for table in _unfed(reader, topic, writers):
            yield from _onward(Way(str(table), "", "", topic), table, (reader,), tasks)


def _unfed(reader: Reader, topic: str, writers: list[Writer]) -> list[TableId]:
    """The tables that a consumer task expects in a topic but that no known task writes to it."""
    if not writers:
        return one_spelling(reader.named) or [ANY_TABLE]
    if not reader.task.named_tables:
        return []
    unfed = []
    for table in reader.named:
        if not any(writer.sends_as(table, topic) for writer in writers):
            unfed.append(table)
    return unfed


def _fed(
    writer: Writer,
    topic: str,
    selections: list[Selection],
    readers: list[Reader],
    tasks: _Tasks,
) -> Iterator[Way]:
    """The ways of one fetch task through a topic. A table that no reader takes ends at the topic; a
    filter does not, if tables that it accepts continue."""
    takers: dict[Selection, list[tuple[Reader, TableId]]] = {}
    for selection in selections:
        takers[selection] = []
        for name in writer.sent(selection.table):
            if topic in topics_of(name, writer.task.publish):
                takers[selection] += [(reader, name) for reader in readers if reader.takes(name)]
    is_read = any(takers.values())
    for selection, taken_by in takers.items():
        head = Way(selection.text, writer.server, writer.task.task_id, topic)
        for reader, name in taken_by:
            yield from _onward(head, name, (reader,), tasks)
        # An open selection whose tables are followed one by one.
        is_covered = is_read and ANY in selection.table
        if not taken_by and not is_covered:
            yield head


def _onward(head: Way, table: TableId, passed: tuple[Reader, ...], tasks: _Tasks) -> Iterator[Way]:
    """The ways of a table through the last of the consumer tasks that it has `passed`."""
    reader = passed[-1]
    for route in reader.mapper.routes(table):
        way = replace(
            head,
            load_task=reader.task.task_id,
            target=str(route.target),
            database=reader.database,
        )
        is_last = True
        if isinstance(reader.task.target, PublishConfig):
            for onward in _sent_on(reader.task.target, route.target, passed, tasks):
                is_last = False
                yield replace(way, onward=onward)
        if is_last:
            yield way


def _sent_on(
    config: PublishConfig, table: TableId, passed: tuple[Reader, ...], tasks: _Tasks
) -> Iterator[Way]:
    """The ways of a table after the task that sends it on."""
    sender = passed[-1].task.task_id
    topics = topics_of(table, config)
    for topic, reader in tasks.readers_behind(config):
        # Tasks that send rows in a circle would never end.
        if reader in passed:
            continue
        own: TableId | None = None
        # A topic that is named after a table says which of the open ones it is.
        if ANY in table:
            own = table_in(topic, table.schema, config)
        if own or topic in topics:
            for taken in reader.taken(own or table):
                head = Way(str(taken), "", sender, topic)
                yield from _onward(head, taken, (*passed, reader), tasks)
