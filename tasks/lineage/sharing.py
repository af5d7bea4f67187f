"""The tasks whose rows go to one target table, derived from the tasks alone. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cdcbus.consumer.config import LoadTask
from cdcbus.plugins.contracts import JdbcTarget
from cdcbus.plugins.rowchange import TableId
from cdcbus.plugins.transform.selectors import is_pattern, leads_to, lowered, source_of
from cdcbus.producer.config import FetchTask
from cdcbus.tasks.lineage.readers import Reader
from cdcbus.tasks.lineage.topics import ANY
from cdcbus.tasks.lineage.writers import Writer


def other_writers(
    table: TableId, own: LoadTask, tasks: Sequence[FetchTask | LoadTask]
) -> list[str]:
    """The ids of the tasks that may write to a target table of a task's, without that task itself,
    sorted. A task whose topics none of `tasks` writes counts only with tables that it names."""
    database = _database(own)
    writers = [Writer(task, set()) for task in tasks if isinstance(task, FetchTask)]
    found = set()
    for task in tasks:
        if not isinstance(task, LoadTask) or task.task_id == own.task_id:
            continue
        if not isinstance(task.target, JdbcTarget) or _database(task) != database:
            continue
        if _may_write(Reader(task), table, writers):
            found.add(task.task_id)
    return sorted(found)


def may_send(table: TableId, fetch: FetchTask, load: LoadTask) -> bool:
    """Whether a fetch task that writes topics of a consumer task may send rows of a target table of
    that."""
    writer = Writer(fetch, set())
    # It says nothing about the task's other topics.
    topics = tuple(topic for topic in load.source.topics if _may_name(writer, topic))
    reader = Reader(replace(load, source=replace(load.source, topics=topics)))
    return _may_write(reader, table, [writer])


def _database(task: LoadTask) -> str:
    database = Reader(task).database.casefold()
    scheme, mark, address = database.partition("://")
    # The name of a table there begins with its database, whichever the address names.
    if scheme == "mysql":
        return scheme + mark + address.partition("/")[0]
    return database


def _may_write(reader: Reader, table: TableId, writers: Sequence[Writer]) -> bool:
    rules = [rule for rule in reader.task.rules if leads_to(rule, table)]
    sources = {source_of(rule, table) for rule in rules}
    # The tables that a pattern stands for are known only from a list.
    if not reader.task.named_tables and any(map(_is_open, sources)):
        return True
    for name in {table, *sources, *reader.named}:
        if not _is_open(name) and _takes(reader, name, table) and _is_fed(reader, name, writers):
            return True
    return False


def _is_open(table: TableId) -> bool:
    return ANY in table or any(map(is_pattern, table))


def _takes(reader: Reader, name: TableId, table: TableId) -> bool:
    """Whether rows of a source table go to the target table."""
    if not reader.takes(name):
        return False
    targets = [lowered(route.target) for route in reader.mapper.routes(name)]
    return lowered(table) in targets


def _is_fed(reader: Reader, name: TableId, writers: Sequence[Writer]) -> bool:
    """Whether rows of a source table are in the task's topics, as far as is known."""
    upper = str(name).upper()
    is_named = upper in {str(each).upper() for each in reader.named}
    for topic in reader.task.source.topics:
        known = [each for each in writers if _may_name(each, topic)]
        if any(writer.sends_as(name, topic) for writer in known):
            return True
        if not known and is_named:
            return True
    return False


def _may_name(writer: Writer, topic: str) -> bool:
    """Whether a fetch task may write to a topic."""
    return writer.fixed_topics is None or topic in writer.fixed_topics
