"""Finds where the rows of a consumer task come from: the fetch tasks that write its topics, and the
target table of each table of their sources."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from cdcbus.consumer.config import LoadTask
from cdcbus.plugins.contracts import JdbcTarget
from cdcbus.plugins.errors import CdcError, ConfigError, SourceRefused, SourceUnavailable
from cdcbus.plugins.kafka.topic_names import topic_of
from cdcbus.plugins.mysql.sql_types import GEOMETRIES
from cdcbus.plugins.rowchange import Column, Table, TableId
from cdcbus.plugins.transform.route import Route
from cdcbus.producer.config import FetchTask, SourceConfig
from cdcbus.producer.ddl.table_schema import TableColumn, TableSchema
from cdcbus.producer.ddl.type_names import labels_in
from cdcbus.producer.schema.schema_reader import SchemaReader
from cdcbus.producer.server import connection as servers
from cdcbus.producer.source.event_tables import is_own_table
from cdcbus.producer.table_filter import TableFilter
from cdcbus.tasks.config.read_task import Inspection
from cdcbus.tasks.control.beside import Beside, inspected_beside, shown, tasks_beside
from cdcbus.tasks.control.bus_settings import BusSettings
from cdcbus.tasks.control.named_task import is_file, place_of
from cdcbus.tasks.control.uses import Uses, named_task, task_of
from cdcbus.tasks.lineage.ways import ways

if TYPE_CHECKING:
    from cdcbus.producer.server.connection import Connection


@dataclass(frozen=True, slots=True)
class Feed:
    """A fetch task that feeds a consumer task. `place`: where it is stored. `topics`: the consumer
    task's topics that it writes."""

    fetch: FetchTask
    load: LoadTask
    place: str
    topics: frozenset[str]


@dataclass(frozen=True, slots=True)
class MappedTable:
    """A source table and its target table. `columns`: the copied source columns in order -> their
    target names; `route` also knows the computed and masked ones."""

    source: Table
    schema: TableSchema
    topic: str
    route: Route
    columns: Mapping[str, str]

    @property
    def target(self) -> TableId:
        return self.route.target


@dataclass(frozen=True, slots=True)
class Mapped:
    """`tables`: sorted by name, one entry per target table. `unreadable`: source tables that would
    be among them, but cannot be read -> their target tables. `unopened`: those of them that the
    server cannot open -> a sentence that says why; the user may not read the others."""

    tables: list[MappedTable]
    unreadable: Mapping[TableId, Sequence[TableId]]
    unopened: Mapping[TableId, str] = field(default_factory=dict)


def consumer_task(word: str, bus: BusSettings, uses: Uses) -> LoadTask:
    """The consumer task of a file or an id, with the secrets for these uses. Raises ConfigError for
    a task that does not write to a database."""
    task = named_task(word, bus, lambda _: uses)
    if not isinstance(task, LoadTask) or not isinstance(task.target, JdbcTarget):
        raise ConfigError(
            f"{place_of(word)} does not write to a database; expected a consumer task, "
            "KafkaFetch -> JdbcBatch"
        )
    return task


def feeds_of(
    word: str,
    load: LoadTask,
    bus: BusSettings,
    source: str | None,
    uses: Uses = Uses.READ,
    beside: Beside | None = None,
) -> list[Feed]:
    """The fetch tasks that write the topics of a consumer task, one per topic. `source`, a file or
    an id, names the one for all topics; without it they are looked for beside the task: in its
    folder, or in ZooKeeper. `uses`: what their secrets are needed for; `beside`: those tasks, if
    they are known. Raises ConfigError, which names --source, where a topic has none or several;
    tasks that cannot be read do not count."""
    if source is not None:
        task = named_task(source, bus, lambda _: uses)
        if not isinstance(task, FetchTask):
            raise ConfigError(
                f"--source {source} does not read a binlog; expected a fetch task, CanalFetch -> "
                "KAFKA_SYNC"
            )
        return [Feed(task, load, place_of(source), frozenset(load.source.topics))]
    if beside is None:
        beside = tasks_beside(word, bus)
    chosen: dict[str, set[str]] = {}
    for topic in load.source.topics:
        writers = []
        for place, task in beside.tasks.items():
            if not isinstance(task, FetchTask) or not _writes(task, topic, load):
                continue
            # Of another environment, its Kafka is another one, too, unless it says the same.
            if place not in beside.elsewhere or _is_at_one(task, [load.source.servers]):
                writers.append(place)
        if len(writers) != 1:
            raise _unclear_feed(word, topic, writers, beside)
        chosen.setdefault(writers[0], set()).add(topic)
    feeds: list[Feed] = []
    for place, topics in chosen.items():
        # Read again, as a secret that is missing here now matters.
        fetch = _fetch(inspected_beside(place, word, bus), place, uses)
        feeds.append(Feed(fetch, load, place, frozenset(topics)))
    return feeds


def _unclear_feed(word: str, topic: str, writers: list[str], beside: Beside) -> ConfigError:
    """The error about a topic that no task, or several tasks write."""
    written = f"no fetch task {_where(word)} writes"
    if writers:
        written = f"{' and '.join(writers)} write"
    unread = ""
    if beside.unread_feeds and not writers:
        unread = f" (it may be one that cannot be read: {shown(beside.unread_feeds)})"
    return ConfigError(
        f"{place_of(word)} reads topic {topic}, and {written} to it: name the fetch task that "
        f"feeds it with --source FILE{unread}"
    )


def _where(word: str) -> str:
    if is_file(word):
        return f"in folder {Path(word).parent}"
    return "in ZooKeeper"


def _fetch(inspection: Inspection, place: str, uses: Uses) -> FetchTask:
    task = task_of(inspection, place, lambda _: uses)
    if not isinstance(task, FetchTask):
        raise ConfigError(f"{place} was changed meanwhile; try again")
    return task


def further_feeds(
    load: LoadTask, feeds: Sequence[Feed], beside: Iterable[FetchTask | LoadTask]
) -> list[FetchTask]:
    """The fetch tasks beside a consumer task that send it rows, too, although --source names
    another one. Those of a Kafka with other addresses, whose topics only have the same names, do
    not count."""
    own = {feed.fetch.task_id for feed in feeds}
    addresses = [load.source.servers, *(feed.fetch.publish.servers for feed in feeds)]
    found = []
    for task in beside:
        if not isinstance(task, FetchTask) or task.task_id in own:
            continue
        if not _is_at_one(task, addresses):
            continue
        if any(_feeds(task, topic, load) for topic in load.source.topics):
            found.append(task)
    return found


def _is_at_one(task: FetchTask, addresses: Iterable[str]) -> bool:
    """Whether a fetch task's Kafka has one of the addresses."""
    own = _addresses(task.publish.servers)
    return any(not own.isdisjoint(_addresses(each)) for each in addresses)


def _addresses(bootstrap: str) -> set[str]:
    return set(bootstrap.lower().replace(" ", "").split(","))


def _writes(fetch: FetchTask, topic: str, load: LoadTask) -> bool:
    # Also without its table lists, so that lists that leave out every table get an error of their
    # own.
    bare = replace(
        load,
        includes=frozenset(),
        excludes=frozenset(),
        include_patterns=(),
        exclude_patterns=(),
        regexes=(),
    )
    return _feeds(fetch, topic, load) or _feeds(fetch, topic, bare)


def _feeds(fetch: FetchTask, topic: str, load: LoadTask) -> bool:
    """Whether rows of a fetch task reach the consumer task through a topic."""
    for way in ways([fetch, load]):
        if way.topic == topic and way.fetch_task and way.load_task:
            return True
    return False


@contextmanager
def source_connection(
    config: SourceConfig, read_timeout_seconds: float, server: str = ""
) -> Iterator[Connection]:
    """A connection to the first address that accepts the task. `server`: the identity of the one
    that is wanted; any, if empty. Raises the last address's error where none accepts it, and
    ConfigError where others than the wanted one do."""
    servers.need_server(config)
    connection = _connected(config, read_timeout_seconds, server)
    with servers.reported(config), closing(connection):
        yield connection


def _connected(config: SourceConfig, read_timeout_seconds: float, server: str) -> Connection:
    failure: CdcError | None = None
    has_others = False
    for address in config.addresses:
        at_address = replace(config, addresses=(address,))
        try:
            connection = servers.connect(at_address, read_timeout_seconds)
        except (SourceUnavailable, SourceRefused) as error:
            failure = error
            continue
        if not server or _is_at(connection, server, at_address):
            return connection
        has_others = True
    if failure and not has_others:
        raise failure
    raise ConfigError(
        f"no address of the source ({config.shown}) leads to server {server}, which the fetch task "
        "has read last, and another one may have other rows: start the fetch task, so that it "
        "continues at a server that is there, or correct consumer.source.address, and run it again"
    )


def _is_at(connection: Connection, server: str, config: SourceConfig) -> bool:
    """Whether the connection leads to this server; closes it otherwise."""
    with ExitStack() as stack:
        stack.callback(connection.close)
        with servers.reported(config):
            if servers.identity(connection) != server:
                return False
        # Stays open for the caller.
        stack.pop_all()
        return True


def mapped_tables(feed: Feed, connection: Connection) -> Mapped:
    """The source tables that both tasks' filters let into the feed's topics, without the tasks' own
    tables. Raises ConfigError where there is none, and for a fetch task with a mapper or an event
    processor, whose records are not the source's rows."""
    if feed.fetch.transform:
        raise ConfigError(
            f"{feed.place} has mapper[i] or consumer.eventProcessor of its own, so its records "
            "are not the rows of the source, and target tables cannot be derived from these: "
            f"move mapper and processor to consumer task {feed.load.task_id}, or do this by hand"
        )
    reader = SchemaReader(connection)
    topics = topics_of(feed, sorted(reader.tables()))
    mapper = feed.load.mapper
    schemas, unopened = reader.schemas(list(topics)) if topics else ({}, {})
    found = []
    for table, schema in schemas.items():
        columns = tuple(Column(column.name, record_type(column)) for column in schema.columns)
        source = Table(table, columns, schema.key)
        for route in mapper.routes(table):
            found.append(MappedTable(source, schema, topics[table], route, _copied(route, source)))
    unreadable = {}
    for table in _unreadable(reader, topics.keys() - schemas.keys()):
        unreadable[table] = [route.target for route in mapper.routes(table)]
    if not found and not unreadable:
        raise ConfigError(
            f"{feed.place} lets no table of its source pass into topic "
            f"{', '.join(sorted(feed.topics))} that task {feed.load.task_id} takes: correct "
            "consumer.source.filter, consumer.includes and excludes, GRANT SELECT on the tables, "
            "or name another fetch task with --source FILE"
        )
    found.sort(key=lambda each: (each.source.id, each.target))
    return Mapped(found, unreadable, unopened)


def _unreadable(reader: SchemaReader, missing: Set[TableId]) -> list[TableId]:
    """Those of the listed tables without a schema that are still listed, so not just dropped."""
    if not missing:
        return []
    return sorted(missing & set(reader.tables()))


def unreadable_reason(tables: Iterable[TableId], unopened: Mapping[TableId, str]) -> str:
    """The sentences about source tables that cannot be read; see `Mapped`."""
    hidden = []
    sentences = []
    for table in tables:
        if table in unopened:
            sentences.append(unopened[table])
        else:
            hidden.append(str(table))
    if hidden:
        sentences.append(
            f"source table {', '.join(hidden)} is there and belongs to the task, but the fetch "
            "task's user may not read it: GRANT SELECT on it, or leave it out "
            "(consumer.source.filter of the fetch task, consumer.excludes of the consumer task)"
        )
    return "; ".join(sentences)


def unseen(load: LoadTask, seen: Iterable[TableId]) -> list[str]:
    """The tables that a consumer task names, and that are not among those seen, in upper case."""
    # includes is in upper case, as porter ignores the case of names.
    return sorted(load.includes - {str(table).upper() for table in seen})


def unseen_reason(names: str) -> str:
    """The sentence about tables that the consumer task names, and the source does not show."""
    return (
        f"source table {names} is in consumer.includes, but the source shows no such table to "
        "the fetch task's user, or the fetch task's filter leaves it out: GRANT SELECT on it, "
        "or correct the list"
    )


def topics_of(feed: Feed, tables: Sequence[TableId]) -> dict[TableId, str]:
    """The tables that both tasks' filters let into the feed's topics -> their topic."""
    accepts = TableFilter(feed.fetch.tables).accepts
    topics: dict[TableId, str] = {}
    for table in tables:
        if accepts(table) and feed.load.wants(table) and not is_own_table(table):
            topic = topic_of(table, feed.fetch.publish)
            if topic in feed.topics:
                topics[table] = topic
    return topics


def _copied(route: Route, source: Table) -> dict[str, str]:
    # A computed column replaces a copied one of the same name.
    computed = set(map(str.lower, route.rule.computed))
    copied: dict[str, str] = {}
    for column in source.columns:
        name = route.wanted(column.name)
        if name is not None and name.lower() not in computed:
            copied[column.name] = name
    return copied


def record_type(column: TableColumn) -> str:
    """A column's type as records spell it: all geometries are one type, and integers have no
    width."""
    if column.data_type in GEOMETRIES:
        return "geometry"
    if column.data_type in ("tinyint", "smallint", "mediumint", "int", "bigint"):
        unsigned = " unsigned" * ("unsigned" in column.type)
        # tinyint(1) is how MySQL spells BOOLEAN; other widths only concern the display.
        width = "(1)" * column.type.startswith("tinyint(1)")
        return f"{column.data_type}{width}{unsigned}"
    if column.data_type in ("enum", "set"):
        # Spelled again, without the escapes that information_schema shows.
        quoted = ["'" + label.replace("'", "''") + "'" for label in labels_in(column.type)]
        return f"{column.data_type}({','.join(quoted)})"
    return column.type
